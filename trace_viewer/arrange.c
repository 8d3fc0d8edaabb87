/* How the timeline is arranged. Interface: arrange_fold, arrange_set_fold, arrange_settle, arrange_work,
 * arrange_use, arrange_print, arrange_free. */
#include "arrange.h"

#include "base/str.h"
#include "base/vec.h"
#include "trace/reader.h"
#include "view.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 16, PARTS = 100 }; /* alike: apart by less than one part of so many of the trace */

enum fold
arrange_fold(const struct arrange *arrange, int lane)
{
    return lane >= 0 && (size_t)lane < arrange->fold_room ? (enum fold)arrange->fold[lane] : FOLD_NONE;
}

bool
arrange_set_fold(struct arrange *arrange, int lane, enum fold fold)
{
    size_t before = arrange->fold_room;
    if (lane < 0)
        return true;
    if ((size_t)lane >= before) {
        if (!vec_room(&arrange->fold, &arrange->fold_room, (size_t)lane + 1, sizeof *arrange->fold))
            return false;
        memset(arrange->fold + before, FOLD_NONE, arrange->fold_room - before);
    }
    arrange->fold[lane] = (uint8_t)fold;
    return true;
}

static uint64_t
difference(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* The same number of spans, and some of the outermost, evenly chosen, of the same work at nearly the same times. */
static bool
lanes_alike(const struct model *model, size_t one, size_t other, uint64_t *apart)
{
    size_t count = index_spans(model->index, one, 0), step = count / SAMPLES + 1;
    if (count != index_spans(model->index, other, 0) || model_depth(model, one) != model_depth(model, other))
        return false;
    for (size_t i = 0; i < count; i += step) {
        struct span x, y;
        if (!index_span(model->index, one, 0, i, &x) || !index_span(model->index, other, 0, i, &y))
            return false;
        if (x.work != y.work || (x.end == STILL_OPEN) != (y.end == STILL_OPEN))
            return false;
        uint64_t begin = difference(x.begin, y.begin), end = x.end == STILL_OPEN ? 0 : difference(x.end, y.end);
        *apart = begin > *apart ? begin : *apart;
        *apart = end > *apart ? end : *apart;
    }
    return *apart <= model->end / PARTS;
}

/* Each lane of a rank has its like in the rank before, in the same order. */
static void
compare_ranks(struct arrange *arrange, const struct model *model, const uint32_t *lanes, const size_t *first)
{
    for (size_t rank = 0; rank < arrange->like_ranks; rank++) {
        struct likeness *like = &arrange->likeness[rank];
        size_t count = first[rank + 1] - first[rank];
        *like = (struct likeness){ .like = rank > 0 && count > 0 && first[rank] - first[rank - 1] == count };
        for (size_t i = 0; i < count && like->like; i++)
            like->like = lanes_alike(model, lanes[first[rank - 1] + i], lanes[first[rank] + i], &like->apart);
    }
}

/* The lanes of each rank, in the order of the trace. */
static bool
settle_likeness(struct arrange *arrange, const struct model *model, size_t ranks)
{
    struct likeness *likeness = realloc(arrange->likeness, ranks * sizeof *likeness);
    if (likeness == NULL)
        return false;
    arrange->likeness = likeness;
    size_t   *first = calloc(ranks + 2, sizeof *first);
    uint32_t *lanes = malloc((model->lane_count + 1) * sizeof *lanes);
    if (first != NULL && lanes != NULL) {
        for (size_t i = 0; i < model->lane_count; i++) {
            int rank = trace_lane_at(model->trace, i)->rank;
            if (rank >= 0)
                first[rank + 2]++;
        }
        for (size_t rank = 2; rank <= ranks + 1; rank++)
            first[rank] += first[rank - 1];
        for (size_t i = 0; i < model->lane_count; i++) {
            int rank = trace_lane_at(model->trace, i)->rank;
            if (rank >= 0)
                lanes[first[rank + 1]++] = (uint32_t)i;
        }
        arrange->like_ranks = ranks;
        compare_ranks(arrange, model, lanes, first);
    }
    bool good = first != NULL && lanes != NULL;
    free(first);
    free(lanes);
    return good;
}

void
arrange_settle(struct view *view, const struct model *model)
{
    struct arrange *arrange = &view->arrange;
    align_settle(&arrange->align, model, view->cursor);
    if (arrange->like_seen == model->seen || !model_is_whole(model))
        return;
    int most = -1;
    for (size_t i = 0; i < model->lane_count; i++)
        most = trace_lane_at(model->trace, i)->rank > most ? trace_lane_at(model->trace, i)->rank : most;
    arrange->like_ranks = 0;
    if (most < 0 || settle_likeness(arrange, model, (size_t)most + 1))
        arrange->like_seen = model->seen;
}

bool
arrange_work(struct view *view, const struct model *model)
{
    if (view->arrange.curves.seen > model->seen)
        curves_free(&view->arrange.curves);
    bool whole = filter_is_whole(&view->arrange.filter, model) && view->arrange.curves.seen >= model->seen;
    bool filters = filter_work(&view->arrange.filter, model);
    bool curves = curves_work(&view->arrange.curves, model);
    view->arrange.working = filters || curves;
    return !whole && !view->arrange.working;
}

void
arrange_use(struct arrange *arrange, const struct match_names *names)
{
    filter_use(&arrange->filter, names);
    curves_free(&arrange->curves);
    arrange->align.count = 0;
    arrange->like_seen = arrange->like_ranks = 0;
}

void
arrange_print(const struct view *view, const struct model *model, struct str *out)
{
    const struct arrange *arrange = &view->arrange;
    if (arrange->squeezed)
        str_add(out, "  squeezed");
    if (arrange->filter.match != NULL)
        str_add(out, "  filtered");
    if (arrange->align.by != ALIGN_WALL)
        str_add(out, "  aligned");
    if (arrange->following)
        str_add(out, "  following");
    size_t behind = trace_count(model->trace) - model->seen;
    if (arrange->following && behind > 0)
        str_addf(out, " lag %zu events", behind);
}

void
arrange_free(struct arrange *arrange)
{
    free(arrange->fold);
    free(arrange->likeness);
    align_free(&arrange->align);
    filter_free(&arrange->filter);
    curves_free(&arrange->curves);
    *arrange = (struct arrange){ 0 };
}
