/* Traces to one trace. Each part has a table from its ids to those of the whole, filled as they are met; events
 * are merged by time by taking the earliest of all parts again and again.
 *
 * Interface: trace_join. Which parts are a job's is join_job.c's business, how the clocks are set join_clock.c's. */
#include "trace/join.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/runtime_folder.h"
#include "base/vec.h"
#include "trace/internal.h"
#include "trace/join_internal.h"

enum { PS_A_NS = 1000 };

/* ---- what the whole says of itself ---- */

static bool
same_kind(const struct trace_kind *a, const struct trace_kind *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->args, b->args) == 0 && a->is_stage == b->is_stage;
}

/* The whole's number for a kind; declared when it is met first. 0: no room. */
static unsigned
kind_in_whole(struct whole *whole, const struct trace_kind *kind)
{
    for (size_t i = 0; i < whole->kind_count; i++)
        if (same_kind(whole->kinds[i], kind))
            return (unsigned)i + 1;
    if (whole->kind_count >= UINT16_MAX - 1 ||
        !vec_room(&whole->kinds, &whole->kind_room, whole->kind_count + 1, sizeof *whole->kinds) ||
        !trace_declare(whole->writer, (unsigned)whole->kind_count + 1, kind))
        return 0;
    whole->kinds[whole->kind_count++] = kind;
    return (unsigned)whole->kind_count;
}

static bool
declare_kinds(struct whole *whole, struct part *part)
{
    size_t count = trace_kinds(part->trace);
    part->kinds  = calloc(count, sizeof *part->kinds);
    if (part->kinds == NULL)
        return false;
    for (size_t i = 1; i < count; i++) {
        part->kinds[i] = (uint16_t)kind_in_whole(whole, trace_kind(part->trace, (unsigned)i));
        if (part->kinds[i] == 0)
            return false;
    }
    return true;
}

/* "r1 main B" where tasks would be mixed up. */
static bool
declare_lanes(struct whole *whole, struct part *part)
{
    size_t lanes = trace_lanes(part->trace), number = (size_t)(part - whole->parts);
    part->lanes  = calloc(lanes, sizeof *part->lanes);
    if (part->lanes == NULL || whole->is_job)
        return part->lanes != NULL && job_declare_lanes(whole, part);
    for (size_t i = 0; i < lanes; i++) {
        const struct trace_lane_info *lane = trace_lane_at(part->trace, i);
        char name[256];
        if (whole->lettered)
            snprintf(name, sizeof name, "%.240s %c", lane->name, (char)('A' + number % 26));
        else
            snprintf(name, sizeof name, "%.250s", lane->name);
        int device = lane->device >= 0 ? lane->device + part->first_device : -1;
        trace_lane(whole->writer, lane->rank, device, lane->kind, name);
        part->lanes[i] = whole->lanes++;
    }
    part->lanes_said = (uint32_t)lanes;
    return true;
}

/* "a.trace, b.trace": of traces of different lessons, in place of a title. */
static void
say_names(struct whole *whole)
{
    char   title[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < whole->part_count && used < sizeof title; i++) {
        used += (size_t)snprintf(title + used, sizeof title - used, "%s%.60s", i > 0 ? ", " : "",
                                 job_file(&whole->parts[i]));
    }
    trace_option(whole->writer, "title", title);
    if (trace_option_of(whole->parts[0].trace, "hardware")[0] != '\0')
        trace_option(whole->writer, "hardware", trace_option_of(whole->parts[0].trace, "hardware"));
}

/* How the lesson wants to be told. */
static void
keep_story(struct whole *whole, const struct trace *first)
{
    const char *key, *value;
    for (size_t i = 0; trace_option_at(first, i, &key, &value); i++)
        if (option_is_of_story(key))
            trace_option(whole->writer, key, value);
}

static void
say_where_from(struct whole *whole)
{
    static const char *const kept[] = { "lesson", "title", "seed", "policy", "executor", "hardware", "costs", "world",
                                        "show" };
    static const char *const of_job[] = { JOB_ID, JOB_SIZE };
    const struct trace *first = whole->parts[0].trace;
    const char         *lesson, *source = trace_source_text(first, &lesson);
    bool same = true; /* else no line of theirs has one text */
    for (size_t i = 1; i < whole->part_count; i++)
        same = same && strcmp(source, trace_source_text(whole->parts[i].trace, NULL)) == 0;
    for (size_t i = 0; i < countof(kept) && same; i++)
        if (trace_option_of(first, kept[i])[0] != '\0')
            trace_option(whole->writer, kept[i], trace_option_of(first, kept[i]));
    if (same)
        keep_story(whole, first);
    else
        say_names(whole);
    for (size_t i = 0; i < whole->part_count; i++) {
        char key[48], lanes[32];
        snprintf(key, sizeof key, JOIN_PART "%zu", i);
        trace_option(whole->writer, key, job_file(&whole->parts[i]));
        snprintf(key, sizeof key, JOIN_LANES "%zu", i);
        snprintf(lanes, sizeof lanes, "%u", (unsigned)whole->parts[i].lanes_said);
        trace_option(whole->writer, key, lanes);
    }
    for (size_t i = 0; i < countof(of_job) && whole->is_job; i++)
        trace_option(whole->writer, of_job[i], trace_option_of(first, of_job[i]));
    if (whole->note.len > 0 && str_ok(&whole->note))
        trace_option(whole->writer, JOIN_NOTE, str_text(&whole->note));
    if (source[0] != '\0' && same)
        trace_source(whole->writer, lesson, source);
}

