/* The matrices of PowerSGD: what of a bucket is compressed, together with what; their products; orthogonal columns. */
#ifndef PARALLEL_POWERSGD_MATRICES_H
#define PARALLEL_POWERSGD_MATRICES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct task; struct tensor; struct powersgd; struct grad_bucket;

/* Matrices of one shape that go through the products together: [count, rows, columns] and, views of the bucket's flat
 * P and Q, [count, rows, rank] and [count, columns, rank]. One alone is a view of the bucket, more are a copy. */
struct matrices { struct tensor *stacked, *p, *q; int64_t rank; int first, count; };

/* What a bucket consists of. `members`: the matrices, views of the buffer in the order of `batches`; `alone`: the
 * parameters' gradients that are not worth compressing. All are references. */
struct matrix_plan {
    struct tensor **members, **alone;
    struct matrices *batches;
    int             room;                    /* of each of the three */
    int             member_count, alone_count, batch_count;
    int64_t         p_numel, q_numel, numel_before, numel_after;
};

/* By parameter. The plan is zeroed; false: failed, and it still is to be cleared. */
bool matrix_plan_layers(struct task *me, const struct powersgd *state, const struct grad_bucket *bucket,
                        struct matrix_plan *plan);
/* The one matrix [side, side], which is contiguous. */
bool matrix_plan_whole(struct task *me, const struct powersgd *state, struct tensor *square, struct matrix_plan *plan);
void matrix_plan_clear(struct task *me, struct matrix_plan *plan);
/* Each batch gets its views of the flat P and Q. */
bool matrix_plan_views(struct task *me, struct matrix_plan *plan, struct tensor *p, struct tensor *q);

/* Gradients that travel as they are, in a row; and back from it. */
struct tensor *matrix_pack_alone(struct task *me, const struct matrix_plan *plan, const struct tensor *like);
bool           matrix_unpack_alone(struct task *me, const struct matrix_plan *plan, struct tensor *row);

/* The columns of each of the matrices [count, rows, columns] become orthonormal, in place. */
bool powersgd_orthogonalize(struct task *me, struct tensor *matrices, double epsilon);
/* out = a b, or a' b, or a b', of [count, ...] each. */
enum flipped { FLIPPED_NONE, FLIPPED_FIRST, FLIPPED_SECOND };
bool multiply_into(struct task *me, struct tensor *out, struct tensor *a, struct tensor *b, enum flipped flipped);
/* Stacked matrices go back to where they came from. */
bool matrix_unstack(struct task *me, const struct matrix_plan *plan, const struct matrices *batch);
#endif
