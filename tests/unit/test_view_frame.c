/* Whole frames and timeline rows over random traces: what must hold whatever the trace, the size and the view. */
#include "view_rig.h"
#include "../../trace_viewer/drive.h"
#include "../../trace_viewer/strip.h"
#include "../../trace_viewer/timeline.h"
#include "base/str.h"

static const struct capabilities all_capabilities[] = {
    { .colours = 256, .utf8 = true }, { .colours = 0, .utf8 = true }, { .colours = 8 }, { .colours = 0 },
};

static void
draw(struct rig *rig, int width, int height, const struct capabilities *capabilities, struct canvas *canvas)
{
    assert_true(canvas_init(canvas, width, height));
    rig->view.width = width;
    rig->view.height = height;
    if (rig->view.cursor != NO_EVENT)
        assert_true(model_seek(&rig->model, rig->view.cursor));
    frame_draw(&rig->model, &rig->view, canvas, capabilities);
}

static void
assert_same(const struct canvas *one, const struct canvas *other)
{
    for (int row = 0; row < one->height; row++)
        for (int column = 0; column < one->width; column++) {
            const struct cell *a = canvas_at(one, row, column), *b = canvas_at(other, row, column);
            assert_int_equal(a->code, b->code);
            assert_memory_equal(&a->style, &b->style, sizeof a->style);
        }
}

static void
every_size_is_drawn_without_control_characters(void **state)
{
    struct rig rig;
    rig_random(&rig, 11, 400);
    for (int width = 1; width <= 130; width += width < 45 ? 1 : 7)
        for (int height = 1; height <= 60; height += height < 30 ? 1 : 5) {
            rig.view.cursor = (size_t)(width * 31 + height * 7) % rig.model.seen;
            rig.view.lane = (width + height) % RIG_LANES;
            rig.view.chosen = (enum pane)((width + height) % PANE_COUNT);
            rig.view.focus = (enum pane)(height % PANE_COUNT);
            rig.view.full = width % 5 == 0;
            rig.view.help = width % 11 == 0 ? HELP_KEYS : width % 11 == 1 ? HELP_FIRST : HELP_NONE;
            struct canvas canvas;
            draw(&rig, width, height, &all_capabilities[(width + height) % 4], &canvas);
            for (int row = 0; row < height; row++)
                for (int column = 0; column < width; column++) {
                    uint32_t code = canvas_at(&canvas, row, column)->code;
                    assert_true(code == 0 || (code >= 0x20 && code != 0x7f && !(code >= 0x80 && code < 0xa0)));
                }
            canvas_free(&canvas);
        }
    rig.view.full = false;
    rig.view.help = HELP_NONE;
    rig_end(&rig);
}

static void
ascii_frames_hold_nothing_but_ascii(void **state)
{
    struct rig rig;
    rig_random(&rig, 12, 300);
    struct canvas canvas;
    draw(&rig, 100, 40, &all_capabilities[3], &canvas);
    struct str text = { 0 };
    canvas_print(&canvas, &all_capabilities[3], false, &text);
    for (size_t i = 0; i < text.len; i++)
        assert_true(text.text[i] == '\n' || (text.text[i] >= 0x20 && text.text[i] < 0x7f));
    str_free(&text);
    canvas_free(&canvas);
    rig_end(&rig);
}

static void
the_timeline_stays_inside_its_pane(void **state)
{
    struct rig rig;
    rig_random(&rig, 13, 500);
    struct canvas canvas;
    assert_true(canvas_init(&canvas, 90, 30));
    for (int row = 0; row < 30; row++)
        canvas_fill(&canvas, row, (struct style){ 0 }, 'x');
    struct canvas pane = canvas_part(&canvas, 4, 3, 9, 70);
    canvas_clear(&pane);
    for (size_t seq = 0; seq < rig.model.seen; seq += 7) {
        view_goto(&rig.view, &rig.model, seq);
        timeline_draw(&rig.model, &rig.view, &pane, &all_capabilities[seq % 4]);
        ruler_draw(&rig.model, &rig.view, &pane, &all_capabilities[seq % 4]);
        minimap_draw(&rig.model, &rig.view, &pane, &all_capabilities[seq % 4]);
    }
    for (int row = 0; row < 30; row++)
        for (int column = 0; column < 90; column++)
            if (row < 4 || row > 12 || column < 3 || column > 72)
                assert_int_equal(canvas_at(&canvas, row, column)->code, 'x');
    canvas_free(&canvas);
    rig_end(&rig);
}

