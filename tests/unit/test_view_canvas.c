/* The grid of cells and the door for untrusted text. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "../../trace_viewer/canvas.h"
#include "../../trace_viewer/glyph.h"
#include "../../trace_viewer/scale.h"
#include "base/rng.h"
#include "base/str.h"

static const struct capabilities plain = { .utf8 = true };

static void
no_control_character_passes_the_door(void **state)
{
    uint64_t random = 7;
    char text[65] = { 0 };
    for (int round = 0; round < 20000; round++) {
        for (int i = 0; i < 64; i++)
            text[i] = (char)(splitmix(&random) % 255 + 1);
        const char *at = text;
        for (struct glyph glyph = glyph_next(&at); glyph.code != 0; glyph = glyph_next(&at)) {
            assert_true(glyph.code >= 0x20 && glyph.code != 0x7f && !(glyph.code >= 0x80 && glyph.code < 0xa0));
            assert_true(glyph.code < 0x202a || glyph.code > 0x202e);
            assert_true(glyph.width == (int)strlen(glyph.spelled) || glyph.spelled[0] == '\0');
            assert_true(glyph.width == 1 || glyph.width == 2 || glyph.code == '\\');
        }
        assert_true(at == text + strlen(text));
    }
}

static void
what_may_not_go_out_takes_as_many_cells_as_it_is_spelled_with(void **state)
{
    const char *at = "\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80";
    for (struct glyph glyph = glyph_next(&at); glyph.code != 0; glyph = glyph_next(&at))
        assert_true(glyph.width == 4 && strncmp(glyph.spelled, "\\x", 2) == 0);
    struct canvas canvas;
    struct str    text = { 0 };
    assert_true(canvas_init(&canvas, 20, 1));
    assert_int_equal(canvas_text(&canvas, 0, 0, (struct style){ 0 }, "\x1b[0m\xe2\x80\xae\n!"), 18);
    assert_int_equal(canvas_text(&canvas, 0, 18, (struct style){ 0 }, "\x07"), 18); /* whole or not at all */
    canvas_print(&canvas, &plain, false, &text);
    assert_string_equal(str_text(&text), "\\x1b[0m\\u{202e}\\n!\n");
    str_free(&text);
    canvas_free(&canvas);
    assert_int_equal(glyph_width("a\xcc\x81" "b", 10), 2);
    assert_int_equal(glyph_width("\xe5\xad\x97", 10), 2);
    assert_int_equal(glyph_width("\x1b[0m", 10), 7);
}

static void
nothing_is_drawn_outside_a_part(void **state)
{
    struct canvas canvas;
    assert_true(canvas_init(&canvas, 20, 6));
    struct style mark = { .attr = ATTR_BOLD };
    for (int row = 0; row < 6; row++)
        canvas_fill(&canvas, row, mark, 'x');
    struct canvas part = canvas_part(&canvas, 2, 5, 2, 7);
    canvas_clear(&part);
    for (int row = -3; row < 9; row++) {
        canvas_text(&part, row, -2, (struct style){ 0 }, "a long text with \xe5\xad\x97\xe5\xad\x97 at its end");
        canvas_cut(&part, (struct stretch){ row, 1, 100 }, (struct style){ 0 },
                   "a long text that is cut in its middle");
        canvas_right(&part, row, (struct style){ 0 }, "right, and longer than the part is wide");
        canvas_put(&part, row, 7, (struct style){ 0 }, 'y');
    }
    canvas_wrap(&part, &(struct lines){ 0 }, 0, (struct style){ 0 },
                "words that are wrapped over many more lines than there are");
    for (int row = 0; row < 6; row++)
        for (int column = 0; column < 20; column++)
            if (row < 2 || row > 3 || column < 5 || column > 11) {
                assert_int_equal(canvas_at(&canvas, row, column)->code, 'x');
                assert_int_equal(canvas_at(&canvas, row, column)->style.attr, ATTR_BOLD);
            }
    canvas_free(&canvas);
}

static void
a_wide_character_never_shifts_its_row(void **state)
{
    struct canvas canvas;
    assert_true(canvas_init(&canvas, 6, 1));
    canvas_text(&canvas, 0, 0, (struct style){ 0 }, "\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97");
    canvas_put(&canvas, 0, 3, (struct style){ 0 }, 'a'); /* over the right half of the second */
    canvas_put(&canvas, 0, 4, (struct style){ 0 }, 'b'); /* over the left half of the third */
    struct str text = { 0 };
    canvas_print(&canvas, &plain, false, &text);
    assert_string_equal(str_text(&text), "\xe5\xad\x97\xc2\xb7" "ab\xc2\xb7\n");
    str_free(&text);
    canvas_free(&canvas);
}

static void
a_long_text_is_cut_in_its_middle(void **state)
{
    struct canvas canvas;
    assert_true(canvas_init(&canvas, 12, 1));
    canvas_cut(&canvas, (struct stretch){ 0, 0, 12 }, (struct style){ 0 }, "reduce_add_coalesced");
    struct str text = { 0 };
    canvas_print(&canvas, &(struct capabilities){ .utf8 = false }, false, &text);
    assert_string_equal(str_text(&text), "reduce_a~ced\n");
    str_free(&text);
    canvas_free(&canvas);
}

static void
zooming_in_and_out_comes_back(void **state)
{
    uint64_t unit = 1000;
    for (int i = 0; i < 39; i++) {
        uint64_t coarser = scale_coarser(unit);
        assert_true(coarser > unit);
        assert_true(scale_finer(coarser) == unit);
        unit = coarser;
    }
}

static void
a_column_never_overlaps_its_neighbour(void **state)
{
    uint64_t random = 3;
    for (int round = 0; round < 20000; round++) {
        struct scale scale = { 1000, (int64_t)(splitmix(&random) % 1000), 1 + (int)(splitmix(&random) % 300), 0 };
        for (uint64_t zoom = splitmix(&random) % 30; zoom > 0; zoom--)
            scale.unit = scale_coarser(scale.unit);
        int column = (int)(splitmix(&random) % (uint64_t)scale.columns);
        uint64_t left = scale_time(&scale, column), right = scale_time(&scale, column + 1);
        assert_int_equal(scale_column(&scale, left), column);
        assert_int_equal(scale_column(&scale, right - 1), column);
        assert_int_equal(scale_column(&scale, right), column + 1);
        assert_int_equal(scale_eighths(&scale, left), 8 * column);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_control_character_passes_the_door),
        cmocka_unit_test(what_may_not_go_out_takes_as_many_cells_as_it_is_spelled_with),
        cmocka_unit_test(nothing_is_drawn_outside_a_part),
        cmocka_unit_test(a_wide_character_never_shifts_its_row),
        cmocka_unit_test(a_long_text_is_cut_in_its_middle),
        cmocka_unit_test(zooming_in_and_out_comes_back),
        cmocka_unit_test(a_column_never_overlaps_its_neighbour),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
