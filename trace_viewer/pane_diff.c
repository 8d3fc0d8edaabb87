/* The diff pane: where two runs are not the same, the first place first, since it is the cause more often than not;
 * then the stages whose time changed most. */
#include "panes.h"

#include "analysis/diff.h"
#include "base/str.h"
#include "base/vec.h"
#include "glyph.h"
#include "trace/join.h"
#include "trace/reader.h"

#include <string.h>

enum { STAGES_FROM = 9 /* rows; below that the first difference is enough */, STAGE_SHARE = 2, NAMES = 26 };

static void
draw_stages(const struct scene *scene, struct canvas *pane, int row)
{
    size_t                   count;
    const struct diff_stage *stages = diff_stages(scene->model->diff, &count);
    canvas_text(pane, row++, 1, (struct style){ .ink = INK_DIM }, "time in stages, in A and in B");
    for (size_t i = 0; i < count && row < pane->height; i++, row++) {
        struct str text = { 0 };
        bool       faster = stages[i].ps[0] < stages[i].ps[1], same = stages[i].ps[0] == stages[i].ps[1];
        trace_print_time(stages[i].ps[0], &text);
        str_add(&text, same ? " = " : faster ? " < " : " > ");
        trace_print_time(stages[i].ps[1], &text);
        if (stages[i].count[0] != stages[i].count[1])
            str_addf(&text, "  (%zu, %zu)", (size_t)stages[i].count[0], (size_t)stages[i].count[1]);
        int names = pane->width / 2 < NAMES ? pane->width / 2 : NAMES;
        canvas_cut(pane, (struct stretch){ row, 1, names - 2 }, (struct style){ 0 },
                   trace_kind(scene->model->trace, stages[i].kind)->name);
        canvas_cut(pane, (struct stretch){ row, names, pane->width - names - 1 }, (struct style){ 0 },
                   canvas_words(pane, &text));
        str_free(&text);
    }
}

static void
draw(const struct scene *scene, struct canvas *pane, int skip)
{
    size_t count, all;
    if (scene->model->diff == NULL) {
        canvas_cut(pane, (struct stretch){ 0, 1, pane->width - 2 }, (struct style){ .ink = INK_DIM },
                   "two traces are compared by trace_viewer --diff A B");
        return;
    }
    const struct difference *list = diff_list(scene->model->diff, &count, &all);
    int rows = pane->height >= STAGES_FROM ? pane->height / STAGE_SHARE : pane->height, row = 0;
    struct str head = { 0 };
    str_addf(&head, "A %.60s  B %.60s: %zu differences", trace_option_of(scene->model->trace, JOIN_PART "0"),
             trace_option_of(scene->model->trace, JOIN_PART "1"), all);
    if (all > 0 && glyph_width(str_text(&head), pane->width) + 11 <= pane->width - 2)
        str_add(&head, ", in order:");
    canvas_cut(pane, (struct stretch){ row++, 1, pane->width - 2 }, (struct style){ .attr = ATTR_BOLD },
               canvas_words(pane, &head));
    str_free(&head);
    for (size_t i = (size_t)skip; i < count && row < rows; i++, row++) {
        struct str text = { 0 };
        bool       here = (int)i == scene->view->panes[PANE_DIFF].line;
        bool       focused = scene->view->focus == PANE_DIFF;
        diff_print(scene->model->diff, &list[i], list[i].seq, &text);
        canvas_put(pane, row, 1, (struct style){ .ink = INK_ACCENT, .attr = ATTR_BOLD },
                   here && focused ? 0x25ba : ' ');
        canvas_cut(pane, (struct stretch){ row, 3, pane->width - 4 }, (struct style){ .attr = here ? ATTR_BOLD : 0 },
                   canvas_words(pane, &text));
        str_free(&text);
    }
    if (rows < pane->height)
        draw_stages(scene, pane, row + (count > 0));
}

static enum concern
concern(const struct scene *scene)
{
    return scene->model->diff != NULL ? CONCERN_EVENT : CONCERN_NONE;
}

static int
rows(const struct scene *scene)
{
    size_t count = 0;
    if (scene->model->diff != NULL)
        diff_list(scene->model->diff, &count, NULL);
    return (int)count;
}

static void
enter(struct model *model, struct view *view, int row)
{
    size_t                   count = 0;
    const struct difference *list = model->diff != NULL ? diff_list(model->diff, &count, NULL) : NULL;
    if (row >= 0 && (size_t)row < count)
        view_goto(view, model, list[row].seq);
}

const struct pane_kind diff_pane = { .name = "Diff", .least_columns = 40, .concern = concern, .draw = draw,
                                     .rows = rows, .enter = enter };
