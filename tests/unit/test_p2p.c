/* Point to point: sends and recvs pair up by their tags, take the time that their link takes, and tell both ends what is
 * wrong. */
#include "ranks_rig.h"

#include "tensor/op.h"

/* ---- pairs ---- */

static bool
token_ring(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct tensor *token = numbers(me, 1, 0, 0);
    int            next = (me->rank + 1) % ranks->size, previous = (me->rank + ranks->size - 1) % ranks->size;
    bool           done = token != NULL;
    double         value = 0;
    if (me->rank == 0)
        done = done && tensor_fill(me, token, 1) && group_send(me, group, token, next, 0);
    done = done && group_recv(me, group, token, previous, 0) && tensor_item(me, token, &value);
    if (me->rank != 0)
        done = done && tensor_fill(me, token, value + 1) && group_send(me, group, token, next, 0);
    return expect(me, ranks, done && value == (me->rank == 0 ? ranks->size : me->rank), "the token is counted on");
}

static void
a_token_goes_round(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 3, .body = token_ring, .late_rank = 2, .late_us = 500 };
        ranks_run(&ranks, (enum executor_kind)executor);
        assert_no_errors(&ranks);
        size_t send = next_match(&ranks, "c10d.send and rank = 0", 0);
        assert_true(send != SIZE_MAX);
        size_t received = trace_flow_end(ranks.trace, send);
        assert_true(received != SIZE_MAX);
        assert_int_equal(trace_event(ranks.trace, received)->rank, 1);
        if (ranks.stepped)
            for (int rank = 0; rank < 2; rank++)
                assert_true(duration_of(&ranks, rank == 0 ? "c10d.rendezvous and rank = 0"
                                                          : "c10d.rendezvous and rank = 1") >= cost_us(500));
        ranks_free(&ranks);
    }
}

static bool
all_send_first(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct tensor *token = numbers(me, 1, 0, 0);
    return group_send(me, group, token, (me->rank + 1) % ranks->size, 0) &&
           group_recv(me, group, token, (me->rank + ranks->size - 1) % ranks->size, 0);
}

static void
when_all_send_first_the_deadlock_names_them(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 3, .body = all_send_first };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    for (int rank = 0; rank < 3; rank++) {
        assert_int_equal(ranks.error[rank].kind, E_DEADLOCK);
        assert_non_null(strstr(ranks.error[rank].message, "crossed sends"));
        assert_non_null(strstr(ranks.error[rank].message, "0 -> 1 -> 2 -> 0"));
    }
    ranks_free(&ranks);
}

static bool
crossed_tags(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct tensor *a = numbers(me, 2, me->rank == 0 ? 1 : 0, 0), *b = numbers(me, 2, me->rank == 0 ? 2 : 0, 0);
    struct work   *works[2];
    if (me->rank == 0) {
        works[0] = group_isend(me, group, a, 1, 7);
        works[1] = group_isend(me, group, b, 1, 8);
    } else {
        works[0] = group_irecv(me, group, b, 0, 8);
        works[1] = group_irecv(me, group, a, 0, 7);
    }
    bool done = works[0] != NULL && works[1] != NULL && work_wait(me, works[1]) && work_wait(me, works[0]);
    for (int i = 0; i < 2; i++)
        work_free(me, works[i]);
    return expect(me, ranks, done && holds(me, a, 2, 1, 0) && holds(me, b, 2, 2, 0), "tags pair them up");
}

static void
messages_pair_up_by_their_tags(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 2, .body = crossed_tags };
        ranks_run(&ranks, (enum executor_kind)executor);
        assert_no_errors(&ranks);
        ranks_free(&ranks);
    }
}

