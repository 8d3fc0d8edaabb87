/* One checkpointed call: its inputs, the state of the random generator, and a place holder for each tensor that its
 * nodes saved. Holders belong to the nodes; the checkpoint only knows where they are, so that it ends with the last of
 * them. A recomputation belongs to one backward: what it finds goes to the holders under that backward's number, and
 * leaves them when a node asks for it.
 *
 * Checkpoints may nest: the inner one's holders take what its nodes save, its inputs are saved by the outer one. */
#include "autograd/checkpoint.h"
#include <stdatomic.h>
#include <string.h>
#include "autograd/call.h"
#include "autograd/engine.h"
#include "autograd/internal.h"
#include "base/rng.h"
#include "base/str.h"
#include "device/cells.h"
#include "sched/count.h"
#include "sched/stage.h"

/* What one backward's recomputation found for a holder. A reference. */
struct found { uint64_t backward; struct tensor *tensor; };

struct holder {
    struct packed      packed;      /* first: the node's handle leads here */
    struct checkpoint *checkpoint;  /* a reference */
    size_t             place;
    struct found      *found;
    size_t             found_count, found_room;
};

enum recompute_state { RECOMPUTE_RUNS, RECOMPUTE_DONE, RECOMPUTE_FAILED };
struct recomputation { uint64_t backward; enum recompute_state state; };
struct saving { struct holder *holder; struct output_meta meta; }; /* holder NULL: its node has let go */

struct checkpoint {
    atomic_int            references;
    struct checkpointed   what;
    int64_t               number;        /* the sequence number that its first node has */
    struct generator     *random;        /* where the generator stood; NULL: that is not kept */
    struct node          *inputs;        /* keeps them; NULL: grad mode was off */
    struct saved_hooks    hooks;         /* of the forward */
    struct monitor        monitor;       /* guards what follows */
    struct saving        *savings;       /* in the order of saving */
    size_t                saving_count, saving_room;
    struct recomputation *runs;          /* one a backward */
    size_t                run_count, run_room;
    uint64_t              outside;       /* numbers for tensors asked for outside of any backward */
    bool                  forward_done, lenient; /* lenient: a backward inside the forward has recomputed more */
};

static struct checkpoint *
checkpoint_of(struct saved_hooks *hooks)
{
    return (struct checkpoint *)((char *)hooks - offsetof(struct checkpoint, hooks));
}

/* ---- lists of tensors ---- */

bool
passed_add(struct task *me, struct passed *list, struct tensor *tensor)
{
    if (!host_room(me, &list->at, &list->room, (size_t)list->count + 1, sizeof *list->at))
        return failed(me, E_MEMORY, "out of memory for the arguments of a checkpoint");
    list->at[list->count++] = tensor_ref(tensor);
    return true;
}

void
passed_clear(struct task *me, struct passed *list)
{
    for (int i = 0; i < list->count; i++)
        tensor_unref(me, list->at[i]);
    host_return(me, list->at, list->room * sizeof *list->at);
    *list = (struct passed){ 0 };
}

/* ---- its life ---- */

static bool forward_pack(struct task *me, struct saved_hooks *hooks, struct tensor *tensor, struct packed **packed);

struct checkpoint *
checkpoint_new(struct task *me, const struct checkpointed *what)
{
    struct checkpoint *checkpoint = host_take(me, sizeof *checkpoint);
    if (checkpoint == NULL)
        return NULL;
    *checkpoint = (struct checkpoint){ .references = 1, .what = *what, .number = (int64_t)me->slots[SLOT_SEQUENCE_NR],
                                       .hooks = { forward_pack }, .outside = UINT64_MAX };
    if (what->keep_rng)
        checkpoint->random = host_take(me, sizeof *checkpoint->random);
    const struct generator *now = what->keep_rng ? default_generator(me) : NULL;
    if ((!what->keep_rng || (checkpoint->random != NULL && now != NULL)) && monitor_init(&checkpoint->monitor)) {
        if (now != NULL)
            *checkpoint->random = *now;
        return checkpoint;
    }
    host_return(me, checkpoint->random, sizeof *checkpoint->random);
    host_return(me, checkpoint, sizeof *checkpoint);
    return failed_null(me, E_MEMORY, "out of memory for a checkpoint");
}

