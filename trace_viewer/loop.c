/* The loop. Signals are blocked and asked for, so there are no handlers and nothing happens in the middle of a frame.
 * Interface: loop_run. */
#include "loop.h"

#include "base/vec.h"
#include "cast.h"
#include "edit.h"
#include "frame.h"
#include "strip.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    TICK_MS = 100, SOON_MS = 4, KEYS_A_FRAME = 256, STATE_SLICE = 1 << 17,
    LEARNED_A_FRAME = 1 << 16 /* events; some milliseconds */
};

static const int taken_signals[] = { SIGTERM, SIGHUP, SIGINT, SIGWINCH, SIGTSTP };

static void
signals_taken(sigset_t *set)
{
    sigemptyset(set);
    for (size_t i = 0; i < countof(taken_signals); i++)
        sigaddset(set, taken_signals[i]);
}

/* What has been signalled since the last frame: the one to end by, 0 to go on. */
static int
take_signals(struct term *term)
{
    for (size_t i = 0; i < countof(taken_signals); i++) {
        sigset_t pending, one;
        int number = taken_signals[i];
        if (sigpending(&pending) != 0 || !sigismember(&pending, number))
            continue;
        sigemptyset(&one);
        sigaddset(&one, number);
        sigwait(&one, &number);
        if (number == SIGWINCH)
            term_resize(term);
        else if (number == SIGTSTP)
            term_suspend(term);
        else
            return number;
    }
    return 0;
}

static void
film(struct view *view, const struct canvas *canvas, const struct capabilities *capabilities)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t now_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    if (view->cast == NULL || cast_frame(view->cast, canvas, capabilities, now_ms))
        return;
    cast_close(view->cast);
    view->cast = NULL;
    view_say(view, "the film cannot be written any further, and has ended");
}

/* A slice of the way to the state that the frame shows. true: it is there. */
static bool
approach(struct driver *driver)
{
    return model_approach(driver->model, driver->view->cursor, driver->view->before, STATE_SLICE);
}

static bool
show(struct driver *driver, struct term *term, bool *there)
{
    struct canvas canvas;
    int width, height;
    term_size(term, &width, &height);
    driver->view->width = width;
    driver->view->height = height;
    if (!canvas_init(&canvas, width, height))
        return false;
    *there = approach(driver);
    if (driver->model->seen <= LEARNED_A_FRAME) /* else when nobody waits */
        model_learn(driver->model, LEARNED_A_FRAME);
    view_veil(driver->view, driver->model);
    term_theme(term, driver->view->theme);
    shelf_begin(driver->model->shelf, SHELF_HASTY);
    frame_draw(driver->model, driver->view, &canvas, term_capabilities(term));
    term_show(term, &canvas);
    film(driver->view, &canvas, term_capabilities(term));
    canvas_free(&canvas);
    return true;
}

/* A key asked for what only a terminal can do. */
static void
grant(struct driver *driver, struct term *term)
{
    struct source_place place;
    char                why[256];
    enum wish           wish = driver->wish;
    driver->wish = WISH_NONE;
    if (wish == WISH_SUSPEND)
        term_suspend(term);
    if (wish == WISH_REDRAW)
        term_redraw(term);
    if (wish != WISH_EDIT)
        return;
    if (edit_place(driver->model, driver->view, &place, why, sizeof why)) {
        term_give(term);
        bool edited = edit_run(&place, why, sizeof why);
        term_take(term);
        if (edited)
            return;
    }
    view_say(driver->view, "%s", why);
}

/* All keys that have come; false: the terminal is gone. `any`: there was one. */
static bool
take_keys(struct driver *driver, struct term *term, bool *any)
{
    char key[KEY_ROOM];
    for (int i = 0; i < KEYS_A_FRAME && !driver->leave; i++) {
        if (!term_key(term, key))
            return false;
        if (key[0] == '\0')
            return true;
        *any = true;
        drive_key(driver, key);
        if (driver->wish != WISH_NONE)
            grant(driver, term);
    }
    return true;
}

/* Not at all where there is something to work out (not `there`). `due`: a frame is to be drawn, and the line or the
 * pace holds it up. */
