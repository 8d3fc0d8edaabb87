/* Flights written in a few words, and what holds of every report: for the tests of src/flight. */
#ifndef UNIT_FLIGHT_RIG_H
#define UNIT_FLIGHT_RIG_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"
#include "flight/flight.h"

/* ---- flights in words ----
 *
 * A line for each rank or range of ranks: "0: all_reduce=[3]@7 barrier@8*". A call is a name, then what is known of it:
 *   =SIZES  ~DTYPE  %ROOT  ^REDUCTION  !DETAILS ("_" for blanks)  @LINE  /GROUP
 *   >PEER (send)  <PEER (recv; "<?" any)  #TAG
 * and how far it came: over, unless "+" (enqueued), "-" (taken by the back-end) or "*" (taken, and waited for) follows.
 * A name in capitals is what the rank does now: RETURNED, THREW, KILLED, ABSENT, RUNNING, each with "@LINE" and
 * "SECONDS"; or IN and what it waits in without a call of its own: "IN=lock>1@9". "groups: 0,1 0,2" come first. */

struct words {
    char name[40], sizes[600], dtype[40], details[80], reduction[20], state;
    int  root, line, group, peer, tag;
};

static const char *
read_value(const char *at, char *out, size_t room)
{
    size_t size = strcspn(at, " =~%^!@/><#+*-\n");
    assert_true(size < room);
    memcpy(out, at, size);
    out[size] = '\0';
    return at + size;
}

static const char *
read_words(const char *at, struct words *words)
{
    char number[40];
    *words = (struct words){ .root = -1, .peer = -1, .tag = -1 };
    size_t size = strcspn(at, " =~%^!@/><#+*-\n");
    memcpy(words->name, at, size);
    for (at += size; *at != '\0' && *at != ' ' && *at != '\n';) {
        char mark = *at++;
        if (mark == '=')
            at = read_value(at, words->sizes, sizeof words->sizes);
        else if (mark == '~')
            at = read_value(at, words->dtype, sizeof words->dtype);
        else if (mark == '!') {
            at = read_value(at, words->details, sizeof words->details);
            for (char *blank = words->details; (blank = strchr(blank, '_')) != NULL;)
                *blank = ' ';
        }
        else if (mark == '^')
            at = read_value(at, words->reduction, sizeof words->reduction);
        else if (strchr("+-*", mark) != NULL)
            words->state = mark;
        else {
            at = read_value(at, number, sizeof number);
            *(mark == '%' ? &words->root : mark == '@' ? &words->line : mark == '/' ? &words->group
              : mark == '#' ? &words->tag : &words->peer) = number[0] == '?' ? -1 : atoi(number);
        }
    }
    return at;
}

static void
do_now(struct flight *flight, int rank, const struct words *words, bool live)
{
    static const char *const names[] = { "UNKNOWN", "ABSENT", "RUNNING", "WAITING", "RETURNED", "THREW", "KILLED" };
    struct flight_rank *own = &flight->ranks[rank];
    if (strcmp(words->name, "IN") == 0) {
        own->now      = FLIGHT_WAITING;
        own->waits_in = flight_text(flight, words->sizes);
        own->peer     = words->peer;
        own->line     = (uint32_t)words->line;
        return;
    }
    for (size_t i = 0; i < countof(names); i++)
        if (strcmp(words->name, names[i]) == 0)
            own->now = (enum flight_now)i;
    own->line     = (uint32_t)words->line;
    own->since_ps = words->sizes[0] != '\0' ? (uint64_t)(atof(words->sizes) * 1e12) : 0;
    own->detail   = words->details[0] != '\0' ? flight_text(flight, words->details) : NULL;
    if (!live && own->now != FLIGHT_ABSENT)
        own->now = FLIGHT_UNKNOWN;
}

