/* The ring pane: the collective that the event lies in, whatever its algorithm: who sends which chunk to whom, whose
 * parts each chunk of each rank has in it, and the numbers of the message under way. First two rows say which one it is
 * and its message; then who is where (a loop, or arrows) and the chunks, side by side if there is room; then the
 * messages before it. A row that is chosen is a message, the latest first. */
#include "panes.h"

#include "analysis/rounds.h"
#include "base/str.h"
#include "trace/format.h"
#include "trace/reader.h"

#include <stdio.h>
#include <string.h>

enum { DASH = 0x2500, BAR = 0x2502, RIGHT = 0x25ba, LEFT = 0x25c4, UP = 0x25b2, DOWN = 0x25bc, FULL = 0x2593,
       EMPTY = 0x2591, SQUARE = 0x25a0 };
enum { EDGE = 5, FLAT_SIDE = 5, LOOP_RANKS = 8, LOOP_ROWS = 3, BAR_MOST = 8, NUMBERS_MOST = 64 };

/* What a frame of this pane is drawn from. */
struct ring {
    const struct rounds       *rounds;
    const struct capabilities *capabilities;
    int                        chosen;     /* the message that is said, -1 none */
    struct canvas             *pane;
};

static const struct rounds_message *
message_at(const struct ring *ring, int index)
{
    return index >= 0 ? &ring->rounds->messages[index] : NULL;
}

static struct rounds *
rounds_of(const struct scene *scene)
{
    return rounds_at(scene->model->trace, scene->model->state, scene->view->cursor);
}

/* ---- the heading, the message ---- */

/* Which collective; at the right how far it is, and the bytes where there is room for them. */
static void
draw_heading(const struct ring *ring, int row)
{
    struct str words = { 0 }, progress = { 0 };
    int        room = ring->pane->width - 1;
    rounds_heading(ring->rounds, &words);
    rounds_progress(ring->rounds, &progress);
    size_t step = progress.len;
    str_add(&progress, step > 0 ? "  " : "");
    rounds_moved(ring->rounds, &progress);
    if ((int)(words.len + progress.len) + 2 > room && progress.text != NULL)
        progress.text[progress.len = step] = '\0';
    canvas_cut(ring->pane, (struct stretch){ row, 1, room - 1 }, (struct style){ .attr = ATTR_BOLD },
               canvas_words(ring->pane, &words));
    if ((int)(words.len + progress.len) + 2 <= room)
        canvas_text(ring->pane, row, room - (int)progress.len, (struct style){ .ink = INK_ACCENT },
                    canvas_words(ring->pane, &progress));
    str_free(&words);
    str_free(&progress);
}

/* "─c2►": a line with a name in it. */
static int
draw_arrow(const struct ring *ring, struct stretch place, bool leftwards, struct style style, const char *name)
{
    int column = place.column, end = place.column + place.room, length = (int)strlen(name);
    int at = column + (leftwards ? place.room - length - 1 : 1);
    for (int i = column; i < end; i++)
        canvas_put(ring->pane, place.row, i, style, DASH);
    if (name[0] != '\0' && length <= place.room - 2)
        canvas_text(ring->pane, place.row, at, style, name);
    canvas_put(ring->pane, place.row, leftwards ? column : end - 1, style, (uint32_t)(leftwards ? LEFT : RIGHT));
    return end;
}

/* Cells of an arrow with that name in it. */
static int
edge_for(const struct str *name)
{
    return name->len > 2 ? (int)name->len + 3 : EDGE;
}

/* As many of its numbers as are whole in the room; answers how many were tried for, 0: not even one fits. */
static int
add_numbers(const struct ring *ring, int index, int room, struct str *text)
{
    struct str numbers = { 0 };
    int        most = NUMBERS_MOST;
    for (; most > 0; most = most * 3 / 4) {
        str_clear(&numbers);
        rounds_numbers(ring->rounds, index, most, &numbers);
        if ((int)(text->len + numbers.len) <= room)
            break;
    }
    str_add(text, str_text(&numbers));
    text->broken |= !str_ok(&numbers);
    str_free(&numbers);
    return most;
}

/* What it is and does, and its numbers; where there is less room, how many parts are in it, and its numbers. */
static void
add_words(const struct ring *ring, int index, int room, struct str *text)
{
    const struct rounds_message *message = message_at(ring, index);
    if (message->columns == 0)
        str_addf(text, "%lld B ", (long long)message->bytes);
    rounds_effect(ring->rounds, index, text);
    str_add(text, ": ");
    if (add_numbers(ring, index, room, text) >= 2 || message->columns == 0)
        return;
    str_clear(text);
    str_addf(text, "sum of %d: ", ring->rounds->carried[message->shares].count);
    if (ring->rounds->form != FORM_SUM)
        str_clear(text);
    add_numbers(ring, index, room, text);
}

