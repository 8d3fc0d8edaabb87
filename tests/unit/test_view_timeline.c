/* How the timeline is arranged, over random traces: rows, squeezed time, flows, curves; what must hold whatever is
 * asked. */
#include "view_rig.h"
#include "../../trace_viewer/columns.h"
#include "../../trace_viewer/drive.h"
#include "../../trace_viewer/moment.h"
#include "../../trace_viewer/rows.h"
#include "../../trace_viewer/timeline.h"
#include "../../trace_viewer/window.h"
#include <stdio.h>

static const struct capabilities looks[] = {
    { .colours = 256, .utf8 = true }, { .colours = 0, .utf8 = true }, { .colours = 8 }, { .colours = 0 }
};

/* Ranks with a lane of their own and one for messages; what happens between two of them carries a flow. */
enum { RANKS = 4, WIDTH = 100, HEIGHT = 30 };

static void
add(struct rig *rig, int phase, int kind, uint32_t lane, int64_t first, uint32_t flow)
{
    struct trace_event event = { .time = rig->now, .args = { 0, first, 0, first }, .lane = lane, .flow = flow,
                                 .iteration = (uint32_t)(rig->now / 40000000), .rank = (int16_t)(lane / 2),
                                 .device = -1, .phase = (uint8_t)phase, .kind = (uint16_t)kind };
    assert_true(trace_append(rig->buffer, &event));
}

/* Steps of work, waits and messages, with pauses of up to a thousand times their length. */
static void
make_ranks(struct rig *rig, uint64_t seed, int steps)
{
    char why[200];
    struct trace_options options = { .clock = CLOCK_VIRTUAL_PS };
    uint64_t state = seed;
    uint32_t flow = 0;
    *rig = (struct rig){ .writer = trace_create(&options, why, sizeof why) };
    assert_non_null(rig->writer);
    rig->buffer = trace_buffer_new(rig->writer);
    for (uint32_t i = 0; i < 2 * RANKS; i++) {
        char name[32];
        snprintf(name, sizeof name, "r%u %s", i / 2, i % 2 == 0 ? "main" : "comm");
        assert_int_equal(trace_lane(rig->writer, (int)i / 2, -1, i % 2 == 0 ? LANE_HOST : LANE_COMM, name), i);
    }
    for (int i = 0; i < steps; i++) {
        uint32_t from = (uint32_t)(splitmix(&state) % RANKS);
        uint32_t to = (from + 1 + (uint32_t)(splitmix(&state) % (RANKS - 1))) % RANKS;
        uint64_t length = 1000 + splitmix(&state) % 2000000;
        int stages[] = { KIND_op, KIND_lock_wait, KIND_autograd_node }, stage = stages[splitmix(&state) % 3];
        add(rig, PHASE_BEGIN, stage, 2 * from, 0, 0);
        rig->now += length / 2;
        add(rig, PHASE_BEGIN, KIND_comm_hop, 2 * from + 1, (int64_t)length, ++flow);
        add(rig, PHASE_BEGIN, KIND_comm_receive, 2 * to + 1, (int64_t)length, 0);
        rig->now += length;
        add(rig, PHASE_INSTANT, KIND_memory_alloc, 2 * from, (int64_t)(splitmix(&state) % 100000), 0);
        add(rig, PHASE_END, KIND_comm_hop, 2 * from + 1, (int64_t)length, 0);
        add(rig, PHASE_END, KIND_comm_receive, 2 * to + 1, (int64_t)length, flow);
        add(rig, PHASE_END, stage, 2 * from, 0, 0);
        rig->now += splitmix(&state) % 4 == 0 ? splitmix(&state) % 1000000000 : splitmix(&state) % 100000;
    }
    rig_read(rig);
    rig->view.width = WIDTH;
    rig->view.height = HEIGHT;
}

