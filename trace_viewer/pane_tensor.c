/* The tensors that an event is about: the chosen one whole, the others in a line each. Values are those of the latest
 * snapshot at or before the cursor; who wrote since without one is said, and so is what was never recorded. */
#include "panes.h"

#include "analysis/state.h"
#include "analysis/tensors.h"
#include "base/dtype.h"
#include "base/str.h"
#include "base/vec.h"
#include "glyph.h"
#include "tensor_grid.h"
#include "trace/reader.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PEERS = 16, EXTENTS = 48, SUMMED = 4096, LOOKED_AT = 64, FULL_BLOCK = 0x25a0, FREE = 0xb7 };

/* What the pane is drawn from, found anew for each frame. */
struct subject {
    struct seen_tensor seen[TENSORS_OF_EVENT];
    int                count, chosen;
    size_t             of;                   /* whose tensors they are */
    size_t             base;                 /* what changed since then is marked; NO_EVENT: nothing is */
};

static struct style
dim(void)
{
    return (struct style){ .ink = INK_DIM };
}

/* An end is compared with its begin: what the stage did. Else with where one stood before the last step. */
static size_t
base_of(const struct scene *scene)
{
    size_t cursor = scene->view->cursor, before = scene->view->before;
    if (trace_event(scene->model->trace, cursor)->phase == PHASE_END)
        return trace_partner(scene->model->trace, cursor);
    return before != NO_EVENT && before < cursor ? before : NO_EVENT;
}

/* Those that have values come first: what a device has yet to write says little. */
static void
put_known_first(const struct scene *scene, struct subject *subject)
{
    struct seen_tensor known[TENSORS_OF_EVENT], rest[TENSORS_OF_EVENT];
    int first = 0, behind = 0;
    for (int i = 0; i < subject->count; i++) {
        struct tensor_values values;
        tensors_values(scene->model->tensors, &subject->seen[i], scene->view->cursor, &values);
        if (seen_summary(&subject->seen[i], &values, LOOKED_AT).known > 0)
            known[first++] = subject->seen[i];
        else
            rest[behind++] = subject->seen[i];
    }
    memcpy(subject->seen, known, (size_t)first * sizeof *known);
    memcpy(subject->seen + first, rest, (size_t)behind * sizeof *rest);
}

static bool
find_tensors(const struct scene *scene, struct subject *subject)
{
    const struct model *model = scene->model;
    size_t              cursor = scene->view->cursor;
    *subject = (struct subject){ .of = cursor, .base = NO_EVENT };
    if (cursor == NO_EVENT || cursor >= model->seen || model->tensors == NULL || tensors_seen(model->tensors) <= cursor)
        return false;
    const struct state *state = model->at == cursor ? model->state : NULL;
    int count = (int)tensors_of_event(model->tensors, state, cursor, subject->seen, &subject->of);
    for (int i = 0; i < count; i++) /* what a question keeps back is not told by what it did */
        if (!veil_hides(&scene->view->veil, model, subject->seen[i].told) &&
            !veil_hides(&scene->view->veil, model, subject->of))
            subject->seen[subject->count++] = subject->seen[i];
    put_known_first(scene, subject);
    int line = scene->view->panes[PANE_TENSOR].line;
    subject->chosen = line < subject->count ? line : subject->count - 1;
    subject->base = base_of(scene);
    return subject->count > 0;
}

/* "input 2 = 0.weight"; a gradient's name says what it is. */
static void
add_heading(const struct seen_tensor *tensor, struct str *out)
{
    bool named = tensor->name[0] != '\0';
    bool says = named && (strcmp(tensor->name, tensor->role) == 0 || strcmp(tensor->role, "gradient") == 0 ||
                          strcmp(tensor->role, "slot") == 0);
    if (!says)
        str_add(out, tensor->role);
    if (named)
        str_addf(out, says ? "%s" : " = %s", tensor->name);
}