static struct checkpoint *
checkpoint_ref(struct task *me, struct checkpoint *checkpoint)
{
    count_up(me->sched, &checkpoint->references);
    return checkpoint;
}

void
checkpoint_unref(struct task *me, struct checkpoint *checkpoint)
{
    if (checkpoint == NULL || !count_down(me->sched, &checkpoint->references))
        return;
    node_unref(me, checkpoint->inputs);
    checkpoint->what.drop(me, checkpoint->what.context);
    host_return(me, checkpoint->random, sizeof *checkpoint->random);
    host_return(me, checkpoint->savings, checkpoint->saving_room * sizeof *checkpoint->savings);
    host_return(me, checkpoint->runs, checkpoint->run_room * sizeof *checkpoint->runs);
    monitor_destroy(&checkpoint->monitor);
    host_return(me, checkpoint, sizeof *checkpoint);
}

/* ---- the forward's holders ---- */

static struct tensor *holder_unpack(struct task *me, struct packed *packed);

static void
holder_drop(struct task *me, struct packed *packed)
{
    struct holder     *holder     = (struct holder *)packed;
    struct checkpoint *checkpoint = holder->checkpoint;
    monitor_enter(me, &checkpoint->monitor);
    checkpoint->savings[holder->place].holder = NULL;
    monitor_leave(me, &checkpoint->monitor);
    for (size_t i = 0; i < holder->found_count; i++)
        tensor_unref(me, holder->found[i].tensor);
    host_return(me, holder->found, holder->found_room * sizeof *holder->found);
    host_return(me, holder, sizeof *holder);
    checkpoint_unref(me, checkpoint);
}

static struct output_meta
meta_of_tensor(const struct tensor *tensor)
{
    struct output_meta meta = { (int)tensor->dtype, tensor_device(tensor), tensor->dims, { 0 } };
    memcpy(meta.size, tensor->size, (size_t)tensor->dims * sizeof *meta.size);
    return meta;
}

/* A node of the forward wants to save a tensor: it gets a holder instead. */
static bool
forward_pack(struct task *me, struct saved_hooks *hooks, struct tensor *tensor, struct packed **packed)
{
    struct checkpoint *checkpoint = checkpoint_of(hooks);
    struct holder     *holder     = host_take(me, sizeof *holder);
    if (holder == NULL)
        return false;
    monitor_enter(me, &checkpoint->monitor);
    bool ok = host_room(me, &checkpoint->savings, &checkpoint->saving_room, checkpoint->saving_count + 1,
                        sizeof *checkpoint->savings);
    if (ok) {
        *holder = (struct holder){ .packed = { holder_unpack, holder_drop }, .place = checkpoint->saving_count,
                                   .checkpoint = checkpoint_ref(me, checkpoint) };
        checkpoint->savings[checkpoint->saving_count++] = (struct saving){ holder, meta_of_tensor(tensor) };
        *packed = &holder->packed;
    }
    monitor_leave(me, &checkpoint->monitor);
    if (!ok)
        host_return(me, holder, sizeof *holder);
    return ok || failed(me, E_MEMORY, "out of memory for a checkpoint");
}

/* ---- recomputing: the saved tensors come again, in the same order ---- */

struct recompute_hooks {
    struct saved_hooks hooks;       /* first */
    struct checkpoint *checkpoint;
    uint64_t           backward;
    size_t             count;
};

static bool
holder_finds(struct task *me, struct holder *holder, uint64_t backward, struct tensor *tensor)
{
    struct tensor *kept = tensor_alias(me, tensor);
    if (kept == NULL)
        return false;
    if (!host_room(me, &holder->found, &holder->found_room, holder->found_count + 1, sizeof *holder->found))
        return failed(me, E_MEMORY, "out of memory for a checkpoint");
    holder->found[holder->found_count++] = (struct found){ backward, tensor_ref(kept) };
    return true;
}

