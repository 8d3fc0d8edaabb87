/* What ranks do once and must do alike: gradients after their reduction, the names in the buckets, the orders of samplers.
 * Interface: check_internal.h and check_ranks.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/rng.h"
#include "device/cells.h"
#include "parallel/check_internal.h"
#include "tensor/tensor.h"

/* ---- gradients ---- */

struct compared { struct agreement_of agreement; const struct subject *subject; };

/* In the mutex. */
static void
find_by_agreement(const struct replica *replica, const struct compared *mine, const struct agreement *theirs,
               struct finding *finding)
{
    const int          *group = replica->model->group;
    const struct change now   = { .what = "the reduction", .line = mine->agreement.line };
    const struct change then  = { .what = "the reduction", .line = theirs->line };
    struct divergence divergence = {
        .kind = DIFFERS_BY_VALUE, .subject = mine->subject, .suffix = ".grad",
        .first = { .rank = replica->global, .elements = mine->agreement.elements, .change = &now, .changes = -1 },
        .other = { .rank = group[theirs->rank], .elements = theirs->elements, .change = &then, .changes = -1 },
    };
    if (divergence.first.rank < divergence.other.rank) {
        struct side first = divergence.first;
        divergence.first  = divergence.other;
        divergence.other  = first;
    }
    finding_of(finding, &divergence);
}

static bool
grad_arrives(struct task *me, struct replica *replica, const struct awaited *grad, bool queued)
{
    struct check_ranks *check   = replica->check;
    struct model       *model   = replica->model;
    struct finding      finding = { 0 };
    size_t              bytes   = (size_t)tensor_bytes(grad->grad);
    const void         *elements = elements_now(me, grad->grad);
    const struct compared mine = {
        .agreement = { .key = { AGREEMENT_GRAD, grad->index, grad->number }, .rank = replica->rank, .ranks = model->ranks,
                    .line = grad->line, .elements = elements, .bytes = bytes },
        .subject = &model->subjects[grad->index],
    };
    const struct agreement *theirs = NULL;
    pthread_mutex_lock(&check->mutex);
    if (!check->over && elements != NULL) {
        enum agreement_answer answer = agreements_meet(me, &model->agreements, &mine.agreement, &theirs);
        finding.no_memory = answer == AGREEMENT_NO_MEMORY;
        if (answer == AGREEMENT_DIFFERS && theirs->bytes == bytes)
            find_by_agreement(replica, &mine, theirs, &finding);
        check->over = answer != AGREEMENT_EQUAL;
    }
    pthread_mutex_unlock(&check->mutex);
    if (elements != NULL)
        elements_done(me, grad->grad, elements);
    finding.no_memory = finding.no_memory || elements == NULL;
    return finding_tell(me, &finding, queued);
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
    bool            ok      = grad_arrives(me, awaited->replica, awaited, seen->queued);
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
    if (tensor_device(grad) == DEVICE_CPU || grad->storage->entries == 0)
        return grad_arrives(me, replica, &here, false);
    struct awaited *awaited = host_take(me, sizeof *awaited);
    if (awaited == NULL)
        return false;
    *awaited               = here;
    awaited->watch.changed = grad_has_come;
    awaited->next          = replica->awaited;
    awaited->grad          = tensor_ref(grad);
    replica->awaited       = awaited;
    storage_add_watch(grad->storage, &awaited->watch);
    return true;
}

void
replica_drop_awaited(struct task *me, struct replica *replica)
{
    while (replica->awaited != NULL)
        awaited_free(me, replica->awaited);
}

/* ---- names and orders ---- */

/* In the mutex: true: equal, or nobody to compare with. */
static bool
meet_once(struct task *me, struct agreements *agreements, const struct agreement_of *mine, const struct agreement **theirs,
          struct finding *finding)
{
    enum agreement_answer answer = agreements_meet(me, agreements, mine, theirs);
    finding->no_memory = answer == AGREEMENT_NO_MEMORY;
    return answer != AGREEMENT_DIFFERS;
}

