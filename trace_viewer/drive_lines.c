/* What a line does: who carries it out, and what comes of it. Interface: drive_line for a command as text,
 * drive_take_reply once the engine has answered, drive_again then, drive_pause. */
#include "drive.h"

#include "answering.h"
#include "base/str.h"
#include "browse.h"
#include "columns.h"
#include "control/commands.h"
#include "look.h"
#include "options.h"
#include "place.h"
#include "points.h"
#include "trace/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool
goes_forwards(int command)
{
    return command == CMD_step || command == CMD_stage || command == CMD_next || command == CMD_finish ||
           command == CMD_continue || command == CMD_until;
}

static void
ask_engine(struct driver *driver, int command, const char *line)
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
            drive_take_reply(driver);
    }
    driver->breaks |= breaks_takes(command);
    if (session_ask(session, line))
        driver->view->run = RUN_RUNNING;
    else
        drive_take_reply(driver);
}

/* Looking is the viewer's, also with an engine. `set` is both. */
static bool
is_looking(const struct command_line *line)
{
    if ((command_info(line->command)->scope & SCOPE_VIEWER) != 0 || line->command == CMD_where)
        return true;
    return line->command == CMD_info || (line->command == CMD_set && options_own(line->rest));
}

/* A place that is no event's number becomes one: engine and record know nothing else. */
static bool
settle_place(struct driver *driver, struct command_line *line, char *text, size_t size)
{
    char   why[256];
    size_t seq;
    if (line->command != CMD_goto || line->has_count)
        return true;
    if (!place_find(driver->model, driver->view->cursor, line->rest, &seq, why, sizeof why)) {
        view_say(driver->view, "%s", why);
        return false;
    }
    snprintf(text, size, "goto %zu", seq);
    return command_parse(text, line, why, sizeof why);
}

/* What the driver has to do itself, as it is not of the trace or the view. false: it is another command. */
static bool
carries_itself(struct driver *driver, const struct command_line *line)
{
    switch (line->command) {
    case CMD_leave:   driver->leave = true; return true;
    case CMD_suspend: driver->wish = WISH_SUSPEND; return true;
    case CMD_edit:    driver->wish = WISH_EDIT; return true;
    case CMD_redraw:  driver->wish = WISH_REDRAW; return true;
    case CMD_type:    prompt_open(&driver->view->prompt, ":"); return true;
    default:          return false;
    }
}

/* Off the screen, or asked for by name: one may want to come back. */
static void
note_jump(struct driver *driver, int command, size_t before)
{
    static const int jumps[] = { CMD_goto, CMD_first, CMD_last, CMD_flow, CMD_fault, CMD_rfault };
    struct view *view = driver->view;
    if (before == NO_EVENT || view->cursor == before || command == CMD_jump || before >= driver->model->seen)
        return;
    struct scale scale  = view_scale(view, driver->model, columns_of_time(view->width));
    int          column = scale_column(&scale, trace_time(driver->model->trace, before));
    bool         jumped = column < 0 || column >= scale.columns;
    for (size_t i = 0; i < sizeof jumps / sizeof jumps[0]; i++)
        jumped |= jumps[i] == command;
    if (jumped)
        marks_leave(&view->marks, before);
}

/* A live run does not end by a slip of a finger. */
static void
quit(struct driver *driver, const struct command_line *line)
{
    struct view *view = driver->view;
    bool         open = view->help || view->full, live = driver->session != NULL && driver->session->fd >= 0;
    look(driver->model, view, line);
    driver->view->asks_to_leave = !open && live && (view->run == RUN_PAUSED || view->run == RUN_RUNNING);
    driver->leave |= !open && !driver->view->asks_to_leave;
    if (driver->view->asks_to_leave)
        view_say(view, "the run is not over: s stops it, d detaches from it, Esc stays");
}

static void
carry_out(struct driver *driver, const struct command_line *line, const char *text)
{
    struct view *view = driver->view;
    size_t       before = view->cursor;
    view_veil(view, driver->model);
    driver->from = before;
    if (line->command == CMD_quit) {
        quit(driver, line);
    } else if (is_looking(line)) {
        look(driver->model, view, line);
    } else if (driver->session != NULL && driver->session->fd >= 0) {
        ask_engine(driver, line->command, text);
    } else {
        browse(driver->model, view, line);
    }
    driver->ahead.held |= view->moving || view->search.hunting;
    drive_again(driver);
    note_jump(driver, line->command, before);
    look_settle(view, driver->model);
}

