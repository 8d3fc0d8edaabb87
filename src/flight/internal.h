/* What the units of src/flight that diagnose and tell share, in the order in which one needs the other. */
#ifndef FLIGHT_INTERNAL_H
#define FLIGHT_INTERNAL_H
#include "base/str.h"
#include "flight/flight.h"

/* ---- calls.c: are two calls the same one? ---- */

/* HANG_NONE: as far as both are known they could meet; else the first thing that differs, from HANG_OPERATION on. */
enum hang_cause calls_differ(const struct flight_entry *a, const struct flight_entry *b);
bool            texts_equal(const char *a, const char *b);                    /* NULL: only with NULL */
const char     *either(const char *first, const char *second);               /* the first that says anything: no "[]" */
bool            same_place(const struct flight_entry *a, const struct flight_entry *b);   /* both known, and equal */
bool            other_place(const struct flight_entry *a, const struct flight_entry *b);  /* both known, and not */
uint64_t        call_hash(const struct flight_entry *entry);                  /* of what calls_differ compares */

/* ---- survey.c: who has come how far ---- */

enum wait_kind { WAIT_NONE, WAIT_COLLECTIVE, WAIT_SEND, WAIT_RECV, WAIT_NEW_GROUP, WAIT_LOCK, WAIT_OTHER };
struct waiting {
    enum wait_kind             kind;
    const char                *what;       /* "all_reduce" */
    int                        group;      /* -1 */
    int64_t                    sequence;   /* -1 */
    int                        peer;       /* -1 */
    int64_t                    tag;        /* -1 */
    const struct flight_entry *entry;      /* the call, where it is known */
};

/* Collectives of a group that a member made, by sequence. */
struct roll { const struct flight_entry **calls; size_t count; };

struct survey {
    const struct flight *flight;
    int64_t            **reached;          /* by group, by rank in it: the last collective's number; made when asked */
    struct roll        **rolls;            /* by group, by rank in it: made by survey_rolls */
    const struct flight_entry **sorted;    /* what the rolls hold */
    bool                 broken;           /* no memory: what is asked answers nothing */
};

bool survey_open(struct survey *survey, const struct flight *flight);
void survey_close(struct survey *survey);
bool survey_rolls(struct survey *survey);                 /* reads all entries: for who diagnoses */
const int64_t *survey_reached(struct survey *survey, int group);
const struct flight_rank *rank_in(const struct flight *flight, int rank);   /* absent where there is none */
const struct flight_group *group_in(const struct flight *flight, int group);   /* NULL */
bool entry_is_send(const struct flight_entry *entry);
bool entry_is_recv(const struct flight_entry *entry);
bool entry_is_over(struct survey *survey, const struct flight_entry *entry);
const struct flight_entry *call_of(const struct flight *flight, int rank, int group, int64_t sequence);
struct waiting waiting_of(struct survey *survey, int rank);
bool same_detail(const struct flight *flight, int rank, int other);
/* Whom that waits for, of the ranks that are there, to `out`; *outside: the lowest member that is not, else -1. */
int  waited_for(struct survey *survey, int rank, const struct waiting *waiting, int *out, int *outside);
/* How many members of its group have come to a collective. */
int  arrived(struct survey *survey, const struct waiting *waiting);

/* ---- order.c: the first call that differs ---- */

/* Of all groups; `known_over`: also calls that came to their end everywhere in spite of it. */
bool find_difference(struct survey *survey, bool known_over, struct hang *hang);
/* The calls are equal, but the culprit's places run ahead of the victim's: it left one out before. */
bool find_silent_skip(struct survey *survey, struct hang *hang);

/* ---- circle.c: the graph of who waits for whom ---- */

struct graph {
    struct waiting *waits;                 /* by rank */
    int            *wait;                  /* by rank: its wait, -1: it does not wait */
    size_t         *first;                 /* by wait: where its targets begin; one more ends them */
    int            *targets;
    int            *outside;               /* by wait: a member of whom nothing is there, -1 */
    bool           *open;                  /* by wait: a receive from any rank, and one of them could still send */
    int             rank_count, wait_count;
    size_t          target_count, target_room;
};

