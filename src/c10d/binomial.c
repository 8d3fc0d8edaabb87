/* The tree all-reduce: along a binomial tree to rank 0, adding up, and back along the same tree; whole tensors,
 * not pipelined. Few latencies, but each of the 2 log2(N) rounds takes as long as the whole tensor.
 * PyTorch: gloo's broadcast goes along this tree. */
#include "c10d/local.h"

/* The lowest set bit of a rank is the distance to its parent; rank 0 has none: as if N were its bit. */
static int
tree_reach(const struct collective *call)
{
    int distance = 1;
    while (distance < call->ranks && (call->rank & distance) == 0)
        distance *= 2;
    return distance;
}

/* To the parent (up: after all children, the nearest first) and from it (then to the children, the farthest first). */
static bool
tree_all_reduce(struct task *me, const struct collective *call)
{
    int  reach  = tree_reach(call), parent = call->rank > 0 ? call->rank - reach : -1;
    struct part     all = { 0, call->elements };
    struct exchange up  = { .to = -1, .from = -1, .send = all, .receive = all, .reduce = true,
                               .in_place = true }, down = up;
    down.reduce = false;
    bool ok     = true;
    for (int distance = 1; distance < reach && ok; distance *= 2) {
        up.from = call->rank + distance;
        ok      = up.from >= call->ranks || exchange_run(me, call, &up);
    }
    up.from   = -1;
    up.to     = parent;
    down.from = parent;
    ok = ok && exchange_run(me, call, &up) && exchange_run(me, call, &down);
    down.from = -1;
    for (int distance = reach / 2; distance > 0 && ok; distance /= 2) {
        down.to = call->rank + distance;
        ok      = down.to >= call->ranks || exchange_run(me, call, &down);
    }
    return ok;
}

const struct algorithm algorithm_tree = {
    "tree", tree_all_reduce, NULL, true, "2 (N-1)", "1 to log2(N)+1 times S",
    "along a binomial tree to rank 0 and back, whole tensors: the fewest messages"
};
