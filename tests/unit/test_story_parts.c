/* The story's fold: which kinds are acts, scenes, words or details: collectives, words, the dial, many ranks. */
#include "story_rig.h"

/* ---- collectives ---- */

struct call { size_t act, steps[2]; };

/* By all ranks, on their comm lanes, with two messages. */
static struct call
call(struct rig *rig, enum kind kind, const char *operation, const char *algorithm)
{
    struct call at = { 0 };
    for (int rank = 0; rank < rig->world; rank++)
        issue(rig, rank, operation);
    for (int rank = 0; rank < rig->world; rank++) {
        at.act = on_comm(rig, rank, PHASE_BEGIN, kind, ARGS(rig->issued[rank] - 1, 8, 2, rig->world));
        if (algorithm != NULL)
            on_comm(rig, rank, PHASE_INSTANT, KIND_c10d_algorithm, ARGS(text(rig, algorithm), 2, 1, 2));
    }
    for (int i = 0; i < 2; i++)
        for (int rank = 0; rank < rig->world; rank++) {
            on_comm(rig, rank, PHASE_BEGIN, KIND_comm_hop, ARGS(i, 4, 1 - rank, 1));
            at.steps[i] = on_comm(rig, rank, PHASE_END, KIND_comm_hop, ARGS(i, 4, 1 - rank, 1));
        }
    for (int rank = 0; rank < rig->world; rank++)
        on_comm(rig, rank, PHASE_END, kind, NONE);
    return at;
}

static void
a_collective_of_the_lesson_is_an_act_with_steps_for_the_first_of_an_algorithm(void **state)
{
    (void)state;
    struct rig  rig = rig_new(2);
    size_t      met = spawn(&rig);
    struct call ring = call(&rig, KIND_c10d_allreduce, "all_reduce", "ring");
    struct call later = call(&rig, KIND_c10d_allreduce, "all_reduce", "ring");
    struct call tree = call(&rig, KIND_c10d_allreduce, "all_reduce", "tree");
    struct call cast = call(&rig, KIND_c10d_broadcast, "broadcast", NULL);
    struct call cast_again = call(&rig, KIND_c10d_broadcast, "broadcast", NULL);
    STOPS(&rig, met, ring.act, ring.steps[0], ring.steps[1], later.act, tree.act, tree.steps[0], tree.steps[1],
          cast.act, cast.steps[0], cast.steps[1], cast_again.act);
    rig_free(&rig);
}

static void
a_collective_inside_of_ddp_is_a_detail_but_a_bucket_s_all_reduce_a_scene(void **state)
{
    (void)state;
    struct rig rig = rig_new(2);
    size_t     met = spawn(&rig), act = 0, cast = 0, full = 0, over = 0;
    for (int rank = 0; rank < 2; rank++)
        begin(&rig, rank, KIND_ddp_sync_module_states, NONE);
    call(&rig, KIND_c10d_broadcast, "broadcast", NULL);
    for (int rank = 0; rank < 2; rank++)
        cast = end(&rig, rank, KIND_ddp_sync_module_states, NONE);
    for (int rank = 0; rank < 2; rank++)
        act = begin(&rig, rank, KIND_autograd_backward, NONE);
    for (int rank = 0; rank < 2; rank++)
        full = begin(&rig, rank, KIND_ddp_mark_bucket_ready, ARGS(0, 0));
    call(&rig, KIND_c10d_allreduce, "all_reduce", "ring");
    over = rig.count - 1;
    STOPS(&rig, met, cast, act, full, over);
    assert_sentence(&rig, over, "Bucket 0's all-reduce is over: 0 B, summed over 0 ranks.");
    rig_free(&rig);
}

static void
of_a_group_only_its_members_are_waited_for(void **state)
{
    (void)state;
    struct rig rig = rig_new(4);
    size_t     met = spawn(&rig), act = 0;
    begin(&rig, 2, KIND_ddp_forward, NONE);
    begin(&rig, 3, KIND_ddp_forward, NONE);
    for (int rank = 0; rank < 2; rank++)
        issue(&rig, rank, "all_reduce");
    on_comm(&rig, 0, PHASE_BEGIN, KIND_c10d_allreduce, ARGS(0, 8, 2, 2));
    begin(&rig, 2, KIND_optim_step, NONE);
    begin(&rig, 3, KIND_optim_step, NONE);
    act = on_comm(&rig, 1, PHASE_BEGIN, KIND_c10d_allreduce, ARGS(0, 8, 2, 2));
    look(&rig);
    struct story *story = story_new(rig.trace);
    assert_true(story_read(story, rig.count));
    assert_int_equal(story_at(story, 1)->at, act);
    story_free(story);
    assert_sentence(&rig, act, "all_reduce #0 begins: 8 B on each of 2 ranks.");
    assert_true(met < act);
    rig_free(&rig);
}

