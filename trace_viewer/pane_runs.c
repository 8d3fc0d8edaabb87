/* The runs pane: what the session keeps, each a line from where it left the one it came from to its end, the present
 * one marked. Enter goes to a run; = compares the present one with it. */
#include "panes.h"

#include "base/str.h"

#include <string.h>

enum { NAMES = 5, LINE_LEAST = 12, BEGIN = 0x251c, ALONG = 0x2500, CORNER = 0x2514, END = 0x25a0, FAILED = 0xd7,
       DOTS = 0x2022 };

static size_t
longest(const struct branches *branches)
{
    size_t most = 1;
    for (int i = 0; i < branches->count; i++)
        most = branches->of[i].to > most ? branches->of[i].to : most;
    return most;
}

/* The part of the width that lies before an event. */
static int
column_of(size_t seq, size_t most, int width)
{
    return (int)((unsigned __int128)seq * (unsigned)(width - 1) / most);
}

static void
draw_line(struct canvas *pane, int row, const struct branch *branch, size_t most, int width)
{
    struct style style = { .ink = branch->present ? INK_ACCENT : INK_PLAIN, .attr = branch->present ? ATTR_BOLD : 0 };
    int from = column_of(branch->from, most, width), to = column_of(branch->to, most, width);
    bool failed = strcmp(branch->how, "failed") == 0 || strcmp(branch->how, "died") == 0;
    for (int column = from; column <= to; column++)
        canvas_put(pane, row, NAMES + column, style, ALONG);
    canvas_put(pane, row, NAMES + from, style, branch->parent > 0 ? CORNER : BEGIN);
    uint32_t end = failed ? FAILED : strcmp(branch->how, "finished") == 0 ? END : DOTS;
    canvas_put(pane, row, NAMES + to, failed ? (struct style){ .ink = WORK_FAULT, .attr = ATTR_BOLD } : style, end);
}

static void
draw(const struct scene *scene, struct canvas *pane, int skip)
{
    const struct branches *branches = &scene->view->branches;
    int    width = pane->width / 2 - NAMES > LINE_LEAST ? pane->width / 2 - NAMES : LINE_LEAST;
    size_t most = longest(branches);
    if (branches->count == 0)
        canvas_wrap(pane, &(struct lines){ .skip = skip }, 1, (struct style){ .ink = INK_DIM },
                    "one run so far: changing something in its past (set, x, delay, kill) makes another");
    for (int i = skip; i < branches->count; i++) {
        const struct branch *branch = &branches->of[i];
        bool chosen = i == scene->view->panes[PANE_RUNS].line && scene->view->focus == PANE_RUNS;
        struct style style = { .attr = branch->present || chosen ? ATTR_BOLD : 0 };
        struct str   text = { 0 };
        canvas_put(pane, i - skip, 0, (struct style){ .ink = INK_ACCENT, .attr = ATTR_BOLD }, chosen ? 0x25ba : ' ');
        canvas_textf(pane, i - skip, 1, style, "%c%d", branch->present ? '*' : ' ', branch->number);
        if (!scene->capabilities->words)
            draw_line(pane, i - skip, branch, most, width);
        str_addf(&text, "%s at %zu", branch->how, branch->to);
        if (branch->change[0] != '\0')
            str_addf(&text, ", %s at %zu", branch->change, branch->from);
        int column = scene->capabilities->words ? NAMES : NAMES + width + 1;
        canvas_cut(pane, (struct stretch){ i - skip, column, pane->width - column }, style, canvas_words(pane, &text));
        str_free(&text);
    }
}

static enum concern
concern(const struct scene *scene)
{
    return scene->view->branches.count > 1 ? CONCERN_SOME : CONCERN_NONE;
}

static int
rows(const struct scene *scene)
{
    return scene->view->branches.count;
}

static void
enter(struct model *model, struct view *view, int row)
{
    (void)model;
    if (row >= 0 && row < view->branches.count)
        view_do(view, false, "run %d", view->branches.of[row].number);
}

static const struct pane_key keys[] = {
    { "=", "compare", "where this run and the chosen one differ first" },
    { NULL, NULL, NULL },
};

static void
press(struct model *model, struct view *view, const char *key)
{
    (void)model;
    (void)key;
    int row = view->panes[PANE_RUNS].line;
    if (row < view->branches.count)
        view_do(view, false, "compare %d", view->branches.of[row].number);
}

const struct pane_kind runs_pane = { .name = "Runs", .least_columns = 40, .concern = concern, .draw = draw,
                                     .rows = rows, .enter = enter, .keys = keys, .press = press };
