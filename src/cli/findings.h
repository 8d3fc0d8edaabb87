/* What explore has found: failures by their cause, the schedules that show them, the shortest of each.
 * Order of use: findings_add for each run; findings_tell; findings_free. */
#ifndef CLI_FINDINGS_H
#define CLI_FINDINGS_H
#include <stdbool.h>
#include <stdint.h>
#include "cli/trials.h"
#include "sched/schedule.h"

enum { FINDINGS_MOST = 64, FINDING_NUMBERS = 8 };

/* Runs that failed for one cause. */
struct finding {
    struct outcome  outcome;                 /* of the run with the fewest steps */
    struct schedule schedule;                /* those, and its faults */
    size_t          steps;                   /* how many there were, and which run's */
    uint64_t        shortest;
    bool            too_long;                /* there were more than could be kept */
    uint64_t        count, numbers[FINDING_NUMBERS]; /* the least, in order */
};

struct findings {
    struct finding findings[FINDINGS_MOST];
    int            count;
    uint64_t       beyond;                   /* failures of causes that found no room */
};

bool findings_add(struct findings *findings, uint64_t number, const struct outcome *outcome); /* false: no memory */
/* Tells each cause, the first found first, with what it needs at least; saves that as LESSON.schedule in this folder. */
struct findings_words {
    const char         *lesson, *number;    /* number: "seed" */
    const char         *call;               /* how the lesson is run: its options, its file, its own words */
    const struct fault *faults;             /* of every run: they are saved, too */
    size_t              fault_count;
};
void findings_tell(struct findings *findings, struct trials *trials, const struct findings_words *words);
void findings_free(struct findings *findings);
void findings_tell_cause(const char *cause);                 /* its first two lines */
const char *outcome_verb(const struct outcome *outcome, bool one); /* "hangs", "differ" */
#endif
