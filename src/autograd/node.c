/* Nodes of the graph: made when an op is recorded, freed when the last tensor or edge lets go.
 *
 * Interface in order of use: node_new, node_connect for each input, node_save, node_output; in the backward
 * node_saved, then node_release_saved; node_ref and node_unref all along. In PyTorch: torch::autograd::Node
 * (function.h), SavedVariable (saved_variable.cpp), AccumulateGrad's place in impl::grad_accumulator. */
#include <assert.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "autograd/internal.h"
#include "base/str.h"
#include "device/storage.h"
#include "device/stream.h"
#include "sched/count.h"

/* One block: the node, what its outputs look like, its edges, what it saves. */
static struct node *
node_make(struct task *me, const char *name, node_backward *backward, const struct node_room *room)
{
    size_t bytes = sizeof(struct node) + (size_t)room->outputs * sizeof(struct output_meta) +
                   (size_t)room->edges * sizeof(struct edge) + (size_t)room->saved * sizeof(struct saved);
    struct node *node = host_take(me, bytes);
    if (node == NULL)
        return NULL;
    node->bytes        = bytes;
    node->references   = 1;
    node->name         = name;
    node->backward     = backward;
    node->edge_count   = room->edges;
    node->output_count = room->outputs;
    node->saved_room   = room->saved;
    node->outputs      = (struct output_meta *)(node + 1);
    node->edges        = (struct edge *)(node->outputs + room->outputs);
    node->saved        = (struct saved *)(node->edges + room->edges);
    node->device       = DEVICE_CPU;
    node->line         = me->line;
    for (int i = 0; i < room->outputs; i++)
        node->outputs[i].dims = -1;
    return node;
}

struct node *
node_new_with(struct task *me, const char *name, node_backward *backward, const struct node_room *room)
{
    struct node *node = node_make(me, name, backward, room);
    if (node != NULL)
        node->sequence_nr = me->slots[SLOT_SEQUENCE_NR]++;
    return node;
}

struct node *
node_new(struct task *me, const char *name, node_backward *backward, int edges, int outputs)
{
    return node_new_with(me, name, backward, &(struct node_room){ edges, outputs, NODE_SAVED });
}

struct node *
node_ref(struct task *me, struct node *node)
{
    if (node != NULL)
        count_up(me->sched, &node->references);
    return node;
}

/* `accumulator` is weak: the lock keeps a reader from taking a node that is on its way out. */
static void
accumulator_lock(struct tensor *leaf)
{
    int open = 0;
    if (!sched_has_threads(leaf->storage->sched))
        return;
    while (!atomic_compare_exchange_weak(&leaf->accumulator_lock, &open, 1)) {
        open = 0;
        sched_yield();
    }
}

static void
accumulator_unlock(struct tensor *leaf)
{
    if (sched_has_threads(leaf->storage->sched))
        atomic_store(&leaf->accumulator_lock, 0);
}

static void
accumulator_forget(struct node *node)
{
    accumulator_lock(node->variable);
    if (node->variable->accumulator == node)
        node->variable->accumulator = NULL;
    accumulator_unlock(node->variable);
}

static void
node_free(struct task *me, struct node *node)
{
    node_release_saved(me, node);
    for (int i = 0; i < node->edge_count; i++)
        node_unref(me, node->edges[i].node);
    if (node->drop_context != NULL)
        node->drop_context(me, node->context);
    hook_list_free(me, node->post_hooks);
    hook_list_free(me, node->tensor_hooks);
    tensor_unref(me, node->variable);
    free(node->retained);
    host_return(me, node, node->bytes);
}

/* A graph may be a chain of any length: what dies while a node is torn down is put on a list and freed by the
 * outermost call, so that the stack stays flat. */
void
node_unref(struct task *me, struct node *node)
{
    if (node == NULL || !count_down(me->sched, &node->references))
        return;
    if (node->variable != NULL)
        accumulator_forget(node);
    struct node **dying = (struct node **)(uintptr_t)me->slots[SLOT_DYING];
    if (dying != NULL) {
        node->next_dead = *dying;
        *dying          = node;
        return;
    }
    struct node *first = node;
    me->slots[SLOT_DYING] = (uintptr_t)&first;
    while (first != NULL) {
        struct node *dead = first;
        first = dead->next_dead;
        node_free(me, dead);
    }
    me->slots[SLOT_DYING] = 0;
}

