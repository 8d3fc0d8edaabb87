/* Interface: raised_last, raised_is_over, raised_first, raised_repeats, raised_report, raised_print_lanes. */
#include "raised.h"

#include "base/str.h"
#include "ranks.h"
#include "trace/format.h"
#include "trace/reader.h"

#include <string.h>

/* Faults; events of a lane that unwinds; ranks that are told apart. */
enum { LOOK_BACK = 512, GOES_ON_WITHIN = 4096, RANKS_MOST = 1024 };

/* Failed checks are among the model's faults, and are none here. */
static bool
is_fault(const struct model *model, size_t seq)
{
    return strncmp(model_kind(model, seq), "fault.", 6) == 0;
}

/* The place of the first of the model's faults behind `seq`. */
static size_t
place_behind(const struct model *model, size_t seq)
{
    size_t low = 0, high = model->fault_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (model->faults[middle] <= seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static size_t
fault_before(const struct model *model, size_t place)
{
    for (size_t tried = 0; place > 0 && tried < LOOK_BACK; place--, tried++)
        if (is_fault(model, model->faults[place - 1]))
            return model->faults[place - 1];
    return NO_EVENT;
}

size_t
raised_last(const struct model *model, size_t cursor)
{
    return fault_before(model, place_behind(model, cursor));
}

/* What only a program does that runs: who unwinds ends its stages, frees, and lets locks go. */
static bool
is_running(const struct model *model, size_t seq)
{
    const char *kind = model_kind(model, seq);
    if (strncmp(kind, "lesson.", 7) == 0)
        return strcmp(kind, "lesson.end") != 0;
    return trace_event(model->trace, seq)->phase == PHASE_BEGIN && strncmp(kind, "lock.", 5) != 0 &&
           strncmp(kind, "task.", 5) != 0;
}

bool
raised_is_over(const struct model *model, size_t fault, size_t cursor)
{
    size_t lane = trace_event(model->trace, fault)->lane, seq = fault;
    for (int tried = 0; tried < GOES_ON_WITHIN; tried++) {
        seq = model_lane_next(model, lane, seq, 1);
        if (seq == NO_EVENT || seq > cursor || is_fault(model, seq))
            return false;
        if (is_running(model, seq))
            return true;
    }
    return false;
}

const char *
raised_report(const struct model *model, size_t fault)
{
    const char *report = model_argument_text(model, fault, "report");
    return report[0] != '\0' ? report : model_argument_text(model, fault, "message");
}

/* What and why; the tables below that may be later ones. One that was asked for says nothing. */
static bool
says_the_same(const struct model *model, size_t one, size_t other)
{
    const char *a = raised_report(model, one), *b = raised_report(model, other);
    const char *end = strstr(a, "\n\n");
    size_t      length = end != NULL ? (size_t)(end - a) : strlen(a);
    return length > 0 && strncmp(a, b, length) == 0 && (b[length] == '\0' || strncmp(b + length, "\n\n", 2) == 0);
}

/* The one before it, if both are one fault: nobody went on in between, or they say the same. */
static size_t
one_before(const struct model *model, size_t fault)
{
    size_t before = fault > 0 ? raised_last(model, fault - 1) : NO_EVENT;
    bool   same = before != NO_EVENT && (says_the_same(model, before, fault) || !raised_is_over(model, before, fault));
    return same ? before : NO_EVENT;
}

size_t
raised_first(const struct model *model, size_t fault)
{
    size_t before = one_before(model, fault);
    for (int tried = 0; before != NO_EVENT && tried < LOOK_BACK; tried++) {
        fault  = before;
        before = one_before(model, fault);
    }
    return fault;
}

bool
raised_repeats(const struct model *model, size_t fault)
{
    size_t before = is_fault(model, fault) ? one_before(model, fault) : NO_EVENT;
    for (int tried = 0; before != NO_EVENT && tried < LOOK_BACK; tried++) {
        if (says_the_same(model, before, fault))
            return true;
        before = one_before(model, before);
    }
    return false;
}

void
raised_print_lanes(const struct model *model, size_t fault, size_t cursor, struct str *out)
{
    bool   raised[RANKS_MOST] = { false };
    int    ranks[RANKS_MOST];
    size_t first = raised_first(model, fault), count = 0, place = place_behind(model, cursor);
    for (int tried = 0; place > 0 && model->faults[place - 1] >= first && tried < LOOK_BACK; place--, tried++) {
        size_t seq = model->faults[place - 1];
        if (strcmp(model_kind(model, seq), "fault.error") != 0 || !says_the_same(model, seq, fault))
            continue;
        const struct trace_event *event = trace_event(model->trace, seq);
        if (event->rank < 0 && out->len == 0)
            str_add(out, trace_lane_at(model->trace, event->lane)->name);
        else if (event->rank >= 0 && event->rank < RANKS_MOST)
            raised[event->rank] = true;
    }
    for (int rank = 0; rank < RANKS_MOST; rank++)
        if (raised[rank])
            ranks[count++] = rank;
    str_add(out, out->len > 0 && count > 0 ? ", " : "");
    ranks_print(ranks, count, out);
}
