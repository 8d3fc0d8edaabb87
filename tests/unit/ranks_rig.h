/* What the tests of process groups and DDP stand on: a world of ranks in either executor, and what they told the trace.
 * Checks inside a rank go through EXPECT, which notes the first that fails; cmocka must not jump out of a task. */
#ifndef RANKS_RIG_H
#define RANKS_RIG_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "c10d/group.h"
#include "device/device.h"
#include "hw/cost.h"
#include "sched/stage.h"
#include "tensor/tensor.h"
#include "trace/match.h"
#include "trace/reader.h"
#include "trace/writer.h"

enum { RANKS_MAX = 256, RANKS_WITH_DEVICES = 16 };

struct ranks;
typedef bool rank_body(struct task *me, struct process_group *group, struct ranks *ranks);

struct ranks {
    int               size;
    rank_body        *body;
    bool              free_costs;            /* host = kernel = 0: the wire alone */
    int               late_rank;             /* starts late_us later */
    double            late_us;
    struct cost_model cost;
    struct world     *world;
    struct error      error[RANKS_MAX];
    char              failed_check[RANKS_MAX][420];
    struct trace     *trace;
    bool              stepped;
    double            number;                /* a test's own */
    const struct group_backend *backend;     /* NULL: local */
    struct topology   topology;
    double            bytes_per_us;          /* 0: the hardware's */
    bool              trace_hops;
};

struct one_rank { struct ranks *ranks; int rank; };

/* EXPECT is a function, so that no check hides a return: `if (!expect(...)) return false;`. */
static inline bool
expect(struct task *me, struct ranks *ranks, bool holds, const char *what)
{
    char *note = ranks->failed_check[me->rank];
    if (!holds && note[0] == '\0')
        snprintf(note, sizeof ranks->failed_check[0], "rank %d: %.90s (%.300s)", me->rank, what, me->error.message);
    return holds;
}

static inline bool
rank_main(struct task *me, void *argument)
{
    struct one_rank    *one     = argument;
    struct ranks       *ranks   = one->ranks;
    struct rank_context context = { .world = ranks->world, .rank = one->rank };
    rank_context_set(me, &context);
    me->line = (uint32_t)(100 + one->rank);
    if (ranks->late_us > 0 && one->rank == ranks->late_rank)
        sched_advance(me, cost_us(ranks->late_us));
    struct process_group *group = process_group_rendezvous(me, ranks->world, one->rank);
    if (group != NULL)
        ranks->body(me, group, ranks);
    world_rank_ended(me, ranks->world, one->rank);
    process_group_destroy(me, group);
    return true;
}

static inline bool
ranks_main(struct task *me, void *argument)
{
    struct ranks        *ranks   = argument;
    struct world_options options = { .size = ranks->size, .backend = ranks->backend, .trace_hops = ranks->trace_hops };
    int                  devices = ranks->size < RANKS_WITH_DEVICES ? ranks->size : RANKS_WITH_DEVICES;
    struct task         *tasks[RANKS_MAX];
    struct one_rank      ones[RANKS_MAX];
    ranks->world = world_new(me, &options);
    if (ranks->world == NULL || !devices_ready(me, devices))
        return false;
    for (int rank = 0; rank < ranks->size; rank++) {
        char name[32];
        snprintf(name, sizeof name, "r%d main", rank);
        struct task_options of_task = { .name = name, .rank = rank, .device = rank < devices ? rank : DEVICE_CPU,
                                        .lua = true };
        ones[rank]  = (struct one_rank){ ranks, rank };
        tasks[rank] = task_spawn(me, &of_task, rank_main, &ones[rank]);
        if (tasks[rank] == NULL)
            return false;
    }
    for (int rank = 0; rank < ranks->size; rank++)
        task_join(me, tasks[rank], &ranks->error[rank]);
    world_free(me, ranks->world);
    return true;
}

