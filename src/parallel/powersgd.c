/* See powersgd.h.
 *
 * Who issues what when: `start` issues the all-reduces of what is not compressed and of P, bucket after bucket, and
 * `finish` issues that of Q, again bucket after bucket; so all ranks call the same collectives in the same order. In
 * PyTorch the second and third are issued by callbacks of the ones before: at once where futures are streams' (NCCL:
 * all three of bucket 0, then those of bucket 1), on whichever worker thread ends first where they are the CPU's (Gloo:
 * with several buckets ranks may disagree). What is calculated is the same. */
#include "parallel/powersgd.h"
#include <math.h>
#include <string.h>
#include "base/str.h"
#include "c10d/group.h"
#include "device/cells.h"
#include "parallel/powersgd_matrices.h"
#include "sched/account.h"
#include "sched/stage.h"
#include "tensor/op.h"

/* ---- the state ---- */

static void
forget_given(struct task *me, struct powersgd *state)
{
    for (size_t i = 0; i < state->given_count; i++)
        tensor_drop(me, &state->given_q[i]);
    host_return(me, state->given_q, state->given_count * sizeof *state->given_q);
    state->given_q     = NULL;
    state->given_count = state->given_next = 0;
}

static void
drop_state(struct task *me, struct hook_state *head)
{
    struct powersgd *state = (struct powersgd *)head;
    for (size_t i = 0; i < state->memory_count; i++) {
        tensor_drop(me, &state->memory[i].error);
        tensor_drop(me, &state->memory[i].p);
        tensor_drop(me, &state->memory[i].q);
    }
    host_return(me, state->memory, state->memory_room * sizeof *state->memory);
    forget_given(me, state);
    host_return(me, state, sizeof *state);
}

static bool
rank_fits(struct task *me, const struct powersgd_options *options)
{
    if (options->matrix_approximation_rank < 1)
        return failed(me, E_VALUE, "Expect `matrix_approximation_rank` >= 1, got %lld",
                      (long long)options->matrix_approximation_rank);
    return !task_failed(me);
}

static bool
options_fit(struct task *me, const struct powersgd_options *options)
{
    bool remembers = options->use_error_feedback || options->warm_start;
    if (remembers && options->start_iter <= 1)
        return failed(me, E_VALUE, "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is "
                      "enabled, because PowerSGD can only be applied after the first two iterations in DDP: its "
                      "buckets are rebuilt there, and what is remembered of a bucket would not fit any more. Got %lld.",
                      (long long)options->start_iter);
    if (options->random_seed < 0 || options->random_seed > UINT32_MAX)
        return failed(me, E_VALUE, "Seed must be between 0 and 2**32 - 1, got %lld", (long long)options->random_seed);
    return rank_fits(me, options);
}

struct powersgd *
powersgd_new(struct task *me, const struct powersgd_options *options)
{
    struct powersgd *state = options_fit(me, options) ? hook_state_new(me, sizeof *state) : NULL;
    if (state == NULL)
        return NULL;
    state->head.drop = drop_state;
    state->options   = *options;
    if (state->options.logging_frequency < 1)
        state->options.logging_frequency = 1;
    generator_seed(&state->rng, (uint64_t)options->random_seed);
    return state;
}

bool
powersgd_give_q(struct task *me, struct powersgd *state, struct tensor *const *given, size_t count)
{
    forget_given(me, state);
    state->given_q = given != NULL ? host_take(me, (count + 1) * sizeof *given) : NULL;
    if (given == NULL || state->given_q == NULL)
        return given == NULL;
    state->given_count = count + 1; /* one more, which is always NULL: none may be a list, too */
    for (size_t i = 0; i < count; i++)
        tensor_keep(me, &state->given_q[i], given[i]);
    return true;
}

struct powersgd_memory *
powersgd_memory(struct task *me, struct powersgd *state, size_t bucket)
{
    if (!host_room(me, &state->memory, &state->memory_room, bucket + 1, sizeof *state->memory)) {
        memory_failed(me, (bucket + 1) * sizeof *state->memory, "the host");
        return NULL;
    }
    for (; state->memory_count <= bucket; state->memory_count++)
        state->memory[state->memory_count] = (struct powersgd_memory){ 0 };
    return &state->memory[bucket];
}

