/* The order of events repeats: who goes first among equals, whose clock moves when, and who knows of whose writes. */
#include "ranks_rig.h"

#include "device/storage.h"
#include "tensor/op.h"

/* A write of the whole tensor by the host, which takes no time: the order of the calls is the order of the accesses. */
static bool
touch(struct task *me, const struct tensor *tensor)
{
    struct access access = { .storage = tensor->storage, .end = (uint64_t)tensor_bytes(tensor), .write = true,
                             .what = "touch" };
    return storage_access_by_host(me, &access);
}

static bool
touches(struct task *me, void *tensor)
{
    return touch(me, tensor);
}

static struct task *
start(struct task *me, const char *name, bool (*run)(struct task *me, void *argument), void *argument)
{
    struct task_options options = { .name = name, .rank = TASK_INHERIT, .device = TASK_INHERIT };
    return task_spawn(me, &options, run, argument);
}

static enum error_kind
joined_with(struct task *me, struct task *child)
{
    struct error error = { .kind = E_NONE };
    if (child != NULL)
        task_join(me, child, &error);
    return error.kind;
}

static void
run_alone(rank_body *body)
{
    struct ranks ranks = { .size = 1, .body = body };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    ranks_free(&ranks);
}

/* ---- who knows of whose writes ---- */

static bool
write_behind_a_spawn(struct task *me, struct process_group *group, struct ranks *ranks)
{
    (void)group;
    struct tensor *tensor = numbers(me, 4, 0, 0);
    struct task   *child  = start(me, "child", touches, tensor);
    bool           wrote  = touch(me, tensor);
    return expect(me, ranks, wrote && joined_with(me, child) == E_RACE, "the child does not know of it");
}

static void
a_child_does_not_know_what_its_parent_does_after_the_spawn(void **state)
{
    (void)state;
    run_alone(write_behind_a_spawn);
}

static bool
joins(struct task *me, void *child)
{
    return joined_with(me, child) == E_NONE;
}

/* The first one's place in the vector clocks is free, but main does not know what it did. */
static bool
write_in_anothers_seat(struct task *me, struct process_group *group, struct ranks *ranks)
{
    (void)group;
    struct tensor *tensor = numbers(me, 4, 0, 0);
    struct task   *first  = start(me, "first", touches, tensor);
    struct task   *keeper = start(me, "keeper", joins, first);
    sched_advance(me, cost_us(10));
    struct task     *second = start(me, "second", touches, tensor);
    enum error_kind  met    = joined_with(me, second);
    return expect(me, ranks, joined_with(me, keeper) == E_NONE && met == E_RACE, "the second one knows nothing of it");
}

static void
a_seat_in_the_vector_clocks_is_not_taken_by_who_does_not_know_its_last_holder(void **state)
{
    (void)state;
    run_alone(write_in_anothers_seat);
}

static bool
write_after_many_joined(struct task *me, struct process_group *group, struct ranks *ranks)
{
    (void)group;
    struct tensor *tensor = numbers(me, 4, 0, 0);
    bool           joined = true;
    for (int i = 0; i < 400 && joined; i++)
        joined = joined_with(me, start(me, "worker", touches, tensor)) == E_NONE;
    return expect(me, ranks, joined, "each knows of the one before") && write_behind_a_spawn(me, group, ranks);
}

static void
the_race_checker_goes_on_after_hundreds_of_tasks_that_were_joined(void **state)
{
    (void)state;
    run_alone(write_after_many_joined);
}

struct guarded { struct monitor monitor; struct tensor *tensor; bool open; };

static bool
touches_in_turn(struct task *me, void *argument)
{
    struct guarded *guarded = argument;
    monitor_enter(me, &guarded->monitor);
    bool done = touch(me, guarded->tensor);
    monitor_leave(me, &guarded->monitor);
    return done;
}

static bool
touches_and_waits(struct task *me, void *argument)
{
    struct guarded    *guarded = argument;
    struct wait_reason reason  = { .what = "the door", .sequence = -1, .peer = -1 };
    bool               done    = touch(me, guarded->tensor);
    monitor_enter(me, &guarded->monitor);
    while (!guarded->open)
        if (!monitor_wait(me, &guarded->monitor, &reason))
            return false;
    monitor_leave(me, &guarded->monitor);
    return done;
}

static bool
opens_and_touches(struct task *me, void *argument)
{
    struct guarded *guarded = argument;
    monitor_enter(me, &guarded->monitor);
    bool done     = touch(me, guarded->tensor);
    guarded->open = true;
    monitor_wake(me, &guarded->monitor);
    monitor_leave(me, &guarded->monitor);
    return done;
}

static bool
pass_a_monitor_on(struct task *me, struct process_group *group, struct ranks *ranks)
{
    (void)group;
    struct guarded guarded = { .tensor = numbers(me, 4, 0, 0) };
    if (!monitor_init(&guarded.monitor))
        return false;
    struct task *a = start(me, "a", touches_in_turn, &guarded), *b = start(me, "b", touches_in_turn, &guarded);
    bool left = joined_with(me, a) == E_NONE && joined_with(me, b) == E_NONE;
    struct task *waits = start(me, "waits", touches_and_waits, &guarded);
    sched_advance(me, cost_us(1));
    struct task *opens = start(me, "opens", opens_and_touches, &guarded);
    bool waited = joined_with(me, opens) == E_NONE && joined_with(me, waits) == E_NONE;
    monitor_destroy(&guarded.monitor);
    return expect(me, ranks, left, "who enters knows what was done before the last one left") &&
           expect(me, ranks, waited, "and before somebody waits");
}

