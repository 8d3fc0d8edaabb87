/* Curves: a list of steps each, appended in the order of time.
 *
 * Interface in order of use: curves_new, curves_grow, curves_find or curves_at, curve_over, curves_free. */
#include "analysis/curve.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "trace/reader.h"

/* What an event does to a curve: the value it tells, or by how much it goes up or down. */
enum effect { EFFECT_NONE, EFFECT_TELLS, EFFECT_BYTES, EFFECT_ONE_MORE, EFFECT_ONE_LESS };

struct reading { uint8_t of, begin, end, instant; int8_t arg; };

struct curves {
    struct trace   *trace;
    uint64_t        version;
    struct reading *readings;        /* [kind] */
    size_t          kind_count;
    struct curve   *list;
    size_t          count, room;
    size_t          seen;
    size_t          asked;           /* where the curve taken last stands */
};

static const struct { const char *kind, *arg; struct reading reading; } readings[] = {
    { "memory.alloc",   "allocated", { CURVE_MEMORY, 0, 0, EFFECT_TELLS, 0 } },
    { "memory.free",    "allocated", { CURVE_MEMORY, 0, 0, EFFECT_TELLS, 0 } },
    { "memory.segment", "reserved",  { CURVE_RESERVED, 0, 0, EFFECT_TELLS, 0 } },
    { "comm.hop",       "bytes",     { CURVE_FLIGHT, EFFECT_BYTES, EFFECT_BYTES, 0, 0 } },
    { "c10d.issue",     "sequence",  { CURVE_QUEUE, 0, 0, EFFECT_ONE_MORE, 0 } },
};

static int8_t
argument_named(const struct trace_kind *kind, const char *name)
{
    for (int i = 0; i < kind->arg_count; i++)
        if (strcmp(kind->arg_name[i], name) == 0)
            return (int8_t)i;
    return -1;
}

/* A collective's stage is the one of its family that tells a sequence number and is not the wait for it. */
static struct reading
reading_of_kind(const struct trace_kind *kind)
{
    for (size_t i = 0; i < countof(readings); i++) {
        struct reading reading = readings[i].reading;
        reading.arg = argument_named(kind, readings[i].arg);
        if (strcmp(readings[i].kind, kind->name) == 0 && reading.arg >= 0)
            return reading;
    }
    bool collective = kind->is_stage && strncmp(kind->name, "c10d.", 5) == 0 && strcmp(kind->name, "c10d.wait") != 0;
    if (collective && argument_named(kind, "sequence") >= 0)
        return (struct reading){ CURVE_QUEUE, 0, EFFECT_ONE_LESS, 0, 0 };
    return (struct reading){ .of = 0 };
}

struct curves *
curves_new(struct trace *trace)
{
    struct curves *curves = calloc(1, sizeof *curves);
    if (curves == NULL)
        return NULL;
    curves->trace = trace;
    curves->version = trace_order_version(trace);
    curves->kind_count = trace_kinds(trace);
    curves->readings = calloc(curves->kind_count + 1, sizeof *curves->readings);
    if (curves->readings == NULL) {
        free(curves);
        return NULL;
    }
    for (size_t kind = 0; kind < curves->kind_count; kind++)
        curves->readings[kind] = reading_of_kind(trace_kind(trace, (unsigned)kind));
    return curves;
}

static void
forget(struct curves *curves)
{
    for (size_t i = 0; i < curves->count; i++)
        free(curves->list[i].steps);
    curves->count = curves->seen = curves->asked = 0;
}

void
curves_free(struct curves *curves)
{
    if (curves == NULL)
        return;
    forget(curves);
    free(curves->list);
    free(curves->readings);
    free(curves);
}

/* ---- growing ---- */

static bool
comes_before(const struct curve *curve, enum curve_of of, int who)
{
    return curve->of != of ? curve->of < of : curve->who < who;
}