/* "r0 ─c2► r1  sum of 2, to be added: 30 31" */
static void
draw_message(const struct ring *ring, int index, int row)
{
    const struct rounds_message *message = message_at(ring, index);
    struct canvas *pane  = ring->pane;
    struct str     text  = { 0 };
    struct style   style = { .ink = message->arrived ? INK_PLAIN : WORK_COMMUNICATION,
                             .attr = index == ring->chosen ? ATTR_BOLD : 0 };
    if (row < 0 || row >= pane->height)
        return;
    rounds_chunk(ring->rounds, index, &text);
    int column = canvas_textf(pane, row, 1, style, "r%d ", message->from_rank);
    column = draw_arrow(ring, (struct stretch){ row, column, edge_for(&text) }, false, style,
                        canvas_words(pane, &text));
    column = canvas_textf(pane, row, column, style, " r%d  ", message->to_rank);
    str_clear(&text);
    add_words(ring, index, pane->width - column, &text);
    canvas_cut(pane, (struct stretch){ row, column, pane->width - column }, style, canvas_words(pane, &text));
    str_free(&text);
}

/* ---- who is where ---- */

/* The message that a member sends now, to that one; -1 none. */
static int
sends_to(const struct rounds *rounds, int from, int to)
{
    int message = rounds->members[from].sending;
    return message >= 0 && rounds->messages[message].to == to ? message : -1;
}

/* All messages so far went to a neighbour. */
static bool
is_loop(const struct rounds *rounds)
{
    int ranks = rounds->member_count;
    bool ring = strcmp(rounds->algorithm, "ring") == 0 || strcmp(rounds->kind, "allgather") == 0 ||
                strcmp(rounds->kind, "reduce_scatter") == 0 || strcmp(rounds->kind, "reduce") == 0;
    if (ranks < 2 || ranks > LOOP_RANKS || !ring)
        return false;
    for (size_t i = 0; i < rounds->message_count; i++) {
        int apart = (rounds->messages[i].to - rounds->messages[i].from + ranks) % ranks;
        if (rounds->messages[i].to < 0 || (apart != 1 && apart != ranks - 1))
            return false;
    }
    return true;
}

/* Between two neighbours of the loop, the first at the left (above): what one of them sends to the other. */
struct edge { int message; bool back; };

static struct edge
edge_between(const struct rounds *rounds, int first, int second)
{
    int there = sends_to(rounds, first, second), back = sends_to(rounds, second, first);
    return there >= 0 ? (struct edge){ there, false } : (struct edge){ back, back >= 0 };
}

static struct edge
backwards(struct edge edge)
{
    return (struct edge){ edge.message, edge.message >= 0 && !edge.back };
}

static struct style
edge_style(const struct ring *ring, int message)
{
    if (message < 0)
        return (struct style){ .ink = INK_DIM };
    return (struct style){ .ink = WORK_COMMUNICATION, .attr = message == ring->rounds->current ? ATTR_BOLD : 0 };
}

static void
draw_edge(const struct ring *ring, struct stretch place, struct edge edge)
{
    struct str name = { 0 };
    if (edge.message < 0) {
        for (int i = 0; i < place.room; i++)
            canvas_put(ring->pane, place.row, place.column + i, edge_style(ring, -1), DASH);
        return;
    }
    rounds_chunk(ring->rounds, edge.message, &name);
    draw_arrow(ring, place, edge.back, edge_style(ring, edge.message), canvas_words(ring->pane, &name));
    str_free(&name);
}

/* "▲ c3": a side of the loop, the name at its inner side; in a flat one, at the end of the lower row. */
static void
draw_upright(const struct ring *ring, int row, int column, bool name_before, struct edge edge)
{
    struct str   name  = { 0 };
    struct style style = edge_style(ring, edge.message);
    if (edge.message >= 0)
        rounds_chunk(ring->rounds, edge.message, &name);
    uint32_t arrow = edge.message < 0 ? BAR : edge.back ? UP : DOWN;
    canvas_put(ring->pane, row, column, style, arrow);
    canvas_text(ring->pane, row, name_before ? column - (int)name.len - 1 : column + 2, style,
                canvas_words(ring->pane, &name));
    str_free(&name);
}

