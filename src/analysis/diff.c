/* Two runs against each other. Every event of either run gets a key that the same event of the other run has too; keys
 * that only one run has are differences, and so are matches in another order, or with other arguments.
 *
 * Interface in order of use: diff_new, diff_list, diff_print, diff_stages, diff_partner, diff_side, diff_free. */
#include "analysis/diff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "trace/join.h"
#include "trace/reader.h"

enum { SIDES = 2, NOBODY = 0 };

struct diff {
    struct trace      *trace;
    size_t             first_lanes;  /* of the first run; the others are the second's */
    size_t             count;
    uint32_t          *partner;      /* [seq]: of its match + 1; 0 none */
    struct difference *differences;
    size_t             difference_count, difference_room, all;
    struct diff_stage *stages;
    size_t             stage_count;
};

/* ---- keys ---- */

/* Not the recorder's own kinds: where memory lies and what it holds differ in any two runs. */
static bool
is_compared(const struct trace_kind *kind)
{
    return strncmp(kind->name, "memory.", 7) != 0 && strcmp(kind->name, "comm.numbers") != 0;
}

/* "r0 main A" is "r0 main". */
static uint64_t
lane_key(const struct trace *trace, uint32_t lane)
{
    const struct trace_lane_info *info   = trace_lane_at(trace, lane);
    size_t                        length = strlen(info->name);
    bool lettered = length > 2 && info->name[length - 2] == ' ' && info->name[length - 1] >= 'A' &&
                    info->name[length - 1] <= 'Z';
    return hash_bytes((uint64_t)(info->rank + 2), info->name, lettered ? length - 2 : length);
}

int
diff_lane(const struct diff *diff, size_t lane)
{
    uint64_t key = lane_key(diff->trace, (uint32_t)lane);
    for (size_t i = 0; lane >= diff->first_lanes && i < diff->first_lanes; i++)
        if (lane_key(diff->trace, (uint32_t)i) == key)
            return (int)i;
    return -1;
}

/* Without its occurrence. */
static uint64_t
event_key(const struct diff *diff, const struct trace_event *event)
{
    uint64_t words[3] = { lane_key(diff->trace, event->lane), event->kind, event->iteration };
    words[1] |= (uint64_t)event->phase << 32;
    return hash_bytes(0, words, sizeof words);
}

int
diff_side(const struct diff *diff, size_t seq)
{
    return trace_event(diff->trace, seq)->lane >= diff->first_lanes;
}

/* The number of the occurrence makes a key one event's. */
static bool
key_of(const struct diff *diff, const struct trace_event *event, struct map *counts, uint64_t *key)
{
    uint64_t count = 0;
    *key = event_key(diff, event);
    map_get(counts, *key, &count);
    if (!map_set(counts, *key, count + 1))
        return false;
    const uint64_t words[2] = { *key, count };
    *key = hash_bytes(0, words, sizeof words);
    return true;
}

/* Both runs' events by key; who meets a key second is the first one's partner. */
static bool
match_events(struct diff *diff)
{
    struct map counts[SIDES] = { { 0 }, { 0 } }, waiting[SIDES] = { { 0 }, { 0 } };
    bool       good = true;
    for (size_t seq = 0; seq < diff->count && good; seq++) {
        const struct trace_event *event = trace_event(diff->trace, seq);
        int                       side  = diff_side(diff, seq);
        uint64_t                  key, other;
        if (!is_compared(trace_kind(diff->trace, event->kind)))
            continue;
        good = key_of(diff, event, &counts[side], &key);
        if (map_get(&waiting[!side], key, &other)) {
            diff->partner[seq]   = (uint32_t)other + 1;
            diff->partner[other] = (uint32_t)seq + 1;
            map_remove(&waiting[!side], key);
        } else {
            good = good && map_set(&waiting[side], key, seq);
        }
    }
    for (int side = 0; side < SIDES; side++) {
        map_free(&counts[side]);
        map_free(&waiting[side]);
    }
    return good;
}