/* "float32 [4, 3]" */
static void
add_shape(const struct seen_tensor *tensor, struct str *out)
{
    if (!tensor->shaped)
        return;
    str_addf(out, "%s [", dtype_name((enum dtype)tensor->dtype));
    for (int i = 0; i < tensor->dims; i++)
        str_addf(out, i > 0 ? ", %lld" : "%lld", (long long)tensor->size[i]);
    str_add(out, "]");
}

static void
add_place(const struct seen_tensor *tensor, struct str *out)
{
    if (tensor->device >= 0)
        str_addf(out, " dev%d", tensor->device);
    else
        str_add(out, " cpu");
    if (tensor->rank >= 0)
        str_addf(out, " r%d", tensor->rank);
}

static void
add_number(double value, struct str *out)
{
    double size = fabs(value);
    str_addf(out, size != 0 && (size >= 1e6 || size < 1e-4) ? "%.2e" : "%.4g", value);
}

/* Why there are none: what a device will do later has not been written yet. */
static void
add_absence(const struct scene *scene, const struct seen_tensor *tensor, const struct tensor_values *values,
            struct str *out)
{
    struct storage_facts facts = tensors_storage(scene->model->tensors, tensor->storage, scene->view->cursor);
    bool stepped = strcmp(trace_option_of(scene->model->trace, "executor"), "free") != 0;
    if (values->edges)
        str_add(out, "values not recorded: of so large a storage only the ends are kept");
    else if (values->seq != SIZE_MAX || values->written_since != SIZE_MAX || !facts.known || !stepped)
        str_add(out, "values not recorded");
    else if (facts.freed != SIZE_MAX)
        str_addf(out, "its memory was given back by event %zu", facts.freed);
    else if (tensor->device >= 0)
        str_addf(out, "no values yet: dev%d is behind the host: it comes when its kernel ends", tensor->device);
    else
        str_add(out, "no values yet: nothing was written to it");
}

static void
add_summary(const struct value_summary *summary, struct str *out)
{
    if (summary->known > summary->nans + summary->infinities && summary->count > 1) {
        str_add(out, "min ");
        add_number(summary->least, out);
        str_add(out, " mean ");
        add_number(summary->mean, out);
        str_add(out, " max ");
        add_number(summary->most, out);
    }
    if (summary->nans > 0)
        str_addf(out, " nan %lld", (long long)summary->nans);
    if (summary->infinities > 0)
        str_addf(out, " inf %lld", (long long)summary->infinities);
    if (summary->known < summary->count)
        str_addf(out, " of %lld/%lld", (long long)summary->known, (long long)summary->count);
    str_addf(out, summary->count > 1 ? "  #%04x" : "#%04x", summary->hash);
}

static void
put_line(struct canvas *pane, int row, int column, struct style style, struct str *text)
{
    if (row >= 0 && row < pane->height)
        canvas_cut(pane, (struct stretch){ row, column, pane->width - column - 1 }, style, canvas_words(pane, text));
    str_free(text);
}

/* Facts one after another: too long, those at the end go, and no number is cut in two. */
static void
put_facts(struct canvas *pane, int row, int column, struct style style, struct str *text)
{
    int room = pane->width - column - 1;
    if (str_ok(text) && room > 2 && glyph_width(str_text(text), INT_MAX / 2) > room) {
        size_t end = (size_t)room - 1;
        while (end > 0 && text->text[end] != ' ')
            end--;
        while (end > 0 && text->text[end - 1] == ' ')
            end--;
        text->len = end;
        text->text[end] = '\0';
        str_add(text, " …");
    }
    put_line(pane, row, column, style, text);
}

/* ---- one in a line ---- */

