/* Keys. Interface: keys_take for keys written as text, keys_command for what a key does, keys_draw and keys_help
 * (keys_help_lines) for what the screen says about them, all from the one table. */
#include "keys.h"

#include "answering.h"
#include "question.h"

#include "control/commands.h"

#include <stdio.h>
#include <string.h>

enum { HELP_COLUMNS = 60, HELP_ROWS = 1000 };

int
keys_command(const char *key)
{
    size_t length = strlen(key);
    for (int i = 0; i < CMD_COUNT && length > 0; i++) {
        const char *at = command_info(i)->keys;
        while (*at != '\0') {
            size_t word = strcspn(at, " ");
            if (word == length && memcmp(at, key, length) == 0)
                return i;
            at += word + (at[word] == ' ');
        }
    }
    return -1;
}

void
keys_take(const char **text, char key[16])
{
    const char *at = *text;
    size_t length = strcspn(at, ">");
    if (at[0] == '<' && at[1] != '\0' && at[length] == '>' && length > 1 && length < 16) {
        memcpy(key, at + 1, length - 1);
        key[length - 1] = '\0';
        *text = at + length + 1;
        return;
    }
    key[0] = *at;
    key[1] = '\0';
    *text = at + (*at != '\0');
    if (key[0] == ' ')
        snprintf(key, 16, "Space");
    if (key[0] == '\n' || key[0] == '\r')
        snprintf(key, 16, "Enter");
    if (key[0] == '\t')
        snprintf(key, 16, "Tab");
}

/* One command: its keys, its name and what it does, on a narrow screen below them. */
static void
help_row(struct canvas *canvas, const struct command_info *info, struct lines *lines)
{
    if (canvas->width < HELP_COLUMNS) {
        char head[64];
        snprintf(head, sizeof head, "%s%s%s", info->keys, info->keys[0] != '\0' ? "  " : "", info->name);
        canvas_wrap(canvas, lines, 1, (struct style){ .attr = ATTR_BOLD }, head);
        canvas_wrap(canvas, lines, 3, (struct style){ 0 }, info->help);
        return;
    }
    if (lines->skip == 0) {
        canvas_cut(canvas, (struct stretch){ lines->row, 2, 12 },
                   (struct style){ .ink = INK_ACCENT, .attr = ATTR_BOLD }, info->keys);
        canvas_cut(canvas, (struct stretch){ lines->row, 15, 12 }, (struct style){ .attr = ATTR_BOLD }, info->name);
    }
    canvas_wrap(canvas, lines, 28, (struct style){ 0 }, info->help);
}

/* A group's name above its first command, and its commands. */
static void
help_group(struct canvas *canvas, int first, struct lines *lines)
{
    const char *group = command_info(first)->group;
    canvas_wrap(canvas, lines, 1, (struct style){ .attr = ATTR_UNDERLINE }, group);
    for (int i = first; i < CMD_COUNT; i++)
        if (strcmp(command_info(i)->group, group) == 0)
            help_row(canvas, command_info(i), lines);
}

static int
draw_help(struct canvas *canvas, int skip)
{
    struct lines lines = { .skip = skip };
    canvas_wrap(canvas, &lines, 1, (struct style){ 0 },
                "Digits before a key are a count: 5s. Every command is a : line too, with arguments.");
    for (int i = 0; i < CMD_COUNT; i++) {
        bool seen = false;
        for (int before = 0; before < i; before++)
            seen |= strcmp(command_info(before)->group, command_info(i)->group) == 0;
        if (!seen)
            help_group(canvas, i, &lines);
    }
    return lines.row;
}

void
keys_help(struct canvas *canvas, int skip)
{
    draw_help(canvas, skip);
}

int
keys_help_lines(int width)
{
    struct canvas probe;
    if (!canvas_init(&probe, width > 0 ? width : 1, HELP_ROWS))
        return HELP_ROWS;
    int lines = draw_help(&probe, 0);
    canvas_free(&probe);
    return lines;
}

/* A key in bold, and what it does in a word. */
static int
draw_key_word(struct canvas *line, int column, const char *key, const char *word)
{
    if (column + (int)strlen(key) + 1 + (int)strlen(word) >= line->width)
        return column;
    column = canvas_text(line, 0, column, (struct style){ .ink = INK_ACCENT, .attr = ATTR_BOLD }, key);
    return canvas_text(line, 0, column + 1, (struct style){ 0 }, word) + 2;
}

/* The first key of a command. */
static int
draw_key(struct canvas *line, int column, int command, const char *word)
{
    char key[16];
    const char *keys = command_info(command)->keys;
    snprintf(key, sizeof key, "%.*s", (int)strcspn(keys, " "), keys);
    return draw_key_word(line, column, key, word);
}