static size_t
place_of(const struct curves *curves, enum curve_of of, int who)
{
    size_t low = 0, high = curves->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (comes_before(&curves->list[middle], of, who))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool
stands_at(const struct curves *curves, size_t place, enum curve_of of, int who)
{
    return place < curves->count && curves->list[place].of == of && curves->list[place].who == who;
}

/* NULL: no memory. */
static struct curve *
take_curve(struct curves *curves, enum curve_of of, int who)
{
    if (!stands_at(curves, curves->asked, of, who)) {
        size_t place = curves->asked = place_of(curves, of, who);
        if (!stands_at(curves, place, of, who)) {
            if (!vec_room(&curves->list, &curves->room, curves->count + 1, sizeof *curves->list))
                return NULL;
            memmove(curves->list + place + 1, curves->list + place, (curves->count - place) * sizeof *curves->list);
            curves->list[place] = (struct curve){ .of = of, .who = who, .grain = 1, .most_seq = SIZE_MAX };
            curves->count++;
        }
    }
    return &curves->list[curves->asked];
}

/* Two steps become one. */
static void
thin(struct curve *curve)
{
    for (size_t i = 0; i + 1 < curve->count; i += 2) {
        const struct curve_step *a = &curve->steps[i], *b = a + 1;
        curve->steps[i / 2] = (struct curve_step){ a->time, a->most > b->most ? a->most : b->most, b->last };
    }
    curve->count /= 2;
    curve->grain *= 2;
    curve->changes = curve->grain;
}

static bool
add_change(struct curve *curve, uint64_t time, uint64_t value)
{
    struct curve_step *last = curve->count > 0 ? &curve->steps[curve->count - 1] : NULL;
    bool at_once = last != NULL && last->time == time && curve->changes == 1;
    if (last != NULL && (at_once || curve->changes < curve->grain)) {
        last->most = value > last->most ? value : last->most;
        last->last = value;
        curve->changes += !at_once;
        return true;
    }
    if (curve->count == CURVE_STEPS)
        thin(curve);
    if (!vec_room(&curve->steps, &curve->room, curve->count + 1, sizeof *curve->steps))
        return false;
    curve->steps[curve->count++] = (struct curve_step){ time, value, value };
    curve->changes = 1;
    return true;
}

static uint64_t
value_now(const struct curve *curve)
{
    return curve->count > 0 ? curve->steps[curve->count - 1].last : 0;
}

static bool
take_event(struct curves *curves, const struct reading *reading, const struct trace_event *event, size_t seq)
{
    uint8_t effect = event->phase == PHASE_BEGIN ? reading->begin
                   : event->phase == PHASE_END ? reading->end : reading->instant;
    if (effect == EFFECT_NONE)
        return true;
    bool          of_device = reading->of == CURVE_MEMORY || reading->of == CURVE_RESERVED;
    struct curve *curve = take_curve(curves, (enum curve_of)reading->of, of_device ? event->device : event->rank);
    if (curve == NULL)
        return false;
    int64_t  told = event->args[reading->arg];
    uint64_t value = value_now(curve), amount = effect == EFFECT_BYTES || effect == EFFECT_TELLS
                                                ? (told > 0 ? (uint64_t)told : 0) : 1;
    bool     down = effect == EFFECT_ONE_LESS || (effect == EFFECT_BYTES && event->phase == PHASE_END);
    if (effect == EFFECT_TELLS)
        value = amount;
    else if (down)
        value -= amount < value ? amount : value;
    else
        value += amount;
    if (value > curve->most || curve->most_seq == SIZE_MAX) {
        curve->most = value;
        curve->most_seq = seq;
    }
    return add_change(curve, trace_time(curves->trace, seq), value);
}

bool
curves_grow(struct curves *curves, size_t slice)
{
    if (curves->version != trace_order_version(curves->trace)) {
        forget(curves);
        curves->version = trace_order_version(curves->trace);
    }
    size_t count = trace_count(curves->trace), left = count - curves->seen;
    size_t to = curves->seen + (slice < left ? slice : left);
    for (; curves->seen < to; curves->seen++) {
        const struct trace_event *event = trace_event(curves->trace, curves->seen);
        if (event == NULL)
            return false;
        if (event->kind < curves->kind_count &&
            !take_event(curves, &curves->readings[event->kind], event, curves->seen))
            return false;
    }
    return curves->seen < count;
}

size_t
curves_seen(const struct curves *curves)
{
    return curves->seen;
}

/* ---- questions ---- */

size_t
curves_count(const struct curves *curves)
{
    return curves->count;
}

const struct curve *
curves_at(const struct curves *curves, size_t index)
{
    return index < curves->count ? &curves->list[index] : NULL;
}

const struct curve *
curves_find(const struct curves *curves, enum curve_of of, int who)
{
    size_t place = place_of(curves, of, who);
    return stands_at(curves, place, of, who) ? &curves->list[place] : NULL;
}

/* The first step that begins at or behind `time`. */
static size_t
first_step(const struct curve *curve, uint64_t time)
{
    size_t low = 0, high = curve->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (curve->steps[middle].time < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct curve_span
curve_over(const struct curve *curve, uint64_t from, uint64_t to)
{
    struct curve_span span = { 0 };
    if (curve == NULL || curve->count == 0 || to <= from)
        return span;
    size_t at = first_step(curve, from);
    span.first = span.most = span.last = at > 0 ? curve->steps[at - 1].last : 0;
    for (; at < curve->count && curve->steps[at].time < to; at++) {
        span.most = curve->steps[at].most > span.most ? curve->steps[at].most : span.most;
        span.last = curve->steps[at].last;
        span.changed = true;
    }
    return span;
}

const char *
curve_name(enum curve_of of)
{
    static const char *const names[] = {
        [CURVE_MEMORY] = "memory", [CURVE_RESERVED] = "reserved", [CURVE_QUEUE] = "queue", [CURVE_FLIGHT] = "in flight",
    };
    return names[of];
}

bool
curve_is_bytes(enum curve_of of)
{
    return of != CURVE_QUEUE;
}
