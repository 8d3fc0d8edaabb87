/* What a key does. Interface: drive_key for each key, drive_line for a command as text, drive_reply when the engine
 * has answered. */
#include "drive.h"

#include "base/str.h"
#include "base/vec.h"
#include "browse.h"
#include "control/commands.h"
#include "keys.h"
#include "look.h"
#include "question.h"
#include "trace/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Forwards past a question only when its answer was asked for or given. */
static bool
held_by_question(struct driver *driver, int command)
{
    bool forwards = command == CMD_step || command == CMD_next || command == CMD_finish || command == CMD_continue ||
                    command == CMD_until;
    if (!forwards || view_question(driver->view, driver->model) == NO_EVENT)
        return false;
    view_say(driver->view, question_choices(driver->model, driver->view->cursor) > 0
                               ? "first your answer: think, then its letter; Enter shows it"
                               : "first your answer: think, then Enter shows it");
    return true;
}

static void take_reply(struct driver *driver);

static void
ask_engine(struct driver *driver, const char *line)
{
    struct session *session = driver->session;
    if (session->waiting) {
        driver->ahead.held = true;
        snprintf(driver->ahead.line, sizeof driver->ahead.line, "%s", line);
        view_say(driver->view, "%.60s waits for the engine's next stop; ^C takes it back", line);
        return;
    }
    if (driver->view->cursor != NO_EVENT && driver->view->cursor != session->at) {
        char go[48]; /* one looked elsewhere since: go on from there */
        snprintf(go, sizeof go, "goto %zu", driver->view->cursor);
        if (session_ask(session, go))
            take_reply(driver);
    }
    if (session_ask(session, line))
        driver->view->run = RUN_RUNNING;
    else
        take_reply(driver);
}

/* Looking is the viewer's, also with an engine; only `info breaks` asks for what the engine knows. */
static bool
is_looking(const struct command_line *line)
{
    if ((command_info(line->command)->scope & SCOPE_VIEWER) != 0 || line->command == CMD_where)
        return true;
    return line->command == CMD_info && strncmp(line->rest, "br", 2) != 0;
}

void
drive_line(struct driver *driver, const char *text)
{
    struct view *view = driver->view;
    struct command_line line;
    char why[256], repeat[640];
    snprintf(repeat, sizeof repeat, "%s", text[strspn(text, " ")] == '\0' ? driver->last : text);
    if (!command_parse(repeat, &line, why, sizeof why)) {
        view_say(view, "%s", why);
        return;
    }
    snprintf(driver->last, sizeof driver->last, "%s", repeat);
    if (line.command != CMD_quit && line.command != CMD_script)
        str_addf(&view->done, "%s\n", repeat);
    if (held_by_question(driver, line.command))
        return;
    view_veil(view, driver->model);
    if (is_looking(&line)) {
        if (!look(driver->model, view, &line))
            driver->leave = true;
        driver->ahead.held |= view->moving;
    } else if (driver->session != NULL && driver->session->fd >= 0) {
        ask_engine(driver, repeat);
    } else {
        browse(driver->model, view, &line);
        driver->ahead.held = view->moving;
    }
    if (line.command != CMD_search && line.command != CMD_match && line.command != CMD_rmatch &&
        (command_info(line.command)->scope & SCOPE_VIEWER) == 0)
        view->searching = false;
}

/* The engine has another trace now (it ran again, to go back): the old one is closed once the new one is open. */
static bool
change_trace(struct driver *driver, const char *path)
{
    char why[256];
    struct model fresh;
    struct trace *trace = trace_open(path, why, sizeof why);
    if (trace == NULL || !model_open(&fresh, trace)) {
        view_say(driver->view, "%s", trace == NULL ? why : "out of memory");
        return false;
    }
    view_use(driver->view, trace);
    model_close(driver->model);
    *driver->model = fresh;
    return true;
}

static void
take_reply_text(struct view *view, struct str *text)
{
    const char *all = str_text(text), *newline = strchr(all, '\n');
    if (all[0] == '\0')
        return;
    view_say(view, "%.*s", (int)(newline != NULL ? newline - all : 500), all);
    if (newline == NULL || newline[1] == '\0')
        return;
    char *copy = strdup(all); /* more than one line: the inspector shows it */
    if (copy == NULL)
        return;
    free(view->answer);
    view->answer = copy;
    view->chosen = PANE_ANSWER;
    view->panes[PANE_ANSWER].scroll = 0;
}

/* The engine may have run past a question; the viewer stands at it until it is answered. false: it does, so where the
 * engine stopped and why is not what is seen. */