/* In free the rank that waits for a call may do it itself. */
static void
a_call_is_one_stop_whichever_lane_does_it(void **state)
{
    (void)state;
    struct rig rig = rig_new(2);
    size_t     met = spawn(&rig);
    for (int rank = 0; rank < 2; rank++)
        issue(&rig, rank, "all_reduce");
    begin(&rig, 0, KIND_c10d_allreduce, ARGS(0, 8, 2, 2));
    size_t act = on_comm(&rig, 1, PHASE_BEGIN, KIND_c10d_allreduce, ARGS(0, 8, 2, 2));
    STOPS(&rig, met, act);
    rig_free(&rig);
}

/* ---- words ---- */

static void
words_of_all_ranks_at_one_line_are_one_stop(void **state)
{
    (void)state;
    struct rig rig = rig_new(3);
    size_t     met = spawn(&rig), first = say(&rig, 0, 10), act = 0;
    begin(&rig, 0, KIND_ddp_forward, NONE);
    for (int rank = 1; rank < 3; rank++) {
        say(&rig, rank, 10);
        act = begin(&rig, rank, KIND_ddp_forward, NONE);
    }
    size_t other = say(&rig, 2, 11);
    size_t question = 0;
    rig.line = 12;
    for (int rank = 0; rank < 3; rank++) {
        size_t at = point(&rig, rank, KIND_lesson_ask, NONE);
        question = rank == 0 ? at : question;
    }
    STOPS(&rig, met, first, act, other, question);
    struct story        *story = told(&rig);
    struct story_figures figures;
    story_figures(story, &figures);
    assert_int_equal(figures.questions, 1);
    story_free(story);
    rig_free(&rig);
}

static void
neighbouring_says_are_one_stop_and_checks_that_hold_part_them(void **state)
{
    (void)state;
    struct rig rig = rig_new(1);
    say(&rig, -1, 1);
    rig.line = 2;
    point(&rig, -1, KIND_memory_alloc, NONE);
    size_t both = say(&rig, -1, 3);
    point(&rig, -1, KIND_lesson_check, ARGS(0, 1));
    size_t behind = say(&rig, -1, 6);
    size_t fails = point(&rig, -1, KIND_lesson_check, ARGS(0, 0));
    size_t third = say(&rig, -1, 4);
    begin(&rig, -1, KIND_task_join, NONE);
    size_t met = spawn(&rig);
    finish(&rig);
    end(&rig, -1, KIND_task_join, NONE);
    size_t fourth = say(&rig, -1, 5);
    STOPS(&rig, both, behind, fails, third, met, fourth);
    rig_free(&rig);
}

/* The ranks' stages do not wait for a lesson's next word. */
static void
a_word_before_a_spawn_is_settled_when_the_ranks_begin(void **state)
{
    (void)state;
    struct rig rig = rig_new(2);
    size_t     word = say(&rig, -1, 1);
    begin(&rig, -1, KIND_task_join, NONE);
    size_t met = spawn(&rig);
    assert_settled(&rig, rig.count);
    STOPS(&rig, word, met);
    rig_free(&rig);
}

/* ---- the dial, DataParallel ---- */

static void
the_dial_lifts_a_detail_and_silences_a_scene(void **state)
{
    (void)state;
    struct rig rig = rig_new(2);
    trace_option(rig.writer, "story:module.forward", "scene");
    trace_option(rig.writer, "story:ddp.sync_buffers", "silent");
    trace_option(rig.writer, "tell:module.forward", "The module ran.");
    size_t      met = spawn(&rig), ran = 0;
    struct pair at = forward(&rig, 16);
    for (int rank = 0; rank < 2; rank++)
        ran = scene(&rig, rank, KIND_module_forward, NONE);
    STOPS(&rig, met, at.act, ran);
    assert_sentence(&rig, ran, "The module ran.");
    rig_free(&rig);
}

