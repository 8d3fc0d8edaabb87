/* Stepping: the cursor goes through the recorded trace; where the record ends, the engine goes on in slices. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "cli/session.h"
#include "trace/match.h"
#include "trace/reader.h"

/* How far the engine goes on before the record is searched again: an eighth of the way that the search has come, so
 * that a short search shows nothing of the future and a long one needs few questions. */
enum { SLICE_MAX = 4096, FAULT_SEARCH = 4096 };

static uint64_t
slice(uint64_t come)
{
    uint64_t ahead = come / 8;
    return ahead < SLICE_MAX ? ahead : SLICE_MAX;
}

static const struct trace_event *
event_at(struct session *session, uint64_t seq)
{
    if (!session_reach(session, seq))
        return NULL;
    return trace_event(session->trace, seq);
}

/* Why the run failed: what the last fault among its last events says. */
const char *
session_failure(const struct session *session, uint32_t *line)
{
    size_t count = trace_count(session->trace);
    *line        = 0;
    for (size_t seq = count; seq > 0 && count - seq < FAULT_SEARCH; seq--) {
        const struct trace_event *event = trace_event(session->trace, seq - 1);
        const struct trace_kind  *kind  = event != NULL ? trace_kind(session->trace, event->kind) : NULL;
        if (kind == NULL || strncmp(kind->name, "fault.", 6) != 0)
            continue;
        *line = event->line;
        for (int i = 0; i < kind->arg_count; i++)
            if (strcmp(kind->arg_name[i], "message") == 0 || strcmp(kind->arg_name[i], "report") == 0)
                return trace_text_at(session->trace, event->args[i]);
    }
    return "";
}

static void
say_end(struct session *session, struct str *out)
{
    if (session->died)
        str_addf(out, "the engine is gone after event %" PRIu64 "\n", session->cursor);
    else if (session->status == 0)
        str_addf(out, "the run has ended at event %" PRIu64 "\n", session->cursor);
    else
        str_addf(out, "the run has failed (exit status %d) at event %" PRIu64 "\n", session->status, session->cursor);
}

static bool
go_forward(struct session *session, uint64_t count, struct str *out)
{
    uint64_t target = session->cursor > UINT64_MAX - count ? UINT64_MAX : session->cursor + count;
    if (session_reach(session, target)) {
        session->cursor = target;
        return true;
    }
    session->cursor = session->head;
    say_end(session, out);
    return true;
}

static bool
go_back(struct session *session, uint64_t count, struct str *out)
{
    if (count > session->cursor) {
        str_add(out, "start of the record\n");
        count = session->cursor;
    }
    session->cursor -= count;
    return true;
}

/* A test of one event; answers true where to stop. */
typedef bool stop_test(struct session *session, const struct trace_event *event, uint64_t seq, const void *context,
                       struct str *out);

static bool
scan_forward(struct session *session, stop_test *test, const void *context, struct str *out)
{
    for (uint64_t seq = session->cursor + 1;; seq++) {
        bool beyond = seq > session->head && !session->ended;
        if (beyond && session_interrupted(session)) {
            session->cursor = session->head;
            str_addf(out, "paused at event %" PRIu64 "\n", session->cursor);
            return true;
        }
        if (beyond)
            session_reach(session, seq + slice(seq - session->cursor));
        const struct trace_event *event = event_at(session, seq);
        if (event == NULL)
            break;
        if (test(session, event, seq, context, out)) {
            session->cursor = seq;
            return true;
        }
    }
    session->cursor = session->head;
    say_end(session, out);
    return true;
}

static bool
scan_back(struct session *session, stop_test *test, const void *context, struct str *out)
{
    for (uint64_t seq = session->cursor; seq > 0; seq--) {
        const struct trace_event *event = event_at(session, seq - 1);
        if (event != NULL && test(session, event, seq - 1, context, out)) {
            session->cursor = seq - 1;
            return true;
        }
    }
    session->cursor = 0;
    str_add(out, "start of the record\n");
    return true;
}

static bool
stop_at_break(struct session *session, const struct trace_event *event, uint64_t seq, const void *context,
              struct str *out)
{
    (void)event;
    (void)context;
    return session_break_at(session, seq, out);
}

static bool
stop_at_match(struct session *session, const struct trace_event *event, uint64_t seq, const void *context,
              struct str *out)
{
    (void)out;
    return match_event(context, event, seq, trace_time(session->trace, seq));
}

/* What a person steps from and to: a stage's begin, what the lesson says, a task's two ends. Allocations and the like
 * are passed over. */
