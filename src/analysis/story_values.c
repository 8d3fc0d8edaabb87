/* What is filled into a sentence: arguments by their types, who came, what lay inside.
 * Interface: story_value, story_is_one, story_argument. */
#include "analysis/story_words_internal.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/buckets.h"
#include "base/str.h"
#include "base/vec.h"
#include "trace/reader.h"

enum { EXACT_BYTES = 100000, WHO_WORDS = 3, VALUES_MOST = 3, LIST_MOST = 16 };

static bool
is(const char *name, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(name, word, length) == 0;
}

static int
place_of(const struct trace_kind *kind, const char *name, size_t length)
{
    for (int i = 0; i < kind->arg_count && i < 4; i++)
        if (is(name, length, kind->arg_name[i]))
            return i;
    return -1;
}

/* ---- by type ---- */

/* "216 B", "80880 B", "25 MiB": as exact as a lesson speaks of it, then three digits. */
static void
add_bytes(int64_t bytes, struct str *out)
{
    static const char units[] = "KMGTPE";
    double value = (double)bytes / 1024;
    int    unit  = 0;
    if (bytes < EXACT_BYTES) {
        str_addf(out, "%" PRId64 " B", bytes);
        return;
    }
    for (; value >= 999.5 && units[unit + 1] != '\0'; unit++)
        value /= 1024;
    str_addf(out, "%.3g %ciB", value, units[unit]);
}

/* In one line. false: there is none. */
static bool
add_text(const struct trace *trace, int64_t id, struct str *out)
{
    const char *text = id > 0 ? trace_text_at(trace, id) : "";
    text += strspn(text, " \n");
    bool any = *text != '\0';
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        str_add_bytes(out, text, length);
        text += length + strspn(text + length, "\n ");
        str_add(out, *text != '\0' ? " " : "");
    }
    return any;
}

static bool
add_device(int64_t device, struct str *out)
{
    if (device < 0)
        str_add(out, out->len == 0 ? "The CPU" : "the CPU");
    else
        str_addf(out, "d%" PRId64, device);
    return true;
}

static bool
add_typed(const struct trace *trace, const char *type, int64_t value, struct str *out)
{
    if (strcmp(type, "text") == 0)
        return add_text(trace, value, out);
    if (strcmp(type, "device") == 0)
        return add_device(value, out);
    if (strcmp(type, "rank") == 0 && value < 0)
        return false;
    if (strcmp(type, "bytes") == 0)
        add_bytes(value, out);
    else if (strcmp(type, "ps") == 0)
        trace_print_time(value > 0 ? (uint64_t)value : 0, out);
    else if (strcmp(type, "flag") == 0)
        str_add(out, value != 0 ? "yes" : "no");
    else if (strcmp(type, "kind") == 0)
        str_add(out, trace_kind(trace, value >= 0 && value <= UINT16_MAX ? (unsigned)value : 0)->name);
    else
        str_add_signed(out, value);
    return true;
}

bool
story_argument(const struct telling *telling, int place, struct str *out)
{
    return add_typed(telling->trace, telling->kind->arg_type[place], telling->event->args[place], out);
}

/* ---- the round ---- */

/* What a rank's event is: its first one in the round, at its end if the told one is an end. */
struct teller { size_t begin, end; };

static void
look_at(const struct telling *telling, size_t seq, struct teller *teller)
{
    const struct trace_event *event = trace_event(telling->trace, seq);
    if (event->phase != PHASE_END && teller->begin == SIZE_MAX)
        teller->begin = seq;
    else if (event->phase == PHASE_END && teller->begin != SIZE_MAX && teller->end == SIZE_MAX)
        teller->end = seq;
}

static int
rank_place(const struct told *told, int rank)
{
    for (int i = 0; i < told->rank_count && i < TELLERS; i++)
        if (told->ranks[i] == rank)
            return i;
    return -1;
}

static void
find_tellers(struct telling *telling)
{
    const struct told *told = telling->told;
    struct teller      tellers[TELLERS];
    memset(tellers, 0xff, sizeof tellers);
    for (size_t seq = told->first; told->rank_count > 1 && seq <= told->last; seq++) {
        const struct trace_event *event = trace_event(telling->trace, seq);
        int place = event != NULL && event->kind == telling->event->kind ? rank_place(told, event->rank) : -1;
        if (event == NULL)
            break;
        if (place >= 0)
            look_at(telling, seq, &tellers[place]);
    }
    for (int i = 0; i < told->rank_count && i < TELLERS; i++) {
        size_t seq = telling->event->phase == PHASE_END ? tellers[i].end : tellers[i].begin;
        seq = told->ranks[i] == telling->event->rank ? told->at : seq;
        if (seq != SIZE_MAX)
            telling->tellers[telling->teller_count++] = seq;
    }
    if (telling->teller_count == 0)
        telling->tellers[telling->teller_count++] = told->at;
}