void
tensor_leave_history(struct task *me, struct tensor *tensor)
{
    struct node *node = tensor->grad_fn;
    int          kept = 0;
    if (node == NULL)
        return;
    for (int i = 0; i < node->retained_count; i++)
        if (node->retained[i].tensor != tensor)
            node->retained[kept++] = node->retained[i];
    if (kept != node->retained_count)
        node->retained_count = kept; /* replicas' outputs share one node: read it, but do not write in vain */
    tensor->grad_fn = NULL;
    node_unref(me, node);
}

/* The tensor's end: called by tensor_unref before the rest of it goes. */
static void
release_history(struct task *me, struct tensor *tensor)
{
    tensor_leave_history(me, tensor);
    hook_list_free(me, tensor->hooks);
    tensor->hooks = NULL;
}

void
tensor_has_history(struct tensor *tensor)
{
    tensor->drop_autograd = release_history;
}

void
tensor_set_history(struct task *me, struct tensor *tensor, struct node *node, int nr)
{
    tensor->grad_fn       = node_ref(me, node);
    tensor->output_nr     = nr;
    tensor->requires_grad = true;
    tensor->view_version  = tensor_version(tensor);
    tensor_has_history(tensor);
}

void
node_output(struct task *me, struct node *node, struct tensor *tensor, int nr)
{
    struct output_meta *meta = &node->outputs[nr];
    struct node        *old  = tensor->grad_fn;
    assert(nr < node->output_count);
    meta->dtype  = tensor->dtype;
    meta->device = tensor_device(tensor);
    meta->dims   = tensor->dims;
    memcpy(meta->size, tensor->size, sizeof meta->size);
    tensor_set_history(me, tensor, node, nr);
    node_unref(me, old);
}

struct node *
node_keeper(struct task *me, const char *name, int saved)
{
    return node_make(me, name, NULL, &(struct node_room){ 0, 0, saved });
}

struct saved_hooks *
saved_hooks_set(struct task *me, struct saved_hooks *hooks)
{
    struct saved_hooks *old = (struct saved_hooks *)(uintptr_t)me->slots[SLOT_SAVING];
    me->slots[SLOT_SAVING]  = (uintptr_t)hooks;
    return old;
}

/* Of what the hooks keep the node knows the history alone. */
static bool
save_packed(struct task *me, struct saved *saved, struct tensor *tensor, bool is_output)
{
    struct saved_hooks *hooks = (struct saved_hooks *)(uintptr_t)me->slots[SLOT_SAVING];
    if (!hooks->pack(me, hooks, tensor, &saved->packed))
        return false;
    saved->is_output = is_output;
    if (saved->packed == NULL || is_output)
        return true;
    if (tensor->grad_fn != NULL)
        saved->from = (struct edge){ node_ref(me, tensor->grad_fn), tensor->output_nr };
    else if (tensor->requires_grad)
        saved->from.node = node_accumulator(me, tensor);
    return !task_failed(me);
}

bool
node_save(struct task *me, struct node *node, struct tensor *tensor, bool is_output)
{
    assert(node->saved_count < node->saved_room);
    struct saved *saved = &node->saved[node->saved_count++];
    if (tensor == NULL)
        return true;
    if (me->slots[SLOT_SAVING] != 0 && !save_packed(me, saved, tensor, is_output))
        return false;
    if (saved->packed != NULL)
        return true;
    bool           is_leaf = !is_output && tensor->grad_fn == NULL && tensor->requires_grad;
    struct tensor *kept    = is_leaf || !dtype_is_float(tensor->dtype) ? tensor : tensor_alias(me, tensor);
    if (kept == NULL)
        return false;
    if (!is_output && tensor->grad_fn != NULL)
        saved->from = (struct edge){ node_ref(me, tensor->grad_fn), tensor->output_nr };
    saved->tensor    = tensor_ref(kept);
    saved->version   = tensor_version(tensor);
    saved->is_output = is_output;
    saved->is_view   = tensor->base != NULL;
    return true;
}

void
node_release_saved(struct task *me, struct node *node)
{
    for (int i = 0; i < node->saved_count; i++) {
        tensor_drop(me, &node->saved[i].tensor);
        node_unref(me, node->saved[i].from.node);
        node->saved[i].from.node = NULL;
        if (node->saved[i].packed != NULL)
            node->saved[i].packed->drop(me, node->saved[i].packed);
        node->saved[i].packed = NULL;
    }
    if (node->saved_count > 0 || node->context != NULL)
        node->released = true;
}

