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
tensor_index_put(struct task *me, enum op op, struct tensor *a, int64_t dim, struct tensor *index, struct tensor *from,
                 double alpha)
{
    struct op_args args = { .in = { a, index, from }, .dim = dim, .alpha = alpha };
    return a != NULL && index != NULL && from != NULL ? op_call(me, op, &args) : NULL;
}

/* In place, with the op's own node: the result takes the first operand's place. */
struct tensor *
tensor_in_place(struct task *me, enum op op, const struct op_args *args)
{
    struct op_args into = *args;
    for (int i = 0; i < op_info(op)->inputs; i++)
        if (args->in[i] == NULL)
            return NULL;
    into.out = args->in[0];
    return inplace_allowed(me, into.out) ? op_call(me, op, &into) : NULL;
}

/* ---- several views at once ---- */

/* What came for each piece, zeros for those that got nothing, joined. */
static bool
split_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    size_t          bytes = (size_t)node->output_count * sizeof(struct tensor *);
    struct tensor **parts = host_take(me, bytes), *given = NULL;
    if (parts == NULL)
        return false;
    for (int i = 0; i < node->output_count && given == NULL; i++)
        given = grad_out[i];
    for (int i = 0; i < node->output_count; i++) {
        const struct output_meta *meta = &node->outputs[i];
        parts[i] = grad_out[i] != NULL ? grad_out[i] : zeros_of(me, given, meta->dims, meta->size);
    }
    grad_in[0] = tensor_cat(me, parts, node->output_count, (int)node->numbers[0]);
    host_return(me, parts, bytes);
    return grad_in[0] != NULL;
}

static bool
unbind_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
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
        parts[i] = tensor_unsqueeze(me, grad_out[i] != NULL ? grad_out[i] : zeros_of(me, given, meta->dims, meta->size),
                                    dim);
    }
    grad_in[0] = tensor_cat(me, parts, node->output_count, dim);
    host_return(me, parts, bytes);
    return grad_in[0] != NULL;
}

/* Pieces are made without recording: one node stands for all of them. Without lengths each is one index. */
static bool
cut(struct task *me, struct tensor *a, int dim, const int64_t *lengths, int count, struct tensor **out)
{
    bool    enabled = grad_enabled(me);
    int64_t start = 0;
    grad_set_enabled(me, false);
    for (int i = 0; i < count; i++) {
        out[i] = lengths == NULL ? tensor_select(me, a, dim, i) : tensor_narrow(me, a, dim, start, lengths[i]);
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
record_views(struct task *me, const char *name, node_backward *backward, struct tensor *a, int dim, int count,
             struct tensor **out)
{
    if (count == 0 || !any_requires_grad(me, &a, 1) || !dtype_is_float(a->dtype))
        return true;
    struct node *node = node_new(me, name, backward, 1, count);
    if (node == NULL)
        return false;
    node->numbers[0] = dim < 0 ? dim + a->dims : dim;
    node->device     = tensor_device(a);
    node->stream     = node->device >= 0 ? stream_current(me, node->device) : NULL;
    node_connect(me, node, 0, a);
    for (int i = 0; i < count && !task_failed(me); i++)
        node_output(me, node, out[i], i);
    node_unref(me, node);
    return !task_failed(me);
}

bool
tensor_split(struct task *me, struct tensor *a, int dim, const int64_t *lengths, int count, struct tensor **out)
{
    return a != NULL && cut(me, a, dim, lengths, count, out) &&
           record_views(me, "SplitBackward0", split_backward, a, dim, count, out);
}

bool
tensor_unbind(struct task *me, struct tensor *a, int dim, struct tensor **out)
{
    int count = a != NULL ? (int)tensor_size(a, dim) : 0;
    return a != NULL && cut(me, a, dim, NULL, count, out) &&
           record_views(me, "UnbindBackward0", unbind_backward, a, dim, count, out);
}
