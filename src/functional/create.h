/* What functions that make tensors are told behind `*`, and what they do with it. */
#ifndef FUNCTIONAL_CREATE_H
#define FUNCTIONAL_CREATE_H
#include "tensor/tensor.h"

struct argument; struct arguments; struct generator;

struct making {
    int               dims;
    int64_t           sizes[TENSOR_DIMS];
    enum dtype        dtype;
    int               device;
    bool              requires_grad;
    const struct tensor *like;         /* laid out as this one; NULL: row by row */
    struct generator *generator;       /* NULL: the rank's own */
};

/* The arguments behind `*`: dtype, device, requires_grad and, of what draws, generator. `dtype` and `device` are those
 * that are taken where none is given. */
struct making making_of(const struct arguments *a, enum dtype dtype, int device);
/* As the first tensor, unless something else is asked for. */
struct making making_like(const struct arguments *a);
/* What elements of these sizes take; 0 where making_sized will refuse them. */
double        making_bytes(const struct argument *size, enum dtype dtype);
/* With the sizes of an int[]; false: failed (one is negative, they make too large a tensor). */
bool           making_sized(struct task *me, const struct argument *size, struct making *making);
struct tensor *making_empty(struct task *me, const struct making *making);
/* The new tensor, which may begin to require gradients. NULL: failed. NULL gives NULL. */
struct tensor *making_done(struct task *me, struct tensor *made, const struct making *making);
/* What was made on the CPU goes where it is wanted, and is done. */
struct tensor *making_moved(struct task *me, struct tensor *made, const struct making *making);

/* ---- sparse.c: rs.sparse_coo_tensor ---- */
struct sparse_parts {
    struct tensor *indices, *values;   /* [1, pairs] and [pairs, ...] */
    const int64_t *size;               /* `dims` of them; NULL: as the indices ask for */
    int            dims, device;
    enum dtype     dtype;
    int            coalesced;          /* 1 promised, 0 denied, -1 nothing said */
};
struct tensor *sparse_coo_tensor(struct task *me, const struct sparse_parts *parts);
#endif
