/* The story's fold: who comes to a round and when it is over, faults, what repeats; and that a trace that is read as it
 * grows has the stops of one that is read at once. */
#include "story_rig.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/rng.h"

/* ---- rounds ---- */

static void
a_round_is_one_stop_at_the_last_begin_of_an_act_and_the_last_end_of_a_scene(void **state)
{
    (void)state;
    struct rig rig = rig_new(3);
    size_t met = spawn(&rig);
    begin(&rig, 0, KIND_ddp_forward, NONE);
    begin(&rig, 0, KIND_ddp_sync_buffers, NONE);
    begin(&rig, 1, KIND_ddp_forward, NONE);
    begin(&rig, 1, KIND_ddp_sync_buffers, NONE);
    end(&rig, 1, KIND_ddp_sync_buffers, ARGS(3, 16));
    size_t act = begin(&rig, 2, KIND_ddp_forward, NONE);
    begin(&rig, 2, KIND_ddp_sync_buffers, NONE);
    end(&rig, 2, KIND_ddp_sync_buffers, ARGS(3, 16));
    size_t last = end(&rig, 0, KIND_ddp_sync_buffers, ARGS(3, 16));
    STOPS(&rig, met, act, last);
    assert_sentence(&rig, act, "DDP's forward begins on r0 to r2, iteration 0.");
    rig_free(&rig);
}

static void
a_bucket_that_is_full_stops_at_its_begin(void **state)
{
    (void)state;
    struct rig rig = rig_new(2);
    size_t met = spawn(&rig), act = 0, full[2] = { 0 };
    for (int rank = 0; rank < 2; rank++)
        act = begin(&rig, rank, KIND_autograd_backward, NONE);
    for (int bucket = 0; bucket < 2; bucket++)
        for (int rank = 0; rank < 2; rank++) {
            full[bucket] = begin(&rig, rank, KIND_ddp_mark_bucket_ready, ARGS(bucket, bucket));
            scene(&rig, rank, KIND_ddp_all_reduce_bucket, NONE);
            end(&rig, rank, KIND_ddp_mark_bucket_ready, NONE);
        }
    STOPS(&rig, met, act, full[0], full[1]);
    rig_free(&rig);
}

static void
points_and_quiet_kinds_are_no_stops(void **state)
{
    (void)state;
    struct rig rig = rig_new(1);
    size_t met = spawn(&rig), act = begin(&rig, 0, KIND_ddp_forward, NONE);
    point(&rig, 0, KIND_memory_alloc, NONE);
    scene(&rig, 0, KIND_op, NONE);
    scene(&rig, 0, KIND_module_forward, NONE);
    begin(&rig, 0, KIND_lock_hold, NONE);
    size_t done = scene(&rig, 0, KIND_ddp_sync_buffers, NONE);
    end(&rig, 0, KIND_lock_hold, NONE);
    STOPS(&rig, met, act, done);
    rig_free(&rig);
}

static void
who_has_ended_is_not_waited_for(void **state)
{
    (void)state;
    struct rig rig = rig_new(3);
    size_t met = spawn(&rig);
    begin(&rig, 0, KIND_ddp_forward, NONE);
    size_t act = begin(&rig, 1, KIND_ddp_forward, NONE);
    point(&rig, 2, KIND_task_end, NONE);
    begin(&rig, 0, KIND_ddp_sync_buffers, NONE);
    begin(&rig, 1, KIND_ddp_sync_buffers, NONE);
    end(&rig, 0, KIND_ddp_sync_buffers, NONE);
    size_t done = end(&rig, 1, KIND_ddp_sync_buffers, NONE);
    assert_settled(&rig, rig.count); /* also of what began once it had ended */
    STOPS(&rig, met, act, done);
    rig_free(&rig);
}

static void
who_begins_a_later_act_or_leaves_the_one_around_counts_as_come(void **state)
{
    (void)state;
    struct rig rig = rig_new(2);
    size_t met = spawn(&rig), act = 0, step = 0;
    for (int rank = 0; rank < 2; rank++)
        act = begin(&rig, rank, KIND_ddp_forward, NONE);
    size_t alone = scene(&rig, 0, KIND_ddp_sync_buffers, NONE);
    assert_settled(&rig, alone);
    end(&rig, 1, KIND_ddp_forward, NONE);
    assert_settled(&rig, rig.count);
    size_t own = begin(&rig, 0, KIND_ddp_init, NONE);
    end(&rig, 0, KIND_ddp_init, NONE);
    end(&rig, 0, KIND_ddp_forward, NONE);
    for (int rank = 1; rank >= 0; rank--) {
        step = begin(&rig, rank, KIND_optim_step, NONE);
        assert_settled(&rig, rank == 1 ? step : rig.count);
    }
    STOPS(&rig, met, act, alone, own, step);
    rig_free(&rig);
}

