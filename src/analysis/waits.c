/* The wait-for graph. One pass over the open stages finds what each lane waits in; the calls of all ranks tell who is
 * missing. Interface in order of use: waits_take, the questions, waits_free. */
#include "analysis/waits.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/internal.h"
#include "base/vec.h"
#include "trace/reader.h"

static const struct { const char *kind; enum awaited awaits; const char *name; } wait_kinds[] = {
    { "c10d.wait",              AWAITS_CALL,    "operation" },
    { "c10d.store.wait",        AWAITS_STORE,   "key" },
    { "lock.wait",              AWAITS_LOCK,    "lock" },
    { "task.join",              AWAITS_TASK,    NULL },
    { "comm.receive",           AWAITS_MESSAGE, NULL },
    { "c10d.recv",              AWAITS_MESSAGE, NULL },
    { "c10d.send",              AWAITS_MESSAGE, NULL },
    { "c10d.monitored_barrier", AWAITS_OTHER,   NULL },
    { "c10d.future.wait",       AWAITS_OTHER,   NULL },
    { "data.wait",              AWAITS_OTHER,   NULL },
};

/* What is open on a lane: its innermost stage, the innermost wait, and a call or message that is waited for in it. */
enum { DEEPEST = 256 }; /* stages around one another, as the viewer shows */
struct lane_open { size_t inner, wait, call, message; };

struct taking {
    const struct state *state;
    struct waits       *waits;
    struct lane_open   *open;    /* by lane */
    int8_t             *kinds;   /* by kind: the place in wait_kinds; -1 none */
    size_t              lanes;
};

static bool
argument(const struct trace *trace, size_t seq, const char *name, int64_t *value)
{
    const struct trace_event *event = trace_event(trace, seq);
    const struct trace_kind  *kind  = trace_kind(trace, event->kind);
    for (int i = 0; i < kind->arg_count && i < 4; i++)
        if (strcmp(kind->arg_name[i], name) == 0) {
            *value = event->args[i];
            return true;
        }
    return false;
}

/* ---- what is open ---- */

static bool
learn_wait_kinds(struct taking *taking)
{
    const struct trace *trace = taking->state->trace;
    taking->kinds = malloc(trace_kinds(trace) + 1);
    if (taking->kinds == NULL)
        return false;
    memset(taking->kinds, -1, trace_kinds(trace) + 1);
    for (size_t i = 0; i < countof(wait_kinds); i++) {
        int kind = trace_kind_id(trace, wait_kinds[i].kind);
        if (kind >= 0)
            taking->kinds[kind] = (int8_t)i;
    }
    return true;
}

/* A stage that is open on the lane, from the outermost inwards. */
static void
look_at_stage(const struct taking *taking, struct lane_open *open, size_t seq)
{
    int kind = taking->kinds[trace_event(taking->state->trace, seq)->kind];
    open->inner = seq;
    if (kind < 0)
        return;
    enum awaited awaits = wait_kinds[kind].awaits;
    bool of_call = awaits == AWAITS_MESSAGE && open->call != SIZE_MAX;
    if (awaits == AWAITS_CALL)
        open->call = seq;
    if (awaits == AWAITS_MESSAGE)
        open->message = seq;
    if (!of_call)
        open->wait = seq;
}

static void
look_at_open(struct taking *taking)
{
    for (size_t lane = 0; lane < taking->lanes; lane++) {
        size_t seqs[DEEPEST], count = state_open(taking->state, (uint32_t)lane, seqs, DEEPEST);
        taking->open[lane] = (struct lane_open){ SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX };
        for (size_t i = 0; i < count && i < DEEPEST; i++)
            look_at_stage(taking, &taking->open[lane], seqs[i]);
    }
}

/* ---- calls ---- */

