/* Looking around: who carries out which command. Interface: look, with a parsed command. */
#include "look_internal.h"

#include "answering.h"
#include "base/str.h"
#include "base/vec.h"
#include "panes.h"

#include <string.h>

static void
enter(struct view *view, struct model *model)
{
    size_t question = answering_waits(view, model);
    if (question == NO_EVENT && view->focus != PANE_TIMELINE && pane_has_choices(view->focus)) {
        pane_enter(model, view, view->focus);
        return;
    }
    if (question == NO_EVENT)
        zoom_into(view, model);
    else
        answering_take(view, model);
}

static void
say_where(struct view *view, const struct model *model)
{
    struct str text = { 0 };
    view_print_event(view, model, &text);
    view_say(view, "%s", str_text(&text));
    str_free(&text);
}

static bool
close_or_leave(struct view *view)
{
    bool open = view->help || view->full;
    if (view->help)
        view->help = HELP_NONE;
    else
        view->full = false;
    return open;
}

/* Tables of commands, each in the file of its name. */
static const struct look_rule *const tables[] = {
    look_move_rules, look_find_rules, look_zoom_rules, look_pane_rules, look_timeline_rules, look_mark_rules,
    look_option_rules, look_word_rules, look_export_rules, look_fault_rules, look_lesson_rules,
};

bool
look(struct model *model, struct view *view, const struct command_line *line)
{
    if (line->command == CMD_quit)
        return close_or_leave(view);
    if (line->command == CMD_into)
        enter(view, model);
    if (line->command == CMD_where)
        say_where(view, model);
    for (size_t i = 0; i < countof(tables); i++)
        for (const struct look_rule *rule = tables[i]; rule->carry != NULL; rule++)
            if (rule->command == line->command)
                rule->carry(view, model, line);
    return true;
}