static void
draw_short(const struct scene *scene, const struct subject *subject, int which, struct canvas *pane, int row)
{
    const struct seen_tensor *tensor = &subject->seen[which];
    struct tensor_values      values;
    struct str                text = { 0 };
    tensors_values(scene->model->tensors, tensor, scene->view->cursor, &values);
    struct value_summary summary = seen_summary(tensor, &values, SUMMED);
    int column = canvas_textf(pane, row, 1, dim(), "%d", which + 1) + 1;
    add_heading(tensor, &text);
    str_add(&text, "  ");
    add_shape(tensor, &text);
    str_add(&text, "  ");
    if (summary.count == 1 && summary.known == 1) {
        char value[40];
        tensor_value_exact(tensor, seen_element(tensor, &values, 0), value);
        str_addf(&text, "= %s", value);
    } else if (summary.known > 0) {
        add_summary(&summary, &text);
    } else {
        add_absence(scene, tensor, &values, &text);
    }
    put_facts(pane, row, column, (struct style){ 0 }, &text);
}

/* ---- what is said of the chosen one ---- */

/* "version 3 requires grad storage 12 @40 (a view)  as of event 118": where the values are from. */
static void
draw_origin(const struct scene *scene, const struct subject *subject, const struct seen_tensor *tensor,
            const struct tensor_values *values, struct canvas *pane, int row)
{
    struct str text = { 0 };
    if (values->written_since != SIZE_MAX)
        str_addf(&text, "written since by event %zu  ", values->written_since);
    if (values->seq != SIZE_MAX)
        str_addf(&text, "as of event %zu  ", values->seq);
    if (values->edges)
        str_add(&text, "kept: first and last 32  ");
    if (tensor->storage > 0)
        str_addf(&text, "storage %lld", (long long)tensor->storage);
    if (tensor->storage > 0 && tensor->offset > 0)
        str_addf(&text, " @%lld", (long long)tensor->offset);
    if (tensor->version >= 0)
        str_addf(&text, "  version %lld", (long long)tensor->version);
    if (tensor->requires_grad)
        str_add(&text, "  requires grad");
    if (subject->of != scene->view->cursor && trace_partner(scene->model->trace, scene->view->cursor) != subject->of)
        str_addf(&text, "  of %s around", model_kind(scene->model, subject->of));
    put_facts(pane, row, 1, values->written_since != SIZE_MAX ? (struct style){ .ink = INK_ACCENT } : dim(), &text);
}

/* How many values are others than they were, and the largest change. */
static void
add_changes(const struct seen_tensor *tensor, const struct tensor_sheet *sheet, size_t base, struct str *out)
{
    int64_t count = seen_count(tensor), changed = 0, compared = 0;
    double  most = 0;
    size_t  size = dtype_size((enum dtype)tensor->dtype);
    for (int64_t i = 0; i < count && i < SUMMED; i++) {
        const void *now = seen_element(tensor, sheet->now, i), *then = seen_element(tensor, sheet->then, i);
        compared += now != NULL && then != NULL;
        if (now == NULL || then == NULL || memcmp(now, then, size) == 0)
            continue;
        double is = dtype_fraction((enum dtype)tensor->dtype, now);
        double was = dtype_fraction((enum dtype)tensor->dtype, then);
        double percent = was != 0 ? fabs(100 * (is - was) / was) : 0;
        most = percent > most ? percent : most;
        changed++;
    }
    if (compared == 0)
        return;
    if (changed == 0)
        str_addf(out, "same as at event %zu", base);
    else if (count == 1)
        str_add(out, "changed");
    else
        str_addf(out, "%lld of %lld changed", (long long)changed, (long long)compared);
    if (most > 0 && isfinite(most))
        str_addf(out, count == 1 ? " by %.3g%%" : " by up to %.3g%%", most);
    if (changed > 0)
        str_addf(out, " since event %zu", base);
}

