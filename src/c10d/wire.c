/* Wires: when a message arrives, in virtual time. A wire joins two ranks in one direction and takes one transfer at a
 * time, for the latency and the time of its bytes. Between nodes the bytes also pass two network cards, the sender's
 * and the receiver's, which all transfers under way share fairly: with k at a card each goes at a k-th of its
 * bandwidth, and the fuller one of its two cards decides. So the end of a transfer is not known when it begins: each is
 * a source of the scheduler, due when its bytes are through as things stand, and moved when that changes. The latency
 * comes after.
 * Order of use: wire_between, transfer_begin; whoever waits for `landed` waits in the monitor that was given. */
#include <stdlib.h>
#include "c10d/local.h"
#include "hw/cost.h"

struct wire *
wire_between(struct task *me, struct local *local, int from, int to)
{
    uint64_t     key  = (uint64_t)from * (uint64_t)local->size + (uint64_t)to, known;
    struct wire *wire = NULL;
    monitor_enter(me, &local->monitor);
    if (map_get(&local->wires, key, &known)) {
        wire = (struct wire *)(uintptr_t)known;
    } else if ((wire = calloc(1, sizeof *wire)) != NULL) {
        wire->from = from;
        wire->to   = to;
        if (!map_set(&local->wires, key, (uintptr_t)wire)) {
            free(wire);
            wire = NULL;
        }
    }
    monitor_leave(me, &local->monitor);
    return wire;
}

/* ---- cards ---- */

enum { LEAVING, COMING };

static struct nic *
nic_of(const struct transfer *transfer, int side)
{
    const struct local *local = transfer->local;
    int rank = side == LEAVING ? transfer->wire->from : transfer->wire->to;
    return &local->nics[2 * topology_node(&local->topology, rank) + side];
}

static double
transfer_bytes_per_us(const struct transfer *transfer)
{
    return transfer->local->topology.inter.bytes_per_us / transfer->sharers;
}

/* As many as share the fuller card now: what went through until now went at the old rate. */
static void
transfer_share(struct transfer *transfer, uint64_t now)
{
    int leaving = nic_of(transfer, LEAVING)->count, coming = nic_of(transfer, COMING)->count;
    int sharers = leaving > coming ? leaving : coming;
    if (sharers == transfer->sharers)
        return;
    if (transfer->sharers > 0)
        transfer->left -= transfer_bytes_per_us(transfer) * ((double)(now - transfer->since) * 1e-6);
    transfer->left    = transfer->left > 0 ? transfer->left : 0;
    transfer->since   = now;
    transfer->sharers = sharers;
    uint64_t rest = cost_us(transfer->left / transfer_bytes_per_us(transfer));
    sched_arm(transfer->local->sched, &transfer->source, now + rest);
}

static void
cards_share(struct transfer *transfer, uint64_t now)
{
    for (int side = LEAVING; side <= COMING; side++)
        for (struct transfer *at = nic_of(transfer, side)->first; at != NULL; at = at->next_at[side])
            transfer_share(at, now);
}

static void
transfer_leave_cards(struct transfer *transfer)
{
    for (int side = LEAVING; side <= COMING; side++) {
        struct nic       *nic   = nic_of(transfer, side);
        struct transfer **place = &nic->first;
        while (*place != transfer)
            place = &(*place)->next_at[side];
        *place = transfer->next_at[side];
        nic->count--;
    }
}

/* ---- transfers between nodes ---- */

static void
transfer_flow(struct transfer *transfer, uint64_t now)
{
    transfer->left  = (double)transfer->bytes;
    transfer->since = now;
    for (int side = LEAVING; side <= COMING; side++) {
        struct nic *nic = nic_of(transfer, side);
        transfer->next_at[side] = nic->first;
        nic->first = transfer;
        nic->count++;
    }
    cards_share(transfer, now);
}

/* All bytes are through: the cards are free at once, the wire when they have arrived. */
static void
transfer_land(struct task *me, struct transfer *transfer)
{
    struct wire *wire = transfer->wire;
    transfer_leave_cards(transfer);
    cards_share(transfer, me->clock);
    uint64_t arrival = me->clock + cost_us(transfer->local->topology.inter.latency_us);
    wire->free_at = arrival > wire->free_at ? arrival : wire->free_at;
    wire->first   = transfer->next;
    if (wire->first != NULL)
        sched_arm(transfer->local->sched, &wire->first->source, wire->free_at);
    transfer->sharers = 0;
    transfer->arrival = arrival;
    transfer->landed  = true;
    monitor_enter(me, transfer->monitor);
    monitor_wake(me, transfer->monitor);
    monitor_leave(me, transfer->monitor);
}

static void
transfer_fire(struct task *me, struct sched_source *source)
{
    struct transfer *transfer = (struct transfer *)source;
    if (transfer->sharers == 0)
        transfer_flow(transfer, source->clock);
    else
        transfer_land(me, transfer);
}

static void
transfer_queue(struct transfer *transfer, uint64_t now)
{
    struct wire *wire = transfer->wire;
    uint64_t     from = now > wire->free_at ? now : wire->free_at;
    bool         first = wire->first == NULL;
    transfer->source.fire = transfer_fire;
    if (first)
        wire->first = transfer;
    else
        wire->last->next = transfer;
    wire->last = transfer;
    if (first && from == now)
        transfer_flow(transfer, now);
    else if (first)
        sched_arm(transfer->local->sched, &transfer->source, from);
}

/* ---- for links ---- */

uint64_t
wire_depart(struct task *me, struct wire *wire, uint64_t bytes)
{
    uint64_t now   = sched_now(me), start = now > wire->free_at ? now : wire->free_at;
    wire->free_at  = start + cost_hop(sched_cost(me->sched), wire->from, wire->to, bytes);
    return wire->free_at;
}

void
transfer_begin(struct task *me, struct local *local, struct wire *wire, struct monitor *monitor, uint64_t bytes,
               struct transfer *transfer)
{
    *transfer = (struct transfer){ .local = local, .wire = wire, .monitor = monitor, .bytes = bytes, .landed = true };
    if (!sched_is_stepped(me->sched))
        return;
    if (topology_crosses(&local->topology, wire->from, wire->to)) {
        transfer->landed = false;
        transfer_queue(transfer, sched_now(me));
        return;
    }
    transfer->arrival = wire_depart(me, wire, bytes);
}

void
transfer_cancel(struct task *me, struct transfer *transfer)
{
    if (transfer->local == NULL || transfer->landed)
        return;
    struct wire      *wire  = transfer->wire;
    struct transfer **place = &wire->first, *before = NULL;
    uint64_t          now   = sched_now(me);
    for (; *place != transfer; place = &(*place)->next)
        before = *place;
    *place = transfer->next;
    if (wire->last == transfer)
        wire->last = before;
    if (transfer->source.place != 0)
        sched_disarm(transfer->local->sched, &transfer->source);
    transfer->landed = true;
    if (transfer->sharers > 0) {
        transfer_leave_cards(transfer);
        cards_share(transfer, now);
    }
    if (before == NULL && wire->first != NULL)
        sched_arm(transfer->local->sched, &wire->first->source, now > wire->free_at ? now : wire->free_at);
}
