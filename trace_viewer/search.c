/* Matches are counted by blocks, so that what lies before the cursor is added up, not looked for, and empty blocks are
 * skipped. Interface: search_begin, search_hunt, search_on, search_settle, search_free. */
#include "search.h"

#include "base/str.h"
#include "base/vec.h"
#include "find.h"
#include "view.h"

#include <stdlib.h>

enum { BLOCK = 4096, SLICE_BLOCKS = 16 };

static bool
is_match(const struct view *view, const struct model *model, size_t seq)
{
    return find_event(view->search.find, model, seq) && !veil_hides(&view->veil, model, seq);
}

static void
forget_count(struct search *search)
{
    search->counted = search->count = search->place = 0;
}

void
search_begin(struct view *view, const struct model *model, struct find *find)
{
    struct search *search = &view->search;
    find_free(search->find);
    search->find   = find;
    search->active = true;
    forget_count(search);
    search_hunt(view, model, 1);
    search->first  = true;
}

void
search_hunt(struct view *view, const struct model *model, int direction)
{
    struct search *search = &view->search;
    if (view->cursor == NO_EVENT || search->find == NULL)
        return;
    search->hunting   = search->telling = model->seen > 0;
    search->wrapped   = search->found = search->first = false;
    search->direction = direction;
    search->at        = view->cursor;
}

void
search_pause(struct view *view)
{
    view->search.hunting = view->search.telling = false;
}

bool
search_is_busy(const struct view *view, const struct model *model)
{
    const struct search *search = &view->search;
    return search->find != NULL && search->active && (search->hunting || search->counted < model->seen);
}

/* Matches from the block's first event up to before `end`. */
static size_t
matches_in(const struct view *view, const struct model *model, size_t from, size_t end)
{
    size_t count = 0;
    for (size_t seq = from; seq < end; seq++)
        count += is_match(view, model, seq);
    return count;
}

/* The last block of a record that grows is counted again when there is more of it. */
static void
count_slice(struct view *view, const struct model *model)
{
    struct search *search = &view->search;
    size_t block = search->counted / BLOCK;
    if (search->counted % BLOCK != 0) {
        search->count -= search->blocks[block];
        search->counted = block * BLOCK;
    }
    for (int i = 0; i < SLICE_BLOCKS && search->counted < model->seen; i++, block++) {
        size_t end = (block + 1) * BLOCK < model->seen ? (block + 1) * BLOCK : model->seen;
        if (!vec_room(&search->blocks, &search->block_room, block + 1, sizeof *search->blocks)) {
            search->counted = model->seen; /* a count is no more than nice to have */
            return;
        }
        search->blocks[block] = (uint16_t)matches_in(view, model, search->counted, end);
        search->count += search->blocks[block];
        search->counted = end;
    }
}

static void
find_place(struct view *view, const struct model *model)
{
    struct search *search = &view->search;
    size_t here = view->cursor == NO_EVENT ? 0 : view->cursor + 1, block = here / BLOCK;
    if (search->counted < here)
        return;
    search->place = matches_in(view, model, block * BLOCK, here);
    for (size_t i = 0; i < block; i++)
        search->place += search->blocks[i];
}

static void
say_count(struct view *view, bool more)
{
    const struct search *search = &view->search;
    struct str           through = { 0 };
    if (search->first)
        find_say(search->find, &through);
    view_say(view, "/%.200s  %zu/%zu%s%s%s%s%s", find_text(search->find), search->place, search->count,
             more ? "+" : "", search->wrapped ? ", from the other end" : "", through.len > 0 ? "  " : "", str_text(&through),
             view->veil.draws ? "; some are hidden until you answer" : "");
    str_free(&through);
}

static void
say_none(struct view *view, const struct model *model)
{
    const struct search *search = &view->search;
    const char          *hidden = view->veil.draws ? "; some are hidden until you answer" : "";
    char                 meant[128];
    find_nearest(search->find, model, meant, sizeof meant);
    if (search->count > 0)
        view_say(view, "/%.200s  %zu/%zu, no %s match%s", find_text(search->find), search->place, search->count,
                 search->direction > 0 ? "further" : "earlier", hidden);
    else if (meant[0] != '\0')
        view_say(view, "no match for /%.200s; did you mean %s?%s", find_text(search->find), meant, hidden);
    else
        view_say(view, "no match for /%.200s%s", find_text(search->find), hidden);
}

/* A new search that comes to the end goes on from the start; n and N stay. */
static void
meet_edge(struct view *view)
{
    struct search *search = &view->search;
    if (search->first && !search->wrapped) {
        search->wrapped = true;
        search->at      = SIZE_MAX; /* so that event 0 is next */
        return;
    }
    search->hunting = search->wrapped = false;
}

static bool
skips_block(const struct search *search, size_t seq)
{
    return search->counted >= (seq / BLOCK + 1) * BLOCK && search->blocks[seq / BLOCK] == 0;
}

static void
hunt_slice(struct view *view, const struct model *model)
{
    struct search *search = &view->search;
    for (size_t steps = 0; search->hunting && steps < (size_t)SLICE_BLOCKS * BLOCK; steps++) {
        bool forwards = search->direction > 0;
        if (forwards ? search->at != SIZE_MAX && search->at + 1 >= model->seen : search->at == 0) {
            meet_edge(view);
            continue;
        }
        search->at += forwards ? 1 : (size_t)-1;
        if (skips_block(search, search->at)) {
            size_t block = search->at / BLOCK;
            search->at = forwards ? block * BLOCK + BLOCK - 1 : block * BLOCK;
        } else if (is_match(view, model, search->at)) {
            search->hunting = false;
            search->found   = true;
            view_goto(view, model, search->at);
        }
    }
    if (search->hunting)
        view_say(view, "looking for /%.200s at event %zu; ^C stops", find_text(search->find), search->at);
}

/* What is said stays until a key; the count in it grows as long as it is counted. */
static void
tell(struct view *view, const struct model *model)
{
    struct search *search = &view->search;
    if (search->telling && search->found)
        say_count(view, search->counted < model->seen);
    else if (search->telling && search->counted >= model->seen)
        say_none(view, model);
}

bool
search_on(struct view *view, const struct model *model)
{
    struct search *search = &view->search;
    if (!search_is_busy(view, model) && !search->telling)
        return false;
    if (search->hunting)
        hunt_slice(view, model);
    if (search->hunting)
        return true;
    if (search->counted < model->seen)
        count_slice(view, model);
    search_settle(view, model);
    tell(view, model);
    search->telling &= search->counted < model->seen;
    return search_is_busy(view, model);
}

void
search_settle(struct view *view, const struct model *model)
{
    struct search *search = &view->search;
    size_t         from = view->veil.draws ? view->veil.question : SIZE_MAX;
    if (search->find == NULL || !search->active || search->hunting)
        return;
    if (from != search->veil_from)
        forget_count(search);
    search->veil_from = from;
    find_place(view, model);
}

void
search_use(struct search *search, const struct model *model)
{
    search->hunting = false;
    forget_count(search);
    if (search->find != NULL)
        find_use(search->find, model);
}

void
search_free(struct search *search)
{
    find_free(search->find);
    free(search->blocks);
    *search = (struct search){ .direction = 0 };
}