static bool
wait_for_something(const struct driver *driver, bool there, bool due)
{
    bool live = driver->session != NULL && driver->session->fd >= 0;
    if (live && session_has_news(driver->session))
        return true;
    struct pollfd fds[2] = { { .fd = STDIN_FILENO, .events = POLLIN },
                             { .fd = live ? driver->session->fd : -1, .events = POLLIN } };
    int wait = drive_is_busy(driver) || driver->view->arrange.working ? 0 : due ? SOON_MS : there ? TICK_MS : 0;
    int ready = poll(fds, live ? 2 : 1, wait);
    return ready > 0 && live && fds[1].revents != 0;
}

/* One frame in flight, and no more in a second than were asked for. */
static bool
may_show(const struct driver *driver, const struct term *term, int64_t *shown_ms)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    int64_t pace = 1000 / driver->view->settings.of[SETTING_fps];
    if (ms - *shown_ms < pace || term_is_behind(term))
        return false;
    *shown_ms = ms;
    return true;
}

/* What the trace has more; who follows it stands at its last event. */
static bool
take_growth(struct driver *driver)
{
    bool grown = model_refresh(driver->model);
    if (grown && driver->view->arrange.following)
        view_goto(driver->view, driver->model, driver->model->seen - 1);
    return grown;
}

/* A frame that nobody sees, with more time for its rows: what is painted exactly then stays on the shelf. true:
 * nothing of it is rough any more. */
static bool
refine(const struct driver *driver, const struct term *term)
{
    struct canvas canvas;
    if (!canvas_init(&canvas, driver->view->width, driver->view->height))
        return false;
    shelf_begin(driver->model->shelf, SHELF_PATIENT);
    frame_draw(driver->model, driver->view, &canvas, term_capabilities(term));
    canvas_free(&canvas);
    return !shelf_is_rough(driver->model->shelf);
}

/* What is still to be worked out, and whether the last frame could be more exact. */
struct unfinished { bool there, learned; };

static bool
is_done(const struct driver *driver, const struct unfinished *work)
{
    return work->there && work->learned && model_is_whole(driver->model) && !shelf_is_rough(driver->model->shelf);
}

/* Nobody asks for anything: a slice of it. true: there is something new to show. */
static bool
work_on(struct driver *driver, const struct term *term, struct unfinished *work)
{
    if (!work->there)
        return work->there = approach(driver);
    if (!model_is_whole(driver->model))
        return model_arrange(driver->model);
    if (!filter_is_whole(&driver->view->arrange.filter, driver->model))
        return false; /* until it is known which lanes have nothing to show */
    if (shelf_is_rough(driver->model->shelf))
        return refine(driver, term);
    work->learned = !model_learn(driver->model, LEARNED_A_FRAME);
    return work->learned;
}

static int
loop_until_left(struct driver *driver, struct term *term)
{
    struct unfinished work = { .there = true };
    bool changed = true;
    int width = 0, height = 0;
    int64_t shown_ms = 0;
    while (!driver->leave) {
        int w, h, number = take_signals(term);
        if (number != 0)
            return 128 + number;
        term_size(term, &w, &h);
        changed |= w != width || h != height;
        width = w;
        height = h;
        term_mouse(term, driver->view->settings.of[SETTING_mouse] == MOUSE_ON);
        if (changed && may_show(driver, term, &shown_ms)) {
            if (!show(driver, term, &work.there))
                return 2;
            changed = false;
        }
        if (wait_for_something(driver, is_done(driver, &work), changed)) {
            drive_reply(driver);
            changed = true;
        }
        if (!take_keys(driver, term, &changed))
            return 128 + SIGHUP;
        changed |= drive_on(driver);
        if (take_growth(driver))
            work.learned = false, changed = true;
        changed |= arrange_work(driver->view, driver->model);
        if (!changed && !is_done(driver, &work))
            changed = work_on(driver, term, &work);
    }
    return 0;
}

int
loop_run(struct driver *driver, const struct term_options *options)
{
    sigset_t taken, before;
    char why[256];
    signals_taken(&taken);
    sigprocmask(SIG_BLOCK, &taken, &before);
    struct term *term = term_open(options, why, sizeof why);
    int status = 2;
    if (term == NULL)
        fprintf(stderr, "trace_viewer: %s\n", why);
    else
        status = loop_until_left(driver, term);
    term_close(term);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}
