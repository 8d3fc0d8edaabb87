/* Keys. Interface: keys_take for keys written as text; keys_hints and keys_draw for the last line, keys_help for the
 * list of all of them, keys_explain for one. */
#include "keys.h"

#include "answering.h"
#include "base/str.h"
#include "control/commands.h"
#include "find.h"
#include "legend.h"
#include "panes.h"
#include "question.h"

#include <stdio.h>
#include <string.h>

enum { HELP_COLUMNS = 60, HELP_ROWS = 1000 };

void
keys_take(const char **text, char key[KEY_ROOM])
{
    const char *at = *text;
    size_t length = strcspn(at, ">");
    if (at[0] == '<' && at[1] != '\0' && at[length] == '>' && length > 1 && length < KEY_ROOM) {
        memcpy(key, at + 1, length - 1);
        key[length - 1] = '\0';
        *text = at + length + 1;
        return;
    }
    length = at[0] != '\0';
    while (((unsigned char)at[length] & 0xc0) == 0x80 && length < 4)
        length++;
    memcpy(key, at, length);
    key[length] = '\0';
    *text = at + length;
    if (key[0] == ' ')
        snprintf(key, KEY_ROOM, "Space");
    if (key[0] == '\n' || key[0] == '\r')
        snprintf(key, KEY_ROOM, "Enter");
    if (key[0] == '\t')
        snprintf(key, KEY_ROOM, "Tab");
}

static void
keys_of(const struct view *view, int command, char out[64])
{
    binds_keys_of(&view->binds, view->settings.of[SETTING_keys], command, out, 64);
}

/* ---- the list ---- */

struct help_line { const char *keys, *name, *help; };

/* One command: its keys, its name and what it does, on a narrow screen below them. */
static void
help_row(struct canvas *canvas, const struct help_line *line, struct lines *lines)
{
    if (canvas->width < HELP_COLUMNS) {
        char head[128];
        snprintf(head, sizeof head, "%s%s%s", line->keys, line->keys[0] != '\0' ? "  " : "", line->name);
        canvas_wrap(canvas, lines, 1, (struct style){ .attr = ATTR_BOLD }, head);
        canvas_wrap(canvas, lines, 3, (struct style){ 0 }, line->help);
        return;
    }
    if (lines->skip == 0) {
        canvas_cut(canvas, (struct stretch){ lines->row, 2, 12 },
                   (struct style){ .ink = INK_ACCENT, .attr = ATTR_BOLD }, line->keys);
        canvas_cut(canvas, (struct stretch){ lines->row, 15, 12 }, (struct style){ .attr = ATTR_BOLD }, line->name);
    }
    canvas_wrap(canvas, lines, 28, (struct style){ 0 }, line->help);
}

static void
help_heading(struct canvas *canvas, const char *text, struct lines *lines)
{
    canvas_wrap(canvas, lines, 1, (struct style){ .attr = ATTR_UNDERLINE }, text);
}

static void
help_command(const struct view *view, struct canvas *canvas, int command, struct lines *lines)
{
    const struct command_info *info = command_info(command);
    char keys[64];
    keys_of(view, command, keys);
    help_row(canvas, &(struct help_line){ keys, info->name, info->help }, lines);
}

/* A group's name above its first command, and its commands. */
static void
help_group(const struct view *view, struct canvas *canvas, int first, struct lines *lines)
{
    const char *group = command_info(first)->group;
    help_heading(canvas, group, lines);
    for (int i = first; i < CMD_COUNT; i++)
        if (strcmp(command_info(i)->group, group) == 0)
            help_command(view, canvas, i, lines);
}

/* Of the pane that has the keys, its own and those that move in it. */
static void
help_pane(const struct view *view, struct canvas *canvas, struct lines *lines)
{
    static const int moving[] = { CMD_lane_down, CMD_lane_up, CMD_page_down, CMD_page_up, CMD_full, CMD_pane };
    if (view->focus == PANE_TIMELINE)
        return;
    const struct pane_kind *kind = pane_kind(view->focus);
    char heading[64];
    snprintf(heading, sizeof heading, "in this pane, %.40s", kind->name);
    help_heading(canvas, heading, lines);
    for (const struct pane_key *own = kind->keys; own != NULL && own->key != NULL; own++)
        help_row(canvas, &(struct help_line){ own->key, own->word, own->help }, lines);
    for (size_t i = 0; i < sizeof moving / sizeof moving[0]; i++)
        help_command(view, canvas, moving[i], lines);
}

static void
help_bound(const struct view *view, struct canvas *canvas, struct lines *lines)
{
    if (view->binds.count > 0)
        help_heading(canvas, "your own", lines);
    for (size_t i = 0; i < view->binds.count; i++)
        help_row(canvas, &(struct help_line){ view->binds.rows[i].key, ":", view->binds.rows[i].line }, lines);
}

