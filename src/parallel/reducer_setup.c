/* Making and freeing a reducer. */
#include <stdlib.h>
#include <string.h>
#include "autograd/engine.h"
#include "base/vec.h"
#include "c10d/group.h"
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
    reducer->hooks         = calloc(count, sizeof *reducer->hooks);
    reducer->bucket_of     = calloc(count, sizeof *reducer->bucket_of);
    reducer->place_of      = calloc(count, sizeof *reducer->place_of);
    reducer->ready         = calloc(count, sizeof *reducer->ready);
    reducer->unused        = calloc(count, sizeof *reducer->unused);
    reducer->used          = calloc(count, sizeof *reducer->used);
    reducer->used_numbers  = calloc(count, sizeof *reducer->used_numbers);
    reducer->ready_order   = calloc(count, sizeof *reducer->ready_order);
    reducer->last_order    = calloc(count, sizeof *reducer->last_order);
    reducer->rebuilt_order = calloc(count, sizeof *reducer->rebuilt_order);
    const void *parts[] = { reducer->params, reducer->names, reducer->hooks, reducer->bucket_of, reducer->place_of,
                            reducer->ready, reducer->unused, reducer->used, reducer->used_numbers,
                            reducer->ready_order, reducer->last_order, reducer->rebuilt_order };
    for (size_t i = 0; i < countof(parts); i++)
        if (parts[i] == NULL)
            return failed(me, E_MEMORY, "out of memory for the reducer");
    return true;
}

static bool
reducer_set_up(struct task *me, struct reducer *reducer, struct tensor *const *params, const char *const *names)
{
    int64_t count = reducer->params_count;
    if (!reducer_take_memory(me, reducer) || !reducer_copy_params(me, reducer, params, names))
        return false;
    if (reducer->find_unused) {
        tensor_keep(me, &reducer->used_map, tensor_empty(me, DTYPE_F32, DEVICE_CPU, 1, &count));
        if (reducer->used_map == NULL)
            return false;
    }
    if (!reducer_first_buckets(me, reducer))
        return false;
    reducer_print_sizes(reducer, &reducer->first_sizes);
    for (int i = 0; i < count; i++)
        if (!reducer_add_hook(me, reducer, i))
            return false;
    return str_ok(&reducer->first_sizes) || failed(me, E_MEMORY, "out of memory for the reducer");
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
    reducer->params_count       = count;
    reducer->group              = group;
    reducer->replica            = options->replica;
    reducer->world              = process_group_size(group);
    reducer->find_unused        = options->find_unused_parameters;
    reducer->first_bucket_bytes = options->first_bucket_bytes;
    reducer->bucket_bytes       = options->bucket_bytes;
    if (reducer_set_up(me, reducer, params, options->names))
        return reducer;
    reducer_free(me, reducer);
    return NULL;
}

bool
reducer_register_comm_hook(struct task *me, struct reducer *reducer, const struct comm_hook *hook)
{
    if (reducer->comm_hook.start == NULL) {
        reducer->comm_hook = *hook;
        return true;
    }
    hook->drop(me, hook->context);
    return failed(me, E_RUNTIME, "register_comm_hook or register_builtin_comm_hook can only be called once.");
}

void
reducer_free(struct task *me, struct reducer *reducer)
{
    if (reducer == NULL)
        return;
    for (int i = 0; reducer->hooks != NULL && i < reducer->params_count; i++) {
        struct reducer_hook *hook = &reducer->hooks[i];
        if (hook->node != NULL && hook->id >= 0)
            hook_list_remove(me, hook->node->post_hooks, hook->id);
        if (hook->node != NULL)
            node_unref(me, hook->node);
    }
    work_free(me, reducer->used_work);
    reducer_clear_buckets(me, reducer);
    if (reducer->comm_hook.start != NULL)
        reducer->comm_hook.drop(me, reducer->comm_hook.context);
    tensor_drop(me, &reducer->used_map);
    for (int i = 0; i < reducer->params_count; i++) {
        if (reducer->params != NULL)
            tensor_drop(me, &reducer->params[i]);
        if (reducer->names != NULL)
            free(reducer->names[i]);
    }
    if (reducer->has_lock)
        lock_destroy(&reducer->lock);
    void *parts[] = { reducer->params, reducer->names, reducer->hooks, reducer->bucket_of, reducer->place_of,
                      reducer->ready, reducer->unused, reducer->used, reducer->used_numbers, reducer->ready_order,
                      reducer->last_order, reducer->rebuilt_order };
    for (size_t i = 0; i < countof(parts); i++)
        free(parts[i]);
    str_free(&reducer->first_sizes);
    free(reducer);
}
