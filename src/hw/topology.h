/* Which ranks share a machine, and what a message costs inside of one and between two. A node has one network card, whose
 * bandwidth its messages to other nodes share, and those from other nodes in the other direction; inside of a node each
 * ordered pair of ranks has a link of its own. Ranks here are those of the world: node 0 has the first ones. */
#ifndef HW_TOPOLOGY_H
#define HW_TOPOLOGY_H
#include <stdbool.h>

struct link_price { double latency_us, bytes_per_us; };

struct topology {
    int               ranks_per_node;  /* 0: all ranks are alike, priced by the cost model's own latency and bandwidth */
    struct link_price intra, inter;
};

int  topology_node(const struct topology *topology, int rank);            /* 0 where all are alike */
bool topology_crosses(const struct topology *topology, int from, int to); /* from a node to another one */
int  topology_nodes(const struct topology *topology, int ranks);          /* how many so many ranks need */
#endif