static void
draw_rank(const struct ring *ring, int row, int column, int member)
{
    const struct rounds_member  *who = &ring->rounds->members[member];
    const struct rounds_message *message = message_at(ring, ring->rounds->current);
    bool acts = message != NULL && (message->arrived ? message->to : message->from) == member;
    struct style style = { .ink = who->begin == SIZE_MAX ? INK_DIM : INK_PLAIN, .attr = acts ? ATTR_BOLD : 0 };
    canvas_textf(ring->pane, row, column, style, "r%d", who->rank);
}

static int
loop_width(const struct rounds *rounds)
{
    int top = (rounds->member_count + 1) / 2;
    return rounds->member_count == 2 ? 2 * 3 + EDGE : top * 2 + (top - 1) * (EDGE + 2);
}

/* Two ranks stand side by side and have two ways between them. */
static void
draw_pair(const struct ring *ring, int row)
{
    draw_rank(ring, row, 1, 0);
    draw_edge(ring, (struct stretch){ row, 4, EDGE }, (struct edge){ sends_to(ring->rounds, 0, 1), false });
    draw_rank(ring, row, 5 + EDGE, 1);
    draw_edge(ring, (struct stretch){ row + 1, 4, EDGE }, (struct edge){ sends_to(ring->rounds, 1, 0), true });
}

/* The upper half from left to right, the other one back below it, in so many rows; with two, the sides stand at the
 * ends of the lower row. */
static void
draw_loop(const struct ring *ring, int row, int rows)
{
    const struct rounds *rounds = ring->rounds;
    int ranks = rounds->member_count, top = (ranks + 1) / 2, step = EDGE + 4, width = loop_width(rounds);
    int lower = row + rows - 1, left = 1 + (rows < LOOP_ROWS) * FLAT_SIDE, right = left + width - 1;
    if (ranks == 2) {
        draw_pair(ring, row);
        return;
    }
    for (int i = 0; i < ranks; i++) {
        bool upper  = i < top, last = i == top - 1 || i == ranks - 1;
        int  column = left + step * (upper ? i : 2 * top - 1 - i), at = upper ? row : lower;
        draw_rank(ring, at, column, i);
        struct edge edge = edge_between(rounds, i, (i + 1) % ranks);
        if (last)
            continue;
        if (upper)
            draw_edge(ring, (struct stretch){ at, column + 3, EDGE }, edge);
        else
            draw_edge(ring, (struct stretch){ at, column - EDGE - 1, EDGE }, backwards(edge));
    }
    struct edge out = edge_between(rounds, top - 1, top), home = backwards(edge_between(rounds, ranks - 1, 0));
    if (rows < LOOP_ROWS) {
        draw_upright(ring, lower, right + 2, false, out);
        draw_upright(ring, lower, 1, false, home);
    } else {
        draw_upright(ring, row + 1, right - 1, true, out);
        draw_upright(ring, row + 1, ranks % 2 == 1 ? left + step : left + 1, false, home);
    }
}

/* "r2 ─c3► r6" */
static int
draw_sending(const struct ring *ring, struct stretch place, int member)
{
    const struct rounds *rounds  = ring->rounds;
    int                  message = rounds->members[member].sending;
    struct style         style   = edge_style(ring, message);
    struct str           name    = { 0 };
    rounds_chunk(rounds, message, &name);
    int edge = edge_for(&name), width = 2 * 3 + edge, to = rounds->messages[message].to_rank;
    if (width <= place.room) {
        int column = canvas_textf(ring->pane, place.row, place.column, style, "r%d ", rounds->members[member].rank);
        column = draw_arrow(ring, (struct stretch){ place.row, column, edge }, false, style,
                            canvas_words(ring->pane, &name));
        place.column = canvas_textf(ring->pane, place.row, column, style, " r%d", to) + 2;
    }
    str_free(&name);
    return place.column;
}

/* What is under way, as arrows one behind the other: for trees and all that is no loop. Answers the rows it took. */
static int
draw_arrows(const struct ring *ring, int row, int rows)
{
    const struct rounds *rounds = ring->rounds;
    int used = 0, column = 1;
    for (int i = 0; i < rounds->member_count && used < rows; i++) {
        if (rounds->members[i].sending < 0)
            continue;
        int behind = draw_sending(ring, (struct stretch){ row + used, column, ring->pane->width - column }, i);
        if (behind == column && ++used < rows)
            behind = draw_sending(ring, (struct stretch){ row + used, 1, ring->pane->width - 1 }, i);
        column = behind;
    }
    return used + (used < rows && column > 1);
}

/* ---- chunks ---- */

/* How chunks of a rank are drawn: "c0▓▓░░ c1▓░░░", or a digit each. */
struct grid { bool bars; int bar, cell, width, across; };