static bool
saves_more(struct task *me, struct checkpoint *checkpoint)
{
    if (checkpoint->what.early_stop)
        return failed(me, E_ENOUGH, "all tensors of the checkpoint are there again");
    if (checkpoint->forward_done)
        return failed(me, E_CHECKPOINT,
                      "torch.utils.checkpoint: trying to save more tensors during recomputation than during the "
                      "original forward pass (%zu). Does the function do the same each time it is called?",
                      checkpoint->saving_count);
    checkpoint->lenient = true;
    return true;
}

/* The tensor also stays in the graph that the recomputation records: the function itself may run a backward. */
static bool
recompute_pack(struct task *me, struct saved_hooks *hooks, struct tensor *tensor, struct packed **packed)
{
    struct recompute_hooks *again      = (struct recompute_hooks *)hooks;
    struct checkpoint      *checkpoint = again->checkpoint;
    size_t                  place      = again->count++;
    (void)packed;
    if (place >= checkpoint->saving_count)
        return saves_more(me, checkpoint);
    monitor_enter(me, &checkpoint->monitor);
    struct holder *holder = checkpoint->savings[place].holder;
    bool           ok     = holder == NULL || holder_finds(me, holder, again->backward, tensor);
    monitor_leave(me, &checkpoint->monitor);
    if (ok && checkpoint->what.early_stop && again->count == checkpoint->saving_count)
        return failed(me, E_ENOUGH, "all tensors of the checkpoint are there again");
    return ok;
}

/* The function once more, with grad mode on and a generator that stands where the rank's stood in the
 * forward: the rank's own goes on as if nothing had been drawn. */
static bool
checkpoint_recompute(struct task *me, struct checkpoint *checkpoint,
                     struct recompute_hooks *again, const struct passed *inputs,
                     struct passed *outputs)
{
    STAGE(me, autograd_recompute, checkpoint->number, checkpoint->what.reentrant);
    struct saved_hooks    *hooks   = again != NULL ? &again->hooks : NULL;
    struct saved_hooks    *outer   = saved_hooks_set(me, hooks);
    struct generator_fork *fork    = NULL;
    bool                   enabled = grad_enabled(me);
    if (checkpoint->random != NULL)
        fork = generator_fork(me, checkpoint->random);
    grad_set_enabled(me, true);
    bool ok = !task_failed(me) &&
              checkpoint->what.run(me, checkpoint->what.context, inputs, outputs);
    if (me->error.kind == E_ENOUGH) {
        task_clear_error(me);
        ok = true;
    }
    grad_set_enabled(me, enabled);
    generator_join(me, fork);
    saved_hooks_set(me, outer);
    stage_set(&stage_, 2, again != NULL ? (int64_t)again->count : 0);
    return ok && !task_failed(me);
}

/* The inputs as they were given, with their history; `detached`: leaves that want gradients if those did. */
static bool
inputs_again(struct task *me, struct node *keeper, bool detached, struct passed *inputs)
{
    bool enabled = grad_enabled(me), ok = true;
    for (int i = 0; i < keeper->saved_count && ok; i++) {
        grad_set_enabled(me, true);
        struct tensor *tensor = node_saved(me, keeper, i);
        grad_set_enabled(me, enabled);
        ok = !task_failed(me);
        if (ok && tensor != NULL && detached) {
            bool wants = tensor->requires_grad;
            tensor     = tensor_detach(me, tensor);
            if (tensor != NULL)
                tensor->requires_grad = wants;
            ok = tensor != NULL;
        }
        ok = ok && passed_add(me, inputs, tensor);
    }
    node_let_go_unpacked(me, keeper);
    return ok;
}

