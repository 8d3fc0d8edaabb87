/* How a made trace comes about: each lane opens and closes stages by itself, as the seed has it, and the one whose next
 * turn is earliest goes on. What is open, what is under way and what the plan still asks for is set aside, so that the
 * last event is the plan's last one and nothing stays open behind it.
 *
 * Interface: synth_write. */
#include "cli/synth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/vec.h"
#include "trace/schema.h"
#include "trace/writer.h"

enum { MESSAGES = 16, STORAGES = 64, ARGUMENTS = 4, POOLS = 8, WORDS = 8, DECADES_4 = 14 /* powers of two */ };

static const uint64_t us = 1000000; /* in ps */

enum argument { ARG_NONE, ARG_NUMBER, ARG_BYTES, ARG_DEVICE, ARG_RANK, ARG_STORAGE, ARG_FLAG, ARG_SEQUENCE, ARG_WORLD,
                ARG_ITERATION, ARG_ZERO, ARG_TEXT /* and the pool */ };

/* What is said where an argument of that name is a text; the last row is for all others. */
static const struct { const char *name, *words[WORDS]; } pools[POOLS] = {
    { "op", { "addmm", "relu", "mm", "add", "mul", "cross_entropy", "native_layer_norm", "copy_" } },
    { "module", { "Linear", "ReLU", "LayerNorm", "Embedding", "Conv2d", "Dropout", "Sequential",
                  "MultiheadAttention" } },
    { "node", { "AddmmBackward0", "ReluBackward0", "MulBackward0", "NllLossBackward0", "ViewBackward0", "TBackward0",
                "NativeLayerNormBackward0", "torch::autograd::AccumulateGrad" } },
    { "name", { "layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias", "head.weight", "head.bias",
                "norm.weight", "norm.bias" } },
    { "param", { "layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias", "head.weight", "head.bias",
                 "norm.weight", "norm.bias" } },
    { "role", { "parameter", "gradient", "buffer", "input", "parameter", "gradient", "buffer", "input" } },
    { "indices", { "0 1", "2 3", "4 5", "6 7", "0 1", "2 3", "4 5", "6 7" } },
    { "", { "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth" } },
};

static const uint16_t forward[]  = { KIND_module_forward, KIND_op };
static const uint16_t backward[] = { KIND_autograd_node, KIND_op, KIND_ddp_autograd_hook, KIND_ddp_mark_variable_ready,
                                     KIND_autograd_accumulate, KIND_ddp_copy_to_bucket, KIND_op, KIND_op };
static const uint16_t update[]   = { KIND_op };
static const uint16_t calls[]    = { KIND_c10d_allreduce, KIND_c10d_allreduce, KIND_c10d_allreduce, KIND_c10d_broadcast,
                                     KIND_c10d_allgather, KIND_c10d_reduce_scatter };

struct phase { uint16_t kind; const uint16_t *inner; size_t inner_count; };
static const struct phase training[] = {
    { KIND_ddp_forward, forward, countof(forward) },
    { KIND_autograd_backward, backward, countof(backward) },
    { KIND_optim_step, update, countof(update) },
};
static const struct phase start = { KIND_ddp_init, update, countof(update) };
static const struct phase load  = { KIND_data_load, update, countof(update) };

struct open_stage { uint64_t end; int64_t args[ARGUMENTS]; uint32_t flow; uint16_t kind; uint8_t left; };
struct message    { uint32_t flow; int64_t chunk, bytes, sender, reduce; };

struct synth_lane {
    uint64_t             time;          /* of its next turn */
    struct open_stage   *open;          /* plan->depth of them */
    int                  depth;
    uint32_t             lane, rank, calls; /* calls: outermost stages so far */
    enum lane_kind       kind;
    bool                 main;          /* of its rank */
    bool                 tower;         /* stage in stage, as deep as it goes */
    const struct phase  *phase;
    struct message       inbox[MESSAGES];
    uint32_t             sent_to, taken; /* so far */
};

struct synth_rank {
    uint32_t iteration;
    uint64_t allocated;
    int64_t  last;                      /* storage */
    struct { int64_t storage, bytes; } live[STORAGES];
    int      live_count;
};