static struct process_group *
group_of(struct task *me, const struct powersgd *state)
{
    const struct rank_context *here  = rank_context(me);
    struct process_group      *group = state->options.group;
    if (group == NULL && here != NULL)
        group = here->group;
    if (group == NULL)
        failed(me, E_VALUE, "Default process group has not been initialized, please make sure to call "
                            "init_process_group.");
    return group;
}

/* A lesson may set what is counted: the largest number stays what it is. */
static int64_t
counted_on(int64_t counted, int64_t more)
{
    int64_t sum;
    return __builtin_add_overflow(counted, more, &sum) ? INT64_MAX : sum;
}

/* The last bucket of a backward counts it. */
static void
maybe_increase_iter(struct powersgd *state, bool is_last)
{
    state->iter = counted_on(state->iter, is_last);
}

/* ---- a bucket under way ---- */

struct flight {
    struct powersgd    *state;           /* a reference */
    int                 bucket;
    bool                is_last, whole;
    bool                plain;           /* before the first compressed iteration: the buffer itself travels */
    struct tensor      *buffer;          /* the bucket's */
    struct tensor      *flat;            /* what is compressed: the buffer, or a copy with zeros behind it */
    struct tensor      *before;          /* flat, as it was; NULL: what is lost is forgotten */
    struct tensor      *alone;           /* what travels as it is */
    struct work        *alone_work, *p_work;   /* the first: of a plain one, too */
    struct matrix_plan  plan;
};

static void
forget_flight(struct task *me, void *context, void *started)
{
    struct flight *flight = started;
    (void)context;
    work_free(me, flight->alone_work);
    work_free(me, flight->p_work);
    matrix_plan_clear(me, &flight->plan);
    tensor_drop(me, &flight->buffer);
    tensor_drop(me, &flight->flat);
    tensor_drop(me, &flight->before);
    tensor_drop(me, &flight->alone);
    hook_state_unref(me, flight->state);
    host_return(me, flight, sizeof *flight);
}

/* ---- start ---- */

/* numpy's RandomState(seed).randint(1000000000): the twister's words, cut to 30 bits, drawn again where too large. */
static uint64_t
draw_seed(struct generator *rng)
{
    uint32_t word;
    do
        word = generator_u32(rng) & 0x3fffffff;
    while (word >= 1000000000);
    return word;
}

static bool
take_given(struct task *me, struct powersgd *state, struct tensor *q)
{
    struct tensor *given = state->given_q[state->given_next];
    if (given == NULL)
        return failed(me, E_RUNTIME, "PowerSGD draws a random Q, but all %zu that were given are used up",
                      state->given_next);
    bool matrix = given->dims == 2 && q->size[0] == 1 && given->size[0] == q->size[1] && given->size[1] == q->size[2];
    if (!matrix && !tensor_same_shape(given, q)) {
        struct str text = { 0 };
        shape_print(given->dims, given->size, &text);
        bool done = failed(me, E_RUNTIME, "PowerSGD: the random Q number %zu that was given has the shape %s, but the "
                           "next matrices need [%lld, %lld, %lld]", state->given_next, str_text(&text),
                           (long long)q->size[0], (long long)q->size[1], (long long)q->size[2]);
        str_free(&text);
        return done;
    }
    state->given_next++;
    return tensor_copy(me, q, given);
}

/* Standard normal numbers, from a generator of their own: the rank's stays where it is. */
static bool
randomize(struct task *me, struct powersgd *state, const struct matrix_plan *plan)
{
    struct generator *own  = scratch_new(me, 1, sizeof *own);
    bool              done = own != NULL;
    if (done)
        generator_seed(own, draw_seed(&state->rng));
    for (int i = 0; i < plan->batch_count && done; i++) {
        struct tensor *q = plan->batches[i].q;
        done = state->given_q != NULL ? take_given(me, state, q) : tensor_normal(me, q, 0, 1, own);
    }
    return done;
}

/* All P or all Q of a bucket in a row; of the bucket as a whole the matrix itself. */
static struct tensor *
thin_empty(struct task *me, const struct flight *flight, int64_t numel)
{
    const struct tensor *like    = flight->flat;
    int64_t              rank    = flight->state->options.matrix_approximation_rank;
    const int64_t        size[2] = { flight->whole ? numel / rank : numel, rank };
    return tensor_empty(me, like->dtype, tensor_device(like), flight->whole ? 2 : 1, size);
}

