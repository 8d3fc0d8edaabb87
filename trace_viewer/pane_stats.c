/* Statistics: of each kind how often, how long in all, without what is inside of it, on average and at most; of each
 * rank how its time was spent. In the iteration, or in the whole record, which is added up in slices. */
#include "panes.h"

#include "page.h"
#include "analysis/index.h"
#include "analysis/stats.h"
#include "base/vec.h"
#include "trace/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AT_ONCE = 200000, BAR = 20 };                      /* events of an iteration that a frame may add up */
static const char no_memory[] = "no memory";
enum order { BY_SELF, BY_TOTAL, BY_COUNT, BY_LONGEST, BY_RANK, ORDERS };

/* What the pane looks at: bit 0 of its choice the scope, the others the order. */
struct choice { bool whole; enum order order; };

static struct choice
choice_of(const struct view *view)
{
    int bits = view->panes[PANE_STATS].element;
    return (struct choice){ (bits & 1) != 0, (enum order)(bits / 2 % ORDERS) };
}

/* ---- what is added up ---- */

static void
iteration_around(const struct model *model, size_t cursor, size_t *from, size_t *to)
{
    uint32_t iteration = trace_event(model->trace, cursor)->iteration;
    bool     first = cursor == 0 || trace_event(model->trace, cursor - 1)->iteration != iteration;
    size_t   before = first ? cursor : index_next_iteration(model->index, cursor, -1);
    size_t   behind = index_next_iteration(model->index, cursor, 1);
    *from = before == NO_EVENT ? 0 : before;
    *to   = behind == NO_EVENT ? model->seen : behind;
}

/* The sums, owned by the caller if `own`; NULL: not to be had, `why` says so. */
static struct stats *
sums_of(const struct scene *scene, bool *own, const char **why)
{
    const struct model *model = scene->model;
    size_t from, to;
    *own = !choice_of(scene->view).whole;
    *why = no_memory;
    if (!*own) {
        *why = "\u2026";
        return model->stats;
    }
    iteration_around(model, scene->view->cursor, &from, &to);
    if (to - from > AT_ONCE) {
        *why = "this iteration has too many events to be added up at once; t: the whole record";
        return NULL;
    }
    struct stats *stats = stats_new(model->trace, from);
    if (stats != NULL)
        stats_grow(stats, to, AT_ONCE);
    return stats;
}

/* ---- lines ---- */

struct kind_row { unsigned kind; uint64_t key; };

static uint64_t
key_of(const struct kind_sums *sums, enum order order)
{
    switch (order) {
    case BY_TOTAL:   return sums->total;
    case BY_COUNT:   return sums->count;
    case BY_LONGEST: return sums->longest;
    default:         return sums->self;
    }
}

static int
compare_rows(const void *a, const void *b)
{
    const struct kind_row *one = a, *other = b;
    if (one->key != other->key)
        return one->key > other->key ? -1 : 1;
    return one->kind < other->kind ? -1 : one->kind > other->kind;
}

static void
print_time(uint64_t ps, char out[16])
{
    static const char *const units[] = { "ns", "us", "ms", "s" };
    double value = (double)ps / 1000;
    int    unit  = 0;
    for (; value >= 999.5 && unit < 3; unit++)
        value /= 1000;
    snprintf(out, 16, ps == 0 ? "-" : "%.*f %s", value < 9.95 ? 2 : value < 99.5 ? 1 : 0, value, units[unit]);
}

static void
add_kind(const struct kind_sums *sums, const char *name, int width, struct page *page)
{
    char total[16], self[16], mean[16], longest[16], short_name[64];
    int  room = width >= 72 ? 26 : width >= 52 ? 20 : 14;
    print_time(sums->total, total);
    print_time(sums->self, self);
    print_time(sums->count > 0 ? sums->total / sums->count : 0, mean);
    print_time(sums->longest, longest);
    snprintf(short_name, sizeof short_name, "%.*s", room, name);
    struct style style = { .ink = (uint8_t)work_of_kind(name) };
    size_t at = sums->longest > 0 ? sums->longest_at : NO_EVENT;
    if (width >= 60)
        page_addf(page, at, style, "%-*s %7llu %9s %9s %9s %9s", room, short_name, (unsigned long long)sums->count,
                  self, total, mean, longest);
    else
        page_addf(page, at, style, "%-*s %6llu %9s", room, short_name, (unsigned long long)sums->count, self);
}