static int
digits(int number)
{
    return number >= 1000 ? 4 : number >= 100 ? 3 : number >= 10 ? 2 : 1;
}

static struct grid
grid_for(const struct rounds *rounds, int room)
{
    struct grid grid = { .bar = rounds_full(rounds) };
    int last = rounds->members[rounds->member_count - 1].rank, name = 2 + digits(last > 0 ? last : 0);
    grid.cell  = 1 + digits(rounds->columns - 1) + grid.bar + 1;
    grid.bars  = grid.bar <= BAR_MOST && name + grid.cell * rounds->columns <= room;
    grid.width = grid.bars ? name + grid.cell * rounds->columns : name + rounds->columns + 1;
    grid.across = grid.width > 0 && (room + 1) / grid.width > 0 ? (room + 1) / grid.width : 1;
    return grid;
}

/* The chunk that the event's message is about: where it comes from as long as it is under way, then where it is. */
static bool
is_touched(const struct rounds *rounds, int member, int column)
{
    const struct rounds_message *message = rounds->current >= 0 ? &rounds->messages[rounds->current] : NULL;
    return message != NULL && rounds->here && member == (message->arrived ? message->to : message->from) &&
           column >= message->column && column < message->column + message->columns;
}

static int
draw_share(const struct ring *ring, int row, int at, const struct grid *grid, int member, int column)
{
    const struct rounds *rounds = ring->rounds;
    struct share share = rounds_share(rounds, member, column);
    int          full  = rounds_full(rounds);
    struct style style = { .ink = share.count == full ? INK_GOOD : share.count == 0 ? INK_DIM : INK_PLAIN,
                           .attr = is_touched(rounds, member, column) ? ATTR_BOLD | ATTR_REVERSE : 0 };
    if (!grid->bars) {
        char digit = share.count == 0 ? '.' : share.count > 9 ? '+' : (char)('0' + share.count);
        canvas_put(ring->pane, row, at, style, share.count == full ? SQUARE : (uint32_t)(unsigned char)digit);
        return at + 1;
    }
    at = canvas_textf(ring->pane, row, at, style, "c%d", column);
    for (int i = 0; i < grid->bar; i++)
        canvas_put(ring->pane, row, at++, style, i < share.count ? FULL : EMPTY);
    return at + 1;
}

static void
draw_member(const struct ring *ring, int row, int at, const struct grid *grid, int member)
{
    const struct rounds        *rounds = ring->rounds;
    const struct rounds_member *who = &rounds->members[member];
    struct style style = { .ink = who->begin == SIZE_MAX ? INK_DIM : INK_PLAIN };
    if (row < 0 || row >= ring->pane->height)
        return;
    int column = who->rank >= 0 ? canvas_textf(ring->pane, row, at, style, "r%d", who->rank)
                                : canvas_text(ring->pane, row, at, style, "r?");
    column = at + grid->width - (grid->bars ? grid->cell * rounds->columns : rounds->columns + 1);
    for (int i = 0; i < rounds->columns; i++)
        column = draw_share(ring, row, column, grid, member, i);
}

/* As many ranks side by side as fit, column by column. Answers the rows that it wants. */
static int
draw_grid(const struct ring *ring, int row, int at, struct grid grid)
{
    const struct rounds *rounds = ring->rounds;
    int rows = (rounds->member_count + grid.across - 1) / grid.across;
    for (int i = 0; i < rounds->member_count; i++)
        draw_member(ring, row + i % rows, at + i / rows * grid.width, &grid, i);
    return rows;
}

/* Where there are no chunks: what is known of each rank. */
static int
draw_states(const struct ring *ring, int row)
{
    const struct rounds *rounds = ring->rounds;
    int across = ring->pane->width / 24 > 0 ? ring->pane->width / 24 : 1;
    int rows   = (rounds->member_count + across - 1) / across;
    for (int i = 0; i < rounds->member_count; i++) {
        int at = 1 + i / rows * 24;
        struct style style = { .ink = rounds->members[i].begin == SIZE_MAX ? INK_DIM : INK_PLAIN };
        if (rounds->members[i].rank >= 0)
            at = canvas_textf(ring->pane, row + i % rows, at, style, "r%d ", rounds->members[i].rank);
        canvas_text(ring->pane, row + i % rows, at, style, rounds_member_state(rounds, i));
    }
    return rows;
}

/* ---- the pane ---- */

