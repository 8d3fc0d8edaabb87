/* Looking for the nearest event of which something is true: the same in slices of any size as in one go, and the cursor
 * stays until it is found. And a frame that is drawn before the state is worked out says so. */
#include "view_rig.h"
#include "../../trace_viewer/browse.h"
#include "../../trace_viewer/canvas.h"
#include "base/str.h"

static bool
is_op(const struct view *view, const struct model *model, size_t seq)
{
    return strcmp(model_kind(model, seq), "op") == 0;
}

static bool
is_never(const struct view *view, const struct model *model, size_t seq)
{
    return false;
}

static void
slices_of_any_size_find_what_one_search_finds(void **state)
{
    struct rig rig;
    uint64_t   random = 5;
    rig_random(&rig, 11, 3000);
    for (int i = 0; i < 400; i++) {
        int         direction = splitmix(&random) % 2 == 0 ? 1 : -1;
        size_t      from = splitmix(&random) % rig.model.seen, slice = 1 + splitmix(&random) % 5, expected = from;
        struct hunt hunt = { .is = is_op, .direction = direction, .at = from };
        bool        found = false;
        while (!found && (direction > 0 ? expected + 1 < rig.model.seen : expected > 0)) {
            expected += direction > 0 ? 1 : (size_t)-1;
            found = is_op(&rig.view, &rig.model, expected);
        }
        enum hunt_result result;
        while ((result = hunt_some(&hunt, &rig.view, &rig.model, slice)) == HUNT_GOES_ON)
            continue;
        assert_int_equal(result, found ? HUNT_FOUND : HUNT_NOTHING);
        assert_int_equal(hunt.at, expected);
    }
    rig_end(&rig);
}

static void
one_stands_still_until_it_is_found(void **state)
{
    struct rig rig;
    rig_begin(&rig);
    for (int i = 0; i < 400000; i++)
        rig_event(&rig, PHASE_INSTANT, i == 399990 ? KIND_stream_record : KIND_memory_alloc, 0, 0);
    rig_read(&rig);
    hunt_begin(&rig.view, &rig.model, &(struct hunt){ .is = is_never, .direction = 1, .what = "unicorn" });
    assert_true(rig.view.moving);
    assert_int_equal(rig.view.cursor, 0);
    assert_non_null(strstr(rig.view.message, "^C stops"));
    browse_pause(&rig.model, &rig.view);
    assert_false(rig.view.moving);
    assert_int_equal(rig.view.cursor, 0);
    assert_non_null(strstr(rig.view.message, "no unicorn up to there"));
    hunt_begin(&rig.view, &rig.model, &(struct hunt){ .is = is_never, .direction = 1, .what = "unicorn" });
    int slices = 0;
    while (browse_on(&rig.model, &rig.view))
        slices++;
    assert_in_range(slices, 1, 100);
    assert_string_equal(rig.view.message, "no further unicorn");
    assert_int_equal(rig.view.cursor, 0);
    hunt_begin(&rig.view, &rig.model, &(struct hunt){ .is = is_never, .direction = -1, .what = "unicorn" });
    assert_string_equal(rig.view.message, "no earlier unicorn");
    rig_end(&rig);
}

static void
print_frame(struct rig *rig, struct str *out)
{
    struct canvas       canvas;
    struct capabilities capabilities = { .utf8 = true };
    assert_true(canvas_init(&canvas, 120, 40));
    rig->view.width  = 120;
    rig->view.height = 40;
    frame_draw(&rig->model, &rig->view, &canvas, &capabilities);
    str_clear(out);
    canvas_print(&canvas, &capabilities, false, out);
    canvas_free(&canvas);
}

static void
a_pane_says_that_the_state_is_still_being_worked_out(void **state)
{
    struct rig rig;
    struct str text = { 0 };
    rig_random(&rig, 12, 5000);
    view_goto(&rig.view, &rig.model, rig.model.seen - 1);
    rig.view.chosen = PANE_MEMORY;
    assert_false(model_approach(&rig.model, rig.view.cursor, NO_EVENT, 100));
    assert_int_equal(rig.model.at, NO_EVENT);
    print_frame(&rig, &text);
    assert_non_null(strstr(str_text(&text), "100 of "));
    assert_null(strstr(str_text(&text), " peak "));
    while (!model_approach(&rig.model, rig.view.cursor, NO_EVENT, 100))
        continue;
    assert_int_equal(rig.model.at, rig.view.cursor);
    print_frame(&rig, &text);
    assert_null(strstr(str_text(&text), "being worked out"));
    assert_non_null(strstr(str_text(&text), " peak "));
    str_free(&text);
    rig_end(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_of_any_size_find_what_one_search_finds),
        cmocka_unit_test(one_stands_still_until_it_is_found),
        cmocka_unit_test(a_pane_says_that_the_state_is_still_being_worked_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
