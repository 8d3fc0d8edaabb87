/* The graph: nodes and edges as PyTorch records them. A node has one next edge per input of the op that it undoes;
 * an edge names the node that takes its gradient and which of that node's gradients it is. A leaf's edge leads to
 * its AccumulateGrad. Nodes are counted by references (the tensors that they made, edges, a running backward). */
#ifndef AUTOGRAD_NODE_H
#define AUTOGRAD_NODE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "autograd/history.h"
#include "autograd/hook_list.h"
#include "tensor/tensor.h"

struct node; struct stream;
struct edge { struct node *node; int input_nr; };    /* node NULL: no gradient wanted; holds a reference */

/* A tensor needed by the backward, with the version it had. All but leaves that want gradients are kept as twins
 * without history: the tensor itself may be changed in place later, its new history then leads here, and neither would
 * die.
 * from: the twin's history, NULL: none, or it is this node's output. */
struct saved {
    struct tensor *tensor;
    struct edge    from;
    uint32_t       version;
    bool           is_output, is_view;
    struct packed *packed;             /* kept elsewhere: `tensor` is there only while the node runs */
};

/* Where a task's tensors are saved instead, the innermost counts (SLOT_SAVING): saved_tensors_hooks in PyTorch. */
struct saved_hooks {
    /* *packed left NULL: the tensor is saved as without hooks. false: failed. */
    bool (*pack)(struct task *me, struct saved_hooks *hooks, struct tensor *tensor, struct packed **packed);
};
struct packed {
    struct tensor *(*unpack)(struct task *me, struct packed *packed); /* in me's scope; NULL: failed */
    void           (*drop)(struct task *me, struct packed *packed);
};
struct saved_hooks *saved_hooks_set(struct task *me, struct saved_hooks *hooks); /* the old ones; NULL: none */

/* Gradients of the outputs in (NULL: undefined), gradients of the inputs out (NULL: none), given to me's scope. */
typedef bool node_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in);

enum { NODE_SAVED = 5 };                             /* room for saved tensors unless said otherwise */

/* What a gradient of an output has to look like. */
struct output_meta { int dtype, device, dims; int64_t size[TENSOR_DIMS]; };

/* retain_grad: a tensor whose .grad is wanted though it is no leaf. Not a reference: it leaves when it dies. */
struct retained { struct tensor *tensor; int nr; };

struct node {
    atomic_int       references;
    const char      *name;                 /* "AddmmBackward0"; static or interned for the run */
    char             module[40];           /* whose forward recorded it ("Linear"), "" none: prices */
    const char      *op;                   /* the op that it undoes ("addmm"), NULL none: prices */
    bool             fill_missing;         /* missing gradients reach backward as zeros, as in PyTorch's Functions */
    node_backward   *backward;
    uint64_t         sequence_nr;          /* UINT64_MAX: AccumulateGrad */
    int              device, edge_count, output_count;
    uint32_t         line;                 /* the lesson's line that recorded it */
    struct edge     *edges;
    struct saved    *saved;
    int              saved_count, saved_room;
    bool             released;             /* its saved tensors are gone: a second backward is an error */
    int64_t          numbers[8];           /* what the backward needs to know: sizes, dims, flags */
    double           scalar, beta;         /* the op's alpha and beta */
    int64_t          in_size[TENSOR_DIMS]; /* shape of input 0, for gradients that must be expanded or summed */
    int              in_dims;
    void            *context;              /* of user functions, Broadcast, ...; freed by drop_context */
    void           (*drop_context)(struct task *me, void *context);
    struct tensor   *variable;             /* AccumulateGrad: the leaf */
    struct hook_list *post_hooks, *tensor_hooks;   /* tensor_hooks: on output i, stored with its number */
    struct output_meta *outputs;           /* output_count of them, set by node_output */
    struct retained *retained;
    int              retained_count;
    struct stream   *stream;               /* the device's current stream when it was recorded; NULL: the CPU */
    struct node     *next_dead;            /* while a graph is torn down */
    size_t           bytes;                /* of its block, with edges, outputs and saved */
};

/* Does anybody want the gradient of this input? */
static inline bool
node_wants(const struct node *node, int edge)
{
    return edge < node->edge_count && node->edges[edge].node != NULL;
}

/* With room for `edges` next edges, `outputs` outputs; its sequence number is me's next. NULL: failed. */
struct node *node_new(struct task *me, const char *name, node_backward *backward, int edges, int outputs);
struct node_room { int edges, outputs, saved; };
struct node *node_new_with(struct task *me, const char *name, node_backward *backward, const struct node_room *room);
struct node *node_ref(struct task *me, struct node *node);
void         node_unref(struct task *me, struct node *node);
/* Outside of any graph: it only keeps tensors, each in an argument's place. */
struct node *node_keeper(struct task *me, const char *name, int saved);
bool         node_save(struct task *me, struct node *node, struct tensor *tensor, bool is_output);
/* Gives the saved tensors back after the node ran; a later backward that needs them is an error. */
void          node_release_saved(struct task *me, struct node *node);
/* False: failed, a backward has given them back. */
bool           node_keeps_saved(struct task *me, const struct node *node);
/* The saved tensor after checking its version; NULL: failed with PyTorch's in-place message, or released. */
struct tensor *node_saved(struct task *me, struct node *node, int index);
/* What was unpacked for the node's turn is let go: the next turn unpacks it again. */
void         node_let_go_unpacked(struct task *me, struct node *node);
/* `tensor` becomes output `nr` of node. */
void         node_output(struct task *me, struct node *node, struct tensor *tensor, int nr);
/* The AccumulateGrad of a leaf, made on demand, a new reference; NULL: failed. */
struct node *node_accumulator(struct task *me, struct tensor *leaf);
/* The leaf's device or dtype changed: the next graph gets a new one. */
void         node_accumulator_reset(struct tensor *leaf);

bool grad_enabled(const struct task *me);
void grad_set_enabled(struct task *me, bool enabled);   /* SLOT_NO_GRAD */
#endif
