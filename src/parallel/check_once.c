/* What ranks do once and must do alike: gradients after their reduction, the names in the buckets, the orders of
 * samplers. Interface: check_ranks.h. PyTorch has nothing like it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/rng.h"
#include "device/cells.h"
#include "parallel/check_internal.h"
#include "tensor/tensor.h"

/* ---- gradients ---- */

/* All that is compared once goes this way. `tell` says in the mutex how they differ. */
struct compared {
    struct check_ranks  *check;
    struct agreements   *agreements;
    struct agreement_of  mine;
    const struct replica *replica;      /* NULL: of a sampler */
    const struct subject *subject;      /* of a gradient */
    void               (*tell)(const struct compared *compared, const struct agreement *theirs,
                               struct finding *finding);
};

static bool
compare_once(struct task *me, struct compared *compared, bool queued)
{
    struct check_ranks  *check   = compared->check;
    struct agreement_of *mine    = &compared->mine;
    struct finding       finding = { 0 };
    mine->spare = agreement_new(me, mine->bytes);
    if (mine->spare == NULL || (mine->elements == NULL && mine->bytes > 0))
        finding.refused = sizeof *mine->spare + mine->bytes;
    pthread_mutex_lock(&check->mutex);
    if (!check->over && finding.refused == 0) {
        const struct agreement *theirs = agreements_meet(me, compared->agreements, mine);
        if (theirs != NULL)
            compared->tell(compared, theirs, &finding);
    }
    check->over = check->over || finding.found || finding.refused > 0;
    pthread_mutex_unlock(&check->mutex);
    agreement_free(me, mine->spare, mine->bytes);
    return finding_tell(me, &finding, queued);
}

static void
find_grad(const struct compared *compared, const struct agreement *theirs, struct finding *finding)
{
    const struct agreement_of *mine = &compared->mine;
    const struct replica *replica = compared->replica;
    const struct change now   = { .what = "the reduction", .line = mine->line };
    const struct change then  = { .what = "the reduction", .line = theirs->line };
    const struct side   ours  = { .rank = replica->global, .elements = mine->elements, .change = &now, .changes = -1 };
    const struct side   other = { .rank = replica->model->group[theirs->rank], .elements = theirs->elements,
                                  .change = &then, .changes = -1 };
    bool swap = ours.rank < other.rank;
    const struct divergence divergence = { .kind = DIFFERS_BY_VALUE, .subject = compared->subject, .suffix = ".grad",
                                           .first = swap ? other : ours, .other = swap ? ours : other };
    finding_of(finding, &divergence);
}

static bool
grad_arrives(struct task *me, struct replica *replica, const struct awaited *grad, bool queued)
{
    struct model   *model    = replica->model;
    const void     *elements = elements_now(me, grad->grad);
    struct compared compared = {
        .check = replica->check, .agreements = &model->agreements, .replica = replica,
        .subject = &model->subjects[grad->index], .tell = find_grad,
        .mine = { .key = { AGREEMENT_GRAD, grad->index, grad->number }, .rank = replica->rank,
                  .ranks = model->ranks, .line = grad->line, .elements = elements,
                  .bytes = (size_t)tensor_bytes(grad->grad) },
    };
    bool ok = compare_once(me, &compared, queued);
    elements_done(me, grad->grad, elements);
    return ok;
}

static void
awaited_free(struct task *me, struct awaited *awaited)
{
    struct awaited **link = &awaited->replica->awaited;
    while (*link != awaited)
        link = &(*link)->next;
    *link = awaited->next;
    storage_remove_watch(awaited->grad->storage, &awaited->watch);
    tensor_drop(me, &awaited->grad);
    host_return(me, awaited, sizeof *awaited);
}

static bool
grad_has_come(struct task *me, struct storage_watch *self, const struct storage_change *seen)
{
    struct awaited *awaited = (struct awaited *)self;
    if (--awaited->writes > 0)
        return true;
    bool ok = grad_arrives(me, awaited->replica, awaited, seen->queued);
    awaited_free(me, awaited);
    return ok;
}