static bool
is_landmark(struct session *session, const struct trace_event *event)
{
    const char *name = trace_kind(session->trace, event->kind)->name;
    return event->phase == PHASE_BEGIN || strncmp(name, "lesson.", 7) == 0 || strncmp(name, "task.", 5) == 0;
}

/* The next landmark of the same lane, not deeper; or the end of the stage around it. */
static bool
stop_at_sibling(struct session *session, const struct trace_event *event, uint64_t seq, const void *context,
                struct str *out)
{
    const struct trace_event *from = context;
    (void)seq;
    (void)out;
    if (event->lane != from->lane || event->depth > from->depth)
        return false;
    return event->phase == PHASE_END ? event->depth < from->depth : is_landmark(session, event);
}

static bool
move_siblings(struct session *session, const struct command_line *line, struct str *out)
{
    int64_t count = line->has_count ? line->count : 1;
    for (int64_t i = 0; i < count; i++) {
        const struct trace_event *here = trace_event(session->trace, session->cursor);
        if (here == NULL)
            return true;
        struct trace_event from = *here;
        uint64_t           was  = session->cursor;
        if (line->command == CMD_next)
            scan_forward(session, stop_at_sibling, &from, out);
        else
            scan_back(session, stop_at_sibling, &from, out);
        if (session->cursor == was)
            break;
    }
    return true;
}

struct enclosing { uint32_t lane; int depth; };

static bool
stop_at_stage_end(struct session *session, const struct trace_event *event, uint64_t seq, const void *context,
                  struct str *out)
{
    const struct enclosing *stage = context;
    (void)session;
    (void)seq;
    (void)out;
    return event->lane == stage->lane && event->phase == PHASE_END && event->depth <= stage->depth;
}

static bool
stop_at_stage_begin(struct session *session, const struct trace_event *event, uint64_t seq, const void *context,
                    struct str *out)
{
    const struct enclosing *stage = context;
    (void)session;
    (void)seq;
    (void)out;
    return event->lane == stage->lane && event->phase == PHASE_BEGIN && event->depth <= stage->depth;
}

/* A begin event is inside its own stage, an end event outside it; depth counts the stages around the event. */
static bool
move_out(struct session *session, bool forward, struct str *out)
{
    const struct trace_event *here = trace_event(session->trace, session->cursor);
    if (here == NULL)
        return true;
    int own   = forward ? here->phase == PHASE_BEGIN : here->phase == PHASE_END;
    int depth = (int)here->depth - (own ? 0 : 1);
    if (depth < 0) {
        str_add(out, "no stage surrounds this event\n");
        return false;
    }
    struct enclosing stage = { here->lane, depth };
    return forward ? scan_forward(session, stop_at_stage_end, &stage, out)
                   : scan_back(session, stop_at_stage_begin, &stage, out);
}

static bool
move_until(struct session *session, const struct command_line *line, struct str *out)
{
    char               why[300];
    struct match_names names = match_names_of_trace(session->trace);
    struct match      *match = match_compile(line->rest, &names, why, sizeof why);
    if (match == NULL) {
        str_addf(out, "%s\n", why);
        return false;
    }
    if (line->command == CMD_until)
        scan_forward(session, stop_at_match, match, out);
    else
        scan_back(session, stop_at_match, match, out);
    match_free(match);
    return true;
}

static bool
move_to(struct session *session, const struct command_line *line, struct str *out)
{
    char    *end;
    uint64_t seq = line->has_count ? (uint64_t)line->count : strtoull(line->rest, &end, 10);
    if ((!line->has_count && (line->rest[0] < '0' || line->rest[0] > '9')) || (line->has_count && line->count < 0)) {
        str_add(out, "goto takes an event's number, e.g. goto 118\n");
        return false;
    }
    if (seq > session->cursor)
        return go_forward(session, seq - session->cursor, out);
    session->cursor = seq;
    return true;
}

bool
session_move(struct session *session, const struct command_line *line, struct str *out)
{
    uint64_t count = line->has_count && line->count > 0 ? (uint64_t)line->count : 1;
    switch (line->command) {
    case CMD_step:
        return go_forward(session, count, out);
    case CMD_back:
        return go_back(session, count, out);
    case CMD_next:
    case CMD_rnext:
        return move_siblings(session, line, out);
    case CMD_finish:
    case CMD_rfinish:
        return move_out(session, line->command == CMD_finish, out);
    case CMD_continue:
        return scan_forward(session, stop_at_break, NULL, out);
    case CMD_rcontinue:
        return scan_back(session, stop_at_break, NULL, out);
    case CMD_until:
    case CMD_runtil:
        return move_until(session, line, out);
    case CMD_goto:
        return move_to(session, line, out);
    default:
        str_addf(out, "%s belongs to the viewer\n", command_info(line->command)->name);
        return false;
    }
}
