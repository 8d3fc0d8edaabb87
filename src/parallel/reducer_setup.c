/* Making and freeing a reducer. */
#include <stdlib.h>
#include <string.h>
#include "autograd/engine.h"
#include "base/vec.h"
#include "c10d/debug_level.h"
#include "c10d/group.h"
#include "device/cells.h"
#include "parallel/internal.h"
#include "sched/task.h"

static void
drop_nothing(struct task *me, void *context)
{
    (void)me, (void)context;
}

/* The accumulator is kept: a tensor only points to it weakly, and the hook must outlive the first graph. */
static bool
reducer_add_hook(struct task *me, struct reducer *reducer, int index)
{
    struct reducer_hook *mine = &reducer->hooks[index];
    *mine = (struct reducer_hook){ .reducer = reducer, .index = index, .id = -1 };
    mine->node = node_accumulator(me, reducer->params[index]);
    if (mine->node == NULL)
        return false;
    struct hook hook = { .run = reducer_run_hook, .drop = drop_nothing, .context = mine };
    int         id   = -1;
    if (!node_add_post_hook(me, mine->node, &hook, &id))
        return false;
    mine->id = id;
    return true;
}

static bool
reducer_copy_params(struct task *me, struct reducer *reducer, struct tensor *const *params, const char *const *names)
{
    for (int i = 0; i < reducer->params_count; i++) {
        reducer->params[i] = tensor_ref(params[i]);
        reducer->names[i]  = strdup(names != NULL && names[i] != NULL ? names[i] : "");
        if (reducer->names[i] == NULL)
            return failed(me, E_MEMORY, "out of memory for the reducer");
        if (tensor_device(params[i]) == tensor_device(params[0]) || reducer->has_lock)
            continue;
        reducer->has_lock = lock_init(me, &reducer->lock, "reducer");
        if (!reducer->has_lock)
            return false;
    }
    return true;
}

static bool
reducer_take_memory(struct task *me, struct reducer *reducer)
{
    size_t count = (size_t)reducer->params_count;
    reducer->params        = calloc(count, sizeof *reducer->params);
    reducer->names         = calloc(count, sizeof *reducer->names);
    reducer->sparse        = calloc(count, sizeof *reducer->sparse);
    reducer->hooks         = calloc(count, sizeof *reducer->hooks);
    reducer->bucket_of     = calloc(count, sizeof *reducer->bucket_of);
    reducer->place_of      = calloc(count, sizeof *reducer->place_of);
    reducer->ready         = calloc(count, sizeof *reducer->ready);
    reducer->unused        = calloc(count, sizeof *reducer->unused);
    reducer->used          = calloc(count, sizeof *reducer->used);
    reducer->used_numbers  = calloc(count, sizeof *reducer->used_numbers);
    reducer->times_used    = calloc(count, sizeof *reducer->times_used);
    reducer->times_left    = calloc(count, sizeof *reducer->times_left);
    reducer->ready_order   = calloc(count, sizeof *reducer->ready_order);
    reducer->rebuilt_order = calloc(count, sizeof *reducer->rebuilt_order);
    const void *parts[] = { reducer->params, reducer->names, reducer->sparse, reducer->hooks, reducer->bucket_of,
                            reducer->place_of, reducer->ready, reducer->unused, reducer->used, reducer->used_numbers,
                            reducer->times_used, reducer->times_left, reducer->ready_order, reducer->rebuilt_order };
    for (size_t i = 0; i < countof(parts); i++)
        if (parts[i] == NULL)
            return failed(me, E_MEMORY, "out of memory for the reducer");
    return true;
}

/* The used map's tensor; a static graph needs one, too, for its first iteration. */
static bool
reducer_make_used_map(struct task *me, struct reducer *reducer)
{
    int64_t count = reducer->params_count;
    if (reducer->used_map == NULL)
        tensor_keep(me, &reducer->used_map, tensor_zeros(me, DTYPE_I32, DEVICE_CPU, 1, &count));
    return reducer->used_map != NULL;
}

static bool
reducer_copy_limits(struct task *me, struct reducer *reducer, const struct reducer_options *options)
{
    size_t count = (size_t)options->bucket_limit_count;
    if (count == 0)
        return true;
    reducer->limits = malloc(count * sizeof *reducer->limits);
    if (reducer->limits == NULL)
        return failed(me, E_MEMORY, "out of memory for the reducer");
    memcpy(reducer->limits, options->bucket_limits, count * sizeof *reducer->limits);
    reducer->limit_count = options->bucket_limit_count;
    return true;
}

