/* What an all-reduce costs: its ranks' exchanges are noted, rank after rank, instead of run, and followed over links,
 * wires and cards (link.c, wire.c) without a task or an element. So an algorithm's price is that of its own page,
 * whatever the number of ranks, their nodes, or how the tensor is cut.
 * Ranks go on as far as they can, in any order; only transfers between nodes, which share cards, begin and end in order
 * of time: when nobody else can go on, the earliest of them is what happens next.
 * Order of use: rehearsal_price; the algorithm then comes to rehearsal_note by exchange_run. */
#include <assert.h>
#include <stdlib.h>
#include "base/vec.h"
#include "c10d/local.h"
#include "hw/cost.h"

struct noted { int out, in; uint64_t bytes; bool goes_on; };   /* numbers of links; -1: none. bytes: that are sent */

enum at { AT_PUT, AT_TAKE, AT_LAND };

struct player { size_t next, end; uint64_t clock; enum at at; bool ready; };

/* One per ordered pair of ranks that exchange, and its transfer. */
struct lane {
    int      from, to;             /* ranks of the group */
    bool     full, landed;
    uint64_t taken_at, arrival;
    /* Between nodes: */
    int      leaves, comes;        /* the cards it passes; -1: none */
    double   left;                 /* bytes that are not through, at `since` */
    uint64_t since, due;           /* due: it begins, or all is through */
    int      sharers;              /* 0: it has not begun */
};

struct rehearsal {
    const struct cost_model *cost;
    const struct channel    *channel;
    int64_t                  element;      /* bytes of one */
    struct noted  *notes;
    size_t         note_count, note_room;
    struct lane   *lanes;
    size_t         lane_count, lane_room;
    struct map     known;                  /* lanes, by from * ranks + to */
    struct player *players;                /* by rank */
    int           *ready, ready_count;     /* players that may be able to go on */
    size_t        *flows, flow_count;      /* lanes with a transfer between nodes */
    int           *cards;                  /* transfers at each, as struct local's nics */
};

/* ---- notes ---- */

bool
rehearses(const struct collective *call)
{
    const struct channel *channel = call->channel;
    return channel->rehearsal != NULL;
}

/* Its number; -1: no memory. */
static int
lane_between(struct rehearsal *rehearsal, int from, int to)
{
    const struct channel  *channel  = rehearsal->channel;
    const struct topology *topology = &rehearsal->cost->topology;
    uint64_t key = (uint64_t)from * (uint64_t)channel->size + (uint64_t)to, known;
    if (map_get(&rehearsal->known, key, &known))
        return (int)known;
    if (!vec_room(&rehearsal->lanes, &rehearsal->lane_room, rehearsal->lane_count + 1, sizeof *rehearsal->lanes) ||
        !map_set(&rehearsal->known, key, rehearsal->lane_count))
        return -1;
    int  sender = channel->ranks[from], receiver = channel->ranks[to];
    bool crosses = topology_crosses(topology, sender, receiver);
    rehearsal->lanes[rehearsal->lane_count] =
        (struct lane){ .from = from, .to = to, .leaves = crosses ? 2 * topology_node(topology, sender) : -1,
                       .comes = crosses ? 2 * topology_node(topology, receiver) + 1 : -1 };
    return (int)rehearsal->lane_count++;
}

bool
rehearsal_note(struct task *me, const struct collective *call, const struct exchange *exchange)
{
    const struct channel *channel   = call->channel;
    struct rehearsal     *rehearsal = channel->rehearsal;
    struct noted noted = { .out = -1, .in = -1, .goes_on = exchange->goes_on,
                           .bytes = (uint64_t)(exchange->send.count * rehearsal->element) };
    bool sends = exchange->to >= 0 && exchange->send.count > 0;
    bool takes = exchange->from >= 0 && exchange->receive.count > 0;
    if (sends)
        noted.out = lane_between(rehearsal, call->rank, exchange->to);
    if (takes)
        noted.in = lane_between(rehearsal, exchange->from, call->rank);
    if ((sends && noted.out < 0) || (takes && noted.in < 0) ||
        !vec_room(&rehearsal->notes, &rehearsal->note_room, rehearsal->note_count + 1, sizeof noted))
        return failed(me, E_MEMORY, "out of memory for the price of an all-reduce");
    rehearsal->notes[rehearsal->note_count++] = noted;
    return true;
}

