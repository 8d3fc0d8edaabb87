/* Quantities: a list of steps each, appended in the order of time.
 *
 * Interface in order of use: quantities_new, quantities_grow, quantities_find or quantities_at, quantity_over,
 * quantities_free. */
#include "analysis/quantities.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "trace/reader.h"

/* What an event does to a quantity: the value it tells, or by how much it goes up or down. */
enum effect { EFFECT_NONE, EFFECT_TELLS, EFFECT_BYTES, EFFECT_ONE_MORE, EFFECT_ONE_LESS };

struct reading { uint8_t of, begin, end, instant; int8_t arg; };

struct quantities {
    struct trace   *trace;
    uint64_t        version;
    struct reading *readings;        /* [kind] */
    size_t          kind_count;
    struct quantity   *list;
    size_t          count, room;
    size_t          seen;
    size_t          asked;           /* where the quantity taken last stands */
};

static const struct { const char *kind, *arg; struct reading reading; } readings[] = {
    { "memory.alloc",   "allocated", { QUANTITY_MEMORY, 0, 0, EFFECT_TELLS, 0 } },
    { "memory.free",    "allocated", { QUANTITY_MEMORY, 0, 0, EFFECT_TELLS, 0 } },
    { "memory.segment", "reserved",  { QUANTITY_RESERVED, 0, 0, EFFECT_TELLS, 0 } },
    { "comm.hop",       "bytes",     { QUANTITY_FLIGHT, EFFECT_BYTES, EFFECT_BYTES, 0, 0 } },
    { "c10d.issue",     "sequence",  { QUANTITY_QUEUE, 0, 0, EFFECT_ONE_MORE, 0 } },
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
        return (struct reading){ QUANTITY_QUEUE, 0, EFFECT_ONE_LESS, 0, 0 };
    return (struct reading){ .of = 0 };
}

struct quantities *
quantities_new(struct trace *trace)
{
    struct quantities *quantities = calloc(1, sizeof *quantities);
    if (quantities == NULL)
        return NULL;
    quantities->trace = trace;
    quantities->version = trace_order_version(trace);
    quantities->kind_count = trace_kinds(trace);
    quantities->readings = calloc(quantities->kind_count + 1, sizeof *quantities->readings);
    if (quantities->readings == NULL) {
        free(quantities);
        return NULL;
    }
    for (size_t kind = 0; kind < quantities->kind_count; kind++)
        quantities->readings[kind] = reading_of_kind(trace_kind(trace, (unsigned)kind));
    return quantities;
}

static void
forget(struct quantities *quantities)
{
    for (size_t i = 0; i < quantities->count; i++)
        free(quantities->list[i].steps);
    quantities->count = quantities->seen = quantities->asked = 0;
}

void
quantities_free(struct quantities *quantities)
{
    if (quantities == NULL)
        return;
    forget(quantities);
    free(quantities->list);
    free(quantities->readings);
    free(quantities);
}

/* ---- growing ---- */

static bool
comes_before(const struct quantity *quantity, enum quantity_of of, int who)
{
    return quantity->of != of ? quantity->of < of : quantity->who < who;
}

