/* The buckets pane: those of the event's rank in sending order, a square for each gradient, how far each bucket is on
 * its way (pending, ready, sent, reduced, copying back, done) and whose gradients lie in it; below it where each rank
 * stands. Enter goes to the last event that moved the chosen bucket. */
#include "panes.h"

#include "analysis/buckets.h"
#include "base/str.h"
#include "trace/format.h"
#include "trace/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SQUARE = 0x25a0, HOLLOW = 0x25a1, CIRCLE = 0x25cb, SQUARES = 16, SQUARES_WIDE = 32, STATUS = 13, BYTES = 9,
       NEAR = 1 << 15 };

/* What a frame of this pane is drawn from. */
struct list {
    struct state_bucket *buckets;      /* owned */
    size_t               count;
    int                  rank, next;
    int                  rows_each;    /* of a bucket: more than one where there is room for all names */
};

static bool
list(const struct scene *scene, struct list *list)
{
    int rank = trace_event(scene->model->trace, scene->view->cursor)->rank;
    *list = (struct list){ .rank = rank < 0 ? 0 : rank, .buckets = calloc(BUCKETS_MOST, sizeof *list->buckets) };
    if (list->buckets == NULL)
        return false;
    list->count = state_buckets(scene->model->state, list->rank, list->buckets, BUCKETS_MOST);
    list->count = list->count < BUCKETS_MOST ? list->count : BUCKETS_MOST;
    list->next  = buckets_next(list->buckets, list->count);
    return true;
}

/* ---- rows ---- */

