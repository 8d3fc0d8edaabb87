/* The report's table: for each rank the last call that it enqueued, that the back-end took, that came to its end, and
 * what the rank does now. Ranks of whom all of it is equal share a row; the culprit's row is always there. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "flight/internal.h"
#include "base/map.h"

enum { CELL_RANKS, CELL_ENQUEUED, CELL_STARTED, CELL_COMPLETED, CELL_NOW, CELLS };
enum { MOST_ROWS = 16, MOST_LINES = 6, FEW_RANKS = 8, LEAST_WIDTH = 6, GAP = 2 };
#define CELL_END "\x1f"

static const char *const titles[CELLS] = { "ranks", "last enqueued", "started", "completed", "now" };

/* ---- what a row says ---- */

/* "all_reduce #7 [3, 4] (line 9)"; "same" as in the cell before. */
static void
say_cell(const struct teller *teller, const struct flight_entry *entry, const struct flight_entry *before,
         struct str *out)
{
    if (entry == NULL || entry == before) {
        str_add(out, entry == NULL ? "-" : "same");
        return;
    }
    struct str text = { 0 };
    say_call(teller->flight, entry, out);
    say_sizes(either(entry->input_sizes, entry->output_sizes), &text);
    if (text.len > 2)
        str_addf(out, text.len <= 32 ? " %s" : " %.29s...", str_text(&text));
    say_place(entry->file, entry->line, out);
    str_free(&text);
}

static void
say_wait(const struct teller *teller, int rank, const struct flight_entry *const *last, struct str *out)
{
    const struct flight_rank *own     = rank_in(teller->flight, rank);
    const struct waiting     *waiting = wait_of(teller, rank);
    const struct graph       *graph   = &teller->graph;
    size_t                    first   = graph->first[graph->wait[rank]], end = graph->first[graph->wait[rank] + 1];
    bool told = waiting->entry != NULL && (own->line == 0 || own->line == waiting->entry->line);
    if (told && waiting->entry == last[0])
        str_add(out, "waits in it");
    else if (told && waiting->entry == last[1])
        str_add(out, "waits in what started");
    else {
        str_add(out, "waits in ");
        say_waiting(teller->flight, rank, waiting, 0, out);
    }
    if (end > first && waiting->kind != WAIT_SEND && waiting->kind != WAIT_RECV) {
        str_add(out, " for ");
        say_ranks(graph->targets + first, (int)(end - first), out);
    }
    if (own->detail != NULL && waiting->kind != WAIT_COLLECTIVE)
        str_addf(out, ", %.60s", own->detail);
}

static void
say_now(const struct teller *teller, int rank, const struct flight_entry *const *last, struct str *out)
{
    static const char *const words[] = {
        [FLIGHT_UNKNOWN] = "waits in no call", [FLIGHT_ABSENT] = "no dump",       [FLIGHT_RUNNING] = "runs",
        [FLIGHT_WAITING] = "waits",            [FLIGHT_RETURNED] = "returned",    [FLIGHT_THREW] = "threw",
        [FLIGHT_KILLED] = "killed",
    };
    const struct flight_rank *own   = rank_in(teller->flight, rank);
    bool                      times = own->now == FLIGHT_RUNNING ||
                                      (own->now == FLIGHT_WAITING && teller->flight->rank_count <= FEW_RANKS);
    if (wait_of(teller, rank) != NULL)
        say_wait(teller, rank, last, out);
    else {
        str_add(out, words[own->now]);
        if (own->line > 0)
            str_addf(out, " at line %" PRIu32, own->line);
        if (own->detail != NULL && own->now != FLIGHT_RUNNING)
            str_addf(out, strlen(own->detail) <= 60 ? ": %s" : ": %.57s...", own->detail);
    }
    if (times && own->since_ps > 0) {
        str_add(out, own->now == FLIGHT_WAITING ? ", " : " for ");
        say_seconds(own->since_ps, out);
        str_add(out, own->now == FLIGHT_WAITING ? " so far" : "");
    }
}

/* All cells but the first, each ended. */
static void
say_row(struct teller *teller, int rank, struct str *out)
{
    const struct flight_rank  *own     = rank_in(teller->flight, rank);
    const struct flight_entry *last[3] = { NULL, NULL, NULL };
    for (size_t i = own->count; i-- > 0 && last[2] == NULL;) {
        const struct flight_entry *entry = &own->entries[i];
        bool                       over  = entry_is_over(&teller->survey, entry);
        last[0] = last[0] != NULL ? last[0] : entry;
        last[1] = last[1] != NULL || (entry->state == FLIGHT_SCHEDULED && !over) ? last[1] : entry;
        last[2] = over ? entry : NULL;
    }
    for (int i = 0; i < 3; i++) {
        say_cell(teller, last[i], i > 0 ? last[i - 1] : NULL, out);
        str_add(out, CELL_END);
    }
    say_now(teller, rank, last, out);
    str_add(out, CELL_END);
}

/* ---- rows ---- */

struct rows {
    struct map texts;      /* what is said, and the number of its row */
    int       *row_of;     /* by rank */
    int        count;
};

