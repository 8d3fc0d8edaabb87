/* Panes with what frames them. What is new since the last step is found by drawing a pane twice, as of then and as of
 * now, and comparing rows: no pane needs to know. Interface: panes_draw, panes_tab_at, pane_draw_body. */
#include "frame_panes.h"

#include "analysis/state.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

enum { HORIZONTAL = 0x2500, VERTICAL = 0x2502, TEE_DOWN = 0x252c, FOCUS = 0x25ba };

/* The line above a pane, with its name; a pane beside another has a line at its left too. Answers the body. */
static struct canvas
draw_border(struct canvas *canvas, struct box box, bool focused, const char *name)
{
    struct canvas whole = canvas_part(canvas, box.row, box.column, box.height, box.width);
    struct style dim = { .ink = INK_DIM };
    struct style style = { .ink = focused ? INK_ACCENT : INK_PLAIN, .attr = ATTR_BOLD };
    bool beside = box.column > 0;
    canvas_fill(&whole, 0, dim, HORIZONTAL);
    if (beside)
        canvas_put(&whole, 0, 0, dim, TEE_DOWN);
    for (int row = 1; row < whole.height && beside; row++)
        canvas_put(&whole, row, 0, dim, VERTICAL);
    canvas_put(&whole, 0, 1, style, focused ? FOCUS : ' ');
    int column = canvas_cut(&whole, (struct stretch){ 0, 2, box.width - 4 }, style, name);
    canvas_put(&whole, 0, column, dim, ' ');
    return canvas_part(&whole, 1, beside, box.height - 1, box.width - beside);
}

struct tab { enum pane pane; enum concern concern; int column, width; };

static void
deal_tab(struct tab *tabs, int *count, const struct slot *slot, struct tab tab)
{
    const struct tab *last = *count > 0 ? &tabs[*count - 1] : NULL;
    tab.column = last != NULL ? last->column + last->width : 2;
    tab.width  = (int)strlen(pane_kind(tab.pane)->name) + 2;
    if (tab.column + tab.width < slot->box.width)
        tabs[(*count)++] = tab;
}

/* The open pane first, then those that are not on the screen; how many. */
static int
deal_tabs(const struct scene *scene, const struct layout *layout, const struct slot *slot, struct tab tabs[PANE_COUNT])
{
    int count = 0;
    deal_tab(tabs, &count, slot, (struct tab){ .pane = slot->pane, .concern = CONCERN_EVENT });
    for (int pane = PANE_LESSON; pane < PANE_COUNT && count > 0; pane++) {
        enum concern concern = pane_concern(scene, (enum pane)pane);
        if (layout_slot(layout, (enum pane)pane) == NULL && concern != CONCERN_NONE)
            deal_tab(tabs, &count, slot, (struct tab){ .pane = (enum pane)pane, .concern = concern });
    }
    return count;
}

/* The open pane's is reversed, so that it shows without colour. */
static void
draw_tabs(const struct scene *scene, const struct layout *layout, const struct slot *slot, struct canvas *canvas)
{
    struct canvas border = canvas_part(canvas, slot->box.row, slot->box.column, 1, slot->box.width);
    struct tab    tabs[PANE_COUNT];
    int           count = deal_tabs(scene, layout, slot, tabs);
    for (int i = 0; i < count; i++) {
        struct style style = { .ink = tabs[i].concern == CONCERN_NONE ? INK_DIM : INK_PLAIN };
        if (i == 0)
            style = (struct style){ .attr = ATTR_REVERSE | ATTR_BOLD };
        canvas_put(&border, 0, tabs[i].column, style, ' ');
        int column = canvas_text(&border, 0, tabs[i].column + 1, style, pane_kind(tabs[i].pane)->name);
        canvas_put(&border, 0, column, style, ' ');
    }
}

enum pane
panes_tab_at(const struct scene *scene, const struct layout *layout, const struct slot *slot, int column)
{
    struct tab tabs[PANE_COUNT];
    int        count = slot->changes ? deal_tabs(scene, layout, slot, tabs) : 0;
    for (int i = 0; i < count; i++)
        if (column >= tabs[i].column && column < tabs[i].column + tabs[i].width)
            return tabs[i].pane;
    return slot->pane;
}

