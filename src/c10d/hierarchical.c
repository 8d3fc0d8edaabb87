/* Two levels: the ranks of a node add up among themselves, each one chunk (reduce-scatter); then ranks with the same
 * chunk, one of each node, all-reduce it in a ring of their own; then the node's ranks tell each other (all-gather).
 * Between nodes go 1/g of the bytes of a flat ring's steps, g rings at once, which share the nodes' network cards.
 * Nodes are those of the lesson's topology; where they have different numbers of the group's ranks, they are cut in
 * smaller ones of equal size, the greatest common divisor. PyTorch: NCCL's rings over nodes, Horovod's hierarchical. */
#include "c10d/local.h"

static bool
hierarchical_all_reduce(struct task *me, const struct collective *call)
{
    int  per_node = nodes_ranks_each(call->channel), nodes = call->ranks / per_node;
    int  node     = call->rank / per_node, place = call->rank % per_node;
    struct part all  = { 0, call->elements };
    struct ring here = { .call = call, .first_rank = node * per_node, .place = place, .size = per_node, .part = all };
    struct ring away = { .call = call, .first_rank = place, .apart = per_node, .place = node, .size = nodes,
                         .part = part_of(all, place, per_node), .first_chunk = place * nodes };
    return ring_open(me, &here) && ring_open(me, &away) && ring_reduce_scatter(me, &here) &&
           ring_reduce_scatter(me, &away) && ring_all_gather(me, &away) && ring_all_gather(me, &here);
}

static struct cut
hierarchical_cut(const struct collective *call)
{
    int per_node = nodes_ranks_each(call->channel);
    return (struct cut){ per_node, call->ranks / per_node, 0 };
}

const struct algorithm algorithm_hierarchical = {
    "hierarchical", hierarchical_all_reduce, hierarchical_cut, true,
    "2 N (g-1) + 2 N (N/g-1), g ranks a node",
    "2 (N-1)/N S", "reduce-scatter in the node, a ring between nodes for each of its ranks, all-gather in the node"
};