static bool
take_calls(struct taking *taking)
{
    const struct rows *rows = &taking->state->now.calls;
    struct waits      *waits = taking->waits;
    waits->calls = calloc(rows->count + 1, sizeof *waits->calls);
    if (waits->calls == NULL)
        return false;
    const struct call_row *row = (const void *)rows->items;
    for (size_t i = 0; i < rows->count; i++, row++) {
        struct trace *trace = taking->state->trace;
        waits->calls[waits->call_count++] = (struct rank_call){
            .rank = (int)row->key.first, .group = (int)row->key.second, .number = row->sequence, .done = row->done,
            .bytes = row->bytes, .seq = row->seq - 1, .line = row->line,
            .operation = trace_text_at(trace, row->operation),
            .done_operation = row->done_operation > 0 ? trace_text_at(trace, row->done_operation) : "",
        };
    }
    return true;
}

const struct rank_call *
waits_call(const struct waits *waits, int rank, int group)
{
    size_t low = 0, high = waits->call_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct rank_call *call = &waits->calls[middle];
        if (call->rank == rank && call->group == group)
            return call;
        if (call->rank < rank || (call->rank == rank && call->group < group))
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static bool
add_target(struct waits *waits, int rank)
{
    if (!vec_room(&waits->targets, &waits->target_room, waits->target_count + 1, sizeof *waits->targets))
        return false;
    waits->targets[waits->target_count++] = rank;
    return true;
}

/* In the default group all ranks meet, in another those that have called in it. */
static bool
is_missing(const struct taking *taking, int rank, const struct waiter *waiter)
{
    const struct rank_call *call = waits_call(taking->waits, rank, (int)waiter->group);
    if (call == NULL)
        return waiter->group == 0 && waits_of_rank(taking->waits, rank) != NULL;
    return call->number < waiter->number ||
           (call->number == waiter->number && strcmp(call->operation, waiter->name) != 0);
}

/* Who waits in the same call waits for the same ranks. */
static bool
find_missing(struct taking *taking, struct waiter *waiter)
{
    struct waits *waits = taking->waits;
    for (const struct waiter *other = waits->list; other < waiter; other++)
        if (other->awaits == AWAITS_CALL && other->group == waiter->group && other->number == waiter->number &&
            !other->under_way && strcmp(other->name, waiter->name) == 0) {
            waiter->first = other->first;
            waiter->count = other->count;
            return true;
        }
    waiter->first = waits->target_count;
    for (int rank = 0; rank < waits->rank_count; rank++)
        if (rank != waiter->rank && is_missing(taking, rank, waiter) && !add_target(waits, rank))
            return false;
    waiter->count = waits->target_count - waiter->first;
    return true;
}

/* The message that a lane of this rank wants: its own, or its comm task's. */
static size_t
message_of_rank(const struct taking *taking, const struct waiter *waiter)
{
    const struct trace *trace = taking->state->trace;
    size_t found = taking->open[waiter->lane].message;
    for (size_t i = 0; i < taking->lanes && found == SIZE_MAX; i++)
        if (trace_lane_at(trace, i)->rank == waiter->rank && trace_lane_at(trace, i)->kind == LANE_COMM)
            found = taking->open[i].message;
    return found;
}

static bool
await_peer(struct taking *taking, struct waiter *waiter, size_t message)
{
    int64_t peer;
    if (message == SIZE_MAX || !argument(taking->state->trace, message, "peer", &peer) || peer < 0 || peer > INT32_MAX)
        return true;
    waiter->first = taking->waits->target_count;
    waiter->count = 1;
    return add_target(taking->waits, (int)peer);
}

/* The bucket whose all-reduce has this number. */
static void
find_bucket(const struct taking *taking, struct waiter *waiter)
{
    const struct rows *rows = &taking->state->now.buckets;
    const struct bucket_row *row = (const void *)rows->items;
    for (size_t i = 0; i < rows->count; i++, row++)
        if (row->key.first == waiter->rank && row->launched && !row->reduced && row->has_sequence &&
            row->sequence == waiter->number && waiter->group == 0) {
            waiter->bucket = row->key.second;
            waiter->bytes  = row->bytes;
        }
}

static bool
wait_in_call(struct taking *taking, struct waiter *waiter)
{
    struct trace *trace = taking->state->trace;
    int64_t       number = -1, group = 0;
    argument(trace, waiter->seq, "sequence", &number);
    argument(trace, waiter->seq, "group", &group);
    waiter->number = number;
    waiter->group  = group;
    const struct rank_call *call = waits_call(taking->waits, waiter->rank, (int)group);
    if (call != NULL && call->number == number)
        waiter->bytes = call->bytes;
    find_bucket(taking, waiter);
    if (number < 0)
        return await_peer(taking, waiter, message_of_rank(taking, waiter));
    if (!find_missing(taking, waiter))
        return false;
    waiter->under_way = waiter->count == 0;
    return !waiter->under_way || await_peer(taking, waiter, message_of_rank(taking, waiter));
}

/* ---- locks, tasks ---- */

static void
wait_for_lock(const struct taking *taking, struct waiter *waiter)
{
    const struct rows     *rows = &taking->state->now.locks;
    const struct lock_row *row = (const void *)rows->items;
    int64_t text = -1;
    argument(taking->state->trace, waiter->seq, "lock", &text);
    for (size_t i = 0; i < rows->count; i++, row++)
        if (row->key.second == text && row->key.first == waiter->rank) {
            waiter->holder = (int)row->holder - 1;
            waiter->queue  = row->waiting;
        }
}

/* A rank whose program waits for the end of its own comm task is through. */
static void
wait_for_task(const struct taking *taking, struct waiter *waiter)
{
    int64_t task = -1;
    argument(taking->state->trace, waiter->seq, "task", &task);
    const struct task_row *row = rows_find(&taking->state->now.tasks, task, 0, NULL);
    if (row == NULL)
        return;
    waiter->holder = (int)row->lane;
    const struct trace_lane_info *lane = trace_lane_at(taking->state->trace, row->lane);
    waiter->name = lane->name;
    if (waiter->speaks && lane->rank == waiter->rank && lane->kind == LANE_COMM) {
        waiter->stands = STANDS_RETURNED;
        waiter->awaits = AWAITS_NOTHING;
        waiter->line   = 0;
    }
}

/* ---- rows ---- */

static bool
fill_wait(struct taking *taking, struct waiter *waiter)
{
    struct trace *trace = taking->state->trace;
    size_t        seq = taking->open[waiter->lane].wait;
    int           kind = taking->kinds[trace_event(trace, seq)->kind];
    int64_t       text;
    waiter->stands = STANDS_WAITING;
    waiter->awaits = wait_kinds[kind].awaits;
    waiter->seq    = seq;
    waiter->line   = trace_event(trace, seq)->line;
    waiter->name   = trace_kind(trace, trace_event(trace, seq)->kind)->name;
    if (wait_kinds[kind].name != NULL && argument(trace, seq, wait_kinds[kind].name, &text))
        waiter->name = trace_text_at(trace, text);
    switch (waiter->awaits) {
    case AWAITS_CALL:
        return wait_in_call(taking, waiter);
    case AWAITS_MESSAGE:
        return await_peer(taking, waiter, seq);
    case AWAITS_LOCK:
        wait_for_lock(taking, waiter);
        break;
    case AWAITS_TASK:
        wait_for_task(taking, waiter);
        break;
    default:
        break;
    }
    return true;
}

/* An end that was recorded says more than what was open at it. */
static bool
fill_end(const struct taking *taking, struct waiter *waiter)
{
    const struct rank_row *row = rows_find(&taking->state->now.ranks, waiter->rank, 0, NULL);
    if (row == NULL || !waiter->speaks)
        return false;
    size_t   inner = taking->open[waiter->lane].inner;
    bool     goes_on = row->ended == 0 && row->killed == 0 && inner != SIZE_MAX && inner + 1 > row->raised;
    uint32_t at = row->killed != 0 ? row->killed : row->ended != 0 && !row->failed ? row->ended
                : row->raised != 0 ? row->raised : row->ended;
    if (at == 0 || goes_on) /* what it raised was caught */
        return false;
    waiter->stands = row->killed != 0 ? STANDS_KILLED : row->raised != 0 || row->failed ? STANDS_RAISED
                                                                                        : STANDS_RETURNED;
    waiter->seq  = at - 1;
    waiter->line = waiter->stands == STANDS_RETURNED ? 0 : trace_event(taking->state->trace, at - 1)->line;
    return true;
}

static bool
fill(struct taking *taking, struct waiter *waiter)
{
    struct trace           *trace = taking->state->trace;
    const struct lane_open *open  = &taking->open[waiter->lane];
    if (fill_end(taking, waiter))
        return true;
    if (open->wait != SIZE_MAX)
        return fill_wait(taking, waiter);
    const struct rank_row *row = rows_find(&taking->state->now.ranks, waiter->rank, 0, NULL);
    if (open->inner == SIZE_MAX) {
        bool lives = waiter->speaks && row != NULL && row->lane != 0;
        waiter->stands = lives ? STANDS_RUNNING : STANDS_IDLE;
        waiter->name   = lives ? "its own code" : "";
        return true;
    }
    waiter->stands = STANDS_RUNNING;
    waiter->seq    = open->inner;
    waiter->line   = trace_event(trace, open->inner)->line;
    waiter->name   = trace_kind(trace, trace_event(trace, open->inner)->kind)->name;
    return true;
}

static int
compare_waiters(const void *a, const void *b)
{
    const struct waiter *one = a, *other = b;
    uint32_t first = (uint32_t)one->rank, second = (uint32_t)other->rank; /* -1: last */
    if (first != second)
        return first < second ? -1 : 1;
    if (one->speaks != other->speaks)
        return one->speaks ? -1 : 1;
    return one->lane < other->lane ? -1 : one->lane > other->lane;
}

static void
list_lanes(struct taking *taking)
{
    const struct trace *trace = taking->state->trace;
    struct waits       *waits = taking->waits;
    for (size_t i = 0; i < taking->lanes; i++) {
        const struct trace_lane_info *lane = trace_lane_at(trace, i);
        if (lane->kind == LANE_LESSON)
            continue;
        waits->list[waits->count++] = (struct waiter){
            .lane = (uint32_t)i, .rank = lane->rank < 0 ? -1 : lane->rank, .speaks = lane->kind == LANE_HOST,
            .seq = SIZE_MAX, .name = "", .number = -1, .group = -1, .bytes = -1, .bucket = -1, .holder = -1,
        };
        waits->rank_count = lane->rank >= waits->rank_count ? lane->rank + 1 : waits->rank_count;
    }
    qsort(waits->list, waits->count, sizeof *waits->list, compare_waiters);
    for (size_t i = 0; i < waits->count; i++) /* a rank speaks by its first lane */
        waits->list[i].speaks = waits->list[i].rank >= 0 && waits->list[i].speaks &&
                                (i == 0 || waits->list[i - 1].rank != waits->list[i].rank);
}

bool
waits_take(struct waits *waits, const struct state *state)
{
    struct taking taking = { .state = state, .waits = waits, .lanes = trace_lanes(state->trace) };
    *waits = (struct waits){ .list = calloc(taking.lanes + 1, sizeof *waits->list) };
    taking.open = calloc(taking.lanes + 1, sizeof *taking.open);
    bool good = waits->list != NULL && taking.open != NULL && learn_wait_kinds(&taking) && take_calls(&taking);
    if (good) {
        look_at_open(&taking);
        list_lanes(&taking);
    }
    for (size_t i = 0; i < waits->count && good; i++)
        good = fill(&taking, &waits->list[i]);
    free(taking.open);
    free(taking.kinds);
    if (!good)
        waits_free(waits);
    return good;
}

void
waits_free(struct waits *waits)
{
    free(waits->list);
    free(waits->targets);
    free(waits->calls);
    *waits = (struct waits){ 0 };
}

/* ---- questions ---- */

const struct waiter *
waits_of_rank(const struct waits *waits, int rank)
{
    size_t low = 0, high = waits->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uint32_t)waits->list[middle].rank < (uint32_t)rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < waits->count && waits->list[low].rank == rank && waits->list[low].speaks ? &waits->list[low] : NULL;
}