/* ---- events ---- */

/* The whole's id for a text or a snapshot of a part, which is written when it is met first. */
static int64_t
id_in_whole(struct whole *whole, struct part *part, int64_t id, bool snapshot)
{
    struct map           *known = snapshot ? &part->snapshots : &part->texts;
    struct trace_snapshot content;
    uint64_t              found;
    if (id <= 0 || map_get(known, (uint64_t)id, &found))
        return id <= 0 ? id : (int64_t)found;
    if (!snapshot)
        found = trace_text(whole->writer, trace_text_at(part->trace, id));
    else
        found = trace_snapshot_at(part->trace, id, &content) ? trace_snapshot(whole->writer, &content) : 0;
    whole->starved |= !map_set(known, (uint64_t)id, found);
    return (int64_t)found;
}

/* One that is too large to be moved was nobody's. */
static int64_t
moved_by(int64_t id, int64_t first)
{
    return id <= INT64_MAX - first ? id + first : id;
}

static void
take_arguments(struct whole *whole, struct part *part, const struct trace_event *from, struct trace_event *to)
{
    const struct trace_kind *kind = trace_kind(part->trace, from->kind);
    for (int i = 0; i < kind->arg_count; i++) {
        const char *type = kind->arg_type[i];
        if (strcmp(type, "text") == 0 || strcmp(type, "snapshot") == 0)
            to->args[i] = id_in_whole(whole, part, from->args[i], type[0] == 's');
        else if (strcmp(type, "storage") == 0 && from->args[i] > 0)
            to->args[i] = moved_by(from->args[i], part->first_storage);
        else if (strcmp(type, "device") == 0 && from->args[i] >= 0)
            to->args[i] = moved_by(from->args[i], part->first_device);
    }
}

/* In a job what is sent from one trace to another; numbers are given as flows are met, so that they stay as they
 * are when more is recorded. */
static uint32_t
flow_in_whole(struct whole *whole, struct part *part, uint32_t flow)
{
    struct map *known = flow >= JOB_FLOW ? &whole->flows : &part->flows;
    uint64_t    number;
    if (!whole->is_job || flow == 0)
        return flow > 0 ? flow + part->first_flow : 0;
    if (!map_get(known, flow, &number)) {
        number = ++whole->flow_count;
        whole->starved |= !map_set(known, flow, number);
    }
    return (uint32_t)number;
}

static bool
append_event(struct whole *whole, struct part *part)
{
    const struct trace_event *from = trace_event(part->trace, part->next);
    struct trace_event        to   = *from;
    to.time = whole->is_virtual ? part->time : part->time / PS_A_NS;
    to.kind = from->kind < trace_kinds(part->trace) ? part->kinds[from->kind] : 0;
    if (to.kind == 0 || (whole->is_job && !job_has(part, part->next)))
        return true; /* damaged: a kind that nobody declared; or the lesson, once more */
    to.lane = part->lanes[from->lane];
    to.flow = flow_in_whole(whole, part, from->flow);
    if (from->device >= 0)
        to.device = (int16_t)(from->device + part->first_device);
    take_arguments(whole, part, from, &to);
    return trace_append(whole->buffer, &to) && !whole->starved;
}

/* The part whose next event is the earliest, of two at one time the first; NULL: all are at their ends. */
static struct part *
earliest(struct whole *whole)
{
    struct part *first = NULL;
    for (size_t i = 0; i < whole->part_count; i++) {
        struct part *part = &whole->parts[i];
        if (part->next < part->limit && (first == NULL || part->time < first->time))
            first = part;
    }
    return first;
}

/* Times never go back in a part, nor behind the epoch before. */
static bool
merge_events(struct whole *whole)
{
    uint64_t last = 0;
    for (size_t epoch = 0; epoch < whole->epochs; epoch++) {
        for (size_t i = 0; i < whole->part_count; i++) {
            struct part *part = &whole->parts[i];
            part->epoch   = epoch;
            part->limit   = part->ends[epoch];
            uint64_t time = join_time(part, part->next);
            part->time    = time > last ? time : last;
        }
        for (struct part *part = earliest(whole); part != NULL; part = earliest(whole)) {
            if (!append_event(whole, part))
                return false;
            last = part->time;
            part->next++;
            uint64_t time = join_time(part, part->next);
            part->time    = time > part->time ? time : part->time;
        }
    }
    return true;
}

/* ---- the whole ---- */