static void
press(struct rig *rig, const char *keys)
{
    struct driver driver = { .model = &rig->model, .view = &rig->view };
    char key[2] = "";
    for (; *keys != '\0'; keys++) {
        key[0] = *keys;
        model_seek(&rig->model, rig->view.cursor);
        drive_key(&driver, key);
    }
}

static void
draw(struct rig *rig, const struct capabilities *look, struct canvas *canvas)
{
    assert_true(canvas_init(canvas, WIDTH, HEIGHT));
    do
        arrange_work(&rig->view, &rig->model);
    while (rig->view.arrange.working);
    view_veil(&rig->view, &rig->model);
    struct canvas ruler = canvas_part(canvas, 0, 0, 2, WIDTH), rows = canvas_part(canvas, 2, 0, HEIGHT - 2, WIDTH);
    ruler_draw(&rig->model, &rig->view, &ruler, look);
    timeline_draw(&rig->model, &rig->view, &rows, look);
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
assert_axis_is_whole(const struct axis *axis)
{
    int at = 0;
    for (int i = 0; i < axis->count; i++) {
        const struct piece *piece = &axis->piece[i];
        assert_int_equal(piece->at, at);
        at += piece->columns;
        if (i + 1 < axis->count)
            assert_int_equal(piece->left + piece->length, axis->piece[i + 1].left);
        assert_true(!piece_is_gap(piece) || (piece->length > 8 && piece->columns <= GAP_COLUMNS));
    }
    assert_int_equal(at, axis->columns);
}

static void
squeezed_time_is_monotone_and_comes_back(void **state)
{
    uint64_t random = 3;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct rig rig;
        make_ranks(&rig, seed, 60);
        rig.view.arrange.squeezed = true;
        int gaps = 0;
        for (int round = 0; round < 60; round++) {
            struct axis axis;
            rig.view.unit = scale_unit_for(rig.model.end, 80);
            for (int finer = round % 12; finer > 0; finer--)
                rig.view.unit = scale_finer(rig.view.unit);
            rig.view.left = (int64_t)(splitmix(&random) % (rig.model.end / rig.view.unit + 1));
            window_axis(&rig.model, &rig.view, 1 + (int)(splitmix(&random) % 200), &axis);
            assert_axis_is_whole(&axis);
            for (int column = 0, piece = 0; column < axis.columns; column++) {
                while (column >= axis.piece[piece].at + axis.piece[piece].columns)
                    piece++;
                assert_true(axis_time(&axis, column) < axis_time(&axis, column + 1));
                assert_int_equal(axis_column(&axis, axis_time(&axis, column)), column);
                assert_true(axis_column(&axis, axis_time(&axis, column + 1) - 1) == column);
                gaps += piece_is_gap(&axis.piece[piece]);
            }
        }
        assert_true(gaps > 0);
        rig_end(&rig);
    }
}

static void
nobody_works_in_what_is_squeezed(void **state)
{
    struct rig rig;
    make_ranks(&rig, 9, 80);
    rig.view.arrange.squeezed = true;
    window_show_all(&rig.view, &rig.model);
    struct axis axis;
    window_axis(&rig.model, &rig.view, columns_of_time(WIDTH), &axis);
    assert_true(axis_column(&axis, rig.model.end) < axis.columns);
    assert_true(axis.count > 1);
    for (int i = 0; i < axis.count; i++)
        for (int lane = 0; lane < 2 * RANKS && piece_is_gap(&axis.piece[i]); lane++) {
            uint64_t from = axis_time(&axis, axis.piece[i].at), to = from + (uint64_t)axis.piece[i].length * axis.unit;
            assert_true(moment_of_work(&rig.model, lane, from) >= to);
        }
    rig_end(&rig);
}

