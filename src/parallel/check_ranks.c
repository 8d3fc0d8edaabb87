/* Replicas under watch: made with a DistributedDataParallel, freed with it. Interface in order of use: check_ranks.h.
 * The states of a tensor are replica_states.c's, what is said divergence.c's. PyTorch has nothing like it. */
#include "parallel/check_ranks.h"
#include <stdlib.h>
#include <string.h>
#include "c10d/group.h"
#include "device/cells.h"
#include "device/stream.h"
#include "nn/module.h"
#include "parallel/check_internal.h"
#include "sched/stage.h"
#include "tensor/tensor.h"

/* ---- made and freed ---- */

struct check_ranks *
check_ranks_new(struct task *me, int ranks)
{
    struct check_ranks *check = calloc(1, sizeof *check + (size_t)ranks * sizeof check->of[0]);
    if (check == NULL || pthread_mutex_init(&check->mutex, NULL) != 0) {
        free(check);
        return failed_null(me, E_MEMORY, "out of memory to check %d ranks", ranks);
    }
    check->ranks = ranks;
    return check;
}

static void
model_free(struct task *me, struct model *model)
{
    marks_free(me, model);
    for (int i = 0; i < model->count; i++) {
        if (model->states != NULL)
            replica_states_free(me, &model->states[i]);
        if (model->subjects != NULL)
            free(model->subjects[i].name);
    }
    agreements_free(me, &model->agreements);
    host_return(me, model->here, (size_t)model->ranks * sizeof *model->here);
    host_return(me, model->states, (size_t)model->count * sizeof *model->states);
    host_return(me, model->subjects, (size_t)model->count * sizeof *model->subjects);
    free(model);
}

void
check_ranks_free(struct task *me, struct check_ranks *check)
{
    if (check == NULL)
        return;
    for (struct model *model = check->models, *next; model != NULL; model = next) {
        next = model->next;
        model_free(me, model);
    }
    agreements_free(me, &check->samplers);
    pthread_mutex_destroy(&check->mutex);
    free(check);
}

/* ---- a model, by the first rank that comes ---- */

static const char *
name_at(const struct replica_tensors *tensors, int index)
{
    int params = tensors->params->count;
    return index < params ? tensors->params->names[index] : tensors->buffers->names[index - params];
}

static struct tensor *
tensor_at(const struct replica_tensors *tensors, int index)
{
    int params = tensors->params->count;
    return index < params ? tensors->params->tensors[index] : tensors->buffers->tensors[index - params];
}

static bool
subject_fill(struct subject *subject, const struct replica_tensors *tensors, int index)
{
    const struct tensor *tensor = tensor_at(tensors, index);
    *subject = (struct subject){ .name = strdup(name_at(tensors, index)), .dtype = tensor->dtype,
                                 .dims = tensor->dims, .bytes = (size_t)tensor_bytes(tensor),
                                 .is_buffer = index >= tensors->params->count };
    memcpy(subject->size, tensor->size, sizeof subject->size);
    return subject->name != NULL;
}

static struct model *
model_new(struct task *me, struct process_group *group, const struct replica_tensors *tensors)
{
    struct model *model = calloc(1, sizeof *model);
    if (model == NULL)
        return failed_null(me, E_MEMORY, "out of memory to check a model");
    model->group    = process_group_ranks(group);
    model->ranks    = process_group_size(group);
    model->count    = tensors->params->count + (tensors->buffers != NULL ? tensors->buffers->count : 0);
    model->here     = host_take(me, (size_t)model->ranks * sizeof *model->here);
    model->subjects = host_take(me, (size_t)model->count * sizeof *model->subjects);
    model->states = host_take(me, (size_t)model->count * sizeof *model->states);
    bool ok = model->here != NULL && model->subjects != NULL && model->states != NULL;
    for (int i = 0; i < model->count && ok; i++) {
        ok = subject_fill(&model->subjects[i], tensors, i);
        model->states[i].bytes = model->subjects[i].bytes;
    }
    if (ok)
        return model;
    model_free(me, model);
    return task_failed(me) ? NULL : failed_null(me, E_MEMORY, "out of memory to check a model");
}

/* In the mutex: the rank's next one of this group. */
static struct model **
model_place(struct check_ranks *check, const struct process_group *group)
{
    struct model **link = &check->models;
    while (*link != NULL && ((*link)->group != process_group_ranks(group) || (*link)->here[process_group_rank(group)]))
        link = &(*link)->next;
    return link;
}

/* In the mutex. */
static void
find_order_of_names(const struct model *model, const struct replica *replica, const struct replica_tensors *tensors,
                    struct finding *finding)
{
    int count = tensors->params->count + (tensors->buffers != NULL ? tensors->buffers->count : 0), index = 0;
    while (index < count && index < model->count && subject_fits(&model->subjects[index], tensor_at(tensors, index)) &&
           strcmp(model->subjects[index].name, name_at(tensors, index)) == 0)
        index++;
    if (index == count && index == model->count)
        return;
    finding->found = true;
    finding->rank  = replica->global;
    finding->than  = model->group[model->first];
    finding->name  = index < model->count ? model->subjects[index].name : "";
    str_addf(&finding->report, "rank %d's parameter %d is ", finding->rank, index);
    if (index < count) {
        const struct tensor *tensor = tensor_at(tensors, index);
        str_addf(&finding->report, "'%s' ", name_at(tensors, index));
        shape_print(tensor->dims, tensor->size, &finding->report);
    } else {
        str_add(&finding->report, "missing");
    }
    str_addf(&finding->report, ", rank %d's is ", finding->than);
    if (index < model->count) {
        str_addf(&finding->report, "'%s' ", model->subjects[index].name);
        shape_print(model->subjects[index].dims, model->subjects[index].size, &finding->report);
    } else {
        str_add(&finding->report, "missing");
    }
    str_add(&finding->report, ": build the model in the same order on every rank");
}

