/* The history of tensors: which node a gradient goes to next. A view knows its base; when the base (or another view of
 * it) is changed in place, the view's grad_fn is made anew from the base's on the next use. A change through a view is
 * recorded at the base as CopySlices: the change's own gradient for the slice, the old one for the rest.
 *
 * Interface: view_of when a view is made; any_requires_grad and node_connect when an op is recorded; inplace_allowed,
 * then history_rebase when something is changed; gradient_edge wherever a gradient's way on is asked for. What the
 * nodes made here do in a backward is in functions_view.c. In PyTorch: autograd/variable.cpp. */
#include "autograd/history.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "autograd/internal.h"
#include "sched/sched.h"

void
view_of(struct task *me, struct tensor *view, struct tensor *base)
{
    if (view == base)
        return;
    view->multi_view   = base->multi_view;
    view->view_version = grad_enabled(me) ? tensor_version(view) : VIEW_WITHOUT_GRAD;
    tensor_keep(me, &view->base, base->base != NULL ? base->base : base);
}

bool
view_is_stale(const struct tensor *tensor)
{
    if (tensor->base == NULL || tensor->view_version == VIEW_WITHOUT_GRAD ||
        tensor->view_version == tensor_version(tensor))
        return false;
    return tensor->multi_view ? tensor->grad_fn != NULL : tensor->base->grad_fn != NULL;
}

static void
place_drop(struct task *me, void *context)
{
    struct slice_place *place = context;
    node_unref(me, place->inner);
    free(place);
}

struct strided
strides_of(const struct tensor *tensor)
{
    struct strided at = { .dims = tensor->dims, .offset = tensor->offset };
    memcpy(at.size, tensor->size, sizeof at.size);
    memcpy(at.stride, tensor->stride, sizeof at.stride);
    return at;
}

/* Where its last element lies, and one more. */
static int64_t
end_of(const struct strided *at)
{
    int64_t last = at->offset;
    for (int i = 0; i < at->dims; i++) {
        if (at->size[i] == 0)
            return at->offset;
        last += (at->size[i] - 1) * at->stride[i];
    }
    return last + 1;
}

bool
strides_overlap(const struct strided *at, bool stretched_too)
{
    for (int i = 0; i < at->dims; i++) {
        int64_t below = 0; /* where the dimensions with smaller steps end */
        if (at->size[i] < 2 || (at->stride[i] == 0 && !stretched_too))
            continue;
        for (int j = 0; j < at->dims; j++)
            if (at->size[j] > 1 && j != i &&
                (at->stride[j] < at->stride[i] || (at->stride[j] == at->stride[i] && j > i)))
                below += (at->size[j] - 1) * at->stride[j];
        if (at->stride[i] <= below)
            return true;
    }
    return false;
}

/* Its elements cannot be told apart by where they lie. */
static bool
has_shared_elements(const struct tensor *tensor)
{
    struct strided at = strides_of(tensor);
    return strides_overlap(&at, true);
}

static struct slice_place *
place_new(struct task *me, const struct tensor *view, const struct tensor *base)
{
    struct slice_place *place  = calloc(1, sizeof *place);
    int64_t            origin = view->offset < base->offset ? view->offset : base->offset;
    if (place == NULL)
        return failed_null(me, E_MEMORY, "out of memory while recording a view");
    place->view = strides_of(view);
    place->base = strides_of(base);
    place->view.offset -= origin;
    place->base.offset -= origin;
    int64_t of_base = end_of(&place->base), of_view = end_of(&place->view);
    place->span = of_base > of_view ? of_base : of_view;
    return place;
}

/* The view's node: it takes gradients to `from`, a tensor over the same memory. */
static bool
view_record(struct task *me, struct tensor *view, struct tensor *from)
{
    struct node *node = node_new(me, "AsStridedBackward0", as_strided_backward, 1, 1);
    if (node == NULL)
        return false;
    node->device       = tensor_device(view);
    node->drop_context = place_drop;
    node->context      = place_new(me, view, from);
    if (node->context == NULL)
        node->drop_context = NULL;
    else
        node_connect(me, node, 0, from);
    bool ok = node->edges[0].node != NULL;
    if (ok)
        node_output(me, node, view, 0);
    node_unref(me, node);
    return ok;
}

/* The view's history, made anew: a view of the base as it is now. */
static bool
view_refresh(struct task *me, struct tensor *view)
{
    if (view->multi_view)
        return failed(me, E_RUNTIME,
                      "Output %d of %s is a view and its base or another view of its base has been modified inplace. "
                      "This view is the output of a function that returns multiple views. Such functions do not allow "
                      "the output views to be modified inplace. You should replace the inplace operation by an "
                      "out-of-place one.",
                      view->output_nr, view->grad_fn->name);
    return view_record(me, view, view->base);
}

