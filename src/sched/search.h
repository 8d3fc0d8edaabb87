/* Every class of equivalent interleavings of a small program, once each: a search depth first, each step of which is a
 * run of its own. Only touches matter (sched_touch): two of one key, by different tasks, depend on each other
 * unless both only read; runs that differ in the order of others are one. Between touches a task goes on until it waits
 * or stands before its next one. Sleep sets (Godefroid 1996) see to it that no class is completed twice: what was
 * tried from a state sleeps in those that follow until something that depends on it happens; a run in which all sleep
 * is given up and counted apart.
 *
 * Touches of keys that only one task ever changes or sees need no order: which keys do is learnt, and when one is learnt
 * late the search begins anew.
 * Order of use, in memory shared with the runs: search_begin; a run with it in its `choosing`; search_next until false. */
#ifndef SCHED_SEARCH_H
#define SCHED_SEARCH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sched/sched.h"

struct machine; struct map;

enum { SEARCH_MOVES = 32, SEARCH_KEYS = 1024, SEARCH_DEPTH = 4096 };
struct search_move  { int task; enum touch touch; uint64_t key; };
struct search_frame { int count, taken; uint32_t asleep; struct search_move moves[SEARCH_MOVES]; };
enum search_end {
    SEARCH_COMPLETE,   /* the run came to its end */
    SEARCH_BLOCKED,    /* all who could go on slept */
    SEARCH_LEARNT,     /* a key matters that did not before: begin anew */
    SEARCH_TOO_LARGE   /* more tasks, touches or keys than it has room for */
};
struct search {
    enum search_end     end;          /* of the last run */
    size_t              depth, at;    /* frames that are given; those that the run has passed */
    size_t              key_count;
    uint64_t            keys[SEARCH_KEYS];
    uint64_t            complete, blocked, runs;
    struct search_frame frames[SEARCH_DEPTH];
};

void search_begin(struct search *search);
bool search_next(struct search *search);  /* after a run; false: it is over (end == SEARCH_TOO_LARGE: given up) */

/* For the chooser. `seen`: the run's own notes, by key. */
bool search_stands(struct search *search, struct map *seen, const struct search_move *move);
struct machine *search_choose(struct search *search, struct machine *const *ready, size_t count, struct machine *from);
#endif