static const char *
known(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

static void
do_call(struct flight *flight, int rank, const struct words *words, int64_t *numbers, bool live)
{
    struct flight_rank *own = &flight->ranks[rank];
    bool p2p = words->peer >= 0 || strstr(words->name, "recv") != NULL;
    struct flight_entry entry = {
        .record = (int64_t)own->count, .sequence = p2p ? 0 : numbers[words->group]++, .op = -1, .group = words->group,
        .is_p2p = p2p, .operation = words->name, .backend = live ? "local" : "nccl", .input_sizes = known(words->sizes),
        .output_sizes = known(words->sizes), .input_dtypes = known(words->dtype), .reduce_op = known(words->reduction),
        .details = known(words->details), .root = words->root, .peer = words->peer, .tag = words->tag,
        .line = (uint32_t)words->line, .file = live || words->line == 0 ? NULL : "/home/me/train.py",
        .state = words->state == '\0' ? FLIGHT_COMPLETED : words->state == '+' ? FLIGHT_SCHEDULED : FLIGHT_STARTED,
    };
    const struct flight_entry *kept = flight_enter(flight, rank, &entry);
    assert_non_null(kept);
    own = &flight->ranks[rank];
    if (words->state == '*' && live) {
        own->now      = FLIGHT_WAITING;
        own->waits_in = kept->operation;
        own->line     = kept->line;
        own->group    = kept->group;
        own->sequence = p2p ? -1 : kept->sequence;
        own->peer     = kept->peer;
        own->tag      = kept->tag;
    }
}

static const char *
do_groups(struct flight *flight, const char *at)
{
    while (*at == ' ') {
        int ranks[16], count = 0;
        char name[16];
        at++;
        while (*at >= '0' && *at <= '9') {
            ranks[count++] = (int)strtol(at, (char **)&at, 10);
            at += *at == ',';
        }
        snprintf(name, sizeof name, "%d", flight->group_count);
        flight_group(flight, name, NULL, ranks, count);
    }
    return at;
}

static inline void
make_flight(struct flight *flight, int world, const char *text, bool live)
{
    int *all = malloc((size_t)world * sizeof *all);
    *flight = (struct flight){ .why = live ? FLIGHT_DEADLOCK : FLIGHT_DUMPED };
    flight_size(flight, world);
    for (int rank = 0; rank < world; rank++)
        all[rank] = rank;
    flight_group(flight, "0", "default_pg", all, world);
    free(all);
    for (const char *at = text; *at != '\0'; at += *at == '\n') {
        if (strncmp(at, "groups:", 7) == 0) {
            at = do_groups(flight, at + 7);
            continue;
        }
        char *after;
        int   first = (int)strtol(at, &after, 10), last = *after == '-' ? (int)strtol(after + 1, &after, 10) : first;
        const char *calls = after + 1, *end = calls;
        for (int rank = first; rank <= last; rank++) {
            int64_t      numbers[8] = { 0 };
            struct words words;
            for (end = calls; *end == ' ';) {
                end = read_words(end + 1, &words);
                if (words.name[0] >= 'A' && words.name[0] <= 'Z')
                    do_now(flight, rank, &words, live);
                else
                    do_call(flight, rank, &words, numbers, live);
            }
        }
        at = end;
    }
    assert_false(flight->broken);
}

/* An entry of a dump, behind the rank's others. */
static inline void
call(struct flight *flight, int rank, struct flight_entry entry)
{
    entry.record = (int64_t)flight->ranks[rank].count;
    entry.peer   = -1;
    entry.tag    = -1;
    entry.root   = -1;
    assert_non_null(flight_enter(flight, rank, &entry));
}

/* ---- what is told of them ---- */

static inline void
assert_head(const struct flight *flight, const struct hang *hang, const char *want, const char *name)
{
    struct str head = { 0 };
    hang_print_head(flight, hang, 80, &head);
    if (strcmp(str_text(&head), want) != 0)
        print_message("%s\n", name);
    assert_string_equal(str_text(&head), want);
    str_free(&head);
}

/* Whatever is printed is ASCII, in lines that fit behind two blanks, the first two of which are the head. */
static inline void
assert_report(const struct flight *flight, const struct hang *hang, int columns)
{
    struct str report = { 0 }, head = { 0 };
    hang_print(flight, hang, columns, &report);
    hang_print_head(flight, hang, columns, &head);
    assert_memory_equal(str_text(&report), str_text(&head), head.len);
    assert_true(report.len == 0 || report.text[report.len - 1] == '\n');
    int lines = 0;
    for (const char *at = str_text(&report); *at != '\0'; lines++) {
        size_t size = strcspn(at, "\n");
        assert_true(size <= (size_t)columns - 2);
        for (size_t i = 0; i < size; i++)
            assert_true(at[i] >= ' ' && at[i] <= '~');
        at += size + 1;
    }
    assert_true(lines < 120);
    str_free(&report);
    str_free(&head);
}
#endif
