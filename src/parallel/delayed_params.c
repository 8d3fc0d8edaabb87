/* Delayed parameters. Their .grads are pieces of one buffer, into which the backward adds; the hook divides it by the
 * ranks and starts its all-reduce, which the end of the backward waits for. (PyTorch lets its Work go: there the next
 * use of the gradients may come too early.) */
#include "parallel/delayed_params.h"
#include <stdlib.h>
#include "autograd/engine.h"
#include "autograd/hooks.h"
#include "autograd/node.h"
#include "c10d/group.h"
#include "parallel/distributed_data_parallel.h"
#include "parallel/flat.h"
#include "parallel/state_sync.h"
#include "sched/stage.h"
#include "tensor/op.h"

struct delayed {
    struct module        *owner;              /* no reference */
    struct process_group *group;
    struct tensor       **params, **pieces;
    int                   count;
    struct tensor        *hooked, *buffer;
    int                   hook;               /* id; -1: none */
    bool                  waits;              /* its all-reduce comes at the end of the backward */
    struct work          *work;
};

static bool
delayed_finish(struct task *me, void *context)
{
    struct delayed *delayed = context;
    struct work    *work    = delayed->work;
    delayed->work = NULL;
    return work == NULL || work_complete(me, work);
}

static void
drop_owner(struct task *me, void *owner)
{
    module_unref(me, owner);
}

int
delayed_device(const struct delayed *delayed)
{
    return tensor_device(delayed->buffer);
}

/* They travel as one message, outside of the reducer. `buffer`: theirs, or a shadow's. */
static bool
delayed_all_reduce(struct task *me, struct delayed *delayed, struct tensor *buffer)
{
    STAGE(me, ddp_delayed_params, delayed->count, tensor_bytes(buffer));
    const struct op_args args = { .in = { buffer }, .out = buffer,
                                  .alpha = process_group_size(delayed->group) };
    if (op_run(me, OP_div_scalar, &args) == NULL)
        return false;
    work_free(me, delayed->work);
    delayed->work = group_all_reduce(me, delayed->group, buffer, NULL);
    return delayed->work != NULL;
}

static bool
delayed_at_the_end(struct task *me, void *context)
{
    struct delayed *delayed = context;
    return delayed_all_reduce(me, delayed, delayed->buffer) && delayed_finish(me, delayed);
}

/* The hooked parameter's gradient is there. */
static bool
delayed_start(struct task *me, struct delayed *delayed)
{
    if (!autograd_drop_after(me, drop_owner, module_ref(delayed->owner)))
        return false;
    if (delayed->waits)
        return autograd_queue_callback(me, delayed_at_the_end, delayed);
    return delayed_all_reduce(me, delayed, delayed->buffer) && autograd_queue_callback(me, delayed_finish, delayed);
}

bool
delayed_shadow(struct task *me, struct delayed *delayed)
{
    size_t         mark  = scope_mark(me);
    struct tensor *zeros = tensor_zeros(me, delayed->buffer->dtype, delayed_device(delayed), 1, delayed->buffer->size);
    bool           done  = zeros != NULL && delayed_all_reduce(me, delayed, zeros) && delayed_finish(me, delayed);
    scope_release(me, mark);
    return done;
}

void
delayed_wait_for_buckets(struct delayed *delayed, bool wait)
{
    if (delayed != NULL)
        delayed->waits = wait;
}

static bool
delayed_run(struct task *me, void *context, struct node *node, struct tensor **grads, int count)
{
    (void)node, (void)grads, (void)count;
    return delayed_start(me, context);
}

static void
drop_nothing(struct task *me, void *context)
{
    (void)me, (void)context;
}