/* The model that this replica is of; none where nothing is compared any more. */
static bool
model_join(struct task *me, struct process_group *group, const struct replica_tensors *tensors,
           struct replica *replica)
{
    struct check_ranks *check   = replica->check;
    struct finding      finding = { 0 };
    struct model       *made    = model_new(me, group, tensors);
    if (made == NULL)
        return false;
    made->first = replica->rank;
    pthread_mutex_lock(&check->mutex);
    struct model **place = model_place(check, group);
    bool           first = *place == NULL;
    if (first)
        *place = made;
    struct model *model = *place;
    if (!check->over)
        find_order_of_names(model, replica, tensors, &finding);
    check->over = check->over || finding.found;
    if (!check->over) {
        model->here[replica->rank] = true;
        replica->model             = model;
        replica->next              = check->of[replica->global].replicas;
        check->of[replica->global].replicas = replica;
    }
    pthread_mutex_unlock(&check->mutex);
    if (!first)
        model_free(me, made);
    return finding_tell(me, &finding, false);
}

/* ---- a rank's replica ---- */

static size_t
replica_bytes(int count)
{
    return sizeof(struct replica) + (size_t)count * sizeof(struct watched);
}

/* Its tensors are as they are once devices have done what they were asked for. */
static bool
replica_begin(struct task *me, struct replica *replica, const struct replica_tensors *tensors)
{
    const struct change begun = { .what = "DistributedDataParallel", .line = me->line, .stage = me->stage };
    for (int i = 0, params = 0; i < replica->count; i++) {
        struct tensor  *tensor = tensor_at(tensors, i);
        struct watched *w      = &replica->watched[i];
        if (tensor->storage->queued_writes > 0 && !device_synchronize(me, tensor_device(tensor)))
            return false;
        w->replica = replica;
        w->index   = i;
        if (i < tensors->params->count && tensor->requires_grad)
            replica->trainable[params++] = i;
        watched_attach(w, tensor);
        if (!watched_arrives(me, w, begun, false))
            return false;
    }
    return true;
}

bool
replica_new(struct task *me, struct process_group *group, const struct replica_tensors *tensors, struct replica **out)
{
    struct check_ranks *check = world_check(process_group_world(group));
    *out = NULL;
    if (check == NULL || process_group_size(group) == 1)
        return true;
    int count = tensors->params->count + (tensors->buffers != NULL ? tensors->buffers->count : 0);
    struct replica *replica = host_take(me, replica_bytes(count));
    if (replica == NULL)
        return false;
    replica->check     = check;
    replica->count     = count;
    replica->rank      = process_group_rank(group);
    replica->global    = process_group_global_rank(group, replica->rank);
    replica->trainable = host_take(me, (size_t)count * sizeof *replica->trainable);
    bool ok = replica->trainable != NULL && model_join(me, group, tensors, replica) &&
              (replica->model == NULL || replica_begin(me, replica, tensors));
    if (ok && replica->model != NULL)
        *out = replica;
    else
        replica_free(me, replica);
    return ok;
}

/* In the mutex: out of the rank's list and out of the model. The last rank's model is answered: it is to be freed. */
static struct model *
replica_leaves(struct task *me, struct replica *replica)
{
    struct check_ranks *check = replica->check;
    struct model       *model = replica->model;
    struct replica    **own   = &check->of[replica->global].replicas;
    while (*own != replica)
        own = &(*own)->next;
    *own = replica->next;
    replica_leaves_marks(me, replica);
    for (int i = 0; i < replica->count; i++)
        replica_states_leave(me, &model->states[i], &replica->watched[i].at);
    if (++model->left < model->ranks)
        return NULL;
    struct model **link = &check->models;
    while (*link != model)
        link = &(*link)->next;
    *link = model->next;
    return model;
}

void
replica_free(struct task *me, struct replica *replica)
{
    if (replica == NULL)
        return;
    replica_drop_awaited(me, replica);
    for (int i = 0; i < replica->count; i++)
        watched_detach(me, &replica->watched[i]);
    if (replica->model != NULL) {
        pthread_mutex_lock(&replica->check->mutex);
        struct model *last = replica_leaves(me, replica);
        pthread_mutex_unlock(&replica->check->mutex);
        if (last != NULL)
            model_free(me, last);
    }
    host_return(me, replica->trainable, (size_t)replica->count * sizeof *replica->trainable);
    host_return(me, replica, replica_bytes(replica->count));
}

void
replica_watch_buffers(struct task *me, struct replica *replica, const struct named_tensors *buffers)
{
    for (int i = 0, at = 0; replica != NULL && i < replica->count; i++)
        if (replica->model->subjects[i].is_buffer && at < buffers->count)
            (void)watched_follow(me, &replica->watched[i], buffers->tensors[at++]);
}

bool
check_ranks_end(struct task *me, struct check_ranks *check, int rank)
{
    for (struct replica *replica = check != NULL ? check->of[rank].replicas : NULL; replica != NULL;
         replica = replica->next) {
        if (!replica_meets(me, replica, LAST_MARK))
            return false;
        replica->ended = true;
    }
    return true;
}