/* Both wait for a tag that the other does not send; then they agree. */
static bool
give_up_and_agree(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct tensor *lost = numbers(me, 1, 0, 0), *token = numbers(me, 1, me->rank == 1 ? 7 : 0, 0);
    struct work   *work  = group_irecv(me, group, lost, 1 - me->rank, me->rank);
    bool           stuck = work != NULL && !work_wait(me, work) && me->error.kind == E_DEADLOCK;
    task_clear_error(me);
    work_free(me, work);
    bool moved = me->rank == 1 ? group_send(me, group, token, 0, 0) : group_recv(me, group, token, 1, 0);
    return expect(me, ranks, stuck, "neither comes") &&
           expect(me, ranks, moved && holds(me, token, 1, 7, 0), "who gave up does not stand in the line any more");
}

static void
a_receiver_that_gave_up_takes_no_message(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 2, .body = give_up_and_agree };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    ranks_free(&ranks);
}

static bool
wrong_size(struct task *me, struct process_group *group, struct ranks *ranks)
{
    (void)ranks;
    struct tensor *tensor = numbers(me, 4 + me->rank, 0, 0);
    return me->rank == 0 ? group_send(me, group, tensor, 1, 0) : group_recv(me, group, tensor, 0, 0);
}

static void
a_message_of_another_size_is_an_error_on_both_sides(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 2, .body = wrong_size };
        ranks_run(&ranks, (enum executor_kind)executor);
        for (int rank = 0; rank < 2; rank++) {
            assert_int_equal(ranks.error[rank].kind, E_MISMATCH);
            assert_string_equal(ranks.error[rank].message, "rank 0 sends float32 [4] (line 100) where rank 1 receives "
                                                           "float32 [5] (line 101)");
        }
        ranks_free(&ranks);
    }
}

static bool
peer_gone(struct task *me, struct process_group *group, struct ranks *ranks)
{
    (void)ranks;
    return me->rank == 1 || group_recv(me, group, numbers(me, 1, 0, 0), 1, 0);
}

static void
a_receiver_learns_that_its_peer_has_ended(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 2, .body = peer_gone };
        ranks_run(&ranks, (enum executor_kind)executor);
        assert_int_equal(ranks.error[0].kind, E_DEADLOCK);
        assert_non_null(strstr(ranks.error[0].message,
                               "rank 0 waits in recv from rank 1"));
        ranks_free(&ranks);
    }
}

/* ---- any source ---- */

/* Rank 2 posts first, then rank 1, then rank 2 once more; rank 0 takes the second of rank 2 by name, the others as they
 * come. */
static bool
sends_in_order(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct tensor *first = numbers(me, 1, 10 * me->rank, 0), *second = numbers(me, 1, 10 * me->rank + 1, 0);
    struct work   *works[2] = { 0 };
    bool           done = true;
    if (me->rank != 0) {
        sched_advance(me, cost_us(me->rank == 2 ? 100 : 200));
        works[0] = group_isend(me, group, first, 0, 5);
        sched_advance(me, cost_us(me->rank == 2 ? 200 : 0));
        works[1] = me->rank == 2 ? group_isend(me, group, second, 0, 5) : NULL;
        done = works[0] != NULL && work_wait(me, works[0]) && (works[1] == NULL || work_wait(me, works[1]));
    } else {
        struct tensor *got[3] = { numbers(me, 1, 0, 0), numbers(me, 1, 0, 0), numbers(me, 1, 0, 0) };
        sched_advance(me, cost_us(500));
        works[0] = group_irecv(me, group, got[0], ANY_SOURCE, 5);
        done     = works[0] != NULL && group_recv(me, group, got[1], 2, 5) && work_wait(me, works[0]) &&
                   work_source_rank(me, works[0]) == 2 && group_recv_any(me, group, got[2], 5) == 1 &&
                   holds(me, got[0], 1, 20, 0) && holds(me, got[1], 1, 21, 0) && holds(me, got[2], 1, 10, 0);
    }
    for (int i = 0; i < 2; i++)
        work_free(me, works[i]);
    return expect(me, ranks, done, "the first that was posted comes first");
}