/* On a device the copy out of the bucket is only queued (in `stepped`): who ends it compares. */
bool
replica_grad(struct task *me, struct replica *replica, int index, struct tensor *grad)
{
    if (replica == NULL || grad == NULL || tensor_is_sparse(grad))
        return true;
    struct watched *w    = &replica->watched[replica->trainable[index]];
    struct awaited  here = { .replica = replica, .grad = grad, .index = w->index, .number = w->grads++,
                             .line = me->line };
    w->grad         = grad;
    w->grad_version = tensor_version(grad);
    if (!subject_fits(&replica->model->subjects[w->index], grad) || !check_charge(me, (size_t)tensor_bytes(grad)))
        return !task_failed(me);
    if (grad->storage->queued_writes == 0)
        return grad_arrives(me, replica, &here, false);
    struct awaited *awaited = host_take(me, sizeof *awaited);
    if (awaited == NULL)
        return false;
    *awaited               = here;
    awaited->writes        = grad->storage->queued_writes;
    awaited->watch.changed = grad_has_come;
    awaited->next          = replica->awaited;
    awaited->grad          = tensor_ref(grad);
    replica->awaited       = awaited;
    storage_add_watch(grad->storage, &awaited->watch);
    return true;
}

/* The gradients that the others get now: this rank has none. */
bool
replica_shadowed_grads(struct task *me, struct replica *replica, const int32_t *used)
{
    struct model *model = replica->model;
    for (int index = 0, at = 0; at < replica->count; at++) {
        struct watched *w = &replica->watched[at];
        if (model->subjects[at].is_buffer || replica->trainable[index] != at)
            continue;
        if (used == NULL || used[index] > 0) {
            struct agreement_of mine = { .key = { AGREEMENT_GRAD, w->index, w->grads++ }, .rank = replica->rank,
                                         .ranks = model->ranks, .spare = agreement_new(me, 0) };
            if (mine.spare == NULL)
                return false;
            pthread_mutex_lock(&replica->check->mutex);
            if (!replica->check->over)
                agreements_pass(me, &model->agreements, &mine);
            pthread_mutex_unlock(&replica->check->mutex);
            agreement_free(me, mine.spare, 0);
        }
        index++;
    }
    return true;
}

void
replica_drop_awaited(struct task *me, struct replica *replica)
{
    while (replica->awaited != NULL)
        awaited_free(me, replica->awaited);
}

/* ---- names and orders ---- */

/* The first of the lines that differs, of both; "nothing" behind the last one. */
static void
find_names(const struct compared *compared, const struct agreement *theirs, struct finding *finding)
{
    const struct agreement_of *mine  = &compared->mine;
    const int                 *group = compared->replica->model->group;
    const char *ours = mine->elements, *other = (const char *)theirs->elements;
    const char *our_end = ours + mine->bytes, *other_end = other + theirs->bytes;
    while (ours < our_end && other < other_end && strcmp(ours, other) == 0) {
        ours  += strlen(ours) + 1;
        other += strlen(other) + 1;
    }
    bool swap = mine->rank < theirs->rank;
    const char *first = ours < our_end ? ours : "nothing more", *second = other < other_end ? other : "nothing more";
    finding->found = true;
    finding->name  = "buckets";
    finding->rank  = group[swap ? theirs->rank : mine->rank];
    finding->than  = group[swap ? mine->rank : theirs->rank];
    str_addf(&finding->report, "rank %d has %s where rank %d has %s", finding->rank, swap ? second : first,
             finding->than, swap ? first : second);
    if (mine->line > 0)
        str_addf(&finding->report, " (line %" PRIu32 ")", mine->line);
    str_add(&finding->report, ": build the model in the same order and wrap it with the same options on every rank");
}

