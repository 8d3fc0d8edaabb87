/* The protocol of Join, as torch/distributed/algorithms/join.py. Ranks pair their collectives by order alone, so who
 * has no inputs left must know at each step what the others call next. Each iteration begins with one all-reduce: a
 * rank that goes on adds a one (join_notify_context), one that has ended a zero (join_exit). The sum tells the ended
 * ones whether there is an iteration to shadow, and the others by how many to divide. */
#include "parallel/join.h"
#include "base/str.h"
#include "c10d/group.h"
#include "sched/stage.h"
#include "tensor/op.h"

enum { WARN_THRESHOLD = 1000 };         /* iterations */

bool
join_check(struct task *me, const struct join *join)
{
    if (join->count < 1)
        return failed(me, E_VALUE, "The join context manager requires at least one joinable");
    for (int i = 1; i < join->count; i++)
        if (join->joinables[i].group != join->joinables[0].group)
            return failed(me, E_VALUE, "Using join context manager with multiple process groups: joinable %d is of "
                                       "another one than the first. Give each group a Join of its own.", i + 1);
    return !task_failed(me);
}

struct join_config
join_config_of(const struct join *join, int index)
{
    return (struct join_config){ .enable = join->enable,
                                 .throw_on_early_termination = join->throw_on_early_termination,
                                 .is_first_joinable = index == 0 };
}

/* ---- one number a rank ---- */

static struct tensor *
number_new(struct task *me, const struct joinable *joinable, enum dtype dtype, double number)
{
    const int64_t  one    = 1;
    struct tensor *tensor = tensor_zeros(me, dtype, joinable->device, 1, &one);
    return number == 0 ? tensor : tensor_filled(me, tensor, number);
}

bool
join_sum(struct task *me, const struct joinable *joinable, double number, double *sum)
{
    size_t         mark   = scope_mark(me);
    struct tensor *tensor = number_new(me, joinable, DTYPE_F32, number);
    bool done = tensor != NULL && group_all_reduce_now(me, joinable->group, tensor, NULL) &&
                tensor_item(me, tensor, sum);
    scope_release(me, mark);
    return done;
}

/* Whose copy of something holds for all: of several candidates the one with the largest number. */
bool
join_find_common_rank(struct task *me, const struct joinable *joinable, bool is_candidate,
                      int *rank)
{
    STAGE(me, ddp_join_common_rank, is_candidate);
    const struct collective_options largest = { .op = REDUCE_MAX };
    int64_t        found = -1;
    int            mine  = is_candidate ? process_group_rank(joinable->group) : -1;
    struct tensor *tensor = number_new(me, joinable, DTYPE_I64, mine);
    if (tensor == NULL || !group_all_reduce_now(me, joinable->group, tensor, &largest) ||
        !tensor_item_i64(me, tensor, &found))
        return false;
    *rank = (int)found;
    return found >= 0 ||
           failed(me, E_VALUE, "Expected one rank at least to be a candidate: none is");
}

/* ---- a rank that goes on ---- */

void
live_ranks_forget(struct task *me, struct live_ranks *live)
{
    work_free(me, live->work);
    tensor_drop(me, &live->ones);
    *live = (struct live_ranks){ 0 };
}

bool
live_ranks_count(struct task *me, struct live_ranks *live, int *count)
{
    if (live->work != NULL) {
        struct work *work = live->work;
        double       sum  = 0;
        live->work = NULL;
        bool done  = work_complete(me, work) && tensor_item(me, live->ones, &sum);
        tensor_drop(me, &live->ones);
        live->count = (int)sum;
        if (!done)
            return false;
    }
    *count = live->count;
    return true;
}

static bool
throw_if_a_rank_has_ended(struct task *me, const struct joinable *joinable)
{
    double ended;
    if (!join_sum(me, joinable, 0, &ended))
        return false;
    return ended == 0 || failed(me, E_RUNTIME, "Detected at least one rank that exhausted inputs. Throwing across all "
                                               "ranks.");
}

/* Before the first collective of an iteration. The sum of the ones is waited for only by who divides by it; with
 * throw_on_early_termination a second all-reduce asks whether some rank has ended. */
bool
join_notify_context(struct task *me, const struct join_config *config,
                    const struct joinable *joinable, struct live_ranks *live)
{
    if (!config->enable || !config->is_first_joinable)
        return !task_failed(me);
    STAGE(me, ddp_join_notify, config->throw_on_early_termination);
    struct tensor *ones = number_new(me, joinable, DTYPE_F32, 1);
    struct work   *work = NULL;
    if (ones != NULL)
        work = group_all_reduce(me, joinable->group, ones, NULL);
    if (work == NULL)
        return false;
    if (live != NULL) {
        live_ranks_forget(me, live);
        tensor_keep(me, &live->ones, ones);
        live->work = work;
    } else {
        work_free(me, work);
    }
    return !config->throw_on_early_termination ||
           throw_if_a_rank_has_ended(me, joinable);
}

/* ---- a rank that has ended ---- */

/* One iteration of the ranks that still have inputs: what they call is called here, too, so that nobody waits in
 * vain. */
static bool
join_shadow(struct task *me, const struct join *join, int round, int live)
{
    STAGE(me, ddp_join_shadow, round, live);
    for (int i = 0; i < join->count; i++)
        if (!join->joinables[i].main_hook(me, join->joinables[i].context))
            return false;
    return true;
}

static bool
throw_to_the_others(struct task *me, const struct joinable *joinable)
{
    double sum;
    return join_sum(me, joinable, 1, &sum) &&
           failed(me, E_RUNTIME, "Rank %d exhausted all inputs.", process_group_rank(joinable->group));
}

static void
warn_of_skew(struct task *me, const struct joinable *joinable)
{
    struct str text = { 0 };
    str_addf(&text, "Detected uneven input skew of greater than %d: rank %d has at least so many inputs less than "
                    "ranks that still go on, and does nothing but shadow them. Share the inputs out more evenly.",
             WARN_THRESHOLD, process_group_rank(joinable->group));
    task_warn(me, str_text(&text));
    str_free(&text);
}

/* This rank's inputs have run out. Shadows iterations until no rank has begun another one; the ranks that had none to
 * shadow were the last, and what they have is final. */
bool
join_exit(struct task *me, const struct join *join)
{
    const struct joinable *first = &join->joinables[0];
    double live   = 1;
    int    rounds = 0;
    if (!join->enable)
        return !task_failed(me);
    STAGE(me, ddp_join_exit, join->count);
    while (live > 0) {
        if (rounds == WARN_THRESHOLD + 1)
            warn_of_skew(me, first);
        if (!join_sum(me, first, 0, &live))
            return false;
        if (live > 0 && join->throw_on_early_termination)
            return throw_to_the_others(me, first);
        if (live > 0 && !join_shadow(me, join, rounds++, (int)live))
            return false;
    }
    for (int i = 0; i < join->count; i++)
        if (!join->joinables[i].post_hook(me, join->joinables[i].context, rounds == 0))
            return false;
    return true;
}
