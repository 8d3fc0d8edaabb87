/* A schedule as data: where a run leaves the usual order, and who goes on there instead, so that it can be written down,
 * made shorter and done again. A point is counted by the task that gives the baton away, not by the run: what
 * happens elsewhere does not move it. Tasks are known by their names, "r1 isend#2" is the second of that name.
 *
 * As text, a line each:
 *     ringside schedule 1
 *     lesson 12-two-senders
 *     fault lose 0 -> 2 message 3              sched/faults.h
 *     at 12 of "r0 main" run "r1 main"         from there on r1's task goes first, until it waits
 * Empty lines, and what follows a # at a line's beginning or behind a step, are passed over. */
#ifndef SCHED_SCHEDULE_H
#define SCHED_SCHEDULE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sched/faults.h"

struct str;

enum { SCHEDULE_NAME = 56, SCHEDULE_LESSON = 128 };
struct schedule_step {
    char     from[SCHEDULE_NAME], run[SCHEDULE_NAME];
    uint64_t point;
    uint32_t line;      /* of the lesson, where `from` was; for people; 0 unknown */
};
struct schedule {
    char                  lesson[SCHEDULE_LESSON];   /* "" unknown */
    struct schedule_step *steps;
    size_t                count, room;
    struct fault_plan     faults;
};

/* false: `why` says which line is none, or that there was no memory. */
bool schedule_read(struct schedule *schedule, const char *text, char *why, size_t why_size);
void schedule_print(const struct schedule *schedule, struct str *out);
bool schedule_add(struct schedule *schedule, const struct schedule_step *step);   /* false: no memory */
bool schedule_copy(struct schedule *schedule, const struct schedule *from);       /* what it held is gone; false likewise */
void schedule_free(struct schedule *schedule);
#endif
