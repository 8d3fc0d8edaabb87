/* Collectives whose lists are one tensor each, cut in pieces: they become lists of views, and a tensor with gaps is
 * stood in for as a whole. Order of use as in collectives.c. PyTorch: all_gather_into_tensor, gather_into_tensor,
 * reduce_scatter_tensor, all_to_all_single. */
#include <inttypes.h>
#include "c10d/internal.h"
#include "device/cells.h"

/* How a tensor is cut: `rows` for each rank, of `wide` elements; NULL: equal pieces of that many elements, of the shape
 * of `like`. */
struct cut { const int64_t *rows; int64_t wide; const struct tensor *like; };

static struct tensor *
cut_piece(struct task *me, struct tensor *tensor, const struct cut *cut, int i, int64_t *offset)
{
    int64_t size[TENSOR_DIMS], begin = *offset;
    if (cut->rows == NULL) {
        *offset += cut->wide;
        return cut->like != NULL ? tensor_piece(me, tensor, cut->like->dims, cut->like->size, begin)
                                 : tensor_piece(me, tensor, 1, &cut->wide, begin);
    }
    for (int d = 0; d < tensor->dims; d++)
        size[d] = tensor->size[d];
    size[0] = cut->rows[i];
    *offset += cut->rows[i] * cut->wide;
    return tensor_piece(me, tensor, tensor->dims, size, begin);
}

/* Views of the tensor, or of its stand-in, in an array of me's scope. NULL: failed. */
static struct tensor **
cut_tensor(struct task *me, struct work *work, struct tensor *tensor, const struct cut *cut, unsigned use)
{
    struct tensor  *whole  = tensor_born(me, work_take(me, work, tensor, use));
    struct tensor **pieces = whole != NULL ? scratch_new(me, (size_t)work->call.ranks, sizeof *pieces) : NULL;
    int64_t         offset = whole != NULL ? whole->offset : 0;
    for (int i = 0; pieces != NULL && i < work->call.ranks; i++)
        if ((pieces[i] = cut_piece(me, whole, cut, i, &offset)) == NULL)
            return NULL;
    return pieces;
}

/* The larger tensor must be `ranks` times as long as the other. */
static bool
lengths_fit(struct task *me, const struct work *work, const struct tensor *all, const struct tensor *one)
{
    int ranks = work->call.ranks;
    if (all == NULL || one == NULL)
        return failed(me, E_TYPE, "%s needs a tensor", operation_name(work->call.operation));
    if (all->dtype != one->dtype)
        return failed(me, E_RUNTIME, "%s: its tensors have different dtypes: %s and %s",
                      operation_name(work->call.operation), dtype_name(all->dtype), dtype_name(one->dtype));
    return tensor_count(all) == tensor_count(one) * ranks ||
           failed(me, E_RUNTIME, "%s: expected an %s of %" PRId64 " elements, %" PRId64 " of each of %d ranks, got %"
                                 PRId64, operation_name(work->call.operation),
                  work->call.operation == OPERATION_REDUCE_SCATTER ? "input" : "output", tensor_count(one) * ranks,
                  tensor_count(one), ranks, tensor_count(all));
}

/* One piece a rank, of the shape of `like`; the list is taken by `work`. */
static bool
take_pieces(struct task *me, struct work *work, struct tensor ***place, struct tensor *whole, struct tensor *like,
            unsigned use)
{
    struct cut      cut    = { .wide = tensor_count(like), .like = like };
    struct tensor **pieces = cut_tensor(me, work, whole, &cut, use);
    return pieces != NULL && group_take_list(me, work, place, &(struct taken_list){ .tensors = pieces, .first = like,
                                                                                    .use = use });
}

struct work *
group_all_gather_into_tensor(struct task *me, struct process_group *group, struct tensor *output, struct tensor *input)
{
    struct work *work = group_begin(me, group, OPERATION_ALL_GATHER, NULL);
    bool taken = work != NULL && lengths_fit(me, work, output, input) && group_take(me, work, input, USE_INPUT);
    if (taken && tensor_device(output) != tensor_device(input))
        taken = failed(me, E_DEVICE, "allgather: its tensors must be on one device");
    if (taken)
        work->call.gathered = work_take(me, work, output, USE_OUTCOME | USE_COPY_);
    return group_issue_if(me, work, taken && work->call.gathered != NULL);
}

bool
group_all_gather_into_tensor_now(struct task *me, struct process_group *group, struct tensor *output,
                                 struct tensor *input)
{
    return work_complete(me, group_all_gather_into_tensor(me, group, output, input));
}