/* The tensor's history as it is by now, as far as that is known: PyTorch names that one. */
static void
print_origin(const struct node *node, const struct saved *saved, struct str *out)
{
    const char *author = atomic_load_explicit(&saved->tensor->version->author, memory_order_relaxed);
    const char *name   = saved->from.node != NULL ? saved->from.node->name : NULL;
    int         nr     = saved->from.input_nr;
    if (saved->is_output || author != NULL) {
        name = saved->is_output ? node->name : saved->is_view ? "AsStridedBackward0" : author;
        nr   = 0;
    }
    if (name != NULL)
        str_addf(out, ", which is output %d of %s,", nr, name);
}

static bool
modified(struct task *me, const struct node *node, const struct saved *saved)
{
    const struct tensor *tensor = saved->tensor;
    struct str           shape = { 0 }, origin = { 0 };
    shape_print(tensor->dims, tensor->size, &shape);
    print_origin(node, saved, &origin);
    failed(me, E_RUNTIME,
           "one of the variables needed for gradient computation has been modified by an inplace operation: "
           "[torch.%sTensor %s]%s is at version %u; expected version %u instead. Hint: %s needs the value that it "
           "had in the forward; write a new tensor instead of changing it.",
           dtype_title(tensor->dtype), str_text(&shape), str_text(&origin), tensor_version(tensor), saved->version,
           node->name);
    str_free(&shape);
    str_free(&origin);
    return false;
}

bool
node_keeps_saved(struct task *me, const struct node *node)
{
    return !node->released ||
           failed(me, E_RUNTIME,
                  "Trying to backward through the graph a second time (or directly access saved tensors after they "
                  "have already been freed). Saved intermediate values of the graph are freed when you call "
                  ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
                  "graph a second time or if you need to access saved tensors after calling backward.");
}

void
node_let_go_unpacked(struct task *me, struct node *node)
{
    for (int i = 0; i < node->saved_count; i++)
        if (node->saved[i].packed != NULL)
            tensor_drop(me, &node->saved[i].tensor);
}

/* A gradient function may ask for one twice, and it is unpacked once. */
static struct tensor *
unpacked(struct task *me, struct saved *saved)
{
    if (saved->tensor == NULL)
        tensor_keep(me, &saved->tensor, saved->packed->unpack(me, saved->packed));
    return saved->tensor;
}

struct tensor *
node_saved(struct task *me, struct node *node, int index)
{
    assert(index < node->saved_count);
    struct saved *saved = &node->saved[index];
    if (!node_keeps_saved(me, node))
        return NULL;
    if (saved->packed != NULL && unpacked(me, saved) == NULL)
        return NULL;
    if (saved->tensor == NULL)
        return NULL;
    if (saved->packed == NULL && tensor_version(saved->tensor) != saved->version) {
        modified(me, node, saved);
        return NULL;
    }
    if ((!saved->is_output && saved->from.node == NULL) || !grad_enabled(me))
        return saved->tensor;
    struct tensor *tensor = tensor_alias(me, saved->tensor);
    if (tensor != NULL)
        tensor_set_history(me, tensor, saved->is_output ? node : saved->from.node, saved->from.input_nr);
    return tensor;
}

static struct node *
accumulator_alive(struct task *me, struct tensor *leaf)
{
    struct node *node = leaf->accumulator;
    if (!sched_has_threads(me->sched))
        return node_ref(me, node); /* it would have been forgotten */
    int          seen = node != NULL ? atomic_load(&node->references) : 0;
    while (seen > 0)
        if (atomic_compare_exchange_weak(&node->references, &seen, seen + 1))
            return node;
    return NULL;
}

struct node *
node_accumulator(struct task *me, struct tensor *leaf)
{
    accumulator_lock(leaf);
    struct node *node = accumulator_alive(me, leaf);
    if (node == NULL) {
        node = node_make(me, "torch::autograd::AccumulateGrad", accumulate_backward, &(struct node_room){ 0, 1, 0 });
        if (node != NULL) {
            node->sequence_nr = UINT64_MAX;
            node->device      = tensor_device(leaf);
            node->stream      = node->device >= 0 ? stream_current(me, node->device) : NULL;
            node->variable    = tensor_ref(leaf);
            leaf->accumulator = node;
        }
    }
    accumulator_unlock(leaf);
    return node;
}

void
node_accumulator_reset(struct tensor *leaf)
{
    accumulator_lock(leaf);
    leaf->accumulator = NULL;
    accumulator_unlock(leaf);
}

bool
grad_enabled(const struct task *me)
{
    return me->slots[SLOT_NO_GRAD] == 0;
}

void
grad_set_enabled(struct task *me, bool enabled)
{
    me->slots[SLOT_NO_GRAD] = !enabled;
}
