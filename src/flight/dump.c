/* A file: JSON or a pickle, one rank's dump or several, whose it is, and the calls in it.
 *
 * Interface: dump_rank_of_name, dump_read, dumps_free. */
#include "flight/dump.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/json_text.h"
#include "base/vec.h"
#include "flight/dump_parts.h"

/* ---- the value ---- */

static bool
too_many_values(const char *text, size_t size)
{
    size_t values = 0;
    for (size_t i = 0; i < size; i++)
        values += text[i] == ',' || text[i] == '[' || text[i] == '{';
    return values > DUMP_VALUES;
}

static json_t *
parse_json(struct dumps *dumps, const char *text, size_t size)
{
    struct json_wrong wrong;
    if (too_many_values(text, size)) {
        dump_wrong(dumps, "holds more than %d values", DUMP_VALUES);
        return NULL;
    }
    json_t *value = json_text_parse(text, size, JSON_ALLOW_NUL, &wrong);
    if (value == NULL && wrong.why == NULL)
        dump_wrong(dumps, "there is no memory for it");
    else if (value == NULL)
        dump_wrong(dumps, "is no JSON that can be read: line %d: %s", wrong.line, wrong.why);
    return value;
}

static json_t *
parse(struct dumps *dumps, const char *bytes, size_t size)
{
    size_t start = 0;
    while (start < size && bytes[start] != '\0' && strchr(" \t\r\n", bytes[start]) != NULL)
        start++;
    if (start == size) {
        dump_wrong(dumps, "is empty");
        return NULL;
    }
    if (bytes[start] == '{' || bytes[start] == '[')
        return parse_json(dumps, bytes, size);
    return dump_unpickle(bytes, size, dumps->why, sizeof dumps->why);
}

/* ---- whose it is ---- */

/* The number in which a text ends; -1: none, or none that is a rank. */
static int
last_number(const char *text, size_t length)
{
    size_t start = length;
    while (start > 0 && text[start - 1] >= '0' && text[start - 1] <= '9')
        start--;
    if (start == length || length - start > 9)
        return -1;
    int rank = atoi(text + start);
    return rank < DUMP_RANKS ? rank : -1;
}

int
dump_rank_of_name(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path, *dot = strrchr(name, '.');
    size_t      length = strlen(name);
    int         rank   = last_number(name, length);
    return rank < 0 && dot != NULL ? last_number(name, (size_t)(dot - name)) : rank;
}

/* A send or receive of the default group, if there is one, says who made it. */
static int
rank_of_calls(const json_t *entries)
{
    for (size_t i = 0; i < json_array_size(entries); i++) {
        const json_t *entry = json_array_get(entries, i), *pair = json_object_get(entry, "process_group");
        const char   *group = json_string_value(json_array_get(pair, 0)), *name = dump_text(entry, "profiling_name");
        const char   *ranks = name != NULL ? strchr(name, ' ') : NULL;
        int           self  = -1;
        char          arrow[3] = "";
        if (group == NULL || strcmp(group, "0") != 0 || ranks == NULL || strlen(ranks) > 31)
            continue;
        if (sscanf(ranks, " %6d%2[<>-]", &self, arrow) == 2 && self >= 0 && self < DUMP_RANKS)
            return self;
    }
    return -1;
}

static int
rank_of(const char *path, const json_t *dump, int given)
{
    int64_t said = dump_number(dump, "rank", -1);
    if (given >= 0)
        return given;
    if (said >= 0 && said < DUMP_RANKS)
        return (int)said;
    int named = dump_rank_of_name(path);
    return named >= 0 ? named : rank_of_calls(json_object_get(dump, "entries"));
}

/* ---- one rank's dump ---- */

static struct dump_source *
new_source(struct dumps *dumps, const char *path, const json_t *dump, int rank)
{
    if (rank < 0) {
        dump_wrong(dumps, "does not say whose dump it is: its name ends in no rank; say it with --rank");
        return NULL;
    }
    if (rank >= DUMP_RANKS) {
        dump_wrong(dumps, "is of rank %d; %d ranks can be read", rank, DUMP_RANKS);
        return NULL;
    }
    for (size_t i = 0; i < dumps->source_count; i++)
        if (dumps->sources[i].rank == rank) {
            dump_wrong(dumps, "is a second dump of rank %d; the first is %s", rank, dumps->sources[i].path);
            return NULL;
        }
    const char *version = dump_text(dump, "version");
    if (!vec_room(&dumps->sources, &dumps->source_room, dumps->source_count + 1, sizeof *dumps->sources)) {
        dump_wrong(dumps, "there is no memory for it");
        return NULL;
    }
    struct dump_source *source = &dumps->sources[dumps->source_count++];
    *source = (struct dump_source){ .path = strdup(path), .version = version != NULL ? strdup(version) : NULL,
                                    .rank = rank, .status = { -1, -1, -1 } };
    if (source->path != NULL && (version == NULL || source->version != NULL))
        return source;
    dump_wrong(dumps, "there is no memory for it");
    return NULL;
}