/* Does a span or a mark of the lane touch the column? Asked of the model in the slowest way there is. */
static bool
touched(const struct model *model, size_t lane, const struct scale *scale, int column)
{
    uint64_t from = scale_time(scale, column), to = scale_time(scale, column + 1);
    struct span span;
    struct mark mark;
    for (size_t i = 0; index_span(model->index, lane, 0, i, &span); i++) {
        uint64_t end = span.end == STILL_OPEN ? model->end : span.end;
        if (span.begin < to && (end > from || (span.begin == end && end >= from)))
            return true;
    }
    for (size_t i = 0; index_mark(model->index, lane, i, &mark); i++)
        if (mark.time >= from && mark.time < to)
            return true;
    return false;
}

static void
a_cell_is_blank_exactly_if_nothing_touches_it(void **state)
{
    struct strip_cell cells[150];
    uint64_t random = 5;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct rig rig;
        rig_random(&rig, seed, 300);
        for (int round = 0; round < 40; round++) {
            struct strip strip = { .model = &rig.model, .lane = (size_t)round % RIG_LANES, .cells = cells,
                                   .veil = &rig.view.veil, .last = LEVELS, .selected = NO_EVENT, .cursor = -1 };
            strip.scale = (struct scale){ .unit = scale_unit_for(rig.model.end, 150), .columns = 150 };
            for (int zoom = round / 4; zoom > 0; zoom--)
                strip.scale.unit = scale_finer(strip.scale.unit);
            strip.scale.left = (int64_t)(splitmix(&random) % (rig.model.end / strip.scale.unit + 1));
            struct canvas canvas;
            assert_true(canvas_init(&canvas, 150, 1));
            strip_paint(&strip);
            strip_draw(&strip, &canvas, 0, &all_capabilities[round % 4]);
            for (int column = 0; column < 150; column++) {
                const struct cell *cell = canvas_at(&canvas, 0, column);
                bool blank = cell->code == ' ' && cell->style.paper == INK_PLAIN;
                assert_int_equal(!blank, touched(&rig.model, strip.lane, &strip.scale, column));
            }
            canvas_free(&canvas);
        }
        rig_end(&rig);
    }
}

static void
press(struct rig *rig, const char *const *keys)
{
    struct driver driver = { .model = &rig->model, .view = &rig->view };
    for (; *keys != NULL; keys++) {
        if (rig->view.cursor != NO_EVENT)
            model_seek(&rig->model, rig->view.cursor);
        drive_key(&driver, *keys);
    }
}

static void
a_step_forwards_and_back_gives_the_same_frame(void **state)
{
    struct rig rig;
    rig_random(&rig, 21, 300);
    rig.view.rules.shown = SHOWN_MEMORY | SHOWN_LOCKS; /* from an event that step passes by S comes back elsewhere */
    for (size_t seq = 0; seq + 1 < rig.model.seen; seq += 3) {
        struct canvas before, after;
        view_goto(&rig.view, &rig.model, seq);
        rig.view.message[0] = '\0';
        draw(&rig, 90, 30, &all_capabilities[0], &before);
        press(&rig, (const char *const[]){ "s", "S", NULL });
        draw(&rig, 90, 30, &all_capabilities[0], &after);
        assert_same(&before, &after);
        canvas_free(&before);
        canvas_free(&after);
    }
    rig_end(&rig);
}

static void
going_right_from_the_start_meets_every_event_of_a_lane_once(void **state)
{
    struct rig rig;
    rig_random(&rig, 22, 300);
    size_t on_lane[300] = { 0 }, count = 0;
    for (size_t seq = 0; seq < rig.model.seen; seq++)
        if (trace_event(rig.model.trace, seq)->lane == 0)
            on_lane[count++] = seq;
    assert_true(count > 10);
    view_goto(&rig.view, &rig.model, on_lane[0]);
    for (size_t i = 1; i < count; i++) {
        press(&rig, (const char *const[]){ "Right", NULL });
        assert_int_equal(rig.view.cursor, on_lane[i]);
    }
    press(&rig, (const char *const[]){ "Right", NULL });
    assert_int_equal(rig.view.cursor, on_lane[count - 1]);
    rig_end(&rig);
}