/* Numbers that each part's are moved by, so that none are shared. Devices only where ranks are. */
static void
separate_ids(struct whole *whole)
{
    int64_t  storages = 0;
    uint32_t flows    = 0;
    int      devices  = 0;
    for (size_t i = 0; i < whole->part_count; i++) {
        struct part *part   = &whole->parts[i];
        part->first_storage = storages;
        part->first_flow    = flows;
        part->first_device  = whole->lettered ? devices : 0;
        int last = -1;
        for (size_t lane = 0; lane < trace_lanes(part->trace); lane++) {
            int device = trace_lane_at(part->trace, lane)->device;
            last       = device > last ? device : last;
        }
        devices += last + 1;
        storages += (int64_t)1 << 32;
        uint32_t most = 0;
        if (whole->is_job)
            continue; /* flow_in_whole */
        for (size_t seq = 0; seq < trace_count(part->trace); seq++) {
            uint32_t flow = trace_event(part->trace, seq)->flow;
            most          = flow > most ? flow : most;
        }
        flows += most;
    }
}

/* Two parts have a task of the same name and rank. */
static bool
lanes_are_shared(const struct whole *whole)
{
    struct map owners = { 0 };
    bool       shared = false;
    for (size_t i = 0; i < whole->part_count; i++)
        for (size_t k = 0; k < trace_lanes(whole->parts[i].trace); k++) {
            const struct trace_lane_info *lane = trace_lane_at(whole->parts[i].trace, k);
            uint64_t owner, key = hash_bytes((uint64_t)lane->rank + 2, lane->name, strlen(lane->name));
            if (lane->kind != LANE_HOST)
                continue;
            if (map_get(&owners, key, &owner))
                shared |= owner != i;
            else
                shared |= !map_set(&owners, key, i);
        }
    map_free(&owners);
    return shared;
}

static bool
write_whole(struct whole *whole, const char *path, char *why, size_t why_size)
{
    const struct trace_options options = { .path = path,
                                           .clock = whole->is_virtual ? CLOCK_VIRTUAL_PS : CLOCK_MONOTONIC_NS };
    whole->writer = writer_create(&options, NULL, why, why_size);
    if (whole->writer == NULL)
        return false;
    whole->writer->head->tick_base = 0; /* the parts' times count from their starts, not from when this machine did */
    whole->buffer = trace_buffer_new(whole->writer);
    bool good     = whole->buffer != NULL;
    for (size_t i = 0; i < whole->part_count && good; i++)
        good = declare_kinds(whole, &whole->parts[i]) && declare_lanes(whole, &whole->parts[i]);
    if (good)
        say_where_from(whole);
    good = good && merge_events(whole) && trace_lost(whole->writer) == 0;
    if (!good)
        snprintf(why, why_size, "no memory or no room on the disk to put %zu traces together", whole->part_count);
    trace_close(whole->writer);
    return good;
}

static void
free_part(struct part *part)
{
    free(part->kinds);
    free(part->lanes);
    free(part->pieces);
    free(part->marks);
    free(part->ends);
    free(part->bends);
    map_free(&part->texts);
    map_free(&part->snapshots);
    map_free(&part->flows);
}

static void
free_whole(struct whole *whole)
{
    for (size_t i = 0; i < whole->part_count; i++)
        free_part(&whole->parts[i]);
    free(whole->parts);
    free(whole->kinds);
    map_free(&whole->flows);
    map_free(&whole->common);
    str_free(&whole->note);
}

/* false: `why` says so. */
static bool
open_whole(struct whole *whole, const struct join_part *parts, size_t count, char *why, size_t why_size)
{
    whole->parts = calloc(count, sizeof *whole->parts);
    if (whole->parts != NULL)
        whole->part_count = count;
    for (size_t i = 0; i < whole->part_count; i++) {
        whole->parts[i].path  = parts[i].path;
        whole->parts[i].trace = parts[i].trace;
        whole->is_virtual &= trace_is_virtual(parts[i].trace);
    }
    if (whole->parts == NULL || !job_find(whole)) {
        snprintf(why, why_size, "out of memory");
        return false;
    }
    whole->lettered = !whole->is_job && lanes_are_shared(whole);
    separate_ids(whole);
    return true;
}

struct trace *
trace_join(const struct join_part *parts, size_t count, const struct join_wish *wish, char *why, size_t why_size)
{
    struct whole          whole = { .wish = wish, .is_virtual = true };
    struct runtime_folder folder;
    struct trace         *trace = NULL;
    char                  path[PATH_MAX];
    if (count == 0 || count > JOIN_MOST) {
        snprintf(why, why_size, "1 to %d traces can be put together, not %zu", JOIN_MOST, count);
        return NULL;
    }
    if (!runtime_folder_make(&folder, RUNTIME_RECORDS, why, why_size))
        return NULL;
    snprintf(path, sizeof path, "%s/" RUNTIME_RECORD "joined", folder.path);
    if (open_whole(&whole, parts, count, why, why_size) && join_set_clocks(&whole, why, why_size) &&
        write_whole(&whole, path, why, why_size))
        trace = trace_open(path, why, why_size);
    free_whole(&whole);
    unlink(path); /* it stays as long as it is open */
    runtime_folder_remove(&folder);
    return trace;
}
