/* Marks, and back to where one jumped from. */
#include "look_internal.h"

#include "base/str.h"
#include "trace/reader.h"

#include <string.h>

static void
mark(struct view *view, struct model *model, const struct command_line *line)
{
    (void)model;
    if (view->cursor == NO_EVENT)
        return;
    if (line->rest[1] != '\0' || !marks_set(&view->marks, line->rest[0], view->cursor))
        view_say(view, "a mark is a letter, not %.40s", line->rest);
    else
        view_say(view, "event %zu is mark %c; '%c comes back", view->cursor, line->rest[0], line->rest[0]);
}

static void
stand(struct view *view, const struct model *model, size_t seq)
{
    if (seq >= model->seen)
        view_say(view, "event %zu is not in this record", seq);
    else if (veil_hides(&view->veil, model, seq))
        view_say(view, "it is hidden until you answer");
    else
        view_goto(view, model, seq);
}

static void
jump(struct view *view, struct model *model, const struct command_line *line)
{
    size_t seq, here = view->cursor;
    bool   back = line->rest[0] == '\0' || line->has_count;
    if (here == NO_EVENT)
        return;
    if (back && marks_return(&view->marks, (int)(line->count < JUMPS ? line->count : JUMPS + 1), here, &seq)) {
        stand(view, model, seq);
    } else if (back) {
        view_say(view, view->marks.jump_count == 0 ? "there was no jump yet" : "there were only %d jumps",
                 view->marks.jump_count);
    } else if (line->rest[1] != '\0' || !marks_find(&view->marks, line->rest[0], &seq)) {
        view_say(view, "there is no mark %.40s; \" and a letter sets one", line->rest);
    } else {
        marks_leave(&view->marks, here);
        stand(view, model, seq);
    }
}

static void
add_place(const struct view *view, const struct model *model, const char *name, size_t seq, struct str *out)
{
    str_addf(out, "%-3s ", name);
    if (seq < model->seen && !veil_hides(&view->veil, model, seq)) {
        trace_print_time(trace_time(model->trace, seq), out);
        str_addf(out, "  %zu %s ", seq, model_kind(model, seq));
        model_label(model, seq, out);
    } else {
        str_addf(out, "%zu", seq);
    }
    str_add(out, "\n");
}

static void
marks(struct view *view, struct model *model, const struct command_line *line)
{
    struct str text = { 0 };
    char       letter;
    size_t     seq;
    (void)line;
    for (int i = 0; marks_take(&view->marks, i, &letter, &seq); i++)
        add_place(view, model, (char[2]){ letter, '\0' }, seq, &text);
    for (int i = view->marks.jump_count - 1; i >= 0; i--)
        add_place(view, model, "''", view->marks.jumps[i], &text);
    if (text.len == 0)
        view_say(view, "no marks yet; \" and a letter sets one");
    else if (str_ok(&text))
        view_answer(view, str_text(&text));
    str_free(&text);
}

const struct look_rule look_mark_rules[] = {
    { CMD_mark, mark },
    { CMD_jump, jump },
    { CMD_marks, marks },
    { 0, NULL },
};
