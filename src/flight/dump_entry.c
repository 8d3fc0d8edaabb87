/* One call of a dump: its name taken apart, its lists in words, the first frame that is the user's.
 *
 * Interface: dump_entry, dump_close_coalesced. */
#include "flight/dump_parts.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/vec.h"

enum { NAME = 256 };

/* ---- the group ---- */

/* Whether what this dump says of a group named so can be what was said of it before. */
static bool
same_members(const struct dump_members *known, const struct dump_members *said)
{
    return known->size == 0 || said == NULL ||
           (known->size == said->size && memcmp(known->ranks, said->ranks, (size_t)said->size * sizeof(int)) == 0);
}

static bool
have_member(const struct dump_members *members, int rank)
{
    for (int i = 0; i < members->size; i++)
        if (members->ranks[i] == rank)
            return true;
    return false;
}

static bool
overlap(const struct dump_members *a, const struct dump_members *b)
{
    for (int i = 0; i < b->size; i++)
        if (have_member(a, b->ranks[i]))
            return true;
    return false;
}

static int
no_memory(struct dumps *dumps)
{
    dump_wrong(dumps, "there is no memory for it");
    return -1;
}

/* Answers the group. */
static int
keep_members(struct dumps *dumps, int group, const struct dump_members *said)
{
    struct dump_members *members = &dumps->members[group];
    if (said == NULL || members->size > 0)
        return group;
    int *ranks = malloc(((size_t)said->size + 1) * sizeof *ranks);
    if (ranks == NULL)
        return no_memory(dumps);
    memcpy(ranks, said->ranks, (size_t)said->size * sizeof *ranks);
    *members = (struct dump_members){ .ranks = ranks, .size = said->size, .of_rank = said->of_rank };
    return group;
}

static int
new_group(struct dumps *dumps, const char *name, const char *description, const struct dump_members *said)
{
    size_t count = (size_t)dumps->flight->group_count;
    if (count >= DUMP_RANKS) {
        dump_wrong(dumps, "has more than %d groups", DUMP_RANKS);
        return -1;
    }
    if (!vec_room(&dumps->members, &dumps->member_room, count + 1, sizeof *dumps->members))
        return no_memory(dumps);
    dumps->members[count] = (struct dump_members){ 0 }; /* first: a group that is made by half counts, too */
    int group = flight_group(dumps->flight, name, description, NULL, 0);
    if (group < 0)
        return no_memory(dumps);
    return keep_members(dumps, group, said);
}

/* The group's place. Groups that split_group made have one name and other members: so a name alone is not enough. */
static int
find_group(struct dumps *dumps, int rank, const char *name, const char *description)
{
    const struct dump_members *said = NULL;
    for (size_t i = 0; i < dumps->config_count; i++)
        if (strcmp(dumps->configs[i].name, name) == 0)
            said = &dumps->configs[i].members;
    for (int i = 0; i < dumps->flight->group_count; i++) {
        const struct dump_members *known = &dumps->members[i];
        if (strcmp(dumps->flight->groups[i].name, name) != 0)
            continue;
        if (same_members(known, said) && (said != NULL || known->size == 0 || have_member(known, rank)))
            return keep_members(dumps, i, said);
        if (said != NULL && overlap(known, said)) {
            dump_wrong(dumps, "is of another job than the dump of rank %d: group %s has %d ranks here, %d there",
                       known->of_rank, name, said->size, known->size);
            return -1;
        }
    }
    return new_group(dumps, name, description, said);
}

/* Once for each name of a dump. */
static int
known_group(struct dumps *dumps, int rank, const char *name, const char *description)
{
    uint64_t known;
    if (map_get_text(&dumps->by_name, name, &known))
        return (int)known;
    int group = find_group(dumps, rank, name, description);
    if (group >= 0 && !map_set_text(&dumps->by_name, name, (uint64_t)group))
        return no_memory(dumps);
    return group;
}

/* [name, description], one of them alone, or only a number, as the versions have it. */
static int
group_of(struct dumps *dumps, int rank, const json_t *entry)
{
    const json_t *pair        = json_object_get(entry, "process_group");
    const char   *name        = json_string_value(json_is_array(pair) ? json_array_get(pair, 0) : pair);
    const char   *description = json_string_value(json_is_array(pair) ? json_array_get(pair, 1) : NULL);
    char          number[24];
    if (name == NULL)
        name = dump_text(entry, "pg_name");
    if (description == NULL)
        description = dump_text(entry, "pg_desc");
    if (name == NULL) {
        snprintf(number, sizeof number, "%lld", (long long)dump_number(entry, "pg_id", 0));
        name = number;
    }
    if (description != NULL && (strcmp(description, "undefined") == 0 || *description == '\0'))
        description = NULL;
    return known_group(dumps, rank, name, description);
}

