/* Which tensors travel together in one bucket: compute_bucket_assignment_by_size. */
#ifndef PARALLEL_BUCKETS_H
#define PARALLEL_BUCKETS_H
#include <stdbool.h>
#include <stddef.h>

struct task; struct tensor;

struct bucket_input { size_t bytes; int key; /* dtype and device as one number */ bool sparse; };
struct bucket_input bucket_input_of(const struct tensor *tensor);   /* not sparse */

/* inputs[i] describes the i-th tensor given; with an order its index is order[i], which is also where `sparse` is
 * looked up (inputs[order[i]].sparse). The buckets of a kind take one limit after the other, then the last again. */
struct bucket_assignment {
    const struct bucket_input *inputs;
    int                        count;
    const size_t              *limits;                  /* bytes */
    int                        limit_count;
    const int                 *order;                   /* NULL: none */
    int                        order_count;
};
/* Arrays live in me's scope. Limit 0 marks the bucket of a sparse tensor. */
struct bucket_list { int **indices; int *sizes; size_t *limits; int count; };
bool buckets_assign(struct task *me, const struct bucket_assignment *wanted, struct bucket_list *out);
#endif
