/* The logger's arithmetic. The numbers are nanoseconds that PyTorch 2.15 has measured, and the means that it printed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/vec.h"
#include "parallel/logger.h"

static struct ddp_logger *
a_logger(void)
{
    struct ddp_logger *logger = logger_new(NULL);
    assert_non_null(logger);
    return logger;
}

static int64_t
number(const struct ddp_logger *logger, const char *name)
{
    struct log_entry found;
    assert_true(logger_find(logger, name, &found));
    assert_string_equal(found.name, name);
    assert_null(found.text);
    return found.number;
}

static const char *
text(const struct ddp_logger *logger, const char *name)
{
    struct log_entry found;
    assert_true(logger_find(logger, name, &found));
    assert_non_null(found.text);
    return found.text;
}

static bool
is_there(const struct ddp_logger *logger, const char *name)
{
    struct log_entry found;
    return logger_find(logger, name, &found);
}

/* An iteration that nothing is special about, with these moments. */
static void
after_iteration(struct ddp_logger *logger, int64_t iteration, const int64_t *moments)
{
    const struct logger_stats stats = { .iteration = iteration, .buckets_reduced = 1, .bucket_sizes = "",
                                        .bucket_indices = "", .ready_order = "2, 1, 0", .moments = moments };
    logger_set_runtime_stats(logger, &stats);
}

static void
a_time_is_what_lies_between_two_moments(void **state)
{
    (void)state;
    struct ddp_logger *logger = a_logger();
    after_iteration(logger, 1, (const int64_t[REDUCER_MOMENTS]){ 1000, 1300, 2300, 1800, 3100 });
    assert_int_equal(number(logger, "forward_compute_time"), 300);
    assert_int_equal(number(logger, "backward_compute_time"), 1000);
    assert_int_equal(number(logger, "backward_comm_time"), 1300);
    assert_int_equal(number(logger, "backward_compute_comm_overlap_time"), 500);
    assert_int_equal(number(logger, "forward_compute_time_start"), 1000);
    assert_int_equal(number(logger, "backward_compute_time_start"), 1300);
    assert_int_equal(number(logger, "backward_compute_time_end"), 2300);
    assert_int_equal(number(logger, "backward_comm_time_start"), 1800);
    assert_int_equal(number(logger, "backward_comm_time_end"), 3100);
    logger_free(logger);
}

static void
a_mean_is_rounded_down_at_each_iteration(void **state)
{
    (void)state;
    static const int64_t times[] = { 19729962, 2976552, 8870236, 5131398 };
    static const int64_t means[] = { 19729962, 11353257, 10525583, 9177036 };
    struct ddp_logger   *logger  = a_logger();
    for (size_t i = 0; i < countof(times); i++) {
        after_iteration(logger, (int64_t)i + 1, (const int64_t[REDUCER_MOMENTS]){ 0, 0, 0, 5, times[i] + 5 });
        assert_int_equal(number(logger, "backward_comm_time"), times[i]);
        assert_int_equal(number(logger, "avg_backward_comm_time"), means[i]);
    }
    logger_free(logger);
}

static void
what_ended_before_it_began_takes_no_time_and_leaves_the_mean(void **state)
{
    (void)state;
    struct ddp_logger *logger = a_logger();
    after_iteration(logger, 1, (const int64_t[REDUCER_MOMENTS]){ 0, 10, 138055373, 138055703, 148847918 });
    assert_int_equal(number(logger, "backward_compute_comm_overlap_time"), 0);
    assert_int_equal(number(logger, "avg_backward_compute_comm_overlap_time"), 0);
    assert_int_equal(number(logger, "backward_comm_time"), 10792215);
    static const int64_t times[] = { 133900, 127280 }, means[] = { 66950, 87060 };
    for (size_t i = 0; i < countof(times); i++) {
        after_iteration(logger, (int64_t)i + 2, (const int64_t[REDUCER_MOMENTS]){ 0, 0, times[i], 0, times[i] });
        assert_int_equal(number(logger, "backward_compute_comm_overlap_time"), times[i]);
        assert_int_equal(number(logger, "avg_backward_compute_comm_overlap_time"), means[i]);
    }
    after_iteration(logger, 4, (const int64_t[REDUCER_MOMENTS]){ 500, 400, 0, 1, 0 });
    assert_int_equal(number(logger, "backward_compute_comm_overlap_time"), 0);
    assert_int_equal(number(logger, "avg_backward_compute_comm_overlap_time"), 87060);
    logger_free(logger);
}

static void
a_moment_that_has_not_been_is_told_as_zero(void **state)
{
    (void)state;
    struct ddp_logger *logger = a_logger();
    after_iteration(logger, 1, (const int64_t[REDUCER_MOMENTS]){ 640401430, 640548670, MOMENT_UNSET, MOMENT_UNSET,
                                                         MOMENT_UNSET });
    assert_int_equal(number(logger, "forward_compute_time"), 147240);
    assert_int_equal(number(logger, "avg_forward_compute_time"), 147240);
    assert_int_equal(number(logger, "backward_compute_time_start"), 640548670);
    static const char *const nothing[] = { "backward_compute_time", "backward_comm_time",
                                           "backward_compute_comm_overlap_time", "backward_compute_time_end",
                                           "backward_comm_time_start", "backward_comm_time_end",
                                           "avg_backward_compute_time", "avg_backward_comm_time",
                                           "avg_backward_compute_comm_overlap_time" };
    for (size_t i = 0; i < countof(nothing); i++)
        assert_int_equal(number(logger, nothing[i]), 0);
    logger_free(logger);
}

