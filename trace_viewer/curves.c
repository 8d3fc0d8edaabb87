/* Numbers over time, from the events that change them. Interface: curves_work, curve_name, curve_print,
 * curve_columns, curves_free. */
#include "curves.h"

#include "base/vec.h"
#include "model.h"
#include "trace/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLICE = 1 << 16, KIND_NONE = 0, KIND_MEMORY, KIND_HOP, KIND_ISSUE, KIND_WORK };

/* What a kind does and, above the lowest byte, which of its arguments says by how much. */
static int64_t
kind_of(const struct trace_kind *kind)
{
    int64_t role = KIND_NONE;
    const char *wanted = NULL;
    if (strcmp(kind->name, "memory.alloc") == 0 || strcmp(kind->name, "memory.free") == 0)
        role = KIND_MEMORY, wanted = "allocated";
    else if (strcmp(kind->name, "comm.hop") == 0 || strcmp(kind->name, "comm.receive") == 0)
        role = KIND_HOP, wanted = "bytes";
    else if (strcmp(kind->name, "c10d.issue") == 0)
        role = KIND_ISSUE, wanted = "sequence";
    else if (strncmp(kind->name, "c10d.", 5) == 0 && kind->is_stage && strcmp(kind->name, "c10d.wait") != 0)
        role = KIND_WORK, wanted = "sequence";
    for (int i = 0; wanted != NULL && i < kind->arg_count && i < 4; i++)
        if (strcmp(kind->arg_name[i], wanted) == 0)
            return role | (int64_t)i << 8;
    return KIND_NONE;
}

static bool
take_kinds(struct curves *curves, const struct model *model)
{
    if (curves->kind_count >= model->kind_count)
        return true;
    int64_t *kinds = realloc(curves->kinds, model->kind_count * sizeof *kinds);
    if (kinds == NULL)
        return false;
    curves->kinds = kinds;
    for (; curves->kind_count < model->kind_count; curves->kind_count++)
        kinds[curves->kind_count] = kind_of(trace_kind(model->trace, (unsigned)curves->kind_count));
    return true;
}

static struct curve *
curve_of(struct curves *curves, enum curve_kind kind, int device)
{
    for (int i = 0; i < curves->count; i++)
        if (curves->curve[i].kind == kind && curves->curve[i].device == device)
            return &curves->curve[i];
    if (curves->count == CURVES)
        return NULL;
    struct curve *curve = &curves->curve[curves->count++];
    *curve = (struct curve){ .kind = kind, .device = device, .group = 1 };
    return curve;
}

/* By how much the event changes which curve; `absolute`: to how much. Not `some`: it changes none. */
struct change { enum curve_kind kind; int device; int64_t by; bool absolute, some; };

/* What a message took away when it left it brings when it arrives: both ends carry its flow. */
static struct change
flight_change(struct curves *curves, const struct trace_event *event, int64_t bytes)
{
    struct change change = { .kind = CURVE_FLIGHT };
    uint64_t sent = 0;
    bytes = bytes > 0 ? bytes : 0;
    if (event->flow == 0)
        return change;
    if (event->phase == PHASE_BEGIN) {
        change.by = bytes;
        change.some = map_set(&curves->flows, event->flow, (uint64_t)bytes);
        curves->starved |= !change.some;
    } else if (event->phase == PHASE_END && map_get(&curves->flows, event->flow, &sent)) {
        change.by = -(int64_t)sent;
        change.some = map_remove(&curves->flows, event->flow);
    }
    return change;
}

static struct change
change_of(struct curves *curves, const struct trace_event *event, enum lane_kind lane)
{
    int64_t kind = event->kind < curves->kind_count ? curves->kinds[event->kind] : KIND_NONE;
    int64_t number = event->args[kind >> 8];
    switch (kind & 0xff) {
    case KIND_MEMORY:
        return (struct change){ CURVE_MEMORY, event->device, number, true, true };
    case KIND_HOP:
        return flight_change(curves, event, number);
    case KIND_ISSUE:
        return (struct change){ CURVE_QUEUE, 0, 1, false, true };
    case KIND_WORK:
        return (struct change){ CURVE_QUEUE, 0, -1, false, event->phase == PHASE_END && lane == LANE_COMM };
    default:
        return (struct change){ .some = false };
    }
}

