/* The direct all-reduce: rank k adds up chunk k of everybody and gives the sum to everybody. Where ranks are threads it
 * reads and writes the others' memory (shared.c): nothing can move less. In virtual time the same goes by messages, all
 * at once: two latencies, but N - 1 links from each rank. Chunks and the order of additions are Gloo's ring's, so both
 * give the same bits. PyTorch: NCCL's direct algorithms over NVLink, gloo's bcube with one group. */
#include "c10d/local.h"
#include "device/cells.h"

static struct part
direct_chunk(const struct collective *call, int rank)
{
    int64_t chunk = gloo_chunk(call), begin = chunk * rank, end = begin + chunk;
    begin = begin < call->elements ? begin : call->elements;
    end   = end < call->elements ? end : call->elements;
    return (struct part){ begin, end - begin };
}

/* What the others hold of my chunk, from the rank before mine backwards: the sum so far takes the place of each one's
 * part in turn, as it would in the ring in that rank's tensor. Mine comes last. */
static bool
direct_add(struct task *me, const struct collective *call, struct message mine)
{
    const struct reduction reduction = { true, call->options.op, (int)call->tensor->dtype };
    void *sum = scratch_new(me, mine.bytes, 1), *part = scratch_new(me, mine.bytes, 1);
    if (sum == NULL || part == NULL)
        return false;
    for (int step = 1; step < call->ranks; step++) {
        int        rank = (call->rank - step + call->ranks) % call->ranks;
        struct hop hop  = { .chunk = call->rank, .reduce = true, .aside = true,
                            .in = link_between(me, call->channel, rank, call->rank),
                            .receive = { .data = step > 1 ? part : sum, .bytes = mine.bytes } };
        if (hop.in == NULL || !hop_run(me, call, &hop))
            return false;
        if (step == 1)
            continue;
        reduce_elements(&reduction, part, sum, mine.bytes);
        void *last = sum;
        sum  = part;
        part = last;
    }
    reduce_elements(&reduction, mine.data, sum, mine.bytes);
    hop_tell(me, call);
    return true;
}

/* To each other rank: its own chunk of mine, or my chunk that is complete now. */
static bool
direct_send(struct task *me, const struct collective *call, bool complete)
{
    for (int step = 1; step < call->ranks; step++) {
        int rank = (call->rank + step) % call->ranks, chunk = complete ? call->rank : rank;
        struct exchange send = { .to = rank, .from = -1, .chunk = chunk, .send = direct_chunk(call, chunk),
                                 .reduce = !complete, .goes_on = true };
        if (!exchange_run(me, call, &send))
            return false;
    }
    return true;
}

static bool
direct_all_reduce(struct task *me, const struct collective *call)
{
    const struct channel *channel = call->channel;
    if (!sched_is_stepped(me->sched) && !channel->local->by_messages)
        return shared_all_reduce(me, call);
    struct message mine = part_message(call, direct_chunk(call, call->rank));
    if (!direct_send(me, call, false) || (mine.bytes > 0 && !direct_add(me, call, mine)) ||
        !direct_send(me, call, true))
        return false;
    for (int step = 1; step < call->ranks; step++) {
        int rank = (call->rank - step + call->ranks) % call->ranks;
        struct exchange take = { .to = -1, .from = rank, .chunk = rank, .receive = direct_chunk(call, rank) };
        if (!exchange_run(me, call, &take))
            return false;
    }
    return true;
}

static struct cut
direct_cut(const struct collective *call)
{
    return (struct cut){ call->ranks, 1, gloo_chunk(call) };
}

const struct algorithm algorithm_direct = {
    "direct", direct_all_reduce, direct_cut, false, "2 N (N-1)", "2 (N-1)/N S",
    "rank k adds up everybody's chunk k and gives it to all; in threads through shared memory: the fastest"
};
