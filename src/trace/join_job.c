/* Which traces are one job's, and what its processes have in common: the lesson itself, which each of them runs,
 * and the devices, which have one number everywhere. A stream of a device belongs to no rank; every process
 * declares it, and it is one lane of the whole if one process uses it.
 *
 * Interface in order of use: job_find, job_has, job_declare_lanes, job_note, job_file. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/join_internal.h"

void
job_note(struct whole *whole, const char *format, ...)
{
    va_list args;
    if (whole->note.len > 0)
        str_add(&whole->note, "; ");
    va_start(args, format);
    str_addv(&whole->note, format, args);
    va_end(args);
}

/* ---- who belongs together ---- */

/* A whole number from 0 on; -1: none. */
static int
number_of(const struct trace *trace, const char *key)
{
    const char *text = trace_option_of(trace, key);
    size_t      length = strlen(text);
    return length > 0 && length < 8 && strspn(text, "0123456789") == length ? atoi(text) : -1;
}

static int
by_rank(const void *a, const void *b)
{
    const struct part *one = a, *other = b;
    return one->rank < other->rank ? -1 : one->rank > other->rank;
}

static bool
is_job(struct whole *whole)
{
    const char *id = trace_option_of(whole->parts[0].trace, JOB_ID);
    bool        is = id[0] != '\0' && whole->wish->clock != JOIN_ITERATION && !whole->is_virtual;
    for (size_t i = 0; i < whole->part_count && is; i++) {
        struct part *part = &whole->parts[i];
        part->rank = number_of(part->trace, JOB_RANK);
        is = part->rank >= 0 && strcmp(trace_option_of(part->trace, JOB_ID), id) == 0;
    }
    if (!is)
        return false;
    qsort(whole->parts, whole->part_count, sizeof *whole->parts, by_rank);
    for (size_t i = 1; i < whole->part_count && is; i++)
        is = whole->parts[i].rank != whole->parts[i - 1].rank;
    return is;
}

/* "rank 2's trace is not there", or how many. */
static void
note_missing(struct whole *whole)
{
    int size = number_of(whole->parts[0].trace, JOB_SIZE), missing = 0, first = -1;
    size_t next = 0;
    for (int rank = 0; rank < size; rank++) {
        bool is_there = next < whole->part_count && whole->parts[next].rank == rank;
        next += is_there;
        if (!is_there && missing++ == 0)
            first = rank;
    }
    if (missing == 1)
        job_note(whole, "rank %d's trace is not there", first);
    else if (missing > 1)
        job_note(whole, "%d of %d ranks' traces are not there, rank %d's the first", missing, size, first);
}

const char *
job_file(const struct part *part)
{
    const char *slash = strrchr(part->path, '/');
    return slash != NULL ? slash + 1 : part->path;
}

static void
note_short(struct whole *whole)
{
    for (size_t i = 0; i < whole->part_count; i++)
        if (trace_note(whole->parts[i].trace)[0] != '\0' && whole->parts[i].trace != whole->wish->own)
            job_note(whole, "%.60s: %s", job_file(&whole->parts[i]), trace_note(whole->parts[i].trace));
}

/* ---- epochs: from cut to cut ---- */

/* When the part came to that cut, in ticks; false: it has not. */
static bool
cut_of(const struct trace *trace, unsigned cut, uint64_t *ticks)
{
    char                key[32], end;
    struct clock_offset offset;
    snprintf(key, sizeof key, JOB_CUT "%u", cut);
    const char *text = trace_option_of(trace, key);
    if (clock_offset_parse(text, &offset) && offset.ticks != 0) {
        *ticks = offset.ticks;
        return true;
    }
    return sscanf(text, "%20" SCNu64 "%c", ticks, &end) == 1;
}

