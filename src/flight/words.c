/* The words of the report: ranks folded, calls, places, groups, and lines that fit. One word for each thing everywhere;
 * the same ones in a lesson's error and over a dump of a real job. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "flight/internal.h"
#include "base/str.h"

/* ---- ranks ---- */

enum { MOST_SPANS = 4, MOST_LINES = 4 };

/* From `at` on, how many follow each other. */
static int
span(const int *ranks, int count, int at)
{
    int length = 1;
    while (at + length < count && ranks[at + length] == ranks[at] + length)
        length++;
    return length;
}

static int
by_number(const void *left, const void *right)
{
    int a = *(const int *)left, b = *(const int *)right;
    return a < b ? -1 : a > b;
}

void
sort_ranks(int *ranks, int count)
{
    qsort(ranks, (size_t)count, sizeof *ranks, by_number);
}

void
say_rank_list(const int *ranks, int count, struct str *out)
{
    int at = 0;
    for (int spans = 0; at < count && spans < MOST_SPANS; spans++) {
        int length = span(ranks, count, at);
        str_addf(out, "%s%d", at > 0 ? ", " : "", ranks[at]);
        if (length > 1)
            str_addf(out, "%s%d", length > 2 ? "-" : ", ", ranks[at + length - 1]);
        at += length;
    }
    if (at < count)
        str_addf(out, " and %d more", count - at);
}

void
say_ranks(const int *ranks, int count, struct str *out)
{
    str_add(out, count == 1 ? "rank " : "ranks ");
    if (count == 2)
        str_addf(out, "%d and %d", ranks[0], ranks[1]);
    else
        say_rank_list(ranks, count, out);
}

void
say_circle(const struct hang *hang, struct str *out)
{
    bool all = hang->circle_length <= 8;
    int  few = all ? hang->circle_count : 3;
    for (int i = 0; i < few; i++)
        str_addf(out, "%d -> ", hang->circle[i]);
    if (!all)
        str_addf(out, "%d more -> ", hang->circle_length - few);
    str_addf(out, "%d", hang->circle[0]);
}

/* ---- places, groups ---- */

void
say_place(const char *file, uint32_t line, struct str *out)
{
    const char *last = file != NULL ? strrchr(file, '/') : NULL;
    if (file != NULL && file[0] != '\0' && line > 0)
        str_addf(out, " (%s:%" PRIu32 ")", last != NULL ? last + 1 : file, line);
    else if (file != NULL && file[0] != '\0')
        str_addf(out, " (%s)", last != NULL ? last + 1 : file);
    else if (line > 0)
        str_addf(out, " (line %" PRIu32 ")", line);
}

bool
default_group(const struct flight *flight, int group)
{
    const struct flight_group *own = group_in(flight, group);
    return own == NULL || texts_equal(own->description, "default_pg") || texts_equal(own->name, "default_pg") ||
           (group == 0 && (own->description == NULL || own->description[0] == '\0'));
}

void
say_group(const struct flight *flight, int group, struct str *out)
{
    const struct flight_group *own = group_in(flight, group);
    if (default_group(flight, group))
        str_add(out, "the default group");
    else if (own->description != NULL && own->description[0] != '\0' && strcmp(own->description, "undefined") != 0)
        str_addf(out, "group %s", own->description);
    else if (own->name != NULL && own->name[0] != '\0')
        str_addf(out, "group %s", own->name);
    else
        str_addf(out, "group %d", group);
}

void
say_of_group(const struct flight *flight, int group, struct str *out)
{
    if (default_group(flight, group))
        return;
    str_add(out, " of ");
    say_group(flight, group, out);
}

/* ---- sizes ---- */

/* A list of one thing as the thing alone, without quotes. */
static void
say_alone(const char *list, struct str *out)
{
    size_t size = list != NULL ? strlen(list) : 0, commas = 0, depth = 0;
    for (size_t i = 0; i < size; i++) {
        depth  += list[i] == '[';
        depth  -= list[i] == ']' && depth > 0;
        commas += list[i] == ',' && depth <= 1;
    }
    bool alone = size > 2 && list[0] == '[' && list[size - 1] == ']' && commas == 0;
    for (size_t i = alone; i < size - alone; i++)
        if (list[i] != '\'' && list[i] != '"')
            str_add_bytes(out, &list[i], 1);
}

void
say_sizes(const char *sizes, struct str *out)
{
    say_alone(sizes, out);
}

void
say_dtypes(const char *dtypes, struct str *out)
{
    say_alone(dtypes, out);
}

void
say_seconds(uint64_t ps, struct str *out)
{
    if (ps >= 1000000000000ull / 10)
        str_addf(out, "%.1f s", (double)ps / 1e12);
    else if (ps >= 1000000000ull)
        str_addf(out, "%.1f ms", (double)ps / 1e9);
    else
        str_addf(out, "%.1f us", (double)ps / 1e6);
}

