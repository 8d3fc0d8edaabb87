/* What the ranks have made of one tensor since all of them agreed: a tree. Its root is a state that every rank has had;
 * a rank's change leads from the state where it is to another, which is the child that another rank has made before if
 * the bytes are equal. So ranks that do the same walk the same way, whoever goes first, and only the states between the
 * last rank and the first are kept. Knows bytes alone, no tensor.
 *
 * Order of use: states_begin once a rank, then states_change and states_join; states_fork where two differ;
 * states_leave. */
#ifndef PARALLEL_STATES_H
#define PARALLEL_STATES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct task;

enum grad_state { GRAD_UNKNOWN, GRAD_AS_REDUCED, GRAD_CHANGED };
/* What made a state. Two ranks' changes are the same one if all but `grad` is equal. */
struct change {
    const char     *what;       /* "add_", "broadcast": outlives the run's models */
    uint32_t        line;       /* of the lesson */
    uint16_t        stage;      /* the innermost one around it */
    bool            is_op;      /* `what` is the name of an op, which worked in place */
    enum grad_state grad;       /* the optimizer's: since the last reduction */
};
bool change_equal(const struct change *a, const struct change *b);

struct state {
    struct state *parent, *child, *sibling;
    int             holders;    /* ranks that are here, and marks */
    int             rank;       /* who came first, in the group */
    int             others;     /* how many have come since by a change of their own */
    struct change   change;
    unsigned char   elements[];
};

struct states { struct state *root; size_t bytes; };

enum arrival {
    ARRIVED,                    /* at a state of its own, or where others are */
    ARRIVED_ELSEWHERE,          /* the same change has led another rank to other bytes: `rival` */
    ARRIVED_NOT                 /* no memory */
};
struct arrival_of { int rank; struct change change; const void *elements; struct state *rival; };
/* A rank's first state. `ranks` will come: none of them finds the root gone. */
enum arrival states_begin(struct task *me, struct states *states, struct state **at, int ranks,
                            struct arrival_of *arrival);
enum arrival states_change(struct task *me, struct states *states, struct state **at,
                             struct arrival_of *arrival);
/* The rank is where `state` is from now on: a state of equal bytes. */
void states_join(struct task *me, struct states *states, struct state **at, struct state *state);
void state_hold(struct state *state);
void states_leave(struct task *me, struct states *states, struct state **at);  /* of NULL: nothing */
void states_free(struct task *me, struct states *states);

/* Why two states differ: where their ways part. */
struct fork {
    enum { FORK_SAME_CHANGE,    /* both made it, with other bytes: `first` and `other` */
           FORK_EXTRA,          /* one made `first`, which the other did not: `other` is the state before */
           FORK_OTHER_CHANGE } kind;
    bool                  swapped;    /* `first` lies on b's way */
    const struct state *first, *other;
};
struct fork states_fork(const struct states *states, const struct state *a, const struct state *b);
#endif
