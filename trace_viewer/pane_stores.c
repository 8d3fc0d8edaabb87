/* Stores and groups, as of the cursor: of each process group how far its ranks have come, and who is behind; of the
 * store who waits for a key that nobody has set, and the keys that were set last. Each line leads to its event. */
#include "panes.h"

#include "page.h"
#include "ranks.h"
#include "analysis/state.h"
#include "analysis/waits.h"
#include "trace/reader.h"

#include <stdlib.h>
#include <string.h>

enum { KEYS = 64, BEHIND = 0x25c4 };

static bool
stand_alike(const struct rank_call *one, const struct rank_call *other)
{
    return one->group == other->group && one->number == other->number && one->done == other->done &&
           strcmp(one->operation, other->operation) == 0;
}

/* Who stands where `call` does, in one line. */
static void
add_call(const struct waits *waits, size_t which, int64_t most, int *ranks, struct page *page)
{
    const struct rank_call *call = &waits->calls[which];
    struct str who = { 0 }, what = { 0 };
    size_t count = 0;
    for (size_t i = which; i < waits->call_count; i++)
        if (stand_alike(call, &waits->calls[i]))
            ranks[count++] = waits->calls[i].rank;
    ranks_print(ranks, count, &who);
    str_addf(&what, "%s #%lld", call->operation, (long long)call->number);
    if (call->done < 0)
        str_add(&what, ", none done");
    else
        str_addf(&what, ", done %s#%lld", call->done == call->number ? "" : "to ", (long long)call->done);
    if (call->number < most)
        str_addf(&what, ", %llu behind", (unsigned long long)most - (unsigned long long)call->number);
    page->starved |= !str_ok(&who) || !str_ok(&what);
    page_addf(page, call->seq, (struct style){ 0 }, "  %-12s %s", str_text(&who), str_text(&what));
    page_head(page, 14, (struct style){ .attr = ATTR_BOLD });
    if (call->number < most)
        page_mark(page, BEHIND);
    str_free(&who);
    str_free(&what);
}

static bool
is_first_of_its_kind(const struct waits *waits, size_t which)
{
    for (size_t i = 0; i < which; i++)
        if (stand_alike(&waits->calls[i], &waits->calls[which]))
            return false;
    return true;
}

static void
add_group(const struct waits *waits, int group, int *ranks, struct page *page)
{
    int64_t most = -1;
    size_t  members = 0;
    for (size_t i = 0; i < waits->call_count; i++) {
        if (waits->calls[i].group != group)
            continue;
        most = waits->calls[i].number > most ? waits->calls[i].number : most;
        ranks[members++] = waits->calls[i].rank;
    }
    struct str who = { 0 };
    ranks_print(ranks, members, &who);
    page->starved |= !str_ok(&who);
    page_addf(page, NO_EVENT, (struct style){ .attr = ATTR_BOLD }, "group %d%s  %s called in it, up to #%lld", group,
              group == 0 ? " (default)" : "", str_text(&who), (long long)most);
    str_free(&who);
    for (size_t i = 0; i < waits->call_count; i++)
        if (waits->calls[i].group == group && is_first_of_its_kind(waits, i))
            add_call(waits, i, most, ranks, page);
}

static void
add_groups(const struct waits *waits, struct page *page)
{
    int *ranks = calloc(waits->call_count + 1, sizeof *ranks);
    int  last = -1;
    page->starved |= ranks == NULL;
    for (bool more = ranks != NULL; more;) {
        int next = INT32_MAX;
        for (size_t i = 0; i < waits->call_count; i++)
            if (waits->calls[i].group > last && waits->calls[i].group < next)
                next = waits->calls[i].group;
        more = next != INT32_MAX;
        if (more)
            add_group(waits, last = next, ranks, page);
    }
    if (waits->call_count == 0)
        page_add(page, NO_EVENT, (struct style){ .ink = INK_DIM }, "no collective was called so far");
    free(ranks);
}

/* Each key that nobody has set yet, with all who wait for it. */
static void
add_awaited(const struct waits *waits, struct page *page)
{
    int *ranks = calloc(waits->count + 1, sizeof *ranks);
    page->starved |= ranks == NULL;
    for (size_t i = 0; ranks != NULL && i < waits->count; i++) {
        const struct waiter *first = &waits->list[i];
        struct str who = { 0 };
        size_t count = 0;
        bool   told = first->awaits != AWAITS_STORE;
        for (size_t j = 0; j < waits->count && !told; j++) {
            bool same = waits->list[j].awaits == AWAITS_STORE && strcmp(waits->list[j].name, first->name) == 0;
            told = same && j < i;
            if (same)
                ranks[count++] = waits->list[j].rank;
        }
        if (told)
            continue;
        ranks_print(ranks, count, &who);
        page->starved |= !str_ok(&who);
        page_addf(page, first->seq, (struct style){ .ink = WORK_WAIT }, "key %s  %s wait%s for it", first->name,
                  str_text(&who), count == 1 ? "s" : "");
        page_head(page, 3, (struct style){ .attr = ATTR_BOLD });
        str_free(&who);
    }
    free(ranks);
}

static void
add_store(const struct model *model, const struct waits *waits, struct page *page)
{
    struct state_key keys[KEYS];
    size_t count = state_keys(model->state, keys, KEYS);
    add_awaited(waits, page);
    if (count > 0)
        page_addf(page, NO_EVENT, (struct style){ .attr = ATTR_BOLD }, "%zu keys were set%s", count,
                  count > KEYS ? ", the last of them" : "");
    for (size_t i = 0; i < count && i < KEYS; i++)
        page_addf(page, keys[i].seq, (struct style){ 0 }, "  %s  by r%d%s", keys[i].name, keys[i].rank,
                  keys[i].times > 1 ? ", more than once" : "");
}

static void
compose(const struct scene *scene, int width, struct page *page)
{
    (void)width;
    struct waits waits;
    if (!waits_take(&waits, scene->model->state)) {
        page->starved = true;
        return;
    }
    add_groups(&waits, page);
    add_store(scene->model, &waits, page);
    waits_free(&waits);
}

static enum concern
concern(const struct scene *scene)
{
    const char *kind = model_kind(scene->model, scene->view->cursor);
    if (strncmp(kind, "c10d.store.", 11) == 0 || strcmp(kind, "c10d.rendezvous") == 0 ||
        strcmp(kind, "c10d.new_group") == 0)
        return CONCERN_EVENT;
    return scene->model->ranked ? CONCERN_SOME : CONCERN_NONE;
}

const struct pane_kind stores_pane = { .name = "Stores", .least_columns = 36, .compares = true, .of_state = true,
                                       .concern = concern, .compose = compose };
