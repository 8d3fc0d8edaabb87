/* Two binary trees, each for half of the data, so that a rank that hands on much in one is a leaf in the other: all
 * links work in both directions. Up, adding, and down again, in pieces that follow each other: in each round every rank
 * sends on, in both trees, what came in the round before, and only then takes what comes: all messages of a round are
 * under way at once. Where both trees need one link, the second tree's message goes when the first one's was taken.
 * PyTorch: NCCL's double binary trees (ncclGetDtree), one rank a node. */
#include "c10d/double_tree.h"
#include "c10d/local.h"

/* The smallest piece that is worth a latency of its own. As many as the way has steps fill it; with more of them those
 * that go up would meet those that come down. */
enum { PIECE_BYTES = 64 << 10 };

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

/* ---- rounds ---- */

struct double_tree {
    const struct collective *call;
    int                      levels, pieces;   /* pieces: of each half */
};

/* Above the leaves: the second tree's ranks by their places in the first. */
static int
height(const struct double_tree *trees, int tree, int rank)
{
    int ranks = trees->call->ranks, place = tree == 0 ? rank : renamed(rank, ranks, false), steps = 0;
    while (steps < trees->levels && (place & 1 << steps) == 0)
        steps++;
    return steps;
}

/* What goes from one rank to the other in this round, rounds counting from 0; below 0: nothing. A rank of height h
 * takes piece 0 from both its children in round h - 1, and L being the root's, has it for them 2 (L - h) + 1 later. */
static int
piece_between(const struct double_tree *trees, int tree, int from, int to, int round)
{
    int ranks = trees->call->ranks, piece = -1;
    if (double_tree_node(tree, from, ranks).parent == to)
        piece = round - (height(trees, tree, to) - 1);
    else if (double_tree_node(tree, to, ranks).parent == from)
        piece = round - (2 * trees->levels - height(trees, tree, from));
    return piece < trees->pieces ? piece : -1;
}

/* ---- what a rank does in one ---- */

struct turn { int round; bool second, sends; };   /* second: what goes after a message over the same link */

static bool
piece_moves(struct task *me, const struct double_tree *trees, const struct turn *turn, int tree, int peer, bool up)
{
    const struct collective *call = trees->call;
    int from = turn->sends ? call->rank : peer, to = turn->sends ? peer : call->rank;
    int piece = piece_between(trees, tree, from, to, turn->round);
    if (piece < 0 || turn->second != (tree == 1 && piece_between(trees, 0, from, to, turn->round) >= 0))
        return true;
    struct part     half = part_of((struct part){ 0, call->elements }, tree, 2);
    struct part     part = part_of(half, piece, trees->pieces);
    struct exchange hop  = { .to = turn->sends ? to : -1, .from = turn->sends ? -1 : from, .send = part,
                             .receive = part, .chunk = tree * trees->pieces + piece, .reduce = up, .goes_on = true };
    return exchange_run(me, call, &hop);
}

static bool
turn_run(struct task *me, const struct double_tree *trees, const struct turn *turn)
{
    bool ok = true;
    for (int tree = 0; tree < 2 && ok; tree++) {
        struct tree_node node = double_tree_node(tree, trees->call->rank, trees->call->ranks);
        for (int i = 0; i < 2 && ok; i++)
            ok = node.children[i] < 0 || piece_moves(me, trees, turn, tree, node.children[i], !turn->sends);
        ok = ok && (node.parent < 0 || piece_moves(me, trees, turn, tree, node.parent, turn->sends));
    }
    return ok;
}

static struct double_tree
double_tree_of(const struct collective *call)
{
    struct double_tree trees = { .call = call };
    while (1 << trees.levels < call->ranks)
        trees.levels++;
    int64_t most = 2 * trees.levels - 1, pieces = call->bytes / 2 / PIECE_BYTES;
    trees.pieces = (int)(pieces < 1 ? 1 : pieces > most ? most : pieces);
    return trees;
}

static bool
double_tree_all_reduce(struct task *me, const struct collective *call)
{
    struct double_tree trees = double_tree_of(call);
    for (int round = 0; round < 2 * trees.levels + trees.pieces - 1; round++)
        for (int second = 0; second < 2; second++)
            if (!turn_run(me, &trees, &(struct turn){ round, second, .sends = true }) ||
                !turn_run(me, &trees, &(struct turn){ round, second, .sends = false }))
                return false;
    return true;
}

static struct cut
double_tree_cut(const struct collective *call)
{
    return (struct cut){ 2, double_tree_of(call).pieces, 0 };
}

const struct algorithm algorithm_double_tree = {
    "double_tree", double_tree_all_reduce, double_tree_cut, true,
    "4 (N-1) P, P pieces of each half", "at most 2 S",
    "two binary trees, each for half the data, up and down in pieces: NCCL's for many nodes"
};
