/* A call, as it is compared with what the other ranks called; see fingerprint.c. */
#ifndef C10D_FINGERPRINT_H
#define C10D_FINGERPRINT_H
#include <stdbool.h>
#include <stdint.h>
#include "c10d/backend.h"
#include "tensor/tensor.h"

struct str;

const char *operation_name(enum operation operation);     /* "all_reduce" ... as the lesson writes it */
const char *reduce_op_name(enum reduce_op op);
bool        operation_has_root(enum operation operation);
bool        operation_reduces(enum operation operation);

enum { FINGERPRINT_LENGTHS = 8 };

/* What a rank called as collective number `sequence`: equal on all ranks, but for `line` and `rank`. */
struct fingerprint {
    enum operation operation;
    int            dtype;          /* -1: no tensor */
    int            dims, root;     /* dims -1: of a list of unequal lengths, which follow */
    int64_t        size[TENSOR_DIMS];
    bool           in_one;         /* reduce_scatter of one tensor */
    bool           sparse;
    int            lengths;
    int64_t        length[FINGERPRINT_LENGTHS];  /* elements; the first ones */
    uint64_t       shapes;         /* a hash of all */
    enum reduce_op op;
    double         factor;
    bool           ring_forwards;
    char           algorithm[24];  /* empty: the back-end's choice */
    uint32_t       line;
    int            rank;
};
struct fingerprint fingerprint_of(const struct collective *call, uint32_t line);
bool               fingerprint_equal(const struct fingerprint *a, const struct fingerprint *b);
void               fingerprint_print(const struct fingerprint *print, bool with_details, struct str *out);
#endif
