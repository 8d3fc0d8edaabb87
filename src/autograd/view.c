/* Views and what is done to them in place. A view knows its base; when the base (or another view of it) is changed
 * in place, the view's grad_fn is made anew from the base's on the next use. A change through a view is recorded at
 * the base as CopySlices: the change's own gradient for the slice, the old one for the rest.
 *
 * Interface: view_of when a view is made; inplace_allowed, then history_rebase when something is changed; gradient_edge
 * wherever a gradient's way on is asked for. In PyTorch: autograd/variable.cpp, functions/tensor.cpp (CopySlices). */
#include <stdlib.h>
#include <string.h>
#include "autograd/internal.h"
#include "sched/sched.h"

/* A view's place within its base, whose geometry it remembers. Gradients of a base are made as a vector of `span`
 * elements, as long as its memory, in which both are views. */
struct place {
    int          dims, base_dims;
    int64_t      size[TENSOR_DIMS], stride[TENSOR_DIMS], offset;
    int64_t      base_size[TENSOR_DIMS], base_stride[TENSOR_DIMS], base_offset, span;
    struct node *inner; /* CopySlices: the node of the op that changed the slice; a reference */
};

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
drop_place(struct task *me, void *context)
{
    struct place *place = context;
    node_unref(me, place->inner);
    free(place);
}

/* Elements from the first to the last. */
static int64_t
span_of(int dims, const int64_t *size, const int64_t *stride)
{
    int64_t last = 0;
    for (int i = 0; i < dims; i++) {
        if (size[i] == 0)
            return 0;
        last += (size[i] - 1) * stride[i];
    }
    return last + 1;
}

/* May one element be met at two indices? Stretched dimensions do not count if `stretched_too` is unset. */
static bool
may_overlap(int dims, const int64_t *size, const int64_t *stride, bool stretched_too)
{
    for (int i = 0; i < dims; i++) {
        int64_t below = 0; /* where the dimensions with smaller steps end */
        if (size[i] < 2 || (stride[i] == 0 && !stretched_too))
            continue;
        for (int j = 0; j < dims; j++)
            if (size[j] > 1 && j != i && (stride[j] < stride[i] || (stride[j] == stride[i] && j > i)))
                below += (size[j] - 1) * stride[j];
        if (stride[i] <= below)
            return true;
    }
    return false;
}

static struct place *
place_new(struct task *me, const struct tensor *view, const struct tensor *base)
{
    struct place *place  = calloc(1, sizeof *place);
    int64_t       origin = view->offset < base->offset ? view->offset : base->offset;
    if (place == NULL)
        return failed_null(me, E_MEMORY, "out of memory while recording a view");
    place->dims        = view->dims;
    place->base_dims   = base->dims;
    place->offset      = view->offset - origin;
    place->base_offset = base->offset - origin;
    memcpy(place->size, view->size, sizeof place->size);
    memcpy(place->stride, view->stride, sizeof place->stride);
    memcpy(place->base_size, base->size, sizeof place->base_size);
    memcpy(place->base_stride, base->stride, sizeof place->base_stride);
    int64_t of_base = place->base_offset + span_of(base->dims, base->size, base->stride);
    int64_t of_view = place->offset + span_of(view->dims, view->size, view->stride);
    place->span     = of_base > of_view ? of_base : of_view;
    return place;
}

/* The base's elements in `memory`, recorded: a gradient may have a gradient. */
static struct tensor *
base_in(struct task *me, struct tensor *memory, const struct place *place)
{
    return tensor_as_strided(me, memory, place->base_dims, place->base_size, place->base_stride, place->base_offset);
}

/* The view's elements in `memory`; stretched dimensions count once. */
static struct tensor *
slice_of(struct task *me, struct tensor *memory, const struct place *place)
{
    int64_t size[TENSOR_DIMS];
    for (int i = 0; i < place->dims; i++)
        size[i] = place->stride[i] == 0 && place->size[i] > 1 ? 1 : place->size[i];
    return tensor_as_strided(me, memory, place->dims, size, place->stride, place->offset);
}

