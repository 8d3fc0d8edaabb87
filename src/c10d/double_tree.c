/* Two binary trees, each for half of the data, so that a rank that hands on much in one is a leaf in the other: all
 * links work in both directions, in log2(N) latencies. Up, adding, and down again, in pieces that follow each other: a
 * rank sends a piece on and takes the next without waiting until it has arrived.
 * PyTorch: NCCL's double binary trees (ncclGetDtree), one rank a node. */
#include "c10d/double_tree.h"
#include "c10d/local.h"

/* NCCL's protocol Simple sends so much at a time. */
enum { PIECE_BYTES = 512 << 10 };

/* Between the numbers left and right of it by half its lowest bit: in-order numbering of a binary tree. */
static struct tree_node
tree_node_of(int rank, int ranks)
{
    struct tree_node node = { .parent = -1, .children = { -1, -1 } };
    int bit = 1;
    while (bit < ranks && (rank & bit) == 0)
        bit *= 2;
    if (rank == 0) {
        node.children[0] = ranks > 1 ? bit / 2 : -1;
        return node;
    }
    node.parent = (rank ^ bit) | bit << 1;
    if (node.parent >= ranks)
        node.parent = rank ^ bit;
    int low = bit / 2, high = bit / 2;
    while (high > 0 && rank + high >= ranks)
        high /= 2;
    node.children[0] = low > 0 ? rank - low : -1;
    node.children[1] = high > 0 ? rank + high : -1;
    return node;
}

/* The second tree is the first one with other names: mirrored, or shifted by one where N is odd. */
static int
renamed(int place, int ranks, bool back)
{
    if (place < 0)
        return -1;
    if (ranks % 2 == 0)
        return ranks - 1 - place;
    return (place + (back ? 1 : ranks - 1)) % ranks;
}

struct tree_node
double_tree_node(int tree, int rank, int ranks)
{
    if (tree == 0)
        return tree_node_of(rank, ranks);
    struct tree_node node = tree_node_of(renamed(rank, ranks, false), ranks);
    node.parent      = renamed(node.parent, ranks, true);
    node.children[0] = renamed(node.children[0], ranks, true);
    node.children[1] = renamed(node.children[1], ranks, true);
    return node;
}

/* ---- pieces ---- */

struct double_tree {
    const struct collective *call;
    struct tree_node         node[2];
    int                      pieces;     /* of each half */
};

static struct exchange
piece_of(const struct double_tree *trees, int tree, int piece)
{
    struct part half = part_of((struct part){ 0, trees->call->elements }, tree, 2);
    struct part part = part_of(half, piece, trees->pieces);
    return (struct exchange){ .to = -1, .from = -1, .chunk = tree * trees->pieces + piece, .send = part,
                              .receive = part, .goes_on = true };
}

static bool
piece_up(struct task *me, const struct double_tree *trees, int tree, int piece)
{
    const struct tree_node *node = &trees->node[tree];
    struct exchange         hop  = piece_of(trees, tree, piece);
    hop.reduce = true;
    for (int i = 0; i < 2; i++) {
        hop.from = node->children[i];
        if (hop.from >= 0 && !exchange_run(me, trees->call, &hop))
            return false;
    }
    hop.from = -1;
    hop.to   = node->parent;
    return hop.to < 0 || exchange_run(me, trees->call, &hop);
}

static bool
piece_down(struct task *me, const struct double_tree *trees, int tree, int piece)
{
    const struct tree_node *node = &trees->node[tree];
    struct exchange         hop  = piece_of(trees, tree, piece);
    hop.from = node->parent;
    if (hop.from >= 0 && !exchange_run(me, trees->call, &hop))
        return false;
    hop.from = -1;
    for (int i = 0; i < 2; i++) {
        hop.to = node->children[i];
        if (hop.to >= 0 && !exchange_run(me, trees->call, &hop))
            return false;
    }
    return true;
}

static int
levels(int ranks)
{
    int count = 0;
    while (1 << count < ranks)
        count++;
    return count;
}

static int
piece_count(double bytes)
{
    int64_t half = (int64_t)bytes / 2, count = (half + PIECE_BYTES - 1) / PIECE_BYTES;
    return count > 0 ? (int)count : 1;
}

/* A piece comes down some 2 log2(N) pieces after it went up, so meanwhile those go up: all ranks take both ways in this
 * order, which no wait can turn round. */
static bool
double_tree_all_reduce(struct task *me, const struct collective *call)
{
    struct double_tree trees = { .call = call, .pieces = piece_count((double)call->bytes) };
    int                lag   = 2 * levels(call->ranks);
    for (int tree = 0; tree < 2; tree++)
        trees.node[tree] = double_tree_node(tree, call->rank, call->ranks);
    for (int turn = 0; turn < trees.pieces + lag; turn++)
        for (int way = 0; way < 4; way++) {
            int tree = way % 2, piece = way < 2 ? turn : turn - lag;
            if (piece < 0 || piece >= trees.pieces)
                continue;
            if (!(way < 2 ? piece_up(me, &trees, tree, piece) : piece_down(me, &trees, tree, piece)))
                return false;
        }
    return true;
}

static double
double_tree_price(const struct reduce_size *size)
{
    int    pieces = piece_count(size->bytes);
    double piece  = hop_us(size, size->per_node < size->ranks ? size->per_node : 1, size->bytes / 2 / pieces, 2);
    return (2 * levels(size->ranks) + pieces - 1) * piece;
}

static struct cut
double_tree_cut(const struct collective *call)
{
    return (struct cut){ 2, piece_count((double)call->bytes), 0 };
}

const struct algorithm algorithm_double_tree = {
    "double_tree", double_tree_all_reduce, double_tree_price, double_tree_cut,
    "4 (N-1) for each 512 KiB of a half", "at most 2 S",
    "two binary trees, each for half the data, up and down in pieces: NCCL's for many nodes"
};