static void
add_rank(int rank, const struct rank_sums *sums, bool words, struct page *page)
{
    uint64_t all = sums->busy + sums->wait + sums->communication;
    unsigned share[3];
    if (all == 0)
        return;
    share[0] = (unsigned)(sums->busy * 100 / all);
    share[1] = (unsigned)(sums->communication * 100 / all);
    share[2] = 100 - share[0] - share[1];
    char bar[3 * BAR + 1] = "";
    for (unsigned i = 0; i < BAR && !words; i++)
        strcat(bar, i * 100 < share[0] * BAR ? "\u2588" : i * 100 < (share[0] + share[1]) * BAR ? "\u2592" : "\u2500");
    page_addf(page, NO_EVENT, (struct style){ 0 }, "r%-3d %s%sbusy %3u%%  comm %3u%%  wait %3u%%", rank, bar,
              words ? "" : " ", share[0], share[1], share[2]);
}

static void
add_head(const struct scene *scene, const struct stats *stats, int width, struct page *page)
{
    static const char *const orders[] = { "self", "total", "count", "longest", "rank" };
    struct choice choice = choice_of(scene->view);
    bool growing = choice.whole && stats->next < scene->model->seen;
    page_addf(page, NO_EVENT, (struct style){ .attr = ATTR_BOLD }, "%s, by %s%s",
              choice.whole ? "the whole record" : "this iteration", orders[choice.order], growing ? " \u2026" : "");
    if (choice.order == BY_RANK)
        page_add(page, NO_EVENT, (struct style){ .ink = INK_DIM }, "shares of what its lanes did, innermost stages");
    else if (width >= 60)
        page_addf(page, NO_EVENT, (struct style){ .ink = INK_DIM }, "%-*s %7s %9s %9s %9s %9s", width >= 72 ? 26 : 20,
                  "kind", "count", "self", "total", "mean", "longest");
    else
        page_addf(page, NO_EVENT, (struct style){ .ink = INK_DIM }, "%-*s %6s %9s", width >= 52 ? 20 : 14, "kind",
                  "count", "self");
}

static void
add_kinds(const struct scene *scene, const struct stats *stats, int width, struct page *page)
{
    const struct trace *trace = scene->model->trace;
    struct kind_row    *rows = calloc(stats->kind_count + 1, sizeof *rows);
    size_t              count = 0;
    if (rows == NULL) {
        page->starved = true;
        return;
    }
    for (unsigned kind = 0; kind < stats->kind_count; kind++) /* what a question hides is not counted before the eyes */
        if (stats->kinds[kind].count > 0 &&
            !veil_hides_kind(&scene->view->veil, scene->model, trace_kind(trace, kind)->name))
            rows[count++] = (struct kind_row){ kind, key_of(&stats->kinds[kind], choice_of(scene->view).order) };
    qsort(rows, count, sizeof *rows, compare_rows);
    for (size_t i = 0; i < count; i++)
        add_kind(&stats->kinds[rows[i].kind], trace_kind(trace, rows[i].kind)->name, width, page);
    free(rows);
}

static void
compose(const struct scene *scene, int width, struct page *page)
{
    bool          own;
    const char   *why;
    struct stats *stats = sums_of(scene, &own, &why);
    if (stats == NULL || stats->starved) {
        page_wrap(page, NO_EVENT, (struct style){ .ink = INK_DIM }, width, 0, stats == NULL ? why : no_memory);
        page->starved |= stats != NULL || why == no_memory;
        if (own)
            stats_free(stats);
        return;
    }
    add_head(scene, stats, width, page);
    bool ranks = choice_of(scene->view).order == BY_RANK;
    for (size_t rank = 0; ranks && rank < stats->rank_count && !scene->view->veil.draws; rank++)
        add_rank((int)rank, &stats->ranks[rank], scene->capabilities->words, page);
    if (ranks && stats->rank_count == 0)
        page_add(page, NO_EVENT, (struct style){ .ink = INK_DIM }, "there are no ranks in it");
    if (!ranks)
        add_kinds(scene, stats, width, page);
    if (own)
        stats_free(stats);
}

static void
press(struct model *model, struct view *view, const char *key)
{
    (void)model;
    int *bits = &view->panes[PANE_STATS].element;
    if (strcmp(key, "t") == 0)
        *bits ^= 1;
    else
        *bits = (*bits & 1) + 2 * ((*bits / 2 + 1) % ORDERS);
}

static enum concern
concern(const struct scene *scene)
{
    (void)scene;
    return CONCERN_SOME;
}

static const struct pane_key keys[] = {
    { "t", "iteration/all", "the iteration, or the whole record" },
    { "y", "order",         "by self time, total, count, longest; by rank" },
    { NULL, NULL, NULL },
};

const struct pane_kind stats_pane = { .name = "Statistics", .least_columns = 40, .concern = concern, .compose = compose,
                                      .leads = "a kind's leads to its longest stage", .keys = keys, .press = press };
