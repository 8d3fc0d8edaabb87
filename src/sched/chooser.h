/* Who goes on, whatever the clocks say: other interleavings of one program. At each scheduling point, and before each
 * touch of what several ranks meet at, the chooser picks any task that could run; whose clock lies behind is held up
 * until now, as a busy machine would have done, so a trace stays sorted and virtual time still flows. Streams, transfers
 * and alarms keep their times. Where nothing else is asked for the usual order stands: earliest clock first.
 *
 * One run's: given to sched_new in its options; what was done is told in `chosen`, also if the process ends in between
 * (it may lie in memory that two processes share). */
#ifndef SCHED_CHOOSER_H
#define SCHED_CHOOSER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sched/schedule.h"

struct search;

enum choose_how {
    CHOOSE_USUAL,    /* only what the schedule says */
    CHOOSE_RANDOM,   /* at some of the points, whose share the seed draws, any of those who could run */
    CHOOSE_PCT       /* Burckhardt et al., ASPLOS 2010: a random order of priorities, lowered at depth - 1 points */
};

/* What a run did. */
struct chosen {
    uint64_t             decisions, choices;  /* points passed; those with more than one who could go on */
    uint64_t             digest;              /* of who went on at each choice */
    uint64_t             work;                /* steps of the account */
    size_t               used;                /* steps of the given schedule that were met */
    char                 misfit[200];         /* the first that could not be done; "" none */
    bool                 overflow;            /* there were more steps than room */
    size_t               count, room;
    struct schedule_step steps[];
};

struct choosing {
    enum choose_how        how;
    uint64_t               seed;
    int                    depth;             /* PCT: 1 .. CHOOSE_DEEPEST */
    uint64_t               length;            /* PCT: how many choices are expected */
    const struct schedule *schedule;          /* done again; NULL: none */
    struct search         *search;            /* every class of interleavings once, see search.h; NULL: not so */
    struct chosen         *chosen;
};
enum { CHOOSE_DEEPEST = 5 };
#endif
