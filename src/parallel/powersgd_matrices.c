/* See powersgd_matrices.h. In PyTorch: powerSGD_hook.py's _should_compress, maybe_batched_tensors_to_compress and
 * _orthogonalize. */
#include "parallel/powersgd_matrices.h"
#include <string.h>
#include "device/cells.h"
#include "parallel/flat.h"
#include "parallel/powersgd.h"
#include "sched/stage.h"
#include "tensor/op.h"

/* ---- products ---- */

static struct tensor *
flipped(struct task *me, struct tensor *a)
{
    return op_run(me, OP_transpose, &(struct op_args){ .in = { a }, .dim = 1, .start = 2 });
}

bool
multiply_into(struct task *me, struct tensor *out, struct tensor *a, struct tensor *b, enum flipped which)
{
    a = which == FLIPPED_FIRST ? flipped(me, a) : a;
    b = a != NULL && which == FLIPPED_SECOND ? flipped(me, b) : b;
    return op_run(me, OP_bmm, &(struct op_args){ .in = { a, b }, .out = out }) != NULL;
}

/* ---- orthogonal columns ---- */

static struct tensor *
columns(struct task *me, struct tensor *matrices, int64_t first, int64_t count)
{
    return op_run(me, OP_narrow, &(struct op_args){ .in = { matrices }, .dim = 2, .start = first, .length = count });
}

/* Over the rows, whose dimension stays, with size 1. */
static struct tensor *
down_the_rows(struct task *me, enum op op, struct tensor *a)
{
    return op_run(me, op, &(struct op_args){ .in = { a }, .alpha = 2, .dims = 1, .sizes = { 1 }, .keepdim = true });
}

/* Column after column: length 1, then what the others have of it is taken away. */
static bool
gram_schmidt(struct task *me, struct tensor *matrices, double epsilon)
{
    int64_t count = matrices->size[2];
    bool    done  = true;
    for (int64_t i = 0; i < count && done; i++) {
        struct tensor *column = columns(me, matrices, i, 1), *length = down_the_rows(me, OP_norm, column);
        if (epsilon != 0)
            length = op_run(me, OP_add_scalar, &(struct op_args){ .in = { length }, .alpha = epsilon, .flag = true });
        done = op_run(me, OP_div, &(struct op_args){ .in = { column, length }, .out = column }) != NULL;
        if (i + 1 == count || !done)
            continue;
        struct tensor *rest  = columns(me, matrices, i + 1, count - i - 1);
        struct tensor *share = op_run(me, OP_mul, &(struct op_args){ .in = { column, rest } });
        share = op_run(me, OP_mul, &(struct op_args){ .in = { down_the_rows(me, OP_sum_dims, share), column } });
        done  = op_run(me, OP_sub, &(struct op_args){ .in = { rest, share }, .alpha = 1, .out = rest }) != NULL;
    }
    return done;
}

static bool
factor_each(struct task *me, struct tensor *matrices)
{
    bool done = true;
    for (int64_t i = 0; i < matrices->size[0] && done; i++) {
        struct tensor *one = op_run(me, OP_select, &(struct op_args){ .in = { matrices }, .dim = 0, .start = i });
        done = one != NULL && tensor_factor_orthogonal(me, one);
    }
    return done;
}

static bool
columns_fit(struct task *me, int64_t columns, int64_t rows)
{
    return columns <= rows || failed(me, E_ASSERTION, "PowerSGD: %lld columns of %lld elements cannot be orthogonal; "
                                     "the matrix_approximation_rank is more than the matrix has rows",
                                     (long long)columns, (long long)rows);
}

/* The columns of thin matrices become orthonormal: those of P, so that P P' M is M as far as P
 * reaches. PyTorch's rule of which way: a QR factorization pays from three columns on, and
 * knows no half precision. */
bool
powersgd_orthogonalize(struct task *me, struct tensor *matrices, double epsilon)
{
    const int64_t *size = matrices->size;
    STAGE(me, ddp_powersgd_orthogonalize, size[0], size[1], size[2]);
    if (!columns_fit(me, size[2], size[1]))
        return false;
    bool half = matrices->dtype == DTYPE_F16 || matrices->dtype == DTYPE_BF16;
    if (tensor_count(matrices) == 0)
        return !task_failed(me);
    if (size[2] <= 2 || half)
        return gram_schmidt(me, matrices, epsilon);
    return factor_each(me, matrices);
}

/* ---- what a bucket consists of ---- */

/* A gradient that may be compressed: as a matrix, and by how much. */
struct candidate { struct tensor *gradient, *matrix; int64_t rank; bool taken; };

