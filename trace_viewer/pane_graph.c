/* The graph pane: the backward that the event lies in as a walk from the loss. A row is a node: x it ran, an arrow: it
 * runs, a dot: it is ready, a number: so many gradients are still to come, - it will not run; behind it the hooks that
 * fired.
 * What hangs at a node (its parameters) stands below it, further in, and is folded with o. The page turns with the
 * node that runs, until a row is chosen. */
#include "panes.h"

#include "analysis/graph.h"
#include "analysis/state.h"
#include "base/str.h"
#include "trace/reader.h"

#include <stdlib.h>
#include <string.h>

enum { READY = 0x2022, RUNS = 0x25ba, BITS = 64, FOLDS = 4 * BITS };

/* The rows of a frame: places in the walk whose module is not folded away. */
struct listing { struct backward *backward; int *rows; int count, current; };

/* Among the heads in the order of the walk; from FOLDS on they share. */
static int
fold_of(const struct backward *backward, int place)
{
    int number = 0;
    for (int i = 0; i < backward->count && backward->walk[i] != backward->nodes[place].head; i++)
        number += backward->nodes[backward->walk[i]].head == backward->walk[i];
    return number % FOLDS;
}

static bool
is_folded(const struct view *view, int fold)
{
    return (view->panes[PANE_GRAPH].folded[fold / BITS] >> fold % BITS & 1) != 0;
}

static bool
list(const struct scene *scene, struct listing *listing)
{
    const struct model *model = scene->model;
    *listing = (struct listing){ .backward = backward_at(model->trace, model->state, scene->view->cursor),
                                 .current = -1 };
    if (listing->backward == NULL)
        return false;
    const struct backward *backward = listing->backward;
    listing->rows = calloc((size_t)backward->count + 1, sizeof *listing->rows);
    int fold = -1;
    for (int i = 0; listing->rows != NULL && i < backward->count; i++) {
        int place = backward->walk[i], head = backward->nodes[place].head;
        fold += head == place;
        if (head != place && is_folded(scene->view, fold % FOLDS)) {
            if (place == backward->current)
                listing->current = listing->count - 1;
            continue;
        }
        if (place == backward->current)
            listing->current = listing->count;
        listing->rows[listing->count++] = place;
    }
    return listing->rows != NULL;
}

static void
unlist(struct listing *listing)
{
    backward_free(listing->backward);
    free(listing->rows);
}

/* ---- rows ---- */

static void
draw_mark(struct canvas *pane, int row, const struct backward_node *node)
{
    switch (node->turn) {
    case TURN_DONE:  canvas_put(pane, row, 1, (struct style){ .ink = INK_GOOD }, 'x'); break;
    case TURN_RUNS:  canvas_put(pane, row, 1, (struct style){ .ink = INK_ACCENT, .attr = ATTR_BOLD }, RUNS); break;
    case TURN_READY: canvas_put(pane, row, 1, (struct style){ .ink = INK_ACCENT }, READY); break;
    case TURN_NEVER: canvas_put(pane, row, 1, (struct style){ .ink = INK_DIM }, '-'); break;
    case TURN_WAITS: {
        uint32_t waits = node->waits > 9 ? '+' : (uint32_t)('0' + node->waits);
        canvas_put(pane, row, 1, (struct style){ .ink = INK_DIM }, waits);
        break;
    }
    }
}

static void
draw_node(const struct scene *scene, const struct listing *listing, struct canvas *pane, int row, int index)
{
    const struct backward      *backward = listing->backward;
    int                         place = listing->rows[index];
    const struct backward_node *node = &backward->nodes[place];
    struct str text = { 0 }, fired = { 0 };
    bool chosen = scene->view->focus == PANE_GRAPH && scene->view->panes[PANE_GRAPH].line == index;
    struct style style = { .ink = node->turn == TURN_RUNS ? INK_ACCENT : node->turn == TURN_NEVER ? INK_DIM : INK_PLAIN,
                           .attr = chosen ? ATTR_REVERSE : node->turn == TURN_RUNS ? ATTR_BOLD : 0 };
    draw_mark(pane, row, node);
    if (node->turn == TURN_DONE)
        style.ink = INK_DIM;
    str_add(&text, node->accumulates ? "grad of " : node->name);
    if (node->accumulates)
        str_add(&text, node->what[0] != '\0' ? node->what : "a leaf");
    else if (node->head == place) {
        str_add(&text, "  ");
        backward_module(backward, place, &text);
    }
    if (index + 1 < backward->count && node->head == place && is_folded(scene->view, fold_of(backward, place)))
        str_add(&text, " ...");
    backward_hooks(backward, place, &fired);
    int from = 3 + 2 * node->indent, room = pane->width - from, taken = (int)fired.len + 2;
    canvas_cut(pane, (struct stretch){ row, from, taken < room - 12 && fired.len > 0 ? room - taken : room }, style,
               canvas_words(pane, &text));
    if (fired.len > 0 && taken < room - 12)
        canvas_textf(pane, row, pane->width - taken + 1, (struct style){ .ink = WORK_COMMUNICATION }, "%s",
                     canvas_words(pane, &fired));
    str_free(&text);
    str_free(&fired);
}