/* Answers the row below; why there are no values takes as many as it needs. */
static int
draw_summary(const struct scene *scene, const struct tensor_sheet *sheet, struct canvas *pane, int row)
{
    const struct seen_tensor *tensor = sheet->tensor;
    struct str                text = { 0 };
    struct value_summary      summary = seen_summary(tensor, sheet->now, SUMMED);
    const void *element = sheet->element >= 0 ? seen_element(tensor, sheet->now, sheet->element) : NULL;
    if (sheet->element >= 0) {
        char    exact[40] = "not recorded";
        int64_t index[TENSOR_DIMS], left = sheet->element;
        for (int d = tensor->dims; d-- > 0; left /= tensor->size[d])
            index[d] = left % tensor->size[d];
        str_add(&text, "[");
        for (int d = 0; d < tensor->dims; d++)
            str_addf(&text, d > 0 ? ", %lld" : "%lld", (long long)index[d]);
        if (element != NULL)
            tensor_value_exact(tensor, element, exact);
        str_addf(&text, "] = %s", exact);
        put_line(pane, row, 1, (struct style){ .attr = ATTR_BOLD }, &text);
        return row + 1;
    }
    if (summary.known > 0) {
        add_summary(&summary, &text);
        put_facts(pane, row, 1, dim(), &text);
        return row + 1;
    }
    struct lines lines = { .row = row };
    add_absence(scene, tensor, sheet->now, &text);
    canvas_wrap(pane, &lines, 1, dim(), canvas_words(pane, &text));
    str_free(&text);
    return lines.row;
}

/* false: there is nothing to say. */
static bool
draw_changes(const struct seen_tensor *tensor, const struct tensor_sheet *sheet, size_t base, struct canvas *pane,
             int row)
{
    struct str text = { 0 };
    if (sheet->then != NULL)
        add_changes(tensor, sheet, base, &text);
    bool says = str_text(&text)[0] != '\0';
    put_line(pane, row, 1, (struct style){ .ink = INK_ACCENT }, &text);
    return says;
}

/* ---- who shares the storage ---- */

/* Extents that lie in others are told by their others, unless they have a name. */
static size_t
parts_of_storage(const struct scene *scene, const struct seen_tensor *tensor, int64_t elements, struct extent *parts)
{
    struct extent all[EXTENTS];
    size_t  kept = 0;
    size_t  count = tensors_extents(scene->model->tensors, tensor->storage, scene->view->cursor, all, EXTENTS);
    int64_t end = 0;
    for (size_t i = 0; i < count; i++) {
        if (all[i].end - all[i].begin >= elements || all[i].begin < end || all[i].end > elements)
            continue;
        /* of those that begin here the one that is named */
        for (size_t j = i + 1; j < count && all[j].begin == all[i].begin; j++)
            if (strchr(all[j].label, '.') != NULL && strchr(all[i].label, '.') == NULL && all[j].end <= elements)
                all[i] = all[j];
        end = all[i].end;
        parts[kept++] = all[i];
    }
    return kept;
}

static void
draw_extent(struct canvas *pane, struct stretch place, const char *label, bool own, uint32_t fill)
{
    struct style style = { .ink = own ? INK_ACCENT : INK_PLAIN, .attr = own ? ATTR_BOLD : 0 };
    int length = (int)strlen(label), room = place.room - 2;
    for (int i = 0; i < place.room; i++)
        canvas_put(pane, place.row, place.column + i, style, fill);
    if (room < 3 || length == 0)
        return;
    int fits = length < room ? length : room;
    canvas_cut(pane, (struct stretch){ place.row, place.column + (place.room - fits) / 2, fits }, style, label);
}

/* "[■■weight■■|■bias■|··free··]": each extent in proportion, at least three cells. */
static bool
draw_sharers(const struct scene *scene, const struct seen_tensor *tensor, struct canvas *pane, int row)
{
    struct storage_facts facts = tensors_storage(scene->model->tensors, tensor->storage, scene->view->cursor);
    struct extent parts[EXTENTS];
    int64_t size = (int64_t)dtype_size((enum dtype)tensor->dtype), elements = facts.bytes / size, at = 0;
    size_t  count = facts.known && tensor->shaped ? parts_of_storage(scene, tensor, elements, parts) : 0;
    int     left = 2, right = pane->width - 2, column = left;
    bool    utf8 = scene->capabilities->utf8;
    if (count == 0 || right - left < 12 || pane->height <= row || scene->capabilities->words)
        return false;
    canvas_put(pane, row, left - 1, dim(), '[');
    for (size_t i = 0; i <= count; i++) {
        int64_t begin = i < count ? parts[i].begin : elements, end = i < count ? parts[i].end : elements;
        int     from = left + (int)((double)begin / (double)elements * (right - left));
        int     to = left + (int)((double)end / (double)elements * (right - left));
        if (begin > at && from > column)
            draw_extent(pane, (struct stretch){ row, column, from - column }, "free", false, utf8 ? FREE : '.');
        if (i == count || to <= column)
            continue;
        column = from > column ? from : column;
        bool own = begin <= tensor->offset && tensor->offset < end;
        draw_extent(pane, (struct stretch){ row, column, to - column }, parts[i].label, own,
                    utf8 ? FULL_BLOCK : (uint32_t)'#');
        if (column > left)
            canvas_put(pane, row, column, dim(), '|');
        column = to;
        at = end;
    }
    canvas_put(pane, row, right, dim(), ']');
    return true;
}

