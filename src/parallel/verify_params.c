/* What the ranks compare before anything is sent: first how many parameters each has, with a hash of their names; where
 * a hash differs, the names; then the shapes. Interface: ddp_verify_params. PyTorch compares numbers and shapes only
 * (verify_params_across_processes in torch/csrc/distributed/c10d/reducer.cpp): there parameters of one shape that some
 * rank has built in another order exchange their gradients, and nobody is told. */
#include "parallel/verify_params.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/str.h"
#include "c10d/group.h"
#include "device/cells.h"
#include "sched/stage.h"
#include "tensor/tensor.h"

/* ---- how many, and whether they have the same names ---- */

/* FNV-1a, each name with its NUL. */
static uint64_t
hash_names(const struct named_tensors *params)
{
    uint64_t hash = 14695981039346656037u;
    for (int i = 0; i < params->count; i++) {
        const char *name = params->names[i];
        do
            hash = (hash ^ (unsigned char)*name) * 1099511628211u;
        while (*name++ != '\0');
    }
    return hash;
}

struct census { int64_t count, names; };  /* how it travels: two numbers a rank */

/* Ranks whose models have different numbers of parameters would pair the wrong ones up. All see the difference. One
 * tensor for all their answers: PyTorch makes one a rank, which in one process is the square of the ranks. `other`: the
 * first whose names are not those of rank 0; -1: none. */
static bool
verify_counts(struct task *me, struct process_group *group, const struct named_tensors *params, int *other)
{
    struct census mine  = { params->count, (int64_t)hash_names(params) };
    int64_t       size  = process_group_size(group), two = 2, all = 2 * size;
    struct tensor *input    = tensor_from(me, DTYPE_I64, 1, &two, &mine);
    struct tensor *gathered = tensor_zeros(me, DTYPE_I64, DEVICE_CPU, 1, &all);
    if (!group_all_gather_into_tensor_now(me, group, gathered, input))
        return false;
    struct census *theirs = scratch_new(me, (size_t)size, sizeof *theirs);
    bool           done   = theirs != NULL && tensor_read(me, gathered, theirs);
    *other = -1;
    for (int64_t i = 0; i < size && done; i++) {
        if (theirs[i].count != mine.count)
            done = failed(me, E_RUNTIME, "DistributedDataParallel expects the same model across all ranks, but rank "
                          "%d has %d params, while rank %" PRId64 " has %" PRId64, process_group_rank(group),
                          params->count, i, theirs[i].count);
        if (*other < 0 && theirs[i].names != theirs[0].names)
            *other = (int)i;
    }
    return done;
}

/* ---- names, where they differ ---- */

enum { NAMES_BYTES = 64 << 20 };

/* "0.weight\0[4, 4]\0" for each. */
static bool
names_write(struct task *me, const struct named_tensors *params, struct str *out)
{
    for (int i = 0; i < params->count; i++) {
        str_add_bytes(out, params->names[i], strlen(params->names[i]) + 1);
        shape_print(params->tensors[i]->dims, params->tensors[i]->size, out);
        str_add_bytes(out, "", 1);
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

/* Where shapes differ, too, PyTorch's own comparison tells. */
static bool
names_compare(struct task *me, struct process_group *group, const struct names *first, const struct names *other)
{
    const char *name[2] = { "", "" }, *shape[2] = { "", "" };
    int         found   = -1;
    size_t      a = 0, b = 0;
    for (int i = 0; a < first->bytes; i++) {
        const char *ours = next_text(first, &a), *our_shape = next_text(first, &a);
        const char *theirs = next_text(other, &b), *their_shape = next_text(other, &b);
        if (strcmp(our_shape, their_shape) != 0)
            return true;
        if (found >= 0 || strcmp(ours, theirs) == 0)
            continue;
        found    = i;
        name[0]  = ours;
        name[1]  = theirs;
        shape[0] = our_shape;
        shape[1] = their_shape;
    }
    if (found < 0)
        return true;
    return failed(me, E_MISMATCH, "rank %d's parameter %d is '%s' %s, rank %d's is '%s' %s: build the model in the "
                  "same order on every rank", process_group_global_rank(group, other->rank), found, name[1], shape[1],
                  process_group_global_rank(group, first->rank), name[0], shape[0]);
}

/* All ranks are told of the first one that differs from rank 0: two names of the same shape stand at one place of the
 * buckets, and each would get the other's gradients. */
static bool
verify_names(struct task *me, struct process_group *group, const struct named_tensors *params, int rank)
{
    size_t       mark = scope_mark(me);
    struct str   mine = { 0 };
    struct names first = { .rank = 0 }, other = { .rank = rank };
    bool         done = names_write(me, params, &mine) && names_share(me, group, &mine, &first) &&
                        names_share(me, group, &mine, &other) && names_compare(me, group, &first, &other);
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

static bool
shapes_compare(struct task *me, int rank, const struct named_tensors *params, const int64_t *mine,
               const int64_t *theirs)
{
    for (int i = 0, at = 0; i < params->count; i++) {
        int dims = params->tensors[i]->dims;
        for (int part = 0; part < 2; part++, at += dims) {
            if (memcmp(mine + at, theirs + at, (size_t)dims * sizeof *mine) == 0)
                continue;
            struct str text = { 0 }, other = { 0 };
            shape_print(dims, mine + at, &text);
            shape_print(dims, theirs + at, &other);
            failed(me, E_RUNTIME, "rank %d: params[%d] in this process with %s %s appears not to match %s of the same "
                   "param in process 0: %s", rank, i, part == 0 ? "sizes" : "strides", str_text(&text),
                   part == 0 ? "sizes" : "strides", str_text(&other));
            str_free(&text);
            str_free(&other);
            return false;
        }
    }
    return true;
}

/* Rank 0 cannot see a difference itself: it goes on, and loses its peers in a later collective. */
static bool
verify_shapes(struct task *me, struct process_group *group, const struct named_tensors *params)
{
    int      count  = params->count;
    int64_t *mine   = calloc((size_t)count * 4 * TENSOR_DIMS, sizeof *mine);
    bool     done   = mine != NULL || failed(me, E_MEMORY, "out of memory for %d parameters", count);
    int64_t  length = done ? shapes_write(params, mine) : 0;
    int64_t *theirs = done ? mine + (size_t)count * 2 * TENSOR_DIMS : NULL;
    struct tensor *numbers = done ? tensor_from(me, DTYPE_I64, 1, &length, mine) : NULL;
    done = numbers != NULL && group_broadcast_now(me, group, numbers, 0) && tensor_read(me, numbers, theirs) &&
           shapes_compare(me, process_group_rank(group), params, mine, theirs);
    free(mine);
    return done;
}

/* All ranks must have built the same model: as many parameters, the same names in the same order, the
 * same shapes. */
bool
ddp_verify_params(struct task *me, struct process_group *group,
                  const struct named_tensors *params)
{
    STAGE(me, ddp_verify_params, params->count);
    int other = -1;
    if (!verify_counts(me, group, params, &other))
        return false;
    if (other >= 0 && !verify_names(me, group, params, other))
        return false;
    return verify_shapes(me, group, params);
}
