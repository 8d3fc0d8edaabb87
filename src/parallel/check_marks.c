/* Marks: where all ranks of a model meet, and must have come to the same. The first rank leaves where it is, the others
 * compare. Interface: check_internal.h. PyTorch has nothing like it. */
#include <string.h>
#include "device/cells.h"
#include "parallel/check_internal.h"

static size_t
mark_bytes(const struct model *model)
{
    return sizeof(struct mark) + (size_t)model->count * sizeof(struct held);
}

static struct mark *
mark_begin(struct mark *mark, const struct model *model, int64_t number)
{
    *mark = (struct mark){ .number = number, .rank = -1, .missing = model->ranks - model->left };
    memset(mark->held, 0, (size_t)model->count * sizeof *mark->held);
    return mark;
}

static void
mark_fill(struct mark *mark, const struct replica *replica)
{
    const struct model *model = replica->model;
    mark->rank = replica->rank;
    for (int i = 0; i < model->count; i++) {
        const struct watched *w = &replica->watched[i];
        mark->held[i] = (struct held){ .at = w->at, .changes = w->changes };
        if (w->at != NULL)
            replica_state_hold(w->at);
    }
}

static struct mark **
mark_find(struct model *model, int64_t number)
{
    struct mark **link = &model->marks;
    while (*link != NULL && (*link)->number != number)
        link = &(*link)->next;
    return link;
}

/* One rank less has still to come. */
static void
mark_passed(struct task *me, struct model *model, struct mark **link)
{
    struct mark *mark = *link;
    if (--mark->missing > 0)
        return;
    *link = mark->next;
    for (int i = 0; i < model->count; i++)
        replica_states_leave(me, &model->states[i], &mark->held[i].at);
    host_return(me, mark, mark_bytes(model));
}

/* What one changed and the other did not, or what both did otherwise. */
static void
find_by_way(const struct watched *w, const struct mark *mark, struct finding *finding)
{
    const struct replica *replica = w->replica;
    const struct held    *held    = &mark->held[w->index];
    struct model         *model   = replica->model;
    struct fork           fork    = replica_states_fork(&model->states[w->index], held->at, w->at);
    struct side theirs = side_of(replica, mark->rank, fork.first, held->changes);
    struct side mine   = side_of(replica, replica->rank, fork.other, w->changes);
    if (fork.swapped) {
        theirs = side_of(replica, mark->rank, fork.other, held->changes);
        mine   = side_of(replica, replica->rank, fork.first, w->changes);
    }
    struct divergence divergence = { .subject = &model->subjects[w->index], .first = mine, .other = theirs };
    divergence.kind = fork.kind == FORK_SAME_CHANGE ? DIFFERS_BY_VALUE
                    : fork.kind == FORK_EXTRA ? DIFFERS_BY_EXTRA : DIFFERS_BY_CHANGE;
    bool mine_first = fork.kind == FORK_EXTRA ? fork.swapped : mine.rank > theirs.rank;
    if (!mine_first) {
        divergence.first = theirs;
        divergence.other = mine;
    }
    finding_of(finding, &divergence);
}

/* In the mutex. Takes `spare` if this rank is the first. */
static void
compare_with_mark(struct task *me, struct replica *replica, int64_t number, struct mark **spare,
                  struct finding *finding)
{
    struct model *model = replica->model;
    struct mark **link  = mark_find(model, number);
    if (*link == NULL) {
        *link  = mark_begin(*spare, model, number);
        *spare = NULL;
    }
    if ((*link)->rank < 0)
        mark_fill(*link, replica);
    for (int i = 0; i < model->count && !finding->found; i++) {
        struct watched  *w      = &replica->watched[i];
        struct replica_states   *states = &model->states[i];
        struct replica_state    *held   = (*link)->held[i].at;
        if (w->at == NULL || held == NULL || w->at == held)
            continue;
        if (memcmp(w->at->elements, held->elements, states->bytes) == 0)
            replica_states_join(me, states, &w->at, held);
        else
            find_by_way(w, *link, finding);
    }
    if (!finding->found)
        mark_passed(me, model, link);
}

bool
replica_meets(struct task *me, struct replica *replica, int64_t number)
{
    struct check_ranks *check   = replica->check;
    struct finding      finding = { 0 };
    for (int i = 0; i < replica->model->count; i++)
        if (!watched_follow(me, &replica->watched[i], replica->watched[i].tensor))
            return false;
    if (!replica_settle(me, replica))
        return false;
    struct mark *spare = cell_take(me, mark_bytes(replica->model));
    finding.refused    = spare == NULL ? mark_bytes(replica->model) : 0;
    pthread_mutex_lock(&check->mutex);
    if (!check->over && finding.refused == 0)
        compare_with_mark(me, replica, number, &spare, &finding);
    check->over = check->over || finding.found || finding.refused > 0;
    pthread_mutex_unlock(&check->mutex);
    host_return(me, spare, mark_bytes(replica->model));
    return finding_tell(me, &finding, false);
}

bool
replica_reduced(struct task *me, struct replica *replica)
{
    return replica == NULL || replica_meets(me, replica, replica->marks++);
}

bool
replica_shadowed(struct task *me, struct replica *replica, const int32_t *used)
{
    if (replica == NULL)
        return true;
    struct model *model = replica->model;
    struct mark  *spare = cell_take(me, mark_bytes(model));
    if (spare == NULL)
        return false;
    pthread_mutex_lock(&replica->check->mutex);
    int64_t       number = replica->marks++;
    struct mark **link   = mark_find(model, number);
    if (!replica->check->over && *link == NULL) {
        *link = mark_begin(spare, model, number);
        spare = NULL;
    }
    if (!replica->check->over)
        mark_passed(me, model, link);
    pthread_mutex_unlock(&replica->check->mutex);
    host_return(me, spare, mark_bytes(model));
    return replica_shadowed_grads(me, replica, used);
}

void
replica_leaves_marks(struct task *me, struct replica *replica)
{
    struct model *model = replica->model;
    for (struct mark **link = &model->marks, *mark; (mark = *link) != NULL;) {
        bool passed = mark->number == LAST_MARK ? replica->ended : mark->number < replica->marks;
        if (!passed)
            mark_passed(me, model, link);
        if (*link == mark)
            link = &mark->next;
    }
}

void
marks_free(struct task *me, struct model *model)
{
    for (struct mark *mark = model->marks, *next; mark != NULL; mark = next) {
        next = mark->next;
        host_return(me, mark, mark_bytes(model));
    }
    model->marks = NULL;
}
