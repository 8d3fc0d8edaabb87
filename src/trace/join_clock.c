/* One clock for several traces.
 *
 * By collectives: an all-reduce ends on all its ranks at nearly the same moment, so the median of the differences
 * between the ends of those that two traces have in common is the difference of their clocks. By iterations: each
 * part's iteration begins where the last of the parts has ended the one before. Those of a job by what they
 * measured.
 *
 * Interface: join_set_clocks, join_time. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "trace/join_internal.h"

enum { COMPARED = 4096 };  /* collectives; more would not move the median */

/* Of an event, on its part's own clock. */
static int64_t
own_time(const struct trace *trace, size_t seq)
{
    uint64_t time = trace_time(trace, seq);
    return time < INT64_MAX ? (int64_t)time : INT64_MAX;
}

uint64_t
join_time(const struct part *part, size_t seq)
{
    const struct trace_event *event = trace_event(part->trace, seq);
    if (event == NULL)
        return UINT64_MAX;
    if (part->bends != NULL) {
        int64_t mended = offsets_mended(part, part->epoch, own_time(part->trace, seq)) + part->start;
        return mended < 0 ? 0 : (uint64_t)mended;
    }
    int64_t shift = part->shift;
    for (size_t i = 0; i < part->piece_count && part->pieces[i].iteration <= event->iteration; i++)
        shift = part->pieces[i].shift;
    __int128 time = (__int128)trace_time(part->trace, seq) + shift;
    return time < 0 ? 0 : time > INT64_MAX ? INT64_MAX : (uint64_t)time;
}

/* ---- by collectives ---- */

static bool
is_collective(const struct trace_kind *kind)
{
    return strncmp(kind->name, "c10d.", 5) == 0 && kind->arg_count > 0 && strcmp(kind->arg_name[0], "sequence") == 0;
}

/* The same in each trace in which the collective is. The first rank of a trace speaks for it. */
static uint64_t
collective_key(const struct trace_kind *kind, const struct trace_event *event)
{
    uint64_t name = hash_bytes(0, kind->name, strlen(kind->name));
    int64_t  rest[2] = { event->args[0], (int64_t)event->iteration };
    return hash_bytes(name, rest, sizeof rest);
}

static bool
find_ends(const struct part *part, struct map *ends)
{
    const struct trace *trace = part->trace;
    for (size_t seq = 0; seq < trace_count(trace) && ends->count < COMPARED; seq++) {
        const struct trace_event *event = trace_event(trace, seq);
        const struct trace_kind  *kind  = trace_kind(trace, event->kind);
        if (event->phase != PHASE_END || !is_collective(kind))
            continue;
        uint64_t key = collective_key(kind, event);
        if (!map_get(ends, key, NULL) && !map_set(ends, key, (uint64_t)offsets_time(part, own_time(trace, seq))))
            return false;
    }
    return true;
}

static int
compare_shifts(const void *a, const void *b)
{
    int64_t one, other;
    memcpy(&one, a, sizeof one);
    memcpy(&other, b, sizeof other);
    return one < other ? -1 : one > other;
}

/* The median of how much earlier the part's ends are than the first one's. false: they have none in common. */
static bool
median_shift(const struct map *first, const struct map *part, int64_t *shift)
{
    int64_t *shifts = malloc((part->count + 1) * sizeof *shifts);
    size_t   count  = 0;
    for (size_t i = 0; shifts != NULL && i < part->count; i++) {
        uint64_t time;
        if (map_get(first, part->entries[i].number, &time))
            shifts[count++] = (int64_t)(time - part->entries[i].value);
    }
    if (count > 0) {
        qsort(shifts, count, sizeof *shifts, compare_shifts);
        *shift = shifts[count / 2];
    }
    free(shifts);
    return count > 0;
}

/* Nothing begins before 0. */
static void
move_to_start(struct whole *whole)
{
    int64_t least = 0;
    for (size_t i = 0; i < whole->part_count; i++)
        least = whole->parts[i].shift < least ? whole->parts[i].shift : least;
    for (size_t i = 0; i < whole->part_count; i++)
        if (__builtin_sub_overflow(whole->parts[i].shift, least, &whole->parts[i].shift))
            whole->parts[i].shift = INT64_MAX;
}