static void
tell(const struct backward *backward, struct canvas *pane, int skip)
{
    struct str text = { 0 };
    backward_print(backward, &text);
    canvas_wrap(pane, &(struct lines){ .skip = skip, .hang = 2 }, 1, (struct style){ 0 }, canvas_words(pane, &text));
    str_free(&text);
}

static void
draw(const struct scene *scene, struct canvas *pane, int skip)
{
    struct listing listing;
    struct str     heading = { 0 };
    if (!list(scene, &listing)) {
        unlist(&listing);
        canvas_starve(pane);
        return;
    }
    const struct backward *backward = listing.backward;
    bool hidden = backward->when == BACKWARD_NEXT && veil_hides(&scene->view->veil, scene->model, backward->begin);
    if (scene->capabilities->words && !hidden) {
        tell(backward, pane, skip);
        unlist(&listing);
        return;
    }
    if (hidden)
        str_add(&heading, "the next backward waits for your answer");
    else
        backward_heading(backward, &heading);
    canvas_cut(pane, (struct stretch){ 0, 1, pane->width - 1 }, (struct style){ .attr = ATTR_BOLD },
               canvas_words(pane, &heading));
    str_free(&heading);
    int page = pane->height > 1 ? pane->height - 1 : 1, line = scene->view->panes[PANE_GRAPH].line;
    int top  = listing.current > 0 ? listing.current / page * page : 0;
    if (skip > 0 || line > 0)
        top = skip > line - page ? skip : line - page + 1;
    for (int row = 1; row < pane->height && top + row - 1 < listing.count; row++)
        draw_node(scene, &listing, pane, row, top + row - 1);
    unlist(&listing);
}

/* ---- the pane ---- */

static enum concern
concern(const struct scene *scene)
{
    const char *kind = model_kind(scene->model, scene->view->cursor);
    if (strncmp(kind, "autograd.", 9) == 0 && strstr(kind, "checkpoint") == NULL)
        return CONCERN_EVENT;
    size_t inside;
    for (size_t lane = 0; lane < trace_lanes(scene->model->trace); lane++)
        if (state_open(scene->model->state, (uint32_t)lane, &inside, 1) > 0 &&
            strncmp(model_kind(scene->model, inside), "autograd.", 9) == 0)
            return CONCERN_SOME;
    return state_iteration(scene->model->state) > 0 ? CONCERN_SOME : CONCERN_NONE;
}

static int
rows(const struct scene *scene)
{
    struct listing listing;
    int count = list(scene, &listing) ? listing.count : 0;
    unlist(&listing);
    return count;
}

/* To the node's turn, if it has had one. */
static void
enter(struct model *model, struct view *view, int row)
{
    struct listing listing;
    if (list(&(struct scene){ model, view, NULL }, &listing) && row >= 0 && row < listing.count) {
        size_t begin = listing.backward->nodes[listing.rows[row]].begin;
        if (begin != NO_EVENT)
            view_goto(view, model, begin);
        else
            view_say(view, "it has not run yet: n or f goes on");
    }
    unlist(&listing);
}

static void
press(struct model *model, struct view *view, const char *key)
{
    struct listing    listing;
    struct pane_look *look = &view->panes[PANE_GRAPH];
    (void)key; /* there is one */
    if (list(&(struct scene){ model, view, NULL }, &listing) && look->line < listing.count) {
        int fold = fold_of(listing.backward, listing.rows[look->line]);
        look->folded[fold / BITS] ^= 1ull << fold % BITS;
    }
    unlist(&listing);
}

static const struct pane_key keys[] = { { "o", "fold", "what hangs at the chosen node is folded away, or comes back" },
                                        { NULL, NULL, NULL } };

const struct pane_kind graph_pane = { .name = "Graph", .least_columns = 28, .compares = true, .of_state = true,
                                      .tells = "autograd", .concern = concern, .draw = draw, .rows = rows,
                                      .enter = enter, .keys = keys, .press = press };
