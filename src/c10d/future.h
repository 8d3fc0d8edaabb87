/* Futures: something that will be there, and who is told when it is. A future ends once, well or with an error; what
 * it holds is its owner's business (a script's value). Those of a rank belong together: the callbacks of a work's future run
 * on a task of theirs ("r0 futures"), so that a callback may wait for later collectives of the comm task that ended it.
 * Order of use: futures_new once a rank; future_new; future_of_work or future_finish; future_wait; future_unref;
 * futures_close before whoever runs the callbacks goes. PyTorch: torch.futures.Future, c10::ivalue::Future. */
#ifndef C10D_FUTURE_H
#define C10D_FUTURE_H
#include <stdbool.h>
#include <stdint.h>

struct error; struct future; struct futures; struct task; struct work;

/* `run` is called on the task of the callbacks with each work's future that is done and was awaited; false: failed. */
struct futures_runner { bool (*run)(struct task *me, void *context, struct future *future); void *context; };
struct futures *futures_new(struct task *me, const struct futures_runner *runner);       /* NULL: failed */
/* What is still to come finds nobody: waits for whoever was held, runs the callbacks of what is done, ends the task. */
void futures_close(struct task *me, struct futures *futures);
/* Somebody will visit the runner's context later: futures_close waits until it is released. */
void futures_hold(struct task *me, struct futures *futures);
void futures_release(struct task *me, struct futures *futures);

struct future *future_new(struct task *me, struct futures *futures);    /* one reference; NULL: failed */
struct future *future_ref(struct task *me, struct future *future);
void           future_unref(struct task *me, void *future);
/* It ends with the work. Once for each future and each work. */
void future_of_work(struct task *me, struct future *future, struct work *work);
bool future_has_work(const struct future *future);
/* false: it had ended before. `error` is copied; NULL: all is well. */
bool future_finish(struct task *me, struct future *future, const struct error *error);
bool future_done(struct task *me, const struct future *future);
/* Of one that is done: why it failed; NULL: it did not. As long as the future. */
const struct error *future_error(const struct future *future);
/* A work's: `run` gets it when it is done; FUTURE_DONE: it is done, `run` does not get it. */
enum future_answer { FUTURE_FAILED, FUTURE_DONE, FUTURE_AWAITED };
enum future_answer future_await_run(struct task *me, struct future *future);
/* Waits until it is done, well or not. false: the wait failed. On the task of the callbacks others run meanwhile. */
bool future_wait(struct task *me, struct future *future) __attribute__((warn_unused_result));
int64_t future_number(const struct future *future);                     /* in order of making */
#endif
