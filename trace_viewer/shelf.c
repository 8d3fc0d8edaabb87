/* Rows that were painted. Interface: shelf_new; shelf_begin; shelf_find, shelf_take, painted_keep, shelf_affords,
 * shelf_spend, shelf_note; shelf_is_rough; shelf_free. */
#include "shelf.h"

#include "base/vec.h"

#include <stdlib.h>
#include <string.h>

enum { SLAB = 32, KEPT = 192 }; /* rows that are kept though no frame shows them now */

struct slab { struct slab *next; size_t count; struct span spans[SLAB]; };

struct shelf {
    struct painted **rows;
    size_t           count, room;
    uint64_t         frame;
    size_t           affordable, spent;
    bool             rough;
};

struct shelf *
shelf_new(void)
{
    struct shelf *shelf = calloc(1, sizeof *shelf);
    if (shelf != NULL)
        shelf->affordable = SIZE_MAX;
    return shelf;
}

static void
painted_free(struct painted *painted)
{
    while (painted->slabs != NULL) {
        struct slab *next = painted->slabs->next;
        free(painted->slabs);
        painted->slabs = next;
    }
    free(painted->cells);
    free(painted);
}

void
shelf_free(struct shelf *shelf)
{
    if (shelf == NULL)
        return;
    for (size_t i = 0; i < shelf->count; i++)
        painted_free(shelf->rows[i]);
    free(shelf->rows);
    free(shelf);
}

void
shelf_begin(struct shelf *shelf, size_t spans)
{
    shelf->frame++;
    shelf->affordable = spans;
    shelf->spent = 0;
    shelf->rough = false;
    if (shelf->count <= KEPT)
        return;
    size_t kept = 0;
    for (size_t i = 0; i < shelf->count; i++) {
        if (shelf->rows[i]->used + 2 < shelf->frame)
            painted_free(shelf->rows[i]);
        else
            shelf->rows[kept++] = shelf->rows[i];
    }
    shelf->count = kept;
}

bool
shelf_is_rough(const struct shelf *shelf)
{
    return shelf->rough;
}

void
shelf_note(struct shelf *shelf, bool rough)
{
    shelf->rough |= rough;
}

bool
shelf_affords(const struct shelf *shelf, size_t spans)
{
    bool patient = shelf->affordable >= SHELF_PATIENT;
    return (shelf->spent == 0 && patient) || (spans <= shelf->affordable && shelf->spent <= shelf->affordable - spans);
}

void
shelf_spend(struct shelf *shelf, size_t spans)
{
    shelf->spent = spans < SIZE_MAX - shelf->spent ? shelf->spent + spans : SIZE_MAX;
}

/* An open span grows with the trace. */
static uint64_t
end_that_counts(const struct strip *strip)
{
    const struct index *index = strip->model->index;
    size_t spans = index_spans(index, strip->lane, 0);
    const struct node *node = spans > 0 ? index_node(index, strip->lane, 0, 0, (spans - 1) / INDEX_BLOCK) : NULL;
    return node != NULL && node->last == STILL_OPEN ? strip->model->end : 0;
}

static struct painted
row_of(const struct strip *strip)
{
    return (struct painted){ .lane = strip->lane, .events = index_events(strip->model->index, strip->lane),
                             .first = strip->first, .last = strip->last, .scale = strip->scale,
                             .veil = strip->veil->sum, .sieve = strip->sieve.sum, .end = end_that_counts(strip),
                             .whole = index_is_whole(strip->model->index) };
}

static bool
is_same_row(const struct painted *a, const struct painted *b)
{
    return a->lane == b->lane && a->events == b->events && a->first == b->first && a->last == b->last &&
           a->scale.unit == b->scale.unit && a->scale.left == b->scale.left && a->scale.columns == b->scale.columns &&
           a->scale.shift == b->scale.shift && a->veil == b->veil && a->sieve == b->sieve &&
           a->end == b->end && a->whole == b->whole;
}

struct painted *
shelf_find(const struct strip *strip)
{
    struct shelf *shelf = strip->model->shelf;
    const struct painted wanted = row_of(strip);
    for (size_t i = 0; i < shelf->count; i++)
        if (is_same_row(shelf->rows[i], &wanted)) {
            shelf->rows[i]->used = shelf->frame;
            return shelf->rows[i];
        }
    return NULL;
}

static void
remove_row(struct shelf *shelf, const struct painted *row)
{
    for (size_t i = 0; i < shelf->count; i++)
        if (shelf->rows[i] == row) {
            painted_free(shelf->rows[i]);
            shelf->rows[i] = shelf->rows[--shelf->count];
        }
}

struct painted *
shelf_take(const struct strip *strip)
{
    struct shelf *shelf = strip->model->shelf;
    struct painted *old = shelf_find(strip), *row = malloc(sizeof *row);
    if (row == NULL || !vec_room(&shelf->rows, &shelf->room, shelf->count + 1, sizeof(struct painted *))) {
        free(row);
        return NULL;
    }
    *row = row_of(strip);
    row->used = shelf->frame;
    row->cells = calloc((size_t)strip->scale.columns + 1, sizeof *row->cells);
    if (row->cells == NULL) {
        painted_free(row);
        return NULL;
    }
    if (old != NULL)
        remove_row(shelf, old);
    shelf->rows[shelf->count++] = row;
    return row;
}

const struct span *
painted_keep(struct painted *painted, const struct span *span)
{
    if (painted->slabs == NULL || painted->slabs->count == SLAB) {
        struct slab *slab = malloc(sizeof *slab);
        if (slab == NULL)
            return NULL;
        slab->next = painted->slabs;
        slab->count = 0;
        painted->slabs = slab;
    }
    struct span *kept = &painted->slabs->spans[painted->slabs->count++];
    *kept = *span;
    return kept;
}
