/* What a key does: in a prompt, in the list of keys, at a question, in a pane, or as a command.
 * Interface: drive_key. */
#include "drive.h"

#include "answering.h"
#include "base/vec.h"
#include "chooser.h"
#include "complete.h"
#include "keys.h"
#include "look.h"
#include "mouse.h"
#include "panes.h"

#include <stdio.h>
#include <string.h>

static void
typed_key(struct driver *driver, const char *key)
{
    struct prompt *prompt = &driver->view->prompt;
    char           line[640];
    switch (prompt_key(prompt, key)) {
    case PROMPT_ENTERED:
        snprintf(line, sizeof line, "%s%s", strcmp(prompt->title, ":") == 0 ? "" : strcmp(prompt->title, "/") == 0
                                                ? "search " : prompt->title, prompt->typed);
        prompt_close(prompt);
        drive_line(driver, line);
        break;
    case PROMPT_COMPLETES:
        complete(driver->model, prompt);
        break;
    case PROMPT_LEFT:
    case PROMPT_STAYS:
        break;
    }
}

/* A command by its key: with the count that was typed, or asking for what it needs. */
static void
command_key(struct driver *driver, int command)
{
    const struct command_info *info = command_info(command);
    char line[64];
    bool required = (info->args[0] != '\0' && info->args[0] != '[') || command == CMD_filter;
    if (command == CMD_switch && driver->count == 0) {
        chooser_open(driver->model, driver->view);
    } else if (command == CMD_mark || command == CMD_jump) {
        driver->half = command == CMD_mark ? HALF_MARK : HALF_JUMP;
        view_say(driver->view, command == CMD_mark ? "mark this event as: a letter" : "go to mark: its letter; ' back");
        return; /* the count is for what follows */
    } else if (required && (driver->count == 0 || strstr(info->args, "EXPR") != NULL)) {
        snprintf(line, sizeof line, "%s ", info->name);
        prompt_open(&driver->view->prompt, command == CMD_search ? "/" : line);
    } else if (driver->count > 0 && info->args[0] != '\0' && command != CMD_break) {
        snprintf(line, sizeof line, "%s %lld", info->name, (long long)driver->count);
        drive_line(driver, line);
    } else {
        drive_line(driver, info->name);
    }
    driver->count = 0;
}

/* Out of what is open: a search, the whole screen for a pane, a pane. Where nothing is, out of the zoom. */
static void
escape(struct driver *driver)
{
    struct view *view = driver->view;
    bool open = driver->count > 0 || view->search.active || view->help || view->full || view->focus != PANE_TIMELINE;
    driver->count = 0;
    view->search.active = view->full = false;
    view->help = HELP_NONE;
    view->focus = PANE_TIMELINE;
    size_t waits = answering_waits(view, driver->model);
    if (!open)
        drive_line(driver, waits == NO_EVENT ? "out" : asking_holds(&view->asking, waits) ? "later" : "reveal");
}

/* No key acts beneath the list of keys: some page it, some close it. */
static void
help_key(struct driver *driver, const char *key, int command)
{
    static const int pages[] = { CMD_lane_up, CMD_lane_down, CMD_page_up, CMD_page_down, CMD_first, CMD_last };
    bool closes = command == CMD_quit || command == CMD_into || command == CMD_out;
    if (strcmp(key, "Space") == 0)
        command = CMD_page_down;
    else if (strcmp(key, "Backspace") == 0)
        command = CMD_page_up;
    for (size_t i = 0; i < countof(pages); i++)
        if (command == pages[i])
            look(driver->model, driver->view, &(struct command_line){ .command = command, .count = 1 });
    if (closes)
        driver->view->help = HELP_NONE;
    else if (command == CMD_help)
        look(driver->model, driver->view, &(struct command_line){ .command = command, .count = 1 });
}

/* Keys of the pane that has the keys come before all others. */
static bool
pane_key(struct driver *driver, const char *key)
{
    struct view *view = driver->view;
    const struct pane_kind *kind = view->focus != PANE_TIMELINE ? pane_kind(view->focus) : NULL;
    for (const struct pane_key *own = kind != NULL ? kind->keys : NULL; own != NULL && own->key != NULL; own++)
        if (strcmp(own->key, key) == 0) {
            pane_press(driver->model, view, view->focus, key);
            return true;
        }
    return false;
}

