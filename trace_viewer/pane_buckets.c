/* The buckets pane: those of the event's rank in sending order, how full they are and how far on their way. */
#include "panes.h"

#include "analysis/state.h"
#include "base/vec.h"
#include "trace/reader.h"

#include <string.h>

static void
draw_bucket(const struct state_bucket *bucket, struct canvas *pane, int row, const struct capabilities *capabilities)
{
    int column = canvas_textf(pane, row, 1, (struct style){ 0 }, "%2lld ", (long long)bucket->index);
    for (int64_t i = 0; i < bucket->params && i < 12; i++) {
        bool ready = i < bucket->ready;
        canvas_put(pane, row, column++, (struct style){ .ink = ready ? INK_GOOD : INK_DIM },
                   capabilities->utf8 ? (ready ? 0x25a0u : 0x25a1u) : (uint32_t)(unsigned char)(ready ? '#' : '.'));
    }
    const char *what = bucket->reduced ? "reduced" : bucket->launched ? "sent" :
                       bucket->ready >= bucket->params ? "ready" : "pending";
    canvas_textf(pane, row, column + 1, (struct style){ 0 }, "%lld/%lld %-8s %lld B  params %s",
                 (long long)bucket->ready, (long long)bucket->params, what, (long long)bucket->bytes,
                 bucket->indices != NULL ? bucket->indices : "?");
}

static void
draw_buckets(const struct model *model, const struct view *view, struct canvas *pane, int row,
             const struct capabilities *capabilities)
{
    int rank = trace_event(model->trace, view->cursor)->rank;
    struct state_bucket buckets[64];
    size_t count = state_buckets(model->state, rank < 0 ? 0 : rank, buckets, countof(buckets));
    if (count == 0) {
        canvas_text(pane, row, 1, (struct style){ .ink = INK_DIM }, "no buckets yet: DDP announces them");
        return;
    }
    canvas_textf(pane, row++, 1, (struct style){ .attr = ATTR_BOLD }, "rank %d, in sending order", rank < 0 ? 0 : rank);
    for (size_t i = 0; i < count && i < countof(buckets); i++)
        draw_bucket(&buckets[i], pane, row++, capabilities);
}

static void
draw(const struct scene *scene, struct canvas *pane, int skip)
{
    draw_buckets(scene->model, scene->view, pane, -skip, scene->capabilities);
}

static enum concern
concern(const struct scene *scene)
{
    struct state_bucket bucket;
    int rank = trace_event(scene->model->trace, scene->view->cursor)->rank;
    if (state_buckets(scene->model->state, rank < 0 ? 0 : rank, &bucket, 1) == 0)
        return CONCERN_NONE;
    return strncmp(model_kind(scene->model, scene->view->cursor), "ddp.", 4) == 0 ? CONCERN_EVENT : CONCERN_SOME;
}

const struct pane_kind buckets_pane = { .name = "Buckets", .least_columns = 28, .compares = true, .of_state = true,
                                        .concern = concern, .draw = draw };