bool graph_open(struct graph *graph, struct survey *survey);
void graph_close(struct graph *graph);
/* The shortest circle through the lowest rank of the first one found, in order, to `circle` (room for all ranks). */
int  graph_circle(const struct graph *graph, int *circle);

/* ---- words.c: the report's words ---- */

enum { REPORT_INDENT = 2 };                /* columns that who prints the lines keeps */
bool        default_group(const struct flight *flight, int group);
void        sort_ranks(int *ranks, int count);
void        say_ranks(const int *ranks, int count, struct str *out);          /* "rank 1", "ranks 0, 2-63" */
void        say_rank_list(const int *ranks, int count, struct str *out);      /* "0, 2-63" */
void        say_place(const char *file, uint32_t line, struct str *out);      /* " (line 8)", " (train.py:88)" */
void        say_group(const struct flight *flight, int group, struct str *out);   /* "group 1", "the default group" */
void        say_of_group(const struct flight *flight, int group, struct str *out);  /* " of group 1"; nothing for the default one */
void        say_sizes(const char *sizes, struct str *out);                    /* "[3, 4]" of "[[3, 4]]" */
void        say_dtypes(const char *dtypes, struct str *out);                  /* "Float" of "[Float]" */
void        say_call(const struct flight *flight, const struct flight_entry *entry, struct str *out);
void        say_call_at(const struct flight *flight, const struct flight_entry *entry, struct str *out);   /* with its place */
enum { WITHOUT_TAG = 1, WITHOUT_PLACE = 2, WITH_DETAIL = 4 };
void        say_waiting(const struct flight *flight, int rank, const struct waiting *waiting, int without, struct str *out);
void        say_seconds(uint64_t ps, struct str *out);                        /* "3.0 s" */
uint32_t    waiting_line(const struct flight *flight, int rank, const struct waiting *waiting, const char **file);
/* The line to `out`, cut with "..." where it is longer than `width`, and ended. Bytes that are no ASCII become "?". */
void        put_cut(const char *line, int width, struct str *out);
size_t      last_gap(const char *line, size_t room);      /* where a line that is longer than `room` is parted; 0 */
/* The same, wrapped at blanks, but not in brackets; what follows the first line is indented. */
void        put_wrapped(const char *line, int width, int indent, struct str *out);

bool        is_p2p_call(const struct flight_entry *entry);
void        say_circle(const struct hang *hang, struct str *out);              /* "0 -> 1 -> 0" */

/* One sentence, longest first: the first way that fits is taken, or the last. */
enum { WAYS = 7 };
struct saying { struct str way[WAYS]; int bare; };      /* `bare`: from this way on there are no places; 0: there are */
void fork_saying(struct saying *saying);      /* what was said so far also begins the second way */

/* ---- fact.c, cause.c: the first two lines ---- */

struct teller {
    const struct flight *flight;
    const struct hang   *hang;
    struct survey        survey;
    struct graph         graph;
    int                 *ranks;            /* room for twice all */
    bool                 bare;             /* the first line had no room for places: the second has to tell them */
};
/* With room for what is asked; what was opened in vain is closed as well. (fact.c) */
bool teller_open(struct teller *teller, const struct flight *flight, const struct hang *hang);
void teller_close(struct teller *teller);
const struct waiting *wait_of(const struct teller *teller, int rank);          /* NULL: it does not wait */
/* Ranks of its group that made the call that `rank` made, from the same place. */
int  ranks_alike(const struct teller *teller, const struct flight_entry *entry, int rank, int *ranks);
int  targets_like(const struct teller *teller, int rank, int like, int *ranks);

void say_fact(struct teller *teller, struct saying *saying);
void say_cause(struct teller *teller, struct saying *saying);
/* cause_calls.c: of two calls that differ */
void cause_skipped(struct teller *teller, struct saying *saying);
void cause_order(struct teller *teller, struct saying *saying);
void cause_operation(struct teller *teller, struct saying *saying);
void cause_value(struct teller *teller, struct saying *saying);
void cause_value_sent(struct teller *teller, struct saying *saying);

/* ---- rows.c: how far each rank came, and what it does now ---- */
void put_rows(struct teller *teller, int width, struct str *out);
#endif
