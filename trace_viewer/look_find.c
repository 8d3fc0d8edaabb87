/* Looking for events: by words and predicates, and by what others ask for. */
#include "look_internal.h"

#include "find.h"

/* What is not found may be there, and wait for an answer. */
const char *
or_hidden(const struct view *view)
{
    return view->veil.draws ? "; some are hidden until you answer" : "";
}

/* The next (or last) event for which `is` holds. */
void
hunt(struct view *view, struct model *model, int direction,
     bool (*is)(const struct view *view, const struct model *model, size_t seq), const char *what)
{
    if (view->cursor == NO_EVENT)
        return;
    for (size_t seq = view->cursor; direction > 0 ? seq + 1 < model->seen : seq > 0;) {
        seq = direction > 0 ? seq + 1 : seq - 1;
        if (is(view, model, seq) && !veil_hides(&view->veil, model, seq)) {
            view_goto(view, model, seq);
            return;
        }
    }
    view_say(view, "no %s %s%s", direction > 0 ? "further" : "earlier", what, direction > 0 ? or_hidden(view) : "");
}

static void
go_match(struct view *view, struct model *model, int direction)
{
    if (view->search.find == NULL) {
        view_say(view, "nothing was searched for; / does");
        return;
    }
    view->search.active = true;
    search_hunt(view, model, direction);
    search_on(view, model);
}

static void
match(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    go_match(view, model, 1);
}

static void
rmatch(struct view *view, struct model *model, const struct command_line *line)
{
    (void)line;
    go_match(view, model, -1);
}

static void
search(struct view *view, struct model *model, const struct command_line *line)
{
    char         why[256];
    struct find *find = find_compile(model, line->rest, why, sizeof why);
    if (find == NULL) {
        view_say(view, "%s", why);
        return;
    }
    search_begin(view, model, find);
    search_on(view, model);
}

const struct look_rule look_find_rules[] = {
    { CMD_match, match },
    { CMD_rmatch, rmatch },
    { CMD_search, search },
    { 0, NULL },
};
