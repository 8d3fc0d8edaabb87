/* What the reducer says: the words for what goes wrong, and what the logger is told of an iteration. */
#include <inttypes.h>
#include <string.h>
#include "c10d/group.h"
#include "parallel/internal.h"
#include "sched/task.h"

/* ---- what goes wrong ---- */

bool
reducer_tell(struct task *me, const struct reducer *reducer)
{
    if (reducer->logger != NULL)
        logger_set_error(reducer->logger, me->error.message, reducer->forwards);
    return false;
}

bool
reducer_wrong_grad(struct task *me, const struct reducer *reducer, int index, const struct tensor *slot)
{
    const struct tensor *grad = reducer->params[index]->grad;
    struct str have = { 0 }, want = { 0 };
    shape_print(grad->dims, grad->size, &have);
    shape_print(slot->dims, slot->size, &want);
    failed(me, E_RUNTIME, "the gradient of parameter %d (%s) is %s%s %s, but its bucket expects %s %s", index,
           reducer->names[index], tensor_is_sparse(grad) ? "sparse " : "", dtype_name(grad->dtype), str_text(&have),
           dtype_name(slot->dtype), str_text(&want));
    str_free(&have);
    str_free(&want);
    return reducer_tell(me, reducer);
}

bool
reducer_wrong_view(struct task *me, const struct reducer *reducer, int index)
{
    failed(me, E_RUNTIME,
           "the gradient of parameter %d (%s) is not the view of its bucket that gradient_as_bucket_view=true has made "
           "it: something has put another tensor in its place during the backward, perhaps a second "
           "DistributedDataParallel over the same parameters.", index, reducer->names[index]);
    return reducer_tell(me, reducer);
}

bool
reducer_missing_grad(struct task *me, const struct reducer *reducer, int index)
{
    failed(me, E_RUNTIME,
           "Encountered gradient which is undefined: that of parameter %d (%s), but the other ranks are told that it "
           "is there. It came after the last reduction and was taken away before this one: set gradients to nil before "
           "the first backward of an iteration, not between its backwards.", index, reducer->names[index]);
    return reducer_tell(me, reducer);
}

bool
reducer_not_sparse(struct task *me, const struct reducer *reducer, int index)
{
    failed(me, E_RUNTIME,
           "parameter %d (%s) belongs to an Embedding with sparse=true, but %s. Expected a sparse gradient on every "
           "rank in every iteration: one that is unused cannot be reduced.", index, reducer->names[index],
           reducer->params[index]->grad == NULL ? "it has no gradient" : "its gradient is dense");
    return reducer_tell(me, reducer);
}

bool
reducer_not_watched(struct task *me, const struct reducer *reducer)
{
    failed(me, E_RUNTIME, "static_graph: the first backward came from a forward inside no_sync(), but it is the one "
                          "that is watched and reduced: begin with a forward that synchronises");
    return reducer_tell(me, reducer);
}

bool
reducer_graph_changed(struct task *me, const struct reducer *reducer, int index)
{
    failed(me, E_RUNTIME,
           "the training graph has changed in this iteration: parameter %d (%s) got a gradient %s, and "
           "static_graph=true takes the first iteration for all of them. Leave it out, or use the same parameters in "
           "each iteration.",
           index, reducer->names[index], reducer->times_used[index] == 0 ? "but was unused in the first iteration"
                                                                         : "more often than in the first iteration");
    return reducer_tell(me, reducer);
}

bool
reducer_ready_twice(struct task *me, const struct reducer *reducer, int index)
{
    failed(me, E_RUNTIME,
           "parameter %d (%s) was marked ready twice in one backward, but a gradient can be ready only once. Either it "
           "is used outside of forward, too, or in several forwards that run at the same time; or several reentrant "
           "checkpoints wrap the part of the model that it belongs to (then static_graph=true may help)%s.",
           index, reducer->names[index], reducer->has_marked_unused && dynamic_find_unused(reducer)
               ? "; or find_unused_parameters has found it unused, and it got a gradient all the same" : "");
    return reducer_tell(me, reducer);
}

/* All buckets are on their way, and who promised to finalize has not. */
static bool
reducer_not_finalized(struct task *me, const struct reducer *reducer)
{
    failed(me, E_RUNTIME, "the prior backward was never finalized: with require_manual_backward_finalization call "
                          "finalize_backward() after each backward, before the next forward.");
    return reducer_tell(me, reducer);
}

/* All gradients came, but the reduction did not end. */
static bool
reducer_failed_before(struct task *me, const struct reducer *reducer)
{
    failed(me, E_RUNTIME, "Expected to have finished reduction in the prior iteration before starting a new one: that "
                          "backward failed while its buckets were under way, and its own error was raised there. "
                          "Make a new DistributedDataParallel over the module to go on.");
    return reducer_tell(me, reducer);
}

static const char *
cause_of_unfinished(const struct reducer *reducer)
{
    if (reducer->static_graph)
        return "the training graph has changed: some parameters are used in the first iteration and not in this one, "
               "and static_graph=true takes the first one for all of them.";
    if (reducer->find_unused)
        return "find_unused_parameters is on, but there are outputs of forward that take no part in the loss, or that "
               "it did not find: it looks into tensors, lists and dicts that forward returns.";
    return "some parameters took no part in the loss. Where forward leaves some out, pass find_unused_parameters=true "
           "to DistributedDataParallel; else see that all outputs of forward take part in the loss, and that they are "
           "tensors, lists or dicts of them: what lies in other objects is not found.";
}

