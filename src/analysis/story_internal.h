/* What the files of the story share. Calls go one way: story.c, story_calls.c, story_rounds.c, story_kinds.c; story_told.c
 * looks at what the fold has made. */
#ifndef ANALYSIS_STORY_INTERNAL_H
#define ANALYSIS_STORY_INTERNAL_H
#include "analysis/story.h"
#include "analysis/story_words.h"
#include "base/map.h"
#include "trace/reader.h"

#define NO_ROUND UINT32_MAX
#define NOWHERE  SIZE_MAX

/* What else the fold does at a kind. */
enum story_role { ROLE_NONE, ROLE_START, ROLE_END, ROLE_JOIN, ROLE_RENDEZVOUS, ROLE_ISSUE, ROLE_ALGORITHM, ROLE_HOP,
                  ROLE_SAY, ROLE_ASK, ROLE_CHECK, ROLE_BUCKET, ROLE_FAULT };

/* A kind, by its number in the trace. */
struct story_kind {
    enum story_part part;
    enum story_role role;
    bool            nests, shields;                 /* shields: collectives inside of it are not the lesson's own */
    bool            sums;                           /* of a bucket it is a scene */
    int8_t          world, bucket, sequence;        /* which argument; -1: none */
    uint8_t         counters, texts;                /* a bit for each argument that counts on, that is a text */
};

/* Some of the ranks, each a bit; number 0 is who has no rank. */
struct members { uint64_t low, *more; size_t room; };   /* below 64; the others */

/* Of an act: the nth of its track. Equal marks for equal scenes in the same place of a track. */
struct scene { uint64_t mark; uint32_t track, nth; };

struct round {
    uint16_t       kind;
    bool           is_act, is_word, is_wide, closed, cut, as_before, has_told;   /* cut: by a fault */
    bool           undecided;                       /* an act that may be as the one before: its scenes will tell */
    uint32_t       act, spawn, iteration;           /* act: around it; NO_ROUND */
    uint32_t       track;                           /* of the lanes that it is on: main, comm */
    int            came, come, expected, world;     /* members; with those who count as come; how many of each; 0: not known */
    int            within, scenes_open;             /* stages that have begun and not ended; an act's scenes that are open */
    struct members here, past, inside;              /* came; count as come; have begun, and not ended */
    size_t         first, last;                     /* last: NOWHERE: nobody has come yet */
    int            step;                            /* of a collective; 0: none */
    int64_t        bucket;                          /* -1 */
    uint32_t       like, as;                        /* an act: which one it repeats so far, and the iteration that is told */
    uint64_t       mark, algorithm;                 /* equal for equal kinds and arguments; of a call, 0: not known yet */
    struct scene  *scenes;                          /* an act: as they came */
    size_t         scene_count, scene_room;
};

struct stage { uint16_t kind; uint32_t round; int64_t bucket; };
struct story_lane {
    struct stage *open;
    size_t        count, room;
    bool          is_main;
    uint32_t      track, word;                      /* word: neighbouring says are one; NO_ROUND */
    int           hops;
    bool          folded;
};
struct story_rank { uint32_t spawn, act; size_t loose; bool ended, is_told; };
/* A call that was issued and has not begun. */
struct issue { int16_t rank; uint16_t kind; int64_t sequence, group, bucket; bool own; };
/* What ran as before, and where. */
struct passed { size_t at; uint32_t spawn, iteration, as; bool is_act; };

struct story {
    struct trace      *trace;
    uint64_t           version;                     /* of the trace's order */
    size_t             read;
    bool               starved;                     /* there was no memory for all of it */
    bool               over;                        /* story_close */
    struct story_kind *kinds;
    size_t             kind_count;
    struct story_lane *lanes;
    size_t             lane_count, lane_room;
    struct story_rank *ranks;
    size_t             rank_count, rank_room;
    struct round      *rounds;
    size_t             round_count, round_room;
    uint32_t          *open;                        /* rounds that may still change, in the order of their begins */
    size_t             open_count, open_room;
    struct map         by_key, counts, acts, algorithms, cuts;   /* cuts: what each bucket of a rank holds */
    struct map         wholes;                      /* the iteration of an act with these scenes, the first in its spawn */
    struct map         operations;                  /* the kind that does it, by its text's number */
    struct issue      *issues;
    size_t             issue_count, issue_room;
    uint32_t           spawn;                       /* 0: none yet */
    int                world, alive;                /* ranks of the spawn, 0: not known yet; those that have not ended */
    uint32_t           main_lane;                   /* of who has no rank */
    uint32_t           fault;                       /* the round of the fault that others may follow; NO_ROUND */
    struct passed     *passed;                      /* in the order of events */
    size_t             passed_count, passed_room;
    struct story_stop *stops;
    size_t             stop_count, stop_room;
    size_t             loose, lost, questions;      /* lost: came to a round that was told without them */
};

/* ---- story_kinds.c ---- */
bool     story_learn(struct story *story);          /* false: no memory */
/* Of kind and arguments, but for those that count on from call to call. */
uint64_t story_mark(const struct story *story, const struct trace_event *event);

/* ---- story_rounds.c ---- */
static inline int rank_number(int rank) { return rank < 0 ? 0 : rank + 1; }
static inline int rank_of_number(int number) { return number - 1; }
bool     members_have(const struct members *members, int number);
int      members_most(const struct members *members);   /* numbers are below it */
void     round_free(struct round *round);
/* The round with that key that `number` may enter, made with what `sketch` says if there is none: who comes to one that is
 * over is in a later one, but for one that a fault has cut. NO_ROUND: no memory. */
uint32_t round_of(struct story *story, uint64_t key, int number, const struct round *sketch);
void     round_enter(struct story *story, uint32_t round, int number);
void     round_come(struct story *story, uint32_t round, int number, size_t seq);
void     round_leave(struct story *story, uint32_t round, int number);      /* its end will not come */
void     rank_moves_on(struct story *story, int number, uint32_t round);    /* past all older rounds of its track */
void     rank_leaves(struct story *story, int number, uint32_t act);
void     rank_ends(struct story *story, int number);
void     round_close(struct story *story, uint32_t round);
void     rounds_close(struct story *story, bool cut);   /* all */
void     act_goes_by(struct story *story, uint32_t act, uint64_t algorithm);  /* a call is told if that is another one */
void     wide_close(struct story *story, uint16_t but);

/* ---- story_calls.c: whose collective is it, and which bucket's ---- */
void     note_issue(struct story *story, const struct trace_event *event);
/* The oldest call of that rank that the event begins; it is forgotten. false: there is none. */
bool     take_issue(struct story *story, const struct trace_event *event, struct issue *out);
void     forget_issues(struct story *story, int rank);
#endif