static void
one_does_not_step_past_an_unanswered_question(void **state)
{
    struct rig rig;
    rig_begin(&rig);
    int64_t text = trace_text(rig.writer, "How many?");
    for (int i = 0; i < 6; i++, rig.now += 1000000)
        rig_event(&rig, PHASE_INSTANT, i == 2 ? KIND_lesson_ask : KIND_lesson_say, 0, text);
    rig_read(&rig);
    rig.view.asking.all = false;
    press(&rig, (const char *const[]){ "5", "s", NULL });
    assert_int_equal(rig.view.cursor, 2);
    press(&rig, (const char *const[]){ "s", "n", "m", "c", "G", "Enter", "S", "s", NULL });
    assert_int_equal(rig.view.cursor, 2);
    press(&rig, (const char *const[]){ "Enter", "Enter", "s", NULL });
    assert_int_equal(rig.view.cursor, 3);
    press(&rig, (const char *const[]){ "g", "G", NULL });
    assert_int_equal(rig.view.cursor, 5);
    rig_end(&rig);
}

static void
stages_are_finished_and_stepped_over(void **state)
{
    struct rig rig;
    rig_begin(&rig);
    static const int phases[] = { PHASE_BEGIN, PHASE_BEGIN, PHASE_INSTANT, PHASE_END, PHASE_BEGIN, PHASE_END,
                                  PHASE_END };
    static const int kinds[] = { KIND_dp_forward, KIND_dp_scatter, KIND_dp_scatter_chunk, KIND_dp_scatter,
                                 KIND_dp_replicate, KIND_dp_replicate, KIND_dp_forward };
    for (int i = 0; i < 7; i++, rig.now += 1000000)
        rig_event(&rig, phases[i], kinds[i], 0, 0);
    rig_read(&rig);
    press(&rig, (const char *const[]){ "s", "m", NULL });
    assert_int_equal(rig.view.cursor, 4);
    press(&rig, (const char *const[]){ "M", "s", "f", NULL });
    assert_int_equal(rig.view.cursor, 3);
    press(&rig, (const char *const[]){ "g", "n", NULL });
    assert_int_equal(rig.view.cursor, 3);
    press(&rig, (const char *const[]){ "n", "N", NULL });
    assert_int_equal(rig.view.cursor, 3);
    press(&rig, (const char *const[]){ "F", NULL });
    assert_int_equal(rig.view.cursor, 1);
    press(&rig, (const char *const[]){ "F", "f", NULL });
    assert_int_equal(rig.view.cursor, 6);
    press(&rig, (const char *const[]){ "g", ":", "b", "r", "e", "a", "k", "Space", "d", "p", ".", "r", "e", "p", "l",
                                       "i", "c", "a", "t", "e", "Enter", "c", NULL });
    assert_int_equal(rig.view.cursor, 4);
    press(&rig, (const char *const[]){ "c", "C", NULL });
    assert_int_equal(rig.view.cursor, 4);
    rig_end(&rig);
}

/* Longer than a slice: the frames between show where it is, keys wait for it, ^C stops it. */
static void
a_long_search_lets_keys_and_frames_through(void **state)
{
    enum { EVENTS = 600000 };
    struct rig rig;
    rig_begin(&rig);
    for (int i = 0; i < EVENTS; i++, rig.now += 1000)
        rig_event(&rig, PHASE_INSTANT, i == EVENTS - 2 ? KIND_lesson_say : KIND_kernel, 0, 0);
    rig_read(&rig);
    struct driver driver = { .model = &rig.model, .view = &rig.view };
    drive_key(&driver, "n");
    assert_true(rig.view.moving);
    assert_int_equal(rig.view.cursor, 0);
    assert_non_null(strstr(rig.view.message, "^C"));
    drive_key(&driver, "s");
    assert_true(drive_on(&driver) && rig.view.moving);
    assert_true(drive_on(&driver) && !rig.view.moving && !drive_on(&driver));
    assert_int_equal(rig.view.cursor, EVENTS - 1);
    drive_key(&driver, "M");
    drive_key(&driver, "M");
    assert_true(rig.view.moving);
    drive_key(&driver, "^C");
    assert_false(rig.view.moving || drive_on(&driver));
    assert_true(rig.view.cursor > 0 && rig.view.cursor < EVENTS - 2);
    rig_end(&rig);
}