static int64_t
rank_of(const struct powersgd *state, const struct tensor *matrix)
{
    int64_t rank = state->options.matrix_approximation_rank;
    for (int d = 0; d < 2; d++)
        rank = matrix->size[d] < rank ? matrix->size[d] : rank;
    return rank;
}

/* The first dimension by all others; a vector is one column. */
static struct tensor *
as_matrix(struct task *me, struct tensor *gradient)
{
    if (gradient->dims == 0)
        return failed_null(me, E_INDEX, "tuple index out of range: PowerSGD sees a gradient as a matrix whose rows are "
                           "its first dimension, but one of the parameters has none; give it the shape {1}");
    int64_t rows = gradient->size[0], width = rows > 0 ? tensor_count(gradient) / rows : 0;
    return op_run(me, OP_view, &(struct op_args){ .in = { gradient }, .dims = 2, .sizes = { rows, width } });
}

/* Counts what travels either way. Is it worth it? */
static bool
should_compress(const struct powersgd *state, struct candidate *candidate, struct matrix_plan *plan)
{
    const struct tensor *matrix = candidate->matrix;
    candidate->rank    = rank_of(state, matrix);
    int64_t all  = tensor_count(matrix), thin = (matrix->size[0] + matrix->size[1]) * candidate->rank;
    bool    yes  = (double)thin * state->options.min_compression_rate < (double)all;
    plan->numel_before += all;
    plan->numel_after  += yes ? thin : all;
    return yes;
}

static bool
plan_room(struct task *me, struct matrix_plan *plan, int room)
{
    plan->room    = room;
    plan->members = host_take(me, (size_t)room * sizeof *plan->members);
    plan->alone   = plan->members != NULL ? host_take(me, (size_t)room * sizeof *plan->alone) : NULL;
    plan->batches = plan->alone != NULL ? host_take(me, (size_t)room * sizeof *plan->batches) : NULL;
    return plan->batches != NULL;
}

void
matrix_plan_clear(struct task *me, struct matrix_plan *plan)
{
    for (int i = 0; i < plan->member_count; i++)
        tensor_drop(me, &plan->members[i]);
    for (int i = 0; i < plan->alone_count; i++)
        tensor_drop(me, &plan->alone[i]);
    for (int i = 0; i < plan->batch_count; i++) {
        tensor_drop(me, &plan->batches[i].stacked);
        tensor_drop(me, &plan->batches[i].p);
        tensor_drop(me, &plan->batches[i].q);
    }
    host_return(me, plan->members, (size_t)plan->room * sizeof *plan->members);
    host_return(me, plan->alone, (size_t)plan->room * sizeof *plan->alone);
    host_return(me, plan->batches, (size_t)plan->room * sizeof *plan->batches);
    *plan = (struct matrix_plan){ 0 };
}

/* A batch of which first, count and rank are known. */
static bool
add_batch(struct task *me, struct matrix_plan *plan, const struct matrices *batch)
{
    struct matrices *made    = &plan->batches[plan->batch_count++];
    struct tensor  **members = plan->members + batch->first;
    struct op_args   joining = { .in = { members[0] }, .list = members, .list_count = batch->count };
    *made = *batch;
    tensor_keep(me, &made->stacked, op_run(me, batch->count == 1 ? OP_unsqueeze : OP_stack, &joining));
    return made->stacked != NULL;
}

/* All candidates of the shape of number `first` become members, in one batch or in one each. */
static bool
take_shape(struct task *me, const struct powersgd *state, struct matrix_plan *plan, struct candidate *all, int count)
{
    int                  begin = plan->member_count;
    const struct tensor *shape = all[0].matrix;
    for (int i = 0; i < count; i++) {
        if (all[i].taken || all[i].rank == 0 || !tensor_same_shape(all[i].matrix, shape))
            continue;
        all[i].taken = true;
        tensor_keep(me, &plan->members[plan->member_count++], all[i].matrix);
        plan->p_numel += shape->size[0] * all[i].rank;
        plan->q_numel += shape->size[1] * all[i].rank;
    }
    struct matrices batch = { .first = begin, .count = plan->member_count - begin, .rank = all[0].rank };
    if (state->options.batch_tensors_with_same_shape)
        return add_batch(me, plan, &batch);
    bool done = true;
    for (batch.count = 1; batch.first < plan->member_count && done; batch.first++)
        done = add_batch(me, plan, &batch);
    return done;
}