/* The values of an argument on the ranks of the round, each once. */
struct values { int64_t list[TELLERS]; int count; };

static void
add_value(struct values *values, int64_t value)
{
    for (int i = 0; i < values->count; i++)
        if (values->list[i] == value)
            return;
    if (values->count < TELLERS)
        values->list[values->count++] = value;
}

static bool
own_argument(struct telling *telling, int place, struct str *out)
{
    struct values values = { .count = 0 };
    size_t        before = out->len;
    if (telling->teller_count == 0)
        find_tellers(telling);
    for (int i = 0; i < telling->teller_count; i++)
        add_value(&values, trace_event(telling->trace, telling->tellers[i])->args[place]);
    int shown = values.count > VALUES_MOST ? VALUES_MOST - 1 : values.count;
    for (int i = 0; i < shown; i++) {
        str_add(out, out->len > before ? ", " : "");
        if (!add_typed(telling->trace, telling->kind->arg_type[place], values.list[i], out))
            return false;
    }
    str_add(out, shown < values.count ? " and more" : "");
    return true;
}

/* ---- who ---- */

/* "r0, r1", "d0 to d2"; what has too many words for a sentence is "5 ranks". */
static void
add_who(const int *numbers, int count, char letter, const char *many, struct str *out)
{
    size_t before = out->len;
    int    words  = 0;
    for (int i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && numbers[end] == numbers[end - 1] + 1;)
            end++;
        bool run = end - i > 2;
        end    = run ? end : i + 1;
        words += run ? 3 : 1;
        str_addf(out, "%s%c%d", i > 0 ? ", " : "", letter, numbers[i]);
        if (run)
            str_addf(out, " to %c%d", letter, numbers[end - 1]);
    }
    if (words > WHO_WORDS && out->text != NULL) {
        out->text[out->len = before] = '\0';
        str_addf(out, "%d %s", count, many);
    }
}

/* The devices of the lanes on which a round without ranks happened, ascending. */
static int
devices_of_round(const struct telling *telling, int devices[TELLERS])
{
    int count = 0;
    for (size_t seq = telling->told->first; seq <= telling->told->last; seq++) {
        const struct trace_event *event = trace_event(telling->trace, seq);
        if (event == NULL)
            break;
        int device = event->kind == telling->event->kind ? trace_lane_at(telling->trace, event->lane)->device : -1;
        int place  = 0;
        while (place < count && devices[place] < device)
            place++;
        if (device < 0 || count == TELLERS || (place < count && devices[place] == device))
            continue;
        memmove(&devices[place + 1], &devices[place], (size_t)(count++ - place) * sizeof *devices);
        devices[place] = device;
    }
    return count;
}

static bool
add_on(const struct telling *telling, struct str *out)
{
    const struct trace_lane_info *lane = trace_lane_at(telling->trace, telling->event->lane);
    int devices[TELLERS], count = 0, own = telling->event->rank;
    if (telling->told->rank_count > 0)
        add_who(telling->told->ranks, telling->told->rank_count, 'r', "ranks", out);
    else if (own >= 0)
        add_who(&own, 1, 'r', "ranks", out);
    else if ((count = devices_of_round(telling, devices)) > 0)
        add_who(devices, count, 'd', "devices", out);
    else
        str_add(out, lane->name);
    return telling->told->rank_count > 0 || own >= 0 || count > 0 || *lane->name != '\0';
}

static bool
add_each(const struct telling *telling, struct str *out)
{
    int count = telling->told->rank_count;
    if (count < 2 || count != buckets_ranks(telling->trace))
        return add_on(telling, out);
    str_add(out, "each rank");
    return true;
}

/* ---- what lies inside ---- */

struct inside { size_t from; int kind, place; bool ends; };  /* place -1: no argument is asked for */