static void
print_meta(const struct output_meta *meta, struct str *out)
{
    shape_print(meta->dims, meta->size, out);
    str_addf(out, " of %s on %s", dtype_name((enum dtype)meta->dtype), meta->device < 0 ? "the CPU" : "device ");
    if (meta->device >= 0)
        str_addf(out, "%d", meta->device);
}

static bool
differs(struct task *me, size_t place, const struct output_meta *saved, const struct output_meta *found)
{
    struct str was = { 0 }, is = { 0 };
    print_meta(saved, &was);
    print_meta(found, &is);
    failed(me, E_CHECKPOINT,
           "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during "
           "the forward pass: the tensor at position %zu was %s, and is %s now", place, str_text(&was), str_text(&is));
    str_free(&was);
    str_free(&is);
    return false;
}

static struct found *
found_of(struct holder *holder, uint64_t backward)
{
    for (size_t i = 0; i < holder->found_count; i++)
        if (holder->found[i].backward == backward)
            return &holder->found[i];
    return NULL;
}

static bool
recomputed_match(struct task *me, struct checkpoint *checkpoint, const struct recompute_hooks *again)
{
    if (checkpoint->lenient)
        return true;
    if (again->count != checkpoint->saving_count)
        return failed(me, E_CHECKPOINT,
                      "torch.utils.checkpoint: A different number of tensors was saved during the original forward "
                      "(%zu) and recomputation (%zu). Does the function do the same each time it is called?",
                      checkpoint->saving_count, again->count);
    for (size_t i = 0; checkpoint->what.check && i < checkpoint->saving_count; i++) {
        const struct saving *saving = &checkpoint->savings[i];
        const struct found  *found  = saving->holder != NULL ? found_of(saving->holder, again->backward) : NULL;
        if (found == NULL)
            continue;
        struct output_meta meta = meta_of_tensor(found->tensor);
        if (memcmp(&meta, &saving->meta, sizeof meta) != 0)
            return differs(me, i, &saving->meta, &meta);
    }
    return true;
}

static struct recomputation *
run_of(struct checkpoint *checkpoint, uint64_t backward)
{
    for (size_t i = 0; i < checkpoint->run_count; i++)
        if (checkpoint->runs[i].backward == backward)
            return &checkpoint->runs[i];
    return NULL;
}

static bool
recompute_for(struct task *me, struct checkpoint *checkpoint, uint64_t backward)
{
    struct recompute_hooks again  = { { recompute_pack }, checkpoint, backward, 0 };
    struct passed          inputs = { 0 }, outputs = { 0 };
    size_t                 mark   = scope_mark(me);
    bool ok = inputs_again(me, checkpoint->inputs, false, &inputs) &&
              checkpoint_recompute(me, checkpoint, &again, &inputs, &outputs);
    monitor_enter(me, &checkpoint->monitor);
    ok = ok && recomputed_match(me, checkpoint, &again);
    monitor_leave(me, &checkpoint->monitor);
    passed_clear(me, &inputs);
    passed_clear(me, &outputs);
    scope_release(me, mark);
    return ok;
}

/* Whoever comes first in a backward recomputes; the workers of other devices wait for it. */
static bool
recomputed_for(struct task *me, struct checkpoint *checkpoint, uint64_t backward)
{
    struct wait_reason reason = { .what = "checkpoint", .sequence = -1, .peer = -1, .join = true,
                                  .detail = "until another device's worker has recomputed it" };
    monitor_enter(me, &checkpoint->monitor);
    struct recomputation *run = run_of(checkpoint, backward);
    bool                  mine = run == NULL, ok = true;
    if (mine) {
        ok = host_room(me, &checkpoint->runs, &checkpoint->run_room, checkpoint->run_count + 1,
                       sizeof *checkpoint->runs);
        if (ok)
            checkpoint->runs[checkpoint->run_count++] = (struct recomputation){ backward, RECOMPUTE_RUNS };
    }
    while (ok && !mine && run_of(checkpoint, backward)->state == RECOMPUTE_RUNS)
        ok = monitor_wait(me, &checkpoint->monitor, &reason);
    ok = ok && (mine || run_of(checkpoint, backward)->state == RECOMPUTE_DONE);
    monitor_leave(me, &checkpoint->monitor);
    if (!mine || !ok)
        return ok || failed(me, E_RUNTIME, "the checkpoint could not be recomputed");
    ok = recompute_for(me, checkpoint, backward);
    monitor_enter(me, &checkpoint->monitor);
    run_of(checkpoint, backward)->state = ok ? RECOMPUTE_DONE : RECOMPUTE_FAILED;
    monitor_wake(me, &checkpoint->monitor);
    monitor_leave(me, &checkpoint->monitor);
    return ok;
}

