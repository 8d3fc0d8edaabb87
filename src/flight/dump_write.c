/* A flight as PyTorch's recorder dumps it (_dump_fr_trace_json): the same fields, so that its analysers read it, and
 * those that only Ringside knows, which they skip.
 *
 * Interface: flight_write_json. */
#include "flight/dump.h"

#include <inttypes.h>
#include <string.h>
#include "base/visible.h"
#include "flight/dump_parts.h"

#define DUMP_VERSION "2.10"

/* `before` is what stands in front of the value: a comma, a key. */
static void
add_text(struct str *out, const char *before, const char *text)
{
    str_addf(out, "%s\"", before);
    if (text != NULL)
        visible_add(out, text, strlen(text), VISIBLE_JSON);
    str_add(out, "\"");
}

static void
add_known_text(struct str *out, const char *before, const char *text)
{
    if (text != NULL)
        add_text(out, before, text);
}

static void
add_number(struct str *out, const char *before, int64_t number)
{
    str_addf(out, "%s%" PRId64, before, number);
}

static void
add_known_number(struct str *out, const char *before, int64_t number)
{
    if (number >= 0)
        add_number(out, before, number);
}

enum { SIZE_DIGITS = 18, SIZES_DEEP = 2 }; /* of a size, so that it fits 64 bits; lists in a list of shapes */

/* Behind a number as JSON has them; NULL: there is none. */
static const char *
number_end(const char *at)
{
    at += *at == '-';
    size_t digits = strspn(at, "0123456789");
    return digits == 0 || digits > SIZE_DIGITS || (digits > 1 && *at == '0') ? NULL : at + digits;
}

/* Behind a list of numbers and of lists, so many lists deep; NULL: there is none. */
static const char *
list_end(const char *at, int depth)
{
    if (*at++ != '[')
        return NULL;
    at += strspn(at, " ");
    if (*at == ']')
        return at + 1;
    do {
        at += strspn(at, " ");
        at = *at == '[' && depth > 1 ? list_end(at, depth - 1) : number_end(at);
        if (at == NULL)
            return NULL;
        at += strspn(at, " ");
    } while (*at++ == ',');
    return at[-1] == ']' ? at : NULL;
}

/* "[[3, 4]]" is JSON as it stands; what another's recorder cut short is not. */
static void
add_sizes(struct str *out, const char *before, const char *sizes)
{
    const char *end = sizes != NULL ? list_end(sizes, SIZES_DEEP) : NULL;
    str_addf(out, "%s%s", before, end != NULL && *end == '\0' ? sizes : "[]");
}

/* "[Float, Long]" wants quotes. */
static void
add_dtypes(struct str *out, const char *before, const char *dtypes)
{
    str_addf(out, "%s[", before);
    for (const char *at = dtypes != NULL ? dtypes + strspn(dtypes, "[") : ""; *at != '\0' && *at != ']';) {
        size_t length = strcspn(at, ",]");
        str_add(out, "\"");
        visible_add(out, at, length, VISIBLE_JSON);
        at += length;
        at += strspn(at, ", ");
        str_add(out, *at != '\0' && *at != ']' ? "\", " : "\"");
    }
    str_add(out, "]");
}

/* "nccl:send 1->2": ranks of the group. */
static void
add_name(struct str *out, const struct flight *flight, int rank, const struct flight_entry *entry)
{
    struct str                 name  = { 0 };
    const struct flight_group *group = entry->group >= 0 ? &flight->groups[entry->group] : NULL;
    bool                       sends = strcmp(entry->operation, "send") == 0;
    str_addf(&name, "%s:%s", entry->backend != NULL ? entry->backend : "local", entry->operation);
    if (group != NULL && (sends || strcmp(entry->operation, "recv") == 0)) {
        int peer = entry->peer >= 0 ? flight_group_rank(group, entry->peer) : -1;
        str_addf(&name, " %d%s", flight_group_rank(group, rank), sends ? "->" : "<-");
        if (peer >= 0)
            str_addf(&name, "%d", peer);
        else
            str_add(&name, "?");
    }
    add_text(out, ", \"profiling_name\": ", str_text(&name));
    out->broken = out->broken || !str_ok(&name);
    str_free(&name);
}

static void
add_place(struct str *out, const struct flight_entry *entry)
{
    if (entry->file == NULL && entry->line == 0)
        return;
    add_text(out, ", \"frames\": [{\"name\": ", entry->function);
    add_text(out, ", \"filename\": ", entry->file);
    str_addf(out, ", \"line\": %u}]", entry->line);
}

