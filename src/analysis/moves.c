/* Where moves stop. Each is a question about one event, asked of one event after the other in either direction.
 * Interface in order of use: move_begin, move_search (move_wants between), move_end; move_shows, move_show. */
#include "analysis/moves.h"

#include <string.h>

#include "analysis/story.h"
#include "base/str.h"
#include "base/vec.h"
#include "control/commands.h"
#include "trace/match.h"
#include "trace/reader.h"

/* A run goes on by an eighth of the way that the search has come, so that a short search shows nothing of the future
 * and a long one needs few questions. */
enum { AHEAD_PART = 8, AHEAD_MAX = 4096 };

static bool
is_of_family(const char *name, const char *family)
{
    size_t length = strlen(family);
    return strncmp(name, family, length) == 0 && name[length] == '.';
}

/* ---- what stops ---- */

bool
move_shows(const struct trace *trace, const struct move_rules *rules, size_t seq)
{
    const struct trace_event *event = trace_event(trace, seq);
    const char               *name = event != NULL ? trace_kind(trace, event->kind)->name : "";
    if (is_of_family(name, "memory") || strcmp(name, "comm.numbers") == 0 ||
        strcmp(name, "autograd.graph") == 0) /* contents, as a snapshot */
        return (rules->shown & SHOWN_MEMORY) != 0;
    if (is_of_family(name, "lock"))
        return (rules->shown & SHOWN_LOCKS) != 0;
    return event != NULL;
}

static bool
is_check_that_holds(const struct trace_kind *kind, const struct trace_event *event)
{
    if (strcmp(kind->name, "lesson.check") != 0)
        return false;
    for (int i = 0; i < kind->arg_count; i++)
        if (strcmp(kind->arg_name[i], "ok") == 0)
            return event->args[i] != 0;
    return false;
}

/* How ranks find each other: a handful of stages a rank before anything of the lesson's own comes. */
static bool
is_meeting(const char *name)
{
    return is_of_family(name, "c10d.store") || strcmp(name, "c10d.rendezvous") == 0;
}

static bool
is_stage(const struct move *move, const struct trace_event *event)
{
    static const char *const families[] = { "dp", "ddp", "c10d", "autograd", "module", "optim", "data" };
    if (event->phase == PHASE_END)
        return false;
    const struct trace_kind *kind = trace_kind(move->trace, event->kind);
    if (is_of_family(kind->name, "lesson"))
        return !is_check_that_holds(kind, event) && strcmp(kind->name, "lesson.hint") != 0;
    if (is_meeting(kind->name) && !move->meetings)
        return false;
    if (strcmp(kind->name, "data.index") == 0) /* which samples a batch takes: a point, not a stage */
        return true;
    for (size_t i = 0; event->phase == PHASE_BEGIN && i < countof(families); i++)
        if (is_of_family(kind->name, families[i]))
            return true;
    return false;
}

/* Whoever has a screen is asked: no move goes past a question before one has stood at it. */
static bool
is_asked(const struct move *move)
{
    const struct trace_event *event = trace_event(move->trace, move->at);
    return move->rules->asks && !move->backwards && move->at > move->rules->asked && event != NULL &&
           strcmp(trace_kind(move->trace, event->kind)->name, "lesson.ask") == 0;
}

/* A lock that is held does not nest as stages do. */
static bool
event_nests(const struct trace *trace, const struct trace_event *event)
{
    return event->phase != PHASE_INSTANT && strcmp(trace_kind(trace, event->kind)->name, "lock.hold") != 0;
}

/* The first end of the lane whose begin was not met on the way; backwards the first begin whose end was not. */
static bool
is_way_out(struct move *move, const struct trace_event *event)
{
    if (event->lane != move->lane || !event_nests(move->trace, event))
        return false;
    if (event->phase == (move->backwards ? PHASE_BEGIN : PHASE_END))
        return move->inside == 0 || move->inside-- == 0;
    move->inside++;
    return false;
}

static bool
stops(struct move *move)
{
    const struct trace_event *event = trace_event(move->trace, move->at);
    if (event == NULL)
        return false;
    switch (move->command) {
    case CMD_step:
    case CMD_back:
        return move_shows(move->trace, move->rules, move->at);
    case CMD_stage:
    case CMD_rstage:
        return is_stage(move, event);
    case CMD_finish:
    case CMD_rfinish:
        return is_way_out(move, event);
    case CMD_continue:
    case CMD_rcontinue:
        move->stopped_by = breaks_at(&move->rules->breaks, move->trace, move->at);
        return move->stopped_by != NULL;
    default:
        return match_event(move->match, event, move->at, trace_time(move->trace, move->at));
    }
}

/* ---- a move ---- */

/* A begin event is inside its own stage, an end event outside it; depth counts the stages around the event. */
static bool
begin_finish(struct move *move, struct str *told)
{
    const struct trace_event *here = trace_event(move->trace, move->at);
    bool own = here != NULL && event_nests(move->trace, here) &&
               here->phase == (move->backwards ? PHASE_END : PHASE_BEGIN);
    if (!own && (here == NULL || here->depth == 0)) {
        str_add(told, "no stage surrounds this event\n");
        return false;
    }
    move->lane = here->lane;
    return true;
}

static bool
begin_until(struct move *move, const char *expression, struct str *told)
{
    char why[300];
    struct match_names names = match_names_of_trace(move->trace);
    move->match = match_compile(expression, &names, why, sizeof why);
    if (move->match == NULL)
        str_addf(told, "%s\n", why);
    return move->match != NULL;
}

