/* One collective as of an event: which rank has which chunk, and whose parts are summed up in it; what is under way.
 * Everything is folded from the events between its first rank's beginning and the event, so a long trace costs no more
 * than a short one. What was not recorded stays unknown: counts are -1 then, lists are empty.
 * Order of use: rounds_at, then the fields, rounds_print; rounds_free. */
#ifndef ANALYSIS_ROUNDS_H
#define ANALYSIS_ROUNDS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace; struct state; struct str;

/* How the event lies to the collective. */
enum rounds_when {
    ROUNDS_NONE,     /* there is none near it */
    ROUNDS_NOW,      /* in it */
    ROUNDS_LAST,     /* the last one before it in its iteration */
    ROUNDS_NEXT      /* the next one in its iteration: nobody has begun */
};

/* What a collective leaves where. */
enum rounds_form {
    FORM_SUM,        /* all-reduce, reduce: a tensor in chunks, everybody's part is to be in each */
    FORM_PIECES,     /* all-gather, gather, scatter, all-to-all: one piece a rank, which go where they are wanted */
    FORM_WHOLE,      /* broadcast: one tensor that goes round */
    FORM_MESSAGES,   /* send and recv, a script's own algorithm: what a message means is not recorded */
    FORM_MEETING     /* barrier: who has come */
};

/* `ranks`: a bit for each member whose part is in it, of the first 64; `count`: how many. 0: it is not there. */
struct share { uint64_t ranks; int count; };

struct rounds_member {
    int      rank;             /* of the world; -1 not known yet */
    uint32_t lane;
    size_t   begin, end;       /* its stage; SIZE_MAX: has not come, has not ended */
    int      hops;             /* messages that it has begun to send */
    int64_t  sent;             /* bytes of them */
    int      sending;          /* the message that it sends, as an index; -1 none */
    int64_t  first, elements, checksum, numbers; /* what it said that its next message carries; elements -1: nothing */
};

struct rounds_message {
    size_t   seq;              /* of its comm.hop */
    uint32_t flow;
    int      from, to;         /* members; -1: not one of them */
    int      from_rank, to_rank;
    int64_t  chunk, bytes;
    int64_t  first, elements, checksum, numbers; /* elements -1: not recorded; numbers: a snapshot's id */
    bool     reduce, arrived;
    int      column, columns;  /* chunks that it carries; columns 0: not known */
    size_t   shares;           /* what it carries of them, an index into `carried` */
};

struct rounds {
    struct trace    *trace;
    enum rounds_when when;
    enum rounds_form form;
    size_t           seq;              /* as of this event */
    size_t           begin;            /* the stage that was found first, one rank's; for NEXT it lies behind seq */
    const char      *kind;             /* "allreduce" */
    const char      *algorithm;        /* "ring"; "" not recorded */
    int64_t          sequence;         /* -1: it has none */
    int64_t          bytes, elements;  /* of one rank's tensor; -1 not recorded */
    int              group;            /* its number; 0: all ranks */
    int              bucket;           /* of DDP; -1: it is no bucket's */
    int              root;             /* a member; -1: it has none */
    bool             cut_off;          /* too many events lie between: who has come, no more */
    struct rounds_member  *members;    /* in order of their ranks */
    int                    member_count;
    int64_t               *cut;        /* chunk c has elements cut[c] to cut[c + 1]; NULL: not recorded */
    int                    columns;    /* chunks; 0: not known (yet) */
    struct share          *shares;     /* [member * columns + chunk] */
    int                   *owners;     /* [chunk]: the member that had all of it first; -1 */
    struct rounds_message *messages;
    size_t                 message_count, message_room;
    struct share          *carried;
    size_t                 carried_count, carried_room;
    int64_t                moved, total; /* bytes that arrived, of all; total -1: not known */
    int                    steps;      /* messages of each rank; 0: ranks differ, or it is not known */
    int                    current;    /* the message that the event is about, else the one begun last; -1 none */
    bool                   here;       /* the event is about it */
};

/* NULL: no memory. `state` has been moved to the event; buckets are asked of it. */
struct rounds *rounds_at(struct trace *trace, const struct state *state, size_t seq);
void           rounds_free(struct rounds *rounds);

/* Of a chunk at a member. */
struct share rounds_share(const struct rounds *rounds, int member, int column);
/* How many parts a chunk has that is complete. */
int  rounds_full(const struct rounds *rounds);
/* All chunks that the collective leaves with the member are there. */
bool rounds_is_done(const struct rounds *rounds, int member);

/* In words, for panes and lines alike. */
void rounds_heading(const struct rounds *rounds, struct str *out);    /* "allreduce #7 bucket 0 ring" */
void rounds_progress(const struct rounds *rounds, struct str *out);   /* "step 2/6 adds" */
void rounds_moved(const struct rounds *rounds, struct str *out);      /* "40/192 B"; nothing if nothing moved */
void rounds_chunk(const struct rounds *rounds, int message, struct str *out);   /* "c2"; nothing if it is no chunk */
void rounds_effect(const struct rounds *rounds, int message, struct str *out);  /* "sum of 2, to be added" */
void rounds_numbers(const struct rounds *rounds, int message, int most, struct str *out); /* "30 31"; a checksum if none */
void rounds_message_words(const struct rounds *rounds, int message, struct str *out); /* all that is known of it */
const char *rounds_member_state(const struct rounds *rounds, int member);       /* "has not come" */
void rounds_print(const struct rounds *rounds, struct str *out);      /* all of it in lines */
#endif