static void
random_keys_never_break_anything(void **state)
{
    static const char *const keys[] = {
        "s", "S", "n", "N", "m", "M", "f", "F", "c", "C", "u", "U", "b", "B", "x", "w", "Tab", "Up", "Down", "Left", "Right", "]",
        "g", "G", "+", "-", "a", "d", "0", "Enter", "i", "/", "^L", ":", "Esc", "v", "Z", "r", "{", "}", "(", ")", "e",
        "E", ">", "<", "*", "?", "5", "9", "Backspace", "Space", "\xc3\xa9", "F10", "PageUp", "^C", "k", "j"
    };
    uint64_t random = 99;
    for (uint64_t seed = 31; seed < 34; seed++) {
        struct rig rig;
        rig_random(&rig, seed, 250);
        for (int i = 0; i < 6000; i++) {
            const char *key[] = { keys[splitmix(&random) % (sizeof keys / sizeof keys[0])], NULL };
            press(&rig, key);
            if (i % 20 == 0) {
                struct canvas canvas;
                draw(&rig, 1 + (int)(splitmix(&random) % 160), 1 + (int)(splitmix(&random) % 50),
                     &all_capabilities[i % 4], &canvas);
                canvas_free(&canvas);
            }
        }
        assert_true(rig.view.cursor < rig.model.seen);
        rig_end(&rig);
    }
}

static void
an_empty_trace_is_drawn(void **state)
{
    struct rig rig;
    rig_begin(&rig);
    rig_read(&rig);
    rig.view.cursor = NO_EVENT;
    press(&rig, (const char *const[]){ "s", "n", "N", "m", "f", "c", "G", "g", "+", "Enter", "v", "Right", "]", "i", "i", NULL });
    struct canvas canvas;
    for (int width = 1; width < 140; width += 9) {
        draw(&rig, width, 30, &all_capabilities[0], &canvas);
        canvas_free(&canvas);
    }
    rig_end(&rig);
}

static void
a_growing_trace_gives_the_frame_of_the_grown_one(void **state)
{
    struct rig rig;
    rig_random(&rig, 41, 100);
    for (int i = 0; i < 50; i++, rig.now += 700000)
        rig_event(&rig, PHASE_INSTANT, KIND_memory_alloc, 1, 0);
    assert_true(model_refresh(&rig.model));
    struct canvas grown, fresh;
    draw(&rig, 100, 30, &all_capabilities[0], &grown);
    char why[200];
    struct trace *trace = trace_open_live(rig.writer, why, sizeof why);
    assert_non_null(trace);
    model_close(&rig.model);
    assert_true(model_open(&rig.model, trace));
    draw(&rig, 100, 30, &all_capabilities[0], &fresh);
    assert_same(&grown, &fresh);
    canvas_free(&grown);
    canvas_free(&fresh);
    rig_end(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_is_drawn_without_control_characters),
        cmocka_unit_test(ascii_frames_hold_nothing_but_ascii),
        cmocka_unit_test(the_timeline_stays_inside_its_pane),
        cmocka_unit_test(a_cell_is_blank_exactly_if_nothing_touches_it),
        cmocka_unit_test(a_step_forwards_and_back_gives_the_same_frame),
        cmocka_unit_test(going_right_from_the_start_meets_every_event_of_a_lane_once),
        cmocka_unit_test(one_does_not_step_past_an_unanswered_question),
        cmocka_unit_test(stages_are_finished_and_stepped_over),
        cmocka_unit_test(a_long_search_lets_keys_and_frames_through),
        cmocka_unit_test(random_keys_never_break_anything),
        cmocka_unit_test(an_empty_trace_is_drawn),
        cmocka_unit_test(a_growing_trace_gives_the_frame_of_the_grown_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