struct hint { int command; const char *word; };

static void
draw_hints(struct canvas *line, const struct hint *hints)
{
    int column = 1;
    for (; hints->word != NULL; hints++)
        column = draw_key(line, column, hints->command, hints->word);
}

/* The keys that the list of keys has, and which of its lines is at the top. */
static void
draw_help_hints(const struct view *view, struct canvas *line)
{
    static const struct hint help[] = {
        { CMD_quit, "close" }, { CMD_lane_down, "down" }, { CMD_lane_up, "up" }, { CMD_page_down, "page" },
        { CMD_last, "end" }, { 0, NULL }
    };
    char place[48];
    snprintf(place, sizeof place, "line %d of %d ", view->panes[PANE_TIMELINE].scroll + 1,
             keys_help_lines(view->width));
    int room = line->width - (int)strlen(place);
    if (room > 10)
        canvas_right(line, 0, (struct style){ .ink = INK_DIM }, place);
    struct canvas left = canvas_part(line, 0, 0, 1, room > 10 ? room : line->width);
    draw_hints(&left, help);
}

/* At a question that waits: the keys that it has, then some of those that stay as they are. */
static void
draw_question_hints(const struct model *model, const struct view *view, struct canvas *line, const struct hint *hints)
{
    int  count = question_choices(model, view_question(view, model)), column = 1;
    bool taken = answering_has_keys(view);
    char letters[8] = "";
    if (count > 1)
        snprintf(letters, sizeof letters, "a-%c", 'a' + (count - 1) % 26);
    if (taken && count > 1)
        column = draw_key_word(line, column, letters, "choose");
    bool given = view->asking.chosen >= 0 || view->asking.typed[0] != '\0';
    column = draw_key_word(line, column, "Enter", !taken ? "answer" : given ? "confirm" : "show it");
    column = draw_key_word(line, column, "Esc", "later");
    struct canvas rest = canvas_part(line, 0, column - 1, 1, line->width - column + 1);
    if (!taken || count > 0)
        draw_hints(&rest, hints);
}

static void
draw_prediction_hints(const struct view *view, struct canvas *line, const struct hint *hints)
{
    char letters[8];
    snprintf(letters, sizeof letters, "a-%c", 'a' + view->predict.count - 1);
    int column = draw_key_word(line, 1, letters, "choose");
    column = draw_key_word(line, column, "Enter", view->predict.chosen >= 0 ? "confirm" : "show it");
    column = draw_key_word(line, column, "Esc", "go on");
    struct canvas rest = canvas_part(line, 0, column - 1, 1, line->width - column + 1);
    draw_hints(&rest, hints);
}

void
keys_draw(const struct model *model, const struct view *view, struct canvas *line)
{
    static const struct hint question[] = { /* behind its own */
        { CMD_back, "back" }, { CMD_inspect, "inspect" }, { CMD_help, "help" }, { CMD_quit, "quit" }, { 0, NULL }
    };
    static const struct hint stepping[] = {
        { CMD_step, "step" }, { CMD_next, "stage" }, { CMD_finish, "finish" }, { CMD_continue, "cont" },
        { CMD_back, "back" }, { CMD_break, "break" }, { CMD_inspect, "inspect" }, { CMD_help, "help" },
        { CMD_quit, "quit" }, { CMD_zoom_in, "zoom" }, { CMD_search, "find" }, { CMD_pane, "pane" },
        { CMD_flow, "flow" }, { CMD_fit, "all" }, { CMD_switch, "switch" }, { 0, NULL }
    };
    static const struct hint pane[] = {
        { CMD_lane_down, "down" }, { CMD_lane_up, "up" }, { CMD_full, "whole screen" }, { CMD_pane, "next pane" },
        { CMD_step, "step" }, { CMD_inspect, "inspect" }, { CMD_help, "help" }, { CMD_quit, "quit" }, { 0, NULL }
    };
    if (line->height <= 0)
        return;
    canvas_fill(line, 0, (struct style){ 0 }, ' ');
    if (view->prompt[0] != '\0')
        canvas_text(line, 0, 1, (struct style){ .ink = INK_DIM }, "Enter does it, Esc leaves it");
    else if (view->help)
        draw_help_hints(view, line);
    else if (view_is_predicting(view))
        draw_prediction_hints(view, line, question);
    else if (view_question(view, model) != NO_EVENT)
        draw_question_hints(model, view, line, question);
    else
        draw_hints(line, view->focus == PANE_TIMELINE ? stepping : pane);
}