/* gloo's recorder knows one group of the name "", whose ranks are those of the group made last: it says how large the
 * world is at least, and nothing of members. */
static bool
take_config(struct dumps *dumps, int rank, const char *key, const json_t *about)
{
    const char *name = dump_text(about, "name");
    int        *ranks, size = 0, own = -1;
    if (!dump_ranks(json_object_get(about, "ranks"), &ranks, &size))
        return dump_wrong(dumps, "there is no memory for it");
    for (int i = 0; i < size; i++) {
        own          = ranks[i] == rank ? i : own;
        dumps->world = ranks[i] >= dumps->world ? ranks[i] + 1 : dumps->world;
    }
    name = name != NULL ? name : key;
    if (own < 0 || *name == '\0') {
        free(ranks);
        return true;
    }
    if (!vec_room(&dumps->configs, &dumps->config_room, dumps->config_count + 1, sizeof *dumps->configs)) {
        free(ranks);
        return dump_wrong(dumps, "there is no memory for it");
    }
    struct dump_members members = { .ranks = ranks, .size = size, .of_rank = rank };
    dumps->configs[dumps->config_count++] = (struct dump_config){ name, members };
    return true;
}

/* By name, or a list. */
static bool
take_configs(struct dumps *dumps, int rank, json_t *configs)
{
    const char *key;
    json_t     *about;
    bool        good = true;
    json_object_foreach(configs, key, about)
        good = good && take_config(dumps, rank, key, about);
    for (size_t i = 0; good && i < json_array_size(configs); i++)
        good = take_config(dumps, rank, "", json_array_get(configs, i));
    return good;
}

static void
forget_configs(struct dumps *dumps)
{
    for (size_t i = 0; i < dumps->config_count; i++)
        free(dumps->configs[i].members.ranks);
    dumps->config_count = 0;
    map_free(&dumps->by_name);
}

/* A recorder that sets states has set one, unless nothing ever began; those of NCCL and its kin do. */
static bool
is_tracked(const json_t *entries)
{
    for (size_t i = 0; i < json_array_size(entries); i++) {
        const json_t *entry = json_array_get(entries, i);
        const char   *state = dump_text(entry, "state"), *name = dump_text(entry, "profiling_name");
        const char   *ccl   = name != NULL ? strstr(name, "ccl") : NULL;
        const char   *colon = name != NULL ? strchr(name, ':') : NULL;
        if ((state != NULL && strcmp(state, "scheduled") != 0) || (ccl != NULL && colon != NULL && ccl < colon) ||
            dump_number(entry, "time_discovered_started_ns", 0) > 0)
            return true;
    }
    return false;
}

static void
take_status(struct dump_source *source, const json_t *dump)
{
    const json_t *status = json_object_get(json_object_get(dump, "pg_status"), "0");
    source->status = (struct flight_progress){ dump_number(status, "last_enqueued_collective", -1),
                                               dump_number(status, "last_started_collective", -1),
                                               dump_number(status, "last_completed_collective", -1) };
}

static int
group_named(const struct flight *flight, const char *name)
{
    for (int i = 0; name != NULL && i < flight->group_count; i++)
        if (strcmp(flight->groups[i].name, name) == 0)
            return i;
    return -1;
}

/* Why Ringside's own run stopped, and what its rank does now: PyTorch's dumps do not say it. */
static void
take_why(struct flight *flight, const json_t *dump)
{
    const char *why = dump_text(dump, "why");
    for (int i = FLIGHT_DUMPED; why != NULL && i <= FLIGHT_INTERRUPTED; i++)
        if (strcmp(dump_why_words[i], why) == 0)
            flight->why = (enum flight_cause)i;
    flight->after_ps = (uint64_t)dump_number(dump, "after_ps", (int64_t)flight->after_ps);
}

static void
take_present(struct dumps *dumps, int rank, const json_t *dump)
{
    const json_t       *present = json_object_get(dump, "now");
    const char         *word    = dump_text(present, "state");
    struct flight_rank *of      = rank < dumps->flight->rank_count ? &dumps->flight->ranks[rank] : NULL;
    int64_t             line    = dump_number(present, "line", 0);
    for (int i = FLIGHT_RUNNING; of != NULL && word != NULL && i <= FLIGHT_KILLED; i++)
        if (strcmp(dump_now_words[i], word) == 0)
            of->now = (enum flight_now)i;
    if (of == NULL || of->now == FLIGHT_UNKNOWN)
        return;
    int64_t peer = dump_number(present, "peer", -1);
    of->since_ps = (uint64_t)dump_number(present, "since_ps", 0);
    of->line     = line > 0 && line < UINT32_MAX ? (uint32_t)line : 0;
    of->waits_in = flight_text(dumps->flight, dump_text(present, "waits_in"));
    of->detail   = flight_text(dumps->flight, dump_text(present, "detail"));
    of->sequence = dump_number(present, "sequence", -1);
    of->peer     = peer >= 0 && peer < DUMP_RANKS ? (int)peer : -1;
    of->tag      = dump_number(present, "tag", -1);
    of->group    = group_named(dumps->flight, dump_text(present, "group"));
}

