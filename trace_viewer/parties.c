/* Parties of ranks. Interface: parties_take, parties_print and its like, parties_free. */
#include "parties.h"

#include "ranks.h"
#include "base/vec.h"
#include "trace/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORMS = 7, COLUMNS = 5, DIFFERS = 0x00d7 };

/* ---- who stands alike ---- */

static bool
stand_alike(const struct parties *parties, const struct waiter *one, const struct waiter *other)
{
    if (one->rank < 0 || one->stands != other->stands || one->awaits != other->awaits || one->line != other->line ||
        one->number != other->number || one->group != other->group || one->under_way != other->under_way ||
        strcmp(one->name, other->name) != 0)
        return false;
    if (one->stands != STANDS_WAITING) {
        const struct rank_call *a = waits_last_call(&parties->waits, one->rank);
        const struct rank_call *b = waits_last_call(&parties->waits, other->rank);
        if (a == NULL || b == NULL)
            return a == b;
        return a->number == b->number && a->group == b->group && strcmp(a->operation, b->operation) == 0 &&
               (a->done == a->number) == (b->done == b->number);
    }
    return one->under_way || (one->first == other->first && one->count == other->count);
}

static bool
join_party(struct parties *parties, const struct waiter *waiter)
{
    struct party *party = NULL;
    bool differs = waits_differs(&parties->waits, waiter);
    for (size_t i = 0; i < parties->count && party == NULL; i++)
        if (parties->list[i].differs == differs && stand_alike(parties, parties->list[i].first, waiter))
            party = &parties->list[i];
    if (party == NULL) {
        if (!vec_room(&parties->list, &parties->room, parties->count + 1, sizeof *parties->list))
            return false;
        party  = &parties->list[parties->count++];
        *party = (struct party){ .first = waiter, .differs = differs };
    }
    if (!vec_room(&party->ranks, &party->rank_room, party->rank_count + 1, sizeof *party->ranks))
        return false;
    party->ranks[party->rank_count++] = waiter->rank;
    return true;
}

static int
weight(const struct party *party)
{
    const struct waiter *waiter = party->first;
    if (party->differs)
        return 0;
    return waiter->stands != STANDS_WAITING ? 3 : waiter->under_way ? 2 : 1;
}

static int
compare_parties(const void *a, const void *b)
{
    const struct party *one = a, *other = b;
    int order = weight(one) - weight(other);
    return order != 0 ? order : one->ranks[0] < other->ranks[0] ? -1 : one->ranks[0] > other->ranks[0];
}

/* The ranks; in a trace without ranks the tasks that wait. */
bool
parties_take(struct parties *parties, const struct state *state)
{
    *parties = (struct parties){ 0 };
    if (!waits_take(&parties->waits, state))
        return false;
    bool ranked = parties->waits.rank_count > 0;
    for (size_t i = 0; i < parties->waits.count; i++) {
        const struct waiter *waiter = &parties->waits.list[i];
        bool told = ranked ? waiter->speaks && waiter->stands != STANDS_IDLE : waiter->stands == STANDS_WAITING;
        if (told && !join_party(parties, waiter)) {
            parties_free(parties);
            return false;
        }
    }
    if (parties->count > 0)
        qsort(parties->list, parties->count, sizeof *parties->list, compare_parties);
    return true;
}

void
parties_free(struct parties *parties)
{
    for (size_t i = 0; i < parties->count; i++)
        free(parties->list[i].ranks);
    free(parties->list);
    waits_free(&parties->waits);
    *parties = (struct parties){ 0 };
}

size_t
parties_waiting(const struct parties *parties, size_t *ranks)
{
    size_t waiting = 0;
    *ranks = 0;
    for (size_t i = 0; i < parties->count; i++) {
        *ranks  += parties->list[i].rank_count;
        waiting += parties->list[i].first->stands == STANDS_WAITING ? parties->list[i].rank_count : 0;
    }
    return waiting;
}

void
parties_print_gone(const struct parties *parties, struct str *out)
{
    static const char *const what[] = { [STANDS_KILLED] = "killed", [STANDS_RETURNED] = "returned",
                                        [STANDS_RAISED] = "failed" };
    for (size_t i = 0; i < parties->count; i++) {
        const struct party *party = &parties->list[i];
        bool one = party->rank_count == 1;
        if (!party->differs || party->first->stands < STANDS_RETURNED)
            continue;
        str_add(out, out->len > 0 ? ", " : "");
        ranks_print(party->ranks, party->rank_count, out);
        if (party->first->stands == STANDS_KILLED)
            str_addf(out, " %s killed", one ? "was" : "were");
        else
            str_addf(out, " %s %s", one ? "has" : "have", what[party->first->stands]);
    }
}

