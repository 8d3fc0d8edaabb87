/* What the files of the story share. Calls go one way: story.c, story_rounds.c, story_kinds.c. */
#ifndef ANALYSIS_STORY_INTERNAL_H
#define ANALYSIS_STORY_INTERNAL_H
#include "analysis/story.h"
#include "analysis/story_words.h"
#include "base/map.h"
#include "trace/reader.h"

#define NO_ROUND UINT32_MAX
#define NOWHERE  SIZE_MAX

/* What else the fold does at a kind. */
enum story_role { ROLE_NONE, ROLE_START, ROLE_END, ROLE_RENDEZVOUS, ROLE_ISSUE, ROLE_ALGORITHM, ROLE_HOP, ROLE_SAY,
                  ROLE_CHECK, ROLE_BUCKET, ROLE_FAULT };

/* A kind, by its number in the trace. */
struct story_kind {
    enum story_part part;
    enum story_role role;
    bool            nests, waits, shields;          /* shields: collectives inside of it are not the lesson's own */
    int8_t          world, bucket, sequence;        /* which argument; -1: none */
    uint8_t         counters, texts;                /* a bit for each argument that counts on, that is a text */
};

/* Some of the ranks, each a bit; number 0 is who has no rank. */
struct members { uint64_t *word; size_t room; };

struct round {
    uint16_t       kind;
    bool           is_act, is_word, is_wide, closed, as_before;
    uint32_t       act, spawn, iteration;           /* act: around it; NO_ROUND */
    int            come, expected;                  /* expected 0: not known yet */
    struct members here, past, inside;              /* came; count as come; have begun, and not ended */
    size_t         first, last;                     /* last: NOWHERE: nobody has come yet */
    int            step;                            /* of a collective; 0: none */
    int64_t        bucket;                          /* -1 */
    uint32_t       like, as;                        /* an act: which one it repeats so far, and the iteration that is told */
    uint64_t       mark;                            /* equal for equal kinds and arguments */
    uint64_t      *scenes;                          /* an act: the marks of its scenes, in order */
    size_t         scene_count, scene_room;
};

struct stage { uint16_t kind; uint32_t round; int64_t bucket; };
struct story_lane { struct stage *open; size_t count, room; uint32_t word; int hops; bool folded; };
struct story_rank { uint32_t spawn, act; size_t loose; bool has_act; };
/* A call that was issued and has not begun. */
struct issue { int16_t rank; int64_t sequence, group, bucket, operation; bool own; };

struct story {
    struct trace      *trace;
    size_t             read;
    bool               starved;                     /* there was no memory for all of it */
    struct story_kind *kinds;
    size_t             kind_count;
    struct story_lane *lanes;
    size_t             lane_count, lane_room;
    struct story_rank *ranks;
    size_t             rank_count, rank_room;
    struct round      *rounds;
    size_t             round_count, round_room;
    uint32_t          *open;                        /* rounds that may still get members, in the order of their begins */
    size_t             open_count, open_room;
    struct map         by_key, counts, acts, algorithms, cuts;   /* cuts: what each bucket of a rank holds */
    struct issue      *issues;
    size_t             issue_count, issue_room;
    uint32_t           spawn;                       /* from 1 */
    int                world;                       /* ranks of the spawn; 0: not known yet */
    uint32_t           main_lane;                   /* of who has no rank */
    uint32_t           fault;                       /* the round of the fault that others may follow; NO_ROUND */
    uint32_t           again_from, again_to, again_as;
    struct story_stop *stops;
    size_t             stop_count, stop_room;
    size_t             loose, questions;
};

/* ---- story_kinds.c ---- */
bool     story_learn(struct story *story);          /* false: no memory */
/* Of kind and arguments, but for those that count on from call to call. */
uint64_t story_mark(const struct story *story, const struct trace_event *event);

/* ---- story_rounds.c ---- */
static inline int rank_number(int rank) { return rank < 0 ? 0 : rank + 1; }
static inline int rank_of_number(int number) { return number - 1; }
bool     members_have(const struct members *members, int number);
/* The round with that key, made with what `sketch` says if there is none; NO_ROUND: no memory. */
uint32_t round_of(struct story *story, uint64_t key, const struct round *sketch);
void     round_enter(struct story *story, uint32_t round, int number);
void     round_come(struct story *story, uint32_t round, int number, size_t seq);
void     rank_moves_on(struct story *story, int number, uint32_t round, bool acts_too);   /* past all older rounds */
void     rank_leaves(struct story *story, int number, uint32_t act);
void     rank_ends(struct story *story, int number);
void     round_close(struct story *story, uint32_t round);
void     rounds_close(struct story *story);         /* all */
void     wide_close(struct story *story, uint16_t but);
#endif
