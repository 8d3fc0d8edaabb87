/* The loop. Signals are blocked and asked for, so there are no handlers and nothing happens in the middle of a frame.
 * Interface: loop_run. */
#include "loop.h"

#include "base/vec.h"
#include "cast.h"
#include "frame.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TICK_MS = 100, KEYS_A_FRAME = 256, STATE_SLICE = 1 << 17 /* events; some milliseconds */ };

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
    view_veil(driver->view, driver->model);
    term_theme(term, driver->view->theme);
    frame_draw(driver->model, driver->view, &canvas, term_capabilities(term));
    term_show(term, &canvas);
    film(driver->view, &canvas, term_capabilities(term));
    canvas_free(&canvas);
    return true;
}

/* All keys that have come; false: the terminal is gone. `any`: there was one. */
static bool
take_keys(struct driver *driver, struct term *term, bool *any)
{
    char key[16];
    for (int i = 0; i < KEYS_A_FRAME && !driver->leave; i++) {
        if (!term_key(term, key))
            return false;
        if (key[0] == '\0')
            return true;
        *any = true;
        if (strcmp(key, "^Z") == 0)
            term_suspend(term);
        else
            drive_key(driver, key);
        if (strcmp(key, "^L") == 0)
            term_redraw(term);
    }
    return true;
}

/* Not at all where there is something to work out. */
static bool
wait_for_something(const struct driver *driver, bool there)
{
    bool live = driver->session != NULL && driver->session->fd >= 0;
    if (live && session_has_news(driver->session))
        return true;
    struct pollfd fds[2] = { { .fd = STDIN_FILENO, .events = POLLIN },
                             { .fd = live ? driver->session->fd : -1, .events = POLLIN } };
    int ready = poll(fds, live ? 2 : 1, driver->view->moving || !there ? 0 : TICK_MS);
    return ready > 0 && live && fds[1].revents != 0;
}

static int
loop_until_left(struct driver *driver, struct term *term)
{
    bool changed = true, there = true;
    int width = 0, height = 0;
    while (!driver->leave) {
        int w, h, number = take_signals(term);
        if (number != 0)
            return 128 + number;
        term_size(term, &w, &h);
        changed |= w != width || h != height;
        width = w;
        height = h;
        if (changed && !show(driver, term, &there))
            return 2;
        changed = false;
        if (wait_for_something(driver, there)) {
            drive_reply(driver);
            changed = true;
        }
        if (!take_keys(driver, term, &changed))
            return 128 + SIGHUP;
        changed |= drive_on(driver);
        changed |= model_refresh(driver->model);
        if (!changed && !there)
            changed = there = approach(driver);
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
