/* Stepping: the cursor goes through the recorded trace; where the record ends, the engine goes on in slices. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "cli/session.h"
#include "trace/match.h"
#include "trace/reader.h"

enum { SEARCH_SLICE = 65536 }; /* events searched before one looks whether the viewer has said pause */

/* A batch tells it at its end. */
static void
say_failure(const struct session *session, struct str *out)
{
    struct session_failure failure = session_failure(session);
    str_addf(out, "the run has failed (exit status %d) at event %" PRIu64, session->status, session->cursor);
    char words[200];
    session_last_words(session, words, sizeof words);
    if (failure.kind[0] != '\0' && session->viewer >= 0)
        str_addf(out, ": %s: %.*s", failure.kind, (int)strcspn(failure.message, "\n"), failure.message);
    else if (words[0] != '\0')
        str_addf(out, ": %s", words);
    str_add(out, "\n");
}

static void
say_end(struct session *session, struct str *out)
{
    if (session->died && session->starved)
        str_addf(out, "out of memory: no more is recorded than event %" PRIu64 "\n", session->head);
    else if (session->died)
        session_print_death(session, out);
    else if (session->status == 0 && trace_events_lost(session->trace) > 0)
        str_addf(out, "the record ends at event %" PRIu64 ", the run went on: there was no room for %" PRIu64
                 " events more\n", session->cursor, trace_events_lost(session->trace));
    else if (session->status == 0)
        str_addf(out, "the run has ended at event %" PRIu64 "\n", session->cursor);
    else
        say_failure(session, out);
}

/* Nothing stopped it: it stands at the edge of the record, forwards at the run's end. */
static void
stand_at_run_edge(struct session *session, const struct move *move, struct str *out)
{
    if (move->match != NULL)
        str_addf(out, "no %s event for which %s: ", move->backwards ? "earlier" : "further", match_text(move->match));
    session->cursor = move->at;
    if (move->backwards)
        str_add(out, "start of the record\n");
    else
        say_end(session, out);
}

/* A batch says what it is asked, unless it goes event by event; a viewer shows it, and waits for the answer. */
static void
say_question(const struct session *session, const struct move *move, struct str *out)
{
    bool by_events = move->command == CMD_step || move->command == CMD_back;
    const struct trace_event *event = trace_event(session->trace, session->cursor);
    const struct trace_kind  *kind  = event != NULL ? trace_kind(session->trace, event->kind) : NULL;
    if (kind != NULL && session->viewer < 0 && !by_events && strcmp(kind->name, "lesson.ask") == 0)
        str_addf(out, "a question: %s\n", trace_text_at(session->trace, event->args[0]));
}

/* Searches what is recorded, then lets the engine go on, until the move stops, pauses or has no way left. */
static void
search_record(struct session *session, struct move *move, struct str *out)
{
    enum move_result result;
    while (move->ended = session->ended,
           (result = move_search(move, session->head + 1, SEARCH_SLICE)) != MOVE_STOPPED) {
        if (result == MOVE_NO_MEMORY) {
            session->starved = true;
            str_add(out, "no memory for the story\n");
            return;
        }
        bool at_edge = result == MOVE_AT_EDGE, at_start = move->backwards && move->at == 0;
        if (at_edge && (at_start || session->ended)) {
            stand_at_run_edge(session, move, out);
            return;
        }
        if (session_interrupted(session)) {
            session->cursor = move->command == CMD_rnext ? session->cursor : move->at;
            str_addf(out, "paused at event %" PRIu64 "\n", session->cursor);
            return;
        }
        if (at_edge)
            session_reach(session, move_wants(move));
    }
    session->cursor = move->at;
    if (move->stopped_by != NULL)
        breaks_print_stop(move->stopped_by, session->trace, session->cursor, out);
    say_question(session, move, out);
}

static bool
goes_back(int command)
{
    return command == CMD_back || command == CMD_rnext || command == CMD_rstage || command == CMD_rfinish ||
           command == CMD_rcontinue || command == CMD_runtil;
}

static bool
move_by_rule(struct session *session, const struct command_line *line, struct str *out)
{
    if (!goes_back(line->command) && !session_bring(session, out))
        return false;
    session->rules.asks = session->viewer >= 0; /* a batch answers by itself */
    struct move move = { .trace = session->trace, .rules = &session->rules, .story = session->story,
                         .at = session->cursor };
    if (!move_begin(&move, line, out))
        return false;
    search_record(session, &move, out);
    move_end(&move);
    return true;
}

static bool
move_to(struct session *session, const struct command_line *line, struct str *out)
{
    char    *end = NULL;
    uint64_t seq = line->has_count ? (uint64_t)line->count : strtoull(line->rest, &end, 10);
    if ((!line->has_count && (*end != '\0' || end == line->rest)) || (line->has_count && line->count < 0)) {
        str_add(out, "goto takes an event's number, e.g. goto 118\n");
        return false;
    }
    if (seq > session->head && !session_bring(session, out))
        return false;
    bool there = seq <= session->cursor || session_reach(session, seq);
    session->cursor = there ? seq : session->head;
    if (!there)
        say_end(session, out);
    return true;
}

bool
session_move(struct session *session, const struct command_line *line, struct str *out)
{
    if (is_move(line->command))
        return move_by_rule(session, line, out);
    if (line->command == CMD_goto)
        return move_to(session, line, out);
    str_addf(out, "%s belongs to the viewer\n", command_info(line->command)->name);
    return false;
}
