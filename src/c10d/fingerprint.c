/* Fingerprints: what a rank called, in a form that can be compared with what another one called, and printed for both.
 * Order of use: fingerprint_of, fingerprint_equal, fingerprint_print where they differ. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "c10d/internal.h"

const char *
operation_name(enum operation operation)
{
    switch (operation) {
    case OPERATION_ALL_REDUCE: return "all_reduce";
    case OPERATION_BROADCAST: return "broadcast";
    case OPERATION_REDUCE: return "reduce";
    case OPERATION_ALL_GATHER: return "all_gather";
    case OPERATION_GATHER: return "gather";
    case OPERATION_SCATTER: return "scatter";
    case OPERATION_REDUCE_SCATTER: return "reduce_scatter";
    case OPERATION_ALL_TO_ALL: return "all_to_all";
    case OPERATION_BARRIER: return "barrier";
    case OPERATION_SEND: return "send";
    case OPERATION_RECV: return "recv";
    }
    return "?";
}

const char *
reduce_op_name(enum reduce_op op)
{
    switch (op) {
    case REDUCE_SUM: return "sum";
    case REDUCE_AVG: return "avg";
    case REDUCE_PRODUCT: return "product";
    case REDUCE_MIN: return "min";
    case REDUCE_MAX: return "max";
    case REDUCE_BAND: return "band";
    case REDUCE_BOR: return "bor";
    case REDUCE_BXOR: return "bxor";
    case REDUCE_PREMUL_SUM: return "premul_sum";
    }
    return "?";
}

const char *
reduce_op_title(enum reduce_op op)
{
    static const char *const titles[] = { "SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM" };
    return titles[op];
}

bool
operation_has_root(enum operation operation)
{
    return operation == OPERATION_BROADCAST || operation == OPERATION_REDUCE || operation == OPERATION_GATHER ||
           operation == OPERATION_SCATTER;
}

bool
operation_reduces(enum operation operation)
{
    return operation == OPERATION_ALL_REDUCE || operation == OPERATION_REDUCE || operation == OPERATION_REDUCE_SCATTER;
}

/* A list whose lengths differ stands for itself; else the tensor does, which is then like all of them. */
static void
fingerprint_list(struct fingerprint *print, struct tensor *const *list, int count)
{
    bool equal = true;
    for (int i = 1; i < count; i++)
        equal = equal && tensor_same_shape(list[i], list[0]);
    if (equal)
        return;
    print->dims    = -1;
    print->lengths = count;
    for (int i = 0; i < count; i++) {
        const struct tensor *tensor = list[i];
        if (i < FINGERPRINT_LENGTHS)
            print->length[i] = tensor_count(tensor);
        print->shapes = hash_bytes(print->shapes, tensor->size, sizeof tensor->size[0] * (size_t)tensor->dims);
        print->shapes = hash_bytes(print->shapes, &tensor->dims, sizeof tensor->dims);
    }
}

/* What each rank sends to each need not be equal anywhere: only the type is. */
static void
fingerprint_tensors(struct fingerprint *print, const struct collective *call)
{
    const struct tensor *tensor = call->tensor;
    if (call->operation == OPERATION_ALL_TO_ALL)
        print->dtype = (int)call->inputs[0]->dtype;
    if (tensor == NULL)
        return;
    print->dtype  = (int)tensor->dtype;
    print->dims   = tensor->dims;
    print->sparse = tensor_is_sparse(tensor);
    print->in_one = call->in_one;
    memcpy(print->size, tensor->size, sizeof print->size[0] * (size_t)print->dims);
    if (call->operation == OPERATION_ALL_GATHER && call->outputs != NULL)
        fingerprint_list(print, call->outputs, call->ranks);
    if (call->operation == OPERATION_REDUCE_SCATTER)
        fingerprint_list(print, call->inputs, call->ranks);
}

struct fingerprint
fingerprint_of(const struct collective *call, uint32_t line)
{
    const struct collective_options *options = &call->options;
    struct fingerprint print = { .operation = call->operation, .dtype = -1, .root = -1, .line = line,
                                 .rank = process_group_global_rank(call->work->group, call->rank) };
    fingerprint_tensors(&print, call);
    if (operation_has_root(call->operation))
        print.root = process_group_global_rank(call->work->group, options->root);
    if (operation_reduces(call->operation)) {
        print.op            = options->op;
        print.factor        = options->op == REDUCE_PREMUL_SUM ? options->factor : 0;
        print.ring_forwards = options->ring_forwards;
        const char *name = options->custom != NULL ? options->custom->name : options->algorithm;
        snprintf(print.algorithm, sizeof print.algorithm, "%s", name != NULL ? name : "");
    }
    return print;
}

static bool
tensors_equal(const struct fingerprint *a, const struct fingerprint *b)
{
    return a->dtype == b->dtype && a->dims == b->dims && a->sparse == b->sparse && a->in_one == b->in_one &&
           (a->dims < 0 || memcmp(a->size, b->size, sizeof a->size[0] * (size_t)a->dims) == 0) &&
           a->lengths == b->lengths && a->shapes == b->shapes;
}

bool
fingerprint_equal(const struct fingerprint *a, const struct fingerprint *b)
{
    return a->operation == b->operation && tensors_equal(a, b) && a->root == b->root && a->op == b->op &&
           memcmp(&a->factor, &b->factor, sizeof a->factor) == 0 && a->ring_forwards == b->ring_forwards &&
           strcmp(a->algorithm, b->algorithm) == 0;
}

/* "float32 [2, 3]", or "float32 with 2, 5 and 4 elements". */
static void
print_tensors(const struct fingerprint *print, struct str *out)
{
    str_addf(out, " of %s%s ", print->sparse ? "sparse " : "", dtype_name((enum dtype)print->dtype));
    if (print->operation == OPERATION_ALL_TO_ALL)
        str_add(out, "tensors");
    else if (print->dims >= 0)
        shape_print(print->dims, print->size, out);
    for (int i = 0; i < print->lengths && i < FINGERPRINT_LENGTHS; i++)
        str_addf(out, "%s%" PRId64, i == 0 ? "with " : i == print->lengths - 1 ? " and " : ", ", print->length[i]);
    if (print->lengths > FINGERPRINT_LENGTHS)
        str_addf(out, " ... (%d lengths)", print->lengths);
    else if (print->lengths > 0)
        str_add(out, " elements");
    if (print->in_one)
        str_add(out, " a rank, in one tensor");
}

/* "all_reduce of float32 [2, 3] with sum (line 12)"; what is equal on both ranks is left out. */
void
fingerprint_print(const struct fingerprint *print, bool with_details, struct str *out)
{
    str_addf(out, "%s", operation_name(print->operation));
    if (with_details && print->dtype >= 0)
        print_tensors(print, out);
    if (with_details && operation_reduces(print->operation)) {
        str_addf(out, " with %s", reduce_op_name(print->op));
        if (print->op == REDUCE_PREMUL_SUM)
            str_addf(out, " of %.9g", print->factor);
        if (print->algorithm[0] != '\0')
            str_addf(out, " by %s", print->algorithm);
        if (print->ring_forwards)
            str_add(out, ", ring forwards");
    }
    if (with_details && print->root >= 0)
        str_addf(out, " %s rank %d", print->operation == OPERATION_REDUCE || print->operation == OPERATION_GATHER
                                         ? "to" : "from", print->root);
    if (print->line > 0)
        str_addf(out, " (line %" PRIu32 ")", print->line);
}