/* "980 B", "20.5 KB": as long as the spec's. */
static void
draw_bytes(struct canvas *pane, int row, int column, int64_t bytes)
{
    static const char *const units[] = { "B", "KB", "MB", "GB", "TB" };
    double value = (double)bytes;
    size_t unit  = 0;
    for (; value >= 1024 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        value /= 1024;
    canvas_textf(pane, row, column, (struct style){ 0 }, unit == 0 || value >= 100 ? "%5.0f %s" : "%5.1f %s", value,
                 units[unit]);
}

/* One a gradient; where there are too many for that, a part of the whole. */
static int
draw_squares(struct canvas *pane, int row, int column, const struct state_bucket *bucket, int most)
{
    int params = bucket->params < most ? (int)bucket->params : most;
    for (int i = 0; i < params; i++) {
        bool each   = bucket->params <= most && bucket->params <= 64;
        bool ready  = each ? (bucket->ready_bits >> i & 1) != 0 : bucket->ready * params >= (i + 1) * bucket->params;
        bool unused = each && (bucket->unused_bits >> i & 1) != 0;
        canvas_put(pane, row, column++, (struct style){ .ink = ready && !unused ? INK_GOOD : INK_DIM },
                   unused ? CIRCLE : ready ? SQUARE : HOLLOW);
    }
    return column;
}

static int
squares_for(const struct list *list, int width)
{
    int64_t most = 1;
    int     room = width >= 80 ? SQUARES_WIDE : width >= 44 ? SQUARES : 8;
    for (size_t i = 0; i < list->count; i++)
        most = list->buckets[i].params > most ? list->buckets[i].params : most;
    return most < room ? (int)most : room;
}

/* Whose gradients lie in it: at the row's end, or in rows of their own below it. */
static void
draw_params(const struct scene *scene, const struct list *list, struct canvas *pane, struct stretch place, size_t index)
{
    struct bucket_names names;
    struct str          params = { 0 };
    struct style        dim = { .ink = INK_DIM };
    bucket_names(scene->model->trace, list->rank, scene->view->cursor, &names);
    bucket_params(scene->model->trace, &list->buckets[index], &names, &params);
    if (list->rows_each > 1) {
        struct canvas part  = canvas_part(pane, place.row + 1, 0, list->rows_each - 1, pane->width);
        struct lines  lines = { 0 };
        canvas_wrap(&part, &lines, 4, dim, canvas_words(pane, &params));
    } else if (place.room >= 4) {
        canvas_cut(pane, place, dim, canvas_words(pane, &params));
    }
    str_free(&params);
}

static void
draw_bucket(const struct scene *scene, const struct list *list, struct canvas *pane, int row, size_t index)
{
    const struct state_bucket *bucket = &list->buckets[index];
    bool chosen  = scene->view->focus == PANE_BUCKETS && scene->view->panes[PANE_BUCKETS].line == (int)index;
    int  squares = squares_for(list, pane->width), column = 1;
    struct style style = { .ink = bucket->finalized ? INK_DIM : bucket->launched ? WORK_COMMUNICATION : INK_PLAIN,
                           .attr = chosen ? ATTR_REVERSE : 0 };
    canvas_textf(pane, row, column, style, "%2lld", (long long)bucket->index);
    draw_squares(pane, row, column + 3, bucket, squares);
    column += squares + 4;
    if (bucket->copied > 0 && !bucket->finalized)
        canvas_textf(pane, row, column, style, "back %lld/%lld", (long long)bucket->copied, (long long)bucket->params);
    else if (strcmp(bucket_status(bucket), "pending") == 0)
        canvas_textf(pane, row, column, style, "%lld/%lld", (long long)bucket->ready, (long long)bucket->params);
    else
        canvas_text(pane, row, column, style, bucket_status(bucket));
    column += pane->width >= 44 ? STATUS : 8;
    draw_bytes(pane, row, column, bucket->bytes);
    column += BYTES;
    draw_params(scene, list, pane, (struct stretch){ row, column, pane->width - column }, index);
}

/* "r1's buckets, in sending order       next to send: 1" */
static void
draw_heading(const struct list *list, struct canvas *pane)
{
    struct str text = { 0 };
    bool rebuilt = list->buckets[0].rebuilt;
    canvas_textf(pane, 0, 1, (struct style){ .attr = ATTR_BOLD }, "r%d%s", list->rank,
                 rebuilt ? ", rebuilt as they came" : ", in sending order");
    if (list->next >= 0)
        str_addf(&text, "next to send: %lld", (long long)list->buckets[list->next].index);
    else
        str_add(&text, "all sent");
    if (pane->width >= 44)
        canvas_textf(pane, 0, pane->width - (int)text.len - 1, (struct style){ .ink = INK_ACCENT }, "%s",
                     canvas_words(pane, &text));
    str_free(&text);
}

/* Where each rank stands, in as many rows as it takes, at most three. Answers how many. */
static int
draw_parties(const struct scene *scene, const struct list *list, struct canvas *pane, bool draws)
{
    struct str    text  = { 0 };
    struct lines  lines = { .row = pane->height - 1, .hang = 2 };
    struct canvas foot;
    buckets_parties(scene->model->state, buckets_ranks(scene->model->trace), list->rank, &text);
    int room = pane->width > 8 ? pane->width - 6 : 2, rows = ((int)text.len + room - 1) / room;
    rows = rows > 3 ? 3 : rows < 1 ? 1 : rows;
    rows = rows < pane->height - 1 ? rows : 1;
    if (draws) {
        foot  = canvas_part(pane, pane->height - rows, 0, rows, pane->width);
        lines = (struct lines){ .hang = 2 };
        canvas_wrap(&foot, &lines, 1, (struct style){ 0 }, canvas_words(pane, &text));
    }
    str_free(&text);
    return rows;
}

/* "bucket 0: ready, 4 of 4 gradients, 2101248 B: a.weight a.bias", and where each rank stands. */
static void
tell(const struct scene *scene, const struct list *list, struct canvas *pane, int skip)
{
    struct bucket_names names;
    struct str          text = { 0 }, parties = { 0 };
    bucket_names(scene->model->trace, list->rank, scene->view->cursor, &names);
    str_addf(&text, "r%d, %s\n", list->rank, list->next >= 0 ? "in sending order" : "all sent");
    for (size_t i = 0; i < list->count; i++) {
        const struct state_bucket *bucket = &list->buckets[i];
        str_addf(&text, "bucket %lld: %s, %lld of %lld gradients ready", (long long)bucket->index,
                 bucket_status(bucket), (long long)bucket->ready, (long long)bucket->params);
        if (bucket->unused_bits != 0)
            str_addf(&text, " (%d unused)", __builtin_popcountll(bucket->unused_bits));
        str_addf(&text, ", %lld B: ", (long long)bucket->bytes);
        bucket_params(scene->model->trace, bucket, &names, &text);
        str_add(&text, "\n");
    }
    buckets_parties(scene->model->state, buckets_ranks(scene->model->trace), -1, &parties);
    str_enclose(&text, "ranks: ", &parties, "\n");
    canvas_wrap(pane, &(struct lines){ .skip = skip, .hang = 2 }, 1, (struct style){ 0 }, canvas_words(pane, &text));
    str_free(&text);
    str_free(&parties);
}

static void
draw(const struct scene *scene, struct canvas *pane, int skip)
{
    struct list shown;
    if (!list(scene, &shown)) {
        canvas_starve(pane);
        return;
    }
    if (shown.count == 0) {
        canvas_textf(pane, 0, 1, (struct style){ .ink = INK_DIM }, "r%d has no buckets yet: DDP announces them",
                     shown.rank);
        free(shown.buckets);
        return;
    }
    if (scene->capabilities->words) {
        tell(scene, &shown, pane, skip);
        free(shown.buckets);
        return;
    }
    int foot = pane->height >= 4 ? draw_parties(scene, &shown, pane, true) : 0, page = pane->height - 1 - foot;
    int top  = skip;
    shown.rows_each = page / (int)shown.count;
    shown.rows_each = shown.rows_each > 4 ? 4 : shown.rows_each < 1 ? 1 : shown.rows_each;
    page = (page + shown.rows_each - 1) / shown.rows_each;
    if (skip == 0 && scene->view->panes[PANE_BUCKETS].line == 0 && shown.next >= page && page > 0)
        top = shown.next / page * page;
    draw_heading(&shown, pane);
    for (int i = 0; i < page && (size_t)(top + i) < shown.count; i++)
        draw_bucket(scene, &shown, pane, 1 + i * shown.rows_each, (size_t)(top + i));
    free(shown.buckets);
}

/* ---- the pane ---- */

static enum concern
concern(const struct scene *scene)
{
    struct state_bucket bucket;
    int  rank = trace_event(scene->model->trace, scene->view->cursor)->rank;
    bool about = strncmp(model_kind(scene->model, scene->view->cursor), "ddp.", 4) == 0;
    if (state_buckets(scene->model->state, rank < 0 ? 0 : rank, &bucket, 1) == 0)
        return about ? CONCERN_SOME : CONCERN_NONE;
    return about ? CONCERN_EVENT : CONCERN_SOME;
}

static int
rows(const struct scene *scene)
{
    struct list shown;
    int count = list(scene, &shown) ? (int)shown.count : 0;
    free(shown.buckets);
    return count;
}

/* The last event of the rank that names the bucket, as of the cursor. */
static void
enter(struct model *model, struct view *view, int row)
{
    struct list shown;
    bool   there = list(&(struct scene){ model, view, NULL }, &shown) && row >= 0 && (size_t)row < shown.count;
    size_t seq   = view->cursor;
    for (int steps = 0; there && steps < NEAR && seq-- > 0; steps++) {
        int64_t bucket;
        if (trace_event(model->trace, seq)->rank != shown.rank || strncmp(model_kind(model, seq), "ddp.", 4) != 0 ||
            !model_argument(model, seq, "bucket", &bucket) || bucket != shown.buckets[row].index)
            continue;
        view_goto(view, model, seq);
        break;
    }
    free(shown.buckets);
}

const struct pane_kind buckets_pane = { .name = "Buckets", .least_columns = 28, .compares = true, .of_state = true,
                                        .tells = "ddp", .concern = concern, .draw = draw, .rows = rows,
                                        .enter = enter };
