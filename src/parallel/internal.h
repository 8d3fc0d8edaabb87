/* The reducer's fields, shared by reducer_setup.c (making it), buckets.c (its buckets), reducer.c (what happens in an
 * iteration) and reducer_report.c (what it says). */
#ifndef PARALLEL_INTERNAL_H
#define PARALLEL_INTERNAL_H
#include "autograd/node.h"
#include "base/str.h"
#include "parallel/buckets.h"
#include "parallel/reducer.h"
#include "sched/lock.h"
#include "tensor/tensor.h"

struct work;

/* Gradients that travel together: one flat tensor and a view into it for each parameter. */
struct bucket {
    struct tensor  *gradients;
    struct tensor **views;         /* shaped like the parameters */
    int            *indices;       /* of the parameters, in the bucket's order */
    int             count, pending;/* parameters; those whose gradient has not come */
    struct work    *work;          /* its all-reduce, between launch and finalize */
    void           *hooked;        /* or what the comm hook has started */
};

struct reducer_hook { struct reducer *reducer; struct node *node; int index, id; };

struct reducer {
    struct tensor       **params;
    char                **names;
    int                   params_count;
    struct process_group *group;
    struct replica       *replica;              /* check_ranks.h; NULL: nobody checks */
    int                   world;
    bool                  find_unused;
    size_t                first_bucket_bytes, bucket_bytes;
    struct reducer_hook  *hooks;
    struct comm_hook      comm_hook;            /* start is NULL: none */
    struct lock           lock;    /* only when gradients come from several devices */
    bool                  has_lock;

    struct bucket        *buckets;
    int                   count, next;          /* buckets; the next one to be started */
    int                  *bucket_of, *place_of; /* per parameter */

    bool                  expect_hooks;         /* a forward has prepared for this backward */
    bool                  require_finalize;     /* something was marked ready and not yet finalized */
    bool                  has_marked_unused;
    bool                 *ready, *unused;       /* per parameter, in this iteration */
    bool                 *used;                 /* per parameter, since the used map was reduced */
    float                *used_numbers;         /* the map's sum, once known */
    struct tensor        *used_map;             /* one 4-byte number per parameter */
    struct work          *used_work;

    int64_t               iterations;           /* synchronising forwards so far: DDP counts by it too */
    int                  *ready_order, *last_order, *rebuilt_order;
    int                   ready_count, last_count, rebuilt_count;
    bool                  has_rebuilt;
    struct str            first_sizes;
};

/* buckets.c: the first ones by the parameters, those of the rebuild by the order in which gradients came */
bool reducer_first_buckets(struct task *me, struct reducer *reducer);
bool reducer_assign_by_order(struct task *me, const struct reducer *reducer, struct bucket_list *out);
bool reducer_sync_bucket_indices(struct task *me, struct reducer *reducer, struct bucket_list *list);
bool reducer_initialize_buckets(struct task *me, struct reducer *reducer, const struct bucket_list *list);
void reducer_clear_buckets(struct task *me, struct reducer *reducer);
void bucket_print(const struct bucket *bucket, struct str *out);           /* its parameters: "3 2" */

/* reducer_report.c: each records an error and answers false */
bool reducer_unfinished(struct task *me, const struct reducer *reducer);
bool reducer_wrong_grad(struct task *me, int index, const struct tensor *grad, const struct tensor *slot);
bool reducer_ready_twice(struct task *me, const struct reducer *reducer, int index);
void reducer_print_sizes(const struct reducer *reducer, struct str *out);  /* the buckets' bytes: "128, 40" */

/* reducer.c: the post-hook of a parameter's AccumulateGrad; context is a struct reducer_hook */
bool reducer_run_hook(struct task *me, void *context, struct node *node, struct tensor **grads, int count);
#endif
