/* The tree of a tensor's states. Interface in order of use: replica_states_begin, _change, _join, _fork, _leave, _free.
 * PyTorch has nothing like it. */
#include "parallel/replica_states.h"
#include <string.h>
#include "device/cells.h"

bool
change_equal(const struct change *a, const struct change *b)
{
    return a->after == b->after && a->line == b->line && a->stage == b->stage && strcmp(a->what, b->what) == 0;
}

struct replica_state *
replica_state_new(struct task *me, const struct replica_states *states)
{
    return cell_take(me, sizeof(struct replica_state) + states->bytes);
}

void
replica_state_free(struct task *me, const struct replica_states *states, struct replica_state *state)
{
    host_return(me, state, sizeof *state + states->bytes);
}

static struct replica_state *
replica_state_fill(const struct replica_states *states, struct arrival_of *arrival)
{
    struct replica_state *state = arrival->spare;
    arrival->spare      = NULL;
    *state              = (struct replica_state){ .rank = arrival->rank, .change = arrival->change };
    memcpy(state->elements, arrival->elements, states->bytes);
    return state;
}

static void
replica_state_unlink(struct replica_state *state)
{
    struct replica_state **link = &state->parent->child;
    while (*link != state)
        link = &(*link)->sibling;
    *link = state->sibling;
}

/* Ways that nobody is on any more go, from `state` upwards; the root moves on where all have gone the same way. */
static void
replica_states_prune(struct task *me, struct replica_states *states, struct replica_state *state)
{
    while (state != states->root && state->holders == 0 && state->child == NULL) {
        struct replica_state *parent = state->parent;
        replica_state_unlink(state);
        replica_state_free(me, states, state);
        state = parent;
    }
    for (struct replica_state *root = states->root; root->holders == 0 && root->child != NULL &&
                                                root->child->sibling == NULL; root = states->root) {
        states->root         = root->child;
        states->root->parent = NULL;
        replica_state_free(me, states, root);
    }
}

void
replica_state_hold(struct replica_state *state)
{
    state->holders++;
}

void
replica_states_join(struct task *me, struct replica_states *states, struct replica_state **at,
                    struct replica_state *state)
{
    struct replica_state *before = *at;
    state->holders++;
    *at = state;
    before->holders--;
    replica_states_prune(me, states, before);
}

void
replica_states_leave(struct task *me, struct replica_states *states, struct replica_state **at)
{
    struct replica_state *before = *at;
    if (before == NULL)
        return;
    *at = NULL;
    before->holders--;
    replica_states_prune(me, states, before);
}

enum arrival
replica_states_begin(struct replica_states *states, struct replica_state **at, int ranks, struct arrival_of *arrival)
{
    struct replica_state *root = states->root;
    if (root == NULL) {
        root          = replica_state_fill(states, arrival);
        root->holders = ranks;
        states->root  = root;
    } else if (memcmp(root->elements, arrival->elements, states->bytes) != 0) {
        arrival->rival = root;
        return ARRIVED_ELSEWHERE;
    } else {
        root->others++;
    }
    *at = root;
    return ARRIVED;
}

enum arrival
replica_states_change(struct task *me, struct replica_states *states, struct replica_state **at,
                      struct arrival_of *arrival)
{
    struct replica_state *before = *at, *rival = NULL;
    for (struct replica_state *child = before->child; child != NULL; child = child->sibling) {
        if (memcmp(child->elements, arrival->elements, states->bytes) == 0) {
            child->others++;
            replica_states_join(me, states, at, child);
            return ARRIVED;
        }
        if (change_equal(&child->change, &arrival->change))
            rival = child;
    }
    arrival->rival = rival;
    if (rival != NULL)
        return ARRIVED_ELSEWHERE;
    struct replica_state *made = replica_state_fill(states, arrival);
    made->parent  = before;
    made->sibling = before->child;
    before->child = made;
    replica_states_join(me, states, at, made);
    return ARRIVED;
}

void
replica_states_free(struct task *me, struct replica_states *states)
{
    for (struct replica_state *at = states->root; at != NULL;) {
        struct replica_state *child = at->child, *parent = at->parent;
        if (child != NULL) {
            at->child = child->sibling;
            at        = child;
            continue;
        }
        replica_state_free(me, states, at);
        at = parent;
    }
    states->root = NULL;
}

/* ---- where two ways part ---- */

/* The next state from `above` on the way to `state`; NULL: it is there. */
static const struct replica_state *
next_towards(const struct replica_state *above, const struct replica_state *state)
{
    const struct replica_state *at = state;
    while (at != above && at->parent != above)
        at = at->parent;
    return at == above ? NULL : at;
}

/* The next one whose bytes are not those before it. */
static const struct replica_state *
next_state(const struct replica_states *states, const struct replica_state *above, const struct replica_state *state)
{
    const struct replica_state *next = next_towards(above, state);
    while (next != NULL && memcmp(next->elements, above->elements, states->bytes) == 0) {
        above = next;
        next  = next_towards(above, state);
    }
    return next;
}

static bool
is_above(const struct replica_state *above, const struct replica_state *state)
{
    while (state != NULL && state != above)
        state = state->parent;
    return state != NULL;
}

static bool
is_next(const struct replica_states *states, const struct replica_state *from, const struct replica_state *to,
        const struct replica_state *like)
{
    const struct replica_state *next = next_state(states, from, to);
    return next != NULL && change_equal(&next->change, &like->change);
}

struct fork
replica_states_fork(const struct replica_states *states, const struct replica_state *a, const struct replica_state *b)
{
    const struct replica_state *above = a;
    while (!is_above(above, b))
        above = above->parent;
    const struct replica_state *on_a = above, *on_b = above, *x, *y;
    for (;;) { /* as far as both came to the same bytes, whatever way */
        x = next_state(states, on_a, a);
        y = next_state(states, on_b, b);
        if (x == NULL || y == NULL || memcmp(x->elements, y->elements, states->bytes) != 0)
            break;
        on_a = x;
        on_b = y;
    }
    if (x != NULL && y != NULL && change_equal(&x->change, &y->change))
        return (struct fork){ .kind = FORK_SAME_CHANGE, .first = x, .other = y };
    if (x != NULL && (y == NULL || is_next(states, x, a, y)))
        return (struct fork){ .kind = FORK_EXTRA, .first = x, .other = on_a };
    if (y != NULL && (x == NULL || is_next(states, y, b, x)))
        return (struct fork){ .kind = FORK_EXTRA, .swapped = true, .first = y, .other = on_b };
    return (struct fork){ .kind = FORK_OTHER_CHANGE, .first = x != NULL ? x : a, .other = y != NULL ? y : b };
}
