/* Looking for the nearest event of which something is true. Interface: hunt_begin, hunt_on, hunt_pause, hunt_some. */
#include "hunt.h"

#include "view.h"

enum { HUNT_SLICE = 1 << 17 }; /* events between two frames: some milliseconds */

enum hunt_result
hunt_some(struct hunt *hunt, const struct view *view, const struct model *model, size_t slice)
{
    for (; slice > 0; slice--) {
        if (hunt->direction > 0 ? hunt->at + 1 >= model->seen : hunt->at == 0)
            return HUNT_NOTHING;
        hunt->at = hunt->direction > 0 ? hunt->at + 1 : hunt->at - 1;
        if (hunt->is(view, model, hunt->at) && !veil_hides(&view->veil, model, hunt->at))
            return HUNT_FOUND;
    }
    return HUNT_GOES_ON;
}

void
hunt_begin(struct view *view, const struct model *model, const struct hunt *hunt)
{
    if (view->cursor == NO_EVENT || view->cursor >= model->seen)
        return;
    view->hunt    = *hunt;
    view->hunt.at = view->cursor;
    view->moving  = true;
    hunt_on(view, model);
}

bool
hunt_on(struct view *view, const struct model *model)
{
    struct hunt     *hunt = &view->hunt;
    enum hunt_result result = hunt_some(hunt, view, model, HUNT_SLICE);
    if (result == HUNT_GOES_ON) {
        view_say(view, "looking at event %zu; ^C stops", hunt->at);
        return true;
    }
    hunt->is          = NULL;
    view->moving      = false;
    view->message[0]  = '\0';
    bool        more = view->veil.draws || view->veil.horizon != NO_EVENT;
    const char *hides = hunt->direction > 0 && more ? "; more is hidden until you answer" : "";
    if (result == HUNT_FOUND)
        view_goto(view, model, hunt->at);
    else
        view_say(view, "no %s %s%s", hunt->direction > 0 ? "further" : "earlier", hunt->what, hides);
    return false;
}

void
hunt_pause(struct view *view)
{
    view_say(view, "stopped at event %zu: no %s up to there", view->hunt.at, view->hunt.what);
    view->hunt.is = NULL;
    view->moving  = false;
}