/* ---- the call ---- */

/* "nccl:send 1->2", "gloo:recv 3<-?", "nccl:all_reduce": a back-end's name may have a colon, no operation's has. */
static void
take_name(const char *name, char backend[NAME], char operation[NAME], struct flight_entry *entry)
{
    const char *colon = strrchr(name, ':'), *call = colon != NULL ? colon + 1 : name;
    int         from = -1, to = -1;
    snprintf(backend, NAME, "%.*s", colon != NULL ? (int)(colon - name < NAME ? colon - name : NAME - 1) : 0, name);
    snprintf(operation, NAME, "%.*s", (int)(strcspn(call, " ") < NAME ? strcspn(call, " ") : NAME - 1), call);
    const char *ranks = strchr(call, ' ');
    entry->operation  = operation;
    entry->backend    = backend[0] != '\0' ? backend : NULL;
    entry->peer       = -1;
    if (ranks != NULL && strlen(ranks) < 32 &&
        (sscanf(ranks, " %6d->%6d", &from, &to) == 2 || sscanf(ranks, " %6d<-%6d", &from, &to) == 2))
        entry->peer = to;
}

/* Frames begin with the innermost: PyTorch's own are passed over, C++'s too. */
static bool
is_of_user(const char *file)
{
    static const char *const others[] = { "-packages/torch/", "/torch/distributed/", "/torch/nn/", "/torch/_",
                                          "/torch/autograd/", "<frozen", "threading.py", ".cpp", ".so", "??" };
    for (size_t i = 0; i < countof(others); i++)
        if (strstr(file, others[i]) != NULL)
            return false;
    return true;
}

static void
take_place(const json_t *entry, struct flight_entry *call)
{
    const json_t *frames = json_object_get(entry, "frames");
    for (size_t i = 0; i < json_array_size(frames); i++) {
        const json_t *frame = json_array_get(frames, i);
        const char   *file  = dump_text(frame, "filename");
        if (file == NULL || !is_of_user(file))
            continue;
        int64_t     line     = dump_number(frame, "line", 0);
        const char *function = dump_text(frame, "name");
        call->file     = *file != '\0' ? file : NULL;
        call->function = function != NULL && *function != '\0' ? function : NULL;
        call->line     = line > 0 && line < UINT32_MAX ? (uint32_t)line : 0;
        return;
    }
}

static int64_t
nanoseconds(const json_t *entry, const char *key, const char *older)
{
    int64_t ns = dump_number(entry, key, 0), us = older != NULL ? dump_number(entry, older, 0) : 0;
    if (ns > 0)
        return ns;
    return us > 0 && us < INT64_MAX / 1000 ? us * 1000 : 0;
}

/* What gloo's recorder says of a call that failed is what it says of one that is over: dump_settle looks again. */
static enum flight_state
state_of(const json_t *entry, const struct dump_source *source)
{
    const char *state = dump_text(entry, "state");
    if (state != NULL && strcmp(state, "completed") == 0)
        return FLIGHT_COMPLETED;
    if (!source->tracked && dump_true(entry, "retired"))
        return FLIGHT_COMPLETED;
    return state != NULL && strcmp(state, "started") == 0 ? FLIGHT_STARTED : FLIGHT_SCHEDULED;
}

static void
take_numbers(const json_t *entry, const struct dump_source *source, struct flight_entry *call)
{
    bool pair = strcmp(call->operation, "send") == 0 || strcmp(call->operation, "recv") == 0;
    call->is_p2p   = json_object_get(entry, "is_p2p") != NULL ? dump_true(entry, "is_p2p") : pair;
    call->record   = dump_number(entry, "record_id", dump_number(entry, "id", -1));
    call->sequence = dump_number(entry, "seq_id", -1); /* before 2.4 */
    call->sequence = dump_number(entry, call->is_p2p ? "p2p_seq_id" : "collective_seq_id", call->sequence);
    call->op       = dump_number(entry, "op_id", -1);
    call->retired  = dump_true(entry, "retired");
    call->state    = state_of(entry, source);
    call->root     = -1;
    call->tag      = -1;
    call->created_ns   = nanoseconds(entry, "time_created_ns", "time_created_us");
    call->started_ns   = nanoseconds(entry, "time_discovered_started_ns", NULL);
    call->completed_ns = nanoseconds(entry, "time_discovered_completed_ns", NULL);
    call->timeout_ms   = dump_number(entry, "timeout_ms", 0);
}