/* The first of the lines that differs, of both; "nothing" behind the last one. */
static void
find_names(const struct agreement_of *mine, const struct agreement *theirs, const int *group, struct finding *finding)
{
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
    struct check_ranks    *check   = replica->check;
    struct model          *model   = replica->model;
    struct finding         finding = { 0 };
    const struct agreement_of mine = { .key = { AGREEMENT_NAMES, 0, replica->named++ }, .rank = replica->rank,
                                    .ranks = model->ranks, .line = me->line, .elements = lines, .bytes = bytes };
    const struct agreement   *theirs = NULL;
    pthread_mutex_lock(&check->mutex);
    if (!check->over && !meet_once(me, &model->agreements, &mine, &theirs, &finding))
        find_names(&mine, theirs, model->group, &finding);
    check->over = check->over || finding.found || finding.no_memory;
    pthread_mutex_unlock(&check->mutex);
    return finding_tell(me, &finding, false);
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

static void
find_order(const struct agreement_of *mine, const struct agreement *theirs, struct finding *finding)
{
    struct sampler_order order[2];
    bool swap = mine->rank < theirs->rank;
    memcpy(&order[swap], mine->elements, sizeof order[0]);
    memcpy(&order[!swap], theirs->elements, sizeof order[0]);
    const struct sampler_order *first = &order[0], *other = &order[1];
    finding->found = true;
    finding->name  = "DistributedSampler";
    finding->rank  = swap ? theirs->rank : mine->rank;
    finding->than  = swap ? mine->rank : theirs->rank;
    struct str *out = &finding->report;
    if (first->length != other->length) {
        str_addf(out, "rank %d's DistributedSampler goes over %" PRId64 " samples where rank %d's goes over %" PRId64,
                 finding->rank, first->length, finding->than, other->length);
    } else if (first->shuffle != other->shuffle || first->drop_last != other->drop_last) {
        const char *what = first->shuffle != other->shuffle ? "shuffle" : "drop_last";
        bool        on   = first->shuffle != other->shuffle ? first->shuffle : first->drop_last;
        str_addf(out, "rank %d's DistributedSampler has %s=%s where rank %d's has %s", finding->rank, what,
                 on ? "true" : "false", finding->than, on ? "false" : "true");
    } else {
        str_addf(out, "rank %d's DistributedSampler shuffles with seed + epoch = %" PRId64 " where rank %d's has %"
                 PRId64, finding->rank, first->seed, finding->than, other->seed);
    }
    int64_t *indices = NULL;
    if (first->length == other->length && first->length <= ORDER_MOST)
        indices = calloc((size_t)first->length + 1, sizeof *indices);
    for (int64_t place = 0; indices != NULL && place < first->length; place++) {
        int64_t x = order_at(first, place, indices), y = order_at(other, place, indices);
        if (x == y)
            continue;
        str_addf(out, ": order[%" PRId64 "] is %" PRId64 " and %" PRId64, place, x, y);
        break;
    }
    free(indices);
    if (mine->line > 0)
        str_addf(out, ", since the pass of line %" PRIu32, mine->line);
    str_add(out, ": make it alike on every rank, and call set_epoch on every rank");
}

bool
check_sampler_pass(struct task *me, struct check_ranks *check, const struct sampler_pass *pass)
{
    struct finding         finding = { 0 };
    const struct agreement_of mine = { .key = { AGREEMENT_SAMPLER, pass->sampler, pass->pass }, .rank = me->rank,
                                    .ranks = check->ranks, .line = me->line, .elements = &pass->order,
                                    .bytes = sizeof pass->order };
    const struct agreement   *theirs = NULL;
    pthread_mutex_lock(&check->mutex);
    if (!check->over && !meet_once(me, &check->samplers, &mine, &theirs, &finding))
        find_order(&mine, theirs, &finding);
    check->over = check->over || finding.found || finding.no_memory;
    pthread_mutex_unlock(&check->mutex);
    return finding_tell(me, &finding, false);
}