bool
reducer_unfinished(struct task *me, const struct reducer *reducer)
{
    struct str list = { 0 };
    if (memchr(reducer->ready, false, (size_t)reducer->params_count) == NULL)
        return reducer->manual ? reducer_not_finalized(me, reducer) : reducer_failed_before(me, reducer);
    for (int i = 0; i < reducer->params_count; i++) {
        if (reducer->ready[i])
            continue;
        str_addf(&list, " %d", i);
        if (reducer->names_wanted)
            str_addf(&list, " (%s)", reducer->names[i]);
    }
    failed(me, E_RUNTIME, "Expected to have finished reduction in the prior iteration before starting a new one: "
           "%s Parameter indices which did not receive grad for rank %d:%.1200s.%s", cause_of_unfinished(reducer),
           process_group_rank(reducer->group), str_text(&list),
           reducer->names_wanted ? "" : " Set TORCH_DISTRIBUTED_DEBUG to INFO or DETAIL to see their names.");
    str_free(&list);
    return reducer_tell(me, reducer);
}

/* ---- for the logging data ---- */

/* Of the parameters: what a sparse gradient weighs is another matter. */
static void
print_sizes(const struct reducer *reducer, struct str *out)
{
    for (int i = 0; i < reducer->count; i++) {
        const struct bucket *bucket = &reducer->buckets[i];
        str_addf(out, "%s%" PRId64, i > 0 ? ", " : "",
                 bucket->sparse ? tensor_bytes(reducer->params[bucket->indices[0]]) : bucket->bytes);
    }
}

static void
print_indices(const struct reducer *reducer, struct str *out)
{
    for (int i = 0; i < reducer->count; i++) {
        str_add(out, i > 0 ? ", " : "");
        bucket_print(&reducer->buckets[i], out);
    }
}

static void
print_order(const struct reducer *reducer, struct str *out)
{
    for (int i = 0; i < reducer->ready_count; i++)
        str_addf(out, "%s%d", i > 0 ? ", " : "", reducer->ready_order[i]);
}

static int64_t
unused_bytes(const struct reducer *reducer)
{
    int64_t bytes = 0;
    for (int i = 0; i < reducer->params_count; i++)
        bytes += reducer->unused[i] ? tensor_bytes(reducer->params[i]) : 0;
    return bytes;
}

bool
reducer_set_logger(struct task *me, struct reducer *reducer, struct ddp_logger *logger,
                   const struct logger_construction *wrapper)
{
    struct str                 sizes = { 0 };
    struct logger_construction data  = *wrapper;
    print_sizes(reducer, &sizes);
    data.group                   = reducer->group;
    data.params                  = reducer->params;
    data.params_count            = reducer->params_count;
    data.bucket_sizes            = str_text(&sizes);
    data.bucket_cap_bytes        = reducer->bucket_bytes;
    data.find_unused_parameters  = reducer->find_unused;
    data.gradient_as_bucket_view = reducer->as_views;
    reducer->logger              = logger;
    bool done = logger_set_construction_data(me, logger, &data) &&
                (str_ok(&sizes) || failed(me, E_MEMORY, "out of memory for logging data"));
    str_free(&sizes);
    return done;
}

/* The clock's picoseconds become PyTorch's nanoseconds. */
bool
reducer_log_stats(struct task *me, const struct reducer *reducer)
{
    static const int64_t ps_of_ns = 1000;
    struct str sizes = { 0 }, indices = { 0 }, order = { 0 };
    int64_t    moments[REDUCER_MOMENTS];
    if (reducer->logger == NULL || !logger_samples(reducer->forwards, reducer->sample_rate))
        return true;
    for (int i = 0; i < REDUCER_MOMENTS; i++)
        moments[i] = reducer->moments[i] != MOMENT_UNSET ? reducer->moments[i] / ps_of_ns : MOMENT_UNSET;
    print_sizes(reducer, &sizes);
    print_indices(reducer, &indices);
    print_order(reducer, &order);
    const struct logger_stats stats = {
        .iteration = reducer->forwards, .buckets_reduced = reducer->buckets_reduced,
        .unused_bytes = unused_bytes(reducer), .has_rebuilt = reducer->has_rebuilt, .bucket_sizes = str_text(&sizes),
        .bucket_indices = str_text(&indices), .ready_order = str_text(&order), .moments = moments,
    };
    logger_set_runtime_stats(reducer->logger, &stats);
    bool done = str_ok(&sizes) && str_ok(&indices) && str_ok(&order) && logger_has_memory(reducer->logger);
    str_free(&sizes);
    str_free(&indices);
    str_free(&order);
    return done || failed(me, E_MEMORY, "out of memory for logging data");
}

bool
reducer_set_sample_rate(struct task *me, struct reducer *reducer, int64_t rate)
{
    if (rate < 1) {
        failed(me, E_VALUE, "the sample rate of the logging data is %" PRId64 ", but it should be 1 or more: every so "
                            "many iterations are noted, after the first ten", rate);
        return reducer_tell(me, reducer);
    }
    reducer->sample_rate = rate;
    return true;
}
