/* Help for whoever is stuck: the checks that failed so far, with their lines and what was expected, hints to the last
 * of them one after the other, and the questions that were put off. */
#include "panes.h"

#include "base/str.h"
#include "base/visible.h"
#include "trace/reader.h"

#include <string.h>

enum { CHECKS = 20, HINTS = 32 };

/* The failed check at or before the cursor, the `back`-th from the last; NO_EVENT: there is none. */
static size_t
failed_check(const struct scene *scene, int back)
{
    const struct model *model = scene->model;
    size_t low = 0, high = model->fault_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (model->faults[middle] <= scene->view->cursor)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low > 0; low--)
        if (model_is_lesson(model, model->faults[low - 1], "check") && back-- == 0)
            return model->faults[low - 1];
    return NO_EVENT;
}

static void
add_line(const char *text, size_t length, const char **hints, int *count)
{
    if (length > 0 && *count < HINTS)
        hints[(*count)++] = text;
}

/* Where each hint begins that helps with that check: its own, then what the lesson said of hints behind it. */
static int
collect_hints(const struct scene *scene, size_t check, const char **hints)
{
    const struct model *model = scene->model;
    int count = 0;
    for (const char *at = model_argument_text(model, check, "hints"); *at != '\0';) {
        size_t length = strcspn(at, "\n");
        add_line(at, length, hints, &count);
        at += length + (at[length] == '\n');
    }
    for (size_t i = 0; i < model->lesson_count && model->lessons[i] <= scene->view->cursor; i++)
        if (model->lessons[i] > check && model_is_lesson(model, model->lessons[i], "hint"))
            add_line(model_argument_text(model, model->lessons[i], "text"), 1, hints, &count);
    return count;
}

static void
draw_check(const struct scene *scene, size_t seq, struct canvas *pane, struct lines *lines)
{
    const struct trace_event *event = trace_event(scene->model->trace, seq);
    const char *name = model_argument_text(scene->model, seq, "text");
    const char *detail = model_argument_text(scene->model, seq, "detail");
    struct str  text = { 0 };
    bool edited = view_is_edited(scene->view, seq);
    str_add(&text, edited ? "not ok in the changed run: " : "\u00d7 ");
    visible_add(&text, name, strlen(name), VISIBLE_LINE);
    if (event->rank >= 0)
        str_addf(&text, "  r%d", event->rank);
    if (event->line > 0)
        str_addf(&text, "  line %u", event->line);
    canvas_wrap(pane, lines, 1, (struct style){ .ink = edited ? INK_ACCENT : WORK_FAULT, .attr = ATTR_BOLD },
                canvas_words(pane, &text));
    str_free(&text);
    if (detail[0] != '\0')
        canvas_wrap(pane, lines, 3, (struct style){ 0 }, detail);
    if (edited)
        canvas_wrap(pane, lines, 3, (struct style){ 0 },
                    "the run was changed: the lesson's numbers are for the one before");
}

static void
draw_hints(const struct scene *scene, size_t check, struct canvas *pane, struct lines *lines)
{
    const char *hints[HINTS];
    int count = collect_hints(scene, check, hints), shown = scene->view->hints;
    shown = shown < count ? shown : count;
    for (int i = 0; i < shown; i++) {
        struct str text = { 0 };
        str_addf(&text, "hint %d of %d: %.*s", i + 1, count, (int)strcspn(hints[i], "\n"), hints[i]);
        canvas_wrap(pane, lines, 3, (struct style){ .ink = INK_ACCENT }, canvas_words(pane, &text));
        str_free(&text);
    }
    if (shown < count)
        canvas_wrap(pane, lines, 3, (struct style){ .ink = INK_DIM }, shown == 0 ? "H: a hint" : "H: one more hint");
    else if (count == 0)
        canvas_wrap(pane, lines, 3, (struct style){ .ink = INK_DIM }, "the lesson has no hint for it");
}

static void
draw_questions(const struct scene *scene, struct canvas *pane, struct lines *lines)
{
    const struct asking *asking = &scene->view->asking;
    for (size_t i = 0; i < asking->count; i++) {
        if (!asking_is_open(asking, asking->given[i].seq))
            continue;
        struct str  text = { 0 };
        const char *words = model_argument_text(scene->model, asking->given[i].seq, "question");
        const char *choices = strstr(words, "  a) ");
        size_t length = choices != NULL ? (size_t)(choices - words) : strlen(words);
        str_addf(&text, "? %.*s  (event %zu)", (int)length, words, asking->given[i].seq);
        canvas_wrap(pane, lines, 1, (struct style){ .ink = INK_ACCENT }, canvas_words(pane, &text));
        str_free(&text);
    }
}

static bool
has_open_ones(const struct asking *asking)
{
    for (size_t i = 0; i < asking->count && !asking->all; i++)
        if (asking->given[i].how == GIVEN_LATER)
            return true;
    return false;
}

static void
draw(const struct scene *scene, struct canvas *pane, int skip)
{
    struct lines lines = { .skip = skip, .hang = 2 };
    size_t check = failed_check(scene, 0);
    bool   open = has_open_ones(&scene->view->asking);
    if (check == NO_EVENT && !open)
        canvas_wrap(pane, &lines, 1, (struct style){ .ink = INK_DIM }, "no check has failed, no question was put off");
    if (check != NO_EVENT) {
        draw_check(scene, check, pane, &lines);
        draw_hints(scene, check, pane, &lines);
    }
    if (open) {
        canvas_wrap(pane, &lines, 1, (struct style){ .attr = ATTR_UNDERLINE }, "put off; :question comes back to them");
        draw_questions(scene, pane, &lines);
    }
    if (failed_check(scene, 1) != NO_EVENT)
        canvas_wrap(pane, &lines, 1, (struct style){ .attr = ATTR_UNDERLINE }, "failed before");
    for (int back = 1; back < CHECKS && (check = failed_check(scene, back)) != NO_EVENT; back++)
        draw_check(scene, check, pane, &lines);
}

/* At a check that fails and at a hint. */
static enum concern
concern(const struct scene *scene)
{
    size_t cursor = scene->view->cursor, check = failed_check(scene, 0);
    if (check == cursor || model_is_lesson(scene->model, cursor, "hint"))
        return CONCERN_EVENT;
    return check != NO_EVENT || has_open_ones(&scene->view->asking) ? CONCERN_SOME : CONCERN_NONE;
}

const struct pane_kind hints_pane = { .name = "Hints", .least_columns = 36, .concern = concern, .draw = draw };