static void
zooming_in_and_out_and_panning_there_and_back_give_the_same_frame(void **state)
{
    static const char *const ways[] = { "+-", "++--", "da", "dddaaa", "DA", "w-", "d+-a" };
    struct rig rig;
    make_ranks(&rig, 4, 60);
    for (size_t seq = 0; seq < rig.model.seen; seq += 29)
        for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
            struct canvas before, after;
            view_goto(&rig.view, &rig.model, seq);
            rig.view.unit = scale_unit_for(rig.model.end, 2000);
            window_place(&rig.view, &rig.model, window_shown(&rig.model, &rig.view, seq), 30);
            if (rig.view.left < 300 || rig.view.left > 1200) /* at its ends a trace stops the window */
                continue;
            draw(&rig, &looks[0], &before);
            press(&rig, ways[i]);
            draw(&rig, &looks[0], &after);
            assert_same(&before, &after);
            canvas_free(&before);
            canvas_free(&after);
        }
    rig_end(&rig);
}

static bool
is_arrow(uint32_t code)
{
    return code == 0x25bc || code == 0x25b2 || code == 0x25c4 || code == 0x25ba;
}

static void
routes_go_under_spans(void **state)
{
    int drawn = 0;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct rig rig;
        make_ranks(&rig, seed, 40);
        for (size_t seq = 0; seq < rig.model.seen; seq += 23) {
            struct canvas without, with;
            view_goto(&rig.view, &rig.model, seq);
            if (seq % 2 == 1)
                press(&rig, "+");
            rig.view.arrange.flows = FLOWS_OFF;
            draw(&rig, &looks[seq % 4], &without);
            rig.view.arrange.flows = seq % 3 == 0 ? FLOWS_ALL : seq % 3 == 1 ? FLOWS_ITERATION : FLOWS_SELECTION;
            draw(&rig, &looks[seq % 4], &with);
            for (int row = 0; row < HEIGHT; row++)
                for (int column = 16; column < WIDTH - 5; column++) {
                    const struct cell *a = canvas_at(&without, row, column), *b = canvas_at(&with, row, column);
                    drawn += a->code != b->code;
                    assert_int_equal(a->style.paper, b->style.paper);
                    assert_true(a->code == b->code || a->code == ' ' || a->code == 0x2502 || is_arrow(b->code));
                }
            canvas_free(&without);
            canvas_free(&with);
        }
        rig_end(&rig);
    }
    assert_true(drawn > 100);
}

/* Whatever is pressed, what lies around the pane stays as it was. */
static void
an_arranged_timeline_stays_inside_its_pane(void **state)
{
    static const char keys[] = "+-wWadADzztoopprR0jjkk[]";
    uint64_t random = 17;
    struct rig rig;
    make_ranks(&rig, 5, 60);
    for (int round = 0; round < 400; round++) {
        struct canvas canvas;
        int width = 20 + (int)(splitmix(&random) % 70), height = 1 + (int)(splitmix(&random) % 25);
        press(&rig, (const char[]){ keys[splitmix(&random) % (sizeof keys - 1)], '\0' });
        rig.view.arrange.flows = (enum flows_shown)(splitmix(&random) % 4);
        rig.view.arrange.curves_shown = (enum curves_shown)(splitmix(&random) % 3);
        if (round % 10 == 0)
            view_goto(&rig.view, &rig.model, splitmix(&random) % rig.model.seen);
        arrange_work(&rig.view, &rig.model);
        view_veil(&rig.view, &rig.model);
        assert_true(canvas_init(&canvas, WIDTH, HEIGHT));
        for (int row = 0; row < HEIGHT; row++)
            canvas_fill(&canvas, row, (struct style){ 0 }, 'x');
        struct canvas pane = canvas_part(&canvas, 3, 5, height, width);
        canvas_clear(&pane);
        timeline_draw(&rig.model, &rig.view, &pane, &looks[round % 4]);
        ruler_draw(&rig.model, &rig.view, &pane, &looks[round % 4]);
        for (int row = 0; row < HEIGHT; row++)
            for (int column = 0; column < WIDTH; column++)
                if (row < 3 || row >= 3 + height || column < 5 || column >= 5 + width)
                    assert_int_equal(canvas_at(&canvas, row, column)->code, 'x');
        canvas_free(&canvas);
    }
    rig_end(&rig);
}