/* Twice as many changes in each point, so that there is room again. */
static void
thin_out(struct curve *curve)
{
    size_t kept = 0;
    for (size_t i = 0; i + 1 < curve->count; i += 2) {
        struct point *one = &curve->points[i], *other = one + 1;
        curve->points[kept++] = (struct point){ one->time, one->most > other->most ? one->most : other->most,
                                                other->after };
    }
    curve->count = kept;
    curve->group *= 2;
    curve->in_last = curve->group;
}

static bool
add_change(struct curve *curve, uint64_t time, int64_t value)
{
    if (curve->count == POINTS && curve->in_last == curve->group)
        thin_out(curve);
    bool same = curve->count > 0 && curve->points[curve->count - 1].time == time;
    if (curve->count > 0 && (same || curve->in_last < curve->group)) {
        struct point *last = &curve->points[curve->count - 1];
        last->most = value > last->most ? value : last->most;
        last->after = value;
        curve->in_last += !same;
        return true;
    }
    if (!vec_room(&curve->points, &curve->room, curve->count + 1, sizeof *curve->points))
        return false;
    curve->points[curve->count++] = (struct point){ time, value, value };
    curve->in_last = 1;
    return true;
}

static bool
take_event(struct curves *curves, const struct model *model, size_t seq)
{
    const struct trace_event *event = trace_event(model->trace, seq);
    struct change change = change_of(curves, event, trace_lane_at(model->trace, event->lane)->kind);
    struct curve *curve = change.some ? curve_of(curves, change.kind, change.device) : NULL;
    if (curve == NULL)
        return true;
    if (change.absolute)
        curve->now = change.by;
    else if (__builtin_add_overflow(curve->now, change.by, &curve->now))
        curve->now = INT64_MAX;
    curve->now = curve->now < 0 ? 0 : curve->now;
    curve->top = curve->now > curve->top ? curve->now : curve->top;
    return add_change(curve, trace_time(model->trace, seq), curve->now);
}

bool
curves_work(struct curves *curves, const struct model *model)
{
    if (curves->starved || curves->seen >= model->seen)
        return false;
    curves->starved = !take_kinds(curves, model);
    for (size_t n = 0; n < SLICE && curves->seen < model->seen && !curves->starved; n++, curves->seen++)
        curves->starved |= !take_event(curves, model, curves->seen);
    curves->whole = curves->seen >= model->seen;
    return !curves->whole && !curves->starved;
}

void
curve_name(const struct curve *curve, bool whole, char *out, size_t size)
{
    if (curve->kind == CURVE_MEMORY && curve->device >= 0)
        snprintf(out, size, "mem d%d", curve->device);
    else if (curve->kind == CURVE_MEMORY)
        snprintf(out, size, "mem cpu");
    else if (curve->kind == CURVE_FLIGHT)
        snprintf(out, size, whole ? "in flight" : "flight");
    else
        snprintf(out, size, whole ? "collectives" : "calls");
}

void
curve_print(const struct curve *curve, int64_t value, char *out, size_t size)
{
    static const char units[] = "BKMGTPE";
    double number = (double)value;
    int unit = 0;
    for (; number >= 1000 && units[unit + 1] != '\0'; unit++)
        number /= 1024;
    if (curve->kind == CURVE_QUEUE)
        snprintf(out, size, "%lld", (long long)value);
    else if (unit == 0)
        snprintf(out, size, "%.0fB", number);
    else
        snprintf(out, size, number < 9.95 ? "%.1f%c" : "%.0f%c", number, units[unit]);
}

static size_t
point_find(const struct curve *curve, uint64_t time)
{
    size_t low = 0, high = curve->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (curve->points[middle].time < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int64_t
curve_columns(const struct curve *curve, const struct axis *axis, uint64_t limit, int64_t *out)
{
    int64_t top = 0;
    size_t  at = point_find(curve, axis_time(axis, 0));
    for (int column = 0; column < axis->columns; column++) {
        uint64_t from = axis_time(axis, column), to = axis_time(axis, column + 1);
        out[column] = at > 0 ? curve->points[at - 1].after : -1;
        if (from >= limit)
            out[column] = -1;
        for (; at < curve->count && curve->points[at].time < to; at++)
            if (curve->points[at].most > out[column] && curve->points[at].time < limit)
                out[column] = curve->points[at].most;
        top = out[column] > top ? out[column] : top;
    }
    return top;
}

void
curves_free(struct curves *curves)
{
    for (int i = 0; i < curves->count; i++)
        free(curves->curve[i].points);
    free(curves->kinds);
    map_free(&curves->flows);
    *curves = (struct curves){ 0 };
}