/* The first rank that it waits for and that waits itself; -1: none. */
static int
next_in_circle(const struct waits *waits, int rank)
{
    const struct waiter *waiter = waits_of_rank(waits, rank);
    for (size_t i = 0; waiter != NULL && waiter->stands == STANDS_WAITING && i < waiter->count; i++) {
        const struct waiter *other = waits_of_rank(waits, waits->targets[waiter->first + i]);
        if (other != NULL && other->stands == STANDS_WAITING && other->count > 0)
            return other->rank;
    }
    return -1;
}

size_t
waits_circle(const struct waits *waits, int *ranks, size_t room)
{
    int *seen = calloc((size_t)waits->rank_count + 1, sizeof *seen);
    for (int first = 0; seen != NULL && first < waits->rank_count; first++) {
        int at = first;
        for (; at >= 0 && seen[at] == 0; at = next_in_circle(waits, at))
            seen[at] = first + 1;
        if (at < 0 || seen[at] != first + 1)
            continue;
        size_t count = 0;
        int    met = at;
        do {
            if (count < room)
                ranks[count] = at;
            count++;
            at = next_in_circle(waits, at);
        } while (at != met);
        free(seen);
        return count;
    }
    free(seen);
    return 0;
}

int64_t
waits_done_by_all(const struct waits *waits, int group, const char **operation)
{
    int64_t done = -1;
    bool    any  = false;
    *operation = "";
    for (size_t i = 0; i < waits->call_count; i++) {
        const struct rank_call *call = &waits->calls[i];
        if (call->group != group)
            continue;
        if (!any || call->done < done) {
            done = call->done;
            *operation = "";
        }
        if (call->done == done && call->done_operation[0] != '\0')
            *operation = call->done_operation;
        any = true;
    }
    return done;
}