/* ---- a line ---- */

/* Its columns: who, does what to whom, which call, since when, where. The fewer cells there are, the more is left out:
 * form 0 has everything, 1 short arrows, 2 no file's name, 3 no "since", 4 no bytes, 5 no time,
 * 6 narrow gaps. */
struct row { struct str column[COLUMNS]; size_t event; };

static void
print_call(const char *operation, int64_t number, struct str *out)
{
    str_add(out, operation);
    if (number >= 0)
        str_addf(out, " #%lld", (long long)number);
}

static void
print_size(const struct waiter *waiter, int form, struct str *out)
{
    char bytes[24];
    if (form >= 4 || (waiter->bucket < 0 && waiter->bytes <= 0))
        return;
    str_add(out, " (");
    if (waiter->bucket >= 0)
        str_addf(out, form == 0 ? "bucket %lld" : "b%lld", (long long)waiter->bucket);
    if (waiter->bytes > 0)
        str_addf(out, "%s%s", waiter->bucket >= 0 ? ", " : "", page_bytes(waiter->bytes, bytes));
    str_add(out, ")");
}

/* All that the party waits for; among themselves "each other". */
static void
print_targets(const struct parties *parties, const struct party *party, struct str *out)
{
    const struct waits *waits = &parties->waits;
    int   *targets = calloc((size_t)waits->rank_count + 1, sizeof *targets);
    size_t count = 0;
    bool   inside = true;
    for (int rank = 0; targets != NULL && rank < waits->rank_count; rank++) {
        bool wanted = false, own = false;
        for (size_t i = 0; i < party->rank_count; i++) {
            const struct waiter *waiter = waits_of_rank(waits, party->ranks[i]);
            for (size_t j = 0; waiter != NULL && j < waiter->count && !wanted; j++)
                wanted = waits->targets[waiter->first + j] == rank;
            own |= party->ranks[i] == rank;
            if (!party->first->under_way)
                break;
        }
        if (wanted)
            targets[count++] = rank;
        inside &= !wanted || own;
    }
    if (targets == NULL)
        out->broken = true;
    else if (count > 0 && inside && party->rank_count > 1)
        str_add(out, "each other");
    else
        ranks_print(targets, count, out);
    free(targets);
}

static void
print_wait(const struct parties *parties, const struct scene *scene, const struct party *party, int form,
           struct row *row)
{
    const struct waiter *waiter = party->first;
    const char *verb = party->rank_count == 1 ? "waits for" : "wait for";
    if (waiter->under_way && waiter->count == 0) {
        str_addf(&row->column[1], "%s in", party->rank_count == 1 ? "is" : "are");
        print_call(waiter->name, waiter->number, &row->column[2]);
        print_size(waiter, form, &row->column[2]);
        return;
    }
    if (form == 0)
        str_addf(&row->column[1], "\u2500\u2500%s\u2500\u2500%s\u25ba ", verb, party->rank_count > 1 ? "\u2500" : "");
    else
        str_add(&row->column[1], "\u2500\u25ba ");
    size_t before = row->column[1].len;
    if (waiter->holder >= 0)
        str_add(&row->column[1], trace_lane_at(scene->model->trace, (size_t)waiter->holder)->name);
    else if (waiter->count > 0)
        print_targets(parties, party, &row->column[1]);
    if (row->column[1].len == before)
        str_add(&row->column[1], waiter->awaits == AWAITS_STORE ? "the store" : "?");
    switch (waiter->awaits) {
    case AWAITS_LOCK:
        str_addf(&row->column[2], "lock %s", waiter->name);
        break;
    case AWAITS_STORE:
        str_addf(&row->column[2], "key %s", waiter->name);
        break;
    case AWAITS_TASK:
        str_add(&row->column[2], "its end");
        break;
    default:
        print_call(waiter->name, waiter->number, &row->column[2]);
        print_size(waiter, form, &row->column[2]);
    }
}