struct synth {
    const struct synth_plan *plan;
    struct trace_buffer     *buffer;
    struct trace_writer     *writer;
    struct synth_lane       *lanes;
    struct synth_rank       *ranks;
    struct open_stage       *stages;
    uint32_t                *heap, *comm;  /* lanes by their next turn; lanes of communication */
    size_t                   heap_count, comm_count;
    uint64_t                 random;
    uint64_t                 written, aside;   /* aside: events that have to come yet */
    uint64_t                 flows, faults;    /* so far */
    int64_t                  storages;
    uint8_t                  arguments[KIND_COUNT][ARGUMENTS];
    uint32_t                 words[POOLS][WORDS];
};

static uint64_t
draw(struct synth *s, uint64_t below)
{
    return (uint64_t)(((unsigned __int128)splitmix(&s->random) * below) >> 64);
}

/* Four decades from `least` on, each as likely as the others. */
static uint64_t
draw_length(struct synth *s, uint64_t least)
{
    uint64_t doubled = least << draw(s, DECADES_4);
    return doubled + draw(s, doubled);
}

/* How many may still come that nobody waits for. */
static uint64_t
room(const struct synth *s)
{
    return s->plan->events - s->written - s->aside;
}

/* ---- events ---- */

static bool
write_event(struct synth *s, const struct synth_lane *lane, int phase, const struct open_stage *what)
{
    struct trace_event event = { .time = lane->time, .flow = what->flow, .iteration = s->ranks[lane->rank].iteration,
                                 .lane = lane->lane, .rank = (int16_t)lane->rank, .device = (int16_t)lane->rank,
                                 .phase = (uint8_t)phase, .kind = what->kind,
                                 .depth = (uint8_t)(lane->depth < UINT8_MAX ? lane->depth : UINT8_MAX) };
    memcpy(event.args, what->args, sizeof event.args);
    s->written++;
    return trace_append(s->buffer, &event);
}

static int64_t
draw_argument(struct synth *s, const struct synth_lane *lane, uint8_t argument, uint64_t random)
{
    switch (argument) {
    case ARG_NUMBER:
        return (int64_t)(random >> 32 & 7);
    case ARG_BYTES:
        return INT64_C(64) << (random >> 40) % 20;
    case ARG_DEVICE:
        return (int64_t)lane->rank;
    case ARG_RANK:
        return (int64_t)(random % s->plan->ranks);
    case ARG_STORAGE:
        return s->ranks[lane->rank].last;
    case ARG_FLAG:
        return (int64_t)(random >> 50 & 1);
    case ARG_SEQUENCE:
        return (int64_t)lane->calls;
    case ARG_WORLD:
        return (int64_t)s->plan->ranks;
    case ARG_ITERATION:
        return (int64_t)s->ranks[lane->rank].iteration;
    default:
        return argument >= ARG_TEXT ? (int64_t)s->words[argument - ARG_TEXT][random >> 20 & (WORDS - 1)] : 0;
    }
}

static struct open_stage
draw_stage(struct synth *s, const struct synth_lane *lane, uint16_t kind, uint64_t random)
{
    struct open_stage stage = { .kind = kind };
    for (int i = 0; i < ARGUMENTS; i++)
        stage.args[i] = draw_argument(s, lane, s->arguments[kind][i], random);
    return stage;
}

static bool
begin_stage(struct synth *s, struct synth_lane *lane, const struct open_stage *stage)
{
    if (!write_event(s, lane, PHASE_BEGIN, stage))
        return false;
    lane->open[lane->depth] = *stage;
    lane->open[lane->depth++].flow = 0;
    return true;
}

static bool
end_stage(struct synth *s, struct synth_lane *lane)
{
    struct open_stage *stage = &lane->open[--lane->depth];
    if (stage->kind == KIND_op)
        stage->args[1] = s->ranks[lane->rank].last;
    s->aside--;
    if (!write_event(s, lane, PHASE_END, stage))
        return false;
    if (stage->kind == KIND_optim_step && lane->main)
        s->ranks[lane->rank].iteration++;
    return true;
}

/* ---- instants ---- */

static struct open_stage
allocate(struct synth *s, struct synth_rank *rank, uint64_t random)
{
    int64_t bytes = INT64_C(64) << random % 18, block = (bytes + 511) / 512 * 512;
    rank->last = ++s->storages;
    rank->allocated += (uint64_t)block;
    rank->live[rank->live_count].storage = rank->last;
    rank->live[rank->live_count++].bytes = bytes;
    return (struct open_stage){ .kind = KIND_memory_alloc,
                                .args = { rank->last, bytes, block, (int64_t)rank->allocated } };
}

