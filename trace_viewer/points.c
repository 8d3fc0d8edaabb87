/* Breakpoints for the screen. Interface: points_ask after what may have changed them, points_print, points_count. */
#include "points.h"

#include "session.h"

#include <stdlib.h>
#include <string.h>

void
points_print(const struct view *view, struct str *out)
{
    if (view->points != NULL)
        str_add(out, view->points[0] >= '0' && view->points[0] <= '9' ? view->points : "");
    else if (view->rules.breaks.count > 0)
        breaks_list(&view->rules.breaks, out);
}

size_t
points_count(const struct view *view)
{
    size_t count = 0;
    if (view->points == NULL)
        return view->rules.breaks.count;
    for (const char *at = view->points; view->points[0] >= '0' && view->points[0] <= '9' && *at != '\0'; at++)
        count += *at == '\n';
    return count;
}

void
points_ask(struct view *view, struct session *session)
{
    struct reply reply;
    if (session->waiting || !session_ask(session, "info breaks"))
        return;
    if (!session_answer(session, &reply))
        return;
    char *copy = strdup(str_text(&reply.text));
    if (copy != NULL) {
        free(view->points);
        view->points = copy;
    }
    reply_free(&reply);
}
