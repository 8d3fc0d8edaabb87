/* Breakpoints, kept in the order of their numbers. */
#include "analysis/breaks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"
#include "trace/match.h"
#include "trace/reader.h"

bool
breaks_add(struct breaks *breaks, const struct trace *trace, size_t here, const char *text, struct str *told)
{
    char why[300];
    struct match_names names = match_names_of_trace(trace);
    const struct trace_event *event = trace_event(trace, here);
    if (text[0] == '\0' && event != NULL)
        text = trace_kind(trace, event->kind)->name;
    struct match *match = match_compile_break(text, &names, why, sizeof why);
    if (match == NULL) {
        str_addf(told, "%s\n", why);
        return false;
    }
    if (!vec_room(&breaks->list, &breaks->room, breaks->count + 1, sizeof *breaks->list)) {
        match_free(match);
        str_add(told, "out of memory\n");
        return false;
    }
    breaks->list[breaks->count++] = (struct breakpoint){ ++breaks->last, match, 0 };
    str_addf(told, "breakpoint %d: %s\n", breaks->last, match_text(match));
    return true;
}

bool
breaks_delete(struct breaks *breaks, int64_t number)
{
    for (size_t i = 0; i < breaks->count; i++) {
        if (breaks->list[i].number != number)
            continue;
        match_free(breaks->list[i].match);
        breaks->count--;
        memmove(&breaks->list[i], &breaks->list[i + 1], (breaks->count - i) * sizeof *breaks->list);
        return true;
    }
    return false;
}

const struct breakpoint *
breaks_at(struct breaks *breaks, const struct trace *trace, size_t seq)
{
    const struct trace_event *event = trace_event(trace, seq);
    for (size_t i = 0; event != NULL && i < breaks->count; i++) {
        struct breakpoint *point = &breaks->list[i];
        if (!match_event(point->match, event, seq, trace_time(trace, seq)))
            continue;
        point->hits++;
        return point;
    }
    return NULL;
}

void
breaks_use(struct breaks *breaks, const struct trace *trace)
{
    struct match_names names = match_names_of_trace(trace);
    for (size_t i = 0; i < breaks->count; i++)
        match_use(breaks->list[i].match, &names);
}

void
breaks_list(const struct breaks *breaks, struct str *out)
{
    if (breaks->count == 0)
        str_add(out, "no breakpoints\n");
    for (size_t i = 0; i < breaks->count; i++)
        str_addf(out, "%d: %s, stopped %" PRId64 " times\n", breaks->list[i].number,
                 match_text(breaks->list[i].match), breaks->list[i].hits);
}

void
breaks_free(struct breaks *breaks)
{
    for (size_t i = 0; i < breaks->count; i++)
        match_free(breaks->list[i].match);
    free(breaks->list);
    *breaks = (struct breaks){ 0 };
}