static bool
stand_at(struct driver *driver, size_t seq)
{
    struct view *view = driver->view;
    view_zoom_running(view, driver->model);
    if (view->cursor == NO_EVENT || view->cursor >= driver->model->seen)
        view_goto(view, driver->model, seq);
    else
        return browse_move(driver->model, view, seq);
    return true;
}

/* What was typed meanwhile is done now: the line, then the keys, until one has to wait again. */
static void
catch_up(struct driver *driver)
{
    struct typed_ahead ahead = driver->ahead;
    driver->ahead = (struct typed_ahead){ .held = false };
    bool asks = ahead.line[0] != '\0';
    if (!ahead.held || (asks && driver->view->run != RUN_PAUSED))
        return;
    if (asks)
        drive_line(driver, ahead.line);
    for (int i = 0; i < ahead.count && !driver->leave; i++)
        drive_key(driver, ahead.keys[i]);
}

/* Of an engine that is gone the sentence stays on the screen. */
static void
keep_last_words(struct view *view, const struct reply *reply)
{
    const char *words = strstr(str_text(&reply->text), "engine gone");
    if (reply->run != RUN_GONE)
        view->gone[0] = '\0';
    else if (words != NULL)
        snprintf(view->gone, sizeof view->gone, "%.*s", (int)strcspn(words, "\n"), words);
}

static void
take_reply(struct driver *driver)
{
    struct view *view = driver->view;
    struct reply reply;
    if (!session_answer(driver->session, &reply)) {
        view->run = RUN_GONE;
        model_refresh(driver->model);
        snprintf(view->gone, sizeof view->gone, "the session is gone; its record of %zu events stays",
                 driver->model->seen);
        view_say(view, "%s", view->gone);
        return;
    }
    view->run = reply.run;
    view->message[0] = '\0';
    keep_last_words(view, &reply);
    if (reply.trace[0] == '\0' || change_trace(driver, reply.trace))
        model_refresh(driver->model);
    size_t last = driver->model->seen > 0 ? driver->model->seen - 1 : 0;
    bool there = !reply.stands || driver->model->seen == 0 || stand_at(driver, reply.seq < last ? reply.seq : last);
    if (reply.why[0] != '\0')
        view_say(view, "%s", reply.why);
    if (there)
        take_reply_text(view, &reply.text);
    reply_free(&reply);
}

void
drive_reply(struct driver *driver)
{
    take_reply(driver);
    if (driver->ahead.held)
        catch_up(driver);
}

bool
drive_on(struct driver *driver)
{
    if (!driver->view->moving)
        return false;
    if (!browse_on(driver->model, driver->view))
        catch_up(driver);
    return true;
}

/* Between two of its slices the session looks whether this has come; its answer to the command under way follows. */
static void
pause_engine(struct driver *driver)
{
    bool running = driver->session != NULL && driver->session->waiting;
    driver->ahead = (struct typed_ahead){ .held = false };
    if (driver->view->moving)
        browse_pause(driver->model, driver->view);
    else if (running && control_send(driver->session->fd, "pause\n", 6))
        view_say(driver->view, "asked the engine to pause");
    else
        view_say(driver->view, "nothing is under way; q leaves");
}

/* Tab: the command's name as far as what was typed decides it. */
static void
complete_command(struct view *view)
{
    const char *first = NULL;
    size_t      typed = strlen(view->typed), common = 0;
    int         found = 0;
    for (int i = 0; i < CMD_COUNT && strcmp(view->prompt, ":") == 0; i++) {
        const char *name = command_info(i)->name;
        if (strncmp(name, view->typed, typed) != 0)
            continue;
        common = found++ == 0 ? strlen(name) : common;
        first  = first == NULL ? name : first;
        while (strncmp(first, name, common) != 0)
            common--;
    }
    if (found > 0)
        snprintf(view->typed, sizeof view->typed, "%.*s%s", (int)common, first, found == 1 ? " " : "");
}

static void
prompt_key(struct driver *driver, const char *key)
{
    struct view *view = driver->view;
    size_t length = strlen(view->typed), more = strcmp(key, "Space") == 0 ? 1 : strlen(key);
    bool printable = strcmp(key, "Space") == 0 || (key[0] != '\0' && (key[1] == '\0' || (key[0] & 0x80) != 0));
    if (strcmp(key, "Enter") == 0) {
        char line[640];
        bool colon = strcmp(view->prompt, ":") == 0;
        snprintf(line, sizeof line, "%s%s", colon ? "" : view->prompt, view->typed);
        view->prompt[0] = '\0';
        drive_line(driver, line);
    } else if (strcmp(key, "Esc") == 0 || strcmp(key, "^C") == 0) {
        view->prompt[0] = '\0';
    } else if (strcmp(key, "Tab") == 0) {
        complete_command(view);
    } else if (strcmp(key, "Backspace") == 0) {
        while (length > 0 && ((unsigned char)view->typed[--length] & 0xc0) == 0x80)
            continue;
        view->typed[length] = '\0';
    } else if (printable && length + more < sizeof view->typed) {
        memcpy(view->typed + length, strcmp(key, "Space") == 0 ? " " : key, more);
        view->typed[length + more] = '\0';
    }
}