struct work *
group_gather_single(struct task *me, struct process_group *group, struct tensor *output, struct tensor *input, int root)
{
    struct work *work = group_begin(me, group, OPERATION_GATHER, &(struct collective_options){ .root = root });
    bool taken = work != NULL && group_only_root(me, work, output, "gather_tensor") &&
                 (output == NULL || lengths_fit(me, work, output, input)) && group_take(me, work, input, USE_INPUT) &&
                 (output == NULL || take_pieces(me, work, &work->call.outputs, output, input,
                                               USE_OUTCOME | USE_COPY_));
    return group_issue_if(me, work, taken);
}

struct work *
group_reduce_scatter_single(struct task *me, struct process_group *group, struct tensor *output, struct tensor *input,
                            const struct collective_options *options)
{
    struct work *work = group_begin(me, group, OPERATION_REDUCE_SCATTER, options);
    if (work != NULL)
        work->call.in_one = true;
    bool taken = work != NULL && lengths_fit(me, work, input, output) &&
                 group_take(me, work, output, USE_OUTCOME | USE_COPY_) &&
                 take_pieces(me, work, &work->call.inputs, input, output, USE_INPUT);
    return group_issue_if(me, work, taken);
}

/* Rows of each rank's piece, in an array of me's scope. NULL: failed. */
static const int64_t *
rows_of(struct task *me, const struct work *work, const struct tensor *tensor, const int64_t *splits, const char *name)
{
    int         ranks = work->call.ranks;
    int64_t     all = tensor_size(tensor, 0), sum = 0;
    if (tensor->dims == 0)
        return failed_null(me, E_INDEX, "alltoall: %s: Dimension specified as 0 but tensor has no dimensions", name);
    if (splits == NULL && all % ranks != 0)
        return failed_null(me, E_RUNTIME, "alltoall: %s: Tensor's dim 0 (%" PRId64 ") does not divide equally across "
                           "group size %d", name, all, ranks);
    int64_t *rows = scratch_new(me, (size_t)ranks, sizeof *rows);
    for (int i = 0; rows != NULL && i < ranks; i++) {
        rows[i] = splits != NULL ? splits[i] : all / ranks;
        if (rows[i] < 0 || rows[i] > all - sum)
            return failed_null(me, E_RUNTIME, "alltoall: %s: Split sizes doesn't match total dim 0 size: expected %"
                               PRId64 " in all, got %" PRId64 " for rank %d after %" PRId64, name, all, rows[i], i,
                               sum);
        sum += rows[i];
    }
    if (rows != NULL && sum != all)
        return failed_null(me, E_RUNTIME, "alltoall: %s: Split sizes doesn't match total dim 0 size: they make %" PRId64
                                          " of %" PRId64, name, sum, all);
    return rows;
}

static bool
take_split(struct task *me, struct work *work, struct tensor ***place, struct tensor *whole, const int64_t *splits,
           unsigned use)
{
    const char *name = (use & USE_OUTCOME) ? "output" : "input";
    struct cut  cut  = { .rows = rows_of(me, work, whole, splits, name), .wide = 1 };
    for (int d = 1; d < whole->dims; d++)
        cut.wide *= whole->size[d];
    struct tensor **pieces = cut.rows != NULL ? cut_tensor(me, work, whole, &cut, use) : NULL;
    return pieces != NULL && group_take_list(me, work, place, &(struct taken_list){ .tensors = pieces, .use = use });
}

struct work *
group_all_to_all_single(struct task *me, struct process_group *group, struct tensor *output, struct tensor *input,
                        const struct splits *splits)
{
    struct work *work  = group_begin(me, group, OPERATION_ALL_TO_ALL, NULL);
    bool         taken = work != NULL && output != NULL && input != NULL;
    if (taken && output->dtype != input->dtype)
        taken = failed(me, E_VALUE, "alltoall: Invalid usage of tensors with different dtypes: found %s and %s",
                       dtype_name(output->dtype), dtype_name(input->dtype));
    if (taken && !tensor_is_contiguous(input))
        taken = failed(me, E_VALUE, "alltoall: Tensors must be contiguous: the input is not, pass input:contiguous()");
    if (taken && !tensor_is_contiguous(output))
        warn_of_strides(me, work, output, USE_OUTCOME);
    unsigned use = taken ? group_input_use(me, &output, &input, 1) : USE_INPUT;
    taken = taken && take_split(me, work, &work->call.inputs, input, splits->input, use) &&
            take_split(me, work, &work->call.outputs, output, splits->output, USE_OUTCOME) && group_keeps_own(me, work);
    return group_issue_if(me, work, taken);
}
