/* A treap: a search tree whose nodes are heaped by a number that looks random, so that it stays flat whatever comes in
 * whatever order. The number is made of where the block lies, so runs repeat.
 *
 * Interface: tree_add, tree_best, tree_remove. PyTorch has a std::set. */
#include "device/tree.h"

static uint32_t
priority_of(const struct cache_block *block)
{
    uint64_t mixed = (block->segment->number + block->offset) * 0x9e3779b97f4a7c15u;
    return (uint32_t)((mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9u >> 32);
}

static bool
comes_before(const struct cache_block *a, const struct cache_block *b)
{
    if (a->segment->stream != b->segment->stream)
        return a->segment->stream < b->segment->stream;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes;
    if (a->segment != b->segment)
        return a->segment->number < b->segment->number;
    return a->offset < b->offset;
}

/* Below all of a higher priority; what was there is parted into those before it and those behind. */
void
tree_add(struct cache_block **root, struct cache_block *block)
{
    struct cache_block **link = root;
    block->priority = priority_of(block);
    while (*link != NULL && (*link)->priority >= block->priority)
        link = comes_before(block, *link) ? &(*link)->left : &(*link)->right;

    struct cache_block *rest = *link, **low = &block->left, **high = &block->right;
    while (rest != NULL) {
        if (comes_before(rest, block)) {
            *low = rest;
            low  = &rest->right;
            rest = rest->right;
        } else {
            *high = rest;
            high  = &rest->left;
            rest  = rest->left;
        }
    }
    *low  = NULL;
    *high = NULL;
    *link = block;
}

void
tree_remove(struct cache_block **root, struct cache_block *block)
{
    struct cache_block **link = root, *left = block->left, *right = block->right;
    while (*link != block)
        link = comes_before(block, *link) ? &(*link)->left : &(*link)->right;
    while (left != NULL && right != NULL) {
        if (left->priority >= right->priority) {
            *link = left;
            link  = &left->right;
            left  = *link;
        } else {
            *link = right;
            link  = &right->left;
            right = *link;
        }
    }
    *link = left != NULL ? left : right;
}

struct cache_block *
tree_best(struct cache_block *root, int stream, size_t bytes)
{
    struct cache_block *best = NULL;
    while (root != NULL) {
        int  at    = root->segment->stream;
        bool fits  = at > stream || (at == stream && root->bytes >= bytes);
        best = fits ? root : best;
        root = fits ? root->left : root->right;
    }
    return best != NULL && best->segment->stream == stream ? best : NULL;
}