/* ---- ranks ---- */

struct peers {
    struct seen_tensor   seen[PEERS];
    struct tensor_values values[PEERS];
    uint32_t             hash[PEERS];
    bool                 known[PEERS];
    int                  count;
    int64_t              compared, differ; /* values that are known of two at least; those that are not equal */
    bool                 whole;            /* all values of all of them are known */
};

/* Of large ones the edges, which are all that can be there. */
static void
compare_peers(struct peers *peers)
{
    const struct seen_tensor *first = &peers->seen[0];
    int64_t count = seen_count(first);
    for (int64_t i = 0; i < count; i++) {
        const void *known = NULL;
        bool        differs = false, compared = false;
        size_t      size = dtype_size((enum dtype)first->dtype);
        if (count > SUMMED && i == SUMMED / 2)
            i = count - SUMMED / 2;
        for (int peer = 0; peer < peers->count; peer++) {
            const struct seen_tensor *other = &peers->seen[peer];
            bool  alike = other->dtype == first->dtype && seen_count(other) == count;
            const void *element = alike ? seen_element(other, &peers->values[peer], i) : NULL;
            compared |= known != NULL && element != NULL;
            differs |= known != NULL && element != NULL && memcmp(known, element, size) != 0;
            known = known == NULL ? element : known;
        }
        peers->compared += compared;
        peers->differ += differs;
    }
}

static void
find_peers(const struct scene *scene, const struct subject *subject, const struct seen_tensor *tensor,
           struct peers *peers)
{
    const struct tensors *tensors = scene->model->tensors;
    peers->count = (int)tensors_of_peers(tensors, tensor, subject->of, scene->view->cursor, peers->seen, PEERS);
    peers->compared = peers->differ = 0;
    peers->whole = true;
    for (int i = 0; i < peers->count; i++) {
        tensors_values(tensors, &peers->seen[i], scene->view->cursor, &peers->values[i]);
        struct value_summary summary = seen_summary(&peers->seen[i], &peers->values[i], SUMMED);
        peers->hash[i] = summary.hash;
        peers->known[i] = summary.known > 0;
        peers->whole &= summary.known == summary.count;
    }
    if (peers->count > 1)
        compare_peers(peers);
}

/* "r0 #a3f1  r1 #a3f1  in sync". */
static void
draw_hashes(const struct peers *peers, struct canvas *pane, int row)
{
    struct str text = { 0 };
    for (int i = 0; i < peers->count; i++) {
        const struct seen_tensor *peer = &peers->seen[i];
        str_addf(&text, peer->rank >= 0 ? "r%d " : "dev%d ", peer->rank >= 0 ? peer->rank : peer->device);
        if (peers->known[i] && peers->whole)
            str_addf(&text, "#%04x  ", peers->hash[i]);
        else if (peers->known[i])
            str_add(&text, "in part  ");
        else
            str_add(&text, "not recorded  ");
    }
    if (peers->differ > 0)
        str_add(&text, "they differ");
    else if (peers->compared == 0)
        str_add(&text, "cannot be compared yet");
    else
        str_add(&text, peers->whole ? "in sync" : "equal as far as is recorded");
    put_line(pane, row, 1, (struct style){ .ink = peers->differ > 0 ? INK_ACCENT : INK_GOOD }, &text);
}