struct tensor *
tensor_as_strided(struct task *me, struct tensor *a, const struct strided *at)
{
    if (tensor_is_sparse(a))
        return failed_null(me, E_NOT_IMPLEMENTED, "as_strided is not implemented for sparse tensors: use t:to_dense()");
    struct view_place place = { at->dims, at->size, at->stride, at->offset };
    struct tensor    *view  = a != NULL ? tensor_view(me, a, &place) : NULL;
    if (view == NULL)
        return NULL;
    view_of(me, view, a);
    if (!any_requires_grad(me, &a, 1))
        return view;
    if (has_shared_elements(a))
        return failed_null(me, E_NOT_IMPLEMENTED, "the gradient of as_strided of a tensor whose elements share memory");
    return view_record(me, view, a) ? view : NULL;
}

struct node *
gradient_edge(struct task *me, struct tensor *tensor, int *output_nr)
{
    *output_nr = 0;
    if (tensor == NULL || (view_is_stale(tensor) && !view_refresh(me, tensor)))
        return NULL;
    if (tensor->grad_fn != NULL) {
        *output_nr = tensor->output_nr;
        return node_ref(me, tensor->grad_fn);
    }
    return tensor->requires_grad ? node_accumulator(me, tensor) : NULL;
}

void
node_connect(struct task *me, struct node *node, int edge, struct tensor *input)
{
    assert(edge < node->edge_count && node->edges[edge].node == NULL);
    node->edges[edge].node = gradient_edge(me, input, &node->edges[edge].input_nr);
}

bool
any_requires_grad(const struct task *me, struct tensor *const *tensors, int count)
{
    if (!grad_enabled(me))
        return false;
    for (int i = 0; i < count; i++)
        if (tensors[i] != NULL && (tensors[i]->requires_grad || view_is_stale(tensors[i])))
            return true;
    return false;
}

bool
inplace_allowed(struct task *me, struct tensor *tensor)
{
    if (tensor == NULL)
        return false;
    if (!grad_enabled(me))
        return true;
    if (tensor->multi_view && tensor->requires_grad && tensor->grad_fn != NULL)
        return failed(me, E_RUNTIME,
                      "Output %d of %s is a view and is being modified inplace. This view is the output of a function "
                      "that returns multiple views. Such functions do not allow the output views to be modified "
                      "inplace. You should replace the inplace operation by an out-of-place one.",
                      tensor->output_nr, tensor->grad_fn->name);
    if (tensor->requires_grad && tensor->grad_fn == NULL)
        return failed(me, E_RUNTIME, "a leaf Variable that requires grad is being used in an in-place operation.");
    if (tensor->base != NULL && tensor->base->requires_grad && tensor->base->grad_fn == NULL)
        return failed(me, E_RUNTIME,
                      "a view of a leaf Variable that requires grad is being used in an in-place operation.");
    return true;
}

static bool
copy_slices_connect(struct task *me, struct node *slices, struct tensor *view, struct node *node)
{
    struct slice_place *place = place_new(me, view, view->base);
    if (place == NULL)
        return false;
    place->inner         = node_ref(me, node);
    slices->context      = place;
    slices->drop_context = place_drop;
    slices->device       = tensor_device(view);
    slices->stream       = node->stream;
    node_connect(me, slices, 0, view->base);
    for (int i = 1; i < node->edge_count; i++)
        slices->edges[i] = (struct edge){ node_ref(me, node->edges[i].node), node->edges[i].input_nr };
    return !task_failed(me);
}

bool
history_rebase(struct task *me, struct tensor *tensor, struct node *node)
{
    if (tensor->base == NULL) {
        node_output(me, node, tensor, 0);
        atomic_store_explicit(&tensor->version->author, node->name, memory_order_relaxed);
        return true;
    }
    if (has_shared_elements(tensor->base))
        return failed(me, E_NOT_IMPLEMENTED, "an in-place operation on a view of a tensor whose elements share memory");
    struct node *slices = node_new(me, "CopySlices", copy_slices_backward, node->edge_count, 1);
    if (slices == NULL)
        return false;
    bool ok = copy_slices_connect(me, slices, tensor, node);
    if (ok)
        node_output(me, slices, tensor->base, 0);
    atomic_store_explicit(&tensor->version->author, slices->name, memory_order_relaxed);
    node_unref(me, slices);
    return ok && view_refresh(me, tensor);
}
