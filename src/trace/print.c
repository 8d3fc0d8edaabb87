/* Events as text, for people and as JSON. What comes out of a file is never sent to a terminal as it is: it goes
 * through base/visible.h.
 *
 * Interface: trace_print_event, trace_print_json, trace_print_time. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"
#include "base/visible.h"
#include "trace/reader.h"

static const char *const phase_names[] = { "?", "begin", "end", "instant" };

static void
print_plain(struct str *out, const char *text)
{
    visible_add(out, text, strlen(text), VISIBLE_LINE);
}

/* Quoted when it holds what would end the word. */
static void
print_word(struct str *out, const char *text)
{
    bool quote = *text == '\0' || strpbrk(text, " \t\n\"=") != NULL;
    if (quote)
        str_add(out, "\"");
    print_plain(out, text);
    if (quote)
        str_add(out, "\"");
}

static void
print_json_text(struct str *out, const char *text)
{
    str_add(out, "\"");
    visible_add(out, text, strlen(text), VISIBLE_JSON);
    str_add(out, "\"");
}

/* ---- times ---- */

static void
add_decimals(struct str *out, uint64_t whole, uint64_t fraction, int digits)
{
    str_addf(out, "%" PRIu64, whole);
    while (digits > 0 && fraction % 10 == 0) {
        fraction /= 10;
        digits--;
    }
    if (digits > 0)
        str_addf(out, ".%0*" PRIu64, digits, fraction);
}

void
trace_print_time(uint64_t ps, struct str *out)
{
    static const struct { uint64_t ps; const char *name; } units[] = {
        { 1000, "ns" }, { 1000000, "us" }, { 1000000000, "ms" }, { 1000000000000, "s" },
    };
    size_t unit = countof(units) - 1;
    while (unit > 0 && ps < units[unit].ps)
        unit--;
    /* Rounding may reach the next unit: 999.99996 us are 1 ms. */
    for (;; unit++) {
        uint64_t step = units[unit].ps >= 10000 ? units[unit].ps / 10000 : 1, parts = units[unit].ps / step;
        uint64_t rounded = ps / step + (ps % step >= step - step / 2 && step > 1);
        if (unit + 1 < countof(units) && rounded / parts >= 1000)
            continue;
        add_decimals(out, rounded / parts, rounded % parts, step > 1 ? 4 : 3);
        str_addf(out, " %s", units[unit].name);
        return;
    }
}

/* ---- events ---- */

static bool
type_is(const struct trace_kind *kind, int arg, const char *type)
{
    return strcmp(kind->arg_type[arg], type) == 0;
}

static void
print_arg(const struct trace *trace, const struct trace_kind *kind, int arg, int64_t value, struct str *out)
{
    print_plain(out, kind->arg_name[arg]);
    str_add(out, "=");
    if (type_is(kind, arg, "text"))
        print_word(out, trace_text_at(trace, value));
    else if (type_is(kind, arg, "kind"))
        print_word(out, trace_kind(trace, value >= 0 && value <= UINT16_MAX ? (unsigned)value : 0)->name);
    else if (type_is(kind, arg, "flag"))
        str_add(out, value != 0 ? "true" : "false");
    else
        str_addf(out, "%" PRId64, value);
}

void
trace_print_event(const struct trace *trace, size_t seq, struct str *out)
{
    const struct trace_event *event = trace_event(trace, seq);
    if (event == NULL)
        return;
    const struct trace_kind *kind = trace_kind(trace, event->kind);
    str_addf(out, "%zu ", seq);
    print_plain(out, kind->name);
    str_addf(out, " %s", phase_names[event->phase]);
    if (event->rank >= 0)
        str_addf(out, " r%d", event->rank);
    if (event->device >= 0)
        str_addf(out, " dev%d", event->device);
    str_add(out, " ");
    trace_print_time(trace_time(trace, seq), out);
    for (int i = 0; i < kind->arg_count; i++) {
        str_add(out, " ");
        print_arg(trace, kind, i, event->args[i], out);
    }
    if (*kind->file != '\0') {
        str_add(out, " ");
        print_plain(out, kind->file);
        str_addf(out, ":%u", kind->line);
    }
}

static void
json_arg(const struct trace *trace, const struct trace_kind *kind, int arg, int64_t value, struct str *out)
{
    print_json_text(out, kind->arg_name[arg]);
    str_add(out, ":");
    if (type_is(kind, arg, "text"))
        print_json_text(out, trace_text_at(trace, value));
    else if (type_is(kind, arg, "kind"))
        print_json_text(out, trace_kind(trace, value >= 0 && value <= UINT16_MAX ? (unsigned)value : 0)->name);
    else if (type_is(kind, arg, "flag"))
        str_add(out, value != 0 ? "true" : "false");
    else
        str_addf(out, "%" PRId64, value);
}

static void
json_number(struct str *out, const char *key, int64_t value, bool null)
{
    if (null)
        str_addf(out, ",\"%s\":null", key);
    else
        str_addf(out, ",\"%s\":%" PRId64, key, value);
}

static void
json_text(struct str *out, const char *key, const char *text)
{
    str_addf(out, "\"%s\":", key);
    print_json_text(out, text);
}

void
trace_print_json(const struct trace *trace, size_t seq, struct str *out)
{
    const struct trace_event *event = trace_event(trace, seq);
    if (event == NULL)
        return;
    const struct trace_kind *kind = trace_kind(trace, event->kind);
    uint64_t ps = trace_time(trace, seq);
    str_addf(out, "{\"seq\":%zu,\"t\":", seq);
    add_decimals(out, ps / 1000, ps % 1000, 3);
    str_addf(out, ",\"phase\":\"%s\",", phase_names[event->phase]);
    json_text(out, "kind", kind->name);
    json_number(out, "rank", event->rank, event->rank < 0);
    json_number(out, "device", event->device, event->device < 0);
    str_add(out, ",");
    json_text(out, "lane", trace_lane_at(trace, event->lane)->name);
    json_number(out, "iter", event->iteration, false);
    json_number(out, "flow", event->flow, event->flow == 0);
    str_add(out, ",\"args\":{");
    for (int i = 0; i < kind->arg_count; i++) {
        str_add(out, i > 0 ? "," : "");
        json_arg(trace, kind, i, event->args[i], out);
    }
    str_add(out, "},\"place\":{");
    json_text(out, "function", kind->function);
    str_add(out, ",");
    json_text(out, "file", kind->file);
    json_number(out, "line", kind->line, false);
    str_add(out, ",");
    json_text(out, "pytorch", kind->pytorch);
    json_number(out, "lesson_line", event->line, event->line == 0);
    str_add(out, "}}");
}
