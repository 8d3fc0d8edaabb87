/* Nodes of a group: how many of its ranks stand together on each. Order of use: nodes_ranks_each. */
#include "c10d/local.h"

static int
common_divisor(int a, int b)
{
    while (b > 0) {
        int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Members in order of their nodes, as far as equal nodes stand together: runs of ranks of one node. */
int
nodes_ranks_each(const struct channel *channel)
{
    const struct topology *topology = &channel->local->topology;
    int each = 0;
    for (int begin = 0, end = 0; begin < channel->size; begin = end) {
        while (end < channel->size && !topology_crosses(topology, channel->ranks[begin], channel->ranks[end]))
            end++;
        each = common_divisor(end - begin, each);
    }
    return each;
}
