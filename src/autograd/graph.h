/* One backward at work (PyTorch's GraphTask): which nodes wait for how many gradients, what has come, who is ready.
 * Made by autograd_backward, shared by it and the device workers; the monitor guards everything that moves.
 * Order of use: graph_init, graph_want, graph_discover, graph_deliver of the roots' gradients; then graph_take and
 * graph_done by whoever works; graph_clear when all have ended. */
#ifndef AUTOGRAD_GRAPH_H
#define AUTOGRAD_GRAPH_H
#include "autograd/engine.h"
#include "sched/sched.h"

struct pending {                    /* a node of this backward */
    struct node *node;              /* a reference */
    int          dependencies;      /* gradients that are still to come, by edge */
    bool         needed;            /* to be run: it leads to a gradient that is wanted */
    bool         wanted;            /* a gradient that arrives here is a result (autograd.grad) */
    size_t       slot;              /* of its first output's gradient */
};

struct ready { size_t index; uint64_t sequence_nr; };

struct queue {                      /* of the CPU (the first) or of a device */
    int           device;
    struct ready *heap;
    size_t        count, room;
    struct task  *worker;           /* NULL: the calling task, or not started yet */
    bool          started;
};

/* Where a backward begins, and with what: a reference to the node, a gradient of the caller's scope. */
struct root { struct edge edge; struct tensor *grad; };
/* A gradient (a reference, taken over; may be NULL) for input `nr` of a node. */
struct arrival { size_t index; int nr; struct tensor *grad; };
struct capture { struct node *node; int nr; struct tensor *grad; };
struct callback {
    bool (*run)(struct task *me, void *context);     /* NULL: nothing to run */
    void (*drop)(struct task *me, void *context);    /* when the graph goes; NULL: nothing to drop */
    void  *context;
};

struct graph {
    const struct backward_options *options;
    uint64_t         id;
    bool             may_checkpoint; /* neither this backward nor one around it is an autograd.grad */
    int              depth;         /* 1, or one more than the backward inside of which this one runs */
    struct monitor   monitor;       /* made by graph_share */
    bool             shared;
    uint32_t        *places;        /* node -> index in pending + 1, by the node's address; 0: empty */
    size_t           place_count;   /* a power of two, at most half full */
    struct pending  *pending;
    size_t           count, room, slot_count;
    struct tensor  **slots;         /* gradients that have come; references */
    struct capture  *captures;      /* one an input */
    struct queue    *queues;
    size_t           queue_count, queue_room;
    size_t           outstanding;   /* nodes ready or running, and 1 while the roots are delivered */
    size_t           left;          /* needed nodes that have not run */
    bool             failed;
    size_t           failed_queue;  /* whose task found the first error */
    struct callback *callbacks;
    size_t           callback_count, callback_room;
    struct stream  **streams;       /* those that nodes ran on */
    size_t           stream_count, stream_room;
};

bool graph_init(struct task *me, struct graph *graph, const struct backward_options *options);
void graph_clear(struct task *me, struct graph *graph);
bool graph_want(struct task *me, struct graph *graph);   /* options->inputs: where their gradients will arrive */
/* Counts dependencies over everything that can be reached from the roots. */
bool graph_discover(struct task *me, struct graph *graph, const struct root *roots, int count);
/* Makes the node ready when this was the last one that it waited for. `unmanned`: the queue of a device that has its
 * first work now, so that its worker is to be started, else SIZE_MAX; nobody else is told of it. */
bool graph_deliver(struct task *me, struct graph *graph, struct arrival arrival, size_t *unmanned);
/* `stepped` only: the trace is told who hands gradients to whom (announce.c). false: failed. */
bool graph_announce(struct task *me, const struct graph *graph, const struct root *roots, int count);
size_t graph_place(const struct graph *graph, const struct node *node); /* SIZE_MAX: not part of this backward */
/* Waits for a node of `queue` to be ready. false: nothing more to do here. */
bool graph_take(struct task *me, struct graph *graph, size_t queue, size_t *index);
void graph_done(struct task *me, struct graph *graph);   /* one node less outstanding */
void graph_fail(struct task *me, struct graph *graph, size_t queue);
bool graph_used_stream(struct task *me, struct graph *graph, struct stream *stream);

/* Until the first worker is started the calling task is alone: it takes no lock and wakes nobody. */
bool graph_share(struct task *me, struct graph *graph);
void graph_lock(struct task *me, struct graph *graph);
void graph_unlock(struct task *me, struct graph *graph);
#endif