/* The Q of the iteration before is a better guess than a random one. Orthogonal either way. */
static bool
prepare_q(struct task *me, struct flight *flight, struct powersgd_memory *memory)
{
    struct powersgd    *state = flight->state;
    struct matrix_plan *plan  = &flight->plan;
    bool                fresh = !state->options.warm_start || memory->p == NULL || memory->q == NULL;
    if (fresh) {
        tensor_keep(me, &memory->p, thin_empty(me, flight, plan->p_numel));
        tensor_keep(me, &memory->q, thin_empty(me, flight, plan->q_numel));
    }
    if (memory->p == NULL || memory->q == NULL)
        return false;
    if (tensor_count(memory->p) != plan->p_numel || tensor_count(memory->q) != plan->q_numel)
        return failed(me, E_RUNTIME, "PowerSGD remembers another bucket %d: its P and Q had %lld and %lld elements, "
                      "this one's have %lld and %lld. A state serves one wrapper, whose buckets stay as they are",
                      flight->bucket, (long long)tensor_count(memory->p), (long long)tensor_count(memory->q),
                      (long long)plan->p_numel, (long long)plan->q_numel);
    bool done = matrix_plan_views(me, plan, memory->p, memory->q) && (!fresh || randomize(me, state, plan));
    for (int i = 0; i < plan->batch_count && done; i++)
        done = powersgd_orthogonalize(me, plan->batches[i].q, state->options.orthogonalization_epsilon);
    return done;
}

/* What the iteration before has lost comes back; what goes into this one is kept, to know what it will lose. */
static bool
feed_error_back(struct task *me, struct flight *flight, struct powersgd_memory *memory)
{
    struct tensor *flat = flight->flat;
    if (!flight->state->options.use_error_feedback)
        return true;
    if (memory->error != NULL && tensor_count(memory->error) != tensor_count(flat))
        return failed(me, E_RUNTIME, "PowerSGD remembers another bucket %d: its error has %lld elements, this one "
                      "%lld. A state serves one wrapper, whose buckets stay as they are", flight->bucket,
                      (long long)tensor_count(memory->error), (long long)tensor_count(flat));
    struct op_args adding = { .in = { flat, memory->error }, .alpha = 1, .out = flat };
    if (memory->error != NULL && op_run(me, OP_add, &adding) == NULL)
        return false;
    tensor_keep(me, &flight->before, tensor_clone(me, flat));
    return flight->before != NULL;
}

/* The whole bucket in a row with zeros behind it, so that it is a square. */
static bool
pad_to_square(struct task *me, struct flight *flight)
{
    int64_t        count = tensor_count(flight->buffer), side = (int64_t)ceil(sqrt((double)count)), all = side * side;
    struct tensor *flat  = tensor_zeros(me, flight->buffer->dtype, tensor_device(flight->buffer), 1, &all);
    struct tensor *front = flat != NULL ? tensor_piece(me, flat, 1, &count, flat->offset) : NULL;
    tensor_keep(me, &flight->flat, flat);
    flight->plan.numel_before = count;
    return front != NULL && tensor_copy(me, front, flight->buffer);
}

static bool
make_plan(struct task *me, struct flight *flight, const struct grad_bucket *bucket)
{
    struct matrix_plan *plan = &flight->plan;
    if (!flight->whole)
        return matrix_plan_layers(me, flight->state, bucket, plan);
    int64_t        side[2] = { (int64_t)sqrt((double)tensor_count(flight->flat)) };
    side[1] = side[0];
    struct tensor *square = tensor_piece(me, flight->flat, 2, side, flight->flat->offset);
    return square != NULL && matrix_plan_whole(me, flight->state, square, plan);
}

static void
count_elements(struct powersgd *state, const struct flight *flight)
{
    state->numel_before = counted_on(state->numel_before, flight->plan.numel_before);
    state->numel_after  = counted_on(state->numel_after, flight->plan.numel_after);
    if (flight->is_last && state->iter >= state->next_stats_report)
        state->next_stats_report = counted_on(state->iter, state->options.logging_frequency);
}