static void
monitors_pass_on_what_was_written(void **state)
{
    (void)state;
    run_alone(pass_a_monitor_on);
}

/* ---- who goes first ---- */

static bool
launch_backwards(struct task *me, struct process_group *group, struct ranks *ranks)
{
    (void)group;
    int64_t count = 4;
    bool    done  = cost_set(&ranks->cost, "host", 0);
    for (int device = 1; device >= 0 && me->rank == 0; device--)
        done = done && tensor_filled(me, tensor_empty(me, DTYPE_F32, device, 1, &count), 1) != NULL;
    sched_advance(me, cost_us(1000));
    return expect(me, ranks, done, "both are launched");
}

static void
streams_that_are_ready_at_one_moment_go_by_their_number(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 2, .body = launch_backwards };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    size_t first = SIZE_MAX, second = SIZE_MAX;
    for (size_t seq = 0; seq < trace_count(ranks.trace); seq++) {
        const struct trace_event *event = trace_event(ranks.trace, seq);
        if (event->kind != KIND_kernel || event->phase != PHASE_END)
            continue;
        second = first == SIZE_MAX ? second : seq;
        first  = first == SIZE_MAX ? seq : first;
    }
    assert_true(second != SIZE_MAX);
    assert_int_equal(trace_time(ranks.trace, first), trace_time(ranks.trace, second));
    assert_int_equal(trace_event(ranks.trace, first)->device, 0);
    assert_int_equal(trace_event(ranks.trace, second)->device, 1);
    ranks_free(&ranks);
}

static bool
drop_two(struct task *me, struct process_group *group, struct ranks *ranks)
{
    (void)group;
    size_t         mark  = scope_mark(me);
    struct tensor *older = numbers(me, 4, 0, 0), *newer = numbers(me, 4, 0, 0);
    bool           born  = older != NULL && newer != NULL && older->storage->number < newer->storage->number;
    ranks->number = born ? (double)older->storage->number : 0;
    scope_release(me, mark);
    return expect(me, ranks, born, "two are born");
}

static void
a_scope_drops_the_newest_first(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 1, .body = drop_two };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    char filter[64];
    snprintf(filter, sizeof filter, "memory.free and storage = %d", (int)ranks.number);
    size_t older = next_match(&ranks, filter, 0);
    snprintf(filter, sizeof filter, "memory.free and storage = %d", (int)ranks.number + 1);
    size_t newer = next_match(&ranks, filter, 0);
    assert_true(older != SIZE_MAX && newer != SIZE_MAX && newer < older);
    ranks_free(&ranks);
}

/* Both come to the same three moments; at the first one rank 0 lets rank 1 go first. */
static bool
come_together(struct task *me, struct process_group *group, struct ranks *ranks)
{
    (void)group;
    for (int i = 0; i < 3; i++) {
        sched_advance(me, cost_us(10));
        if (i == 0 && me->rank == 0 && !expect(me, ranks, sched_prefer_rank(me->sched, 1), "rank 1 can run"))
            return false;
        sched_point(me);
        ranks->number = 10 * ranks->number + me->rank + 1;
    }
    return true;
}

static void
who_is_preferred_goes_first_until_its_clock_moves_on(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 2, .body = come_together, .free_costs = true };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    assert_int_equal((int)ranks.number, 211212);
    ranks_free(&ranks);
}

/* ---- whose clock moves when ---- */

static bool
delay_who_waits(struct task *me, struct process_group *group, struct ranks *ranks)
{
    uint64_t       begin = sched_now(me);
    struct tensor *token = numbers(me, 1, 1, 0);
    if (me->rank == 0) /* the message comes meanwhile */
        return expect(me, ranks, group_recv(me, group, token, 1, 0) && sched_now(me) == begin + cost_us(170),
                      "it receives 70 us after it was woken");
    sched_advance(me, cost_us(100));
    bool held = sched_delay_rank(me->sched, 0, cost_us(70));
    return expect(me, ranks, held && group_send(me, group, token, 0, 0), "rank 0 is held up while it waits");
}

static void
a_delay_holds_up_a_rank_that_waits_when_it_wakes(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 2, .body = delay_who_waits, .free_costs = true };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    ranks_free(&ranks);
}

static bool
wait_in_vain(struct task *me, struct process_group *group, struct ranks *ranks)
{
    uint64_t begin = sched_now(me);
    if (me->rank == 1)
        sched_advance(me, cost_us(100));
    bool stuck = !group_recv(me, group, numbers(me, 1, 0, 0), 1 - me->rank, 0) && me->error.kind == E_DEADLOCK;
    task_clear_error(me);
    return expect(me, ranks, stuck && sched_now(me) == begin + cost_us(100), "both learn it when the last one waits");
}

static void
a_deadlock_is_told_at_the_moment_when_nobody_can_go_on(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 2, .body = wait_in_vain, .free_costs = true };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    ranks_free(&ranks);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_does_not_know_what_its_parent_does_after_the_spawn),
        cmocka_unit_test(a_seat_in_the_vector_clocks_is_not_taken_by_who_does_not_know_its_last_holder),
        cmocka_unit_test(the_race_checker_goes_on_after_hundreds_of_tasks_that_were_joined),
        cmocka_unit_test(monitors_pass_on_what_was_written),
        cmocka_unit_test(streams_that_are_ready_at_one_moment_go_by_their_number),
        cmocka_unit_test(a_scope_drops_the_newest_first),
        cmocka_unit_test(a_delay_holds_up_a_rank_that_waits_when_it_wakes),
        cmocka_unit_test(who_is_preferred_goes_first_until_its_clock_moves_on),
        cmocka_unit_test(a_deadlock_is_told_at_the_moment_when_nobody_can_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
