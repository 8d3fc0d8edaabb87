/* The tasks pane: each lane with its innermost open stage, and the locks that somebody holds. */
#include "panes.h"

#include "analysis/state.h"
#include "base/str.h"
#include "base/vec.h"
#include "trace/reader.h"

#include <string.h>

/* Each lane with its innermost open span; then the locks that somebody holds. */
static void
draw_tasks(const struct model *model, const struct view *view, struct canvas *pane, int row)
{
    struct state_lock locks[32];
    size_t count = state_locks(model->state, locks, countof(locks));
    for (size_t i = 0; i < count && i < countof(locks); i++) {
        const char *holder = locks[i].holder_lane < 0
                                 ? "free" : trace_lane_at(model->trace, (size_t)locks[i].holder_lane)->name;
        canvas_textf(pane, row++, 1, (struct style){ .attr = ATTR_BOLD }, "lock %.40s: %.40s, %zu waiting",
                     locks[i].name, holder, locks[i].waiting);
    }
    struct str text = { 0 };
    for (size_t i = 0; i < model->lane_count && row < pane->height; i++) {
        const struct trace_lane_info *lane = trace_lane_at(model->trace, i);
        if (lane->kind == LANE_LESSON)
            continue;
        bool told = lane->name[0] == 'r' && lane->name[1] >= '0' && lane->name[1] <= '9';
        if (model->ranked && lane->rank >= 0 && !told)
            str_addf(&text, "r%d ", lane->rank);
        str_add(&text, lane->name);
        canvas_cut(pane, (struct stretch){ row, 1, 18 },
                   (struct style){ .attr = (int)i == view->lane ? ATTR_BOLD : 0 }, canvas_words(pane, &text));
        str_clear(&text);
        size_t open[16], depth = state_open(model->state, (uint32_t)i, open, countof(open));
        enum work work = WORK_NONE;
        if (depth > 0 && depth <= countof(open)) {
            model_label(model, open[depth - 1], &text);
            work = model_work(model, open[depth - 1]);
        }
        canvas_cut(pane, (struct stretch){ row++, 20, pane->width - 21 },
                   (struct style){ .ink = work == WORK_NONE ? INK_DIM : work },
                   depth == 0 ? "idle" : depth > countof(open) ? "deep inside" : canvas_words(pane, &text));
        str_clear(&text);
    }
    str_free(&text);
}

static void
draw(const struct scene *scene, struct canvas *pane, int skip)
{
    draw_tasks(scene->model, scene->view, pane, -skip);
}

static enum concern
concern(const struct scene *scene)
{
    enum work work = model_work(scene->model, scene->view->cursor);
    return work == WORK_WAIT || strncmp(model_kind(scene->model, scene->view->cursor), "lock.", 5) == 0
               ? CONCERN_EVENT : CONCERN_SOME;
}

const struct pane_kind tasks_pane = { .name = "Tasks", .least_columns = 28, .compares = true, .of_state = true,
                                      .concern = concern, .draw = draw };
