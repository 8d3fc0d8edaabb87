/* Talking to a running engine. Interface in order of use: session_ask, session_answer, reply_free. */
#include "session.h"

#include "base/vec.h"
#include "control/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool
gone(struct session *session)
{
    if (session->fd >= 0)
        close(session->fd);
    session->fd = -1;
    session->waiting = false;
    return false;
}

bool
session_ask(struct session *session, const char *line)
{
    if (session->fd < 0)
        return false;
    if (!control_send(session->fd, line, strlen(line)) || !control_send(session->fd, "\n", 1))
        return gone(session);
    session->waiting = true;
    return true;
}

/* "at SEQ state=paused why=TEXT", or "now ...": why takes the rest of the line. */
static bool
parse_status(const char *line, struct reply *reply)
{
    static const struct { const char *word; enum run_state run; } states[] = {
        { "paused", RUN_PAUSED }, { "finished", RUN_FINISHED }, { "failed", RUN_FAILED }, { "dead", RUN_GONE },
    };
    size_t word = strcspn(line, " ") + 1;
    reply->news = strncmp(line, "now ", 4) == 0;
    if (strncmp(line, "at ", 3) != 0 && !reply->news)
        return false;
    char *end;
    reply->seq = (size_t)strtoull(line + word, &end, 10);
    if (end == line + word)
        return false;
    reply->stands = true;
    const char *state = strstr(end, "state="), *why = strstr(end, "why=");
    for (size_t i = 0; state != NULL && i < countof(states); i++)
        if (strncmp(state + 6, states[i].word, strlen(states[i].word)) == 0)
            reply->run = states[i].run;
    if (why != NULL)
        snprintf(reply->why, sizeof reply->why, "%s", why + 4);
    return true;
}

void
reply_parse(const char *text, struct reply *reply)
{
    *reply = (struct reply){ .run = RUN_PAUSED };
    bool first = true;
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        char line[4096];
        snprintf(line, sizeof line, "%.*s", (int)(length < sizeof line ? length : sizeof line - 1), text);
        bool known = first && parse_status(line, reply);
        if (!known && strncmp(line, "trace ", 6) == 0 && reply->text.len == 0) {
            snprintf(reply->trace, sizeof reply->trace, "%s", line + 6);
            known = true;
        }
        known = known || (reply->text.len == 0 && branches_take(&reply->branches, line));
        known = known || (reply->text.len == 0 && edited_take(&reply->edited, line));
        if (!known) {
            str_add_bytes(&reply->text, text, length);
            str_add(&reply->text, "\n");
        }
        first = false;
        text += length + (text[length] == '\n');
    }
}

/* One reply, whatever it is. */
static bool
read_reply(struct session *session, struct reply *reply)
{
    struct str text = { 0 };
    *reply = (struct reply){ .run = RUN_GONE };
    session->reader.fd = session->fd;
    bool good = session->fd >= 0 && control_reply(&session->reader, &text);
    if (good)
        reply_parse(str_text(&text), reply);
    str_free(&text);
    return good;
}

bool
session_has_news(const struct session *session)
{
    return session->fd >= 0 && session->reader.used > session->reader.at;
}

bool
session_answer(struct session *session, struct reply *reply)
{
    char trace[sizeof reply->trace] = "";
    bool asked = session->waiting, good = read_reply(session, reply);
    while (good && asked && reply->news) {
        if (reply->trace[0] != '\0')
            memcpy(trace, reply->trace, sizeof trace);
        reply_free(reply);
        good = read_reply(session, reply);
    }
    if (reply->trace[0] == '\0')
        memcpy(reply->trace, trace, sizeof trace);
    session->waiting = false;
    if (reply->stands)
        session->at = reply->seq;
    return good || gone(session);
}

void
reply_free(struct reply *reply)
{
    str_free(&reply->text);
}