/* A row says something else than it did: a cross in its margin, and bold. */
static void
mark_changes(struct canvas *pane, const struct canvas *then)
{
    for (int row = 0; row < pane->height; row++) {
        bool same = true, blank = true;
        for (int column = 0; column < pane->width; column++) {
            uint32_t code = canvas_at(pane, row, column)->code;
            same &= code == canvas_at(then, row, column)->code;
            blank &= code == ' ';
        }
        for (int column = 0; column < pane->width && !same && !blank; column++) {
            struct cell cell = *canvas_at(pane, row, column);
            cell.style.attr |= ATTR_BOLD;
            if (column == 0 && cell.code == ' ')
                cell = (struct cell){ '+', { .ink = INK_ACCENT, .attr = ATTR_BOLD } };
            if (cell.code != 0)
                canvas_put(pane, row, column, cell.style, cell.code);
        }
    }
}

static void
compare_with_before(const struct scene *scene, enum pane compared, int skip, struct canvas *pane)
{
    struct canvas then;
    struct model  past = *scene->model;
    struct view   view = *scene->view;
    view.cursor = view.before;
    past.state  = past.past;
    past.at     = past.past_at;
    const struct scene before = { &past, &view, scene->capabilities };
    if (!canvas_init(&then, pane->width, pane->height)) {
        canvas_starve(pane);
        return;
    }
    pane_draw(&before, compared, &then, skip);
    mark_changes(pane, &then);
    canvas_free(&then);
}

/* How far it has come says the state itself: as of the event before which nothing is missing. */
static void
draw_working(const struct scene *scene, struct canvas *body)
{
    size_t come = state_seq(scene->model->state) + 1;
    struct lines lines = { 0 };
    struct str   text = { 0 };
    str_addf(&text, "still being worked out: %zu of %zu events", come, scene->view->cursor + 1);
    canvas_wrap(body, &lines, 1, (struct style){ .ink = INK_DIM }, canvas_words(body, &text));
    str_free(&text);
}

/* Numbers that a question is about which was put off are a secret of every pane that shows them; an event that it hides
 * is one of all panes but of those that hold the lesson's words. */
static bool
draw_mask(const struct scene *scene, enum pane shown, struct canvas *pane)
{
    const struct pane_kind *kind = pane_kind(shown);
    bool words = shown == PANE_LESSON || shown == PANE_HINTS || shown == PANE_NOTES || shown == PANE_ANSWER;
    bool hidden = !words && veil_hides(&scene->view->veil, scene->model, scene->view->cursor);
    for (const char *at = kind->tells != NULL ? kind->tells : ""; *at != '\0' && !hidden;) {
        char   name[64];
        size_t length = strcspn(at, " ");
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        hidden = veil_hides_kind(&scene->view->veil, scene->model, name);
        at += length + (at[length] == ' ');
    }
    if (hidden)
        canvas_wrap(pane, &(struct lines){ .hang = 2 }, 1, (struct style){ .ink = INK_DIM },
                    "? hidden until you answer: :question comes back to it");
    return hidden;
}

void
pane_draw_body(const struct scene *scene, enum pane pane, int skip, struct canvas *body)
{
    if (draw_mask(scene, pane, body))
        return;
    const struct pane_kind *kind = pane_kind(pane);
    if (kind->of_state && scene->model->at != scene->view->cursor) {
        draw_working(scene, body);
        return;
    }
    pane_draw(scene, pane, body, skip);
    if (kind->compares && scene->view->before != NO_EVENT && scene->model->past_at == scene->view->before)
        compare_with_before(scene, pane, skip, body);
}

static void
draw_slot(const struct scene *scene, const struct layout *layout, const struct slot *slot, struct canvas *canvas)
{
    const struct view      *view = scene->view;
    const struct pane_kind *kind = pane_kind(slot->pane);
    struct str              title = { 0 };
    if (kind->title != NULL)
        kind->title(scene, &title);
    else
        str_add(&title, kind->name);
    struct canvas body = draw_border(canvas, slot->box, view->focus == slot->pane,
                                    slot->changes ? "" : canvas_words(canvas, &title));
    if (slot->changes)
        draw_tabs(scene, layout, slot, canvas);
    if (slot->changes && kind->title != NULL && body.height > 2) {
        canvas_cut(&body, (struct stretch){ 0, 1, body.width - 2 }, (struct style){ .ink = INK_ACCENT },
                   canvas_words(canvas, &title));
        body = canvas_part(&body, 1, 0, body.height - 1, body.width);
    }
    str_free(&title);
    bool stands = view->cursor != NO_EVENT && view->cursor < scene->model->seen;
    if (!stands || body.height <= 0 || body.width <= 0)
        return;
    pane_draw_body(scene, slot->pane, view->panes[slot->pane].scroll, &body);
}

void
panes_draw(const struct scene *scene, const struct layout *layout, struct canvas *canvas)
{
    for (int i = 0; i < layout->slot_count; i++)
        if (layout->slots[i].box.height > 0)
            draw_slot(scene, layout, &layout->slots[i], canvas);
}