/* The bucket's gradients in its order; who is compressed keeps its rank, the others 0. */
static struct candidate *
candidates_of(struct task *me, const struct powersgd *state, const struct grad_bucket *bucket, struct matrix_plan *plan)
{
    struct candidate *all  = scratch_new(me, (size_t)bucket->count, sizeof *all);
    struct flat_walk  walk = { .flat = bucket->buffer };
    for (int i = 0; i < bucket->count && all != NULL; i++) {
        all[i].gradient = flat_piece_strided(me, &walk, bucket->params[i]);
        all[i].matrix   = all[i].gradient != NULL ? as_matrix(me, all[i].gradient) : NULL;
        if (all[i].matrix == NULL)
            return NULL;
        if (should_compress(state, &all[i], plan))
            continue;
        all[i].rank = 0;
        tensor_keep(me, &plan->alone[plan->alone_count++], all[i].gradient);
    }
    return all;
}

bool
matrix_plan_layers(struct task *me, const struct powersgd *state, const struct grad_bucket *bucket,
                   struct matrix_plan *plan)
{
    struct candidate *all  = plan_room(me, plan, bucket->count) ? candidates_of(me, state, bucket, plan) : NULL;
    bool              done = all != NULL;
    for (int i = 0; i < bucket->count && done; i++)
        if (all[i].rank > 0 && !all[i].taken)
            done = take_shape(me, state, plan, all + i, bucket->count - i);
    return done;
}

bool
matrix_plan_whole(struct task *me, const struct powersgd *state, struct tensor *square, struct matrix_plan *plan)
{
    int64_t rank = state->options.matrix_approximation_rank, side = square->size[0];
    if (!columns_fit(me, rank, side) || !plan_room(me, plan, 1))
        return false;
    plan->p_numel = plan->q_numel = side * rank;
    plan->numel_after             = 2 * side * rank;
    tensor_keep(me, &plan->members[plan->member_count++], square);
    return add_batch(me, plan, &(struct matrices){ .count = 1, .rank = rank });
}

/* The next [count, height, width] of a flat buffer. */
static bool
next_view(struct task *me, struct tensor **field, struct flat_walk *walk, const int64_t size[3])
{
    struct tensor *view = tensor_piece(me, walk->flat, 3, size, walk->flat->offset + walk->used);
    walk->used += size[0] * size[1] * size[2];
    tensor_keep(me, field, view);
    return view != NULL;
}

bool
matrix_plan_views(struct task *me, struct matrix_plan *plan, struct tensor *p, struct tensor *q)
{
    struct flat_walk in_p = { .flat = p }, in_q = { .flat = q };
    bool             done  = true;
    for (int i = 0; i < plan->batch_count && done; i++) {
        struct matrices *batch = &plan->batches[i];
        const int64_t   *size  = batch->stacked->size;
        done = next_view(me, &batch->p, &in_p, (int64_t[3]){ size[0], size[1], batch->rank }) &&
               next_view(me, &batch->q, &in_q, (int64_t[3]){ size[0], size[2], batch->rank });
    }
    return done;
}

/* ---- what travels as it is ---- */

struct tensor *
matrix_pack_alone(struct task *me, const struct matrix_plan *plan, const struct tensor *like)
{
    const int64_t   none = 0;
    int            *order = scratch_new(me, (size_t)plan->alone_count + 1, sizeof *order);
    struct flat_members members = { plan->alone, order, plan->alone_count };
    if (plan->alone_count == 0 || order == NULL)
        return order != NULL ? tensor_empty(me, like->dtype, tensor_device(like), 1, &none) : NULL;
    for (int i = 0; i < plan->alone_count; i++)
        order[i] = i;
    struct tensor *row = flat_joined(me, &members);
    return plan->alone_count == 1 && row != NULL ? tensor_clone(me, row) : row;
}

bool
matrix_unpack_alone(struct task *me, const struct matrix_plan *plan, struct tensor *row)
{
    struct flat_walk walk = { .flat = row };
    bool             done = true;
    for (int i = 0; i < plan->alone_count && done; i++) {
        struct tensor *piece = flat_piece(me, &walk, plan->alone[i]);
        done = piece != NULL && tensor_copy(me, plan->alone[i], piece);
    }
    return done;
}

bool
matrix_unstack(struct task *me, const struct matrix_plan *plan, const struct matrices *batch)
{
    bool done = true;
    for (int i = 0; i < batch->count && batch->count > 1 && done; i++) {
        struct op_args choosing = { .in = { batch->stacked }, .dim = 0, .start = i };
        struct tensor *one      = op_run(me, OP_select, &choosing);
        done = one != NULL && tensor_copy(me, plan->members[batch->first + i], one);
    }
    return done;
}
