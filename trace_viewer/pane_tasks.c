/* Tasks and locks: what each task does, what it waits for and since when, who would have to do something first; the
 * locks with their holder and queue; a circle of waits is told above all. Ranks that stand alike are one line, with the
 * tasks of a rank below it where there is room for all. Each line leads to its event. */
#include "panes.h"

#include "page.h"
#include "parties.h"
#include "ranks.h"
#include "analysis/state.h"
#include "base/vec.h"
#include "trace/reader.h"

#include <stdio.h>
#include <string.h>

enum { LOCKS = 32, NAME = 16, MANY = 12 };

static void
add_circle(const struct waits *waits, struct page *page)
{
    int        ranks[9];
    size_t     count = waits_circle(waits, ranks, countof(ranks));
    struct str text = { 0 };
    if (count == 0)
        return;
    for (size_t i = 0; i < count && i < countof(ranks); i++)
        str_addf(&text, "r%d \u2500\u2500\u25ba ", ranks[i]);
    if (count > countof(ranks))
        str_addf(&text, "+%zu \u2500\u2500\u25ba ", count - countof(ranks));
    str_addf(&text, "r%d  a circle", ranks[0]);
    page->starved |= !str_ok(&text);
    const struct waiter *first = waits_of_rank(waits, ranks[0]);
    page_add(page, first != NULL ? first->seq : NO_EVENT, (struct style){ .ink = WORK_FAULT, .attr = ATTR_BOLD },
             str_text(&text));
    str_free(&text);
}

static void
add_locks(const struct model *model, struct page *page)
{
    struct state_lock locks[LOCKS];
    size_t count = state_locks(model->state, locks, LOCKS);
    for (size_t i = 0; i < count && i < LOCKS; i++) {
        bool        held = locks[i].holder_lane >= 0;
        const char *holder = held ? trace_lane_at(model->trace, (size_t)locks[i].holder_lane)->name : "nobody";
        page_addf(page, NO_EVENT, (struct style){ .ink = held ? INK_PLAIN : INK_DIM },
                  "lock %.40s: held by %.40s, %zu wait%s", locks[i].name, holder, locks[i].waiting,
                  locks[i].waiting == 1 ? "s" : "");
        page_head(page, 4, (struct style){ .attr = ATTR_BOLD });
    }
    if (count > LOCKS)
        page_addf(page, NO_EVENT, (struct style){ .ink = INK_DIM }, "+%zu locks", count - LOCKS);
}

/* What it waits for, in words and arrows. */
static void
print_awaited(const struct model *model, const struct waits *waits, const struct waiter *waiter, struct str *out)
{
    str_addf(out, "%s%s", waiter->awaits == AWAITS_LOCK ? "lock " : waiter->awaits == AWAITS_TASK ? "end of " : "",
             waiter->name);
    if (waiter->number >= 0)
        str_addf(out, " #%lld", (long long)waiter->number);
    if (waiter->count > 0) {
        str_add(out, " \u2500\u2500\u25ba ");
        ranks_print(waits->targets + waiter->first, waiter->count, out);
    } else if (waiter->holder >= 0 && waiter->awaits == AWAITS_LOCK) {
        str_addf(out, " \u2500\u2500\u25ba %s", trace_lane_at(model->trace, (size_t)waiter->holder)->name);
    }
    if (waiter->queue > 1)
        str_addf(out, ", %zu in the queue", waiter->queue);
}

/* "r0 main       waits  all_reduce #6 --> r5  since 12 us" */
static void
add_task(const struct scene *scene, const struct waits *waits, const struct waiter *waiter, int width,
         struct page *page)
{
    static const char *const words[] = {
        [STANDS_IDLE] = "idle", [STANDS_RUNNING] = "runs", [STANDS_WAITING] = "waits", [STANDS_RETURNED] = "returned",
        [STANDS_RAISED] = "failed", [STANDS_KILLED] = "killed",
    };
    const struct model           *model = scene->model;
    const struct trace_lane_info *lane  = trace_lane_at(model->trace, waiter->lane);
    struct str line = { 0 }, what = { 0 };
    bool told = lane->name[0] == 'r' && lane->name[1] >= '0' && lane->name[1] <= '9';
    if (model->ranked && lane->rank >= 0 && !told)
        str_addf(&line, "r%d ", lane->rank);
    str_addf(&line, "%.*s", NAME, lane->name);
    while (line.len < NAME && str_ok(&line))
        str_add(&line, " ");
    str_addf(&line, " %-8s ", words[waiter->stands]);
    if (waiter->stands == STANDS_WAITING)
        print_awaited(model, waits, waiter, &what);
    else if (waiter->stands == STANDS_RUNNING && waiter->seq != NO_EVENT)
        model_label(model, waiter->seq, &what);
    str_add(&line, str_text(&what));
    if (waiter->seq != NO_EVENT && waiter->stands != STANDS_IDLE && (int)line.len + 20 < width) {
        str_add(&line, "  since ");
        trace_print_time(trace_time(model->trace, waiter->seq), &line);
    }
    page->starved |= !str_ok(&line) || !str_ok(&what);
    uint8_t ink = waiter->stands == STANDS_IDLE ? INK_DIM : waiter->stands == STANDS_WAITING ? WORK_WAIT
                  : waiter->stands == STANDS_RUNNING && waiter->seq != NO_EVENT ? model_work(model, waiter->seq)
                  : waiter->stands > STANDS_RETURNED ? WORK_FAULT : INK_PLAIN;
    page_add(page, waiter->seq, (struct style){ .ink = ink }, str_text(&line));
    page_head(page, NAME, (struct style){ .attr = (int)waiter->lane == scene->view->lane ? ATTR_BOLD : 0 });
    str_free(&line);
    str_free(&what);
}

static void
compose(const struct scene *scene, int width, struct page *page)
{
    struct parties parties;
    if (!parties_take(&parties, scene->model->state)) {
        page->starved = true;
        return;
    }
    add_circle(&parties.waits, page);
    add_locks(scene->model, page);
    if (parties.waits.rank_count > MANY) { /* folded: ranks that stand alike in one line */
        parties_print(&parties, scene, width, page);
        for (size_t i = 0; i < parties.waits.count; i++)
            if (parties.waits.list[i].rank < 0)
                add_task(scene, &parties.waits, &parties.waits.list[i], width, page);
    } else {
        for (size_t i = 0; i < parties.waits.count; i++)
            add_task(scene, &parties.waits, &parties.waits.list[i], width, page);
    }
    parties_free(&parties);
}

static enum concern
concern(const struct scene *scene)
{
    enum work work = model_work(scene->model, scene->view->cursor);
    return work == WORK_WAIT || strncmp(model_kind(scene->model, scene->view->cursor), "lock.", 5) == 0
               ? CONCERN_EVENT : CONCERN_SOME;
}

const struct pane_kind tasks_pane = { .name = "Tasks", .least_columns = 28, .compares = true, .of_state = true,
                                      .tells = "dp ddp c10d comm autograd module lock",
                                      .concern = concern, .compose = compose };