static void
open_prompt(struct view *view, const char *prompt)
{
    snprintf(view->prompt, sizeof view->prompt, "%s", prompt);
    view->typed[0] = '\0';
}

static void
command_key(struct driver *driver, int command)
{
    const struct command_info *info = command_info(command);
    char line[64];
    bool required = info->args[0] != '\0' && info->args[0] != '[';
    if (command == CMD_info) {
        drive_line(driver, "info breaks");
    } else if (required && (driver->count == 0 || strstr(info->args, "EXPR") != NULL)) {
        snprintf(line, sizeof line, "%s ", info->name);
        open_prompt(driver->view, line);
    } else if (driver->count > 0 && info->args[0] != '\0' && command != CMD_break) {
        snprintf(line, sizeof line, "%s %lld", info->name, (long long)driver->count);
        drive_line(driver, line);
    } else {
        drive_line(driver, info->name);
    }
    driver->count = 0;
}

static void
escape(struct driver *driver)
{
    struct view *view = driver->view;
    driver->count = 0;
    view->searching = view->help = view->full = false;
    view->focus = PANE_TIMELINE;
}

/* No key acts beneath the list of keys: some page it, some close it. */
static void
help_key(struct driver *driver, const char *key, int command)
{
    static const int pages[] = { CMD_lane_up, CMD_lane_down, CMD_page_up, CMD_page_down, CMD_first, CMD_last };
    bool closes = command == CMD_help || command == CMD_quit || command == CMD_into || strcmp(key, "Esc") == 0;
    if (strcmp(key, "Space") == 0)
        command = CMD_page_down;
    else if (strcmp(key, "Backspace") == 0)
        command = CMD_page_up;
    for (size_t i = 0; i < countof(pages); i++)
        if (command == pages[i])
            look(driver->model, driver->view, &(struct command_line){ .command = command, .count = 1 });
    if (closes)
        driver->view->help = false;
}

/* At an open question the letters of its choices are answers. */
static bool
answer_key(struct driver *driver, const char *key)
{
    size_t question = view_question(driver->view, driver->model);
    if (question == NO_EVENT || driver->view->searching || key[0] < 'a' || key[1] != '\0' ||
        key[0] >= 'a' + question_choices(driver->model, question))
        return false;
    look_answer(driver->view, driver->model, question, key[0] - 'a');
    return true;
}

void
drive_key(struct driver *driver, const char *key)
{
    struct view *view = driver->view;
    struct typed_ahead *ahead = &driver->ahead;
    bool leaves = strcmp(key, "^C") == 0 || strcmp(key, "Q") == 0;
    if (ahead->held && !leaves && (size_t)ahead->count < countof(ahead->keys)) {
        snprintf(ahead->keys[ahead->count++], sizeof ahead->keys[0], "%.15s", key);
        return;
    }
    if (view->prompt[0] != '\0') {
        prompt_key(driver, key);
        return;
    }
    view->message[0] = '\0';
    if (view->help && !leaves) {
        help_key(driver, key, keys_command(key));
        return;
    }
    bool digit = key[0] >= '0' && key[0] <= '9' && key[1] == '\0';
    if (digit && (key[0] != '0' || driver->count > 0)) {
        if (driver->count < 100000000)
            driver->count = driver->count * 10 + (key[0] - '0');
        view_say(view, "%lld", (long long)driver->count);
        return;
    }
    if (answer_key(driver, key))
        return;
    int command = keys_command(key);
    if (view->searching && (command == CMD_next || command == CMD_rnext) && key[1] == '\0')
        command = command == CMD_next ? CMD_match : CMD_rmatch;
    if (strcmp(key, "Q") == 0)
        driver->leave = true;
    else if (strcmp(key, ":") == 0)
        open_prompt(view, ":");
    else if (strcmp(key, "Esc") == 0)
        escape(driver);
    else if (strcmp(key, "^C") == 0)
        pause_engine(driver);
    else if (command >= 0)
        command_key(driver, command);
    else
        view_say(view, "no command has the key %s; ? lists them", key);
}