/* Runs `body` on each rank and opens what was traced. The caller asserts on ranks->error, then calls ranks_free. */
static inline void
ranks_run(struct ranks *ranks, enum executor_kind executor)
{
    char         why[256] = "";
    struct error error;
    ranks->stepped = executor == EXECUTOR_STEPPED;
    memset(ranks->error, 0, sizeof ranks->error);
    memset(ranks->failed_check, 0, sizeof ranks->failed_check);
    assert_true(cost_preset(&ranks->cost, "classroom"));
    if (ranks->free_costs)
        assert_true(cost_set(&ranks->cost, "host", 0) && cost_set(&ranks->cost, "kernel", 0));
    if (ranks->bytes_per_us > 0)
        assert_true(cost_set(&ranks->cost, "bandwidth", ranks->bytes_per_us));
    ranks->cost.topology = ranks->topology;
    const struct trace_options traced = { .clock = ranks->stepped ? CLOCK_VIRTUAL_PS : CLOCK_MONOTONIC_NS };
    struct trace_writer *writer = trace_create(&traced, why, sizeof why);
    assert_non_null(writer);
    const struct sched_options options = { .executor = executor, .writer = writer, .cost = &ranks->cost };
    struct sched *sched = sched_new(&options, why, sizeof why);
    assert_non_null(sched);
    bool ran = sched_run(sched, ranks_main, ranks, &error);
    if (!ran)
        print_message("# the run failed: %s\n", error.message);
    assert_true(ran);
    devices_free(sched);
    sched_free(sched);
    ranks->trace = trace_open_fd(trace_fd(writer), why, sizeof why);
    trace_close(writer);
    if (ranks->trace == NULL)
        print_message("# no trace: %s\n", why);
    assert_non_null(ranks->trace);
    for (int rank = 0; rank < ranks->size; rank++) {
        if (ranks->failed_check[rank][0] != '\0')
            print_message("# %s\n", ranks->failed_check[rank]);
        assert_string_equal(ranks->failed_check[rank], "");
    }
}

static inline void
ranks_free(struct ranks *ranks)
{
    trace_release(ranks->trace);
    ranks->trace = NULL;
}

static inline void
assert_no_errors(const struct ranks *ranks)
{
    for (int rank = 0; rank < ranks->size; rank++) {
        if (ranks->error[rank].kind != E_NONE)
            print_message("# rank %d: %s\n", rank, ranks->error[rank].message);
        assert_int_equal(ranks->error[rank].kind, E_NONE);
    }
}

/* The next event from `seq` on that the filter matches; its number, SIZE_MAX: none. */
static inline size_t
next_match(const struct ranks *ranks, const char *filter, size_t seq)
{
    char why[256] = "";
    const struct match_names names = match_names_of_trace(ranks->trace);
    struct match *match = match_compile(filter, &names, why, sizeof why);
    if (match == NULL)
        print_message("# %s\n", why);
    assert_non_null(match);
    size_t count = trace_count(ranks->trace);
    while (seq < count && !match_event(match, trace_event(ranks->trace, seq), seq, trace_time(ranks->trace, seq)))
        seq++;
    match_free(match);
    return seq < count ? seq : SIZE_MAX;
}

static inline int
count_events(const struct ranks *ranks, const char *filter)
{
    int count = 0;
    for (size_t seq = next_match(ranks, filter, 0); seq != SIZE_MAX; seq = next_match(ranks, filter, seq + 1))
        count++;
    return count;
}

static inline int64_t
sum_of(const struct ranks *ranks, const char *filter, int argument)
{
    int64_t sum = 0;
    for (size_t seq = next_match(ranks, filter, 0); seq != SIZE_MAX; seq = next_match(ranks, filter, seq + 1))
        sum += trace_event(ranks->trace, seq)->args[argument];
    return sum;
}

/* How long the first stage that matches lasted, in ps. */
static inline uint64_t
duration_of(const struct ranks *ranks, const char *filter)
{
    size_t begin = next_match(ranks, filter, 0);
    assert_true(begin != SIZE_MAX);
    size_t end = trace_partner(ranks->trace, begin);
    assert_true(end != SIZE_MAX);
    return trace_time(ranks->trace, end) - trace_time(ranks->trace, begin);
}

/* ---- tensors of a few numbers ---- */

/* first, first + step, first + 2 step ... */
static inline struct tensor *
numbers(struct task *me, int64_t count, double first, double step)
{
    float floats[64];
    for (int64_t i = 0; i < count && i < 64; i++)
        floats[i] = (float)(first + step * (double)i);
    return tensor_from(me, DTYPE_F32, 1, &count, floats);
}

static inline bool
holds(struct task *me, struct tensor *tensor, int64_t count, double first, double step)
{
    float floats[64];
    if (!tensor_read(me, tensor, floats))
        return false;
    for (int64_t i = 0; i < count; i++)
        if (floats[i] != (float)(first + step * (double)i))
            return false;
    return true;
}
#endif