/* The first event from `from` on that is later than that. */
static size_t
seq_behind(const struct trace *trace, size_t from, uint64_t ticks)
{
    size_t low = from, high = trace_count(trace);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (trace_event(trace, middle)->time <= ticks)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* What of the part is in the whole, epoch by epoch. */
static bool
find_epochs(struct whole *whole, struct part *part)
{
    size_t count = trace_count(part->trace), end = 0, epoch = 0;
    part->ends   = calloc(whole->epochs, sizeof *part->ends);
    if (part->ends == NULL)
        return false;
    uint64_t ticks;
    for (; epoch + 1 < whole->epochs && cut_of(part->trace, (unsigned)epoch + 1, &ticks); epoch++)
        part->ends[epoch] = end = seq_behind(part->trace, end, ticks);
    bool is_whole = !whole->wish->is_cut || part->trace == whole->wish->own || epoch + 1 < whole->epochs;
    part->copy_end = whole->wish->is_cut && part->trace == whole->wish->own ? end : count;
    for (; epoch < whole->epochs; epoch++)
        part->ends[epoch] = is_whole ? count : end;
    return true;
}

bool
job_find(struct whole *whole)
{
    const struct join_wish *wish = whole->wish;
    uint64_t                ticks;
    whole->is_job = is_job(whole);
    whole->epochs = 1;
    if (wish->note != NULL && wish->note[0] != '\0')
        job_note(whole, "%s", wish->note);
    if (whole->is_job) {
        for (size_t i = 0; i < whole->part_count && wish->clock == JOIN_JOB; i++)
            while (whole->epochs < UINT16_MAX && (!wish->is_cut || whole->epochs <= wish->cut) &&
                   cut_of(whole->parts[i].trace, (unsigned)whole->epochs, &ticks))
                whole->epochs++;
        for (size_t i = 0; i < whole->part_count; i++)
            whole->parts[i].is_copy = !wish->copies && i > 0; /* rank 0's is the first, if it is there */
        note_missing(whole);
    }
    note_short(whole);
    for (size_t i = 0; i < whole->part_count; i++)
        if (!find_epochs(whole, &whole->parts[i]))
            return false;
    return true;
}

/* ---- the lesson's copies ---- */

bool
job_has(const struct part *part, size_t seq)
{
    const struct trace_event *event = trace_event(part->trace, seq);
    if (!part->is_copy || seq >= part->copy_end || event->rank >= 0)
        return true;
    return trace_lane_at(part->trace, event->lane)->rank >= 0;
}

/* ---- lanes ---- */

enum { LANE_IS_USED = 1 };   /* beside the number, in the map of lanes of no rank by their names */

static bool
declare(struct whole *whole, struct part *part, size_t index, const char *name)
{
    const struct trace_lane_info *lane = trace_lane_at(part->trace, index);
    int device = lane->device >= 0 ? lane->device + part->first_device : -1;
    trace_lane(whole->writer, lane->rank, device, lane->kind, name);
    part->lanes[index] = whole->lanes++;
    part->lanes_said++;
    return true;
}

/* A lane of no rank: the one that there is by its name, or one of its own. */
static bool
declare_common(struct whole *whole, struct part *part, size_t index, bool is_used)
{
    const struct trace_lane_info *lane = trace_lane_at(part->trace, index);
    char     name[256];
    uint64_t known   = 0;
    bool     is_main = lane->kind != LANE_STREAM, is_there = map_get_text(&whole->common, lane->name, &known);
    if (part->is_copy && !is_used)
        return true;
    if (is_there && part->is_copy && (is_main || (known & LANE_IS_USED) == 0)) {
        part->lanes[index] = (uint32_t)(known >> 1);
        return map_set_text(&whole->common, lane->name, known | LANE_IS_USED);
    }
    if (is_there)
        snprintf(name, sizeof name, "%.230s (r%d)", lane->name, part->rank);
    else
        snprintf(name, sizeof name, "%.250s", lane->name);
    return declare(whole, part, index, name) &&
           (is_there || map_set_text(&whole->common, lane->name, (uint64_t)part->lanes[index] << 1 | is_used));
}

bool
job_declare_lanes(struct whole *whole, struct part *part)
{
    size_t lanes = trace_lanes(part->trace), count = part->ends[whole->epochs - 1];
    bool  *used  = calloc(lanes, sizeof *used), good = used != NULL;
    for (size_t seq = 0; seq < count && good; seq++) {
        uint32_t lane = trace_event(part->trace, seq)->lane;
        if (lane < lanes && job_has(part, seq))
            used[lane] = true;
    }
    for (size_t i = 0; i < lanes && good; i++) {
        const struct trace_lane_info *lane = trace_lane_at(part->trace, i);
        part->lanes[i] = LANE_NONE;
        good = lane->rank >= 0 ? declare(whole, part, i, lane->name) : declare_common(whole, part, i, used[i]);
    }
    free(used);
    return good;
}