static void
print_other(const struct parties *parties, const struct party *party, int form, struct row *row)
{
    const struct waiter    *waiter = party->first;
    const struct rank_call *call   = waits_last_call(&parties->waits, waiter->rank);
    bool inside = call != NULL && call->done < call->number;
    static const char *const ends[] = { [STANDS_KILLED] = "killed", [STANDS_RETURNED] = "returned",
                                        [STANDS_RAISED] = "failed" };
    if (waiter->stands >= STANDS_RETURNED)
        str_addf(&row->column[1], "%s%s", ends[waiter->stands],
                 call == NULL ? "" : inside ? " in" : waiter->stands == STANDS_RAISED ? " behind" : " after");
    else if (inside) {
        row->event = call->seq;
        str_add(&row->column[1], party->rank_count == 1 ? "calls" : "call");
    } else
        str_addf(&row->column[1], "%s", party->rank_count == 1 ? "runs" : "run");
    if (call != NULL && (inside || waiter->stands >= STANDS_RETURNED)) {
        print_call(call->operation, call->number, &row->column[2]);
        if (inside && waiter->stands < STANDS_RETURNED)
            print_size(&(struct waiter){ .bucket = -1, .bytes = call->bytes }, form, &row->column[2]);
    } else if (waiter->stands == STANDS_RUNNING)
        str_add(&row->column[2], waiter->name);
}

static void
print_row(const struct parties *parties, const struct scene *scene, const struct party *party, int form,
          struct row *row)
{
    const struct waiter    *waiter = party->first;
    const struct rank_call *call = waiter->rank >= 0 ? waits_last_call(&parties->waits, waiter->rank) : NULL;
    uint32_t line = waiter->line != 0 || call == NULL ? waiter->line : call->line;
    for (int i = 0; i < COLUMNS; i++)
        str_clear(&row->column[i]);
    row->event = waiter->seq;
    if (waiter->rank >= 0)
        ranks_print(party->ranks, party->rank_count, &row->column[0]);
    else
        str_add(&row->column[0], trace_lane_at(scene->model->trace, waiter->lane)->name);
    if (waiter->stands == STANDS_WAITING)
        print_wait(parties, scene, party, form, row);
    else
        print_other(parties, party, form, row);
    if (form < 5 && row->event != NO_EVENT) {
        str_add(&row->column[3], form >= 3 ? "" : waiter->stands >= STANDS_RETURNED ? "at " : "since ");
        trace_print_time(trace_time(scene->model->trace, row->event), &row->column[3]);
    }
    if (form < 2)
        page_place(scene->model, line, &row->column[4]);
    else if (line > 0)
        str_addf(&row->column[4], form < 6 ? "line %u" : ":%u", line);
}

static int
cells(const char *text)
{
    int count = 0;
    for (; *text != '\0'; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

/* How wide each column is over all parties, and all together. */
static int
measure(const struct parties *parties, const struct scene *scene, int form, struct row *row, int widths[COLUMNS])
{
    int total = 0, gap = form < 6 ? 2 : 1;
    memset(widths, 0, COLUMNS * sizeof *widths);
    for (size_t i = 0; i < parties->count; i++) {
        print_row(parties, scene, &parties->list[i], form, row);
        for (int column = 0; column < COLUMNS; column++) {
            int width = cells(str_text(&row->column[column]));
            widths[column] = width > widths[column] ? width : widths[column];
        }
    }
    for (int column = 0; column < COLUMNS; column++) {
        widths[column] += widths[column] > 0 ? gap : 0;
        total += widths[column];
    }
    return total - gap;
}

static void
add_row(const struct party *party, const struct row *row, const int widths[COLUMNS], struct page *page)
{
    struct str line = { 0 };
    for (int column = 0; column < COLUMNS; column++) {
        const char *text = str_text(&row->column[column]);
        if (widths[column] > 0)
            str_addf(&line, "%s%*s", text, widths[column] - cells(text), "");
        page->starved |= !str_ok(&row->column[column]);
    }
    page->starved |= !str_ok(&line);
    while (line.len > 0 && line.text[line.len - 1] == ' ')
        line.text[--line.len] = '\0';
    page_add(page, row->event, (struct style){ 0 }, str_text(&line));
    page_head(page, cells(str_text(&row->column[0])),
              (struct style){ .ink = party->differs ? WORK_FAULT : INK_PLAIN, .attr = ATTR_BOLD });
    if (party->differs)
        page_mark(page, DIFFERS);
    str_free(&line);
}

void
parties_print(const struct parties *parties, const struct scene *scene, int width, struct page *page)
{
    struct row row = { 0 };
    int        widths[COLUMNS], form = 0;
    while (measure(parties, scene, form, &row, widths) > width && form < FORMS - 1)
        form++;
    for (size_t i = 0; i < parties->count; i++) {
        print_row(parties, scene, &parties->list[i], form, &row);
        add_row(&parties->list[i], &row, widths, page);
    }
    for (int i = 0; i < COLUMNS; i++)
        str_free(&row.column[i]);
}