static bool
reducer_set_up(struct task *me, struct reducer *reducer, struct tensor *const *params,
               const struct reducer_options *options)
{
    size_t count = (size_t)reducer->params_count;
    if (!reducer_take_memory(me, reducer) || !reducer_copy_params(me, reducer, params, options->names) ||
        !reducer_copy_limits(me, reducer, options))
        return false;
    if (options->sparse != NULL)
        memcpy(reducer->sparse, options->sparse, count * sizeof *reducer->sparse);
    if ((reducer->find_unused && !reducer_make_used_map(me, reducer)) ||
        !reducer_first_buckets(me, reducer, options->static_graph))
        return false;
    for (int i = 0; i < reducer->params_count; i++)
        if (!reducer_add_hook(me, reducer, i))
            return false;
    return true;
}

struct reducer *
reducer_new(struct task *me, struct tensor *const *params, int count, struct process_group *group,
            const struct reducer_options *options)
{
    if (count < 1)
        return failed_null(me, E_RUNTIME, "a reducer needs parameters");
    struct reducer *reducer = calloc(1, sizeof *reducer);
    if (reducer == NULL)
        return failed_null(me, E_MEMORY, "out of memory for the reducer");
    *reducer = (struct reducer){
        .params_count       = count,
        .group              = group,
        .replica            = options->replica,
        .world              = process_group_size(group),
        .find_unused        = options->find_unused_parameters,
        .as_views           = options->gradient_as_bucket_view,
        .skip_unused        = options->skip_all_reduce_unused_params,
        .batched_copy       = options->batched_grad_copy,
        .lazy               = options->lazy_bucket_allocation,
        .first_bucket_bytes = options->first_bucket_bytes,
        .bucket_bytes       = options->bucket_bytes,
        .sample_rate        = 100,
        .names_wanted       = debug_level(me) != DEBUG_OFF,
    };
    for (int i = 0; i < REDUCER_MOMENTS; i++)
        reducer->moments[i] = MOMENT_UNSET;
    if (reducer_set_up(me, reducer, params, options))
        return reducer;
    reducer_free(me, reducer);
    return NULL;
}

bool
reducer_set_static_graph(struct task *me, struct reducer *reducer)
{
    if (reducer->forwards > 0) {
        failed(me, E_RUNTIME, "set_static_graph() should be called before training loop starts and after "
                              "DistributedDataParallel is constructed: this one has seen %lld forwards",
               (long long)reducer->forwards);
        return reducer_tell(me, reducer);
    }
    reducer->static_graph = reducer_make_used_map(me, reducer);
    return reducer->static_graph;
}

void
reducer_set_owner(struct reducer *reducer, struct module *owner)
{
    reducer->owner = owner;
}

bool
reducer_register_comm_hook(struct task *me, struct reducer *reducer, const struct comm_hook *hook)
{
    if (reducer->comm_hook.start == NULL) {
        reducer->comm_hook = *hook;
        if (hook->name != NULL && reducer->logger != NULL)
            logger_set_comm_hook(reducer->logger, hook->name);
        return true;
    }
    hook->drop(me, hook->context);
    failed(me, E_RUNTIME, "register_comm_hook or register_builtin_comm_hook can only be called once.");
    return reducer_tell(me, reducer);
}

/* ---- the end ---- */

void
reducer_remove_hooks(struct task *me, struct reducer *reducer)
{
    for (int i = 0; reducer->hooks != NULL && i < reducer->params_count; i++) {
        struct reducer_hook *hook = &reducer->hooks[i];
        if (hook->node != NULL && hook->id >= 0)
            hook_list_remove(me, hook->node->post_hooks, hook->id);
        hook->id = -1;
    }
}

static void
reducer_drop_params(struct task *me, struct reducer *reducer)
{
    for (int i = 0; i < reducer->params_count; i++) {
        if (reducer->hooks != NULL && reducer->hooks[i].node != NULL)
            node_unref(me, reducer->hooks[i].node);
        if (reducer->params != NULL)
            tensor_drop(me, &reducer->params[i]);
        if (reducer->names != NULL)
            free(reducer->names[i]);
    }
}

void
reducer_free(struct task *me, struct reducer *reducer)
{
    if (reducer == NULL)
        return;
    reducer_remove_hooks(me, reducer);
    reducer_abandon(me, reducer);
    reducer_clear_buckets(me, reducer);
    reducer_forget_search(me, reducer);
    reducer_drop_params(me, reducer);
    if (reducer->comm_hook.start != NULL)
        reducer->comm_hook.drop(me, reducer->comm_hook.context);
    if (reducer->futures != NULL)
        host_return(me, reducer->futures, reducer->future_room * sizeof(struct future *));
    tensor_drop(me, &reducer->used_map);
    if (reducer->has_lock)
        lock_destroy(&reducer->lock);
    void *parts[] = { reducer->params, reducer->names, reducer->sparse, reducer->limits, reducer->hooks,
                      reducer->bucket_of, reducer->place_of, reducer->ready, reducer->unused, reducer->used,
                      reducer->used_numbers, reducer->times_used, reducer->times_left, reducer->ready_order,
                      reducer->rebuilt_order };
    for (size_t i = 0; i < countof(parts); i++)
        free(parts[i]);
    free(reducer);
}
