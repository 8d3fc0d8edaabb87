/* Rows of large lanes: what the pyramid paints is what a walk over all spans paints, and where there is no time for
 * that, what a rough row may leave out and what not. */
#include "view_rig.h"
#include "../../trace_viewer/busy.h"
#include "../../trace_viewer/strip.h"

enum { COLUMNS = 120 };

/* A lane of many short stages in stages, with pauses, marks and a few faults, as `rig_random` makes them, but more. */
static void
large(struct rig *rig, uint64_t seed, int events)
{
    static const int stages[] = { KIND_dp_forward, KIND_op, KIND_autograd_node, KIND_lock_wait, KIND_c10d_allreduce,
                                  KIND_kernel };
    static const uint64_t decades[] = { 1, 1000, 30000, 900000 };
    uint64_t state = seed;
    rig_begin(rig);
    for (int i = 0; i < events; i++) {
        uint32_t lane = (uint32_t)(splitmix(&state) % 2);
        rig->now += splitmix(&state) % decades[splitmix(&state) % 4];
        if (splitmix(&state) % 2 == 0 && rig->depth[lane] < 5)
            rig_event(rig, PHASE_BEGIN, stages[splitmix(&state) % 6], lane, 0);
        else if (rig->depth[lane] > 0)
            rig_event(rig, PHASE_END, rig->open[lane][rig->depth[lane] - 1], lane, 0);
        else if (splitmix(&state) % 40 == 0)
            rig_event(rig, PHASE_INSTANT, KIND_fault_race, lane, 0);
        else
            rig_event(rig, PHASE_INSTANT, KIND_memory_alloc, lane, 0);
    }
    rig_read(rig);
}

static struct strip
row(const struct rig *rig, struct strip_cell *cells, size_t lane, const struct scale *scale)
{
    return (struct strip){ .model = &rig->model, .lane = lane, .cells = cells, .veil = &rig->view.veil, .last = LEVELS,
                           .selected = NO_EVENT, .cursor = -1, .scale = *scale };
}

static struct scale
some_scale(const struct rig *rig, uint64_t *random)
{
    struct scale scale = { .unit = scale_unit_for(rig->model.end, COLUMNS), .columns = COLUMNS };
    for (uint64_t zoom = splitmix(random) % 12; zoom > 0; zoom--)
        scale.unit = scale_finer(scale.unit);
    scale.left = (int64_t)(splitmix(random) % (rig->model.end / scale.unit + 1));
    return scale;
}

static void
assert_same_span(const struct span *one, const struct span *other)
{
    assert_int_equal(one != NULL, other != NULL);
    if (one != NULL)
        assert_true(one->seq == other->seq && one->begin == other->begin && one->end == other->end &&
                    one->work == other->work);
}

static void
assert_same_cells(const struct strip_cell *one, const struct strip_cell *other)
{
    for (int column = 0; column < COLUMNS; column++) {
        const struct strip_cell *a = &one[column], *b = &other[column];
        assert_same_span(a->left, b->left);
        assert_same_span(a->right, b->right);
        assert_true(a->busy == b->busy && a->longest == b->longest && a->tiny == b->tiny && a->marks == b->marks);
        assert_true(a->cut == b->cut && a->work == b->work && a->mark_work == b->mark_work);
        assert_true(a->mixed == b->mixed && a->fault == b->fault);
    }
}

/* What lets everything through has every span looked at. */
static bool
hides_nothing(const void *what, const struct model *model, size_t seq)
{
    return false;
}

static void
an_exact_row_is_what_a_walk_over_all_spans_paints(void **state)
{
    struct strip_cell quick[COLUMNS], slow[COLUMNS];
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct rig rig;
        uint64_t random = seed;
        large(&rig, seed, 24000);
        for (int round = 0; round < 24; round++) {
            struct scale scale = some_scale(&rig, &random);
            struct strip one = row(&rig, quick, (size_t)round % 2, &scale);
            struct strip other = row(&rig, slow, (size_t)round % 2, &scale);
            one.first = other.first = round % 3;
            other.sieve = (struct sieve){ .hides = hides_nothing, .sum = 1 };
            strip_paint(&one);
            strip_paint(&other);
            assert_false(one.rough);
            assert_same_cells(quick, slow);
        }
        rig_end(&rig);
    }
}