bool
replica_names(struct task *me, struct replica *replica, const char *lines, size_t bytes)
{
    if (replica == NULL)
        return true;
    struct compared compared = {
        .check = replica->check, .agreements = &replica->model->agreements, .replica = replica, .tell = find_names,
        .mine = { .key = { AGREEMENT_NAMES, 0, replica->named++ }, .rank = replica->rank,
                  .ranks = replica->model->ranks, .line = me->line, .elements = lines, .bytes = bytes },
    };
    return compare_once(me, &compared, false);
}

/* The indices in the order that a pass gives them, as far as they are few enough to be drawn for a message. */
enum { ORDER_MOST = 1 << 16 };

static int64_t
order_at(const struct sampler_order *order, int64_t place, int64_t *indices)
{
    struct generator generator;
    if (!order->shuffle)
        return place;
    generator_seed(&generator, (uint64_t)order->seed);
    fill_randperm(&generator, indices, (size_t)order->length);
    return indices[place];
}

/* What makes the orders differ. */
static void
print_settings(const struct sampler_order *first, const struct sampler_order *other, const struct finding *finding,
               struct str *out)
{
    bool shuffle = first->shuffle != other->shuffle;
    str_addf(out, "rank %d's DistributedSampler ", finding->rank);
    if (first->length != other->length)
        str_addf(out, "goes over %" PRId64 " samples where rank %d's goes over %" PRId64, first->length, finding->than,
                 other->length);
    else if (shuffle || first->drop_last != other->drop_last)
        str_addf(out, "has %s=%s where rank %d's has %s", shuffle ? "shuffle" : "drop_last",
                 (shuffle ? first->shuffle : first->drop_last) ? "true" : "false", finding->than,
                 (shuffle ? other->shuffle : other->drop_last) ? "true" : "false");
    else
        str_addf(out, "shuffles with seed + epoch = %" PRId64 " where rank %d's has %" PRId64, first->seed,
                 finding->than, other->seed);
}

static void
print_first_index(const struct sampler_order *first, const struct sampler_order *other, struct str *out)
{
    if (first->length != other->length || first->length > ORDER_MOST)
        return;
    int64_t *indices = calloc((size_t)first->length + 1, sizeof *indices);
    for (int64_t place = 0; indices != NULL && place < first->length; place++) {
        int64_t x = order_at(first, place, indices), y = order_at(other, place, indices);
        if (x == y)
            continue;
        str_addf(out, ", so index [%" PRId64 "] is %" PRId64 " where it is %" PRId64, place, x, y);
        break;
    }
    free(indices);
}

static void
find_order(const struct compared *compared, const struct agreement *theirs, struct finding *finding)
{
    const struct agreement_of *mine = &compared->mine;
    struct sampler_order       ours, other;
    bool swap = mine->rank < theirs->rank;
    memcpy(swap ? &other : &ours, mine->elements, sizeof ours);
    memcpy(swap ? &ours : &other, theirs->elements, sizeof ours);
    finding->found = true;
    finding->name  = "DistributedSampler";
    finding->rank  = swap ? theirs->rank : mine->rank;
    finding->than  = swap ? mine->rank : theirs->rank;
    print_settings(&ours, &other, finding, &finding->report);
    print_first_index(&ours, &other, &finding->report);
    if (mine->line > 0)
        str_addf(&finding->report, ", since the pass that begins in line %" PRIu32, mine->line);
    str_add(&finding->report, ": make the sampler alike on every rank, and call set_epoch on every rank");
}

bool
check_sampler_pass(struct task *me, struct check_ranks *check, const struct sampler_pass *pass)
{
    struct compared compared = {
        .check = check, .agreements = &check->samplers, .tell = find_order,
        .mine = { .key = { AGREEMENT_SAMPLER, pass->sampler, pass->pass }, .rank = me->rank, .ranks = check->ranks,
                  .line = me->line, .elements = &pass->order, .bytes = sizeof pass->order },
    };
    return compare_once(me, &compared, false);
}
