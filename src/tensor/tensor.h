/* Strided tensors over a storage. This folder knows no gradients: it makes, views, computes and prints; the fields
 * marked `autograd` are carried here and belong to src/autograd. Shapes are row-major; sizes, offsets and strides
 * count elements. Functions that make a tensor give it to me's scope (see sched/task.h: born, hand_up). */
#ifndef TENSOR_TENSOR_H
#define TENSOR_TENSOR_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/dtype.h"
#include "base/shape.h"
#include "device/device.h"
#include "device/storage.h"

struct task; struct storage; struct node; struct tensor; struct hook_list; struct str; struct generator;

/* Shared by a tensor and its views. author: autograd: the node of the last recorded change in place, NULL none. */
struct version { atomic_int references; atomic_uint counter; _Atomic(const char *) author; };

struct tensor {
    atomic_int        references;
    enum dtype        dtype;
    int               dims;
    int64_t           size[TENSOR_DIMS], stride[TENSOR_DIMS], offset;
    struct storage   *storage;
    struct version   *version;
    struct tensor    *base;          /* autograd: the tensor this one views, NULL: none. A reference */
    bool              requires_grad; /* autograd: from here */
    bool              multi_view;    /* output of a function that returns several views: no in-place */
    bool              is_parameter;
    bool              uninitialized; /* a parameter that has no shape yet: torch.nn.UninitializedParameter */
    int               output_nr;
    struct node      *grad_fn;       /* NULL: a leaf. A reference */
    struct node      *accumulator;   /* weak: the node clears it when it dies */
    struct tensor    *grad;
    struct hook_list *hooks;         /* of a leaf */
    void            (*drop_autograd)(struct task *me, struct tensor *tensor); /* set by autograd with the first of
                                        grad_fn, accumulator and hooks: lets go of them when the tensor dies; NULL: none */
    uint32_t          view_version;  /* autograd: the version that a view's grad_fn belongs to */
    atomic_int        accumulator_lock; /* autograd: 1 while somebody reads or sets `accumulator` */
    char             *name;          /* qualified parameter name, NULL none; owned */
    atomic_uint       name_id;       /* its id in the trace, once asked for */
    struct tensor    *indices, *values; /* sparse.c: rows by number, int64 [pairs] and [pairs, ...]; NULL: dense */
    bool              coalesced;     /* each row once, in rising order */
};

/* References. Fields use keep and drop, nothing else counts. */
struct tensor *tensor_ref(struct tensor *tensor);                           /* NULL in, NULL out */
void           tensor_unref(struct task *me, struct tensor *tensor);
void           tensor_keep(struct task *me, struct tensor **field, struct tensor *tensor); /* drops the old one */
void           tensor_drop(struct task *me, struct tensor **field);
struct tensor *tensor_born(struct task *me, struct tensor *tensor);          /* gives one reference to me's scope */
void           tensor_replace(struct task *me, struct tensor **local, struct tensor *tensor); /* a loop's temporary:
                                                        the old one leaves the scope and dies at once if it is the last */

/* Making. Elements of tensor_empty are undefined (in `stepped` zeros, so that runs repeat); to fill a
 * device tensor costs a kernel. sizes may be NULL when dims is 0. */
struct tensor *tensor_empty(struct task *me, enum dtype dtype, int device, int dims, const int64_t *sizes);
/* Without gaps, its dimensions in the order of `like`'s memory (PyTorch's empty_like). */
struct tensor *tensor_empty_like(struct task *me, enum dtype dtype, int device, const struct tensor *like);
struct tensor *tensor_filled(struct task *me, struct tensor *tensor, double value); /* itself; of NULL: NULL */
struct tensor *tensor_number(struct task *me, enum dtype dtype, int device, double value); /* 0-dim */
struct tensor *tensor_zeros(struct task *me, enum dtype dtype, int device, int dims, const int64_t *sizes);
struct tensor *tensor_from(struct task *me, enum dtype dtype, int dims, const int64_t *sizes, const void *elements); /* on the CPU */
struct tensor *tensor_arange(struct task *me, enum dtype dtype, double start, double end, double step);

/* Views: share storage and version; no kernel runs. Announced by a memory.alias event. No gradient is recorded here:
 * use the functions of autograd/call.h unless that is wanted. */