static bool
make_rows(struct teller *teller, struct rows *rows)
{
    struct str text  = { 0 };
    int        ranks = teller->flight->rank_count;
    *rows = (struct rows){ .row_of = calloc((size_t)ranks + 1, sizeof *rows->row_of) };
    bool fine = rows->row_of != NULL;
    for (int rank = 0; fine && rank < ranks; rank++) {
        uint64_t row = (uint64_t)rows->count;
        str_clear(&text);
        say_row(teller, rank, &text);
        if (!map_get_text(&rows->texts, str_text(&text), &row)) {
            fine = str_ok(&text) && map_set_text(&rows->texts, str_text(&text), row);
            rows->count += fine;
        }
        rows->row_of[rank] = (int)row;
    }
    str_free(&text);
    return fine;
}

/* The first ones; if they are too many, the culprit's and the victim's at any rate. */
static bool
row_is_told(const struct teller *teller, const struct rows *rows, int row)
{
    const int must[] = { teller->hang->culprit, teller->hang->victim };
    for (int i = 0; i < 2; i++)
        if (must[i] >= 0 && must[i] < teller->flight->rank_count && rows->row_of[must[i]] == row)
            return true;
    return row < MOST_ROWS - 2;
}

static void
say_row_ranks(const struct teller *teller, const struct rows *rows, int row, struct str *out)
{
    int count = 0;
    for (int rank = 0; rank < teller->flight->rank_count; rank++)
        if (rows->row_of[rank] == row)
            teller->ranks[count++] = rank;
    say_rank_list(teller->ranks, count, out);
    str_add(out, CELL_END);
}

/* ---- the table ---- */

/* The cell that begins at *text, and its length; *text goes on to the next one. */
static size_t
next_cell(const char **text, const char **cell)
{
    size_t size = strcspn(*text, CELL_END);
    *cell = *text;
    *text += size + ((*text)[size] != '\0');
    return size;
}

static void
measure(const char *row, int widths[CELLS])
{
    for (int i = 0; i < CELLS; i++) {
        const char *cell;
        int         size = (int)next_cell(&row, &cell);
        if (size > widths[i])
            widths[i] = size;
    }
}

/* The widest gives way until all fit. */
static void
fit(int widths[CELLS], int width)
{
    for (;;) {
        int total = GAP * (CELLS - 1), widest = 0;
        for (int i = 0; i < CELLS; i++) {
            total += widths[i];
            if (widths[i] > widths[widest])
                widest = i;
        }
        if (total <= width || widths[widest] <= LEAST_WIDTH)
            return;
        widths[widest]--;
    }
}

/* As many bytes as one line of the cell takes, at a blank if there is one; *skip: with it. */
static size_t
line_of_cell(const char *cell, size_t size, int width, size_t *skip)
{
    size_t room = (size_t)width, end = size;
    *skip = size;
    if (size <= room)
        return size;
    end   = last_gap(cell, room);
    *skip = end > 0 ? end + 1 : room;
    return end > 0 ? end : room;
}

static void
put_row(const char *row, const int widths[CELLS], struct str *out)
{
    const char *cells[CELLS];
    size_t      sizes[CELLS];
    bool        more = true;
    for (int i = 0; i < CELLS; i++)
        sizes[i] = next_cell(&row, &cells[i]);
    for (int lines = 0; more && lines < MOST_LINES; lines++) {
        struct str line = { 0 };
        size_t     column = 0;
        more = false;
        for (int i = 0; i < CELLS; i++) {
            size_t skip, take = line_of_cell(cells[i], sizes[i], widths[i], &skip);
            if (take > 0) {
                str_addf(&line, "%*s", (int)(column - line.len), "");
                str_add_bytes(&line, cells[i], take);
            }
            cells[i] += skip;
            sizes[i] -= skip;
            more   = more || sizes[i] > 0;
            column += (size_t)(widths[i] + GAP);
        }
        put_cut(str_text(&line), (int)column, out);
        str_free(&line);
    }
}

/* The titles, then the rows that are told, to `told`; answers how many, and *left: how many are not. */
static int
choose_rows(struct teller *teller, const struct rows *rows, struct str *told, int *left)
{
    int count = 1;
    for (int i = 0; i < CELLS; i++)
        str_addf(&told[0], "%s" CELL_END, titles[i]);
    for (int row = 0; row < rows->count; row++) {
        if (!row_is_told(teller, rows, row)) {
            ++*left;
            continue;
        }
        say_row_ranks(teller, rows, row, &told[count]);
        str_add(&told[count++], rows->texts.entries[row].text);
    }
    return count;
}

void
put_rows(struct teller *teller, int width, struct str *out)
{
    struct rows rows;
    struct str  told[MOST_ROWS + 1] = { 0 };
    int         left = 0, widths[CELLS] = { 0 };
    if (make_rows(teller, &rows) && rows.count > 0) {
        int count = choose_rows(teller, &rows, told, &left);
        for (int i = 0; i < count; i++)
            measure(str_text(&told[i]), widths);
        fit(widths, width);
        str_add(out, "\n");
        for (int i = 0; i < count; i++)
            put_row(str_text(&told[i]), widths, out);
        if (left > 0)
            str_addf(out, "and %d more row%s\n", left, left == 1 ? "" : "s");
    }
    for (int i = 0; i <= MOST_ROWS; i++)
        str_free(&told[i]);
    free(rows.row_of);
    map_free(&rows.texts);
}
