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
    case OPERATION_ALL_REDUCE: return "allreduce";
    case OPERATION_BROADCAST: return "broadcast";
    case OPERATION_REDUCE: return "reduce";
    case OPERATION_ALL_GATHER: return "allgather";
    case OPERATION_GATHER: return "gather";
    case OPERATION_SCATTER: return "scatter";
    case OPERATION_REDUCE_SCATTER: return "reduce_scatter";
    case OPERATION_ALL_TO_ALL: return "alltoall";
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

struct fingerprint
fingerprint_of(const struct collective *call, uint32_t line)
{
    const struct collective_options *options = &call->options;
    struct fingerprint print = { .operation = call->operation, .dtype = -1, .root = -1, .line = line,
                                 .rank = process_group_global_rank(call->work->group, call->rank) };
    if (call->tensor != NULL) {
        print.dtype = (int)call->tensor->dtype;
        print.dims  = call->tensor->dims;
        memcpy(print.size, call->tensor->size, sizeof print.size[0] * (size_t)print.dims);
    }
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

bool
fingerprint_equal(const struct fingerprint *a, const struct fingerprint *b)
{
    return a->operation == b->operation && a->dtype == b->dtype && a->dims == b->dims && a->root == b->root &&
           a->op == b->op && memcmp(&a->factor, &b->factor, sizeof a->factor) == 0 &&
           a->ring_forwards == b->ring_forwards && strcmp(a->algorithm, b->algorithm) == 0 &&
           memcmp(a->size, b->size, sizeof a->size[0] * (size_t)a->dims) == 0;
}

/* "allreduce of float32 [2, 3] with sum (line 12)"; what is equal on both ranks is left out. */
void
fingerprint_print(const struct fingerprint *print, bool with_details, struct str *out)
{
    str_addf(out, "%s", operation_name(print->operation));
    if (with_details && print->dtype >= 0) {
        str_addf(out, " of %s ", dtype_name((enum dtype)print->dtype));
        shape_print(print->dims, print->size, out);
    }
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