/* ---- differences ---- */

static bool
add_difference(struct diff *diff, struct difference difference)
{
    diff->all++;
    if (diff->difference_count == DIFFERENCES_MOST)
        return true;
    if (!vec_room(&diff->differences, &diff->difference_room, diff->difference_count + 1, sizeof *diff->differences))
        return false;
    diff->differences[diff->difference_count++] = difference;
    return true;
}

/* Which argument differs; -1: none. Ids of storages and contents are each run's own; texts are compared as texts. */
static int
other_argument(const struct diff *diff, size_t a, size_t b)
{
    const struct trace_event *one = trace_event(diff->trace, a), *other = trace_event(diff->trace, b);
    const struct trace_kind  *kind = trace_kind(diff->trace, one->kind);
    for (int i = 0; i < kind->arg_count; i++) {
        const char *type = kind->arg_type[i];
        if (strcmp(type, "storage") == 0 || strcmp(type, "snapshot") == 0 || strcmp(type, "device") == 0)
            continue;
        if (one->args[i] == other->args[i])
            continue;
        if (strcmp(type, "text") != 0 || strcmp(trace_text_at(diff->trace, one->args[i]),
                                                trace_text_at(diff->trace, other->args[i])) != 0)
            return i;
    }
    return -1;
}

/* Of each lane of the first run: the furthest match so far in the second. A match behind it came in another order. */
static bool
find_differences(struct diff *diff)
{
    uint32_t *furthest = calloc(diff->first_lanes + 1, sizeof *furthest);
    bool      good     = furthest != NULL;
    for (size_t seq = 0; seq < diff->count && good; seq++) {
        const struct trace_event *event = trace_event(diff->trace, seq);
        uint32_t                  partner = diff->partner[seq];
        struct difference         found = { DIFFERENCE_ONLY, (uint32_t)seq, 0 };
        if (!is_compared(trace_kind(diff->trace, event->kind)))
            continue;
        bool differs = partner == NOBODY;
        if (!differs && diff_side(diff, seq) == 0) {
            int argument   = event->phase == PHASE_END ? -1 : other_argument(diff, seq, partner - 1);
            found.kind     = partner < furthest[event->lane] ? DIFFERENCE_ORDER : DIFFERENCE_ARGUMENT;
            found.argument = (uint8_t)(argument >= 0 ? argument : 0);
            differs        = partner < furthest[event->lane] || argument >= 0;
            if (partner > furthest[event->lane])
                furthest[event->lane] = partner;
        }
        if (differs)
            good = add_difference(diff, found);
    }
    free(furthest);
    return good;
}

/* ---- stages ---- */

static uint64_t
change_of(const struct diff_stage *stage)
{
    return stage->ps[0] > stage->ps[1] ? stage->ps[0] - stage->ps[1] : stage->ps[1] - stage->ps[0];
}

static int
compare_stages(const void *a, const void *b)
{
    const struct diff_stage *one = a, *other = b;
    uint64_t x = change_of(one), y = change_of(other);
    if (x != y)
        return x > y ? -1 : 1;
    return one->kind < other->kind ? -1 : one->kind > other->kind;
}

static bool
add_up_stages(struct diff *diff)
{
    size_t kinds = trace_kinds(diff->trace), used = 0;
    diff->stages = calloc(kinds, sizeof *diff->stages);
    if (diff->stages == NULL)
        return false;
    for (size_t seq = 0; seq < diff->count; seq++) {
        const struct trace_event *event = trace_event(diff->trace, seq);
        size_t                    end   = event->phase == PHASE_BEGIN ? trace_partner(diff->trace, seq) : SIZE_MAX;
        if (end == SIZE_MAX || event->kind >= kinds)
            continue;
        struct diff_stage *stage = &diff->stages[event->kind];
        int                side  = diff_side(diff, seq);
        stage->kind = event->kind;
        stage->count[side]++;
        stage->ps[side] += trace_time(diff->trace, end) - trace_time(diff->trace, seq);
    }
    for (size_t i = 0; i < kinds; i++)
        if (diff->stages[i].count[0] + diff->stages[i].count[1] > 0)
            diff->stages[used++] = diff->stages[i];
    diff->stage_count = used;
    qsort(diff->stages, used, sizeof *diff->stages, compare_stages);
    return true;
}