static void
any_source_takes_them_in_the_order_of_posting(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 3, .body = sends_in_order };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    assert_int_equal(count_events(&ranks, "c10d.recv and rank = 0 and phase = end and peer = 2"), 2);
    ranks_free(&ranks);
}

/* ---- in a collective of one's own ---- */

/* A message of the rank's own, on the same way and with the same tag, is posted first and taken last. */
struct talk { struct ranks *ranks; struct process_group *group; };

static bool
send_my_number(struct task *me, void *context, struct tensor *tensor, enum reduce_op op)
{
    struct process_group *group  = ((struct talk *)context)->group;
    struct tensor        *theirs = numbers(me, 4, 0, 0);
    (void)op;
    bool done = me->rank == 0 ? group_send(me, group, tensor, 1, 0) && group_recv(me, group, theirs, 1, 0)
                              : group_recv(me, group, theirs, 0, 0) && group_send(me, group, tensor, 0, 0);
    return expect(me, ((struct talk *)context)->ranks, done && holds(me, theirs, 4, 2 - me->rank, 0),
                  "the algorithm gets its own message");
}

static bool
talk_meanwhile(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct talk               talk    = { ranks, group };
    struct custom_algorithm   custom  = { .run = send_my_number, .context = &talk, .name = "mine" };
    struct collective_options options = { .custom = &custom };
    struct tensor *tensor = numbers(me, 4, 1 + me->rank, 0), *mine = numbers(me, 4, 10 + me->rank, 0);
    struct work   *message = me->rank == 0 ? group_isend(me, group, mine, 1, 0) : NULL;
    bool           done    = work_complete(me, group_all_reduce(me, group, tensor, &options));
    done = done && (me->rank == 0 ? work_complete(me, message) : group_recv(me, group, mine, 0, 0));
    return expect(me, ranks, done && holds(me, mine, 4, 10, 0), "and so does the rank");
}

static void
messages_of_an_algorithm_meet_no_others(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 2, .body = talk_meanwhile };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    ranks_free(&ranks);
}

/* ---- many, and to oneself ---- */

enum { MANY = 1000 };

static bool
thousand(struct task *me, struct process_group *group, struct ranks *ranks)
{
    static struct work *works[2][MANY];
    struct work **mine = works[me->rank];
    bool          done = true;
    for (int i = 0; i < MANY && done; i++) {
        int tag = me->rank == 0 ? i : MANY - 1 - i;
        mine[i] = me->rank == 0 ? group_isend(me, group, numbers(me, 1, tag, 0), 1, tag)
                                : group_irecv(me, group, numbers(me, 1, 0, 0), 0, tag);
        done    = mine[i] != NULL;
    }
    for (int i = 0; i < MANY; i++) {
        done = done && work_wait(me, mine[i]);
        work_free(me, mine[i]);
    }
    return expect(me, ranks, done, "all arrive");
}

static void
a_thousand_are_in_flight_at_once(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 2, .body = thousand };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    assert_int_equal(count_events(&ranks, "comm.hop and rank = 0 and phase = begin"), MANY);
    ranks_free(&ranks);
}

static bool
to_oneself(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct tensor *from = numbers(me, 4, me->rank, 1), *to = numbers(me, 4, 0, 0);
    struct p2p_op  ops[2] = { { true, from, me->rank, 3 }, { false, to, me->rank, 3 } };
    struct work   *works[2] = { 0 };
    bool           done = group_batch_isend_irecv(me, group, ops, 2, works);
    for (int i = 0; i < 2; i++) {
        done = done && work_wait(me, works[i]);
        work_free(me, works[i]);
    }
    return expect(me, ranks, done && holds(me, to, 4, me->rank, 1), "a batch sends to oneself");
}

static void
a_batch_may_send_to_oneself_without_a_hop(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 2, .body = to_oneself };
        ranks_run(&ranks, (enum executor_kind)executor);
        assert_no_errors(&ranks);
        assert_int_equal(count_events(&ranks, "comm.hop"), 0);
        ranks_free(&ranks);
    }
}

