/* One loop over the listener and the screens' connections. Interface: screens_serve. */
#include "cli/screens.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include "base/vec.h"

enum { SCREENS_MOST = 16, PATIENCE = 2 }; /* PATIENCE: seconds for a screen that does not read what it is told */

struct screen {
    struct control_reader reader;  /* its fd is the connection */
    struct str            line;    /* as much as has come of what it asks */
    int                   told;    /* the run of which it knows the trace */
};

struct screens {
    struct session *session;
    int             listener;
    bool            stays;         /* somebody has detached: the session waits for the next one */
    struct screen   list[SCREENS_MOST];
    int             count;
};

/* "at" answers what this screen asked; "now" tells what another one has done. */
static bool
tell_screen(struct session *session, struct screen *screen, const char *word, const char *text)
{
    struct str reply = { 0 };
    str_addf(&reply, "%s %" PRIu64 " state=%s\n", word, session->cursor, session_state_name(session));
    if (screen->told != session->shown)
        str_addf(&reply, "trace %s\n", session->trace_path);
    screen->told = session->shown;
    if (session->run_count > 1)
        session_tell_branches(session, &reply);
    if (session->edit_count > 0)
        str_addf(&reply, "edited %" PRIu64 " %s\n", session->edits[0].seq, session->edits[0].line);
    for (const char *line = text; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        str_add(&reply, line[0] == '.' ? " " : ""); /* a lone "." ends the reply */
        str_add_bytes(&reply, line, length);
        str_add(&reply, "\n");
        line += length + (line[length] != '\0');
    }
    str_add(&reply, ".\n");
    bool sent = str_ok(&reply) && control_send(screen->reader.fd, reply.text, reply.len);
    str_free(&reply);
    return sent;
}

static void
drop_screen(struct screens *screens, int index)
{
    close(screens->list[index].reader.fd);
    str_free(&screens->list[index].line);
    screens->list[index] = screens->list[--screens->count];
}

/* One too many is told so by its connection's end. */
static void
take_screen(struct screens *screens)
{
    int fd = accept(screens->listener, NULL, NULL);
    if (fd < 0)
        return;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){ .tv_sec = PATIENCE }, sizeof(struct timeval));
    if (screens->count == SCREENS_MOST) {
        close(fd);
        return;
    }
    screens->list[screens->count++] = (struct screen){ .reader = { .fd = fd } };
    screens->stays = false;
}

/* The others see it too. One that does not take its news any more is gone: its connection's end tells the loop so. */
static void
tell_others(struct screens *screens, int asked)
{
    for (int i = screens->count - 1; i >= 0; i--)
        if (i != asked && screens->list[i].told > 0 && !tell_screen(screens->session, &screens->list[i], "now", ""))
            shutdown(screens->list[i].reader.fd, SHUT_RDWR);
}

/* false: the screen has left. */
static bool
serve_line(struct screens *screens, int index, const char *line)
{
    struct session *session = screens->session;
    struct screen  *screen  = &screens->list[index];
    struct str      out     = { 0 };
    uint64_t        before  = session->cursor;
    int             shown   = session->shown;
    if (strcmp(line, "detach") == 0) {
        screens->stays = true;
        return false;
    }
    session->viewer   = screen->reader.fd;
    session->again_ms = -1;
    session_command(session, line, &out);
    session->viewer = -1;
    if (session->again_ms >= 0)
        str_addf(&out, "for that the run began again, up to event %" PRIu64 ", in %" PRId64 " ms\n",
                 session->engine_head, session->again_ms);
    bool there = tell_screen(session, screen, "at", str_text(&out));
    if (session->cursor != before || session->shown != shown)
        tell_others(screens, index);
    str_free(&out);
    return there;
}

/* Lines that came together with the first are there already, and no poll tells of them. */
static bool
has_line(const struct control_reader *reader)
{
    size_t rest = reader->used - reader->at;
    return rest > 0 && memchr(reader->buffer + reader->at, '\n', rest) != NULL;
}

/* Half a line waits for its other half, and nobody else does. */
static void
serve_screen(struct screens *screens, int index)
{
    struct screen *screen = &screens->list[index];
    do {
        enum heard heard = control_hear(&screen->reader, &screen->line);
        if (heard == HEARD_PART)
            return;
        if (heard == HEARD_GONE || !serve_line(screens, index, str_text(&screen->line))) {
            drop_screen(screens, index);
            return;
        }
        str_clear(&screen->line);
    } while (has_line(&screen->reader) && !screens->session->quit);
}

/* Until the first screen has come; false: it never will. */
static bool
await_first(struct screens *screens, int ready)
{
    struct pollfd ends[2] = { { .fd = screens->listener, .events = POLLIN }, { .fd = ready } };
    while (poll(ends, 2, -1) < 0)
        if (errno != EINTR)
            return false;
    if (ends[0].revents != 0)
        take_screen(screens);
    return screens->count > 0;
}

void
screens_serve(struct session *session, int listener, int ready)
{
    struct screens screens = { .session = session, .listener = listener };
    bool           wanted  = await_first(&screens, ready);
    while (wanted && !session->quit && (screens.count > 0 || screens.stays)) {
        struct pollfd ends[SCREENS_MOST + 1] = { { .fd = listener, .events = POLLIN } };
        int           count = screens.count;
        for (int i = 0; i < count; i++)
            ends[i + 1] = (struct pollfd){ .fd = screens.list[i].reader.fd, .events = POLLIN };
        if (poll(ends, (nfds_t)count + 1, -1) < 0 && errno != EINTR)
            break;
        for (int i = count - 1; i >= 0 && !session->quit; i--) /* from the last: one that leaves moves the last up */
            if (ends[i + 1].revents != 0)
                serve_screen(&screens, i);
        if (ends[0].revents != 0)
            take_screen(&screens);
    }
    while (screens.count > 0)
        drop_screen(&screens, screens.count - 1);
    shutdown(listener, SHUT_RDWR); /* the engine's process has it, too */
    close(listener);
}
