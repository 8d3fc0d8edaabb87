/* Looking for events: by a predicate, and by what others ask for. */
#include "look_internal.h"

#include "trace/match.h"
#include "trace/reader.h"

/* What is not found may be there, and wait for an answer. */
const char *
or_hidden(const struct view *view)
{
    return view->veil.draws ? "; some are hidden until you answer" : "";
}

void
hunt(struct view *view, struct model *model, int direction,
     bool (*is)(const struct view *view, const struct model *model, size_t seq), const char *what)
{
    hunt_begin(view, model, &(struct hunt){ .is = is, .direction = direction, .what = what });
}

static bool
is_match(const struct view *view, const struct model *model, size_t seq)
{
    return match_event(view->search, trace_event(model->trace, seq), seq, trace_time(model->trace, seq));
}

static void
go_match(struct view *view, struct model *model, int direction)
{
    if (view->search == NULL) {
        view_say(view, "nothing was searched for; / does");
        return;
    }
    hunt(view, model, direction, is_match, "match");
    size_t place = 0;
    view->search_count = 0;
    for (size_t seq = 0; seq < model->seen; seq++) {
        bool match = is_match(view, model, seq) && !veil_hides(&view->veil, model, seq);
        view->search_count += match;
        place += match && seq <= view->cursor;
    }
    view_say(view, "/%.200s  %zu/%zu%s", match_text(view->search), place, view->search_count, or_hidden(view));
}

static void
search_for(struct view *view, struct model *model, const char *expression)
{
    struct match_names names = match_names_of_trace(model->trace);
    char why[256];
    struct match *match = match_compile(expression, &names, why, sizeof why);
    if (match == NULL) {
        view_say(view, "%s", why);
        return;
    }
    if (view->search != NULL)
        match_free(view->search);
    view->search = match;
    view->searching = true;
    go_match(view, model, 1);
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
    search_for(view, model, line->rest);
}

const struct look_rule look_find_rules[] = {
    { CMD_match, match },
    { CMD_rmatch, rmatch },
    { CMD_search, search },
    { 0, NULL },
};