/* The same tensor of each rank beside each other, each compared with the first. */
static void
draw_side_by_side(const struct scene *scene, const struct peers *peers, size_t base, struct canvas *pane)
{
    int fit = pane->width / 20, count = peers->count < fit ? peers->count : fit;
    for (int i = 0; i < count; i++) {
        int left = pane->width * i / count, right = pane->width * (i + 1) / count;
        const struct seen_tensor *peer = &peers->seen[i];
        struct canvas part = canvas_part(pane, 0, left, pane->height, right - left);
        canvas_textf(&part, 0, 1, (struct style){ .attr = ATTR_BOLD }, peer->rank >= 0 ? "r%d" : "dev%d",
                     peer->rank >= 0 ? peer->rank : peer->device);
        struct canvas body = canvas_part(&part, 1, 0, part.height - 1, part.width - 1);
        struct tensor_sheet  sheet = { .tensor = peer, .now = &peers->values[i], .element = -1 };
        struct tensor_values then;
        if (base != NO_EVENT) {
            tensors_values(scene->model->tensors, peer, base, &then);
            sheet.then = &then;
        }
        if (i > 0) {
            sheet.other = &peers->seen[0];
            sheet.other_now = &peers->values[0];
        }
        if (peers->known[i])
            tensor_grid_draw(&sheet, &body, scene->capabilities);
        else
            canvas_text(&body, 0, 1, dim(), "not recorded");
    }
}

/* ---- the chosen one ---- */

static void
draw_chosen(const struct scene *scene, const struct subject *subject, struct canvas *pane)
{
    const struct pane_look   *look = &scene->view->panes[PANE_TENSOR];
    const struct seen_tensor *tensor = &subject->seen[subject->chosen];
    struct tensor_values      now, then;
    struct peers              peers;
    int64_t                   count = seen_count(tensor);
    tensors_values(scene->model->tensors, tensor, scene->view->cursor, &now);
    struct tensor_sheet sheet = { .tensor = tensor, .now = &now, .element = -1, .percent = look->percent };
    if (look->element > 0 && count > 0)
        sheet.element = look->element - 1 < count ? look->element - 1 : count - 1;
    if (subject->base != NO_EVENT) {
        tensors_values(scene->model->tensors, tensor, subject->base, &then);
        sheet.then = &then;
    }
    find_peers(scene, subject, tensor, &peers);
    int row = 0, rows = pane->height;
    int  want = tensor->shaped ? tensor_grid_rows(&sheet, pane->width, rows) : 0;
    bool side = peers.count > 1 && peers.differ > 0 && pane->width >= 40 && sheet.element < 0 && rows > 4;
    if (rows > 1 && (rows > 2 || now.count == 0))
        row = draw_summary(scene, &sheet, pane, row);
    if (rows - row > 2 && draw_changes(tensor, &sheet, subject->base, pane, row))
        row++;
    if (peers.count > 1 && rows - row > 2)
        draw_hashes(&peers, pane, row++);
    if (rows - row > 2 && (rows - row > want || rows - row > 4 || now.written_since != SIZE_MAX))
        draw_origin(scene, subject, tensor, &now, pane, row++);
    if (rows - row > 3 && (rows - row > want || rows - row > 5) && draw_sharers(scene, tensor, pane, row))
        row++;
    struct canvas body = canvas_part(pane, row, 0, rows - row, pane->width);
    if (side)
        draw_side_by_side(scene, &peers, subject->base, &body);
    else if (tensor->shaped && seen_summary(tensor, &now, SUMMED).known > 0)
        tensor_grid_draw(&sheet, &body, scene->capabilities);
}

/* ---- the pane ---- */