static bool
rehearsal_read(struct task *me, struct rehearsal *rehearsal, const struct collective *call,
               const struct algorithm *algorithm)
{
    struct channel channel = { .local = rehearsal->channel->local, .ranks = rehearsal->channel->ranks,
                               .size = call->ranks, .rehearsal = rehearsal };
    bool ok = true;
    for (int rank = 0; rank < call->ranks && ok; rank++) {
        struct collective part = *call;
        part.channel = &channel;
        part.rank    = rank;
        rehearsal->players[rank].next = rehearsal->note_count;
        ok = algorithm->run(me, &part);
        rehearsal->players[rank].end = rehearsal->note_count;
    }
    return ok;
}

/* ---- ranks ---- */

static void
make_ready(struct rehearsal *rehearsal, int rank)
{
    if (rehearsal->players[rank].ready)
        return;
    rehearsal->players[rank].ready = true;
    rehearsal->ready[rehearsal->ready_count++] = rank;
}

static uint64_t
later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static bool
player_puts(struct rehearsal *rehearsal, struct player *player, const struct noted *noted)
{
    struct lane *lane = &rehearsal->lanes[noted->out];
    if (lane->full)
        return false;
    player->clock = later(player->clock, lane->taken_at);
    lane->full    = true;
    lane->landed  = lane->leaves < 0;
    if (!lane->landed) {
        lane->left    = (double)noted->bytes;
        lane->due     = player->clock;
        lane->sharers = 0;
        rehearsal->flows[rehearsal->flow_count++] = (size_t)noted->out;
        return true;
    }
    const int *ranks = rehearsal->channel->ranks;
    lane->arrival = player->clock + cost_hop(rehearsal->cost, ranks[lane->from], ranks[lane->to], noted->bytes);
    make_ready(rehearsal, lane->to);
    return true;
}

static bool
player_takes(struct rehearsal *rehearsal, struct player *player, const struct noted *noted)
{
    struct lane *lane = &rehearsal->lanes[noted->in];
    if (!lane->full || !lane->landed)
        return false;
    player->clock  = later(player->clock, lane->arrival);
    lane->full     = false;
    lane->taken_at = player->clock;
    make_ready(rehearsal, lane->from);
    return true;
}

static bool
player_lands(const struct rehearsal *rehearsal, struct player *player, const struct noted *noted)
{
    const struct lane *lane = &rehearsal->lanes[noted->out];
    if (lane->landed)
        player->clock = later(player->clock, lane->arrival);
    return lane->landed;
}

/* As hop_run goes: put, take, land. false: it waits for somebody. */
static bool
player_steps(struct rehearsal *rehearsal, struct player *player)
{
    const struct noted *noted = &rehearsal->notes[player->next];
    bool                moved = true;
    if (player->at == AT_PUT && noted->out >= 0)
        moved = player_puts(rehearsal, player, noted);
    else if (player->at == AT_TAKE && noted->in >= 0)
        moved = player_takes(rehearsal, player, noted);
    else if (player->at == AT_LAND && noted->out >= 0 && !noted->goes_on)
        moved = player_lands(rehearsal, player, noted);
    if (!moved)
        return false;
    player->next += player->at == AT_LAND;
    player->at = player->at == AT_LAND ? AT_PUT : player->at + 1;
    return true;
}

static void
players_go_on(struct rehearsal *rehearsal)
{
    while (rehearsal->ready_count > 0) {
        struct player *player = &rehearsal->players[rehearsal->ready[--rehearsal->ready_count]];
        player->ready         = false;
        while (player->next < player->end && player_steps(rehearsal, player))
            ;
    }
}

/* ---- transfers between nodes ---- */

static void
lane_share(struct rehearsal *rehearsal, struct lane *lane, uint64_t now)
{
    double bandwidth = rehearsal->cost->topology.inter.bytes_per_us;
    int    leaving = rehearsal->cards[lane->leaves], coming = rehearsal->cards[lane->comes];
    int    sharers = leaving > coming ? leaving : coming;
    if (sharers == lane->sharers)
        return;
    if (lane->sharers > 0)
        lane->left -= bandwidth / lane->sharers * ((double)(now - lane->since) * 1e-6);
    lane->left    = lane->left > 0 ? lane->left : 0;
    lane->since   = now;
    lane->sharers = sharers;
    lane->due     = now + cost_us(lane->left / (bandwidth / sharers));
}