static void
a_rough_row_hides_no_fault_and_leaves_no_touched_cell_blank(void **state)
{
    struct strip_cell exact[COLUMNS], hasty[COLUMNS];
    int rough = 0;
    for (uint64_t seed = 4; seed <= 6; seed++) {
        struct rig rig;
        uint64_t random = seed;
        large(&rig, seed, 24000);
        for (int round = 0; round < 24; round++) {
            struct scale scale = some_scale(&rig, &random);
            struct strip one = row(&rig, hasty, (size_t)round % 2, &scale);
            struct strip other = row(&rig, exact, (size_t)round % 2, &scale);
            shelf_begin(rig.model.shelf, 1);
            strip_paint(&one);
            rough += one.rough;
            assert_int_equal(shelf_is_rough(rig.model.shelf), one.rough);
            shelf_begin(rig.model.shelf, SIZE_MAX);
            strip_paint(&other);
            assert_false(other.rough);
            for (int column = 0; column < COLUMNS; column++) {
                const struct strip_cell *a = &hasty[column], *b = &exact[column];
                assert_true(a->fault || !b->fault);
                bool touched = b->tiny > 0 || b->marks > 0 || b->left != NULL || b->right != NULL;
                assert_true(!touched || a->tiny > 0 || a->marks > 0 || a->left != NULL || a->right != NULL);
            }
        }
        rig_end(&rig);
    }
    assert_true(rough > 10);
}

static void
busy_time_over_all_columns_is_that_of_the_lane(void **state)
{
    struct rig rig;
    uint64_t columns[COLUMNS] = { 0 };
    static const bool first[RIG_LANES] = { true };
    large(&rig, 7, 20000);
    uint64_t unit = scale_unit_for(rig.model.end, COLUMNS), busy = 0, known = 0;
    struct scale scale = { .unit = unit, .columns = COLUMNS };
    busy_columns(&rig.model, &rig.view.veil, first, &scale, columns);
    struct span span;
    size_t empty = 0;
    for (size_t i = 0; index_span(rig.model.index, 0, 0, i, &span); i++) {
        uint64_t end = span.end == STILL_OPEN ? rig.model.end : span.end;
        known += span.work == WORK_WAIT ? 0 : end - span.begin;
        empty += end == span.begin;
    }
    for (int column = 0; column < COLUMNS; column++)
        busy += columns[column];
    assert_in_range(busy, known, known + empty);
    rig_end(&rig);
}

static void
what_a_pan_shows_anew_is_what_was_there(void **state)
{
    struct strip_cell here[COLUMNS], there[COLUMNS];
    struct rig rig;
    uint64_t random = 9;
    large(&rig, 8, 12000);
    for (int round = 0; round < 30; round++) {
        struct scale scale = some_scale(&rig, &random), moved = scale;
        moved.left += 7;
        struct strip one = row(&rig, here, 0, &scale), other = row(&rig, there, 0, &moved);
        strip_paint(&one);
        strip_paint(&other);
        for (int column = 8; column < COLUMNS - 1; column++) { /* but for what is cut off at an edge */
            assert_int_equal(here[column].tiny, there[column - 7].tiny);
            assert_true(here[column].busy == there[column - 7].busy);
            assert_same_span(here[column].left, there[column - 7].left);
            assert_same_span(here[column].right, there[column - 7].right);
        }
    }
    rig_end(&rig);
}

static void
a_row_that_was_painted_is_not_painted_again_until_it_grows(void **state)
{
    struct strip_cell before[COLUMNS], after[COLUMNS];
    struct rig rig;
    large(&rig, 10, 3000);
    struct scale scale = { .unit = scale_unit_for(rig.model.end * 2, COLUMNS), .columns = COLUMNS };
    struct strip one = row(&rig, before, 0, &scale);
    shelf_begin(rig.model.shelf, SIZE_MAX);
    strip_paint(&one);
    shelf_begin(rig.model.shelf, 1); /* not enough to paint it, but it is there */
    struct strip again = row(&rig, after, 0, &scale);
    strip_paint(&again);
    assert_false(again.rough);
    assert_memory_equal(before, after, sizeof before);
    rig.now += scale.unit * 3;
    rig_event(&rig, PHASE_INSTANT, KIND_fault_race, 0, 0);
    assert_true(model_refresh(&rig.model));
    shelf_begin(rig.model.shelf, SIZE_MAX);
    strip_paint(&again);
    assert_true(after[scale_column(&scale, rig.now)].fault);
    rig_end(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exact_row_is_what_a_walk_over_all_spans_paints),
        cmocka_unit_test(a_rough_row_hides_no_fault_and_leaves_no_touched_cell_blank),
        cmocka_unit_test(busy_time_over_all_columns_is_that_of_the_lane),
        cmocka_unit_test(what_a_pan_shows_anew_is_what_was_there),
        cmocka_unit_test(a_row_that_was_painted_is_not_painted_again_until_it_grows),
    };
    return cmocka_run_group_tests_name("view_strip", tests, NULL, NULL);
}
