/* What went wrong, in words, and which rank goes first: commands of the panes that explain hangs. */
#include "look_internal.h"

#include "parties.h"

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

const struct look_rule look_fault_rules[] = {
    { CMD_explain, explain },
    { 0, NULL },
};
