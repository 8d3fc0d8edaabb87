/* The clocks of a job's processes by what their traces say of them. Between two marks a clock drifts evenly;
 * before the first and behind the last it goes as the file says, and the longer, the less is known.
 *
 * Interface in order of use: offsets_find, then offsets_time, offsets_error, offsets_mended. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "trace/clock.h"
#include "trace/internal.h"
#include "trace/join_internal.h"

/* A quartz is off by some 50 ns a ms; the rate of a file that nobody closed was measured in 2 ms. */
enum { PS_A_NS = 1000, UNKNOWN_DRIFT = 5000 /* one part in so many */ };

static int64_t
within(__int128 value)
{
    return value > FARTHEST ? FARTHEST : value < -FARTHEST ? -FARTHEST : (int64_t)value;
}

/* ---- finding them ---- */

/* In order of the part's own time; of two at one moment the later one is none. */
static bool
add_mark(struct part *part, const struct clock_offset *offset, __int128 base)
{
    const struct trace *trace = part->trace;
    struct mark         mark  = { .own = within((__int128)offset->local * PS_A_NS) };
    if (offset->ticks != 0 && !trace_is_virtual(trace)) {
        uint64_t rate = trace->head.clock == CLOCK_TSC ? trace->head.ticks_per_ms : 1000000;
        mark.own      = within((__int128)trace_wall_ps(trace->head.tick_base, offset->ticks, rate));
    }
    mark.job   = within(((__int128)offset->local + offset->offset) * PS_A_NS - base);
    mark.error = within((__int128)offset->error * PS_A_NS);
    if (!vec_room(&part->marks, &part->mark_room, part->mark_count + 1, sizeof *part->marks))
        return false;
    size_t at = part->mark_count;
    while (at > 0 && part->marks[at - 1].own > mark.own)
        at--;
    if (at > 0 && part->marks[at - 1].own == mark.own)
        return true;
    memmove(&part->marks[at + 1], &part->marks[at], (part->mark_count - at) * sizeof mark);
    part->marks[at] = mark;
    part->mark_count++;
    return true;
}

static bool
offset_of(const struct part *part, const char *key, struct clock_offset *out)
{
    return clock_offset_parse(trace_option_of(part->trace, key), out);
}

/* From the first mark of the first part that has one, so that numbers stay small: a job may count from 1970. */
static void
find_base(const struct whole *whole, __int128 *base)
{
    struct clock_offset offset;
    for (size_t i = 0; i < whole->part_count; i++)
        if (offset_of(&whole->parts[i], JOB_CLOCK_BEGIN, &offset)) {
            *base = (__int128)(i == 0 ? offset.offset : offset.local + offset.offset) * PS_A_NS;
            return;
        }
}

static bool
find_marks(const struct whole *whole, struct part *part, __int128 base)
{
    struct clock_offset offset;
    char                key[32];
    if (offset_of(part, JOB_CLOCK_BEGIN, &offset) && !add_mark(part, &offset, base))
        return false;
    for (size_t cut = 1; cut < whole->epochs; cut++) {
        snprintf(key, sizeof key, JOB_CUT "%zu", cut);
        if (offset_of(part, key, &offset) && !add_mark(part, &offset, base))
            return false;
    }
    if (!whole->wish->is_cut && offset_of(part, JOB_CLOCK_END, &offset) && !add_mark(part, &offset, base))
        return false;
    for (size_t i = 1; i < part->mark_count; i++) /* time never turns back */
        if (part->marks[i].job < part->marks[i - 1].job)
            part->marks[i].job = part->marks[i - 1].job;
    return true;
}

bool
offsets_find(struct whole *whole)
{
    __int128 base = 0;
    find_base(whole, &base);
    for (size_t i = 0; i < whole->part_count; i++) {
        struct part *part = &whole->parts[i];
        part->bends = calloc(whole->epochs, sizeof *part->bends);
        if (part->bends == NULL || !find_marks(whole, part, base))
            return false;
    }
    return true;
}

/* ---- what they say ---- */

/* The last mark at or before `own`, else the first. */
static const struct mark *
mark_at(const struct part *part, int64_t own)
{
    size_t low = 0, high = part->mark_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (part->marks[middle].own <= own)
            low = middle;
        else
            high = middle;
    }
    return &part->marks[low];
}

static bool
is_between(const struct part *part, const struct mark *mark, int64_t own)
{
    return own >= mark->own && mark + 1 < part->marks + part->mark_count;
}

/* a at `from`, b at `to`, evenly between them. */
static int64_t
between(int64_t a, int64_t b, __int128 passed, __int128 length)
{
    return within(a + (length > 0 ? ((__int128)b - a) * passed / length : 0));
}

int64_t
offsets_time(const struct part *part, int64_t own)
{
    if (part->mark_count == 0)
        return within((__int128)own + part->shift);
    const struct mark *mark = mark_at(part, own);
    if (!is_between(part, mark, own))
        return within((__int128)mark->job + own - mark->own);
    return between(mark->job, mark[1].job, (__int128)own - mark->own, (__int128)mark[1].own - mark->own);
}

int64_t
offsets_error(const struct part *part, int64_t own)
{
    if (part->mark_count == 0)
        return FARTHEST;
    const struct mark *mark = mark_at(part, own);
    if (is_between(part, mark, own))
        return between(mark->error, mark[1].error, (__int128)own - mark->own, (__int128)mark[1].own - mark->own);
    __int128 away = (__int128)own - mark->own;
    return within((__int128)mark->error + (away < 0 ? -away : away) / UNKNOWN_DRIFT);
}

int64_t
offsets_mended(const struct part *part, size_t epoch, int64_t own)
{
    const struct bend *bend   = &part->bends[epoch];
    __int128           passed = (__int128)own - bend->from, length = (__int128)bend->to - bend->from;
    int64_t            moved  = bend->moved[0];
    if (passed >= length && length > 0) {
        moved = bend->moved[JOB_KNOTS - 1];
    } else if (passed > 0 && length > 0) {
        const __int128 place = passed * (JOB_KNOTS - 1);
        size_t         knot  = (size_t)(place / length);
        moved = between(bend->moved[knot], bend->moved[knot + 1], place % length, length);
    }
    return within((__int128)offsets_time(part, own) + moved);
}