static int
draw_help(const struct view *view, struct canvas *canvas, int skip)
{
    struct lines lines = { .skip = skip };
    if (view->help == HELP_FIRST) {
        legend_draw(view, canvas, &lines);
        return lines.row;
    }
    canvas_wrap(canvas, &lines, 1, (struct style){ 0 },
                "Digits before a key are a count: 5s. Every command is a : line too, with arguments.");
    help_pane(view, canvas, &lines);
    help_bound(view, canvas, &lines);
    for (int i = 0; i < CMD_COUNT; i++) {
        bool seen = false;
        for (int before = 0; before < i; before++)
            seen |= strcmp(command_info(before)->group, command_info(i)->group) == 0;
        if (!seen)
            help_group(view, canvas, i, &lines);
    }
    return lines.row;
}

void
keys_help(const struct view *view, struct canvas *canvas)
{
    draw_help(view, canvas, view->panes[PANE_TIMELINE].scroll);
}

int
keys_help_lines(const struct view *view)
{
    struct canvas probe;
    if (!canvas_init(&probe, view->width > 0 ? view->width : 1, HELP_ROWS))
        return HELP_ROWS;
    int lines = draw_help(view, &probe, 0);
    canvas_free(&probe);
    return lines;
}

bool
keys_explain(struct view *view, const char *name)
{
    const char         *line;
    char                why[256], keys[64];
    struct command_line parsed;
    int command = binds_command(&view->binds, view->settings.of[SETTING_keys], name, &line);
    if (command < 0 && line != NULL) {
        view_say(view, "%.20s is bound to %s", name, line);
        return true;
    }
    for (int i = 0; i < CMD_COUNT; i++)
        command = strcmp(command_info(i)->name, name) == 0 ? i : command;
    bool known = command >= 0 || command_parse(name, &parsed, why, sizeof why) || strstr(why, " needs ") != NULL;
    if (!known) {
        view_say(view, "%s", why);
        return false;
    }
    command = command >= 0 ? command : parsed.command;
    const struct command_info *info = command_info(command);
    struct str text = { 0 };
    keys_of(view, command, keys);
    str_addf(&text, "%s%s%s %s: %s", keys, keys[0] != '\0' ? "  " : "", info->name, info->args, info->help);
    view_say(view, "%s", str_text(&text));
    view_answer(view, str_text(&text)); /* where a line has no room for it */
    str_free(&text);
    return true;
}

/* ---- the last line ---- */

struct hint { int command; const char *word; };
struct hint_list { struct key_hint *hints; int count, column, width; };

static bool
add_hint(struct hint_list *list, const char *key, const char *word)
{
    int width = (int)strlen(key) + 1 + (int)strlen(word);
    if (key[0] == '\0' || list->count == HINTS || list->column + width >= list->width)
        return false;
    struct key_hint *hint = &list->hints[list->count++];
    *hint = (struct key_hint){ .word = word, .column = list->column, .width = width };
    snprintf(hint->key, sizeof hint->key, "%.*s", KEY_NAME - 1, key);
    list->column += width + 2;
    return true;
}

/* The first of the shortest: "j", not "Down". */
static void
shortest(char keys[64])
{
    const char *best = keys;
    for (const char *at = keys; *at != '\0'; at += strspn(at, " ")) {
        if (strcspn(at, " ") < strcspn(best, " "))
            best = at;
        at += strcspn(at, " ");
    }
    memmove(keys, best, strlen(best) + 1);
    keys[strcspn(keys, " ")] = '\0';
}

/* The shortest key of a command, and what it does in a word. */
static void
add_hints(struct hint_list *list, const struct view *view, const struct hint *hints)
{
    for (; hints->word != NULL; hints++) {
        char keys[64];
        keys_of(view, hints->command, keys);
        shortest(keys);
        add_hint(list, keys, hints->word);
    }
}

/* At a question that waits: the keys that it has. */
static void
add_answers(struct hint_list *list, const struct model *model, const struct view *view)
{
    int  count = question_choices(model, view_question(view, model));
    bool taken = answering_has_keys(view), given = view->asking.chosen >= 0 || view->asking.typed[0] != '\0';
    bool holds = asking_holds(&view->asking, view->cursor);
    char letters[8] = "";
    if (view_is_predicting(view)) {
        count = view->predict.count;
        taken = true;
        given = view->predict.chosen >= 0;
    }
    if (count > 1)
        snprintf(letters, sizeof letters, "a-%c", 'a' + (count - 1) % 26);
    add_hint(list, letters, "choose");
    add_hint(list, "Enter", !taken ? "answer" : given ? "confirm" : "show it");
    add_hint(list, "Esc", view_is_predicting(view) ? "go on" : holds ? "later" : "show it");
}

static void
add_pane_keys(struct hint_list *list, const struct view *view)
{
    const struct pane_kind *kind = pane_kind(view->focus);
    for (const struct pane_key *own = kind->keys; own != NULL && own->key != NULL; own++)
        if (own->word[0] != '\0')
            add_hint(list, own->key, own->word);
}

