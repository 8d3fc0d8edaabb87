/* Many runs of one lesson, each in a process of its own (a crash or an endless loop ends that run alone), as many at once
 * as there are processors; and what each came to, against the usual one.
 * Order of use: trials_new, trials_usual, then trials_run and trials_one; trials_free. */
#ifndef CLI_TRIALS_H
#define CLI_TRIALS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "cli/trial.h"

struct run_options; struct trials;

enum outcome_kind { OUTCOME_SAME, OUTCOME_HANG, OUTCOME_RACE, OUTCOME_ERROR, OUTCOME_DIFFER, OUTCOME_ENDLESS,
                    OUTCOME_DIED, OUTCOME_LEAK, OUTCOME_TORN /* its trace cannot be read */,
                    OUTCOME_STRUCK /* it failed as its faults want it */, OUTCOME_KINDS };
struct outcome {
    enum outcome_kind kind;
    uint64_t          group;             /* equal for what has one cause */
    char              cause[1280];       /* "DeadlockError: rank 0 waits ..." */
    char              usual[160], here[160]; /* DIFFER: the first line that only one of them says; "" none */
    uint64_t          choices, digest, work;
    const struct trial *trial;           /* until the next run */
};

struct trials *trials_new(const struct run_options *options, const char **why);   /* NULL: why */
void           trials_free(struct trials *trials);
/* The run in the usual order, which the others are held against. false: it could not be made. */
bool           trials_usual(struct trials *trials, struct outcome *outcome, bool counts_faults);
/* One run. false: stopped by the user, or no process could be had. */
bool           trials_one(struct trials *trials, const struct choosing *choosing, struct outcome *outcome);
/* Runs number `first` and the `count` - 1 that follow: `prepare` says how each chooses, `ended` hears how it ended, in
 * the order in which they end. false: stopped. */
struct trials_user {
    void *context;
    void (*prepare)(void *context, uint64_t number, struct choosing *choosing);
    void (*ended)(void *context, uint64_t number, const struct outcome *outcome);
};
bool           trials_run(struct trials *trials, const struct trials_user *user, uint64_t first, uint64_t count);
bool           trials_stopped(const struct trials *trials);
#endif
