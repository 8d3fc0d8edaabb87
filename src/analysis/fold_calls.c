/* What the ranks of a run call and what becomes of them, event by event: the last call of each rank in each group and
 * the last one that is over, who was killed, raised or returned, which lane a task runs on, who set a key of the store.
 * Interface: calls_learn for each kind, calls_fold. */
#include <string.h>

#include "analysis/internal.h"
#include "trace/reader.h"

static const struct { const char *name; enum call_fact fact; const char *args[4]; } call_facts[] = {
    { "c10d.issue",      CALL_ISSUE,      { "operation", "sequence", "bytes", "group" } },
    { "c10d.wait",       CALL_WAITED,     { "operation", "sequence", "group" } },
    { "c10d.rendezvous", CALL_MEET,       { NULL } },
    { "fault.error",     CALL_ERROR,      { NULL } },
    { "fault.injected",  CALL_INJECTED,   { "kind", "rank" } },
    { "task.start",      CALL_TASK_START, { "task" } },
    { "task.end",        CALL_TASK_END,   { "task", "failed" } },
    { "c10d.store.set",  CALL_STORE_SET,  { "key" } },
};

static int8_t
place_of(const struct trace_kind *kind, const char *name)
{
    for (int at = 0; name != NULL && at < kind->arg_count; at++)
        if (strcmp(kind->arg_name[at], name) == 0)
            return (int8_t)at;
    return -1;
}

void
calls_learn(const struct trace_kind *kind, struct meaning *meaning)
{
    memset(meaning->call_arg, -1, sizeof meaning->call_arg);
    for (size_t i = 0; i < sizeof call_facts / sizeof *call_facts; i++) {
        if (strcmp(call_facts[i].name, kind->name) != 0)
            continue;
        meaning->call = (uint8_t)call_facts[i].fact;
        for (int arg = 0; arg < 4; arg++)
            meaning->call_arg[arg] = place_of(kind, call_facts[i].args[arg]);
        return;
    }
    meaning->call_arg[0] = place_of(kind, "sequence");
    if (strncmp(kind->name, "c10d.", 5) == 0 && kind->is_stage && meaning->call_arg[0] >= 0)
        meaning->call = CALL_OVER;
}

static int64_t
argument(const struct meaning *meaning, const struct trace_event *event, int which)
{
    return meaning->call_arg[which] >= 0 ? event->args[meaning->call_arg[which]] : 0;
}

/* A group's comm task has a lane of its own, "r0 comm" or "r0 comm 2"; elsewhere a collective runs in a c10d.wait,
 * which tells its group itself. -1: that is not known. */
static int64_t
group_of_lane(const struct state *state, const struct trace_event *event)
{
    const struct trace_lane_info *lane = trace_lane_at(state->trace, event->lane);
    const char *name = strstr(lane->name, " comm");
    int64_t     group = 0;
    if (lane->kind != LANE_COMM || name == NULL)
        return -1;
    for (name += 5; *name == ' ' || (*name >= '0' && *name <= '9'); name++)
        if (*name != ' ' && group < 1000000)
            group = group * 10 + (*name - '0');
    return group;
}

static bool
fold_issue(struct state *state, const struct meaning *meaning, const struct trace_event *event, size_t seq)
{
    struct call_row *row = rows_take(&state->now.calls, event->rank, argument(meaning, event, 3), sizeof *row);
    if (row == NULL)
        return false;
    if (row->seq == 0)
        row->done = -1;
    row->operation = argument(meaning, event, 0);
    row->sequence  = argument(meaning, event, 1);
    row->bytes     = argument(meaning, event, 2);
    row->seq       = (uint32_t)seq + 1;
    row->line      = event->line;
    struct rank_row *rank = rows_find(&state->now.ranks, event->rank, 0, NULL);
    if (rank != NULL)
        rank->raised = 0; /* it was caught, and the rank goes on */
    return true;
}