static bool
delayed_lay_out(struct task *me, struct delayed *delayed, int *indices)
{
    for (int i = 0; i < delayed->count; i++)
        indices[i] = i;
    const struct flat_members members = { delayed->params, indices, delayed->count };
    struct tensor *buffer = flat_empty(me, &members);
    if (buffer == NULL || !tensor_fill(me, buffer, 0))
        return false;
    tensor_keep(me, &delayed->buffer, buffer);
    struct flat_walk walk = { .flat = buffer };
    for (int i = 0; i < delayed->count; i++) {
        struct tensor *piece = flat_piece(me, &walk, delayed->params[i]);
        tensor_keep(me, &delayed->pieces[i], piece);
        if (piece == NULL)
            return false;
    }
    return true;
}

/* They lie in one buffer. */
static bool
delayed_check(struct task *me, const struct delayed_params *given)
{
    const struct tensor *first = given->tensors[0];
    for (int i = 1; i < given->count; i++)
        if (given->tensors[i]->dtype != first->dtype || tensor_device(given->tensors[i]) != tensor_device(first))
            return failed(me, E_VALUE, "delay_all_reduce_named_params: '%s' and '%s' differ in dtype or device, but "
                                       "all "
                          "of them travel as one message", given->names[0], given->names[i]);
    return true;
}

static bool
delayed_set_up(struct task *me, struct delayed *delayed, const struct delayed_params *given)
{
    size_t count   = (size_t)given->count;
    int   *indices = calloc(count, sizeof *indices);
    delayed->params = calloc(count, sizeof *delayed->params);
    delayed->pieces = calloc(count, sizeof *delayed->pieces);
    bool done = (indices != NULL && delayed->params != NULL && delayed->pieces != NULL) ||
                failed(me, E_MEMORY, "out of memory for %d delayed parameters", given->count);
    delayed->count = done ? given->count : 0;
    for (int i = 0; i < delayed->count; i++)
        delayed->params[i] = tensor_ref(given->tensors[i]);
    const struct state_sync sync = { .tensors = given->tensors, .count = given->count };
    const struct hook       hook = { .run = delayed_run, .drop = drop_nothing, .context = delayed };
    done = done && delayed_lay_out(me, delayed, indices) && broadcast_coalesced(me, delayed->group, &sync) &&
           tensor_add_hook(me, given->hooked, &hook, &delayed->hook);
    if (done)
        delayed->hooked = tensor_ref(given->hooked);
    free(indices);
    return done;
}

struct delayed *
delayed_new(struct task *me, struct module *owner, struct process_group *group, const struct delayed_params *given)
{
    struct delayed *delayed = calloc(1, sizeof *delayed);
    if (delayed == NULL)
        return failed_null(me, E_MEMORY, "out of memory for delayed parameters");
    delayed->owner = owner;
    delayed->group = group;
    delayed->hook  = -1;
    if (delayed_check(me, given) && delayed_set_up(me, delayed, given))
        return delayed;
    delayed_free(me, delayed);
    return NULL;
}

void
delayed_update_process_group(struct delayed *delayed, struct process_group *group)
{
    if (delayed != NULL)
        delayed->group = group;
}

void
delayed_free(struct task *me, struct delayed *delayed)
{
    if (delayed == NULL)
        return;
    work_free(me, delayed->work);
    if (delayed->hooked != NULL)
        hook_list_remove(me, delayed->hooked->hooks, delayed->hook);
    for (int i = 0; i < delayed->count; i++) {
        tensor_drop(me, &delayed->params[i]);
        tensor_drop(me, &delayed->pieces[i]);
    }
    tensor_drop(me, &delayed->hooked);
    tensor_drop(me, &delayed->buffer);
    free(delayed->params);
    free(delayed->pieces);
    free(delayed);
}

bool
delayed_clear(struct task *me, struct delayed *delayed)
{
    for (int i = 0; i < delayed->count; i++) {
        struct tensor *param = delayed->params[i];
        if (param->grad != NULL)
            continue;
        if (!tensor_fill(me, delayed->pieces[i], 0))
            return false;
        tensor_keep(me, &param->grad, delayed->pieces[i]);
    }
    return true;
}
