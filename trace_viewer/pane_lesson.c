/* The lesson's words so far: what was said, asked and checked up to the cursor, and the line of the lesson that
 * runs. The answer of the question one stands at is masked until it was asked for. Interface: lesson_draw; for other
 * panes lesson_line, lesson_text_end. */
#include "panes.h"

#include "base/str.h"
#include "trace/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_BACK = 100000 };

uint32_t
lesson_line(const struct model *model, size_t seq)
{
    for (size_t looked = 0; looked < LOOK_BACK && looked <= seq; looked++) {
        const struct trace_event *event = trace_event(model->trace, seq - looked);
        if (event != NULL && event->line > 0)
            return event->line;
    }
    return 0;
}

const char *
lesson_text_end(const struct model *model, const struct view *view, const char *text)
{
    const char *end = text + strlen(text);
    if (view_question(view, model) == NO_EVENT)
        return end;
    for (uint32_t line = lesson_line(model, view->cursor); line > 1 && text < end; line--)
        text += strcspn(text, "\n") + 1;
    const char *answer = text < end ? strstr(text, "answer") : NULL;
    return answer != NULL ? answer : end;
}

/* The lesson's text around its current line, `rows` of it from `row` on. */
static void
draw_lines(const struct model *model, const struct view *view, struct canvas *pane, int row, int rows)
{
    const char *path, *text = trace_source_text(model->trace, &path);
    const char *end = lesson_text_end(model, view, text);
    uint32_t current = lesson_line(model, view->cursor), number = 1;
    uint32_t first = current > (uint32_t)rows / 2 ? current - (uint32_t)rows / 2 : 1;
    while (text < end && number < first + (uint32_t)rows) {
        size_t length = strcspn(text, "\n");
        length = length < (size_t)(end - text) ? length : (size_t)(end - text);
        if (number >= first) {
            char line[512];
            snprintf(line, sizeof line, "%.*s", (int)(length < sizeof line ? length : sizeof line - 1), text);
            bool here = number == current;
            struct style style = { .attr = here ? ATTR_BOLD : 0, .ink = here ? INK_PLAIN : INK_DIM };
            if (here)
                canvas_put(pane, row, 0, (struct style){ .ink = INK_ACCENT, .attr = ATTR_BOLD }, 0x25ba);
            int column = canvas_textf(pane, row, 1, (struct style){ .ink = INK_DIM }, "%3u ", number);
            canvas_text(pane, row++, column, style, line);
        }
        number++;
        text += length + (text[length] == '\n');
    }
}

static void
draw_item(const struct model *model, const struct view *view, size_t seq, struct canvas *pane, struct lines *lines)
{
    bool here = seq == view->cursor;
    struct style style = { .attr = here ? ATTR_BOLD : 0 };
    struct str text = { 0 };
    if (model_is_lesson(model, seq, "say")) {
        str_add(&text, model_argument_text(model, seq, "text"));
    } else if (model_is_lesson(model, seq, "ask")) {
        style.ink = INK_ACCENT;
        bool masked = here && !view_is_revealed(view, seq);
        str_addf(&text, "? %s\n%s%s", model_argument_text(model, seq, "question"), masked ? "" : "-> ",
                 masked ? "Enter shows the answer" : model_argument_text(model, seq, "answer"));
    } else if (model_is_lesson(model, seq, "check")) {
        int64_t ok = 0;
        model_argument(model, seq, "ok", &ok);
        style.ink = ok ? INK_GOOD : WORK_FAULT;
        str_addf(&text, "%s %s", ok ? "ok" : "NOT OK", model_argument_text(model, seq, "text"));
    } else if (model_work(model, seq) == WORK_FAULT) {
        const char *report = model_argument_text(model, seq, "report");
        style.ink = WORK_FAULT;
        str_addf(&text, "\u00d7 %s: %s", model_kind(model, seq),
                 report[0] != '\0' ? report : model_argument_text(model, seq, "message"));
    }
    canvas_wrap(pane, lines, 1, style, canvas_words(pane, &text));
    str_free(&text);
}

/* The items up to the cursor, the last ones last, so that the newest is always on the screen. Answers the rows used. */
static int
draw_said(const struct model *model, const struct view *view, struct canvas *pane)
{
    size_t count = 0;
    while (count < model->lesson_count && model->lessons[count] <= view->cursor)
        count++;
    /* From the newest item backwards, as many as fit: how many rows each takes is tried out. */
    size_t first = count;
    int rows = 0;
    struct canvas probe = { 0 };
    if (!canvas_init(&probe, pane->width > 0 ? pane->width : 1, 400)) {
        canvas_starve(pane);
        return 0;
    }
    while (first > 0 && rows < pane->height + view->scroll[PANE_LESSON]) {
        struct lines tried = { 0, 0 };
        draw_item(model, view, model->lessons[--first], &probe, &tried);
        rows += tried.row;
    }
    canvas_free(&probe);
    int skip = rows - pane->height - view->scroll[PANE_LESSON];
    struct lines lines = { .skip = skip > 0 ? skip : 0 };
    for (size_t i = first; i < count && lines.row < pane->height; i++)
        draw_item(model, view, model->lessons[i], pane, &lines);
    return lines.row;
}

void
lesson_draw(const struct model *model, const struct view *view, struct canvas *pane,
            const struct capabilities *capabilities)
{
    (void)capabilities;
    if (view->cursor == NO_EVENT || pane->height <= 0)
        return;
    const char *path, *text = trace_source_text(model->trace, &path);
    int lines = text[0] == '\0' || pane->height < 4 ? 0 : pane->height < 8 ? 1 : pane->height * 2 / 5;
    struct canvas words = canvas_part(pane, 0, 0, pane->height - lines, pane->width);
    int used = draw_said(model, view, &words);
    int from = lines > 1 ? used + 1 : pane->height - lines; /* what the words leave */
    draw_lines(model, view, pane, from, pane->height - from);
}
