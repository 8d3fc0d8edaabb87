/* The door to process groups: what a group asks of its back-end, on which task, and what it makes of the answers. */
#include "ranks_rig.h"

#include "c10d/backend.h"

/* A back-end that moves nothing and counts what it is asked. */
struct counting {
    struct group_backend table;      /* first: open knows itself by it */
    int      opened, closed, connected, met, disconnected, woken, accepted, reduced, posted, moved, withdrawn;
    uint64_t ahead_ps;               /* a barrier ends so long after it was begun */
    bool     fails, fails_apart;     /* at once; or rank 0 in its second and, later, rank 1 in its first */
};

static void *
counting_open(struct task *me, const struct world_options *options)
{
    (void)me;
    struct counting *counting = (struct counting *)(uintptr_t)options->backend;
    counting->opened += options->size;
    return counting;
}

static void
counting_close(struct task *me, void *transport)
{
    (void)me;
    ((struct counting *)transport)->closed++;
}

static void
counting_wake(struct task *me, void *transport)
{
    (void)me;
    ((struct counting *)transport)->woken++;
}

/* Its channel is the transport: it has one group at a time. */
static void *
counting_connect(struct task *me, void *transport, const int *ranks, int size)
{
    struct counting *counting = transport;
    counting->connected += size;
    return ranks[size - 1] == size - 1 ? transport : failed_null(me, E_VALUE, "the ranks are not those of the world");
}

static bool
counting_meet(struct task *me, void *channel, const struct group_meeting *meeting)
{
    (void)me;
    ((struct counting *)channel)->met += meeting->rank >= 0 && meeting->store == NULL;
    return true;
}

static void
counting_disconnect(struct task *me, void *channel)
{
    (void)me;
    ((struct counting *)channel)->disconnected++;
}

static bool
counting_accepts(struct task *me, const struct collective *call)
{
    struct counting *counting = call->channel;
    counting->accepted++;
    return call->operation != OPERATION_BROADCAST || failed(me, E_RUNTIME, "broadcast is not supported by counting");
}

/* In the order of issue, on the comm task, with what the caller gave. */
static bool
counting_all_reduce(struct task *me, const struct collective *call)
{
    struct counting *counting = call->channel;
    if (counting->fails_apart) {
        sched_advance(me, cost_us(call->rank == 1 ? 100 : 10));
        return call->sequence == 1 - call->rank ? failed(me, E_RUNTIME, "wire %d is cut", call->rank) : true;
    }
    bool right = strcmp(me->name, "r0 comm") == 0 && call->sequence == counting->reduced++ && call->rank == 0 &&
                 call->ranks == 1 && call->bytes == 8 && call->elements == 2 && call->options.op == REDUCE_MAX;
    if (counting->fails)
        return failed(me, E_RUNTIME, "the wire is cut");
    return right || failed(me, E_VALUE, "the back-end was called with something else");
}

static bool
counting_move(struct task *me, const struct collective *call)
{
    return failed(me, E_RUNTIME, "operation %d is not supported by counting", (int)call->operation);
}

/* It knows at once when it will be over, as one does whose work a device will do. */
static bool
counting_barrier(struct task *me, const struct collective *call)
{
    struct counting *counting = call->channel;
    me->clock += counting->ahead_ps;
    return true;
}

static bool
counting_post(struct task *me, struct post *post)
{
    struct counting *counting = post->channel;
    counting->posted++;
    return post->tag != 13 || failed(me, E_RUNTIME, "there is no line for the tag 13");
}

static bool
counting_send(struct task *me, struct post *post)
{
    struct counting *counting = post->channel;
    counting->moved++;
    return post->is_send && !task_failed(me);
}

static bool
counting_recv(struct task *me, struct post *post)
{
    struct counting *counting = post->channel;
    counting->moved++;
    return !post->is_send && !task_failed(me);
}

static void
counting_withdraw(struct task *me, struct post *post)
{
    (void)me;
    ((struct counting *)post->channel)->withdrawn++;
}

static bool
counting_stays(struct task *me, const struct collective *call)
{
    (void)me, (void)call;
    return false;
}

static const struct group_backend counting_backend = {
    .abi        = GROUP_BACKEND_ABI,
    .name       = "counting",
    .open       = counting_open,
    .close      = counting_close,
    .wake       = counting_wake,
    .connect    = counting_connect,
    .meet       = counting_meet,
    .disconnect = counting_disconnect,
    .accepts    = counting_accepts,
    .stays      = counting_stays,
    .all_reduce = counting_all_reduce,
    .broadcast  = counting_move,
    .reduce     = counting_move,
    .all_gather = counting_move,
    .gather     = counting_move,
    .scatter    = counting_move,
    .reduce_scatter = counting_move,
    .all_to_all = counting_move,
    .barrier    = counting_barrier,
    .post       = counting_post,
    .send       = counting_send,
    .recv       = counting_recv,
    .withdraw   = counting_withdraw,
};

static void
run_counting(struct ranks *ranks, struct counting *counting)
{
    counting->table = counting_backend;
    ranks->backend  = &counting->table;
    ranks_run(ranks, EXECUTOR_STEPPED);
}

/* ---- collectives ---- */

static bool
reduce_twice(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct collective_options options = { .op = REDUCE_MAX, .algorithm = "its own" };
    struct tensor            *tensor  = numbers(me, 2, 0, 1);
    bool done = group_all_reduce_now(me, group, tensor, &options) && group_all_reduce_now(me, group, tensor, &options);
    return expect(me, ranks, done, "the back-end gets what was asked for");
}