static void
add_entry(struct str *out, const struct flight *flight, int rank, const struct flight_entry *entry)
{
    static const char *const  states[] = { "scheduled", "started", "completed" };
    const struct flight_group *group   = entry->group >= 0 ? &flight->groups[entry->group] : NULL;
    add_number(out, "{\"record_id\": ", entry->record);
    add_number(out, ", \"pg_id\": ", entry->group);
    add_text(out, ", \"process_group\": [", group != NULL ? group->name : "");
    add_text(out, ", ", group != NULL && group->description != NULL ? group->description : "undefined");
    add_number(out, "], \"collective_seq_id\": ", entry->is_p2p ? 0 : entry->sequence);
    add_number(out, ", \"p2p_seq_id\": ", entry->is_p2p ? entry->sequence : 0);
    add_known_number(out, ", \"op_id\": ", entry->op);
    add_name(out, flight, rank, entry);
    add_number(out, ", \"time_created_ns\": ", entry->created_ns);
    add_sizes(out, ", \"input_sizes\": ", entry->input_sizes);
    add_dtypes(out, ", \"input_dtypes\": ", entry->input_dtypes);
    add_sizes(out, ", \"output_sizes\": ", entry->output_sizes);
    add_dtypes(out, ", \"output_dtypes\": ", entry->output_dtypes);
    add_text(out, ", \"state\": ", states[entry->state]);
    add_number(out, ", \"time_discovered_started_ns\": ", entry->started_ns);
    add_number(out, ", \"time_discovered_completed_ns\": ", entry->completed_ns);
    str_addf(out, ", \"retired\": %s", entry->retired ? "true" : "false");
    add_number(out, ", \"timeout_ms\": ", entry->timeout_ms);
    str_addf(out, ", \"is_p2p\": %s", entry->is_p2p ? "true" : "false");
    add_known_number(out, ", \"root\": ", entry->root);
    add_known_number(out, ", \"tag\": ", entry->tag);
    add_known_text(out, ", \"reduce_op\": ", entry->reduce_op);
    add_known_text(out, ", \"details\": ", entry->details);
    add_place(out, entry);
    str_add(out, "}");
}

/* The groups that the rank is a member of, as in PyTorch. */
static void
add_groups(struct str *out, const struct flight *flight, int rank)
{
    struct str status = { 0 };
    str_add(out, "\"pg_config\": {");
    for (int i = 0, told = 0; i < flight->group_count; i++) {
        const struct flight_group *group = &flight->groups[i];
        int                        place = flight_group_rank(group, rank);
        if (place < 0)
            continue;
        add_text(out, told > 0 ? ", " : "", group->name);
        add_text(out, ": {\"name\": ", group->name);
        add_text(out, ", \"desc\": ", group->description != NULL ? group->description : "undefined");
        str_add(out, ", \"ranks\": \"[");
        for (int j = 0; j < group->size; j++)
            str_addf(out, "%s%d", j > 0 ? ", " : "", group->ranks[j]);
        str_add(out, "]\"}");
        str_addf(&status, "%s\"%d\": ", told++ > 0 ? ", " : "", i);
        add_number(&status, "{\"last_enqueued_collective\": ", group->progress[place].enqueued);
        add_number(&status, ", \"last_started_collective\": ", group->progress[place].started);
        add_number(&status, ", \"last_completed_collective\": ", group->progress[place].completed);
        str_add(&status, "}");
    }
    str_addf(out, "}, \"pg_status\": {%s}", str_text(&status));
    out->broken = out->broken || !str_ok(&status);
    str_free(&status);
}

static void
add_present(struct str *out, const struct flight *flight, const struct flight_rank *of)
{
    add_text(out, ", \"now\": {\"state\": ", dump_now_words[of->now]);
    add_number(out, ", \"line\": ", of->line);
    add_number(out, ", \"since_ps\": ", (int64_t)of->since_ps);
    add_known_text(out, ", \"waits_in\": ", of->waits_in);
    add_known_text(out, ", \"detail\": ", of->detail);
    add_known_text(out, ", \"group\": ", of->group >= 0 ? flight->groups[of->group].name : NULL);
    add_known_number(out, ", \"sequence\": ", of->sequence);
    add_known_number(out, ", \"peer\": ", of->peer);
    add_known_number(out, ", \"tag\": ", of->tag);
    str_add(out, "}");
}

bool
flight_write_json(const struct flight *flight, int rank, struct str *out)
{
    const struct flight_rank *of = &flight->ranks[rank];
    add_text(out, "{\"version\": ", DUMP_VERSION);
    add_number(out, ", \"rank\": ", rank);
    add_text(out, ", \"why\": ", dump_why_words[flight->why]);
    add_number(out, ", \"after_ps\": ", (int64_t)flight->after_ps);
    if (of->now != FLIGHT_UNKNOWN)
        add_present(out, flight, of);
    str_add(out, ", ");
    add_groups(out, flight, rank);
    str_add(out, ", \"nccl_comm_state\": {}, \"entries\": [");
    for (size_t i = 0; i < of->count; i++) {
        str_add(out, i > 0 ? ",\n " : "\n ");
        add_entry(out, flight, rank, &of->entries[i]);
    }
    str_add(out, "]}\n");
    return str_ok(out);
}