static void
who_comes_late_is_told_in_a_round_of_its_own(void **state)
{
    (void)state;
    struct rig rig = rig_new(3);
    size_t met = spawn(&rig);
    begin(&rig, 0, KIND_ddp_init, NONE);
    size_t init = begin(&rig, 1, KIND_ddp_init, NONE);
    begin(&rig, 2, KIND_ddp_forward, NONE);    /* not by way of the constructor, so far */
    begin(&rig, 0, KIND_ddp_forward, NONE);
    size_t act = begin(&rig, 1, KIND_ddp_forward, NONE);
    size_t late = begin(&rig, 2, KIND_ddp_init, NONE);
    assert_settled(&rig, rig.count); /* the others have been there */
    STOPS(&rig, met, init, act, late);
    assert_sentence(&rig, late, "DDP's constructor begins on r2: 0 ranks, buckets up to 0 B.");
    rig_free(&rig);
}

/* r1's bucket 0 is over on its comm lane before its main lane fills bucket 1, which r0 has filled long ago. */
static void
what_a_rank_does_on_one_lane_does_not_hurry_another(void **state)
{
    (void)state;
    struct rig rig = rig_new(2);
    size_t met = spawn(&rig), act = 0, over = 0, full[2] = { 0 };
    for (int rank = 0; rank < 2; rank++)
        act = begin(&rig, rank, KIND_autograd_backward, NONE);
    for (int rank = 0; rank < 2; rank++)
        for (int bucket = 0; bucket < 2 - rank; bucket++) {
            full[bucket] = begin(&rig, rank, KIND_ddp_mark_bucket_ready, ARGS(bucket, bucket));
            issue(&rig, rank, "all_reduce");
            end(&rig, rank, KIND_ddp_mark_bucket_ready, NONE);
        }
    for (int rank = 0; rank < 2; rank++)
        on_comm(&rig, rank, PHASE_BEGIN, KIND_c10d_allreduce, ARGS(0, 8, 2, 2));
    for (int rank = 0; rank < 2; rank++)
        over = on_comm(&rig, rank, PHASE_END, KIND_c10d_allreduce, ARGS(0, 8, 2, 2));
    full[1] = begin(&rig, 1, KIND_ddp_mark_bucket_ready, ARGS(1, 1));
    STOPS(&rig, met, act, full[0], over, full[1]);
    assert_sentence(&rig, full[1], "Bucket 1 is full on r0, r1: its all-reduce starts.");
    rig_free(&rig);
}

/* r1 has done one more before it comes to what r0 does first; then r1 passes by what r0 has done before. */
static void
which_of_two_scenes_is_the_later_one_another_rank_knows(void **state)
{
    (void)state;
    struct rig rig = rig_new(2);
    size_t     met = spawn(&rig), act = 0;
    for (int rank = 0; rank < 2; rank++)
        act = begin(&rig, rank, KIND_ddp_forward, NONE);
    size_t first = scene(&rig, 0, KIND_ddp_sync_buffers, NONE);
    size_t own   = scene(&rig, 1, KIND_ddp_buffer_hook, NONE);
    assert_settled(&rig, first);
    size_t both = scene(&rig, 1, KIND_ddp_sync_buffers, NONE);
    size_t left_out = scene(&rig, 0, KIND_ddp_rebuild_buckets, NONE);
    assert_settled(&rig, own);
    scene(&rig, 0, KIND_ddp_mark_unused, NONE);
    size_t last = scene(&rig, 1, KIND_ddp_mark_unused, NONE);
    STOPS(&rig, met, act, own, both, left_out, last);
    rig_free(&rig);
}