/* false: it is through. */
static bool
lane_flows(struct rehearsal *rehearsal, struct lane *lane, uint64_t now)
{
    bool begins = lane->sharers == 0;
    if (lane->due != now)
        return true;
    rehearsal->cards[lane->leaves] += begins ? 1 : -1;
    rehearsal->cards[lane->comes] += begins ? 1 : -1;
    if (begins)
        return true;
    lane->landed  = true;
    lane->arrival = now + cost_us(rehearsal->cost->topology.inter.latency_us);
    make_ready(rehearsal, lane->from);
    make_ready(rehearsal, lane->to);
    return false;
}

/* All that begins or ends next does so at once. false: nothing is under way. */
static bool
flows_go_on(struct rehearsal *rehearsal)
{
    uint64_t now  = UINT64_MAX;
    size_t   left = 0;
    for (size_t i = 0; i < rehearsal->flow_count; i++)
        if (rehearsal->lanes[rehearsal->flows[i]].due < now)
            now = rehearsal->lanes[rehearsal->flows[i]].due;
    for (size_t i = 0; i < rehearsal->flow_count; i++)
        if (lane_flows(rehearsal, &rehearsal->lanes[rehearsal->flows[i]], now))
            rehearsal->flows[left++] = rehearsal->flows[i];
    bool any = rehearsal->flow_count > 0;
    rehearsal->flow_count = left;
    for (size_t i = 0; i < left; i++) {
        struct lane *lane = &rehearsal->lanes[rehearsal->flows[i]];
        if (lane->sharers > 0 || lane->due == now)
            lane_share(rehearsal, lane, now);
    }
    return any;
}

/* ---- all of it ---- */

static uint64_t
rehearsal_play(struct rehearsal *rehearsal)
{
    uint64_t end = 0;
    for (int rank = 0; rank < rehearsal->channel->size; rank++)
        make_ready(rehearsal, rank);
    do
        players_go_on(rehearsal);
    while (flows_go_on(rehearsal));
    for (int rank = 0; rank < rehearsal->channel->size; rank++) {
        assert(rehearsal->players[rank].next == rehearsal->players[rank].end);   /* nobody waits in vain */
        end = later(end, rehearsal->players[rank].clock);
    }
    return end;
}

static bool
rehearsal_room(struct task *me, struct rehearsal *rehearsal)
{
    int nodes         = topology_nodes(&rehearsal->cost->topology, rehearsal->channel->local->size);
    rehearsal->flows  = calloc(rehearsal->lane_count + 1, sizeof *rehearsal->flows);
    rehearsal->cards  = calloc(2 * (size_t)nodes, sizeof *rehearsal->cards);
    return (rehearsal->flows != NULL && rehearsal->cards != NULL) ||
           failed(me, E_MEMORY, "out of memory for the price of an all-reduce");
}

bool
rehearsal_price(struct task *me, const struct collective *call, const struct algorithm *algorithm, uint64_t *ps)
{
    struct rehearsal rehearsal = { .cost = sched_cost(me->sched), .channel = call->channel,
                                   .element = call->bytes / call->elements };
    rehearsal.players = calloc((size_t)call->ranks, sizeof *rehearsal.players);
    rehearsal.ready   = calloc((size_t)call->ranks, sizeof *rehearsal.ready);
    bool ok = rehearsal.players != NULL && rehearsal.ready != NULL
                  ? rehearsal_read(me, &rehearsal, call, algorithm) && rehearsal_room(me, &rehearsal)
                  : failed(me, E_MEMORY, "out of memory for the price of an all-reduce");
    if (ok)
        *ps = rehearsal_play(&rehearsal);
    free(rehearsal.players);
    free(rehearsal.ready);
    free(rehearsal.flows);
    free(rehearsal.cards);
    free(rehearsal.notes);
    free(rehearsal.lanes);
    map_free(&rehearsal.known);
    return ok;
}
