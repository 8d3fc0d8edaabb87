/* Breakpoints: number, on or off, condition, how often it stopped somebody, how often it lets pass, once. A session has
 * its own and tells them; of a recorded trace they are the viewer's. */
#include "panes.h"

#include "page.h"
#include "points.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "2: bytes > 1e6, stopped 3 times, off, once, lets 5 more pass" */
static void
add_point(const char *line, size_t length, struct page *page)
{
    char text[900], state[96] = "";
    int  number = 0, behind = 0;
    snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text - 1), line);
    char *tail = NULL;
    for (char *at = text; (at = strstr(at, ", stopped ")) != NULL; at++)
        tail = at;
    if (sscanf(text, "%d: %n", &number, &behind) != 1 || tail == NULL)
        return;
    *tail = '\0';
    snprintf(state, sizeof state, "%s", tail + strlen(", stopped "));
    long long   hits = strtoll(state, NULL, 10);
    const char *more = strchr(state, ',');
    bool        off  = strstr(state, ", off") != NULL;
    if (off && more != NULL)
        more = strchr(more + 1, ',');
    page_addf(page, NO_EVENT, (struct style){ .ink = off ? INK_DIM : INK_PLAIN }, "%2d %s %-3s hit %-4lld %s%s%s",
              number, off ? "\u25a1" : "\u25a0", off ? "off" : "on", hits, text + behind, more != NULL ? "  " : "",
              more != NULL ? more + 2 : "");
    page_head(page, 2, (struct style){ .attr = ATTR_BOLD });
}

static void
compose(const struct scene *scene, struct page *page)
{
    struct str list = { 0 };
    points_print(scene->view, &list);
    page->starved |= !str_ok(&list);
    for (const char *at = str_text(&list); *at != '\0';) {
        size_t length = strcspn(at, "\n");
        add_point(at, length, page);
        at += length + (at[length] == '\n');
    }
    str_free(&list);
}

static void
draw(const struct scene *scene, struct canvas *pane, int skip)
{
    struct page page = { 0 };
    compose(scene, &page);
    if (page.count == 0)
        canvas_wrap(pane, &(struct lines){ .skip = skip }, 1, (struct style){ .ink = INK_DIM },
                    "no breakpoints: b makes one for the kind of this event, :break EXPR one with a condition, as "
                    ":break bytes > 1e6 or :break c10d.issue rank 3");
    page_draw(&page, scene, PANE_BREAKS, pane, skip);
    page_free(&page);
}

static int
rows(const struct scene *scene)
{
    struct page page = { 0 };
    compose(scene, &page);
    int count = (int)page.count;
    page_free(&page);
    return count;
}

/* The line of the list, as it was told; false: there is none. */
static bool
chosen_point(const struct view *view, char *line, size_t room)
{
    struct str list = { 0 };
    points_print(view, &list);
    const char *at = str_text(&list);
    for (int row = view->panes[PANE_BREAKS].line; row > 0 && *at != '\0'; row--)
        at += strcspn(at, "\n") + (at[strcspn(at, "\n")] == '\n');
    bool there = *at >= '0' && *at <= '9';
    if (there)
        snprintf(line, room, "%.*s", (int)strcspn(at, "\n"), at);
    str_free(&list);
    return there;
}

/* Its number, and its condition behind it. */
static int
split_point(char *line, const char **condition)
{
    int   number = 0, behind = 0;
    char *tail = NULL;
    sscanf(line, "%d: %n", &number, &behind);
    for (char *at = line; (at = strstr(at, ", stopped ")) != NULL; at++)
        tail = at;
    if (tail != NULL)
        *tail = '\0';
    *condition = line + behind;
    return number;
}

static void
press(struct model *model, struct view *view, const char *key)
{
    (void)model;
    char        line[900];
    const char *condition;
    if (!chosen_point(view, line, sizeof line)) {
        view_say(view, "no breakpoint is chosen; b makes one");
        return;
    }
    bool off = strstr(line, ", off") != NULL;
    int  number = split_point(line, &condition);
    if (strcmp(key, "d") == 0)
        view_do(view, false, "delete %d", number);
    else if (strcmp(key, "o") == 0)
        view_do(view, false, "once %d", number);
    else if (strcmp(key, "e") == 0)
        view_do(view, true, "condition %d %s", number, condition);
    else
        view_do(view, false, "%s %d", off ? "enable" : "disable", number);
}

/* To the next event for which it holds. */
static void
enter(struct model *model, struct view *view, int row)
{
    (void)model;
    (void)row;
    char        line[900];
    const char *condition;
    if (!chosen_point(view, line, sizeof line))
        return;
    split_point(line, &condition);
    view_do(view, false, "until %s", condition);
}

static enum concern
concern(const struct scene *scene)
{
    return points_count(scene->view) > 0 ? CONCERN_SOME : CONCERN_NONE;
}

static const struct pane_key keys[] = {
    { "Space", "on/off",  "the chosen breakpoint stops, or is passed over" },
    { "d",     "delete",  "it is gone" },
    { "e",     "edit",    "its condition can be changed" },
    { "o",     "once",    "it is off after it has stopped somebody; again: not" },
    { NULL, NULL, NULL },
};

const struct pane_kind breaks_pane = { .name = "Breaks", .least_columns = 40, .concern = concern, .draw = draw,
                                       .rows = rows, .enter = enter, .keys = keys, .press = press };