static void
what_lies_in_an_act_that_a_rank_has_passed_does_not_wait_for_it(void **state)
{
    (void)state;
    struct rig rig = rig_new(2);
    size_t     met = spawn(&rig), act = begin(&rig, 0, KIND_ddp_forward, NONE);
    size_t     step = begin(&rig, 1, KIND_optim_step, NONE);
    on_comm(&rig, 0, PHASE_BEGIN, KIND_ddp_sync_buffers, NONE);
    size_t done = on_comm(&rig, 0, PHASE_END, KIND_ddp_sync_buffers, NONE);
    end(&rig, 1, KIND_optim_step, NONE);
    begin(&rig, 0, KIND_optim_step, NONE);
    step = rig.count - 1;
    assert_settled(&rig, done);
    size_t backward = begin(&rig, 1, KIND_autograd_backward, NONE);
    assert_settled(&rig, backward);
    STOPS(&rig, met, act, done, step, backward);
    rig_free(&rig);
}

/* ---- faults, and what is cut ---- */

static void
a_fault_closes_all_rounds_and_is_one_stop_with_its_errors(void **state)
{
    (void)state;
    struct rig rig = rig_new(3);
    size_t met = spawn(&rig);
    begin(&rig, 0, KIND_ddp_forward, NONE);
    size_t act = begin(&rig, 1, KIND_ddp_forward, NONE);
    size_t done = scene(&rig, 1, KIND_ddp_sync_buffers, NONE);
    begin(&rig, 0, KIND_ddp_sync_buffers, NONE);
    size_t fault = point(&rig, 2, KIND_fault_deadlock, ARGS(3, 0));
    point(&rig, 2, KIND_fault_error, NONE);
    end(&rig, 0, KIND_ddp_sync_buffers, NONE);      /* the error leaves the stages */
    end(&rig, 0, KIND_ddp_forward, NONE);
    begin(&rig, 2, KIND_ddp_forward, NONE);         /* it stood before it */
    point(&rig, 0, KIND_fault_error, NONE);
    finish(&rig);
    point(&rig, -1, KIND_fault_error, NONE);
    size_t word = say(&rig, -1, 90);
    size_t other = point(&rig, -1, KIND_fault_error, NONE);
    STOPS(&rig, met, act, done, fault, word, other);
    rig_free(&rig);
}

static void
before_a_rank_that_never_comes_nothing_is_lost(void **state)
{
    (void)state;
    struct rig rig = rig_new(2);
    size_t met = spawn(&rig), acts[4] = { 0 };
    static const enum kind kinds[4] = { KIND_ddp_init, KIND_ddp_forward, KIND_autograd_backward, KIND_optim_step };
    for (int i = 0; i < 4; i++) {
        acts[i] = begin(&rig, 0, kinds[i], NONE);
        end(&rig, 0, kinds[i], NONE);
    }
    size_t fault = point(&rig, 0, KIND_fault_timeout, NONE);
    STOPS(&rig, met, acts[0], acts[1], acts[2], acts[3], fault);
    rig_free(&rig);
}

static void
a_trace_that_was_cut_tells_what_has_happened(void **state)
{
    (void)state;
    struct rig rig = rig_new(2);
    size_t met = spawn(&rig), act = begin(&rig, 0, KIND_ddp_forward, NONE);
    size_t half = scene(&rig, 0, KIND_ddp_sync_buffers, NONE);
    begin(&rig, 0, KIND_ddp_rebuild_buckets, NONE);
    struct story        *story = told(&rig);
    struct story_figures figures;
    assert_stops_of(story, (const size_t[]){ met, act, half }, 3);
    story_figures(story, &figures);
    assert_int_equal(figures.untold, 1);
    story_free(story);
    rig_free(&rig);
}

static void
an_end_without_its_begin_and_a_begin_without_its_end_do_no_harm(void **state)
{
    (void)state;
    struct rig rig = rig_new(1);
    end(&rig, 0, KIND_ddp_forward, NONE);
    end(&rig, 0, KIND_ddp_sync_buffers, NONE);
    size_t met = spawn(&rig), act = begin(&rig, 0, KIND_ddp_forward, NONE);
    begin(&rig, 0, KIND_module_forward, NONE);
    begin(&rig, 0, KIND_op, NONE);
    size_t done = scene(&rig, 0, KIND_ddp_sync_buffers, NONE);
    end(&rig, 0, KIND_ddp_forward, NONE);
    end(&rig, 0, KIND_module_forward, NONE);
    size_t step = begin(&rig, 0, KIND_optim_step, NONE);
    STOPS(&rig, met, act, done, step);
    rig_free(&rig);
}

