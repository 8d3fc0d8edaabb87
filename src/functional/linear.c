/* torch.nn.functional: linear maps and rows of tables. */
#include <string.h>
#include "autograd/call.h"
#include "functional/functional.h"
#include "functional/functions.h"
#include "sched/sched.h"

static struct tensor *
linear_2d(struct task *me, struct tensor *input, struct tensor *weight, struct tensor *bias)
{
    struct tensor *transposed = tensor_t(me, weight);
    struct op_args args       = { .in = { bias, input, transposed }, .alpha = 1, .beta = 1 };
    if (bias == NULL)
        return tensor_mm(me, input, transposed);
    return transposed != NULL ? op_call(me, OP_addmm, &args) : NULL;
}

/* The last dimension is mapped; whatever stands before it is flattened to rows and put back. What does not lie in one
 * piece is multiplied first, then the bias is added. */
struct tensor *
linear(struct task *me, struct tensor *input, struct tensor *weight, struct tensor *bias)
{
    if (input == NULL || weight == NULL)
        return NULL;
    if (weight->dims != 2 || input->dims < 1 || tensor_size(input, -1) != weight->size[1])
        return failed_null(me, E_SHAPE, "linear: the input's last dimension is %lld, but the weight takes %lld",
                           (long long)(input->dims > 0 ? tensor_size(input, -1) : 0),
                           (long long)(weight->dims > 0 ? tensor_size(weight, -1) : 0));
    if (bias != NULL && bias->dims == 1 && bias->size[0] != 1 && bias->size[0] != weight->size[0])
        return failed_null(me, E_SHAPE, "linear: expected a bias of shape [%lld], got %s", (long long)weight->size[0],
                           shape_text(bias).text);
    if (input->dims == 2)
        return linear_2d(me, input, weight, bias);
    if (bias == NULL || !tensor_is_contiguous(input)) {
        struct tensor *product = tensor_matmul(me, input, tensor_t(me, weight));
        return bias != NULL ? tensor_add(me, product, bias) : product;
    }
    int64_t sizes[TENSOR_DIMS], rows = 1;
    memcpy(sizes, input->size, sizeof sizes);
    for (int i = 0; i < input->dims - 1; i++)
        rows *= sizes[i];
    sizes[input->dims - 1] = weight->size[0];
    struct tensor *flat = tensor_reshape(me, input, 2, (const int64_t[]){ rows, weight->size[1] });
    return tensor_view_as(me, linear_2d(me, flat, weight, bias), input->dims, sizes, VIEW_UNSAFE);
}

struct tensor *
whole_indices(struct task *me, struct tensor *indices)
{
    bool narrow = indices != NULL && indices->dtype == DTYPE_I32;
    return narrow ? tensor_copy_to(me, indices, tensor_device(indices), DTYPE_I64) : indices;
}

struct tensor *
embedding(struct task *me, struct tensor *weight, struct tensor *indices, int64_t padding_idx)
{
    struct op_args args = { .in = { weight, whole_indices(me, indices) }, .start = padding_idx };
    return weight != NULL && args.in[1] != NULL ? op_call(me, OP_embedding, &args) : NULL;
}

/* ---- products ---- */

/* bmm, dot, mv, mm: shapes that one kernel multiplies. */
struct tensor *
fn_product(struct task *me, struct arguments *a)
{
    return op_on(me, a->function->row->op, a->at[0].tensor, a->at[1].tensor, 1);
}

struct tensor *
fn_matmul(struct task *me, struct arguments *a)
{
    return tensor_matmul(me, a->at[0].tensor, a->at[1].tensor);
}

