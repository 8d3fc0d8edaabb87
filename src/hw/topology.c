/* Nodes: plain divisions. Order of use: topology_nodes for who keeps something for each, topology_crosses a
 * message; hop_us for who chooses between algorithms. */
#include "hw/topology.h"

int
topology_node(const struct topology *topology, int rank)
{
    return topology->ranks_per_node > 0 ? rank / topology->ranks_per_node : 0;
}

bool
topology_crosses(const struct topology *topology, int from, int to)
{
    return topology_node(topology, from) != topology_node(topology, to);
}

int
topology_nodes(const struct topology *topology, int ranks)
{
    return ranks > 0 ? topology_node(topology, ranks - 1) + 1 : 0;
}

double
hop_us(const struct reduce_size *size, int distance, double bytes, int flows)
{
    bool                     crosses = distance >= size->per_node;
    const struct link_price *price   = crosses ? &size->inter : &size->intra;
    return price->latency_us + bytes * (crosses ? flows : 1) / price->bytes_per_us;
}
