/* Nodes: plain divisions. Order of use: topology_nodes for who keeps something for each, topology_crosses a
 * message. */
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