static void
draw_none(const struct scene *scene, struct canvas *pane)
{
    const struct model *model = scene->model;
    size_t seen = model->tensors != NULL ? tensors_seen(model->tensors) : 0;
    if (seen <= scene->view->cursor)
        canvas_textf(pane, 0, 1, dim(), "still being read: %zu of %zu events", seen, model->seen);
    else if (trace_kind_id(model->trace, "memory.tensor") < 0)
        canvas_text(pane, 0, 1, dim(), "not recorded: this trace does not say which tensors its events are about");
    else if (strcmp(trace_option_of(model->trace, "executor"), "free") == 0)
        canvas_text(pane, 0, 1, dim(), "not recorded: values are kept by the stepped executor alone");
    else
        canvas_text(pane, 0, 1, dim(), "this event names no tensor, nor does a stage around it");
}

/* The chosen one, which the title names, and below it as many of the others as have room. */
static void
draw(const struct scene *scene, struct canvas *pane, int skip)
{
    struct subject subject;
    (void)skip;
    if (!find_tensors(scene, &subject)) {
        draw_none(scene, pane);
        return;
    }
    int others = subject.count - 1, room = pane->height, most = room > 6 ? room / 3 : room > 3 ? 1 : 0;
    int lines = others < most ? others : most, first = subject.chosen - lines / 2;
    first = first + lines > others ? others - lines : first;
    first = first < 0 ? 0 : first;
    struct canvas part = canvas_part(pane, 0, 0, room - lines, pane->width);
    draw_chosen(scene, &subject, &part);
    for (int i = first, row = room - lines; row < room; i++)
        if (i != subject.chosen)
            draw_short(scene, &subject, i, pane, row++);
    if (others > lines && lines > 0) {
        char more[24];
        snprintf(more, sizeof more, "+%d ", others - lines);
        canvas_right(pane, pane->height - 1, dim(), more);
    }
}

static void
title(const struct scene *scene, struct str *out)
{
    struct subject subject;
    str_add(out, "Tensor");
    if (!find_tensors(scene, &subject))
        return;
    if (subject.count > 1)
        str_addf(out, " %d/%d", subject.chosen + 1, subject.count);
    str_add(out, " ");
    add_heading(&subject.seen[subject.chosen], out);
    str_add(out, "  ");
    add_shape(&subject.seen[subject.chosen], out);
    add_place(&subject.seen[subject.chosen], out);
}

static enum concern
concern(const struct scene *scene)
{
    struct subject subject;
    if (!find_tensors(scene, &subject))
        return CONCERN_NONE;
    return subject.of == scene->view->cursor ||
           trace_partner(scene->model->trace, scene->view->cursor) == subject.of ? CONCERN_EVENT : CONCERN_SOME;
}

static int
rows(const struct scene *scene)
{
    struct subject subject;
    return find_tensors(scene, &subject) ? subject.count : 0;
}

/* To the event that the values are from. */
static void
enter(struct model *model, struct view *view, int row)
{
    struct subject subject;
    struct tensor_values values;
    if (!find_tensors(&(struct scene){ model, view, NULL }, &subject) || row >= subject.count)
        return;
    tensors_values(model->tensors, &subject.seen[row], view->cursor, &values);
    if (values.seq == SIZE_MAX)
        view_say(view, "no snapshot of it at or before this event");
    else
        view_goto(view, model, values.seq);
}

static const struct pane_key keys[] = {
    { "%", "change", "by how much each value changed, or the values" },
    { "Left", "value", "the value before, with all its digits" },
    { "Right", "value", "the next value, with all its digits" },
    { NULL, NULL, NULL },
};

static void
press(struct model *model, struct view *view, const char *key)
{
    struct pane_look *look = &view->panes[PANE_TENSOR];
    (void)model;
    if (strcmp(key, "%") == 0)
        look->percent = !look->percent;
    else if (strcmp(key, "Right") == 0)
        look->element++;
    else if (look->element > 0)
        look->element--;
}

const struct pane_kind tensor_pane = {
    .name = "Tensor", .least_columns = 28, .of_state = true, .tells = "memory", .concern = concern, .title = title,
    .draw = draw, .rows = rows, .enter = enter, .keys = keys, .press = press,
};