/* What Ringside writes of its own runs besides. */
static void
take_more(const json_t *entry, struct flight_entry *call)
{
    int64_t root = dump_number(entry, "root", -1), tag = dump_number(entry, "tag", -1);
    call->root      = root >= 0 && root < DUMP_RANKS ? (int)root : -1;
    call->tag       = tag >= 0 ? tag : -1;
    call->reduce_op = dump_text(entry, "reduce_op");
    call->details   = dump_text(entry, "details");
}

static void
take_time(struct dump_source *source, const struct flight_entry *call)
{
    if (call->created_ns > 0 && (source->first_ns == 0 || call->created_ns < source->first_ns))
        source->first_ns = call->created_ns;
    if (call->created_ns > source->last_ns)
        source->last_ns = call->created_ns;
    if (call->timeout_ms > source->patience_ms)
        source->patience_ms = call->timeout_ms;
}

static const char *
words(struct str *text)
{
    return text->len > 0 ? str_text(text) : NULL;
}

static bool
enter(struct dumps *dumps, struct dump_source *source, const json_t *entry, struct flight_entry *call)
{
    struct str texts[4] = { 0 };
    static const char *const keys[] = { "input_sizes", "output_sizes", "input_dtypes", "output_dtypes" };
    for (size_t i = 0; i < countof(keys); i++)
        dump_list(json_object_get(entry, keys[i]), &texts[i]);
    call->input_sizes   = words(&texts[0]);
    call->output_sizes  = words(&texts[1]);
    call->input_dtypes  = words(&texts[2]);
    call->output_dtypes = words(&texts[3]);
    bool good = flight_enter(dumps->flight, source->rank, call) != NULL && !dumps->flight->broken;
    for (size_t i = 0; i < countof(texts); i++) {
        good = good && str_ok(&texts[i]);
        str_free(&texts[i]);
    }
    take_time(source, call);
    return good || dump_wrong(dumps, "there is no memory for it");
}

bool
dump_entry(struct dumps *dumps, struct dump_source *source, const json_t *entry)
{
    char                backend[NAME], operation[NAME];
    struct flight_entry call = { 0 };
    const char         *name = dump_text(entry, "profiling_name");
    if (name == NULL)
        return dump_wrong(dumps, "is no dump of the Flight Recorder: a call in it has no profiling_name");
    if (dumps->entry_count++ >= DUMP_ENTRIES)
        return dump_wrong(dumps, "has too many calls; %d can be read", DUMP_ENTRIES);
    take_name(name, backend, operation, &call);
    take_numbers(entry, source, &call);
    take_more(entry, &call);
    take_place(entry, &call);
    call.group = group_of(dumps, source->rank, entry);
    return call.group >= 0 && enter(dumps, source, entry, &call);
}

/* ---- coalesced calls ---- */

static bool
is_end(const struct flight_entry *entry)
{
    size_t length = strlen(entry->operation);
    return length >= 9 && strcmp(entry->operation + length - 9, "coalesced") == 0;
}

static bool
is_part(const struct flight_entry *entry, const struct flight_entry *end)
{
    return entry->group == end->group && entry->sequence == end->sequence && entry->is_p2p == end->is_p2p &&
           !is_end(entry);
}

/* Parts are recorded before anything is enqueued, so only the end learns what becomes of them. */
static void
take_state(struct flight_entry *part, const struct flight_entry *end)
{
    part->state        = end->state;
    part->retired      = end->retired;
    part->started_ns   = end->started_ns;
    part->completed_ns = end->completed_ns;
}

/* Of sends and receives the end says nothing more: it is taken out. */
void
dump_close_coalesced(struct dumps *dumps, int rank)
{
    struct flight_rank *of   = rank < dumps->flight->rank_count ? &dumps->flight->ranks[rank] : NULL;
    size_t              kept = 0;
    for (size_t i = 0; of != NULL && i < of->count; i++) {
        struct flight_entry end   = of->entries[i];
        size_t              parts = 0;
        while (is_end(&end) && parts < kept && is_part(&of->entries[kept - parts - 1], &end))
            take_state(&of->entries[kept - ++parts], &end);
        if (parts == 0 || !end.is_p2p)
            of->entries[kept++] = end;
    }
    if (of != NULL)
        of->count = kept;
}