/* Nobody waits for them; the receiver takes them much later. */
static bool
dropped(struct task *me, struct process_group *group, struct ranks *ranks)
{
    struct tensor *tensor = numbers(me, 1, 7, 0), *got = numbers(me, 1, 0, 0);
    bool           done   = true;
    for (int i = 0; i < 3 && me->rank == 0; i++) {
        struct work *work = group_isend(me, group, tensor, 1, i);
        done = done && work != NULL;
        work_free(me, work);
    }
    if (me->rank == 0)
        return expect(me, ranks, done && group_barrier_now(me, group), "letting a work go waits for nobody");
    done = group_barrier_now(me, group);
    for (int i = 2; i >= 0; i--)
        done = done && group_recv(me, group, got, 0, i) && holds(me, got, 1, 7, 0);
    return expect(me, ranks, done, "and what was sent arrives");
}

static void
isends_that_nobody_waits_for_go_on(void **state)
{
    (void)state;
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct ranks ranks = { .size = 2, .body = dropped };
        ranks_run(&ranks, (enum executor_kind)executor);
        assert_no_errors(&ranks);
        ranks_free(&ranks);
    }
}

/* ---- the time that they take ---- */

enum { MEGABYTE = 1 << 20 };

/* Three isends at one moment: two on the link to rank 1, one on that to rank 2. */
static bool
send_megabytes(struct task *me, struct process_group *group, struct ranks *ranks)
{
    int64_t       count = MEGABYTE / 4;
    uint64_t      start = sched_now(me), price = cost_copy(&ranks->cost, MEGABYTE);
    struct work  *works[3] = { 0 };
    int           used = me->rank == 0 ? 3 : me->rank == 1 ? 2 : 1;
    bool          done = true;
    for (int i = 0; i < used; i++) {
        struct tensor *tensor = tensor_zeros(me, DTYPE_F32, DEVICE_CPU, 1, &count);
        if (me->rank == 0)
            works[i] = group_isend(me, group, tensor, i < 2 ? 1 : 2, i);
        else
            works[i] = group_irecv(me, group, tensor, 0, me->rank == 1 ? i : 2);
        done = done && works[i] != NULL;
    }
    for (int i = 0; i < used; i++) {
        uint64_t end = start + (i == 0 ? price : 2 * price);
        done = done && work_wait(me, works[i]) && sched_now(me) == end;
        work_free(me, works[i]);
    }
    return expect(me, ranks, done, "the first has ended after its price, the second after twice as long");
}

static void
two_messages_on_one_link_go_one_after_the_other(void **state)
{
    (void)state;
    struct ranks ranks = { .size = 3, .body = send_megabytes, .free_costs = true };
    ranks_run(&ranks, EXECUTOR_STEPPED);
    assert_no_errors(&ranks);
    uint64_t price = cost_copy(&ranks.cost, MEGABYTE);
    assert_true(price > cost_us(100));
    assert_int_equal(duration_of(&ranks, "c10d.recv and rank = 2"), price);   /* a link of its own */
    ranks_free(&ranks);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_goes_round),
        cmocka_unit_test(when_all_send_first_the_deadlock_names_them),
        cmocka_unit_test(messages_pair_up_by_their_tags),
        cmocka_unit_test(a_message_of_another_size_is_an_error_on_both_sides),
        cmocka_unit_test(a_receiver_learns_that_its_peer_has_ended),
        cmocka_unit_test(two_messages_on_one_link_go_one_after_the_other),
        cmocka_unit_test(a_receiver_that_gave_up_takes_no_message),
        cmocka_unit_test(any_source_takes_them_in_the_order_of_posting),
        cmocka_unit_test(messages_of_an_algorithm_meet_no_others),
        cmocka_unit_test(a_thousand_are_in_flight_at_once),
        cmocka_unit_test(a_batch_may_send_to_oneself_without_a_hop),
        cmocka_unit_test(isends_that_nobody_waits_for_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