static bool
ends_search(int command)
{
    return strcmp(command_info(command)->group, "stepping") == 0;
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
    if (carries_itself(driver, &line))
        return;
    snprintf(driver->last, sizeof driver->last, "%s", repeat);
    if (line.command != CMD_quit && line.command != CMD_script)
        str_addf(&view->done, "%s\n", repeat);
    bool forwards = goes_forwards(line.command);
    if ((forwards && !answering_lets_pass(view, driver->model)) || !settle_place(driver, &line, repeat, sizeof repeat))
        return;
    if (ends_search(line.command))
        view->search.active = false;
    if (!is_looking(&line))
        view->predict.open = false;
    if (line.command == CMD_until || line.command == CMD_runtil)
        prompt_keep(&view->prompt, "until ", line.rest);
    driver->command = line.command;
    driver->again   = 0;
    if (forwards && line.has_count && asking_count(&view->asking, GIVEN_LATER) > 0) {
        driver->again = line.count - 1;
        line.count    = 1;
        snprintf(repeat, sizeof repeat, "%s", command_info(line.command)->name);
    }
    carry_out(driver, &line, repeat);
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
    search_use(&driver->view->search, driver->model);
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
    view_answer(view, all); /* more than one line: a pane shows it */
}

/* The engine may have run past a question; the viewer stands at it until it is answered. false: it does, or what stands
 * there is hidden, so where the engine stopped and why is not what is seen. */
static bool
stand_at(struct driver *driver, size_t seq)
{
    struct view *view = driver->view;
    view_zoom_running(view, driver->model);
    if (view->cursor == NO_EVENT || view->cursor >= driver->model->seen)
        view_goto(view, driver->model, seq);
    else if (driver->command == CMD_next && predict_ask(view, driver->model, seq))
        return false;
    else
        return browse_move(driver->model, view, seq) &&
               veil_question(driver->model, &view->asking, seq) == NO_EVENT;
    return true;
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

void
drive_take_reply(struct driver *driver)
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
    view->branches = reply.branches;
    view->edited = reply.edited;
    if (reply.trace[0] == '\0' || change_trace(driver, reply.trace))
        model_refresh(driver->model);
    size_t last = driver->model->seen > 0 ? driver->model->seen - 1 : 0;
    bool there = !reply.stands || driver->model->seen == 0 || stand_at(driver, reply.seq < last ? reply.seq : last);
    if (reply.why[0] != '\0')
        view_say(view, "%s", reply.why);
    if (there)
        take_reply_text(view, &reply.text);
    reply_free(&reply);
    if (driver->breaks)
        points_ask(view, driver->session);
}

/* The rest of a counted move, one stop after the other once a question was put off: it ends at the first stop that is
 * hidden, and where it comes no further. */
void
drive_again(struct driver *driver)
{
    struct view *view = driver->view;
    const struct command_line one = { .command = driver->command, .count = 1 };
    while (driver->again > 0 && !view->moving && (driver->session == NULL || !driver->session->waiting)) {
        bool ends = view->cursor == driver->from || answering_waits(view, driver->model) != NO_EVENT;
        driver->again = ends ? 0 : driver->again - 1;
        driver->from  = view->cursor;
        if (ends)
            return;
        if (driver->session != NULL && driver->session->fd >= 0)
            ask_engine(driver, driver->command, command_info(driver->command)->name);
        else
            browse(driver->model, view, &one);
    }
}

/* Between two of its slices the session looks whether this has come; its answer to the command under way follows. */
void
drive_pause(struct driver *driver)
{
    bool running = driver->session != NULL && driver->session->waiting;
    driver->ahead = (struct typed_ahead){ .held = false };
    if (driver->view->moving)
        browse_pause(driver->model, driver->view);
    else if (driver->view->search.hunting)
        driver->view->search.hunting = driver->view->search.telling = false;
    else if (running && control_send(driver->session->fd, "pause\n", 6))
        view_say(driver->view, "asked the engine to pause");
    else
        view_say(driver->view, "nothing is under way; q leaves");
}
