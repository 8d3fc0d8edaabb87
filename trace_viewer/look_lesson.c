/* What a student asks of a lesson: its questions, its hints, its text. */
#include "look_internal.h"

#include "answering.h"
#include <string.h>

static void
question(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    answering_return(view, model);
}

static void
answer(struct view *view, struct model *model, const struct command_line *line)
{
    answering_answer(view, model, line->rest);
}

static void
later(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    if (view_question(view, model) == NO_EVENT)
        view_say(view, "no question waits here");
    else
        answering_put_off(view, view->cursor);
}

static void
reveal(struct view *view, struct model *model, const struct command_line *line)
{
    answering_reveal(view, model, line->rest);
}

/* The whole screen and the keys for the lesson's text; again: as it was. */
static void
read_lesson(struct view *view, struct model *model, const struct command_line *line)
{
    (void)model;
    (void)line;
    view->reading = !(view->reading && view->full);
    view->full    = view->reading;
    view->focus   = view->reading ? PANE_SOURCE : PANE_TIMELINE;
    view->panes[PANE_SOURCE].scroll = 0;
}

static void
layout(struct view *view, struct model *model, const struct command_line *line)
{
    (void)model;
    bool teach = strcmp(line->rest, "teach") == 0;
    if (!teach && strcmp(line->rest, "step") != 0) {
        view_say(view, "layout takes step or teach");
        return;
    }
    view->teaches = teach;
    view->full    = false;
    view->focus   = PANE_TIMELINE;
}

static void
hint(struct view *view, struct model *model, const struct command_line *line)
{
    (void)model;
    (void)line;
    view->hints++;
    view->chosen = PANE_HINTS;
}

static void
predict(struct view *view, struct model *model, const struct command_line *line)
{
    (void)model;
    bool on = strcmp(line->rest, "on") == 0;
    if (!on && strcmp(line->rest, "off") != 0) {
        view_say(view, "predict takes on or off");
        return;
    }
    view->predict.on = on;
    view_say(view, on ? "next asks first; Enter alone shows it" : "next asks nothing of its own any more");
}

const struct look_rule look_lesson_rules[] = {
    { CMD_answer, answer },
    { CMD_later, later },
    { CMD_question, question },
    { CMD_reveal, reveal },
    { CMD_layout, layout },
    { CMD_read, read_lesson },
    { CMD_hint, hint },
    { CMD_predict, predict },
    { 0, NULL },
};
