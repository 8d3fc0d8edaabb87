/* Tensors under watch: each change of their bytes is one more state of the rank's replica. Interface: check_internal.h.
 * PyTorch has nothing like it. */
#include <string.h>
#include "device/stream.h"
#include "parallel/check_internal.h"
#include "sched/stage.h"
#include "tensor/tensor.h"

/* ---- a change ---- */

/* The same change has made other bytes than another rank's. Whose are more is told as what is right; where it is one
 * against one, whose gradient is the reduced one, else the lower rank's, whoever came first. */
static void
find_by_value(const struct watched *w, const struct arrival_of *arrival, struct finding *finding)
{
    const struct replica_state *rival   = arrival->rival;
    const struct replica *replica = w->replica;
    struct side mine   = { .rank = replica->global, .elements = arrival->elements, .change = &arrival->change,
                           .changes = -1 };
    struct side theirs = side_of(replica, rival->rank, rival, -1);
    struct divergence divergence = { .kind = DIFFERS_BY_VALUE, .subject = &replica->model->subjects[w->index],
                                     .first = mine, .other = theirs };
    bool mine_is_odd   = arrival->change.grad == GRAD_CHANGED && rival->change.grad == GRAD_AS_REDUCED;
    bool theirs_is_odd = rival->change.grad == GRAD_CHANGED && arrival->change.grad == GRAD_AS_REDUCED;
    divergence.other.others = rival->others;
    if (rival->others == 0 && !mine_is_odd && (theirs_is_odd || mine.rank < theirs.rank)) {
        divergence.first = theirs;
        divergence.other = mine;
    }
    finding_of(finding, &divergence);
}

bool
watched_arrives(struct task *me, struct watched *w, struct change change, bool queued)
{
    struct replica    *replica = w->replica;
    struct model      *model   = replica->model;
    struct replica_states   *states = &model->states[w->index];
    struct finding     finding = { 0 };
    struct arrival_of  arrival = { .rank = replica->rank, .change = change };
    if (!queued && !check_charge(me, states->bytes))
        return false;
    arrival.spare    = replica_state_new(me, states);
    arrival.elements = elements_now(me, w->tensor);
    if (arrival.spare == NULL || arrival.elements == NULL)
        finding.refused = sizeof *arrival.spare + states->bytes;
    pthread_mutex_lock(&replica->check->mutex);
    enum arrival answer = ARRIVED;
    if (!replica->check->over && finding.refused == 0)
        answer = w->at == NULL ? replica_states_begin(states, &w->at, model->ranks, &arrival)
                               : replica_states_change(me, states, &w->at, &arrival);
    if (answer == ARRIVED_ELSEWHERE)
        find_by_value(w, &arrival, &finding);
    replica->check->over = replica->check->over || finding.found || finding.refused > 0;
    pthread_mutex_unlock(&replica->check->mutex);
    elements_done(me, w->tensor, arrival.elements);
    replica_state_free(me, states, arrival.spare);
    return finding_tell(me, &finding, queued);
}

/* An optimizer's step is told with what became of the gradient. Of work in a stream nothing is known: the host has
 * gone on. */
static enum grad_state
grad_state(const struct watched *w, const struct storage_change *seen)
{
    const struct tensor *grad = w->tensor->grad;
    if (seen->stage != KIND_optim_step || seen->queued || w->grad == NULL || grad == NULL)
        return GRAD_UNKNOWN;
    return grad == w->grad && tensor_version(grad) == w->grad_version ? GRAD_AS_REDUCED : GRAD_CHANGED;
}

static bool
overlaps_watched(const struct watched *w, const struct access *access)
{
    const struct tensor *tensor = w->tensor;
    int64_t first = tensor->offset, last = tensor->offset, element = (int64_t)dtype_size(tensor->dtype);
    for (int d = 0; d < tensor->dims; d++)
        last += (tensor->size[d] - 1) * tensor->stride[d];
    return (int64_t)access->begin < (last + 1) * element && first * element < (int64_t)access->end;
}

/* A buffer is only what DDP's broadcast has made of it: a forward changes each rank's by itself. */
static bool
watched_changed(struct task *me, struct storage_watch *self, const struct storage_change *seen)
{
    struct watched       *w       = (struct watched *)self;
    const struct subject *subject = &w->replica->model->subjects[w->index];
    if (w->at == NULL || !overlaps_watched(w, &seen->access) ||
        (subject->is_buffer && seen->stage != KIND_ddp_sync_buffers))
        return true;
    w->changes++;
    const struct change change = { .what = seen->access.what, .line = seen->line, .stage = seen->stage,
                                   .is_op = seen->is_op, .after = w->replica->marks,
                                   .grad = grad_state(w, seen) };
    return watched_arrives(me, w, change, seen->queued);
}

/* ---- watching ---- */

void
watched_attach(struct watched *w, struct tensor *tensor)
{
    w->watch.changed = watched_changed;
    w->tensor        = tensor_ref(tensor);
    w->storage       = storage_ref(tensor->storage);
    storage_add_watch(w->storage, &w->watch);
}

void
watched_detach(struct task *me, struct watched *w)
{
    if (w->tensor == NULL)
        return;
    storage_remove_watch(w->storage, &w->watch);
    storage_unref(me, w->storage);
    w->storage = NULL;
    tensor_drop(me, &w->tensor);
}

bool
subject_fits(const struct subject *subject, const struct tensor *tensor)
{
    return subject->dtype == tensor->dtype && subject->dims == tensor->dims &&
           sizes_equal(subject->dims, subject->size, tensor->size);
}

bool
watched_follow(struct task *me, struct watched *w, struct tensor *tensor)
{
    struct model *model = w->replica->model;
    if (w->at == NULL || (tensor == w->tensor && tensor->storage == w->storage))
        return true;
    struct tensor *kept = tensor_ref(tensor);
    watched_detach(me, w);
    watched_attach(w, kept);
    tensor_unref(me, kept);
    if (subject_fits(&model->subjects[w->index], w->tensor)) {
        const struct change change = { .what = "another memory", .line = me->line, .stage = me->stage };
        return model->subjects[w->index].is_buffer || watched_arrives(me, w, change, false);
    }
    pthread_mutex_lock(&w->replica->check->mutex);
    replica_states_leave(me, &model->states[w->index], &w->at);
    pthread_mutex_unlock(&w->replica->check->mutex);
    return true;
}

bool
replica_settle(struct task *me, const struct replica *replica)
{
    for (int i = 0; i < replica->model->count; i++) {
        const struct watched *w = &replica->watched[i];
        if (w->storage != NULL && w->storage->queued_writes > 0 && !device_synchronize(me, w->storage->device))
            return false;
    }
    return true;
}