static void
a_group_calls_what_stands_in_its_back_ends_table(void **state)
{
    (void)state;
    struct counting counting = { .opened = 0 };
    struct ranks    ranks    = { .size = 1, .body = reduce_twice };
    run_counting(&ranks, &counting);
    assert_no_errors(&ranks);
    assert_int_equal(counting.opened, 1);
    assert_int_equal(counting.accepted, 2);
    assert_int_equal(counting.reduced, 2);
    assert_int_equal(counting.woken, 1);     /* the rank's end */
    assert_int_equal(counting.connected, counting.opened);
    assert_int_equal(counting.met, counting.opened);
    assert_int_equal(counting.disconnected, 1);
    assert_int_equal(counting.closed, 1);
    assert_int_equal(count_events(&ranks, "c10d.issue"), 2);
    assert_int_equal(count_events(&ranks, "comm.hop"), 0);
    ranks_free(&ranks);
}

static bool
refused_and_failed(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct tensor *tensor = numbers(me, 2, 0, 1);
    if (!expect(me, ranks, group_broadcast(me, group, tensor, 0) == NULL && me->error.kind == E_RUNTIME, "refused"))
        return false;
    task_clear_error(me);
    struct work *work = group_all_reduce(me, group, tensor, NULL);
    bool first = work != NULL && work_sequence(work) == 0;
    bool fails = work != NULL && !work_wait(me, work) && strcmp(me->error.message, "the wire is cut") == 0;
    task_clear_error(me);
    work_free(me, work);
    bool later = group_barrier(me, group) == NULL && me->error.kind == E_RUNTIME &&
                 strstr(me->error.message, "rank 0 failed in all_reduce #0: the wire is cut") != NULL;
    task_clear_error(me);
    return expect(me, ranks, first, "what was refused took no number") &&
           expect(me, ranks, fails && later, "a failure is told to who waits, and ends what comes later");
}

static void
what_the_back_end_refuses_is_not_numbered_and_what_fails_is_told(void **state)
{
    (void)state;
    struct counting counting = { .fails = true };
    struct ranks    ranks    = { .size = 1, .body = refused_and_failed };
    run_counting(&ranks, &counting);
    assert_no_errors(&ranks);
    assert_int_equal(counting.reduced, 1);
    assert_int_equal(counting.woken, 2);     /* the failure, the rank's end */
    ranks_free(&ranks);
}

static bool
fail_apart(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct tensor *tensor = numbers(me, 2, 0, 1);
    struct work   *works[2] = { group_all_reduce(me, group, tensor, NULL), NULL };
    works[1] = group_all_reduce(me, group, tensor, NULL);
    sched_advance(me, cost_us(1000));
    for (int i = 0; i < 2; i++)
        work_free(me, works[i]);
    bool refused = works[1] != NULL && group_barrier(me, group) == NULL &&
                   strcmp(me->error.message, "rank 0 failed in all_reduce #1: wire 0 is cut") == 0;
    if (!expect(me, ranks, refused, "all are told of the failure that came first"))
        return false;
    task_clear_error(me);
    return true;
}

static void
the_first_failure_is_the_one_that_is_told(void **state)
{
    (void)state;
    struct counting counting = { .fails_apart = true };
    struct ranks    ranks    = { .size = 2, .body = fail_apart };
    run_counting(&ranks, &counting);
    assert_no_errors(&ranks);
    ranks_free(&ranks);
}

static bool
wait_behind_its_end(struct task *me, struct process_group *group, struct ranks *ranks)
{
    uint64_t     start = sched_now(me);
    struct work *work  = group_barrier(me, group);
    sched_advance(me, cost_us(1));
    bool done = work != NULL && work_done(me, work) && work_wait(me, work) && sched_now(me) == start + cost_us(50);
    work_free(me, work);
    if (!expect(me, ranks, done, "the host goes on when the work has ended"))
        return false;
    work = group_barrier(me, group);
    sched_advance(me, cost_us(80));
    done = work != NULL && work_wait(me, work) && sched_now(me) == start + cost_us(130);
    work_free(me, work);
    return expect(me, ranks, done, "who comes later waits no longer");
}

static void
a_wait_ends_when_the_work_does(void **state)
{
    (void)state;
    struct counting counting = { .ahead_ps = cost_us(50) };
    struct ranks    ranks    = { .size = 1, .body = wait_behind_its_end, .free_costs = true };
    run_counting(&ranks, &counting);
    assert_no_errors(&ranks);
    ranks_free(&ranks);
}

/* ---- point to point ---- */

static bool
post_each_way(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct tensor *tensor = numbers(me, 2, 0, 1);
    int            peer = 1 - me->rank;
    struct work   *work = group_isend(me, group, tensor, peer, 2);
    bool           done = work != NULL && work_wait(me, work);
    work_free(me, work);
    done = done && group_send(me, group, tensor, peer, 0) && group_recv(me, group, tensor, peer, 1);
    if (!expect(me, ranks, done && !group_send(me, group, tensor, peer, 13), "its answers are the caller's"))
        return false;
    task_clear_error(me);
    return true;
}

static void
each_post_is_followed_by_one_send_or_recv(void **state)
{
    (void)state;
    struct counting counting = { .opened = 0 };
    struct ranks    ranks    = { .size = 2, .body = post_each_way };
    run_counting(&ranks, &counting);
    assert_no_errors(&ranks);
    assert_int_equal(counting.opened, 2);
    assert_int_equal(counting.posted, 8);
    assert_int_equal(counting.moved, 6);
    assert_int_equal(counting.withdrawn, 0);
    ranks_free(&ranks);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_calls_what_stands_in_its_back_ends_table),
        cmocka_unit_test(what_the_back_end_refuses_is_not_numbered_and_what_fails_is_told),
        cmocka_unit_test(a_wait_ends_when_the_work_does),
        cmocka_unit_test(each_post_is_followed_by_one_send_or_recv),
        cmocka_unit_test(the_first_failure_is_the_one_that_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