static void
the_first_ten_iterations_are_sampled_then_every_nth(void **state)
{
    (void)state;
    assert_false(logger_samples(0, 100));
    for (int64_t iteration = 1; iteration <= 10; iteration++)
        assert_true(logger_samples(iteration, 100));
    for (int64_t iteration = 11; iteration <= 400; iteration++) {
        assert_int_equal(logger_samples(iteration, 100), iteration % 100 == 0);
        assert_int_equal(logger_samples(iteration, 7), iteration % 7 == 0);
        assert_true(logger_samples(iteration, 1));
    }
}

static void
what_nobody_has_said_is_not_there(void **state)
{
    (void)state;
    struct ddp_logger *logger = a_logger();
    for (int field = 0; field < LOGGED_FIELDS; field++) {
        struct log_entry found;
        assert_false(logger_field(logger, (enum logged_field)field, &found));
        assert_false(is_there(logger, found.name));
    }
    assert_false(is_there(logger, "no_such_field"));
    logger_set_comm_hook(logger, "fp16_compress_hook");
    logger_set_uneven_input_join(logger);
    logger_set_static_graph(logger);
    assert_string_equal(text(logger, "comm_hook"), "fp16_compress_hook");
    assert_int_equal(number(logger, "join_uneven_inputs"), 1);
    assert_int_equal(number(logger, "static_graph"), 1);
    assert_false(is_there(logger, "iteration"));
    assert_true(logger_has_memory(logger));
    logger_free(logger);
}

static void
rebuilt_buckets_are_told_from_the_rebuild_on(void **state)
{
    (void)state;
    struct ddp_logger  *logger = a_logger();
    int64_t             moments[REDUCER_MOMENTS] = { 0 };
    struct logger_stats stats = { .iteration = 1, .buckets_reduced = 1, .unused_bytes = 24, .bucket_sizes = "2880",
                                  .bucket_indices = "0 1 2", .ready_order = "2, 1, 0", .moments = moments };
    logger_set_runtime_stats(logger, &stats);
    assert_int_equal(number(logger, "has_rebuilt_buckets"), 0);
    assert_false(is_there(logger, "rebuilt_bucket_sizes"));
    assert_false(is_there(logger, "rebuilt_per_bucket_param_indices"));
    assert_int_equal(number(logger, "unused_parameter_size"), 24);
    stats = (struct logger_stats){ .iteration = 2, .buckets_reduced = 2, .has_rebuilt = true, .bucket_sizes = "880, 2000",
                                   .bucket_indices = "2 0, 1", .ready_order = "", .moments = moments };
    logger_set_runtime_stats(logger, &stats);
    assert_int_equal(number(logger, "iteration"), 2);
    assert_int_equal(number(logger, "num_buckets_reduced"), 2);
    assert_int_equal(number(logger, "unused_parameter_size"), 0);
    assert_int_equal(number(logger, "has_rebuilt_buckets"), 1);
    assert_string_equal(text(logger, "rebuilt_bucket_sizes"), "880, 2000");
    assert_string_equal(text(logger, "rebuilt_per_bucket_param_indices"), "2 0, 1");
    assert_string_equal(text(logger, "prev_iteration_grad_ready_order_indices"), "2, 1, 0");
    logger_free(logger);
}

static void
an_error_is_told_with_the_iteration_in_which_it_came(void **state)
{
    (void)state;
    struct ddp_logger *logger = a_logger();
    logger_set_error(logger, "boom", 2);
    logger_set_error(logger, "again", 7);
    assert_int_equal(number(logger, "has_error"), 1);
    assert_int_equal(number(logger, "iteration"), 7);
    assert_string_equal(text(logger, "error"), "again");
    logger_free(logger);
}

static void
the_first_change_of_the_graph_counts(void **state)
{
    (void)state;
    struct ddp_logger *logger = a_logger();
    logger_log_if_graph_static(logger, false, 3);
    logger_log_if_graph_static(logger, true, 9);
    assert_int_equal(number(logger, "can_set_static_graph"), 0);
    assert_int_equal(number(logger, "iteration"), 3);
    logger_free(logger);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_time_is_what_lies_between_two_moments),
        cmocka_unit_test(a_mean_is_rounded_down_at_each_iteration),
        cmocka_unit_test(what_ended_before_it_began_takes_no_time_and_leaves_the_mean),
        cmocka_unit_test(a_moment_that_has_not_been_is_told_as_zero),
        cmocka_unit_test(the_first_ten_iterations_are_sampled_then_every_nth),
        cmocka_unit_test(what_nobody_has_said_is_not_there),
        cmocka_unit_test(rebuilt_buckets_are_told_from_the_rebuild_on),
        cmocka_unit_test(an_error_is_told_with_the_iteration_in_which_it_came),
        cmocka_unit_test(the_first_change_of_the_graph_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