/* The loop (or the arrows) and the chunks: side by side, or one below the other. Answers the row behind them. */
static int
draw_picture(const struct ring *ring, int row)
{
    const struct rounds *rounds = ring->rounds;
    bool loop  = is_loop(rounds), chunks = rounds->columns > 0 && rounds->shares != NULL;
    int  width = loop ? loop_width(rounds) + 2 : 0, left = ring->pane->height - row;
    if (!chunks)
        return row + draw_arrows(ring, row, rounds->member_count > 0 ? 1 : 0) + draw_states(ring, row);
    struct grid beside = grid_for(rounds, ring->pane->width - 2 - width);
    struct grid below  = grid_for(rounds, ring->pane->width - 1);
    int  wanted = (rounds->member_count + below.across - 1) / below.across;
    bool side = loop && beside.bars && rounds->member_count <= left;
    if (side) {
        draw_loop(ring, row, LOOP_ROWS);
        beside.across = 1;
        int rows = draw_grid(ring, row, 2 + width, beside);
        return row + (rows > LOOP_ROWS ? rows : LOOP_ROWS);
    }
    int rows = rounds->member_count == 2 || left < LOOP_ROWS + wanted ? 2 : LOOP_ROWS;
    if (loop && left > rows && ring->pane->width > loop_width(rounds) + 2 * FLAT_SIDE)
        draw_loop(ring, row, rows);
    else
        rows = draw_arrows(ring, row, left > wanted ? left - wanted < 3 ? left - wanted : 3 : 1);
    return row + rows + draw_grid(ring, row + rows, 1, below);
}

static void
tell(const struct rounds *rounds, struct canvas *pane, int skip)
{
    struct str text = { 0 };
    rounds_print(rounds, &text);
    canvas_wrap(pane, &(struct lines){ .skip = skip, .hang = 2 }, 1, (struct style){ 0 }, canvas_words(pane, &text));
    str_free(&text);
}

static void
draw(const struct scene *scene, struct canvas *pane, int skip)
{
    struct rounds *rounds = rounds_of(scene);
    if (rounds == NULL) {
        canvas_starve(pane);
        return;
    }
    int line = scene->view->panes[PANE_RING].line;
    if (rounds->when == ROUNDS_NEXT && veil_hides(&scene->view->veil, scene->model, rounds->begin)) {
        canvas_text(pane, 0, 1, (struct style){ .ink = INK_DIM }, "the next collective waits for your answer");
        rounds_free(rounds);
        return;
    }
    if (scene->capabilities->words) {
        tell(rounds, pane, skip);
        rounds_free(rounds);
        return;
    }
    struct ring ring = { rounds, scene->capabilities, -1, pane };
    (void)skip; /* what is chosen comes to the second row */
    if (rounds->current >= 0)
        ring.chosen = line <= rounds->current ? rounds->current - line : 0;
    draw_heading(&ring, 0);
    int row = 1;
    if (ring.chosen >= 0)
        draw_message(&ring, ring.chosen, row++);
    if (rounds->member_count > 0)
        row = draw_picture(&ring, row);
    for (int i = ring.chosen - 1; i >= 0 && row < pane->height; i--)
        draw_message(&ring, i, row++);
    rounds_free(rounds);
}

static bool
starts_with(const char *kind, const char *family)
{
    return strncmp(kind, family, strlen(family)) == 0;
}

static enum concern
concern(const struct scene *scene)
{
    const char *kind = model_kind(scene->model, scene->view->cursor);
    static const char *const quiet[] = { "c10d.store.", "c10d.rendezvous", "c10d.new_group", "c10d.future." };
    bool about = starts_with(kind, "comm.") || starts_with(kind, "c10d.");
    for (size_t i = 0; i < sizeof quiet / sizeof quiet[0]; i++)
        about &= !starts_with(kind, quiet[i]);
    if (about)
        return CONCERN_EVENT;
    for (size_t i = 0; i < trace_lanes(scene->model->trace); i++)
        if (trace_lane_at(scene->model->trace, i)->kind == LANE_COMM)
            return CONCERN_SOME;
    return CONCERN_NONE;
}

static int
rows(const struct scene *scene)
{
    struct rounds *rounds = rounds_of(scene);
    int count = rounds != NULL ? rounds->current + 1 : 0;
    rounds_free(rounds);
    return count;
}

static void
enter(struct model *model, struct view *view, int row)
{
    struct rounds *rounds = rounds_of(&(struct scene){ model, view, NULL });
    if (rounds != NULL && row >= 0 && row <= rounds->current)
        view_goto(view, model, rounds->messages[rounds->current - row].seq);
    rounds_free(rounds);
    view->panes[PANE_RING].line = 0;
}

const struct pane_kind ring_pane = { .name = "Ring", .least_columns = 28, .compares = true, .of_state = true,
                                     .tells = "comm c10d", .concern = concern, .draw = draw, .rows = rows,
                                     .enter = enter };