static const struct hint stepping[] = {
    { CMD_next, "next" }, { CMD_stage, "stage" }, { CMD_step, "step" }, { CMD_finish, "finish" },
    { CMD_continue, "cont" }, { CMD_back, "back" }, { CMD_break, "break" }, { CMD_inspect, "inspect" },
    { CMD_help, "help" }, { CMD_quit, "quit" }, { CMD_zoom_in, "zoom" }, { CMD_search, "find" }, { CMD_pane, "pane" },
    { CMD_flow, "flow" }, { CMD_fit, "all" }, { CMD_switch, "switch" }, { 0, NULL }
};

static void
hints_now(struct hint_list *list, const struct model *model, const struct view *view)
{
    static const struct hint question[] = { /* behind its own */
        { CMD_back, "back" }, { CMD_inspect, "inspect" }, { CMD_help, "help" }, { CMD_quit, "quit" }, { 0, NULL }
    };
    static const struct hint pane[] = {
        { CMD_lane_down, "down" }, { CMD_lane_up, "up" }, { CMD_full, "whole screen" }, { CMD_pane, "next pane" },
        { CMD_step, "step" }, { CMD_inspect, "inspect" }, { CMD_help, "help" }, { CMD_quit, "quit" }, { 0, NULL }
    };
    static const struct hint first[] = { { CMD_quit, "close" }, { CMD_help, "all keys" }, { 0, NULL } };
    static const struct hint help[] = {
        { CMD_quit, "close" }, { CMD_lane_down, "down" }, { CMD_lane_up, "up" }, { CMD_page_down, "page" },
        { CMD_last, "end" }, { 0, NULL }
    };
    if (view->help == HELP_FIRST)
        add_hints(list, view, first);
    if (view->help != HELP_NONE) {
        add_hints(list, view, view->help == HELP_FIRST ? help + 1 : help);
    } else if (view->asks_to_leave) {
        add_hint(list, "s", "stop it");
        add_hint(list, "d", "detach");
        add_hint(list, "Esc", "stay");
    } else if (view->chooses) {
        add_hint(list, "0-9", "choose a rank");
        add_hint(list, "Enter", "let it go first");
        add_hint(list, "Esc", "close");
    } else if (view_is_predicting(view) || (view_question(view, model) != NO_EVENT && !view->search.active)) {
        bool types = answering_has_keys(view) && question_choices(model, view->cursor) == 0;
        add_answers(list, model, view);
        if (!types)
            add_hints(list, view, question);
    } else if (view->search.active) {
        add_hint(list, "n", "next match");
        add_hint(list, "N", "before");
        add_hint(list, "Esc", "ends it");
        add_hints(list, view, stepping + 2);
    } else if (view->focus != PANE_TIMELINE) {
        add_pane_keys(list, view);
        add_hints(list, view, pane);
    } else {
        add_hints(list, view, stepping);
    }
}

/* At the right: which line of the list is at the top; which match one stands at. */
static void
print_place(const struct view *view, int width, char *out, size_t size)
{
    const struct search *search = &view->search;
    out[0] = '\0';
    if (view->help)
        snprintf(out, size, "line %d of %d ", view->panes[PANE_TIMELINE].scroll + 1, keys_help_lines(view));
    else if (search->active && search->find != NULL)
        snprintf(out, size, "/%.*s %zu/%zu ", width / 4, find_text(search->find), search->place, search->count);
    if (width - (int)strlen(out) <= 10)
        out[0] = '\0';
}

int
keys_hints(const struct model *model, const struct view *view, int width, struct key_hint hints[HINTS])
{
    char place[160];
    print_place(view, width, place, sizeof place);
    struct hint_list list = { .hints = hints, .column = 1, .width = width - (int)strlen(place) };
    if (prompt_is_open(&view->prompt)) {
        add_hint(&list, "Enter", "does it");
        add_hint(&list, "Tab", "completes");
        add_hint(&list, "Up", "recalls");
        add_hint(&list, "Esc", "leaves it");
    } else {
        hints_now(&list, model, view);
    }
    return list.count;
}

void
keys_draw(const struct model *model, const struct view *view, struct canvas *line)
{
    struct key_hint hints[HINTS];
    char            place[160];
    if (line->height <= 0)
        return;
    canvas_fill(line, 0, (struct style){ 0 }, ' ');
    int count = keys_hints(model, view, line->width, hints);
    for (int i = 0; i < count; i++) {
        const struct style key = { .ink = INK_ACCENT, .attr = ATTR_BOLD };
        int column = canvas_text(line, 0, hints[i].column, key, hints[i].key);
        canvas_text(line, 0, column + 1, (struct style){ 0 }, hints[i].word);
    }
    print_place(view, line->width, place, sizeof place);
    if (place[0] != '\0' && !prompt_is_open(&view->prompt))
        canvas_right(line, 0, (struct style){ .ink = view->help ? INK_DIM : INK_ACCENT }, place);
}