static void
who_lost_the_end_of_a_scene_does_not_hold_back_the_others(void **state)
{
    (void)state;
    struct rig rig = rig_new(2);
    size_t     met = spawn(&rig), act = 0, done = 0;
    for (int rank = 0; rank < 2; rank++)
        act = begin(&rig, rank, KIND_ddp_forward, NONE);
    begin(&rig, 0, KIND_ddp_sync_buffers, NONE);
    end(&rig, 0, KIND_ddp_forward, NONE);
    done = scene(&rig, 1, KIND_ddp_sync_buffers, NONE);
    end(&rig, 1, KIND_ddp_forward, NONE);
    assert_settled(&rig, rig.count);
    STOPS(&rig, met, act, done);
    rig_free(&rig);
}

/* ---- what repeats ---- */

static void
what_repeats_is_told_once(void **state)
{
    (void)state;
    struct rig  rig = rig_new(2);
    size_t      met = spawn(&rig);
    struct pair first = forward(&rig, 16);
    for (rig.iteration = 1; rig.iteration < 14; rig.iteration++)
        forward(&rig, 16);
    size_t word = say(&rig, 0, 7);
    size_t end_of_it = begin(&rig, 0, KIND_optim_step, NONE);
    STOPS(&rig, met, first.act, first.scene, word, end_of_it);
    assert_again(&rig, word, "");
    assert_again(&rig, end_of_it, "Iterations 1 to 13 ran as iteration 0.");
    rig_free(&rig);
}

/* Forwards with three scenes each, whose first arguments are these. */
struct iteration { size_t act, scenes[3]; };

static struct iteration
forward_of_three(struct rig *rig, int count, const int64_t first[3])
{
    struct iteration at = { .act = begin(rig, 0, KIND_ddp_forward, ARGS(rig->iteration)) };
    for (int i = 0; i < count; i++)
        at.scenes[i] = scene(rig, 0, KIND_ddp_sync_buffers, ARGS(first[i], 8));
    end(rig, 0, KIND_ddp_forward, NONE);
    rig->iteration++;
    return at;
}

static void
from_the_first_other_scene_on_all_are_told(void **state)
{
    (void)state;
    struct rig       rig = rig_new(1);
    size_t           met = spawn(&rig);
    struct iteration first = forward_of_three(&rig, 3, ARGS(1, 2, 3));
    forward_of_three(&rig, 3, ARGS(1, 2, 3));
    struct iteration other = forward_of_three(&rig, 3, ARGS(1, 9, 3));
    struct iteration back = forward_of_three(&rig, 3, ARGS(1, 2, 3));
    STOPS(&rig, met, first.act, first.scenes[0], first.scenes[1], first.scenes[2], other.scenes[1], other.scenes[2],
          back.scenes[1], back.scenes[2]);
    assert_again(&rig, other.scenes[1], "Iteration 1 ran as iteration 0.");
    assert_again(&rig, other.scenes[2], "");
    assert_again(&rig, back.scenes[1], "Iteration 3 runs as iteration 2 up to here.");
    rig_free(&rig);
}

static void
an_act_that_lacks_a_scene_is_told_the_first_time(void **state)
{
    (void)state;
    struct rig       rig = rig_new(1);
    size_t           met = spawn(&rig);
    struct iteration first = forward_of_three(&rig, 2, ARGS(1, 2));
    struct iteration lacks = forward_of_three(&rig, 1, ARGS(1));
    forward_of_three(&rig, 1, ARGS(1));
    struct iteration more = forward_of_three(&rig, 2, ARGS(1, 2));
    forward_of_three(&rig, 1, ARGS(1));
    size_t step = begin(&rig, 0, KIND_optim_step, NONE);
    STOPS(&rig, met, first.act, first.scenes[0], first.scenes[1], lacks.act, more.scenes[1], step);
    assert_again(&rig, step, "Iteration 4 ran as iteration 1.");
    rig_free(&rig);
}

static void
an_act_with_other_ranks_or_arguments_is_told(void **state)
{
    (void)state;
    struct rig rig = rig_new(2);
    size_t     met = spawn(&rig), acts[3];
    for (rig.iteration = 0; rig.iteration < 3; rig.iteration++)
        for (int rank = 0; rank < (rig.iteration < 2 ? 2 : 1); rank++) {
            acts[rig.iteration] = begin(&rig, rank, KIND_optim_step, ARGS(rig.iteration < 1 ? 4 : 5));
            end(&rig, rank, KIND_optim_step, NONE);
        }
    STOPS(&rig, met, acts[0], acts[1], acts[2]);
    rig_free(&rig);
}

