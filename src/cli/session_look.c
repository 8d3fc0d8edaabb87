/* Looking and changing: breakpoints, info, where, print; set, switch, delay, kill. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "analysis/buckets.h"
#include "analysis/graph.h"
#include "analysis/rounds.h"
#include "analysis/state.h"
#include "analysis/story.h"
#include "base/vec.h"
#include "cli/session.h"
#include "cli/session_tensors.h"
#include "trace/reader.h"

/* "  parameters 4096 B, gradients 4096 B": what it is for */
static void
add_roles(struct str *out, const struct state_memory *memory)
{
    const char *between = "  ";
    for (int role = 0; role < MEMORY_ROLES; role++) {
        if (memory->role[role] == 0)
            continue;
        str_addf(out, "%s%s %" PRIu64 " B", between, memory_role_name((enum memory_role)role), memory->role[role]);
        between = ", ";
    }
    if (memory->allocated > 0)
        str_add(out, "\n");
}

static bool
info_memory(struct session *session, struct str *out)
{
    int last = -1;
    for (size_t i = 0; i < trace_lanes(session->trace); i++)
        if (trace_lane_at(session->trace, i)->device > last)
            last = trace_lane_at(session->trace, i)->device;
    for (int device = -1; device <= last; device++) {
        struct state_memory memory = state_memory(session->state, device);
        if (device < 0)
            str_add(out, "cpu");
        else
            str_addf(out, "device:%d", device);
        str_addf(out, ": %" PRIu64 " B in %" PRIu64 " blocks, peak %" PRIu64 " B", memory.allocated, memory.blocks,
                 memory.peak);
        if (memory.reserved > 0)
            str_addf(out, ", reserved %" PRIu64 " B", memory.reserved);
        str_add(out, "\n");
        add_roles(out, &memory);
    }
    return session_tell_blocks(session, last, out);
}

static void
info_locks(struct session *session, struct str *out)
{
    struct state_lock locks[64];
    size_t            count = state_locks(session->state, locks, countof(locks));
    if (count == 0)
        str_add(out, "no lock was taken yet\n");
    for (size_t i = 0; i < count && i < countof(locks); i++)
        str_addf(out, "%s: %s%s, %zu wait\n", locks[i].name, locks[i].holder_lane >= 0 ? "held by " : "free",
                 locks[i].holder_lane >= 0 ? trace_lane_at(session->trace, (size_t)locks[i].holder_lane)->name : "",
                 locks[i].waiting);
}

static bool
info_ring(struct session *session, struct str *out)
{
    struct rounds *rounds = rounds_at(session->trace, session->state, session->cursor);
    if (rounds != NULL)
        rounds_print(rounds, out);
    else
        str_add(out, "out of memory\n");
    rounds_free(rounds);
    return rounds != NULL;
}

static bool
info_graph(struct session *session, struct str *out)
{
    struct backward *backward = backward_at(session->trace, session->state, session->cursor);
    if (backward != NULL)
        backward_print(backward, out);
    else
        str_add(out, "out of memory\n");
    backward_free(backward);
    return backward != NULL;
}

static bool
tell_info(struct session *session, const char *what, struct str *out)
{
    if (!state_seek(session->state, session->cursor)) {
        str_add(out, "out of memory\n");
        return false;
    }
    if (strcmp(what, "breaks") == 0)
        breaks_list(&session->rules.breaks, out);
    else if (strcmp(what, "memory") == 0)
        return info_memory(session, out);
    else if (strncmp(what, "tensor", 6) == 0 && (what[6] == '\0' || what[6] == ' '))
        return session_tell_tensors(session, what + 6 + strspn(what + 6, " "), out);
    else if (strcmp(what, "buckets") == 0)
        buckets_print(session->trace, session->state, session->cursor, out);
    else if (strcmp(what, "locks") == 0)
        info_locks(session, out);
    else if (strcmp(what, "ring") == 0)
        return info_ring(session, out);
    else if (strcmp(what, "graph") == 0)
        return info_graph(session, out);
    else if (strcmp(what, "tasks") == 0)
        return session_wind(session, out) && session_ask(session, "tasks", out);
    else {
        str_add(out, "info takes breaks, tasks, locks, buckets, memory, ring, graph or tensor [NAME]\n");
        return false;
    }
    return true;
}

static bool
print_name(struct session *session, const char *name, struct str *out)
{
    if (name[0] == '\0') {
        str_add(out, "print takes a name, e.g. print fc1.weight.grad\n");
        return false;
    }
    char request[600];
    snprintf(request, sizeof request, "print %s", name);
    return session_wind(session, out) && session_ask(session, request, out);
}

/* The story's sentence first. */
static bool
tell_where(struct session *session, struct str *out)
{
    if (!story_read(session->story, session->head + 1)) {
        str_add(out, "no memory for the story\n");
        return false;
    }
    story_tell_line(session->story, session->cursor, out);
    trace_print_event(session->trace, session->cursor, out);
    str_add(out, "\n");
    return true;
}

bool
session_look(struct session *session, const struct command_line *line, struct str *out)
{
    if (breaks_takes(line->command))
        return breaks_command(&session->rules.breaks, session->trace, session->cursor, line, out);
    switch (line->command) {
    case CMD_show:
        return move_show(&session->rules, line->rest, out);
    case CMD_info:
        return tell_info(session, line->rest, out);
    case CMD_print:
        return print_name(session, line->rest, out);
    default:
        return tell_where(session, out);
    }
}

bool
session_change(struct session *session, const struct command_line *line, struct str *out)
{
    char request[600];
    snprintf(request, sizeof request, "%s %s", command_info(line->command)->name, line->rest);
    if (strlen(request) >= sizeof session->edits->line) {
        str_add(out, "that is too long for one edit\n");
        return false;
    }
    if (!session_wind(session, out) || !session_ask(session, request, out))
        return false;
    return session_run_edited(session, request, out);
}