/* Windows that share elements (t:unfold): gradients add up where they meet. */
static struct tensor *
add_overlapping(struct task *me, struct tensor *memory, const struct place *place, struct tensor *grad)
{
    struct tensor *every = tensor_to(me, tensor_arange(me, DTYPE_I64, 0, (double)place->span, 1), tensor_device(grad),
                                     DTYPE_I64);
    struct tensor *index = tensor_as_strided(me, every, place->dims, place->size, place->stride, place->offset);
    const int64_t  count = tensor_count(grad);
    index = tensor_reshape(me, index, 1, &count);
    grad  = tensor_reshape(me, grad, 1, &count);
    return index != NULL && grad != NULL ? tensor_index_put(me, OP_index_add, memory, 0, index, grad, 1) : NULL;
}

static bool
as_strided_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    const struct place *place = node->context;
    struct tensor      *grad = grad_out[0], *memory = zeros_of(me, grad, 1, &place->span);
    if (memory == NULL)
        return false;
    if (may_overlap(place->dims, place->size, place->stride, false)) {
        memory = add_overlapping(me, memory, place, grad);
    } else {
        for (int i = 0; grad != NULL && i < place->dims; i++)
            if (place->stride[i] == 0 && place->size[i] > 1)
                grad = tensor_sum_dim(me, grad, i, true);
        if (tensor_copy_(me, slice_of(me, memory, place), grad) == NULL)
            return false;
    }
    grad_in[0] = memory != NULL ? base_in(me, memory, place) : NULL;
    return grad_in[0] != NULL;
}

/* The view's node: it takes gradients to `from`, a tensor over the same memory. */
static bool
view_record(struct task *me, struct tensor *view, struct tensor *from)
{
    struct node *node = node_new(me, "AsStridedBackward0", as_strided_backward, 1, 1);
    if (node == NULL)
        return false;
    node->device       = tensor_device(view);
    node->drop_context = drop_place;
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

/* Any sizes and strides over a's storage; `offset` counts from its first element. */
struct tensor *
tensor_as_strided(struct task *me, struct tensor *a, int dims, const int64_t *sizes, const int64_t *strides,
                  int64_t offset)
{
    if (tensor_is_sparse(a))
        return failed_null(me, E_NOT_IMPLEMENTED, "as_strided is not implemented for sparse tensors: use t:to_dense()");
    struct tensor *view = a != NULL ? tensor_view(me, a, dims, sizes, strides, offset) : NULL;
    if (view == NULL)
        return NULL;
    view_of(me, view, a);
    if (!any_requires_grad(me, &a, 1))
        return view;
    if (may_overlap(a->dims, a->size, a->stride, true))
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

/* The change's own backward works on the slice; the rest of the gradient goes on as it is. */
static bool
copy_slices_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    const struct place *place  = node->context;
    struct tensor      *memory = zeros_of(me, grad_out[0], 1, &place->span);
    struct tensor      *result = memory != NULL ? base_in(me, memory, place) : NULL;
    struct tensor      *slice  = tensor_copy_(me, result, grad_out[0]) != NULL ? slice_of(me, memory, place) : NULL;
    struct tensor      *grad   = tensor_copied(me, slice);
    if (grad == NULL || !place->inner->backward(me, place->inner, &grad, grad_in))
        return false;
    struct tensor *changed = grad_in[0];
    grad_in[0] = result;
    return changed != NULL ? tensor_copy_(me, slice, changed) != NULL : tensor_fill_(me, slice, 0) != NULL;
}

static bool
copy_slices_connect(struct task *me, struct node *slices, struct tensor *view, struct node *node)
{
    struct place *place = place_new(me, view, view->base);
    if (place == NULL)
        return false;
    place->inner         = node_ref(me, node);
    slices->context      = place;
    slices->drop_context = drop_place;
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
    if (may_overlap(tensor->base->dims, tensor->base->size, tensor->base->stride, true))
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