static struct open_stage
release(struct synth *s, struct synth_rank *rank)
{
    uint64_t at = draw(s, (uint64_t)rank->live_count);
    int64_t  storage = rank->live[at].storage, bytes = rank->live[at].bytes, block = (bytes + 511) / 512 * 512;
    rank->live[at] = rank->live[--rank->live_count];
    rank->allocated -= (uint64_t)block;
    return (struct open_stage){ .kind = KIND_memory_free, .args = { storage, bytes, block, (int64_t)rank->allocated } };
}

static bool
write_instant(struct synth *s, const struct synth_lane *lane)
{
    struct synth_rank *rank   = &s->ranks[lane->rank];
    uint64_t           random = splitmix(&s->random);
    struct open_stage  what;
    if (lane->kind == LANE_STREAM)
        what = draw_stage(s, lane, KIND_stream_record, random);
    else if (lane->kind == LANE_COMM)
        what = draw_stage(s, lane, KIND_comm_numbers, random);
    else if (lane->depth > 0 && lane->open[0].kind == KIND_ddp_init) {
        what = draw_stage(s, lane, KIND_ddp_bucket, random);
        what.args[0] = 3 - lane->open[0].left % 4;
    } else if (rank->live_count == STORAGES || (rank->live_count > 8 && random >> 62 == 0))
        what = release(s, rank);
    else if (rank->live_count < 8 || random >> 63 == 0)
        what = allocate(s, rank, random);
    else
        what = draw_stage(s, lane, random >> 62 == 2 ? KIND_memory_role : KIND_memory_alias, random);
    return write_event(s, lane, PHASE_INSTANT, &what);
}

static bool
write_fault(struct synth *s, const struct synth_lane *lane)
{
    static const uint16_t kinds[] = { KIND_fault_injected, KIND_fault_error, KIND_fault_timeout };
    uint64_t              random  = splitmix(&s->random);
    struct open_stage     what    = draw_stage(s, lane, kinds[s->faults++ % countof(kinds)], random);
    s->aside--;
    return write_event(s, lane, PHASE_INSTANT, &what);
}

static bool
is_fault_due(const struct synth *s)
{
    const struct synth_plan *plan = s->plan;
    return s->faults < plan->faults &&
           (room(s) == 0 || s->written >= (s->faults + 1) * (plan->events / (plan->faults + 1)));
}

/* ---- when a lane's next turn is ---- */

/* The time that each of what is to come in its innermost stage has. */
static uint64_t
slot_of(const struct synth_lane *lane)
{
    const struct open_stage *around = &lane->open[lane->depth - 1];
    return around->end > lane->time ? (around->end - lane->time) / (around->left + 1u) : 0;
}

static void
plan_turn(struct synth *s, struct synth_lane *lane)
{
    if (lane->depth == 0)
        lane->time += us / 10 + draw(s, us << draw(s, 6));
    else if (lane->open[lane->depth - 1].left == 0)
        lane->time = lane->open[lane->depth - 1].end;
    else
        lane->time += draw(s, slot_of(lane) + 1);
}

/* ---- lanes of the host and of streams ---- */

static uint64_t
inner_length(struct synth *s, const struct synth_lane *lane)
{
    uint64_t slot = slot_of(lane);
    if (lane->tower)
        return slot - slot / 16;
    return draw(s, 4) == 0 ? slot >> draw(s, DECADES_4) : slot / 2 + draw(s, slot / 2 + 1);
}

/* How much goes on in it: near the outside something always does, further in hardly more than what dies out. */
static uint8_t
inner_count(struct synth *s, const struct synth_lane *lane)
{
    static const uint8_t few[] = { 0, 0, 1, 3 };
    if (lane->depth + 1 >= (int)s->plan->depth)
        return (uint8_t)draw(s, 2);
    if (lane->tower)
        return 1;
    return lane->depth < 4 ? (uint8_t)(1 + draw(s, 4)) : few[draw(s, countof(few))];
}

static bool
begin_inner(struct synth *s, struct synth_lane *lane)
{
    uint64_t          random = splitmix(&s->random);
    uint16_t          kind   = lane->phase->inner[random % lane->phase->inner_count];
    struct open_stage stage  = draw_stage(s, lane, kind, random);
    if (kind == KIND_op)
        stage.args[1] = 0; /* its result is there at its end */
    stage.end  = lane->time + inner_length(s, lane);
    stage.left = inner_count(s, lane);
    s->aside++;
    return begin_stage(s, lane, &stage);
}