static void
every_lane_has_one_place_and_the_selected_one_a_row(void **state)
{
    uint64_t random = 23;
    struct rig rig;
    make_ranks(&rig, 6, 60);
    for (int round = 0; round < 300; round++) {
        struct rows rows;
        struct axis axis;
        int room = 1 + (int)(splitmix(&random) % 40), found[2 * RANKS] = { 0 };
        rig.view.lane = (int)(splitmix(&random) % (2 * RANKS));
        rig.view.arrange.pinned = (int)(splitmix(&random) % (2 * RANKS + 1));
        int folded = (int)(splitmix(&random) % (2 * RANKS));
        assert_true(arrange_set_fold(&rig.view.arrange, folded, (enum fold)(round % 4)));
        window_axis(&rig.model, &rig.view, 80, &axis);
        assert_true(rows_deal(&rig.model, &rig.view, &axis, room, &rows));
        assert_true(rows.count <= room);
        bool selected = false;
        for (int i = 0; i < rows.units; i++)
            for (int k = 0; k < rows.unit[i].count; k++)
                found[rows.lane[rows.unit[i].from + k]]++;
        for (int i = 0; i < rows.count; i++)
            for (int k = 0; rows.row[i].unit >= 0 && k < rows.unit[rows.row[i].unit].count; k++)
                selected |= rows.lane[rows.unit[rows.row[i].unit].from + k] == rig.view.lane;
        for (int lane = 0; lane < 2 * RANKS; lane++)
            assert_int_equal(found[lane], 1);
        assert_true(selected);
        rows_free(&rows);
    }
    rig_end(&rig);
}

/* What is in flight at each moment, added up event by event. */
static void
a_curve_is_the_most_that_there_was_in_each_column(void **state)
{
    struct rig rig;
    make_ranks(&rig, 7, 90);
    struct curves *curves = &rig.view.arrange.curves;
    while (curves_work(curves, &rig.model))
        continue;
    struct axis axis;
    window_axis(&rig.model, &rig.view, 80, &axis);
    int64_t most[80], found[80] = { 0 }, sent[200] = { 0 }, now = 0;
    const struct curve *flight = NULL;
    for (int i = 0; i < curves->count; i++)
        flight = curves->curve[i].kind == CURVE_FLIGHT ? &curves->curve[i] : flight;
    assert_non_null(flight);
    curve_columns(flight, &axis, UINT64_MAX, most);
    int before = 0;
    for (size_t seq = 0; seq < rig.model.seen; seq++) {
        const struct trace_event *event = trace_event(rig.model.trace, seq);
        int column = axis_column(&axis, trace_time(rig.model.trace, seq));
        for (; before < column; before++)
            found[before + 1] = now;
        if (event->flow != 0) {
            now += event->phase == PHASE_BEGIN ? event->args[1] : -sent[event->flow];
            sent[event->flow] = event->args[1];
        }
        found[column] = now > found[column] ? now : found[column];
    }
    for (int column = axis_column(&axis, trace_time(rig.model.trace, 1)); column <= before; column++)
        assert_int_equal(most[column], found[column]);
    rig_end(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(squeezed_time_is_monotone_and_comes_back),
        cmocka_unit_test(nobody_works_in_what_is_squeezed),
        cmocka_unit_test(zooming_in_and_out_and_panning_there_and_back_give_the_same_frame),
        cmocka_unit_test(routes_go_under_spans),
        cmocka_unit_test(an_arranged_timeline_stays_inside_its_pane),
        cmocka_unit_test(every_lane_has_one_place_and_the_selected_one_a_row),
        cmocka_unit_test(a_curve_is_the_most_that_there_was_in_each_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