const struct rank_call *
waits_last_call(const struct waits *waits, int rank)
{
    const struct rank_call *last = NULL;
    for (size_t i = 0; i < waits->call_count; i++)
        if (waits->calls[i].rank == rank && (last == NULL || waits->calls[i].seq > last->seq))
            last = &waits->calls[i];
    return last;
}

/* How many made the same call as `call` as this number of its group. */
static size_t
count_alike(const struct waits *waits, const struct rank_call *call)
{
    size_t alike = 0;
    for (size_t i = 0; i < waits->call_count; i++)
        alike += waits->calls[i].group == call->group && waits->calls[i].number == call->number &&
                 strcmp(waits->calls[i].operation, call->operation) == 0;
    return alike;
}

/* Fewer made its call than another one under the same number. The one that more than half made is the last to be left
 * when those that differ go in pairs. */
static bool
is_alone_with_its_call(const struct waits *waits, const struct waiter *waiter)
{
    const struct rank_call *own = waits_last_call(waits, waiter->rank), *most = NULL;
    size_t left = 0;
    for (size_t i = 0; own != NULL && i < waits->call_count; i++) {
        const struct rank_call *call = &waits->calls[i];
        if (call->group != own->group || call->number != own->number)
            continue;
        if (left == 0)
            most = call;
        left = strcmp(call->operation, most->operation) == 0 ? left + 1 : left - 1;
    }
    return most != NULL && count_alike(waits, own) < count_alike(waits, most);
}

bool
waits_differs(const struct waits *waits, const struct waiter *waiter)
{
    if (!waiter->speaks)
        return false;
    if (waiter->stands == STANDS_KILLED)
        return true;
    bool gone = waiter->stands == STANDS_RETURNED || waiter->stands == STANDS_RAISED;
    for (size_t i = 0; i < waits->target_count && gone; i++)
        if (waits->targets[i] == waiter->rank)
            return true;
    return !gone && is_alone_with_its_call(waits, waiter);
}