/* ---- the whole ---- */

struct diff *
diff_new(struct trace *trace, char *why, size_t why_size)
{
    size_t lanes = (size_t)strtoull(trace_option_of(trace, JOIN_LANES "0"), NULL, 10);
    bool   two   = trace_option_of(trace, JOIN_PART "1")[0] != '\0' && trace_option_of(trace, JOIN_PART "2")[0] == '\0';
    if (lanes == 0 || !two) {
        snprintf(why, why_size, "two traces are compared, no more and no fewer");
        return NULL;
    }
    struct diff *diff = calloc(1, sizeof *diff);
    if (diff != NULL) {
        *diff = (struct diff){ .trace = trace, .first_lanes = lanes, .count = trace_count(trace) };
        diff->partner = calloc(diff->count + 1, sizeof *diff->partner);
    }
    if (diff != NULL && diff->partner != NULL && trace_whole(trace) && match_events(diff) && find_differences(diff) &&
        add_up_stages(diff))
        return diff;
    snprintf(why, why_size, "no memory to compare %zu events", trace_count(trace));
    diff_free(diff);
    return NULL;
}

void
diff_free(struct diff *diff)
{
    if (diff == NULL)
        return;
    free(diff->partner);
    free(diff->differences);
    free(diff->stages);
    free(diff);
}

size_t
diff_partner(const struct diff *diff, size_t seq)
{
    return seq < diff->count && diff->partner[seq] != NOBODY ? diff->partner[seq] - 1 : SIZE_MAX;
}

const struct difference *
diff_list(const struct diff *diff, size_t *count, size_t *all)
{
    *count = diff->difference_count;
    if (all != NULL)
        *all = diff->all;
    return diff->differences;
}

const struct diff_stage *
diff_stages(const struct diff *diff, size_t *count)
{
    *count = diff->stage_count;
    return diff->stages;
}

static void
print_argument(const struct diff *diff, const struct difference *difference, struct str *out)
{
    const struct trace_event *here  = trace_event(diff->trace, difference->seq);
    const struct trace_event *there = trace_event(diff->trace, diff_partner(diff, difference->seq));
    const struct trace_kind  *kind  = trace_kind(diff->trace, here->kind);
    int                       at    = difference->argument;
    if (at >= kind->arg_count)
        return;
    if (strcmp(kind->arg_type[at], "text") == 0)
        str_addf(out, ": %s %s, in B %s", kind->arg_name[at], trace_text_at(diff->trace, here->args[at]),
                 trace_text_at(diff->trace, there->args[at]));
    else
        str_addf(out, ": %s %lld, in B %lld", kind->arg_name[at], (long long)here->args[at],
                 (long long)there->args[at]);
}

size_t
diff_number(const struct diff *diff, size_t seq)
{
    size_t number = 0;
    int    side   = diff_side(diff, seq);
    for (size_t i = 0; i < seq; i++)
        number += diff_side(diff, i) == side;
    return number;
}

void
diff_print(const struct diff *diff, const struct difference *difference, size_t number, struct str *out)
{
    const struct trace_event *event = trace_event(diff->trace, difference->seq);
    char                      side  = (char)('A' + diff_side(diff, difference->seq));
    str_addf(out, "%zu %c ", number, side);
    if (event->rank >= 0)
        str_addf(out, "r%d ", event->rank);
    str_add(out, trace_kind(diff->trace, event->kind)->name);
    if (difference->kind == DIFFERENCE_ONLY)
        str_addf(out, ": only in %c", side);
    else if (difference->kind == DIFFERENCE_ORDER)
        str_add(out, ": earlier in B");
    else
        print_argument(diff, difference, out);
}
