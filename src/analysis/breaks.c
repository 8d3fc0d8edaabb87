/* Breakpoints, kept in the order of their numbers. */
#include "analysis/breaks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"
#include "control/commands.h"
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
    breaks->list[breaks->count++] = (struct breakpoint){ .number = ++breaks->last, .match = match };
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
        if (point->off || !match_event(point->match, event, seq, trace_time(trace, seq)))
            continue;
        if (point->ignore > 0) {
            point->ignore--;
            continue;
        }
        point->hits++;
        point->off = point->once;
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

static void
print_point(const struct breakpoint *point, struct str *out)
{
    str_addf(out, "%d: %s, stopped %" PRId64 " times", point->number, match_text(point->match), point->hits);
    str_add(out, point->off ? ", off" : "");
    str_add(out, point->once ? ", once" : "");
    if (point->ignore > 0)
        str_addf(out, ", lets %" PRId64 " pass", point->ignore);
    str_add(out, "\n");
}

void
breaks_list(const struct breaks *breaks, struct str *out)
{
    if (breaks->count == 0)
        str_add(out, "no breakpoints\n");
    for (size_t i = 0; i < breaks->count; i++)
        print_point(&breaks->list[i], out);
}

void
breaks_print_stop(const struct breakpoint *point, const struct trace *trace, size_t seq, struct str *out)
{
    const struct trace_event *event = trace_event(trace, seq);
    str_addf(out, "stopped by %d: %s", point->number, match_text(point->match));
    if (event != NULL && event->rank >= 0)
        str_addf(out, " (r%d)", event->rank);
    str_add(out, "\n");
}

/* ---- commands ---- */

static struct breakpoint *
find_point(struct breaks *breaks, int64_t number, struct str *told)
{
    for (size_t i = 0; i < breaks->count; i++)
        if (breaks->list[i].number == number)
            return &breaks->list[i];
    str_addf(told, "there is no breakpoint %" PRId64 ": see info breaks\n", number);
    return NULL;
}

/* "N WHAT": the number, and where the rest begins. */
static struct breakpoint *
take_point(struct breaks *breaks, const struct command_line *line, const char **rest, struct str *told)
{
    char     *end;
    long long number = strtoll(line->rest, &end, 10);
    if (end == line->rest || (*end != ' ' && *end != '\0')) {
        str_addf(told, "%s takes a breakpoint's number first, e.g. %s 1\n", command_info(line->command)->name,
                 command_info(line->command)->name);
        return NULL;
    }
    *rest = end + strspn(end, " ");
    return find_point(breaks, number, told);
}

/* A bad condition leaves the old one. */
static bool
set_condition(struct breakpoint *point, const struct trace *trace, const char *text, struct str *told)
{
    char               why[300];
    struct match_names names = match_names_of_trace(trace);
    struct match      *match = match_compile_break(text, &names, why, sizeof why);
    if (match == NULL) {
        str_addf(told, "%s\n", why);
        return false;
    }
    match_free(point->match);
    point->match = match;
    return true;
}

static bool
set_ignore(struct breakpoint *point, const char *text, struct str *told)
{
    char     *end;
    long long count = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || count < 0) {
        str_add(told, "ignore takes a breakpoint and how often it lets pass, e.g. ignore 1 5\n");
        return false;
    }
    point->ignore = count;
    return true;
}

static bool
change_point(struct breaks *breaks, const struct trace *trace, const struct command_line *line, struct str *told)
{
    const char        *rest  = "";
    struct breakpoint *point = take_point(breaks, line, &rest, told);
    bool               good  = point != NULL;
    if (good && line->command == CMD_condition)
        good = set_condition(point, trace, rest, told);
    else if (good && line->command == CMD_ignore)
        good = set_ignore(point, rest, told);
    else if (good && line->command == CMD_once)
        point->once = !point->once;
    else if (good)
        point->off = line->command == CMD_disable;
    if (good && line->command == CMD_once && point->once)
        point->off = false;
    if (good)
        print_point(point, told);
    return good;
}

bool
breaks_takes(int command)
{
    return command == CMD_break || command == CMD_delete || command == CMD_enable || command == CMD_disable ||
           command == CMD_once || command == CMD_ignore || command == CMD_condition;
}

bool
breaks_command(struct breaks *breaks, const struct trace *trace, size_t here, const struct command_line *line,
               struct str *told)
{
    if (line->command == CMD_break)
        return breaks_add(breaks, trace, here, line->rest, told);
    if (line->command != CMD_delete)
        return change_point(breaks, trace, line, told);
    if (find_point(breaks, line->count, told) == NULL)
        return false;
    return breaks_delete(breaks, line->count);
}

void
breaks_free(struct breaks *breaks)
{
    for (size_t i = 0; i < breaks->count; i++)
        match_free(breaks->list[i].match);
    free(breaks->list);
    *breaks = (struct breaks){ 0 };
}