static bool
issue_first(struct task *me, struct flight *flight, struct powersgd_memory *memory)
{
    struct process_group *group = group_of(me, flight->state);
    if (!flight->whole) {
        tensor_keep(me, &flight->alone, matrix_pack_alone(me, &flight->plan, flight->flat));
        if (group == NULL || flight->alone == NULL)
            return false;
        flight->alone_work = group_all_reduce(me, group, flight->alone, NULL);
        if (flight->alone_work == NULL)
            return false;
    }
    flight->p_work = group != NULL ? group_all_reduce(me, group, memory->p, NULL) : NULL;
    return flight->p_work != NULL;
}

/* A bucket's matrices M meet Q: P = M Q is under way to all ranks, and what is not worth compressing as it is. */
static bool
powersgd_compress(struct task *me, struct flight *flight,
                  const struct grad_bucket *bucket)
{
    int64_t size = (int64_t)dtype_size(bucket->buffer->dtype);
    STAGE(me, ddp_powersgd_compress, flight->bucket, tensor_bytes(bucket->buffer), 0, 0);
    struct powersgd        *state  = flight->state;
    struct powersgd_memory *memory = powersgd_memory(me, state, (size_t)flight->bucket);
    if (memory == NULL)
        return false;
    if (!flight->whole)
        tensor_keep(me, &flight->flat, flight->buffer);
    else if (!pad_to_square(me, flight))
        return false;
    if (!feed_error_back(me, flight, memory) || !make_plan(me, flight, bucket))
        return false;
    count_elements(state, flight);
    stage_set(&stage_, 2, flight->plan.numel_after * size);
    stage_set(&stage_, 3, flight->plan.member_count);
    if (!prepare_q(me, flight, memory))
        return false;
    for (int i = 0; i < flight->plan.batch_count; i++) {
        struct matrices *batch = &flight->plan.batches[i];
        if (!multiply_into(me, batch->p, batch->stacked, batch->q, FLIPPED_NONE))
            return false;
    }
    return issue_first(me, flight, memory);
}

/* The first iterations' gradients are too large to be guessed, and buckets are rebuilt: the plain mean. */
static bool
start_plain(struct task *me, struct flight *flight, const struct grad_bucket *bucket)
{
    struct process_group *group = group_of(me, flight->state);
    maybe_increase_iter(flight->state, flight->is_last);
    if (group == NULL || !hook_divide(me, bucket->buffer, process_group_size(group)))
        return false;
    flight->alone_work = group_all_reduce(me, group, bucket->buffer, NULL);
    return flight->alone_work != NULL;
}

static void *
start(struct task *me, struct powersgd *state, const struct grad_bucket *bucket, bool whole)
{
    struct flight *flight = host_take(me, sizeof *flight);
    if (flight == NULL)
        return NULL;
    hook_state_ref(&state->head);
    *flight = (struct flight){ .state = state, .bucket = bucket->index, .is_last = bucket->is_last, .whole = whole };
    tensor_keep(me, &flight->buffer, bucket->buffer);
    flight->plain = state->iter < state->options.start_iter;
    bool done = false;
    if (flight->plain)
        done = start_plain(me, flight, bucket);
    else if (tensor_is_sparse(bucket->buffer))
        sparse_refused(me, "PowerSGD", bucket->buffer);
    else
        done = rank_fits(me, &state->options) && powersgd_compress(me, flight, bucket);
    if (done)
        return flight;
    forget_flight(me, NULL, flight);
    return NULL;
}

static void *
start_layers(struct task *me, void *context, const struct grad_bucket *bucket)
{
    return start(me, context, bucket, false);
}

static void *
start_whole(struct task *me, void *context, const struct grad_bucket *bucket)
{
    return start(me, context, bucket, true);
}

/* ---- finish ---- */

static bool
complete(struct task *me, struct work **work)
{
    bool done = work_wait(me, *work);
    work_free(me, *work);
    *work = NULL;
    return done;
}

/* The plain gradients' mean, into their places. */
static bool
unpack_alone(struct task *me, struct flight *flight)
{
    struct process_group *group = group_of(me, flight->state);
    return flight->alone_work == NULL ||
           (complete(me, &flight->alone_work) && group != NULL &&
            hook_divide(me, flight->alone, process_group_size(group)) &&
            matrix_unpack_alone(me, &flight->plan, flight->alone));
}

