/* Events as text, for people and as JSON. What comes out of a file is never sent to a terminal as it is: it goes
 * through base/visible.h.
 *
 * Interface: trace_print_event, trace_print_json, trace_print_time. */
#include <stdint.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"
#include "base/visible.h"
#include "trace/reader.h"

static const char *const phase_names[] = { "?", "begin", "end", "instant" };

/* As str_add_bytes does it, without a call where there is room: a line is two dozen of these. */
static inline void
put_bytes(struct str *out, const char *text, size_t count)
{
    if (out->broken || out->room - out->len <= count) {
        str_add_bytes(out, text, count);
        return;
    }
    memcpy(out->text + out->len, text, count);
    out->len += count;
    out->text[out->len] = '\0';
}

static inline void
put(struct str *out, const char *text)
{
    put_bytes(out, text, strlen(text));
}

static void
print_plain(struct str *out, const char *text)
{
    size_t count = strlen(text), plain = visible_length(text, count, VISIBLE_LINE);
    put_bytes(out, text, plain);
    if (plain < count)
        visible_add(out, text + plain, count - plain, VISIBLE_LINE);
}

static void
add_numbered(struct str *out, const char *word, uint64_t number)
{
    put(out, word);
    str_add_unsigned(out, number);
}

/* Quoted when it holds what would end the word. */
static void
print_word(struct str *out, const char *text)
{
    bool quote = *text == '\0' || strpbrk(text, " \t\n\"=") != NULL;
    if (quote)
        put(out, "\"");
    print_plain(out, text);
    if (quote)
        put(out, "\"");
}

static void
print_json_text(struct str *out, const char *text)
{
    put(out, "\"");
    visible_add(out, text, strlen(text), VISIBLE_JSON);
    put(out, "\"");
}

/* ---- times ---- */

static void
add_decimals(struct str *out, uint64_t whole, uint64_t fraction, int digits)
{
    str_add_unsigned(out, whole);
    while (digits > 0 && fraction % 10 == 0) {
        fraction /= 10;
        digits--;
    }
    char text[16] = ".";
    for (int i = digits; i > 0; i--, fraction /= 10)
        text[i] = (char)('0' + fraction % 10);
    put_bytes(out, text, digits > 0 ? (size_t)digits + 1 : 0);
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
        put(out, " ");
        put(out, units[unit].name);
        return;
    }
}

/* ---- events ---- */

static bool
type_is(const struct trace_kind *kind, int arg, const char *type)
{
    return *kind->arg_type[arg] == *type && strcmp(kind->arg_type[arg], type) == 0;
}

static void
print_arg(const struct trace *trace, const struct trace_kind *kind, int arg, int64_t value, struct str *out)
{
    print_plain(out, kind->arg_name[arg]);
    put(out, "=");
    if (type_is(kind, arg, "text"))
        print_word(out, trace_text_at(trace, value));
    else if (type_is(kind, arg, "kind"))
        print_word(out, trace_kind(trace, value >= 0 && value <= UINT16_MAX ? (unsigned)value : 0)->name);
    else if (type_is(kind, arg, "flag"))
        put(out, value != 0 ? "true" : "false");
    else
        str_add_signed(out, value);
}

void
trace_print_event(const struct trace *trace, size_t seq, struct str *out)
{
    const struct trace_event *event = trace_event(trace, seq);
    if (event == NULL)
        return;
    const struct trace_kind *kind = trace_kind(trace, event->kind);
    str_add_unsigned(out, seq);
    put(out, " ");
    print_plain(out, kind->name);
    put(out, " ");
    put(out, phase_names[event->phase]);
    if (event->rank >= 0)
        add_numbered(out, " r", (uint64_t)event->rank);
    if (event->device >= 0)
        add_numbered(out, " dev", (uint64_t)event->device);
    put(out, " ");
    trace_print_time(trace_time(trace, seq), out);
    for (int i = 0; i < kind->arg_count; i++) {
        put(out, " ");
        print_arg(trace, kind, i, event->args[i], out);
    }
    if (*kind->file != '\0') {
        put(out, " ");
        print_plain(out, kind->file);
        add_numbered(out, ":", kind->line);
    }
}

static void
json_arg(const struct trace *trace, const struct trace_kind *kind, int arg, int64_t value, struct str *out)
{
    print_json_text(out, kind->arg_name[arg]);
    put(out, ":");
    if (type_is(kind, arg, "text"))
        print_json_text(out, trace_text_at(trace, value));
    else if (type_is(kind, arg, "kind"))
        print_json_text(out, trace_kind(trace, value >= 0 && value <= UINT16_MAX ? (unsigned)value : 0)->name);
    else if (type_is(kind, arg, "flag"))
        put(out, value != 0 ? "true" : "false");
    else
        str_add_signed(out, value);
}

static void
json_number(struct str *out, const char *key, int64_t value, bool null)
{
    put(out, ",\"");
    put(out, key);
    put(out, null ? "\":null" : "\":");
    if (!null)
        str_add_signed(out, value);
}

static void
json_text(struct str *out, const char *key, const char *text)
{
    put(out, "\"");
    put(out, key);
    put(out, "\":");
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
    add_numbered(out, "{\"seq\":", seq);
    put(out, ",\"t\":");
    add_decimals(out, ps / 1000, ps % 1000, 3);
    put(out, ",\"phase\":\"");
    put(out, phase_names[event->phase]);
    put(out, "\",");
    json_text(out, "kind", kind->name);
    json_number(out, "rank", event->rank, event->rank < 0);
    json_number(out, "device", event->device, event->device < 0);
    put(out, ",");
    json_text(out, "lane", trace_lane_at(trace, event->lane)->name);
    json_number(out, "iter", event->iteration, false);
    json_number(out, "flow", event->flow, event->flow == 0);
    put(out, ",\"args\":{");
    for (int i = 0; i < kind->arg_count; i++) {
        put(out, i > 0 ? "," : "");
        json_arg(trace, kind, i, event->args[i], out);
    }
    put(out, "},\"place\":{");
    json_text(out, "function", kind->function);
    put(out, ",");
    json_text(out, "file", kind->file);
    json_number(out, "line", kind->line, false);
    put(out, ",");
    json_text(out, "pytorch", kind->pytorch);
    json_number(out, "lesson_line", event->line, event->line == 0);
    put(out, "}}");
}
