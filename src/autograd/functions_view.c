/* Gradient functions of views whose history is made anew (AsStrided), and of changes through a view (CopySlices).
 * history.c records both and says where a view lies. */
#include "autograd/internal.h"
#include "sched/sched.h"

/* The base's elements in `memory`, recorded: a gradient may have a gradient. */
static struct tensor *
base_in(struct task *me, struct tensor *memory, const struct slice_place *place)
{
    return tensor_as_strided(me, memory, &place->base);
}

static bool
is_stretched(const struct strided *at, int dim)
{
    return at->stride[dim] == 0 && at->size[dim] > 1;
}

/* The view's elements in `memory`; stretched dimensions count once. */
static struct tensor *
slice_of(struct task *me, struct tensor *memory, const struct slice_place *place)
{
    struct strided at = place->view;
    for (int i = 0; i < at.dims; i++)
        if (is_stretched(&place->view, i))
            at.size[i] = 1;
    return tensor_as_strided(me, memory, &at);
}

/* Windows that share elements (t:unfold): gradients add up where they meet. */
static struct tensor *
add_overlapping(struct task *me, struct tensor *memory, const struct slice_place *place, struct tensor *grad)
{
    struct tensor *every = tensor_to(me, tensor_arange(me, DTYPE_I64, 0, (double)place->span, 1), tensor_device(grad),
                                     DTYPE_I64);
    struct indexed_rows rows  = { .index = tensor_as_strided(me, every, &place->view) };
    const int64_t       count = tensor_count(grad);
    rows.index = tensor_reshape(me, rows.index, 1, &count);
    rows.from  = tensor_reshape(me, grad, 1, &count);
    return tensor_index_put(me, OP_index_add, memory, &rows);
}

bool
as_strided_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    const struct slice_place *place = node->context;
    struct tensor           *grad = grad_out[0], *memory = zeros_of(me, grad, 1, &place->span);
    if (memory == NULL)
        return false;
    if (strides_overlap(&place->view, false)) {
        memory = add_overlapping(me, memory, place, grad);
    } else {
        for (int i = 0; grad != NULL && i < place->view.dims; i++)
            if (is_stretched(&place->view, i))
                grad = tensor_sum_dim(me, grad, i, true);
        if (tensor_copy_(me, slice_of(me, memory, place), grad) == NULL)
            return false;
    }
    grad_in[0] = memory != NULL ? base_in(me, memory, place) : NULL;
    return grad_in[0] != NULL;
}

/* The change's own backward works on the slice; the rest of the gradient goes on as it is. */
bool
copy_slices_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    const struct slice_place *place = node->context;
    struct tensor *memory = zeros_of(me, grad_out[0], 1, &place->span);
    struct tensor *result = memory != NULL ? base_in(me, memory, place) : NULL;
    struct tensor *slice  = tensor_copy_(me, result, grad_out[0]) != NULL ? slice_of(me, memory, place) : NULL;
    struct tensor *grad   = tensor_copied(me, slice);
    bool           done   = grad != NULL && place->inner->backward(me, place->inner, &grad, grad_in);
    node_let_go_unpacked(me, place->inner);
    if (!done)
        return false;
    struct tensor *changed = grad_in[0];
    grad_in[0] = result;
    return changed != NULL ? tensor_copy_(me, slice, changed) != NULL : tensor_fill_(me, slice, 0) != NULL;
}