static void
iteration_0_is_compared_with_the_spawn_before(void **state)
{
    (void)state;
    struct rig  rig = rig_new(2);
    size_t      met = spawn(&rig);
    struct pair first = forward(&rig, 16);
    rig.iteration = 1;
    forward(&rig, 16);
    finish(&rig);
    size_t again = spawn(&rig);
    forward(&rig, 16);
    finish(&rig);
    size_t      third = spawn(&rig);
    struct pair other = forward(&rig, 24);
    STOPS(&rig, met, first.act, first.scene, again, third, other.scene);
    assert_again(&rig, again, "Iteration 1 ran as iteration 0.");
    assert_again(&rig, third, "");
    rig_free(&rig);
}

static void
what_a_bucket_holds_tells_it_from_that_of_another_iteration(void **state)
{
    (void)state;
    struct rig rig = rig_new(1);
    size_t     met = spawn(&rig), act[4], full[4];
    static const char *const holds[] = { "3 2", "3 2", "2 3", "2 3" };
    for (rig.iteration = 0; rig.iteration < 4; rig.iteration++) {
        point(&rig, 0, KIND_ddp_bucket, ARGS(0, 216, 2, text(&rig, holds[rig.iteration])));
        act[rig.iteration]  = begin(&rig, 0, KIND_autograd_backward, NONE);
        full[rig.iteration] = begin(&rig, 0, KIND_ddp_mark_bucket_ready, ARGS(0, 0));
        end(&rig, 0, KIND_ddp_mark_bucket_ready, NONE);
        end(&rig, 0, KIND_autograd_backward, NONE);
    }
    STOPS(&rig, met, act[0], full[0], full[2]);
    rig_free(&rig);
}

/* ---- as it grows ---- */

/* Whatever order ranks come in, with ends that are lost and ranks that end early. */
static void
make_random(struct rig *rig, uint64_t *random)
{
    static const enum kind kinds[] = { KIND_ddp_forward, KIND_autograd_backward, KIND_ddp_sync_buffers,
                                       KIND_ddp_mark_bucket_ready, KIND_module_forward, KIND_optim_step,
                                       KIND_c10d_wait, KIND_comm_hop };
    spawn(rig);
    for (int i = 0; i < 400; i++) {
        int       rank = (int)(splitmix(random) % (unsigned)rig->world), what = (int)(splitmix(random) % 100);
        enum kind kind = kinds[splitmix(random) % 8];
        int       lane = splitmix(random) % 4 == 0 ? comm_of(rank) : main_of(rank);
        rig->iteration = (uint32_t)(i / 60);
        if (what < 2)
            say(rig, rank, (uint32_t)splitmix(random) % 5);
        else if (what == 2)
            point(rig, rank, splitmix(random) % 2 ? KIND_fault_error : KIND_task_end, NONE);
        else if (what == 3)
            issue(rig, rank, "all_reduce");
        else if (what == 4)
            on_comm(rig, rank, PHASE_BEGIN, KIND_c10d_allreduce, ARGS(rig->issued[rank] - 1, 8, 2, rig->world));
        else
            emit(rig, lane, rank, what % 2 ? PHASE_BEGIN : PHASE_END, kind, ARGS((int64_t)(splitmix(random) % 2)));
    }
    if (splitmix(random) % 2)
        finish(rig);
}

static void
assert_same_stop(const struct story *story, const struct story *other, size_t index)
{
    const struct story_stop *a = story_at(story, index), *b = story_at(other, index);
    assert_true(a != NULL && b != NULL);
    assert_int_equal(a->at, b->at);
    assert_int_equal(a->first, b->first);
}

/* Event by event: what is settled never changes, and at the end it is what a reader of all at once has. */
static void
assert_grows_alike(struct trace *trace)
{
    struct story *whole = story_new(trace), *grows = story_new(trace);
    size_t        count = trace_count(trace), checked = 0;
    assert_true(story_read(whole, count) && story_close(whole));
    for (size_t seen = 1; seen <= count; seen++) {
        assert_true(story_read(grows, seen));
        size_t settled = story_index(grows, story_settled(grows));
        assert_true(settled >= checked);
        for (; checked < settled; checked++)
            assert_same_stop(grows, whole, checked);
    }
    assert_true(story_close(grows));
    assert_int_equal(story_count(grows), story_count(whole));
    for (size_t i = 0; i < story_count(whole); i++) {
        assert_same_stop(grows, whole, i);
        assert_true(i == 0 || story_at(whole, i)->at > story_at(whole, i - 1)->at); /* none twice */
        assert_int_equal(story_index(whole, story_at(whole, i)->at), i);
    }
    story_free(whole);
    story_free(grows);
}