/* What ends since the rank fails is not done. */
static void
fold_over(struct state *state, const struct trace_event *event, int64_t group, int64_t sequence)
{
    const struct rank_row *rank = rows_find(&state->now.ranks, event->rank, 0, NULL);
    struct call_row       *row  = rows_find(&state->now.calls, event->rank, group, NULL);
    if (row == NULL || event->phase != PHASE_END || sequence <= row->done || sequence > row->sequence)
        return;
    if (rank != NULL && (rank->raised != 0 || rank->killed != 0))
        return;
    row->done           = sequence;
    row->done_operation = sequence == row->sequence ? row->operation : 0;
}

static struct rank_row *
take_rank(struct state *state, int64_t rank)
{
    return rows_take(&state->now.ranks, rank, 0, sizeof(struct rank_row));
}

/* Of a rank's tasks the one on its first lane is the rank's own program. */
static bool
is_first_lane(const struct state *state, const struct trace_event *event)
{
    for (uint32_t i = 0; i < event->lane; i++) {
        const struct trace_lane_info *lane = trace_lane_at(state->trace, i);
        if (lane->rank == event->rank && lane->kind == LANE_HOST)
            return false;
    }
    return event->rank >= 0;
}

static bool
fold_task(struct state *state, const struct meaning *meaning, const struct trace_event *event, size_t seq)
{
    struct task_row *task = rows_take(&state->now.tasks, argument(meaning, event, 0), 0, sizeof *task);
    struct rank_row *rank = is_first_lane(state, event) ? take_rank(state, event->rank) : NULL;
    if (task == NULL)
        return false;
    task->lane = event->lane;
    if (rank == NULL)
        return true;
    *rank = (struct rank_row){ .key = rank->key, .lane = event->lane + 1, .raised = rank->raised,
                               .killed = rank->killed };
    if (meaning->call == CALL_TASK_END) {
        rank->ended  = (uint32_t)seq + 1;
        rank->failed = argument(meaning, event, 1) != 0;
    } else {
        rank->raised = rank->killed = 0;
        rows_drop(&state->now.calls, event->rank);
    }
    return true;
}

static bool
fold_end_of_rank(struct state *state, const struct meaning *meaning, const struct trace_event *event, size_t seq)
{
    bool kills = meaning->call == CALL_INJECTED &&
                 strcmp(trace_text_at(state->trace, argument(meaning, event, 0)), "kill") == 0;
    int64_t who = meaning->call == CALL_INJECTED ? argument(meaning, event, 1) : event->rank;
    if (who < 0 || (meaning->call == CALL_INJECTED && !kills))
        return true;
    struct rank_row *rank = take_rank(state, who);
    if (rank == NULL)
        return false;
    *(kills ? &rank->killed : &rank->raised) = (uint32_t)seq + 1;
    return true;
}

static bool
fold_store(struct state *state, const struct meaning *meaning, const struct trace_event *event, size_t seq)
{
    if (event->phase != PHASE_END)
        return true;
    struct store_row *row = rows_take(&state->now.stores, argument(meaning, event, 0), 0, sizeof *row);
    if (row == NULL)
        return false;
    row->seq  = (uint32_t)seq + 1;
    row->rank = event->rank;
    row->times++;
    return true;
}

bool
calls_fold(struct state *state, const struct meaning *meaning, const struct trace_event *event, size_t seq)
{
    switch ((enum call_fact)meaning->call) {
    case CALL_NONE:
        break;
    case CALL_ISSUE:
        return fold_issue(state, meaning, event, seq);
    case CALL_WAITED:
        fold_over(state, event, argument(meaning, event, 2), argument(meaning, event, 1));
        break;
    case CALL_OVER:
        fold_over(state, event, group_of_lane(state, event), argument(meaning, event, 0));
        break;
    case CALL_MEET: /* numbers begin anew */
        if (event->phase == PHASE_BEGIN)
            rows_drop(&state->now.calls, event->rank);
        break;
    case CALL_ERROR:
    case CALL_INJECTED:
        return fold_end_of_rank(state, meaning, event, seq);
    case CALL_TASK_START:
    case CALL_TASK_END:
        return fold_task(state, meaning, event, seq);
    case CALL_STORE_SET:
        return fold_store(state, meaning, event, seq);
    }
    return true;
}