static void
workers_of_one_process_that_the_dial_lifts_are_one_stop(void **state)
{
    (void)state;
    struct rig rig = rig_new(0);
    char       name[32];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "dp worker %d", i);
        trace_lane(rig.writer, -1, i, LANE_HOST, name);
    }
    trace_option(rig.writer, "story:dp.worker", "scene");
    trace_option(rig.writer, "story:module.forward", "scene");
    size_t word = say(&rig, -1, 1), act = begin(&rig, -1, KIND_dp_forward, NONE), inside = 0, ran = 0;
    begin(&rig, -1, KIND_dp_parallel_apply, NONE);
    for (int lane = 1; lane < 4; lane++)
        emit(&rig, lane, -1, PHASE_BEGIN, KIND_dp_worker, NONE);
    for (int lane = 1; lane < 4; lane++) {
        emit(&rig, lane, -1, PHASE_BEGIN, KIND_module_forward, NONE);
        inside = emit(&rig, lane, -1, PHASE_END, KIND_module_forward, NONE);
    }
    for (int lane = 1; lane < 4; lane++)
        ran = emit(&rig, lane, -1, PHASE_END, KIND_dp_worker, NONE);
    size_t applied = end(&rig, -1, KIND_dp_parallel_apply, NONE);
    end(&rig, -1, KIND_dp_forward, NONE);
    STOPS(&rig, word, act, inside, ran, applied);
    rig_free(&rig);
}

static void
details_of_a_rank_of_which_nothing_is_told_are_counted(void **state)
{
    (void)state;
    struct rig rig = rig_new(2);
    spawn(&rig);
    scene(&rig, 0, KIND_module_forward, NONE);
    scene(&rig, -1, KIND_module_forward, NONE);
    scene(&rig, -1, KIND_module_forward, NONE);
    struct story        *story = told(&rig);
    struct story_figures figures;
    story_figures(story, &figures);
    assert_int_equal(figures.loose, 2);
    story_free(story);
    begin(&rig, -1, KIND_dp_forward, NONE);
    story = told(&rig);
    story_figures(story, &figures);
    assert_int_equal(figures.loose, 0); /* they led there */
    story_free(story);
    rig_free(&rig);
}

/* ---- many ranks ---- */

static void
members_go_beyond_one_word_of_bits(void **state)
{
    (void)state;
    static const int worlds[] = { 63, 64, 65, 100 };
    for (size_t i = 0; i < 4; i++) {
        char        words[100];
        struct rig  rig = rig_new(worlds[i]);
        size_t      met = spawn(&rig);
        struct pair first = forward(&rig, 16);
        rig.iteration = 1;
        forward(&rig, 16);
        size_t step = 0;
        for (int rank = 0; rank < worlds[i] - 1; rank++)
            step = begin(&rig, rank, KIND_optim_step, NONE);
        point(&rig, worlds[i] - 1, KIND_task_end, NONE);
        STOPS(&rig, met, first.act, first.scene, step);
        snprintf(words, sizeof words, "DDP's forward begins on r0 to r%d, iteration 0.", worlds[i] - 1);
        assert_sentence(&rig, first.act, words);
        rig_free(&rig);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_collective_of_the_lesson_is_an_act_with_steps_for_the_first_of_an_algorithm),
        cmocka_unit_test(a_collective_inside_of_ddp_is_a_detail_but_a_bucket_s_all_reduce_a_scene),
        cmocka_unit_test(of_a_group_only_its_members_are_waited_for),
        cmocka_unit_test(a_call_is_one_stop_whichever_lane_does_it),
        cmocka_unit_test(words_of_all_ranks_at_one_line_are_one_stop),
        cmocka_unit_test(neighbouring_says_are_one_stop_and_checks_that_hold_part_them),
        cmocka_unit_test(a_word_before_a_spawn_is_settled_when_the_ranks_begin),
        cmocka_unit_test(the_dial_lifts_a_detail_and_silences_a_scene),
        cmocka_unit_test(workers_of_one_process_that_the_dial_lifts_are_one_stop),
        cmocka_unit_test(details_of_a_rank_of_which_nothing_is_told_are_counted),
        cmocka_unit_test(members_go_beyond_one_word_of_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