static bool
set_by_collectives(struct whole *whole, char *why, size_t why_size)
{
    struct map first = { 0 };
    bool       good  = find_ends(&whole->parts[0], &first);
    for (size_t i = 1; i < whole->part_count && good; i++) {
        struct map ends = { 0 };
        good = find_ends(&whole->parts[i], &ends);
        if (good && !median_shift(&first, &ends, &whole->parts[i].shift)) {
            snprintf(why, why_size, "traces 1 and %zu have no collective in common to set their clocks by", i + 1);
            good = false;
        }
        map_free(&ends);
    }
    map_free(&first);
    move_to_start(whole);
    return good;
}

/* ---- a job's ---- */

/* Nothing begins before 0. */
static void
set_start(struct whole *whole)
{
    int64_t least = 0;
    for (size_t i = 0; i < whole->part_count; i++) {
        const struct part *part = &whole->parts[i];
        size_t             seq  = 0;
        while (seq < part->ends[0] && !job_has(part, seq))
            seq++;
        if (seq == part->ends[0])
            continue;
        int64_t time = offsets_mended(part, 0, own_time(part->trace, seq));
        least        = time < least ? time : least;
    }
    for (size_t i = 0; i < whole->part_count; i++)
        whole->parts[i].start = -least;
}

/* As far as they have collectives in common with one that was. false: no memory. */
static bool
set_unmeasured(struct whole *whole)
{
    const struct part *measured = NULL;
    struct map         first    = { 0 };
    for (size_t i = 0; i < whole->part_count && measured == NULL; i++)
        measured = whole->parts[i].mark_count > 0 ? &whole->parts[i] : NULL;
    bool good = measured == NULL || find_ends(measured, &first);
    for (size_t i = 0; i < whole->part_count && measured != NULL && good; i++) {
        struct part *part = &whole->parts[i];
        struct map   ends = { 0 };
        if (part->mark_count > 0)
            continue;
        job_note(whole, "rank %d's clock was not measured", part->rank);
        good = find_ends(part, &ends);
        median_shift(&first, &ends, &part->shift);
        map_free(&ends);
    }
    map_free(&first);
    return good;
}

static bool
set_by_job(struct whole *whole, char *why, size_t why_size)
{
    bool good = offsets_find(whole) && set_unmeasured(whole) && arrows_mend(whole);
    if (good)
        set_start(whole);
    else
        snprintf(why, why_size, "out of memory");
    return good;
}

/* ---- by iterations ---- */

/* When each iteration begins, and at the end when the last one is over. */
static bool
find_iterations(struct part *part)
{
    size_t  count = trace_count(part->trace);
    int64_t last  = 0;
    for (size_t seq = 0; seq < count; seq++) {
        const struct trace_event *event = trace_event(part->trace, seq);
        size_t                    known = part->piece_count;
        last = own_time(part->trace, seq);
        if (known > 0 && event->iteration <= part->pieces[known - 1].iteration)
            continue;
        if (!vec_room(&part->pieces, &part->piece_room, known + 2, sizeof *part->pieces))
            return false;
        part->pieces[part->piece_count++] = (struct piece){ event->iteration, last };
    }
    if (part->pieces != NULL)
        part->pieces[part->piece_count] = (struct piece){ UINT32_MAX, last };
    return true;
}

/* Until now `shift` held when it began. */
static void
set_shifts(struct whole *whole, size_t most)
{
    int64_t at = 0;
    for (size_t i = 0; i < most; i++) {
        int64_t longest = 0;
        for (size_t k = 0; k < whole->part_count; k++) {
            struct part *part = &whole->parts[k];
            if (i >= part->piece_count)
                continue;
            int64_t begin = part->pieces[i].shift, length = part->pieces[i + 1].shift - begin;
            longest = length > longest ? length : longest;
            part->pieces[i].shift = at - begin;
        }
        if (__builtin_add_overflow(at, longest, &at))
            at = INT64_MAX;
    }
}

static bool
set_by_iterations(struct whole *whole, char *why, size_t why_size)
{
    size_t most = 0;
    for (size_t i = 0; i < whole->part_count; i++) {
        if (!find_iterations(&whole->parts[i])) {
            snprintf(why, why_size, "out of memory");
            return false;
        }
        most = whole->parts[i].piece_count > most ? whole->parts[i].piece_count : most;
    }
    set_shifts(whole, most);
    return true;
}

bool
join_set_clocks(struct whole *whole, char *why, size_t why_size)
{
    switch (whole->wish->clock) {
    case JOIN_JOB: return !whole->is_job || set_by_job(whole, why, why_size);
    case JOIN_START: break;
    case JOIN_COLLECTIVE: return set_by_collectives(whole, why, why_size);
    case JOIN_ITERATION: return set_by_iterations(whole, why, why_size);
    }
    return true;
}