static bool
begin_outer(struct synth *s, struct synth_lane *lane)
{
    uint64_t random = splitmix(&s->random), least = lane->kind == LANE_STREAM ? us : 20 * us;
    uint16_t kind   = random & 7 ? KIND_kernel : KIND_memory_copy;
    if (lane->kind == LANE_HOST) {
        const struct phase *next = lane->calls == 0 ? &start : &training[(lane->calls - 1) % countof(training)];
        lane->phase = lane->main ? next : &load;
        lane->tower = draw(s, 256) == 0 || (lane->calls == 1 && lane->lane == 0);
        kind        = lane->phase->kind;
    }
    struct open_stage stage = draw_stage(s, lane, kind, random);
    stage.end  = lane->time + draw_length(s, least);
    stage.left = lane->kind == LANE_STREAM ? 0 : kind == KIND_ddp_init ? 4 : inner_count(s, lane);
    lane->calls++;
    s->aside++;
    return begin_stage(s, lane, &stage);
}

/* false: no room in the file. `over`: nothing will ever happen on it any more. */
static bool
take_turn(struct synth *s, struct synth_lane *lane, bool *over)
{
    uint64_t rest = room(s);
    bool     good = true;
    if (lane->depth == 0) {
        if (rest >= 2)
            good = begin_outer(s, lane);
        else if (rest == 1)
            good = write_instant(s, lane);
        *over = rest == 0;
    } else {
        struct open_stage *around = &lane->open[lane->depth - 1];
        bool deeper = lane->depth < (int)s->plan->depth && rest >= 2 && around->kind != KIND_ddp_init;
        around->left = rest > 0 ? (uint8_t)(around->left - 1) : 0;
        if (deeper && (lane->tower || draw(s, 16) < 11))
            good = begin_inner(s, lane);
        else if (rest >= 1)
            good = write_instant(s, lane);
    }
    return good;
}

/* ---- lanes of communication ---- */

static bool
begin_receive(struct synth *s, struct synth_lane *lane)
{
    const struct message *message = &lane->inbox[lane->taken++ % MESSAGES];
    struct open_stage     stage   = { .kind = KIND_comm_receive, .end = lane->time + us + draw(s, 8 * us),
                                      .args = { message->chunk, message->bytes, message->sender, message->reduce } };
    s->aside--;
    if (!begin_stage(s, lane, &stage))
        return false;
    lane->open[lane->depth - 1].flow = message->flow; /* it arrives with the end */
    return true;
}

/* A lane of another rank that has room for a message; NULL: there is none just now. */
static struct synth_lane *
draw_peer(struct synth *s, const struct synth_lane *lane)
{
    size_t from = draw(s, s->comm_count);
    for (size_t i = 0; i < s->comm_count; i++) {
        struct synth_lane *peer = &s->lanes[s->comm[(from + i) % s->comm_count]];
        if (peer->rank != lane->rank && peer->sent_to - peer->taken < MESSAGES)
            return peer;
    }
    return NULL;
}

static bool
begin_hop(struct synth *s, struct synth_lane *lane, struct synth_lane *peer)
{
    struct open_stage stage = draw_stage(s, lane, KIND_comm_hop, splitmix(&s->random));
    stage.args[2] = (int64_t)peer->rank;
    stage.flow    = (uint32_t)++s->flows;
    stage.end     = lane->time + us + draw(s, 8 * us);
    peer->inbox[peer->sent_to++ % MESSAGES] =
        (struct message){ stage.flow, stage.args[0], stage.args[1], (int64_t)lane->rank, stage.args[3] };
    s->aside--;
    return begin_stage(s, lane, &stage);
}

/* Every rank makes the same calls, with the same arguments. */
static bool
begin_call(struct synth *s, struct synth_lane *lane)
{
    uint64_t          same   = s->plan->seed + lane->calls, random = splitmix(&same);
    struct open_stage stage  = draw_stage(s, lane, calls[random % countof(calls)], random);
    stage.end  = lane->time + draw_length(s, 5 * us);
    stage.left = (uint8_t)draw(s, 8);
    lane->calls++;
    s->aside++;
    return begin_stage(s, lane, &stage);
}

