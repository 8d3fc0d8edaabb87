/* Matches are counted by blocks, so that what lies before the cursor is added up, not looked for, and empty blocks are
 * skipped. Interface: search_start, search_hunt, search_on, search_settle, search_free. */
#include "search.h"

#include "base/vec.h"
#include "find.h"
#include "veil.h"

#include <stdlib.h>

enum { COUNTED = 4096, SLICE_BLOCKS = 16 };

static bool
is_match(const struct search *search, const struct searched *in, size_t seq)
{
    return find_event(search->find, in->model, seq) && !veil_hides(in->veil, in->model, seq);
}

static void
forget_count(struct search *search)
{
    search->counted = search->count = search->place = 0;
}

void
search_start(struct search *search, struct find *find)
{
    find_free(search->find);
    search->find   = find;
    search->active = true;
    forget_count(search);
}

void
search_hunt(struct search *search, size_t from, int direction)
{
    search->hunting   = search->telling = true;
    search->found     = search->first = search->wrapped = false;
    search->direction = direction;
    search->at        = search->from = from;
}

bool
search_is_busy(const struct search *search, const struct model *model)
{
    return search->find != NULL && search->active && (search->hunting || search->counted < model->seen);
}

static size_t
matches_in(const struct search *search, const struct searched *in, size_t from, size_t end)
{
    size_t count = 0;
    for (size_t seq = from; seq < end; seq++)
        count += is_match(search, in, seq);
    return count;
}

/* The last block of a record that grows is counted again when there is more of it. */
static void
count_slice(struct search *search, const struct searched *in)
{
    size_t block = search->counted / COUNTED, seen = in->model->seen;
    if (search->counted % COUNTED != 0) {
        search->count -= search->blocks[block];
        search->counted = block * COUNTED;
    }
    for (int i = 0; i < SLICE_BLOCKS && search->counted < seen; i++, block++) {
        size_t end = (block + 1) * COUNTED < seen ? (block + 1) * COUNTED : seen;
        if (!vec_room(&search->blocks, &search->block_room, block + 1, sizeof *search->blocks)) {
            search->active = false; /* without its count there is no search */
            return;
        }
        search->blocks[block] = (uint16_t)matches_in(search, in, search->counted, end);
        search->count += search->blocks[block];
        search->counted = end;
    }
}

static bool
skips_block(const struct search *search, size_t seq)
{
    return search->counted >= (seq / COUNTED + 1) * COUNTED && search->blocks[seq / COUNTED] == 0;
}

/* One event on, behind the last one to the first. false: all of it was gone through, to where it began. */
static bool
goes_on(struct search *search, size_t seen)
{
    bool forwards = search->direction > 0;
    if (forwards ? search->at + 1 >= seen : search->at == 0) {
        if (search->wrapped || seen == 0)
            return false;
        search->wrapped = true;
        search->at      = forwards ? 0 : seen - 1;
    } else {
        search->at += forwards ? 1 : (size_t)-1;
    }
    return !search->wrapped || (forwards ? search->at <= search->from : search->at >= search->from);
}

static void
hunt_slice(struct search *search, const struct searched *in)
{
    bool forwards = search->direction > 0;
    for (size_t steps = 0; search->hunting && steps < (size_t)SLICE_BLOCKS * COUNTED; steps++) {
        if (!goes_on(search, in->model->seen)) {
            search->hunting = false;
            return;
        }
        if (skips_block(search, search->at)) {
            size_t block = search->at / COUNTED;
            search->at = forwards ? block * COUNTED + COUNTED - 1 : block * COUNTED;
        } else if (is_match(search, in, search->at)) {
            search->hunting = false;
            search->found   = true;
        }
    }
}

bool
search_on(struct search *search, const struct searched *in)
{
    if (!search_is_busy(search, in->model))
        return false;
    if (search->hunting)
        hunt_slice(search, in);
    else
        count_slice(search, in);
    return true;
}

void
search_settle(struct search *search, const struct searched *in, size_t cursor)
{
    size_t from = in->veil->stamp;
    if (search->find == NULL || !search->active || search->hunting || cursor >= in->model->seen)
        return;
    if (from != search->veil_from)
        forget_count(search);
    search->veil_from = from;
    if (search->counted <= cursor)
        return;
    size_t block = (cursor + 1) / COUNTED;
    search->place = matches_in(search, in, block * COUNTED, cursor + 1);
    for (size_t i = 0; i < block; i++)
        search->place += search->blocks[i];
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
