/* The chooser of ranks. Interface: chooser_open, chooser_key, chooser_draw. */
#include "chooser.h"

#include "page.h"
#include "parties.h"
#include "ranks.h"
#include "trace/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDE = 52, HEAD = 2 };

static bool
could_run(const struct waiter *waiter)
{
    return waiter->speaks && (waiter->stands == STANDS_RUNNING || waiter->stands == STANDS_IDLE);
}

/* The ranks' own programs in order. false: no memory. */
static bool
take_ranks(const struct model *model, struct waits *waits, size_t *count)
{
    if (!waits_take(waits, model->state))
        return false;
    *count = 0;
    for (size_t i = 0; i < waits->count; i++)
        if (waits->list[i].speaks)
            waits->list[(*count)++] = waits->list[i];
    return true;
}

void
chooser_open(struct model *model, struct view *view)
{
    struct waits waits;
    size_t       count;
    if (view->run == RUN_SAVED || view->run == RUN_GONE) {
        view_say(view, "switch needs the running engine: ringside step LESSON.lua");
        return;
    }
    if (!model_seek(model, view->cursor) || !take_ranks(model, &waits, &count)) {
        view_say(view, "out of memory");
        return;
    }
    view->chooses = count > 0;
    view->choice  = 0;
    while (view->choice < (int)count && !could_run(&waits.list[view->choice]))
        view->choice++;
    view->choice = view->choice < (int)count ? view->choice : 0;
    if (count == 0)
        view_say(view, "there are no ranks here, so none can run first");
    waits_free(&waits);
}

static void
choose(struct model *model, struct view *view, const struct waits *waits, size_t count, int rank)
{
    for (size_t i = 0; i < count; i++)
        if (waits->list[i].rank == rank) {
            view->chooses = false;
            view_do(view, false, "switch %d", rank);
            return;
        }
    view_say(view, "there is no rank %d", rank);
    (void)model;
}

void
chooser_key(struct model *model, struct view *view, const char *key)
{
    struct waits waits;
    size_t       count;
    bool         digit = key[0] >= '0' && key[0] <= '9' && key[1] == '\0';
    if (strcmp(key, "Esc") == 0 || strcmp(key, "q") == 0 || strcmp(key, "x") == 0) {
        view->chooses = false;
        return;
    }
    if (!take_ranks(model, &waits, &count)) {
        view->chooses = false;
        return;
    }
    if (strcmp(key, "Down") == 0 || strcmp(key, "j") == 0)
        view->choice += view->choice + 1 < (int)count;
    else if (strcmp(key, "Up") == 0 || strcmp(key, "k") == 0)
        view->choice -= view->choice > 0;
    else if (digit)
        choose(model, view, &waits, count, key[0] - '0');
    else if (strcmp(key, "Enter") == 0 && view->choice < (int)count)
        choose(model, view, &waits, count, waits.list[view->choice].rank);
    else
        view_say(view, "a digit or the arrows choose a rank, Enter takes it, Esc leaves");
    waits_free(&waits);
}

static void
add_rank(const struct waiter *waiter, const struct waits *waits, struct page *page)
{
    static const char *const words[] = {
        [STANDS_IDLE] = "runs its own code", [STANDS_RUNNING] = "runs", [STANDS_WAITING] = "waits in",
        [STANDS_RETURNED] = "has returned", [STANDS_RAISED] = "has failed", [STANDS_KILLED] = "was killed",
    };
    struct str line = { 0 };
    str_addf(&line, "r%-3d %s", waiter->rank, words[waiter->stands]);
    if (waiter->stands == STANDS_RUNNING || waiter->stands == STANDS_WAITING)
        str_addf(&line, " %s", waiter->name);
    if (waiter->number >= 0)
        str_addf(&line, " #%lld", (long long)waiter->number);
    if (waiter->stands == STANDS_WAITING && waiter->count > 0) {
        str_add(&line, " for ");
        ranks_print(waits->targets + waiter->first, waiter->count, &line);
    }
    page->starved |= !str_ok(&line);
    page_add(page, NO_EVENT, (struct style){ .ink = could_run(waiter) ? INK_PLAIN : INK_DIM }, str_text(&line));
    page_head(page, 4, (struct style){ .attr = could_run(waiter) ? ATTR_BOLD : 0 });
    str_free(&line);
}

void
chooser_draw(const struct scene *scene, struct canvas *timeline)
{
    struct waits waits;
    size_t       count;
    struct page  page = { 0 };
    if (timeline->height < HEAD + 1)
        return;
    if (!take_ranks(scene->model, &waits, &count)) {
        canvas_starve(timeline);
        return;
    }
    for (size_t i = 0; i < count; i++)
        add_rank(&waits.list[i], &waits, &page);
    int width = timeline->width < WIDE ? timeline->width : WIDE;
    int height = (int)count + HEAD < timeline->height ? (int)count + HEAD : timeline->height;
    struct canvas box = canvas_part(timeline, 0, timeline->width - width, height, width);
    struct canvas body = canvas_part(&box, 1, 0, height - HEAD, width);
    struct view   own = *scene->view; /* the choice is drawn as a pane's chosen line is */
    int  skip = own.choice - body.height + 1 > 0 ? own.choice - body.height + 1 : 0;
    own.focus = PANE_TASKS;
    own.panes[PANE_TASKS].line = own.choice;
    canvas_clear(&box);
    canvas_fill(&box, 0, (struct style){ .attr = ATTR_REVERSE }, ' ');
    canvas_cut(&box, (struct stretch){ 0, 1, width - 2 }, (struct style){ .attr = ATTR_REVERSE | ATTR_BOLD },
               "Which rank runs first from here on?");
    page_draw(&page, &(struct scene){ scene->model, &own, scene->capabilities }, PANE_TASKS, &body, skip);
    canvas_fill(&box, height - 1, (struct style){ .ink = INK_DIM }, 0x2500);
    canvas_cut(&box, (struct stretch){ height - 1, 1, width - 2 }, (struct style){ .ink = INK_DIM },
               " digit or arrows; Enter; Esc closes ");
    page_free(&page);
    waits_free(&waits);
}
