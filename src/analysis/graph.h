/* One backward as of an event: its nodes in the order of a walk from the loss, which of them ran, which is running,
 * which wait for how many gradients, and the hooks that fired at each. The edges are those that the engine told once
 * dependencies were counted (autograd.graph); what ran is folded from there to the event.
 * Order of use: backward_at, then the fields, backward_print; backward_free. */
#ifndef ANALYSIS_GRAPH_H
#define ANALYSIS_GRAPH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace; struct state; struct str;

enum backward_when { BACKWARD_NONE, BACKWARD_NOW, BACKWARD_LAST, BACKWARD_NEXT };
enum turn {
    TURN_WAITS,      /* for `waits` gradients */
    TURN_READY,      /* all have come: it stands in a queue */
    TURN_RUNS,
    TURN_DONE,
    TURN_NEVER       /* it leads to nothing that is wanted (autograd.grad) */
};

struct backward_node {
    const char *name;        /* "AddmmBackward0", "AccumulateGrad" */
    const char *what;        /* its module, or the parameter's name; "" not known */
    bool        accumulates; /* an AccumulateGrad */
    const int  *edges;       /* whom it hands gradients to, as places */
    int         edge_count;
    enum turn   turn;
    int         waits;       /* gradients still to come */
    int         order;       /* it was the so many'th to run, from 1; 0 not yet */
    size_t      begin, end;  /* events; SIZE_MAX not yet */
    int         head;        /* what hangs at a node (its parameters) has it as its head; else itself */
    int         indent;      /* in the walk */
};

/* A hook that fired at a node: the event of its beginning. */
struct backward_hook { size_t seq; int node; };

struct backward {
    struct trace          *trace;
    enum backward_when     when;
    size_t                 seq, begin, end;   /* as of; of its stage; SIZE_MAX */
    size_t                 told;              /* autograd.graph; SIZE_MAX: not recorded, or not yet */
    int                    rank, roots;
    bool                   cut_off;           /* too many events lie between: what ran is not followed */
    struct backward_node  *nodes;             /* by place */
    int                    count, left_out;   /* nodes that are known; that the text had no room for */
    int                   *walk;              /* places in the order of the walk, `count` of them */
    struct backward_hook  *hooks;             /* in firing order */
    size_t                 hook_count, hook_room;
    int                    done, ready, current; /* current: the place that the event is about, or runs; -1 */
    char                  *text;              /* what the names lie in */
    int                   *edges;
};

/* NULL: no memory. `state` has been moved to the event. */
struct backward *backward_at(struct trace *trace, const struct state *state, size_t seq);
void             backward_free(struct backward *backward);

/* The module of a node: of the parameters that hang at it, else the one that recorded it. "" none. */
void backward_module(const struct backward *backward, int place, struct str *out);
void backward_heading(const struct backward *backward, struct str *out);            /* "backward r0 3/9 ran, 2 ready" */
void backward_hooks(const struct backward *backward, int place, struct str *out);   /* "hook b0 2 left"; "" none */
void backward_print(const struct backward *backward, struct str *out);              /* all of it in lines */
#endif
