/* NCCL's two binary trees, as data: who is whose parent. */
#ifndef C10D_DOUBLE_TREE_H
#define C10D_DOUBLE_TREE_H

struct tree_node { int parent, children[2]; };   /* ranks; -1: none */
struct tree_node double_tree_node(int tree, int rank, int ranks);   /* tree: 0 or 1 */
#endif