/* ---- calls ---- */

bool
is_p2p_call(const struct flight_entry *entry)
{
    return entry_is_send(entry) || entry_is_recv(entry);
}

static void
say_peer(const char *operation, int peer, int64_t tag, struct str *out)
{
    bool sends = strstr(operation, "send") != NULL;
    if (peer >= 0)
        str_addf(out, " %s rank %d", sends ? "to" : "from", peer);
    else if (!sends)
        str_add(out, " from any rank");
    if (tag > 0)
        str_addf(out, ", tag %" PRId64, tag);
}

void
say_call(const struct flight *flight, const struct flight_entry *entry, struct str *out)
{
    str_add(out, entry->operation != NULL ? entry->operation : "a call");
    if (is_p2p_call(entry))
        say_peer(entry->operation, entry->peer, entry->tag, out);
    else if (entry->sequence >= 0)
        str_addf(out, " #%" PRId64, entry->sequence);
    say_of_group(flight, entry->group, out);
}

void
say_call_at(const struct flight *flight, const struct flight_entry *entry, struct str *out)
{
    say_call(flight, entry, out);
    say_place(entry->file, entry->line, out);
}

uint32_t
waiting_line(const struct flight *flight, int rank, const struct waiting *waiting, const char **file)
{
    const struct flight_rank *own = rank_in(flight, rank);
    *file = waiting->entry != NULL ? waiting->entry->file : NULL;
    if (own->now == FLIGHT_WAITING && own->line > 0 && *file == NULL)
        return own->line;
    return waiting->entry != NULL ? waiting->entry->line : own->line;
}

/* "all_reduce #7 of group 1 (line 9)", "recv from rank 0, tag 6 (line 11)" */
void
say_waiting(const struct flight *flight, int rank, const struct waiting *waiting, int without, struct str *out)
{
    const char *file, *what = waiting->what != NULL ? waiting->what : "something";
    uint32_t    line = waiting_line(flight, rank, waiting, &file);
    str_add(out, what);
    if (waiting->kind == WAIT_SEND || waiting->kind == WAIT_RECV)
        say_peer(what, waiting->peer, (without & WITHOUT_TAG) != 0 ? -1 : waiting->tag, out);
    else if (waiting->sequence >= 0)
        str_addf(out, " #%" PRId64, waiting->sequence);
    if (waiting->group >= 0)
        say_of_group(flight, waiting->group, out);
    if ((without & WITHOUT_PLACE) == 0)
        say_place(file, line, out);
    if ((without & WITH_DETAIL) != 0 && waiting->kind == WAIT_OTHER && rank_in(flight, rank)->detail != NULL)
        str_addf(out, ", %.60s", rank_in(flight, rank)->detail);
}

void
fork_saying(struct saying *saying)
{
    str_add(&saying->way[1], str_text(&saying->way[0]));
}

/* ---- lines ---- */

static char
shown(char byte)
{
    return byte >= ' ' && byte <= '~' ? byte : byte == '\t' || byte == '\n' || byte == '\r' ? ' ' : '?';
}

static void
put_bytes(const char *text, size_t size, struct str *out)
{
    for (size_t i = 0; i < size; i++) {
        char byte = shown(text[i]);
        str_add_bytes(out, &byte, 1);
    }
}

void
put_cut(const char *line, int width, struct str *out)
{
    size_t size = strlen(line), room = width > 3 ? (size_t)width : 3;
    put_bytes(line, size <= room ? size : room - 3, out);
    str_add(out, size <= room ? "\n" : "...\n");
}

/* The last blank up to `room` that stands in no brackets and before no number; else any blank; 0: there is none. */
size_t
last_gap(const char *line, size_t room)
{
    size_t gap = 0, depth = 0;
    for (size_t i = 0; i <= room; i++) {
        depth += line[i] == '(' || line[i] == '[';
        depth -= (line[i] == ')' || line[i] == ']') && depth > 0;
        bool number = line[i] == ' ' && line[i + 1] >= '0' && line[i + 1] <= '9';
        if (line[i] == ' ' && depth == 0 && !number)
            gap = i;
    }
    for (size_t i = room; gap == 0 && i > 0; i--)
        gap = line[i] == ' ' ? i : 0;
    return gap;
}

void
put_wrapped(const char *line, int width, int indent, struct str *out)
{
    size_t room = width > 20 ? (size_t)width : 20, begin = 0;
    for (int lines = 1; strlen(line) > room - begin && lines < MOST_LINES; lines++) {
        size_t end   = last_gap(line, room - begin);
        bool   blank = end > 0;
        end = blank ? end : room - begin;
        put_bytes(line, end, out);
        str_addf(out, "\n%*s", indent, "");
        line += end + blank;
        begin = (size_t)indent;
    }
    put_cut(line, (int)(room - begin), out);
}
