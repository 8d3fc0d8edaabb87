/* What the reducer says: the words for what goes wrong, and PyTorch's logging data. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "c10d/group.h"
#include "parallel/internal.h"
#include "sched/task.h"

/* ---- what goes wrong ---- */

/* In small letters too, as PyTorch reads it. */
static bool
names_wanted(void)
{
    const char *level = getenv("TORCH_DISTRIBUTED_DEBUG");
    return level != NULL && (strcasecmp(level, "INFO") == 0 || strcasecmp(level, "DETAIL") == 0);
}

bool
reducer_wrong_grad(struct task *me, int index, const struct tensor *grad, const struct tensor *slot)
{
    struct str have = { 0 }, want = { 0 };
    shape_print(grad->dims, grad->size, &have);
    shape_print(slot->dims, slot->size, &want);
    failed(me, E_RUNTIME, "the gradient of parameter %d is %s %s, but its bucket expects %s %s", index,
           dtype_name(grad->dtype), str_text(&have), dtype_name(slot->dtype), str_text(&want));
    str_free(&have);
    str_free(&want);
    return false;
}

bool
reducer_ready_twice(struct task *me, const struct reducer *reducer, int index)
{
    return failed(me, E_RUNTIME,
                  "Expected to mark a variable ready only once, but parameter %d with name %s was marked ready twice. "
                  "Causes: a module parameter is used outside of forward, or by several concurrent forward passes; "
                  "reentrant checkpoints wrap the same part of the model more than once (static_graph may help)%s.",
                  index, reducer->names[index],
                  reducer->has_marked_unused && reducer->find_unused
                      ? "; or a parameter that was found unused got a gradient all the same" : "");
}

bool
reducer_unfinished(struct task *me, const struct reducer *reducer)
{
    struct str list = { 0 };
    for (int i = 0; i < reducer->params_count; i++) {
        if (reducer->ready[i])
            continue;
        str_addf(&list, " %d", i);
        if (names_wanted())
            str_addf(&list, " (%s)", reducer->names[i]);
    }
    failed(me, E_RUNTIME,
           "Expected to have finished reduction in the prior iteration before starting a new one: some parameters of "
           "the module were not used in producing the loss. %s make sure that all forward function outputs take part "
           "in calculating the loss. If they do, an output was not located in the return value of forward: return "
           "tensors, lists or dicts of them. Parameter indices which did not receive grad for rank %d:%.1200s.%s",
           reducer->find_unused ? "find_unused_parameters is on, so" : "Pass find_unused_parameters=true to "
           "DistributedDataParallel, and", process_group_rank(reducer->group), str_text(&list),
           names_wanted() ? "" : " Set TORCH_DISTRIBUTED_DEBUG to INFO or DETAIL to see their names.");
    str_free(&list);
    return false;
}

/* ---- logging data ---- */

void
reducer_print_sizes(const struct reducer *reducer, struct str *out)
{
    for (int i = 0; i < reducer->count; i++)
        str_addf(out, "%s%" PRId64, i > 0 ? ", " : "", tensor_bytes(reducer->buckets[i].gradients));
}

static void
indices_print(const struct reducer *reducer, struct str *out)
{
    for (int i = 0; i < reducer->count; i++) {
        str_add(out, i > 0 ? ", " : "");
        bucket_print(&reducer->buckets[i], out);
    }
}

static void
order_print(const int *order, int count, struct str *out)
{
    for (int i = 0; i < count; i++)
        str_addf(out, "%s%d", i > 0 ? ", " : "", order[i]);
}

bool
reducer_logging_data(const struct reducer *reducer, const char *key, struct str *out)
{
    int64_t bytes = 0;
    for (int i = 0; i < reducer->params_count; i++)
        bytes += tensor_bytes(reducer->params[i]);
    if (strcmp(key, "bucket_sizes") == 0)
        str_add(out, str_text(&reducer->first_sizes));
    else if (strcmp(key, "rebuilt_bucket_sizes") == 0 && reducer->has_rebuilt)
        reducer_print_sizes(reducer, out);
    else if (strcmp(key, "rebuilt_per_bucket_param_indices") == 0 && reducer->has_rebuilt)
        indices_print(reducer, out);
    else if (strcmp(key, "prev_iteration_grad_ready_order_indices") == 0)
        order_print(reducer->last_order, reducer->last_count, out);
    else if (strcmp(key, "has_rebuilt_buckets") == 0)
        str_addf(out, "%d", reducer->has_rebuilt);
    else if (strcmp(key, "bucket_cap_bytes") == 0)
        str_addf(out, "%zu", reducer->bucket_bytes);
    else if (strcmp(key, "num_parameter_tensors") == 0)
        str_addf(out, "%d", reducer->params_count);
    else if (strcmp(key, "total_parameter_size_bytes") == 0)
        str_addf(out, "%" PRId64, bytes);
    else if (strcmp(key, "find_unused_parameters") == 0)
        str_addf(out, "%d", reducer->find_unused);
    else if (strcmp(key, "world_size") == 0)
        str_addf(out, "%d", reducer->world);
    else if (strcmp(key, "rank") == 0)
        str_addf(out, "%d", process_group_rank(reducer->group));
    else if (strcmp(key, "iteration") == 0)
        str_addf(out, "%" PRId64, reducer->iterations);
    else
        return strcmp(key, "rebuilt_bucket_sizes") == 0 || strcmp(key, "rebuilt_per_bucket_param_indices") == 0;
    return true;
}
