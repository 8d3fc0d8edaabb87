/* Fingerprints: what a rank called, in a form that can be compared with what another one called, and printed for both.
 * Order of use: fingerprint_of, fingerprint_equal, fingerprint_print where they differ. */
#include <inttypes.h>
#include <string.h>
#include "c10d/internal.h"

const char *
operation_name(enum operation operation)
{
    switch (operation) {
    case OPERATION_ALL_REDUCE: return "allreduce";
    case OPERATION_BROADCAST: return "broadcast";
    case OPERATION_ALL_GATHER: return "allgather";
    case OPERATION_BARRIER: return "barrier";
    case OPERATION_SEND: return "send";
    case OPERATION_RECV: return "recv";
    }
    return "?";
}

static const char *
reduce_op_name(enum reduce_op op)
{
    switch (op) {
    case REDUCE_SUM: return "sum";
    case REDUCE_AVG: return "avg";
    case REDUCE_PRODUCT: return "product";
    case REDUCE_MIN: return "min";
    case REDUCE_MAX: return "max";
    }
    return "?";
}

struct fingerprint
fingerprint_of(const struct collective *call, uint32_t line)
{
    struct fingerprint print = { .operation = call->operation, .dtype = -1, .root = -1, .line = line,
                                 .rank = call->rank };
    if (call->tensor != NULL) {
        print.dtype = (int)call->tensor->dtype;
        print.dims  = call->tensor->dims;
        memcpy(print.size, call->tensor->size, sizeof print.size[0] * (size_t)print.dims);
    }
    if (call->operation == OPERATION_BROADCAST)
        print.root = call->options.root;
    if (call->operation == OPERATION_ALL_REDUCE) {
        print.op             = call->options.op;
        print.ring_backwards = call->options.ring_backwards;
    }
    return print;
}

bool
fingerprint_equal(const struct fingerprint *a, const struct fingerprint *b)
{
    return a->operation == b->operation && a->dtype == b->dtype && a->dims == b->dims && a->root == b->root &&
           a->op == b->op && a->ring_backwards == b->ring_backwards &&
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
    if (with_details && print->operation == OPERATION_ALL_REDUCE)
        str_addf(out, " with %s%s", reduce_op_name(print->op), print->ring_backwards ? ", ring backwards" : "");
    if (with_details && print->root >= 0)
        str_addf(out, " from rank %d", print->root);
    if (print->line > 0)
        str_addf(out, " (line %" PRIu32 ")", print->line);
}