static bool
is_flow_due(const struct synth *s)
{
    const struct synth_plan *plan = s->plan;
    return s->flows < plan->flows &&
           (room(s) < 2 || (unsigned __int128)s->flows * plan->events <= (unsigned __int128)s->written * plan->flows);
}

static bool
take_comm_turn(struct synth *s, struct synth_lane *lane, bool *over)
{
    struct synth_lane *peer = NULL;
    bool               deeper = lane->depth < (int)s->plan->depth;
    uint64_t           rest = room(s);
    if (lane->depth > 0 && lane->open[lane->depth - 1].left > 0)
        lane->open[lane->depth - 1].left--;
    if (deeper && lane->taken != lane->sent_to)
        return begin_receive(s, lane);
    if (deeper && is_flow_due(s) && (peer = draw_peer(s, lane)) != NULL)
        return begin_hop(s, lane, peer);
    if (lane->depth == 0 && rest >= 2)
        return begin_call(s, lane);
    if (rest >= 1 && (lane->depth == 0 || draw(s, 4) == 0))
        return write_instant(s, lane);
    *over = lane->depth == 0 && rest == 0 && s->flows == s->plan->flows;
    return true;
}

/* ---- all together ---- */

static bool
comes_before(const struct synth *s, uint32_t a, uint32_t b)
{
    uint64_t first = s->lanes[a].time, second = s->lanes[b].time;
    return first < second || (first == second && a < b);
}

static void
sink(struct synth *s, size_t at)
{
    uint32_t lane = s->heap[at];
    for (size_t child; (child = 2 * at + 1) < s->heap_count; at = child) {
        if (child + 1 < s->heap_count && comes_before(s, s->heap[child + 1], s->heap[child]))
            child++;
        if (comes_before(s, lane, s->heap[child]))
            break;
        s->heap[at] = s->heap[child];
    }
    s->heap[at] = lane;
}

static bool
write_all(struct synth *s)
{
    while (s->heap_count > 0) {
        struct synth_lane *lane = &s->lanes[s->heap[0]];
        bool               over = false, good;
        if (is_fault_due(s)) {
            if (!write_fault(s, lane))
                return false;
            continue;
        }
        if (lane->depth > 0 && lane->time >= lane->open[lane->depth - 1].end)
            good = end_stage(s, lane);
        else
            good = lane->kind == LANE_COMM ? take_comm_turn(s, lane, &over) : take_turn(s, lane, &over);
        if (!good)
            return false;
        plan_turn(s, lane);
        if (over)
            s->heap[0] = s->heap[--s->heap_count];
        if (s->heap_count > 0)
            sink(s, 0);
    }
    return s->written == s->plan->events;
}

/* ---- before the first event ---- */

static uint8_t
argument_of(const char *name, size_t length, const char *type)
{
    static const struct { const char *word; uint8_t argument; } types[] = {
        { "bytes", ARG_BYTES }, { "device", ARG_DEVICE }, { "rank", ARG_RANK }, { "storage", ARG_STORAGE },
        { "flag", ARG_FLAG }, { "snapshot", ARG_ZERO },
    }, names[] = { { "sequence", ARG_SEQUENCE }, { "world", ARG_WORLD }, { "iteration", ARG_ITERATION } };
    if (strcmp(type, "text") == 0) {
        int pool = 0;
        while (pool < POOLS - 1 && (strlen(pools[pool].name) != length || memcmp(pools[pool].name, name, length) != 0))
            pool++;
        return (uint8_t)(ARG_TEXT + pool);
    }
    for (size_t i = 0; i < countof(types); i++)
        if (strcmp(types[i].word, type) == 0)
            return types[i].argument;
    for (size_t i = 0; i < countof(names); i++)
        if (strlen(names[i].word) == length && memcmp(names[i].word, name, length) == 0)
            return names[i].argument;
    return ARG_NUMBER;
}

/* "operation:text, sequence, bytes:bytes" */
static void
read_arguments(uint8_t out[ARGUMENTS], const char *list)
{
    for (int i = 0; i < ARGUMENTS && *list != '\0'; i++) {
        size_t whole = strcspn(list, ","), length = strcspn(list, ":,");
        char   type[16];
        snprintf(type, sizeof type, "%.*s", length < whole ? (int)(whole - length - 1) : 0, list + length + 1);
        out[i] = argument_of(list, length, type);
        list += whole;
        list += strspn(list, ", ");
    }
}

