/* What went wrong, in words, and which rank goes first: commands of the panes that explain hangs. */
#include "look_internal.h"

#include "parties.h"
#include "trace/match.h"

#include <stdlib.h>
#include <string.h>

/* The report of the last fault that has one, as the engine wrote it, in the pane of answers. */
static void
explain(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    for (size_t i = model->fault_count; i > 0; i--) {
        size_t seq = model->faults[i - 1];
        const char *report = model_argument_text(model, seq, "report");
        if (seq > view->cursor || report[0] == '\0' || veil_hides(&view->veil, model, seq))
            continue;
        char *copy = strdup(report);
        if (copy == NULL)
            return;
        free(view->answer);
        view->answer = copy;
        view->chosen = view->focus = PANE_ANSWER;
        view->panes[PANE_ANSWER].scroll = 0;
        return;
    }
    view_say(view, "no fault with a report so far; e goes to the next fault");
}

/* The list of events has the keys, and lists what was asked for. */
static void
events(struct view *view, struct model *model, const struct command_line *line)
{
    struct match *wanted = NULL;
    char          why[256];
    bool          all = strcmp(line->rest, "all") == 0, shown = strcmp(line->rest, "shown") == 0;
    if (line->rest[0] != '\0' && !all && !shown) {
        struct match_names names = match_names_of_trace(model->trace);
        wanted = match_compile(line->rest, &names, why, sizeof why);
        if (wanted == NULL) {
            view_say(view, "%s", why);
            return;
        }
    }
    if (line->rest[0] != '\0') {
        if (view->events != NULL)
            match_free(view->events);
        view->events = wanted;
        view->panes[PANE_EVENTS].element = all;
    }
    view->chosen = view->focus = PANE_EVENTS;
}

const struct look_rule look_fault_rules[] = {
    { CMD_events, events },
    { CMD_explain, explain },
    { 0, NULL },
};
