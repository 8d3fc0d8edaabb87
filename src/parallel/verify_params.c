/* What the ranks compare before anything is sent: how many parameters each has, with hashes of their names and of their
 * sizes, strides and dtypes; where a hash differs, these themselves. Interface: ddp_verify_params. PyTorch compares
 * numbers and shapes only (verify_params_across_processes in torch/csrc/distributed/c10d/reducer.cpp): there parameters
 * of one shape that some rank has built in another order exchange their gradients, and nobody is told. */
#include "parallel/verify_params.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/map.h"
#include "base/str.h"
#include "c10d/group.h"
#include "device/cells.h"
#include "sched/stage.h"
#include "tensor/tensor.h"

/* ---- how many, and whether they have the same names ---- */

static uint64_t
hash_names(const struct named_tensors *params)
{
    uint64_t hash = 0;
    for (int i = 0; i < params->count; i++)
        hash = hash_bytes(hash, params->names[i], strlen(params->names[i]) + 1);
    return hash;
}

/* Sizes, strides and dtypes. */
static uint64_t
hash_layouts(const struct named_tensors *params)
{
    uint64_t hash = 0;
    for (int i = 0; i < params->count; i++) {
        const struct tensor *param = params->tensors[i];
        const int head[] = { param->dims, (int)param->dtype };
        hash = hash_bytes(hash, head, sizeof head);
        hash = hash_bytes(hash, param->size, (size_t)param->dims * sizeof *param->size);
        hash = hash_bytes(hash, param->stride, (size_t)param->dims * sizeof *param->stride);
    }
    return hash;
}

enum { CENSUS = 3 };
struct census { int64_t count, names, layouts; };  /* how it travels: three numbers a rank */

/* The first rank whose names, whose layouts are not those of rank 0; -1: none. */
struct differing { int names, layouts; };

/* Ranks whose models have different numbers of parameters would pair the wrong ones up. All see the difference. One
 * tensor for all their answers: PyTorch makes one a rank, which in one process is the square of the ranks. */
static bool
verify_counts(struct task *me, struct process_group *group, const struct named_tensors *params, struct differing *other)
{
    struct census mine  = { params->count, (int64_t)hash_names(params), (int64_t)hash_layouts(params) };
    int64_t       size  = process_group_size(group), numbers = CENSUS, all = CENSUS * size;
    struct tensor *input    = tensor_from(me, DTYPE_I64, 1, &numbers, &mine);
    struct tensor *gathered = tensor_zeros(me, DTYPE_I64, DEVICE_CPU, 1, &all);
    if (!group_all_gather_into_tensor_now(me, group, gathered, input))
        return false;
    struct census *theirs = scratch_new(me, (size_t)size, sizeof *theirs);
    bool           done   = theirs != NULL && tensor_read(me, gathered, theirs);
    *other = (struct differing){ -1, -1 };
    for (int64_t i = 0; i < size && done; i++) {
        if (theirs[i].count != mine.count)
            done = failed(me, E_RUNTIME, "DistributedDataParallel expects the same model across all ranks, but rank "
                          "%d has %d params, while rank %" PRId64 " has %" PRId64, process_group_rank(group),
                          params->count, i, theirs[i].count);
        if (other->names < 0 && theirs[i].names != theirs[0].names)
            other->names = (int)i;
        if (other->layouts < 0 && theirs[i].layouts != theirs[0].layouts)
            other->layouts = (int)i;
    }
    return done;
}

/* ---- what each rank has, where it differs ---- */

enum { NAMES_BYTES = 64 << 20 };

/* What is told of each, in this order: "0.weight\0[4, 3]\0[3, 1]\0float32\0". */
enum { NAME, SIZES, STRIDES, DTYPE, DETAILS };

static bool
names_write(struct task *me, const struct named_tensors *params, struct str *out)
{
    for (int i = 0; i < params->count; i++) {
        const struct tensor *param = params->tensors[i];
        str_add_bytes(out, params->names[i], strlen(params->names[i]) + 1);
        shape_print(param->dims, param->size, out);
        str_add_bytes(out, "", 1);
        shape_print(param->dims, param->stride, out);
        str_add_bytes(out, "", 1);
        str_add_bytes(out, dtype_name(param->dtype), strlen(dtype_name(param->dtype)) + 1);
    }
    return str_ok(out) || failed(me, E_MEMORY, "out of memory for %d names", params->count);
}

/* What one rank has, as it came: `bytes` of it and a NUL behind them. */
struct names { char *text; size_t bytes; int rank; };  /* rank: in the group */

/* The rank sends its own: how many bytes, then the bytes. Into memory of me's scope; false: failed. */
static bool
names_share(struct task *me, struct process_group *group, const struct str *mine, struct names *names)
{
    int64_t        one = 1, bytes = (int64_t)mine->len;
    bool           sends  = process_group_rank(group) == names->rank;
    struct tensor *length = tensor_from(me, DTYPE_I64, 1, &one, &bytes);
    if (!group_broadcast_now(me, group, length, names->rank) || !tensor_item_i64(me, length, &bytes))
        return false;
    if (bytes < 0 || bytes > NAMES_BYTES)
        return failed(me, E_RUNTIME, "rank %d has %" PRId64 " bytes of parameter names", names->rank, bytes);
    struct tensor *text = sends ? tensor_from(me, DTYPE_U8, 1, &bytes, mine->text)
                                : tensor_zeros(me, DTYPE_U8, DEVICE_CPU, 1, &bytes);
    names->bytes = (size_t)bytes;
    names->text  = scratch_new(me, names->bytes + 1, 1);
    return names->text != NULL && group_broadcast_now(me, group, text, names->rank) &&
           tensor_read(me, text, names->text);
}

