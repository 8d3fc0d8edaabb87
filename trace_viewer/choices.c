/* What a pane shows, and its rows that can be chosen: of its own, or the lines of the page that it composes. Interface:
 * pane_draw, pane_has_choices, pane_choices, pane_enter, pane_press. */
#include "panes.h"

#include "page.h"

void
pane_draw(const struct scene *scene, enum pane pane, struct canvas *canvas, int skip)
{
    struct page page = { 0 };
    if (pane_kind(pane)->compose == NULL) {
        pane_kind(pane)->draw(scene, canvas, skip);
        return;
    }
    pane_kind(pane)->compose(scene, canvas->width - 1, &page);
    page_draw(&page, scene, pane, canvas, skip);
    page_free(&page);
}

bool
pane_has_choices(enum pane pane)
{
    return pane_kind(pane)->rows != NULL || pane_kind(pane)->compose != NULL;
}

int
pane_choices(const struct scene *scene, enum pane pane)
{
    struct page page = { 0 };
    if (!pane_has_choices(pane) || !pane_stands(scene->model, scene->view))
        return 0;
    if (pane_kind(pane)->compose == NULL)
        return pane_kind(pane)->rows(scene);
    pane_kind(pane)->compose(scene, page_width(scene, pane), &page);
    int count = (int)page.count;
    page_free(&page);
    return count;
}

static void
enter_line(struct model *model, struct view *view, enum pane pane)
{
    struct page page = { 0 };
    const struct scene scene = { model, view, NULL };
    const char *leads = pane_kind(pane)->leads;
    pane_kind(pane)->compose(&scene, page_width(&scene, pane), &page);
    size_t event = page_event(&page, view->panes[pane].line);
    page_free(&page);
    if (event != NO_EVENT && event != view->cursor)
        view_goto(view, model, event);
    else
        view_say(view, "this line leads to no other event%s%s", leads != NULL ? "; " : "", leads != NULL ? leads : "");
}

void
pane_enter(struct model *model, struct view *view, enum pane pane)
{
    if (!pane_stands(model, view))
        return;
    if (pane_kind(pane)->compose != NULL)
        enter_line(model, view, pane);
    else if (pane_kind(pane)->enter != NULL)
        pane_kind(pane)->enter(model, view, view->panes[pane].line);
}

void
pane_press(struct model *model, struct view *view, enum pane pane, const char *key)
{
    if (pane_stands(model, view))
        pane_kind(pane)->press(model, view, key);
}