struct view_place { int dims; const int64_t *size, *stride; int64_t offset; }; /* in the base's storage */
struct tensor *tensor_view(struct task *me, struct tensor *base, const struct view_place *place);
/* A row-major one: a piece of a flat buffer. */
struct tensor *tensor_piece(struct task *me, struct tensor *flat, int dims, const int64_t *size, int64_t offset);
/* Another tensor of the same elements: shares storage and version, carries no gradient fields, is not announced. */
struct tensor *tensor_alias(struct task *me, struct tensor *tensor);
/* A view with a version counter of its own (Broadcast's pieces, detach is not one of these). */
struct tensor *tensor_own_version(struct task *me, struct tensor *view);

/* A table of `rows` rows of which only some are there: `values` those of `indices`, both shared, not copied. Its elements
 * cannot be read; what can be done with it is in autograd/sparse.c and sparse_rules.def. Who knows that each row comes
 * once, in rising order, sets `coalesced`. */
struct tensor *tensor_sparse(struct task *me, int64_t rows, struct tensor *indices, struct tensor *values);
void           tensor_sparse_assign(struct task *me, struct tensor *tensor, const struct tensor *from); /* in its place */
bool           int16_missing(struct task *me, const char *what); /* fails: where uint8 and int8 make a new tensor */
bool           sparse_refused(struct task *me, const char *what, const struct tensor *tensor); /* fails */
static inline bool tensor_is_sparse(const struct tensor *tensor) { return tensor != NULL && tensor->indices != NULL; }
/* The tensor that carries its history: of a sparse one its values. */
static inline struct tensor *tensor_history(struct tensor *tensor)
{
    return tensor_is_sparse(tensor) ? tensor->values : tensor;
}

/* It has no shape yet, and no elements; what it is asked for but device and dtype is for nothing. */
static inline bool tensor_uninitialized(const struct tensor *tensor) { return tensor != NULL && tensor->uninitialized; }
bool    uninitialized_refused(struct task *me, const char *what); /* fails: `what` was done with one */
/* It gets its shape, and elements that nobody has set; the object stays what it is. */
bool    tensor_materialize(struct task *me, struct tensor *tensor, int dims, const int64_t *sizes);

int     tensor_dims(const struct tensor *tensor);                /* accessors answer 0 for NULL */
int64_t tensor_size(const struct tensor *tensor, int dim);       /* negative dims count from the end */
/* Tells the run's account that all elements will be gone over. false: failed, it may do no more. */
bool tensor_work(struct task *me, const struct tensor *tensor) __attribute__((warn_unused_result));
int64_t tensor_count(const struct tensor *tensor);               /* elements */
int64_t tensor_bytes(const struct tensor *tensor);
static inline int tensor_device(const struct tensor *tensor) { return tensor != NULL ? tensor->storage->device : 0; }
bool    tensor_is_contiguous(const struct tensor *tensor);
/* Its dimensions, the fastest first, fill memory one after the other: no gaps, no element twice. */
bool    tensor_has_no_gaps(const struct tensor *tensor);
bool    tensor_same_shape(const struct tensor *a, const struct tensor *b);
bool    tensor_same_strides(const struct tensor *a, const struct tensor *b);   /* of one shape */
uint32_t tensor_version(const struct tensor *tensor);
void    tensor_bump(struct tensor *tensor);                      /* an in-place op happened */
/* Its elements were written by no op (a message, the debugger): who watches the storage is told. false: failed. */
bool    tensor_changed(struct task *me, const struct tensor *tensor, const char *what);
void    tensor_preserve_version(struct tensor *tensor, uint32_t before);  /* what happened since counts for nothing */
void    shape_print(int dims, const int64_t *sizes, struct str *out);        /* "[2, 3]" */
/* The same for a message: what was expected, of which argument, and that it got shape_text(tensor).text. */
struct shape_text { char text[24 * TENSOR_DIMS]; };
struct shape_text shape_text(const struct tensor *tensor);

/* What an event is about, told before it on its lane, so that who stands there knows (`stepped` alone; NULL, sparse and
 * hidden ones: nothing). `role`: "input"; of several "input 1" and so on, eight at most. */