/* A node's turn has come: it gets the tensor, and nobody keeps it any more. */
static struct tensor *
holder_unpack(struct task *me, struct packed *packed)
{
    struct holder     *holder     = (struct holder *)packed;
    struct checkpoint *checkpoint = holder->checkpoint;
    uint64_t           backward   = autograd_backward_id(me);
    if (backward == 0)
        backward = checkpoint->outside--;
    if (!recomputed_for(me, checkpoint, backward))
        return NULL;
    monitor_enter(me, &checkpoint->monitor);
    struct found  *found  = found_of(holder, backward);
    struct tensor *tensor = found != NULL ? found->tensor : NULL;
    if (found != NULL)
        *found = holder->found[--holder->found_count];
    monitor_leave(me, &checkpoint->monitor);
    if (tensor == NULL)
        return failed_null(me, E_CHECKPOINT,
                           "torch.utils.checkpoint: a saved tensor is wanted a second time in one backward");
    return tensor_born(me, tensor);
}

/* ---- reentrant: one node for the whole function ---- */

static bool
backward_of_outputs(struct task *me, const struct passed *outputs, struct tensor *const *grads, int grad_count)
{
    struct passed roots = { 0 }, given = { 0 };
    bool          ok    = true;
    for (int i = 0; i < outputs->count && ok; i++)
        if (outputs->at[i] != NULL && outputs->at[i]->requires_grad)
            ok = (i < grad_count || failed(me, E_RUNTIME, "the checkpointed function answered %d results, and %d when "
                                                          "it was called again", grad_count, outputs->count)) &&
                 passed_add(me, &roots, outputs->at[i]) && passed_add(me, &given, grads[i]);
    if (ok && roots.count == 0)
        ok = failed(me, E_RUNTIME, "none of output has requires_grad=True, this checkpoint() is not necessary");
    ok = ok && autograd_backward(me, roots.at, given.at, roots.count, NULL);
    passed_clear(me, &roots);
    passed_clear(me, &given);
    return ok;
}

static bool
checkpoint_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct checkpoint *checkpoint = node->context;
    struct passed      inputs = { 0 }, outputs = { 0 };
    if (!autograd_may_checkpoint(me))
        return failed(me, E_RUNTIME,
                      "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an "
                      "`inputs` parameter to .backward(). To resolve this error, you can either set "
                      "use_reentrant=False, or call .backward() without passing the `inputs` argument.");
    bool ok = node_keeps_saved(me, node) && inputs_again(me, node, true, &inputs) &&
              checkpoint_recompute(me, checkpoint, NULL, &inputs, &outputs) &&
              backward_of_outputs(me, &outputs, grad_out, node->output_count);
    for (int i = 0, edge = 0; i < inputs.count && ok; i++)
        if (inputs.at[i] != NULL)
            grad_in[edge++] = tensor_born(me, tensor_ref(inputs.at[i]->grad));
    passed_clear(me, &inputs);
    passed_clear(me, &outputs);
    return ok;
}

static void
checkpoint_drop(struct task *me, void *checkpoint)
{
    checkpoint_unref(me, checkpoint);
}

