/* The tree of a tensor's states. Interface in order of use: states_begin, states_change, states_join, states_fork,
 * states_leave, states_free. PyTorch has nothing like it. */
#include "parallel/states.h"
#include <string.h>
#include "device/cells.h"

bool
change_equal(const struct change *a, const struct change *b)
{
    return a->line == b->line && a->stage == b->stage && strcmp(a->what, b->what) == 0;
}

static struct state *
state_new(struct task *me, const struct states *states, const struct arrival_of *arrival)
{
    struct state *state = cell_take(me, sizeof *state + states->bytes);
    if (state == NULL)
        return NULL;
    *state = (struct state){ .rank = arrival->rank, .change = arrival->change };
    memcpy(state->elements, arrival->elements, states->bytes);
    return state;
}

static void
state_free(struct task *me, const struct states *states, struct state *state)
{
    host_return(me, state, sizeof *state + states->bytes);
}

static void
state_unlink(struct state *state)
{
    struct state **link = &state->parent->child;
    while (*link != state)
        link = &(*link)->sibling;
    *link = state->sibling;
}

/* Ways that nobody is on any more go, from `state` upwards; the root moves on where all have gone the same way. */
static void
states_prune(struct task *me, struct states *states, struct state *state)
{
    while (state != states->root && state->holders == 0 && state->child == NULL) {
        struct state *parent = state->parent;
        state_unlink(state);
        state_free(me, states, state);
        state = parent;
    }
    for (struct state *root = states->root; root->holders == 0 && root->child != NULL &&
                                                root->child->sibling == NULL; root = states->root) {
        states->root         = root->child;
        states->root->parent = NULL;
        state_free(me, states, root);
    }
}

void
state_hold(struct state *state)
{
    state->holders++;
}

void
states_join(struct task *me, struct states *states, struct state **at, struct state *state)
{
    struct state *before = *at;
    state->holders++;
    *at = state;
    before->holders--;
    states_prune(me, states, before);
}

void
states_leave(struct task *me, struct states *states, struct state **at)
{
    struct state *before = *at;
    if (before == NULL)
        return;
    *at = NULL;
    before->holders--;
    states_prune(me, states, before);
}

enum arrival
states_begin(struct task *me, struct states *states, struct state **at, int ranks, struct arrival_of *arrival)
{
    struct state *root = states->root;
    if (root == NULL) {
        root = state_new(me, states, arrival);
        if (root == NULL)
            return ARRIVED_NOT;
        root->holders  = ranks;
        states->root = root;
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
states_change(struct task *me, struct states *states, struct state **at, struct arrival_of *arrival)
{
    struct state *before = *at, *rival = NULL;
    for (struct state *child = before->child; child != NULL; child = child->sibling) {
        if (memcmp(child->elements, arrival->elements, states->bytes) == 0) {
            child->others++;
            states_join(me, states, at, child);
            return ARRIVED;
        }
        if (change_equal(&child->change, &arrival->change))
            rival = child;
    }
    arrival->rival = rival;
    if (rival != NULL)
        return ARRIVED_ELSEWHERE;
    struct state *made = state_new(me, states, arrival);
    if (made == NULL)
        return ARRIVED_NOT;
    made->parent  = before;
    made->sibling = before->child;
    before->child = made;
    states_join(me, states, at, made);
    return ARRIVED;
}

void
states_free(struct task *me, struct states *states)
{
    for (struct state *at = states->root; at != NULL;) {
        struct state *child = at->child, *parent = at->parent;
        if (child != NULL) {
            at->child = child->sibling;
            at        = child;
            continue;
        }
        state_free(me, states, at);
        at = parent;
    }
    states->root = NULL;
}

/* ---- where two ways part ---- */

/* The next state from `above` on the way to `state`; NULL: it is there. */
static const struct state *
next_towards(const struct state *above, const struct state *state)
{
    const struct state *at = state;
    while (at != above && at->parent != above)
        at = at->parent;
    return at == above ? NULL : at;
}

/* The next one whose bytes are not those before it. */
static const struct state *
next_state(const struct states *states, const struct state *above, const struct state *state)
{
    const struct state *next = next_towards(above, state);
    while (next != NULL && memcmp(next->elements, above->elements, states->bytes) == 0) {
        above = next;
        next  = next_towards(above, state);
    }
    return next;
}

static bool
is_above(const struct state *above, const struct state *state)
{
    while (state != NULL && state != above)
        state = state->parent;
    return state != NULL;
}

static bool
is_next(const struct states *states, const struct state *from, const struct state *to,
        const struct state *like)
{
    const struct state *next = next_state(states, from, to);
    return next != NULL && change_equal(&next->change, &like->change);
}

struct fork
states_fork(const struct states *states, const struct state *a, const struct state *b)
{
    const struct state *above = a;
    while (!is_above(above, b))
        above = above->parent;
    const struct state *on_a = above, *on_b = above, *x, *y;
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