bool
is_move(int command)
{
    switch (command) {
    case CMD_step:
    case CMD_back:
    case CMD_stage:
    case CMD_rstage:
    case CMD_next:
    case CMD_rnext:
    case CMD_finish:
    case CMD_rfinish:
    case CMD_continue:
    case CMD_rcontinue:
    case CMD_until:
    case CMD_runtil:
        return true;
    }
    return false;
}

bool
move_begin(struct move *move, const struct command_line *line, struct str *told)
{
    move->command = line->command;
    move->from = move->at;
    if ((line->command == CMD_next || line->command == CMD_rnext) && move->story == NULL) {
        str_add(told, "no memory for the story\n");
        return false;
    }
    if (move->rules->asked < move->at)
        move->rules->asked = move->at;
    move->left = line->has_count && line->count > 0 ? (size_t)line->count : 1;
    move->meetings = (move->rules->shown & SHOWN_STORES) != 0 ||
                     strcmp(trace_option_of(move->trace, "show"), "stores") == 0;
    switch (line->command) {
    case CMD_rfinish:
        move->backwards = true;
        return begin_finish(move, told);
    case CMD_finish:
        return begin_finish(move, told);
    case CMD_runtil:
        move->backwards = true;
        return begin_until(move, line->rest, told);
    case CMD_until:
        return begin_until(move, line->rest, told);
    default:
        move->backwards = line->command == CMD_back || line->command == CMD_rstage || line->command == CMD_rnext ||
                          line->command == CMD_rcontinue;
        return true;
    }
}

/* ---- by the story ---- */

/* The counted stop behind `from`; NULL: it is not there, or not settled yet. */
static const struct story_stop *
stop_ahead(const struct move *move)
{
    size_t                   index = story_index(move->story, move->from + 1) + move->left - 1;
    const struct story_stop *stop  = story_at(move->story, index);
    return stop != NULL && stop->at < story_settled(move->story) ? stop : NULL;
}

static const struct story_stop *
stop_behind(const struct move *move)
{
    size_t before = story_index(move->story, move->from);
    return before >= move->left ? story_at(move->story, before - move->left) : NULL;
}

/* What is behind the cursor is known once no round that is open can put a stop there. */
static bool
is_known(const struct move *move)
{
    return move->backwards ? story_settled(move->story) >= move->from : stop_ahead(move) != NULL;
}

/* A question on the way that nobody has been asked comes first. */
static enum move_result
stand_at(struct move *move, const struct story_stop *stop, size_t limit, size_t slice)
{
    for (; move->rules->asks && !move->backwards && move->at < limit; slice--) {
        if (slice == 0)
            return MOVE_GOES_ON;
        move->at++;
        if (is_asked(move))
            return MOVE_STOPPED;
    }
    move->at = limit;
    return stop != NULL ? MOVE_STOPPED : MOVE_AT_EDGE;
}

/* The story is read as far as the answer lies; whoever waits for it looks up in between. */
static enum move_result
search_story(struct move *move, size_t count, size_t slice)
{
    size_t seen = story_seen(move->story), to = seen + slice < count ? seen + slice : count;
    bool   known = is_known(move);
    if (!known && !story_read(move->story, to))
        return MOVE_NO_MEMORY;
    bool whole = to == count || story_seen(move->story) == seen; /* or no more of it can be read */
    if (!known && whole && move->ended && !story_close(move->story))
        return MOVE_NO_MEMORY;
    known = is_known(move);
    if (!known && !whole)
        return MOVE_GOES_ON;
    if (!known && move->backwards) {
        move->at = count - 1;
        return MOVE_AT_EDGE;
    }
    const struct story_stop *stop = move->backwards ? stop_behind(move) : stop_ahead(move);
    return stand_at(move, stop, stop != NULL ? stop->at : move->backwards ? 0 : count - 1, slice);
}

enum move_result
move_search(struct move *move, size_t count, size_t slice)
{
    if (move->command == CMD_next || move->command == CMD_rnext)
        return search_story(move, count, slice);
    for (; slice > 0; slice--) {
        if (move->backwards ? move->at == 0 : move->at + 1 >= count)
            return MOVE_AT_EDGE;
        move->at = move->backwards ? move->at - 1 : move->at + 1;
        if ((stops(move) && --move->left == 0) || is_asked(move))
            return MOVE_STOPPED;
    }
    return MOVE_GOES_ON;
}

/* However the counted stops lie, that many events at least come before the last of them. */
size_t
move_wants(const struct move *move)
{
    size_t ahead = move->left;
    if (move->command != CMD_step && ahead < (move->at - move->from) / AHEAD_PART)
        ahead = (move->at - move->from) / AHEAD_PART;
    return move->at + (ahead < AHEAD_MAX ? ahead : AHEAD_MAX);
}

void
move_end(struct move *move)
{
    if (move->match != NULL)
        match_free(move->match);
    move->match = NULL;
}

bool
move_show(struct move_rules *rules, const char *what, struct str *told)
{
    static const struct { const char *what; unsigned shown; const char *told; } words[] = {
        { "none",   0,            "step passes over memory and lock events" },
        { "memory", SHOWN_MEMORY, "step stops at memory events, not at locks" },
        { "locks",  SHOWN_LOCKS,  "step stops at lock events, not at memory" },
        { "stores", SHOWN_STORES, "stage stops at each rendezvous and store; step passes over memory and lock events" },
        { "all",    SHOWN_MEMORY | SHOWN_LOCKS | SHOWN_STORES, "step stops at every event, stage at stores too" },
    };
    for (size_t i = 0; i < countof(words); i++)
        if (strcmp(words[i].what, what) == 0) {
            rules->shown = words[i].shown;
            str_addf(told, "%s\n", words[i].told);
            return true;
        }
    str_add(told, "show takes memory, locks, stores, all or none\n");
    return false;
}