/* The next text at `at`; behind the last one "". */
static const char *
next_text(const struct names *names, size_t *at)
{
    const char *text = names->text + *at;
    *at += *at < names->bytes ? strlen(text) + 1 : 0;
    return text;
}

/* The next parameter's details; behind the last one "". */
static void
next_param(const struct names *names, size_t *at, const char **details)
{
    for (int i = 0; i < DETAILS; i++)
        details[i] = next_text(names, at);
}

static bool
names_compare(struct task *me, struct process_group *group, const struct names *first, const struct names *other)
{
    const char *ours[DETAILS], *theirs[DETAILS];
    size_t      a = 0, b = 0;
    for (int i = 0; a < first->bytes; i++) {
        next_param(first, &a, ours);
        next_param(other, &b, theirs);
        if (strcmp(ours[NAME], theirs[NAME]) != 0)
            return failed(me, E_MISMATCH, "rank %d's parameter %d is '%s' %s, rank %d's is '%s' %s: build the model in "
                          "the same order on every rank", process_group_global_rank(group, other->rank), i,
                          theirs[NAME], theirs[SIZES], process_group_global_rank(group, first->rank), ours[NAME],
                          ours[SIZES]);
    }
    return true;
}

/* In PyTorch's words, but of one rank that all are told of: PyTorch's rank 0 sees nothing itself, and loses its peers
 * in a later collective; and dtypes it does not compare. */
static bool
layouts_compare(struct task *me, struct process_group *group, const struct names *first, const struct names *other)
{
    static const char *const titles[] = { [SIZES] = "sizes", [STRIDES] = "strides", [DTYPE] = "dtype" };
    const char *ours[DETAILS], *theirs[DETAILS];
    size_t      a = 0, b = 0;
    for (int i = 0; a < first->bytes; i++) {
        next_param(first, &a, ours);
        next_param(other, &b, theirs);
        for (int what = SIZES; what < DETAILS; what++)
            if (strcmp(ours[what], theirs[what]) != 0)
                return failed(me, E_RUNTIME, "params[%d] (%s) of rank %d with %s %s appears not to match "
                              "%s of the same param in process 0: %s", i, theirs[NAME],
                              process_group_global_rank(group, other->rank), titles[what], theirs[what], titles[what],
                              ours[what]);
    }
    return true;
}

/* All ranks are told of the first one that differs from rank 0; one that differs itself of itself. Two names of the
 * same shape stand at one place of the buckets, and each would get the other's gradients. */
static bool
verify_details(struct task *me, struct process_group *group, const struct named_tensors *params,
               const struct differing *differing)
{
    bool         layouts = differing->layouts >= 0;
    size_t       mark = scope_mark(me);
    struct str   mine = { 0 };
    struct names first = { .rank = 0 }, other = { .rank = layouts ? differing->layouts : differing->names };
    bool         done = names_write(me, params, &mine) && names_share(me, group, &mine, &first) &&
                        names_share(me, group, &mine, &other);
    const struct names own = { mine.text, mine.len, process_group_rank(group) };
    if (done && layouts)
        done = layouts_compare(me, group, &first, &own) && layouts_compare(me, group, &first, &other);
    else if (done)
        done = names_compare(me, group, &first, &other);
    str_free(&mine);
    scope_release(me, mark);
    return done;
}

/* ---- shapes ---- */

static int
shapes_write(const struct named_tensors *params, int64_t *numbers)
{
    int at = 0;
    for (int i = 0; i < params->count; i++) {
        const struct tensor *param = params->tensors[i];
        for (int dim = 0; dim < param->dims; dim++)
            numbers[at++] = param->size[dim];
        for (int dim = 0; dim < param->dims; dim++)
            numbers[at++] = param->stride[dim];
    }
    return at;
}

/* Rank 0's sizes and strides go to all, as in PyTorch, whose ranks compare them only now. */
static bool
send_shapes(struct task *me, struct process_group *group, const struct named_tensors *params)
{
    int64_t       *numbers = scratch_new(me, (size_t)params->count * 2 * TENSOR_DIMS + 1, sizeof *numbers);
    int64_t        length  = numbers != NULL ? shapes_write(params, numbers) : 0;
    struct tensor *tensor  = numbers != NULL ? tensor_from(me, DTYPE_I64, 1, &length, numbers) : NULL;
    return tensor != NULL && group_broadcast_now(me, group, tensor, 0);
}

/* All ranks must have built the same model: as many parameters, the same names in the same order, the
 * same sizes, strides and dtypes. */
bool
ddp_verify_params(struct task *me, struct process_group *group,
                  const struct named_tensors *params)
{
    STAGE(me, ddp_verify_params, params->count);
    struct differing differing;
    if (!verify_counts(me, group, params, &differing))
        return false;
    if (differing.names >= 0 || differing.layouts >= 0)
        return verify_details(me, group, params, &differing);
    return send_shapes(me, group, params);
}
