/* The report of a hang: what happened and why, in two lines; where the calls were last equal; who waits for whom; and
 * for each rank how far it came and what it does now. Ranks of whom the same is to be said share a row. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "flight/internal.h"

enum { MOST_EDGES = 8 };

/* ---- two lines ---- */

/* A message from elsewhere may be of any length: it is cut, our own words go on in the next line. Answers which way. */
static int
put_saying(const char *before, struct saying *saying, int width, bool cut, struct str *out)
{
    struct str line = { 0 };
    int        way  = 0;
    for (int i = 0; i < WAYS && (i == 0 || saying->way[i].len > 0); i++) {
        str_clear(&line);
        str_addf(&line, "%s%s", before, str_text(&saying->way[way = i]));
        if (line.len <= (size_t)width)
            break;
    }
    if (cut)
        put_cut(str_text(&line), width, out);
    else
        put_wrapped(str_text(&line), width, REPORT_INDENT, out);
    for (int i = 0; i < WAYS; i++)
        str_free(&saying->way[i]);
    str_free(&line);
    return way;
}

static bool
is_cut(enum hang_cause cause)
{
    return cause == HANG_THREW || cause == HANG_KILLED || cause == HANG_UNSET_KEY;
}

static void
put_head(struct teller *teller, int width, struct str *out)
{
    struct saying fact = { 0 }, cause = { 0 };
    char          name[64];
    say_fact(teller, &fact);
    int before = teller->flight->before > REPORT_INDENT ? teller->flight->before : REPORT_INDENT;
    int way    = put_saying("", &fact, width + REPORT_INDENT - before, false, out);
    teller->bare = fact.bare > 0 && way >= fact.bare;
    snprintf(name, sizeof name, "cause: %s: ", teller->hang->unsure ? "skipped call or other order"
                                                                    : hang_cause_name(teller->hang->cause));
    say_cause(teller, &cause);
    put_saying(name, &cause, width, is_cut(teller->hang->cause), out);
}

void
hang_print_head(const struct flight *flight, const struct hang *hang, int columns, struct str *out)
{
    struct teller teller;
    if (teller_open(&teller, flight, hang))
        put_head(&teller, columns - REPORT_INDENT, out);
    else
        str_add(out, "no memory for the report\n");
    teller_close(&teller);
}

/* ---- the first difference ---- */

/* The last number before the difference that every member has a call of, and the call. */
static const struct flight_entry *
last_equal_call(struct teller *teller)
{
    const struct hang         *hang    = teller->hang;
    const struct flight_group *group   = group_in(teller->flight, hang->group);
    const int64_t             *reached = group != NULL ? survey_reached(&teller->survey, hang->group) : NULL;
    if (reached == NULL || hang->of_victim == NULL || is_p2p_call(hang->of_victim))
        return NULL;
    int64_t last = INT64_MAX;
    for (int place = 0; place < group->size; place++)
        if (rank_in(teller->flight, group->ranks[place])->now != FLIGHT_ABSENT && reached[place] < last)
            last = reached[place];
    const struct flight_rank  *rank  = rank_in(teller->flight, hang->victim);
    const struct flight_entry *found = NULL;
    for (size_t i = 0; i < rank->count; i++) {
        const struct flight_entry *entry = &rank->entries[i];
        if (!is_p2p_call(entry) && entry->group == hang->group && entry->sequence <= last &&
            entry->sequence < hang->sequence && (found == NULL || entry->sequence >= found->sequence))
            found = entry;
    }
    return found;
}

static void
put_difference(struct teller *teller, int width, struct str *out)
{
    const struct hang         *hang = teller->hang;
    const struct flight_entry *last = last_equal_call(teller);
    struct str                 line = { 0 };
    bool differs = hang->cause >= HANG_SKIPPED && hang->cause <= HANG_DETAILS && hang->sequence >= 0;
    if (differs) {
        str_addf(&line, "first difference: call #%" PRId64, hang->sequence);
        say_of_group(teller->flight, hang->group, &line);
    } else if (hang->of_victim != NULL && !is_p2p_call(hang->of_victim))
        str_add(&line, "no two calls differ");
    if (line.len > 0 && last != NULL) {
        str_add(&line, "; the last that all made alike: ");
        say_call_at(teller->flight, last, &line);
    } else if (differs)
        str_add(&line, "; no earlier one is known");
    if (line.len > 0)
        put_wrapped(str_text(&line), width, REPORT_INDENT, out);
    str_free(&line);
}

/* ---- who waits for whom ---- */

static bool
all_in_circle(const struct hang *hang, const int *ranks, int count)
{
    for (int i = 0; i < count; i++) {
        bool found = false;
        for (int j = 0; j < hang->circle_count && !found; j++)
            found = hang->circle[j] == ranks[i];
        if (!found)
            return false;
    }
    return true;
}

/* Each wait once: who is in it, for whom. */
static void
put_graph(struct teller *teller, int width, struct str *out)
{
    const struct graph *graph = &teller->graph;
    struct str          line  = { 0 };
    int                 told  = 0, left = 0;
    if (teller->hang->circle_length > 0) {
        say_circle(teller->hang, &line);
        told = 1;
    }
    bool *seen = calloc((size_t)graph->wait_count + 1, sizeof *seen);
    for (int rank = 0; seen != NULL && rank < graph->rank_count; rank++) {
        int wait = graph->wait[rank], count = 0;
        if (wait < 0 || seen[wait] || graph->first[wait] == graph->first[wait + 1])
            continue;
        seen[wait] = true;
        for (int other = rank; other < graph->rank_count; other++)
            if (graph->wait[other] == wait)
                teller->ranks[count++] = other;
        if (all_in_circle(teller->hang, teller->ranks, count))
            continue;
        if (told >= MOST_EDGES) {
            left++;
            continue;
        }
        str_add(&line, told++ > 0 ? "; " : "");
        say_rank_list(teller->ranks, count, &line);
        str_add(&line, " -> ");
        say_rank_list(graph->targets + graph->first[wait], (int)(graph->first[wait + 1] - graph->first[wait]), &line);
    }
    if (line.len > 0) {
        struct str whole = { 0 };
        str_addf(&whole, "who waits for whom: %s", str_text(&line));
        if (left > 0)
            str_addf(&whole, "; and %d more", left);
        put_wrapped(str_text(&whole), width, REPORT_INDENT, out);
        str_free(&whole);
    }
    free(seen);
    str_free(&line);
}

void
hang_print(const struct flight *flight, const struct hang *hang, int columns, struct str *out)
{
    struct teller teller;
    int           width = columns - REPORT_INDENT;
    if (teller_open(&teller, flight, hang)) {
        struct str calls = { 0 };
        put_difference(&teller, width, &calls);
        put_graph(&teller, width, &calls);
        put_head(&teller, width, out);
        if (calls.len > 0)
            str_addf(out, "\n%s", str_text(&calls));
        str_free(&calls);
        put_rows(&teller, width, out);
    } else
        str_add(out, "no memory for the report\n");
    teller_close(&teller);
}