/* Calls may stand newest first; flights want them in order. */
static int
by_record(const void *a, const void *b)
{
    const struct flight_entry *one = a, *other = b;
    return (one->record > other->record) - (one->record < other->record);
}

static void
sort_calls(struct flight_rank *of)
{
    bool sorted = true;
    for (size_t i = 1; i < of->count; i++)
        sorted = sorted && of->entries[i - 1].record <= of->entries[i].record;
    if (!sorted)
        qsort(of->entries, of->count, sizeof *of->entries, by_record);
}

static bool
read_calls(struct dumps *dumps, struct dump_source *source, const json_t *entries)
{
    bool good = true;
    for (size_t i = 0; good && i < json_array_size(entries); i++)
        good = dump_entry(dumps, source, json_array_get(entries, i));
    if (!good)
        return false;
    sort_calls(&dumps->flight->ranks[source->rank]);
    dump_close_coalesced(dumps, source->rank);
    return true;
}

/* A dump has calls; where they were left out (includeCollectives=False) it says how far each group is. */
static bool
read_rank(struct dumps *dumps, const char *path, json_t *dump, int given)
{
    json_t *entries = json_object_get(dump, "entries");
    if (!json_is_array(entries) && (entries != NULL || json_object_get(dump, "pg_status") == NULL))
        return dump_wrong(dumps, "is no dump of the Flight Recorder: it has no list 'entries'");
    struct dump_source *source = new_source(dumps, path, dump, rank_of(path, dump, given));
    if (source == NULL)
        return false;
    flight_size(dumps->flight, source->rank + 1);
    if (dumps->flight->broken)
        return dump_wrong(dumps, "there is no memory for it");
    source->tracked = json_object_get(dump, "now") != NULL || is_tracked(entries);
    bool good = take_configs(dumps, source->rank, json_object_get(dump, "pg_config"));
    good      = good && read_calls(dumps, source, entries);
    forget_configs(dumps);
    if (json_array_size(entries) == 0)
        take_status(source, dump);
    take_why(dumps->flight, dump);
    if (good)
        take_present(dumps, source->rank, dump);
    return good;
}

/* ---- a file ---- */

static bool
is_dump(const json_t *value)
{
    return json_is_array(json_object_get(value, "entries"));
}

/* { "0": dump, "1": dump }, "rank_0" ... too. */
static bool
holds_ranks(json_t *value)
{
    const char *key;
    json_t     *dump;
    bool        all = json_object_size(value) > 0;
    json_object_foreach(value, key, dump)
        all = all && is_dump(dump) && last_number(key, strlen(key)) >= 0;
    return all;
}

static bool
read_object(struct dumps *dumps, const char *path, json_t *value, int given)
{
    const char *key;
    json_t     *dump;
    bool        good = true;
    if (!holds_ranks(value))
        return read_rank(dumps, path, value, given);
    if (given >= 0)
        return dump_wrong(dumps, "holds dumps of several ranks: --rank cannot say whose it is");
    json_object_foreach(value, key, dump)
        good = good && read_rank(dumps, path, dump, last_number(key, strlen(key)));
    return good;
}

/* Several ranks' dumps; or, as the oldest versions have it, the calls alone. */
static bool
read_list(struct dumps *dumps, const char *path, json_t *value, int given)
{
    bool good = true;
    if (!is_dump(json_array_get(value, 0))) {
        json_t *dump = json_object();
        good = dump != NULL && json_object_set(dump, "entries", value) == 0 && read_rank(dumps, path, dump, given);
        json_decref(dump);
        return good || dump_wrong(dumps, "there is no memory for it");
    }
    if (given >= 0 && json_array_size(value) > 1)
        return dump_wrong(dumps, "holds dumps of several ranks: --rank cannot say whose it is");
    for (size_t i = 0; good && i < json_array_size(value); i++) {
        json_t *dump = json_array_get(value, i);
        good = read_rank(dumps, path, dump, given >= 0 || dump_number(dump, "rank", -1) >= 0 ? given : (int)i);
    }
    return good;
}

bool
dump_read(struct dumps *dumps, const char *path, const void *bytes, size_t size, int rank)
{
    dumps->why[0] = '\0';
    json_t *value = parse(dumps, bytes, size);
    if (value == NULL)
        return false;
    bool good = json_is_object(value)  ? read_object(dumps, path, value, rank)
                : json_is_array(value) ? read_list(dumps, path, value, rank)
                                       : dump_wrong(dumps, "is no dump of the Flight Recorder: it is one value");
    json_decref(value);
    return good;
}

void
dumps_free(struct dumps *dumps)
{
    forget_configs(dumps);
    for (size_t i = 0; i < dumps->source_count; i++) {
        free(dumps->sources[i].path);
        free(dumps->sources[i].version);
    }
    for (int i = 0; dumps->members != NULL && i < dumps->flight->group_count; i++)
        free(dumps->members[i].ranks);
    free(dumps->sources);
    free(dumps->members);
    free(dumps->configs);
    str_free(&dumps->notes);
    *dumps = (struct dumps){ 0 };
}