static size_t
place_of(const struct quantities *quantities, enum quantity_of of, int who)
{
    size_t low = 0, high = quantities->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (comes_before(&quantities->list[middle], of, who))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool
stands_at(const struct quantities *quantities, size_t place, enum quantity_of of, int who)
{
    return place < quantities->count && quantities->list[place].of == of && quantities->list[place].who == who;
}

/* NULL: no memory. */
static struct quantity *
take_quantity(struct quantities *quantities, enum quantity_of of, int who)
{
    if (!stands_at(quantities, quantities->asked, of, who)) {
        size_t place = quantities->asked = place_of(quantities, of, who);
        if (!stands_at(quantities, place, of, who)) {
            if (!vec_room(&quantities->list, &quantities->room, quantities->count + 1, sizeof *quantities->list))
                return NULL;
            struct quantity *at = quantities->list + place;
            memmove(at + 1, at, (quantities->count - place) * sizeof *at);
            quantities->list[place] = (struct quantity){ .of = of, .who = who, .grain = 1, .most_seq = SIZE_MAX };
            quantities->count++;
        }
    }
    return &quantities->list[quantities->asked];
}

/* Two steps become one. */
static void
thin(struct quantity *quantity)
{
    for (size_t i = 0; i + 1 < quantity->count; i += 2) {
        const struct quantity_step *a = &quantity->steps[i], *b = a + 1;
        quantity->steps[i / 2] = (struct quantity_step){ a->time, a->most > b->most ? a->most : b->most, b->last };
    }
    quantity->count /= 2;
    quantity->grain *= 2;
    quantity->changes = quantity->grain;
}

static bool
add_change(struct quantity *quantity, uint64_t time, uint64_t value)
{
    struct quantity_step *last = quantity->count > 0 ? &quantity->steps[quantity->count - 1] : NULL;
    bool at_once = last != NULL && last->time == time && quantity->changes == 1;
    if (last != NULL && (at_once || quantity->changes < quantity->grain)) {
        last->most = value > last->most ? value : last->most;
        last->last = value;
        quantity->changes += !at_once;
        return true;
    }
    if (quantity->count == QUANTITY_STEPS)
        thin(quantity);
    if (!vec_room(&quantity->steps, &quantity->room, quantity->count + 1, sizeof *quantity->steps))
        return false;
    quantity->steps[quantity->count++] = (struct quantity_step){ time, value, value };
    quantity->changes = 1;
    return true;
}

static uint64_t
value_now(const struct quantity *quantity)
{
    return quantity->count > 0 ? quantity->steps[quantity->count - 1].last : 0;
}

static bool
take_event(struct quantities *quantities, const struct reading *reading, const struct trace_event *event, size_t seq)
{
    uint8_t effect = event->phase == PHASE_BEGIN ? reading->begin
                   : event->phase == PHASE_END ? reading->end : reading->instant;
    if (effect == EFFECT_NONE)
        return true;
    bool          of_device = reading->of == QUANTITY_MEMORY || reading->of == QUANTITY_RESERVED;
    struct quantity *quantity = take_quantity(quantities, (enum quantity_of)reading->of,
                                              of_device ? event->device : event->rank);
    if (quantity == NULL)
        return false;
    int64_t  told = event->args[reading->arg];
    uint64_t value = value_now(quantity), amount = effect == EFFECT_BYTES || effect == EFFECT_TELLS
                                                ? (told > 0 ? (uint64_t)told : 0) : 1;
    bool     down = effect == EFFECT_ONE_LESS || (effect == EFFECT_BYTES && event->phase == PHASE_END);
    if (effect == EFFECT_TELLS)
        value = amount;
    else if (down)
        value -= amount < value ? amount : value;
    else
        value += amount;
    if (value > quantity->most || quantity->most_seq == SIZE_MAX) {
        quantity->most = value;
        quantity->most_seq = seq;
    }
    return add_change(quantity, trace_time(quantities->trace, seq), value);
}

bool
quantities_grow(struct quantities *quantities, size_t slice)
{
    if (quantities->version != trace_order_version(quantities->trace)) {
        forget(quantities);
        quantities->version = trace_order_version(quantities->trace);
    }
    size_t count = trace_count(quantities->trace), left = count - quantities->seen;
    size_t to = quantities->seen + (slice < left ? slice : left);
    for (; quantities->seen < to; quantities->seen++) {
        const struct trace_event *event = trace_event(quantities->trace, quantities->seen);
        if (event == NULL)
            return false;
        if (event->kind < quantities->kind_count &&
            !take_event(quantities, &quantities->readings[event->kind], event, quantities->seen))
            return false;
    }
    return quantities->seen < count;
}

size_t
quantities_seen(const struct quantities *quantities)
{
    return quantities->seen;
}

/* ---- questions ---- */

size_t
quantities_count(const struct quantities *quantities)
{
    return quantities->count;
}

const struct quantity *
quantities_at(const struct quantities *quantities, size_t index)
{
    return index < quantities->count ? &quantities->list[index] : NULL;
}

const struct quantity *
quantities_find(const struct quantities *quantities, enum quantity_of of, int who)
{
    size_t place = place_of(quantities, of, who);
    return stands_at(quantities, place, of, who) ? &quantities->list[place] : NULL;
}

/* The first step that begins at or behind `time`. */
static size_t
first_step(const struct quantity *quantity, uint64_t time)
{
    size_t low = 0, high = quantity->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (quantity->steps[middle].time < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct quantity_span
quantity_over(const struct quantity *quantity, uint64_t from, uint64_t to)
{
    struct quantity_span span = { 0 };
    if (quantity == NULL || quantity->count == 0 || to <= from)
        return span;
    size_t at = first_step(quantity, from);
    span.first = span.most = span.last = at > 0 ? quantity->steps[at - 1].last : 0;
    for (; at < quantity->count && quantity->steps[at].time < to; at++) {
        span.most = quantity->steps[at].most > span.most ? quantity->steps[at].most : span.most;
        span.last = quantity->steps[at].last;
        span.changed = true;
    }
    return span;
}