/* The letter behind " or '. */
static void
half_key(struct driver *driver, const char *key)
{
    char line[48];
    bool mark = driver->half == HALF_MARK;
    driver->half = HALF_NONE;
    if (strcmp(key, "Esc") == 0)
        driver->count = 0;
    else if (!mark && strcmp(key, "'") == 0 && driver->count > 0)
        snprintf(line, sizeof line, "jump %lld", (long long)driver->count);
    else if (!mark && strcmp(key, "'") == 0)
        snprintf(line, sizeof line, "jump");
    else
        snprintf(line, sizeof line, "%s %.20s", mark ? "mark" : "jump", key);
    if (strcmp(key, "Esc") != 0)
        drive_line(driver, line);
    driver->count = 0;
}

static void
leaving_key(struct driver *driver, const char *key)
{
    driver->view->asks_to_leave = false;
    driver->detached = strcmp(key, "d") == 0 && control_send(driver->session->fd, "detach\n", 7);
    driver->leave = driver->detached || strcmp(key, "s") == 0 || strcmp(key, "q") == 0;
}

/* Digits before a key; 0 alone is a key. */
static bool
counts(struct driver *driver, const char *key)
{
    bool digit = key[0] >= '0' && key[0] <= '9' && key[1] == '\0';
    if (!digit || (key[0] == '0' && driver->count == 0))
        return false;
    if (driver->count < 100000000)
        driver->count = driver->count * 10 + (key[0] - '0');
    view_say(driver->view, "%lld", (long long)driver->count);
    return true;
}

/* n and N are matches while one searches; only these letters, so that F10 is always the next stop. */
static int
in_search(const struct view *view, const char *key, int command)
{
    if (!view->search.active || key[1] != '\0')
        return command;
    return command == CMD_next ? CMD_match : command == CMD_rnext ? CMD_rmatch : command;
}

static void
act(struct driver *driver, const char *key)
{
    struct view *view = driver->view;
    const char  *line;
    int          command = binds_command(&view->binds, view->settings.of[SETTING_keys], key, &line);
    command = in_search(view, key, command);
    if (command == CMD_out) {
        escape(driver);
    } else if (command == CMD_pause) {
        drive_pause(driver);
    } else if (command >= 0) {
        command_key(driver, command);
    } else if (line != NULL) {
        driver->count = 0;
        drive_line(driver, line);
    } else {
        driver->count = 0;
        view_say(view, "no command has the key %.40s; ? lists them", key);
    }
}

static bool
waits(struct driver *driver, const char *key, bool leaves)
{
    struct typed_ahead *ahead = &driver->ahead;
    if (!ahead->held || leaves || (size_t)ahead->count >= countof(ahead->keys))
        return false;
    snprintf(ahead->keys[ahead->count++], sizeof ahead->keys[0], "%.*s", KEY_ROOM - 1, key);
    return true;
}

/* What a pane has asked for. */
static void
carry_todo(struct driver *driver)
{
    struct view *view = driver->view;
    char line[sizeof view->todo];
    memcpy(line, view->todo, sizeof line);
    view->todo[0] = '\0';
    if (line[0] != '\0' && view->todo_typed) {
        prompt_open(&view->prompt, ":");
        prompt_replace(&view->prompt, 0, line);
    } else if (line[0] != '\0') {
        drive_line(driver, line);
    }
}

static void
act_on_key(struct driver *driver, const char *key)
{
    struct view *view = driver->view;
    const char  *line;
    char         pressed[KEY_NAME];
    int          command = binds_command(&view->binds, view->settings.of[SETTING_keys], key, &line);
    bool         leaves = command == CMD_pause || command == CMD_leave;
    if (waits(driver, key, leaves))
        return;
    if (prompt_is_open(&view->prompt) && !mouse_is(key)) {
        typed_key(driver, key);
        return;
    }
    view->message[0]     = '\0';
    view->search.telling = false;
    if (strncmp(key, "Paste ", 6) == 0)
        view_say(view, "pasted text is no keys; : or / takes it");
    else if (mouse_is(key) && mouse_key(driver, key, pressed))
        drive_key(driver, pressed);
    else if (mouse_is(key))
        return;
    else if (driver->half != HALF_NONE)
        half_key(driver, key);
    else if (driver->view->asks_to_leave && !leaves)
        leaving_key(driver, key);
    else if (view->chooses && !leaves)
        chooser_key(driver->model, view, key);
    else if (view->help && !leaves)
        help_key(driver, key, command);
    else if (!answering_key(view, driver->model, key) && !predict_key(view, driver->model, key) &&
             !counts(driver, key) && !pane_key(driver, key) && !answering_letter(view, driver->model, key))
        act(driver, key);
}

void
drive_key(struct driver *driver, const char *key)
{
    act_on_key(driver, key);
    carry_todo(driver);
}