void    tensor_announce(struct task *me, const struct tensor *tensor, const char *role);
void    tensor_announce_all(struct task *me, struct tensor *const *tensors, int count, const char *role);
void    tensor_announce_named(struct task *me, const struct tensor *tensor, const char *role, const char *name);
void    tensor_announce_numbered(struct task *me, const struct tensor *tensor, const char *role, int number);
/* Some of it: as tensor_narrow would view it; `count` of its elements, which lie in a row from `first` on. */
void    tensor_announce_narrow(struct task *me, const struct tensor *tensor, int dim, int64_t start, int64_t length,
                               const char *role);
void    tensor_announce_part(struct task *me, const struct tensor *tensor, int64_t first, int64_t count,
                             const char *role);

/* From the first of its elements to the last: what storage.h is told before any is touched. */
struct access tensor_access(const struct tensor *tensor, bool write, const char *what);

/* Reading by the host: synchronises with the tensor's device as .item() and .tolist() do. false: failed. */
bool tensor_item(struct task *me, struct tensor *tensor, double *value);     /* one element, else failed */
bool tensor_item_i64(struct task *me, struct tensor *tensor, int64_t *value);
bool tensor_read(struct task *me, struct tensor *tensor, void *out);         /* row-major, tensor_bytes bytes */
bool tensor_write(struct task *me, struct tensor *tensor, const void *in);   /* row-major; bumps the version */
bool tensor_show(struct task *me, struct tensor *tensor, struct str *out);   /* in PyTorch's print layout */
/* As it lies in memory now, without waiting for anybody and asking nobody: the debugger's eye, for nobody else. */
void tensor_print(struct task *me, struct tensor *tensor, struct str *out);

/* Random fills, in the order of PyTorch's kernels (memory order). On the CPU generator; a device tensor is filled on
 * the host and copied. In place; the version is bumped. */
bool tensor_uniform(struct task *me, struct tensor *tensor, double low, double high, struct generator *generator);
bool tensor_normal(struct task *me, struct tensor *tensor, double mean, double std, struct generator *generator);
bool tensor_bernoulli(struct task *me, struct tensor *tensor, double p, struct generator *generator);
struct whole_range { int64_t low, high; bool all; }; /* from low to below high; all: what random_() draws from */
bool tensor_random(struct task *me, struct tensor *tensor, struct whole_range range, struct generator *generator);
/* Drawn again until between low and high. */
struct truncated { double mean, std, low, high; };
bool tensor_trunc_normal(struct task *me, struct tensor *tensor, const struct truncated *t,
                         struct generator *generator);
bool tensor_exponential(struct task *me, struct tensor *tensor, double rate, struct generator *generator);
/* draw.c: new tensors. Each element 1 with its own probability; numbers of a row (or of each of several) by weight. */
struct tensor *tensor_bernoulli_of(struct task *me, struct tensor *probabilities, struct generator *generator);
struct tensor *tensor_multinomial(struct task *me, struct tensor *weights, int64_t count, bool replacement,
                                  struct generator *generator);
/* orthogonal.c: a matrix A of float32 or float64 becomes Q of A = Q R (of its transpose, where it has more columns than
 * rows), where R has nothing negative on its diagonal. */
bool tensor_make_orthogonal(struct task *me, struct tensor *matrix);
/* Of one that has at least as many rows as columns: Q of linalg.qr, with LAPACK's signs. */
bool tensor_factor_orthogonal(struct task *me, struct tensor *matrix);
bool tensor_randperm(struct task *me, struct tensor *tensor, struct generator *generator);
/* This rank's default generator; seeded with PyTorch's default seed until manual_seed. Never NULL after sched start;
 * NULL: no memory (failed). */
struct generator *default_generator(struct task *me);
/* torch.random.fork_rng: until the join `me` alone draws from a generator of its own that stands where `from` does; the
 * rank's stays where it is, whatever other tasks draw meanwhile. NULL: failed. */
struct generator_fork;
struct generator_fork *generator_fork(struct task *me, const struct generator *from);
void                   generator_join(struct task *me, struct generator_fork *fork); /* of NULL: nothing */
/* What fractions of a script become in new tensors, and integers in divisions: this rank's, float32 unless set. */
enum dtype default_dtype(struct task *me);
bool       default_dtype_set(struct task *me, enum dtype dtype);   /* a type of fractions, else failed */
#endif
