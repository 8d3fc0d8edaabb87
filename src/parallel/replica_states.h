/* What the ranks have made of one tensor since all of them agreed: a tree. Its root is a state that every rank has had;
 * a rank's change leads from the state where it is to another, which is the child that another rank has made before if
 * the bytes are equal. So ranks that do the same walk the same way, whoever goes first, and only the states between the
 * last rank and the first are kept. Knows bytes alone, no tensor.
 *
 * Order of use: replica_states_begin once a rank, then replica_states_change and _join; _fork where two differ; _leave. */
#ifndef PARALLEL_REPLICA_STATES_H
#define PARALLEL_REPLICA_STATES_H
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
    int64_t         after;      /* marks that the rank had passed: what lies between other ones is no match */
    enum grad_state grad;       /* the optimizer's: since the last reduction */
};
bool change_equal(const struct change *a, const struct change *b);

struct replica_state {
    struct replica_state *parent, *child, *sibling;
    int             holders;    /* ranks that are here, and marks */
    int             rank;       /* who came first, in the group */
    int             others;     /* how many have come since by a change of their own */
    struct change   change;
    unsigned char   elements[];
};

struct replica_states { struct replica_state *root; size_t bytes; };

enum arrival {
    ARRIVED,                    /* at a state of its own, or where others are */
    ARRIVED_ELSEWHERE           /* the same change has led another rank to other bytes: `rival` */
};
/* `spare` comes with the question, since memory is not asked for where ranks meet; what is not used stays there. */
struct arrival_of { int rank; struct change change; const void *elements; struct replica_state *spare, *rival; };
struct replica_state *replica_state_new(struct task *me, const struct replica_states *states);   /* NULL: no memory */
void replica_state_free(struct task *me, const struct replica_states *states, struct replica_state *state);
/* A rank's first state. `ranks` will come: none of them finds the root gone. */
enum arrival replica_states_begin(struct replica_states *states, struct replica_state **at, int ranks,
                                  struct arrival_of *arrival);
enum arrival replica_states_change(struct task *me, struct replica_states *states, struct replica_state **at,
                                   struct arrival_of *arrival);
/* The rank is where `state` is from now on: a state of equal bytes. */
void replica_states_join(struct task *me, struct replica_states *states, struct replica_state **at,
                         struct replica_state *state);
void replica_state_hold(struct replica_state *state);
/* of NULL: nothing */
void replica_states_leave(struct task *me, struct replica_states *states, struct replica_state **at);
void replica_states_free(struct task *me, struct replica_states *states);

/* Why two states differ: where their ways part. */
struct fork {
    enum { FORK_SAME_CHANGE,    /* both made it, with other bytes: `first` and `other` */
           FORK_EXTRA,          /* one made `first`, which the other did not: `other` is the state before */
           FORK_OTHER_CHANGE } kind;
    bool                        swapped;    /* `first` lies on b's way */
    const struct replica_state *first, *other;
};
struct fork replica_states_fork(const struct replica_states *states, const struct replica_state *a,
                                const struct replica_state *b);
#endif
