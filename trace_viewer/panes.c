/* The list of panes, and which of them follows the event. Interface: pane_kind, pane_concern, pane_stands,
 * pane_followed, pane_open. */
#include "panes.h"

static const struct pane_kind *const kinds[PANE_COUNT] = {
#define PANE(id, unit) [PANE_##id] = &unit##_pane,
#include "panes.def"
#undef PANE
};

const struct pane_kind *
pane_kind(enum pane pane)
{
    return kinds[pane];
}

bool
pane_stands(const struct model *model, const struct view *view)
{
    return view->cursor != NO_EVENT && view->cursor < model->seen;
}

enum concern
pane_concern(const struct scene *scene, enum pane pane)
{
    return pane_stands(scene->model, scene->view) ? kinds[pane]->concern(scene) : CONCERN_NONE;
}

enum pane
pane_followed(const struct scene *scene)
{
    for (int pane = PANE_SOURCE + 1; pane < PANE_COUNT; pane++)
        if (pane_concern(scene, (enum pane)pane) == CONCERN_EVENT)
            return (enum pane)pane;
    return PANE_SOURCE;
}

enum pane
pane_open(const struct scene *scene)
{
    return scene->view->chosen != PANE_TIMELINE ? scene->view->chosen : pane_followed(scene);
}