/* "KIND" or "KIND.argument". false: the trace has them not. */
static bool
find_inside(const struct telling *telling, const char *name, size_t length, bool counts, struct inside *inside)
{
    char text[80];
    snprintf(text, sizeof text, "%.*s", (int)length, name);
    char *dot = counts ? NULL : strrchr(text, '.');
    if (dot != NULL)
        *dot++ = '\0';
    inside->kind = trace_kind_id(telling->trace, text);
    if (inside->kind < 0)
        return false;
    const struct trace_kind *kind = trace_kind(telling->trace, (unsigned)inside->kind);
    size_t partner = telling->event->phase == PHASE_END ? trace_partner(telling->trace, telling->told->at) : SIZE_MAX;
    inside->from  = partner != SIZE_MAX ? partner : telling->told->first;
    inside->ends  = kind->is_stage;
    inside->place = dot != NULL ? place_of(kind, dot, strlen(dot)) : -1;
    return counts || inside->place >= 0;
}

/* Those on the lane of the told event, else those of its rank on other lanes; how many there are. */
static size_t
visit_inside(const struct telling *telling, const struct inside *inside, bool elsewhere,
             void (*visit)(void *context, int64_t value), void *context)
{
    size_t count = 0;
    for (size_t seq = inside->from; seq < telling->told->at; seq++) {
        const struct trace_event *event = trace_event(telling->trace, seq);
        bool here = event->lane == telling->event->lane;
        if (event->kind != inside->kind || (event->phase == PHASE_BEGIN && inside->ends) || here == elsewhere ||
            event->rank != telling->event->rank)
            continue;
        visit(context, inside->place >= 0 ? event->args[inside->place] : 0);
        count++;
    }
    if (count == 0 && !elsewhere)
        return visit_inside(telling, inside, true, visit, context);
    return count;
}

struct gathered { int64_t sum, list[LIST_MOST]; size_t count; };

static void
gather(void *context, int64_t value)
{
    struct gathered *gathered = context;
    if (__builtin_add_overflow(gathered->sum, value, &gathered->sum))
        gathered->sum = INT64_MAX;
    if (gathered->count < LIST_MOST)
        gathered->list[gathered->count] = value;
    gathered->count++;
}

static const char *
type_inside(const struct telling *telling, const struct inside *inside)
{
    return trace_kind(telling->trace, (unsigned)inside->kind)->arg_type[inside->place];
}

static bool
add_list(const struct telling *telling, const struct inside *inside, const struct gathered *gathered, struct str *out)
{
    const char *type   = type_inside(telling, inside);
    size_t      before = out->len;
    for (size_t i = 0; i < gathered->count && i < LIST_MOST; i++) {
        str_add(out, out->len == before ? "" : strcmp(type, "int") == 0 ? " " : ", ");
        add_typed(telling->trace, type, gathered->list[i], out);
    }
    return out->len > before;
}

/* "count KIND", "sum KIND.argument", "list KIND.argument". */
static bool
add_inside(const struct telling *telling, const char *what, const char *name, size_t length, struct str *out)
{
    struct inside   inside;
    struct gathered gathered = { .count = 0 };
    bool            counts   = *what == 'c';
    if (!find_inside(telling, name, length, counts, &inside))
        return false;
    visit_inside(telling, &inside, false, gather, &gathered);
    if (*what == 'l')
        return add_list(telling, &inside, &gathered, out);
    if (*what == 's')
        return add_typed(telling->trace, type_inside(telling, &inside), gathered.sum, out);
    str_add_unsigned(out, gathered.count);
    return true;
}

/* ---- buckets ---- */

/* "fc2.weight, fc2.bias"; "fc4.weight, 7 more". */
static bool
add_names(const struct trace *trace, const struct bucket_near *near, struct str *out)
{
    int shown = near->count > BUCKET_NEAR_NAMES ? 1 : near->count;
    for (int i = 0; i < shown; i++) {
        str_add(out, i > 0 ? ", " : "");
        if (!add_text(trace, near->names[i], out))
            return false;
    }
    if (near->count > shown)
        str_addf(out, ", %d more", near->count - shown);
    return shown > 0;
}

static bool
add_bucket(const struct telling *telling, const char *name, size_t length, struct str *out)
{
    int     place  = place_of(telling->kind, "bucket", strlen("bucket"));
    int64_t bucket = place >= 0 ? telling->event->args[place] : telling->told->bucket;
    if (bucket < 0)
        return false;
    if (is(name, length, "bucket")) {
        str_add_signed(out, bucket);
        return true;
    }
    struct bucket_near near;
    bucket_look_near(telling->trace, bucket, telling->told->at, &near);
    if (is(name, length, "names"))
        return add_names(telling->trace, &near, out);
    if (near.bytes >= 0)
        add_bytes(near.bytes, out);
    return near.bytes >= 0;
}

