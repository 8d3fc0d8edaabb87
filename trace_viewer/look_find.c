/* Looking for events: by words and predicates, and by what others ask for. */
#include "look_internal.h"

#include "base/str.h"
#include "find.h"

#include <string.h>

/* What is not found may be there, and wait for an answer. */
const char *
or_hidden(const struct view *view)
{
    bool hidden = view->veil.draws || view->veil.horizon != NO_EVENT;
    return hidden ? "; more is hidden until you answer" : "";
}

void
hunt(struct view *view, struct model *model, int direction,
     bool (*is)(const struct view *view, const struct model *model, size_t seq), const char *what)
{
    hunt_begin(view, model, &(struct hunt){ .is = is, .direction = direction, .what = what });
}

/* ---- / n N ---- */

/* What of the run has not come yet is looked for by `u`, which is given it, so that Enter alone does it. */
static void
print_ahead(struct view *view, const struct model *model, struct str *out)
{
    struct str expression = { 0 };
    if (view->run != RUN_PAUSED && view->run != RUN_RUNNING)
        return;
    find_until(view->search.find, model, &expression);
    str_add(out, "not yet in what has run");
    if (expression.len > 0 && str_ok(&expression)) {
        prompt_keep(&view->prompt, "until ", str_text(&expression));
        str_add(out, ": u runs to it");
    }
    str_free(&expression);
}

static void
say_count(struct view *view, const struct model *model, bool more)
{
    const struct search *search = &view->search;
    struct str           through = { 0 };
    if (search->first)
        find_say(search->find, &through);
    if (search->wrapped && search->at == search->from)
        str_addf(&through, "%sonly this one", through.len > 0 ? "; " : "");
    else if (search->wrapped)
        str_addf(&through, "%sfrom the %s again", through.len > 0 ? "; " : "", search->direction > 0 ? "start" : "end");
    struct str ahead = { 0 };
    if (search->wrapped && search->direction > 0)
        print_ahead(view, model, &ahead);
    str_enclose(&through, "; the next one is ", &ahead, "");
    str_free(&ahead);
    view_say(view, "/%.200s  %zu/%zu%s%s%s%s", find_text(search->find), search->place, search->count, more ? "+" : "",
             through.len > 0 ? "  " : "", str_text(&through), or_hidden(view));
    str_free(&through);
}

static void
say_none(struct view *view, const struct model *model)
{
    const struct search *search = &view->search;
    char                 meant[128];
    struct str           ahead = { 0 };
    print_ahead(view, model, &ahead);
    find_nearest(search->find, model, meant, sizeof meant);
    if (ahead.len > 0 && (meant[0] == '\0' || strchr(str_text(&ahead), ':') != NULL))
        view_say(view, "/%.200s  %s%s", find_text(search->find), str_text(&ahead), or_hidden(view));
    else if (meant[0] != '\0')
        view_say(view, "no match for /%.200s; did you mean %s?%s", find_text(search->find), meant, or_hidden(view));
    else
        view_say(view, "no match for /%.200s%s", find_text(search->find), or_hidden(view));
    str_free(&ahead);
}

void
look_settle(struct view *view, const struct model *model)
{
    search_settle(&view->search, &(struct searched){ model, &view->veil }, view->cursor);
}

/* What is said stays until a key; the count in it grows as long as it is counted. */
bool
look_on(struct view *view, struct model *model)
{
    struct search *search = &view->search;
    bool           hunted = search->hunting, busy = search_on(search, &(struct searched){ model, &view->veil });
    if (hunted && search->found) {
        marks_leave(&view->marks, view->cursor);
        view_goto(view, model, search->at);
    }
    if (search->hunting) {
        view_say(view, "looking for /%.200s at event %zu; ^C stops", find_text(search->find), search->at);
        return true;
    }
    bool more = search->counted < model->seen;
    look_settle(view, model);
    if (search->telling && search->found)
        say_count(view, model, more);
    else if (search->telling && !more)
        say_none(view, model);
    search->telling &= more;
    search->active &= more || search->count > 0; /* else n is the next stop */
    return busy;
}

static void
go_match(struct view *view, struct model *model, int direction)
{
    if (view->search.find == NULL) {
        view_say(view, "nothing was searched for; / does");
        return;
    }
    if (view->cursor == NO_EVENT)
        return;
    view->search.active = true;
    search_hunt(&view->search, view->cursor, direction);
    look_on(view, model);
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
    search_start(&view->search, find);
    go_match(view, model, 1);
    view->search.first = true;
}

const struct look_rule look_find_rules[] = {
    { CMD_match, match },
    { CMD_rmatch, rmatch },
    { CMD_search, search },
    { 0, NULL },
};