static void
a_trace_that_grows_has_the_stops_of_one_that_is_read_at_once(void **state)
{
    (void)state;
    uint64_t random = 29;
    for (int round = 0; round < 60; round++) {
        struct rig rig = rig_new(1 + (int)(splitmix(&random) % 5));
        make_random(&rig, &random);
        look(&rig);
        assert_grows_alike(rig.trace);
        rig_free(&rig);
    }
}

/* Lessons as they are: DataParallel, collectives, buckets, overlap, unused parameters, join, and what goes wrong. */
static void
so_has_the_trace_of_a_lesson(void **state)
{
    (void)state;
    static const char *const lessons[] = { "04", "11", "15", "16", "19", "24" };
    const char *build = getenv("RINGSIDE_OUT");
    char        folder[] = "/tmp/ringside-story-XXXXXX", path[100], command[400], why[200];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.trace", folder);
    for (size_t i = 0; i < sizeof lessons / sizeof *lessons; i++) {
        snprintf(command, sizeof command, "%s/ringside run --quiet --trace %s %s >/dev/null 2>&1",
                 build != NULL ? build : "build/release", path, lessons[i]);
        assert_int_equal(system(command), 0);
        struct trace *trace = trace_open(path, why, sizeof why);
        assert_non_null(trace);
        assert_grows_alike(trace);
        trace_release(trace);
    }
    assert_int_equal(remove(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void
what_comes_behind_the_end_of_a_story_begins_it_anew(void **state)
{
    (void)state;
    struct rig rig = rig_new(2);
    size_t     met = spawn(&rig);
    begin(&rig, 0, KIND_ddp_forward, NONE);
    struct story *story = told(&rig);
    assert_int_equal(story_count(story), 2);
    size_t act = begin(&rig, 1, KIND_ddp_forward, NONE);
    look(&rig);
    assert_int_equal(story_seen(story), 0);
    assert_true(story_read(story, rig.count) && story_close(story));
    assert_stops_of(story, (const size_t[]){ met, act }, 2);
    story_free(story);
    rig_free(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_is_one_stop_at_the_last_begin_of_an_act_and_the_last_end_of_a_scene),
        cmocka_unit_test(a_bucket_that_is_full_stops_at_its_begin),
        cmocka_unit_test(points_and_quiet_kinds_are_no_stops),
        cmocka_unit_test(who_has_ended_is_not_waited_for),
        cmocka_unit_test(who_begins_a_later_act_or_leaves_the_one_around_counts_as_come),
        cmocka_unit_test(who_comes_late_is_told_in_a_round_of_its_own),
        cmocka_unit_test(what_a_rank_does_on_one_lane_does_not_hurry_another),
        cmocka_unit_test(which_of_two_scenes_is_the_later_one_another_rank_knows),
        cmocka_unit_test(what_lies_in_an_act_that_a_rank_has_passed_does_not_wait_for_it),
        cmocka_unit_test(a_fault_closes_all_rounds_and_is_one_stop_with_its_errors),
        cmocka_unit_test(before_a_rank_that_never_comes_nothing_is_lost),
        cmocka_unit_test(a_trace_that_was_cut_tells_what_has_happened),
        cmocka_unit_test(an_end_without_its_begin_and_a_begin_without_its_end_do_no_harm),
        cmocka_unit_test(who_lost_the_end_of_a_scene_does_not_hold_back_the_others),
        cmocka_unit_test(what_repeats_is_told_once),
        cmocka_unit_test(from_the_first_other_scene_on_all_are_told),
        cmocka_unit_test(an_act_that_lacks_a_scene_is_told_the_first_time),
        cmocka_unit_test(an_act_with_other_ranks_or_arguments_is_told),
        cmocka_unit_test(iteration_0_is_compared_with_the_spawn_before),
        cmocka_unit_test(what_a_bucket_holds_tells_it_from_that_of_another_iteration),
        cmocka_unit_test(a_trace_that_grows_has_the_stops_of_one_that_is_read_at_once),
        cmocka_unit_test(so_has_the_trace_of_a_lesson),
        cmocka_unit_test(what_comes_behind_the_end_of_a_story_begins_it_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