static bool
write_words(struct synth *s)
{
    for (int kind = 1; kind < KIND_COUNT; kind++)
        read_arguments(s->arguments[kind], kind_table[kind].args);
    for (int pool = 0; pool < POOLS; pool++)
        for (int i = 0; i < WORDS; i++)
            if ((s->words[pool][i] = trace_text(s->writer, pools[pool].words[i])) == 0)
                return false;
    return true;
}

/* The rank's lane number `i`: host, compute, comm, and again. */
static void
write_lane(struct synth *s, uint32_t at, uint32_t rank, uint32_t i)
{
    static const enum lane_kind kinds[RANK_LANES] = { LANE_HOST, LANE_STREAM, LANE_COMM };
    struct synth_lane          *lane = &s->lanes[at];
    char                        name[48];
    int                         length;
    *lane = (struct synth_lane){ .open = s->stages + at * s->plan->depth, .rank = rank, .main = i == 0,
                                 .kind = kinds[i % RANK_LANES] };
    if (lane->kind == LANE_STREAM)
        length = snprintf(name, sizeof name, "device:%u", rank);
    else
        length = snprintf(name, sizeof name, "r%u %s", rank,
                          lane->kind == LANE_COMM ? "comm" : lane->main ? "main" : "worker");
    if (i >= RANK_LANES)
        snprintf(name + length, sizeof name - (size_t)length, " %u", i / RANK_LANES);
    lane->lane = trace_lane(s->writer, (int)rank, (int)rank, lane->kind, name);
    lane->time = at == 0 ? 0 : draw(s, 2 * us);
    if (lane->kind == LANE_COMM)
        s->comm[s->comm_count++] = at;
}

/* Those of a rank one below the other. */
static void
write_lanes(struct synth *s)
{
    const struct synth_plan *plan  = s->plan;
    uint32_t                 count = 0;
    for (uint32_t rank = 0; rank < plan->ranks; rank++) {
        uint64_t of_rank = plan->lanes / plan->ranks + (rank < plan->lanes % plan->ranks);
        for (uint32_t i = 0; i < of_rank; i++)
            write_lane(s, count++, rank, i);
    }
    for (s->heap_count = 0; s->heap_count < count; s->heap_count++)
        s->heap[s->heap_count] = (uint32_t)s->heap_count;
    for (size_t i = s->heap_count; i-- > 0;)
        sink(s, i);
}

static void
write_options(const struct synth *s)
{
    const struct { const char *key; uint64_t value; } numbers[] = {
        { "seed", s->plan->seed }, { "world", s->plan->ranks }, { "devices", s->plan->ranks },
    };
    char text[96];
    snprintf(text, sizeof text, "synthetic: %llu events on %llu lanes", (unsigned long long)s->plan->events,
             (unsigned long long)s->plan->lanes);
    trace_option(s->writer, "title", text);
    trace_option(s->writer, "executor", "stepped");
    for (size_t i = 0; i < countof(numbers); i++) {
        snprintf(text, sizeof text, "%llu", (unsigned long long)numbers[i].value);
        trace_option(s->writer, numbers[i].key, text);
    }
}

bool
synth_write(const struct synth_plan *plan, struct trace_writer *writer)
{
    struct synth *s = calloc(1, sizeof *s);
    if (s == NULL)
        return false;
    *s = (struct synth){ .plan = plan, .writer = writer, .buffer = trace_buffer_new(writer), .random = plan->seed,
                         .lanes = calloc(plan->lanes, sizeof *s->lanes), .ranks = calloc(plan->ranks, sizeof *s->ranks),
                         .stages = calloc(plan->lanes * plan->depth, sizeof *s->stages),
                         .heap = calloc(plan->lanes, sizeof *s->heap), .comm = calloc(plan->lanes, sizeof *s->comm),
                         .aside = FLOW_EVENTS * plan->flows + plan->faults };
    bool good = s->buffer != NULL && s->lanes != NULL && s->ranks != NULL && s->stages != NULL && s->heap != NULL &&
                s->comm != NULL && write_words(s);
    if (good) {
        write_options(s);
        write_lanes(s);
        good = write_all(s);
    }
    trace_buffer_free(s->buffer);
    free(s->lanes);
    free(s->ranks);
    free(s->stages);
    free(s->heap);
    free(s->comm);
    free(s);
    return good && trace_lost(writer) == 0;
}