/* ---- faults ---- */

/* A report's first line, short: "r1 in barrier, r0 in broadcast". Where it was called stands in the report, and the
 * number of the call in front of it. */
static bool
add_report(const struct telling *telling, struct str *out)
{
    int place = place_of(telling->kind, "report", strlen("report"));
    int call  = place_of(telling->kind, "sequence", strlen("sequence"));
    if (place < 0 || telling->event->args[place] <= 0)
        return false;
    const char *at = trace_text_at(telling->trace, telling->event->args[place]), *end = at + strcspn(at, "\n");
    char        number[32] = "";
    if (call >= 0)
        snprintf(number, sizeof number, " #%" PRId64, telling->event->args[call]);
    size_t before = out->len;
    while (at < end) {
        const char *close = strncmp(at, " (line ", 7) == 0 ? memchr(at, ')', (size_t)(end - at)) : NULL;
        size_t      length = strlen(number);
        if (close != NULL) {
            at = close + 1;
        } else if (call >= 0 && strncmp(at, number, length) == 0 && strspn(at + length, "0123456789") == 0) {
            at += length;
        } else if (strncmp(at, "rank ", 5) == 0 && strspn(at + 5, "0123456789") > 0) {
            str_add(out, "r");
            at += 5;
        } else {
            char letter = *at++;
            letter = out->len == before ? (char)toupper((unsigned char)letter) : letter;
            str_add_bytes(out, &letter, 1);
        }
    }
    return out->len > before;
}

/* Tasks that only wait for a rank's end are counted by the event, too. */
static bool
add_waiting(const struct telling *telling, struct str *out)
{
    int place = place_of(telling->kind, "waiting", strlen("waiting")), ranks = buckets_ranks(telling->trace);
    if (place < 0)
        return false;
    int64_t waiting = telling->event->args[place];
    str_add_signed(out, ranks > 0 && waiting > ranks ? ranks : waiting);
    return true;
}

/* ---- by name ---- */

static bool
add_number(int number, struct str *out)
{
    if (number > 0)
        str_add_signed(out, number);
    return number > 0;
}

static bool
add_duration(const struct telling *telling, struct str *out)
{
    size_t begin = telling->event->phase == PHASE_END ? trace_partner(telling->trace, telling->told->at) : SIZE_MAX;
    if (begin == SIZE_MAX)
        return false;
    uint64_t from = trace_time(telling->trace, begin), to = trace_time(telling->trace, telling->told->at);
    trace_print_time(to > from ? to - from : 0, out);
    return true;
}

static bool
add_named(struct telling *telling, const char *name, size_t length, struct str *out)
{
    static const char *const inside[] = { "count ", "sum ", "list " };
    int place = place_of(telling->kind, name, length);
    for (size_t i = 0; i < countof(inside); i++) {
        size_t skip = strlen(inside[i]);
        if (length > skip && memcmp(name, inside[i], skip) == 0)
            return add_inside(telling, inside[i], name + skip, length - skip, out);
    }
    if (is(name, length, "waiting"))
        return add_waiting(telling, out);
    if (is(name, length, "report"))
        return add_report(telling, out);
    if (place >= 0)
        return own_argument(telling, place, out);
    if (is(name, length, "on"))
        return add_on(telling, out);
    if (is(name, length, "each"))
        return add_each(telling, out);
    if (is(name, length, "step"))
        return add_number(telling->told->step, out);
    if (is(name, length, "steps"))
        return add_number(telling->told->steps, out);
    if (is(name, length, "device"))
        return add_device(telling->event->device, out);
    if (is(name, length, "time"))
        return add_duration(telling, out);
    if (is(name, length, "bucket") || is(name, length, "names") || is(name, length, "bytes"))
        return add_bucket(telling, name, length, out);
    return false;
}

bool
story_value(struct telling *telling, const char *name, size_t length, struct str *out)
{
    size_t before = out->len;
    if (add_named(telling, name, length, out) && out->len > before)
        return true;
    if (out->text != NULL)
        out->text[out->len = before] = '\0';
    return false;
}

bool
story_is_one(const struct telling *telling, const char *name, size_t length)
{
    int place = place_of(telling->kind, name, length);
    return place >= 0 && telling->event->args[place] == 1;
}