/* The sum of all ranks' P spans what their gradients have in common, once its columns are orthogonal; Q = M' P says how
 * much of that each row of this rank's M' has. Nobody divides P: lengths are lost anyway. */
static bool
powersgd_compute_qs(struct task *me, struct flight *flight,
                    struct powersgd_memory *memory)
{
    STAGE(me, ddp_powersgd_compute_qs, flight->bucket, tensor_bytes(memory->q));
    struct process_group *group   = group_of(me, flight->state);
    double                epsilon = flight->state->options.orthogonalization_epsilon;
    if (group == NULL || !complete(me, &flight->p_work))
        return false;
    for (int i = 0; i < flight->plan.batch_count; i++) {
        struct matrices *batch = &flight->plan.batches[i];
        if (!powersgd_orthogonalize(me, batch->p, epsilon) ||
            !multiply_into(me, batch->q, batch->stacked, batch->p, FLIPPED_FIRST))
            return false;
    }
    return group_all_reduce_now(me, group, memory->q, NULL) &&
           hook_divide(me, memory->q, process_group_size(group));
}

/* The square's padding stays behind. */
static bool
copy_front(struct task *me, const struct flight *flight)
{
    const int64_t  count = tensor_count(flight->buffer);
    struct tensor *front = tensor_piece(me, flight->flat, 1, &count, flight->flat->offset);
    return front != NULL && tensor_copy(me, flight->buffer, front);
}

/* P Q' takes the place of the gradients, the same on all ranks; the difference stays here for
 * the next time. */
static bool
powersgd_decompress(struct task *me, struct flight *flight,
                    struct powersgd_memory *memory)
{
    STAGE(me, ddp_powersgd_decompress, flight->bucket, tensor_bytes(flight->buffer));
    struct powersgd *state = flight->state;
    for (int i = 0; i < flight->plan.batch_count; i++) {
        struct matrices *batch = &flight->plan.batches[i];
        if (!multiply_into(me, batch->stacked, batch->p, batch->q, FLIPPED_SECOND) ||
            !matrix_unstack(me, &flight->plan, batch))
            return false;
    }
    if (flight->before != NULL) {
        struct op_args losing = { .in = { flight->before, flight->flat }, .alpha = 1 };
        struct tensor *lost   = op_run(me, OP_sub, &losing);
        if (lost == NULL)
            return false;
        tensor_keep(me, &memory->error, lost);
    }
    if (flight->whole && !copy_front(me, flight))
        return false;
    if (!state->options.warm_start) {
        tensor_drop(me, &memory->p);
        tensor_drop(me, &memory->q);
    }
    maybe_increase_iter(state, flight->is_last);
    return true;
}

static struct tensor *
finish(struct task *me, void *context, void *started)
{
    struct flight          *flight = started;
    struct powersgd_memory *memory = NULL;
    bool                    done   = flight->plain && complete(me, &flight->alone_work);
    if (!flight->plain) {
        memory = powersgd_memory(me, flight->state, (size_t)flight->bucket);
        done   = memory != NULL && memory->p != NULL && memory->q != NULL && unpack_alone(me, flight) &&
                 powersgd_compute_qs(me, flight, memory) && powersgd_decompress(me, flight, memory);
    }
    struct tensor *result = done ? tensor_born(me, tensor_ref(flight->buffer)) : NULL;
    forget_flight(me, context, flight);
    return result;
}

/* ---- hooks ---- */

static void
drop_hook(struct task *me, void *context)
{
    hook_state_unref(me, context);
}

struct comm_hook
powersgd_hook(struct powersgd *state)
{
    hook_state_ref(&state->head);
    return (struct comm_hook){ .start = start_layers, .finish = finish, .forget = forget_flight, .drop = drop_hook,
                               .context = state, .name = "powerSGD_hook" };
}

/* PyTorch 2.15's own raises an AssertionError with the first compressed bucket: its orthogonalization takes batches of
 * matrices, and this hook has one matrix. Here it does what its description says. */
struct comm_hook
batched_powersgd_hook(struct powersgd *state)
{
    hook_state_ref(&state->head);
    return (struct comm_hook){ .start = start_whole, .finish = finish, .forget = forget_flight, .drop = drop_hook,
                               .context = state, .name = "batched_powerSGD_hook" };
}
