/* Other arrangements of elements, as PyTorch spells them: permute, split into several views, reductions over several
 * dimensions, rows by index. Each takes dimensions that count from the end where they are negative. */
#include <string.h>
#include "autograd/internal.h"
#include "device/device.h"
#include "device/stream.h"
#include "sched/task.h"

struct tensor *
tensor_permute(struct task *me, struct tensor *a, int dims, const int64_t *order)
{
    struct op_args args = { .in = { a }, .dims = dims };
    bool           seen[TENSOR_DIMS] = { false };
    if (a == NULL)
        return NULL;
    if (dims != a->dims)
        return failed_null(me, E_SHAPE, "permute: %d dimensions are given for a tensor of %d", dims, a->dims);
    for (int i = 0; i < dims; i++) {
        int64_t dim = order[i] < 0 ? order[i] + dims : order[i];
        if (dim < 0 || dim >= dims)
            return failed_null(me, E_INDEX,
                               "Dimension out of range (expected to be in range of [%d, %d], but got %lld)", -dims,
                               dims - 1, (long long)order[i]);
        if (seen[dim])
            return failed_null(me, E_RUNTIME, "permute: dimension %lld is given twice", (long long)dim);
        seen[dim]     = true;
        args.sizes[i] = dim;
    }
    return op_call(me, OP_permute, &args);
}

struct tensor *
tensor_fold(struct task *me, enum op op, struct tensor *a, const struct fold_options *options)
{
    struct op_args args = { .in = { a }, .dims = options->dims, .keepdim = options->keepdim,
                            .alpha = options->correction,
                            .start = options->any };
    memcpy(args.sizes, options->dim, sizeof args.sizes);
    return a != NULL ? op_call(me, op, &args) : NULL;
}

struct tensor *
tensor_index_select(struct task *me, enum op op, struct tensor *a, int64_t dim, struct tensor *index)
{
    struct op_args args = { .in = { a, index }, .dim = dim };
    return a != NULL && index != NULL ? op_call(me, op, &args) : NULL;
}

struct tensor *
tensor_index_put(struct task *me, enum op op, struct tensor *a, const struct indexed_rows *rows)
{
    return op_call_checked(me, op, &(struct op_args){ .in = { a, rows->index, rows->from }, .dim = rows->dim,
                                                      .alpha = 1 });
}

/* ---- several views at once ---- */

/* Several views that follow each other and have one node: its name, and what takes their gradients back. */
struct many_views { const char *name; node_backward *backward; };

/* What came for each view, zeros for those that got nothing; unbind's get back the dimension that they lost. */
static bool
join_gradients(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in,
               bool unbound)
{
    int             dim = (int)node->numbers[0];
    size_t          bytes = (size_t)node->output_count * sizeof(struct tensor *);
    struct tensor **parts = host_take(me, bytes), *given = NULL;
    if (parts == NULL)
        return false;
    for (int i = 0; i < node->output_count && given == NULL; i++)
        given = grad_out[i];
    for (int i = 0; i < node->output_count; i++) {
        const struct output_meta *meta = &node->outputs[i];
        parts[i] = grad_out[i] != NULL ? grad_out[i] : zeros_of(me, given, meta->dims, meta->size);
        if (unbound)
            parts[i] = tensor_unsqueeze(me, parts[i], dim);
    }
    grad_in[0] = tensor_cat(me, parts, node->output_count, dim);
    host_return(me, parts, bytes);
    return grad_in[0] != NULL;
}

static bool
split_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return join_gradients(me, node, grad_out, grad_in, false);
}

static bool
unbind_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    return join_gradients(me, node, grad_out, grad_in, true);
}

/* They are made without recording: one node stands for all of them. Without lengths each is one index. */
static bool
make_views(struct task *me, struct tensor *a, const struct pieces *pieces, struct tensor **out)
{
    const int64_t *lengths = pieces->lengths;
    bool           enabled = grad_enabled(me);
    int64_t        start = 0;
    grad_set_enabled(me, false);
    for (int i = 0; i < pieces->count; i++) {
        out[i] = lengths == NULL ? tensor_select(me, a, pieces->dim, i)
                                 : tensor_narrow(me, a, pieces->dim, start, lengths[i]);
        if (out[i] == NULL)
            break;
        start += lengths == NULL ? 1 : lengths[i];
        if (!enabled)
            continue;
        out[i]->view_version = tensor_version(out[i]);
        out[i]->multi_view   = true;
    }
    grad_set_enabled(me, enabled);
    return !task_failed(me);
}

static bool
record_views(struct task *me, const struct many_views *kind, struct tensor *a, const struct pieces *pieces,
             struct tensor **out)
{
    if (pieces->count == 0 || !any_requires_grad(me, &a, 1) || !dtype_is_float(a->dtype))
        return true;
    struct node *node = node_new(me, kind->name, kind->backward, 1, pieces->count);
    if (node == NULL)
        return false;
    node->numbers[0] = pieces->dim < 0 ? pieces->dim + a->dims : pieces->dim;
    node->device     = tensor_device(a);
    node->stream     = node->device >= 0 ? stream_current(me, node->device) : NULL;
    node_connect(me, node, 0, a);
    for (int i = 0; i < pieces->count && !task_failed(me); i++)
        node_output(me, node, out[i], i);
    node_unref(me, node);
    return !task_failed(me);
}

bool
tensor_split(struct task *me, struct tensor *a, const struct pieces *pieces, struct tensor **out)
{
    static const struct many_views even = { "SplitBackward0", split_backward };
    static const struct many_views listed = { "SplitWithSizesBackward0", split_backward };
    return a != NULL && make_views(me, a, pieces, out) &&
           record_views(me, pieces->listed ? &listed : &even, a, pieces, out);
}

bool
tensor_unbind(struct task *me, struct tensor *a, int dim, struct tensor **out)
{
    static const struct many_views unbind = { "UnbindBackward0", unbind_backward };
    struct pieces pieces = { .dim = dim, .count = a != NULL ? (int)tensor_size(a, dim) : 0 };
    return a != NULL && make_views(me, a, &pieces, out) && record_views(me, &unbind, a, &pieces, out);
}