static bool
is_one_of(const struct passed *inputs, const struct tensor *tensor)
{
    for (int i = 0; i < inputs->count; i++)
        if (inputs->at[i] == tensor)
            return true;
    return false;
}

/* What was an argument, or has a history, becomes another tensor first. */
static bool
record_output(struct task *me, struct node *node, const struct passed *inputs, int nr, struct tensor **output)
{
    struct tensor *tensor = *output;
    if (tensor == NULL || !dtype_is_float(tensor->dtype))
        return true;
    if (tensor->requires_grad || tensor->grad_fn != NULL || is_one_of(inputs, tensor))
        tensor = tensor_detach(me, tensor);
    if (tensor == NULL)
        return false;
    node_output(me, node, tensor, nr);
    tensor_keep(me, output, tensor);
    return true;
}

static bool
record_call(struct task *me, struct checkpoint *checkpoint, const struct passed *inputs, struct passed *outputs)
{
    int tensors = 0;
    for (int i = 0; i < inputs->count; i++)
        tensors += inputs->at[i] != NULL;
    struct node_room room = { tensors, outputs->count, inputs->count };
    struct node     *node = node_new_with(me, "CheckpointFunctionBackward", checkpoint_backward, &room);
    if (node == NULL)
        return false;
    node->fill_missing = true;
    node->context      = checkpoint_ref(me, checkpoint);
    node->drop_context = checkpoint_drop;
    bool ok = true;
    for (int i = 0, edge = 0; i < inputs->count && ok; i++) {
        ok = node_save(me, node, inputs->at[i], false);
        if (ok && inputs->at[i] != NULL)
            node_connect(me, node, edge++, inputs->at[i]);
    }
    for (int i = 0; i < outputs->count && ok && !task_failed(me); i++)
        ok = record_output(me, node, inputs, i, &outputs->at[i]);
    node_unref(me, node);
    return ok && !task_failed(me);
}

static bool
forward_reentrant(struct task *me, struct checkpoint *checkpoint, const struct passed *inputs, struct passed *outputs)
{
    bool enabled = grad_enabled(me), wanted = any_requires_grad(me, inputs->at, inputs->count);
    grad_set_enabled(me, false);
    bool ok = checkpoint->what.run(me, checkpoint->what.context, inputs, outputs);
    grad_set_enabled(me, enabled);
    return ok && (!wanted || outputs->count == 0 || record_call(me, checkpoint, inputs, outputs));
}

/* ---- the call ---- */

static bool
forward_held(struct task *me, struct checkpoint *checkpoint, const struct passed *inputs, struct passed *outputs)
{
    bool ok = true;
    if (!grad_enabled(me))
        return checkpoint->what.run(me, checkpoint->what.context, inputs, outputs);
    checkpoint->inputs = node_keeper(me, "checkpoint", inputs->count);
    for (int i = 0; checkpoint->inputs != NULL && i < inputs->count && ok; i++)
        ok = node_save(me, checkpoint->inputs, inputs->at[i], false);
    if (checkpoint->inputs == NULL || !ok)
        return false;
    struct saved_hooks *outer = saved_hooks_set(me, &checkpoint->hooks);
    ok = checkpoint->what.run(me, checkpoint->what.context, inputs, outputs);
    saved_hooks_set(me, outer);
    checkpoint->forward_done = ok;
    return ok;
}

/* The forward costs what it costs without a checkpoint. What is spared is memory: from here to its
 * backward nothing lives of the function's insides but its inputs. */
bool
checkpoint_forward(struct task *me, struct checkpoint *checkpoint,
                   const struct passed *inputs, struct passed *outputs)
{
    STAGE(me, autograd_checkpoint, checkpoint->number, checkpoint->what.reentrant);
    bool reentrant = checkpoint->what.reentrant;
    bool ok        = reentrant ? forward_reentrant(me, checkpoint, inputs, outputs)
                               : forward_held(me, checkpoint, inputs, outputs);
    stage_set(&stage_, 2, (int64_t)checkpoint->saving_count);
    return ok;
}
