/* The reducer's life outside of an iteration: making and freeing it, laying out buckets, the used map, and the words
 * for what goes wrong. Order of use: as in reducer.c. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "autograd/engine.h"
#include "base/vec.h"
#include "c10d/group.h"
#include "parallel/internal.h"
#include "sched/stage.h"

enum { FIRST_BUCKET_BYTES = 1 << 20, BUCKET_BYTES = 25 << 20 };

/* ---- buckets ---- */

static void
bucket_clear(struct task *me, struct bucket *bucket)
{
    work_free(me, bucket->work);
    for (int i = 0; bucket->views != NULL && i < bucket->count; i++)
        tensor_drop(me, &bucket->views[i]);
    tensor_drop(me, &bucket->gradients);
    free(bucket->views);
    free(bucket->indices);
    *bucket = (struct bucket){ 0 };
}

static void
reducer_clear_buckets(struct task *me, struct reducer *reducer)
{
    for (int i = 0; i < reducer->count; i++)
        bucket_clear(me, &reducer->buckets[i]);
    free(reducer->buckets);
    reducer->buckets = NULL;
    reducer->count   = 0;
}

static void
bucket_print(const struct bucket *bucket, struct str *out)
{
    for (int i = 0; i < bucket->count; i++)
        str_addf(out, "%s%d", i > 0 ? " " : "", bucket->indices[i]);
}

/* A bucket and the parameters whose gradients travel in it. */
static void
reducer_announce_bucket(struct task *me, const struct bucket *bucket, int index)
{
    struct str text = { 0 };
    bucket_print(bucket, &text);
    int64_t indices = stage_text_id(me, str_text(&text));
    POINT(me, ddp_bucket, index, tensor_bytes(bucket->gradients), bucket->count, indices);
    str_free(&text);
}

/* One flat tensor, dense back to back; each parameter has a view of its own shape. */
static bool
bucket_lay_out(struct task *me, struct reducer *reducer, struct bucket *bucket, int index)
{
    int64_t elements = 0, offset = 0;
    for (int i = 0; i < bucket->count; i++)
        elements += tensor_count(reducer->params[bucket->indices[i]]);
    const struct tensor *first = reducer->params[bucket->indices[0]];
    tensor_keep(me, &bucket->gradients, tensor_empty(me, first->dtype, tensor_device(first), 1, &elements));
    for (int i = 0; i < bucket->count && bucket->gradients != NULL; i++) {
        const struct tensor *param = reducer->params[bucket->indices[i]];
        struct tensor *view = tensor_piece(me, bucket->gradients, param->dims, param->size, offset);
        tensor_keep(me, &bucket->views[i], view);
        if (view == NULL)
            return false;
        offset += tensor_count(param);
        reducer->bucket_of[bucket->indices[i]] = index;
        reducer->place_of[bucket->indices[i]]  = i;
    }
    return bucket->gradients != NULL;
}

bool
reducer_initialize_buckets(struct task *me, struct reducer *reducer, const struct bucket_list *list)
{
    reducer_clear_buckets(me, reducer);
    reducer->buckets = calloc((size_t)list->count, sizeof *reducer->buckets);
    if (reducer->buckets == NULL)
        return failed(me, E_MEMORY, "out of memory for buckets");
    for (int i = 0; i < list->count; i++) {
        struct bucket *bucket = &reducer->buckets[reducer->count++];
        size_t         size   = (size_t)list->sizes[i];
        bucket->indices = malloc(size * sizeof *bucket->indices);
        bucket->views   = calloc(size, sizeof *bucket->views);
        if (bucket->indices == NULL || bucket->views == NULL)
            return failed(me, E_MEMORY, "out of memory for buckets");
        memcpy(bucket->indices, list->indices[i], size * sizeof *bucket->indices);
        bucket->count = list->sizes[i];
        if (!bucket_lay_out(me, reducer, bucket, i))
            return false;
        reducer_announce_bucket(me, bucket, i);
    }
    return true;
}

static struct bucket_input
bucket_input_of(const struct tensor *param)
{
    return (struct bucket_input){ .bytes = (size_t)tensor_bytes(param),
                                  .key = (int)param->dtype + DTYPE_COUNT * (tensor_device(param) + 1) };
}

static bool
reducer_assign(struct task *me, const struct reducer *reducer, const size_t *limits, int limit_count, const int *order,
               struct bucket_list *out)
{
    *out = (struct bucket_list){ 0 };
    int                  count  = reducer->params_count;
    struct bucket_input *inputs = malloc((size_t)count * sizeof *inputs);
    if (inputs == NULL)
        return failed(me, E_MEMORY, "out of memory for buckets");
    for (int i = 0; i < count; i++)
        inputs[i] = bucket_input_of(reducer->params[order != NULL ? order[i] : i]);
    bool done = buckets_assign(me, inputs, count, limits, limit_count, order, count, out);
    free(inputs);
    return done;
}

bool
reducer_assign_by_order(struct task *me, const struct reducer *reducer, struct bucket_list *out)
{
    size_t limits[] = { reducer->first_bucket_bytes, reducer->bucket_bytes };
    return reducer_assign(me, reducer, limits, 2, reducer->rebuilt_order, out);
}

/* Before anything is known of the order: the parameters last defined come first. With find_unused_parameters there will
 * be no rebuild, so the limits count from the start; else one bucket per dtype and device does for one iteration. */
static bool
reducer_first_buckets(struct task *me, struct reducer *reducer)
{
    size_t limits[] = { reducer->first_bucket_bytes, reducer->bucket_bytes }, unlimited[] = { SIZE_MAX };
    struct bucket_list list;
    bool done = reducer->find_unused ? reducer_assign(me, reducer, limits, 2, NULL, &list)
                                     : reducer_assign(me, reducer, unlimited, 1, NULL, &list);
    for (int i = 0, j = list.count - 1; i < j; i++, j--) {
        int *indices = list.indices[i], size = list.sizes[i];
        list.indices[i] = list.indices[j];
        list.sizes[i]   = list.sizes[j];
        list.indices[j] = indices;
        list.sizes[j]   = size;
    }
    done = done && reducer_initialize_buckets(me, reducer, &list);
    buckets_free(&list);
    return done;
}

/* ---- rank 0's order holds ---- */

static bool
broadcast_numbers(struct task *me, struct reducer *reducer, int64_t *numbers, int count)
{
    int64_t        size   = count;
    struct tensor *tensor = tensor_from(me, DTYPE_I64, 1, &size, numbers);
    return tensor != NULL && group_broadcast_now(me, reducer->group, tensor, 0) && tensor_read(me, tensor, numbers);
}

/* What came from rank 0 must be each parameter once, cut into buckets that are not empty. */
static bool
numbers_to_buckets(const int64_t *indices, int count, const int64_t *sizes, int buckets, bool *seen,
                   struct bucket_list *out)
{
    int at = 0;
    out->indices = calloc((size_t)buckets, sizeof *out->indices);
    out->sizes   = calloc((size_t)buckets, sizeof *out->sizes);
    out->limits  = calloc((size_t)buckets, sizeof *out->limits);
    if (out->indices == NULL || out->sizes == NULL || out->limits == NULL)
        return false;
    for (int i = 0; i < buckets; i++) {
        if (sizes[i] < 1 || sizes[i] > count - at || (i == buckets - 1 && sizes[i] != count - at))
            return false;
        int *row = malloc((size_t)sizes[i] * sizeof *row);
        if (row == NULL)
            return false;
        out->indices[out->count] = row;
        out->sizes[out->count++] = (int)sizes[i];
        for (int j = 0; j < sizes[i]; j++, at++) {
            if (indices[at] < 0 || indices[at] >= count || seen[indices[at]])
                return false;
            seen[indices[at]] = true;
            row[j] = (int)indices[at];
        }
    }
    return true;
}

static bool
sync_numbers(struct task *me, struct reducer *reducer, struct bucket_list *list, int64_t *numbers, bool *seen)
{
    int      count = reducer->params_count, at = 0;
    int64_t *sizes = numbers + count + 1;
    for (int i = 0; i < list->count; i++)
        for (int j = 0; j < list->sizes[i]; j++)
            numbers[at++] = list->indices[i][j];
    numbers[count] = list->count;
    for (int i = 0; i < list->count; i++)
        sizes[i] = list->sizes[i];
    if (!broadcast_numbers(me, reducer, numbers, count + 1))
        return false;
    int64_t buckets = numbers[count];
    if (buckets < 1 || buckets > count)
        return failed(me, E_RUNTIME, "rank 0 sent %" PRId64 " buckets for %d parameters", buckets, count);
    if (!broadcast_numbers(me, reducer, sizes, (int)buckets))
        return false;
    buckets_free(list);
    return numbers_to_buckets(numbers, count, sizes, (int)buckets, seen, list) ||
           failed(me, E_RUNTIME, "rank 0's buckets cannot be taken over: not every parameter once, or no memory");
}

/* Ranks may have seen their gradients in different orders; buckets must be the same everywhere. */
bool
reducer_sync_bucket_indices(struct task *me, struct reducer *reducer, struct bucket_list *list)
{
    size_t   count   = (size_t)reducer->params_count;
    int64_t *numbers = calloc(2 * count + 1, sizeof *numbers);
    bool    *seen    = calloc(count, sizeof *seen);
    bool     done    = numbers != NULL && seen != NULL;
    done = done ? sync_numbers(me, reducer, list, numbers, seen) : failed(me, E_MEMORY, "out of memory for buckets");
    free(numbers);
    free(seen);
    return done;
}

/* ---- who used what ---- */

void
reducer_note_order(struct reducer *reducer, int index)
{
    if (reducer->ready_count < reducer->params_count)
        reducer->ready_order[reducer->ready_count++] = index;
    if (!reducer->find_unused && !reducer->has_rebuilt && reducer->rebuilt_count < reducer->params_count)
        reducer->rebuilt_order[reducer->rebuilt_count++] = index;
}

/* One 4-byte number per parameter, 1 where this rank used it; their sum says who is used anywhere. */
bool
reducer_launch_used_map(struct task *me, struct reducer *reducer)
{
    for (int i = 0; i < reducer->params_count; i++)
        reducer->used_numbers[i] = reducer->used[i] ? 1.0F : 0.0F;
    if (!tensor_write(me, reducer->used_map, reducer->used_numbers))
        return false;
    reducer->used_work = group_all_reduce(me, reducer->group, reducer->used_map, NULL);
    return reducer->used_work != NULL;
}

static bool
reducer_await_used_map(struct task *me, struct reducer *reducer)
{
    bool done = work_wait(me, reducer->used_work) && tensor_read(me, reducer->used_map, reducer->used_numbers);
    work_free(me, reducer->used_work);
    reducer->used_work = NULL;
    return done;
}

/* Only who did not use the parameter itself must ask the others. */
bool
reducer_globally_unused(struct task *me, struct reducer *reducer, int index, bool *unused)
{
    *unused = false;
    if (!reducer->find_unused || reducer->used[index])
        return true;
    if (reducer->used_work != NULL && !reducer_await_used_map(me, reducer))
        return false;
    *unused = reducer->used_numbers[index] == 0;
    return true;
}

bool
reducer_finish_used_map(struct task *me, struct reducer *reducer)
{
    bool done = reducer->used_work == NULL || reducer_await_used_map(me, reducer);
    memset(reducer->used, 0, sizeof *reducer->used * (size_t)reducer->params_count);
    return done;
}

/* ---- what goes wrong ---- */

static bool
names_wanted(void)
{
    const char *level = getenv("TORCH_DISTRIBUTED_DEBUG");
    return level != NULL && (strcmp(level, "INFO") == 0 || strcmp(level, "DETAIL") == 0);
}

bool
reducer_wrong_grad(struct task *me, int index, const struct tensor *grad, const struct tensor *slot)
{
    struct str have = { 0 }, want = { 0 };
    shape_print(grad->dims, grad->size, &have);
    shape_print(slot->dims, slot->size, &want);
    failed(me, E_RUNTIME, "the gradient of parameter %d is %s %s, but its bucket expects %s %s", index,
           dtype_name(grad->dtype), str_text(&have), dtype_name(slot->dtype), str_text(&want));
    str_free(&have);
    str_free(&want);
    return false;
}

bool
reducer_ready_twice(struct task *me, const struct reducer *reducer, int index)
{
    return failed(me, E_RUNTIME,
                  "Expected to mark a variable ready only once, but parameter %d%s%s was marked ready twice. Causes: a "
                  "module parameter is used outside of forward, or by several concurrent forward passes; reentrant "
                  "checkpoints wrap the same part of the model more than once (static_graph may help)%s. %s", index,
                  names_wanted() ? " with name " : "", names_wanted() ? reducer->names[index] : "",
                  reducer->has_marked_unused && reducer->find_unused
                      ? "; or a parameter that was found unused got a gradient all the same" : "",
                  names_wanted() ? "" : "Set TORCH_DISTRIBUTED_DEBUG to INFO or DETAIL to see its name.");
}

/* The error for a forgotten branch surfaces here, one iteration late: only the next forward knows that nothing more
 * will come. */
bool
reducer_ensure_prior_reduction_finished(struct task *me, struct reducer *reducer)
{
    if (!reducer->require_finalize)
        return !task_failed(me);
    struct str list = { 0 };
    for (int i = 0; i < reducer->params_count; i++) {
        if (reducer->ready[i])
            continue;
        str_addf(&list, " %d", i);
        if (names_wanted())
            str_addf(&list, " (%s)", reducer->names[i]);
    }
    failed(me, E_RUNTIME,
           "Expected to have finished reduction in the prior iteration before starting a new one: some parameters of "
           "the module were not used in producing the loss. %s make sure that all forward function outputs take part "
           "in calculating the loss. If they do, an output was not located in the return value of forward: return "
           "tensors, lists or dicts of them. Parameter indices which did not receive grad for rank %d:%.1200s. %s",
           reducer->find_unused ? "find_unused_parameters is on, so" : "Pass find_unused_parameters=true to "
           "DistributedDataParallel, and", process_group_rank(reducer->group), str_text(&list),
           names_wanted() ? "" : "Set TORCH_DISTRIBUTED_DEBUG to INFO or DETAIL to see their names.");
    str_free(&list);
    return false;
}

/* ---- logging data ---- */

static void
sizes_print(const struct reducer *reducer, struct str *out)
{
    for (int i = 0; i < reducer->count; i++)
        str_addf(out, "%s%" PRId64, i > 0 ? ", " : "", tensor_bytes(reducer->buckets[i].gradients));
}

static void
indices_print(const struct reducer *reducer, struct str *out)
{
    for (int i = 0; i < reducer->count; i++) {
        str_add(out, i > 0 ? ", " : "");
        bucket_print(&reducer->buckets[i], out);
    }
}

static void
order_print(const int *order, int count, struct str *out)
{
    for (int i = 0; i < count; i++)
        str_addf(out, "%s%d", i > 0 ? ", " : "", order[i]);
}

bool
reducer_logging_data(const struct reducer *reducer, const char *key, struct str *out)
{
    int64_t bytes = 0;
    for (int i = 0; i < reducer->params_count; i++)
        bytes += tensor_bytes(reducer->params[i]);
    if (strcmp(key, "bucket_sizes") == 0)
        str_add(out, str_text(&reducer->first_sizes));
    else if (strcmp(key, "rebuilt_bucket_sizes") == 0 && reducer->has_rebuilt)
        sizes_print(reducer, out);
    else if (strcmp(key, "rebuilt_per_bucket_param_indices") == 0 && reducer->has_rebuilt)
        indices_print(reducer, out);
    else if (strcmp(key, "prev_iteration_grad_ready_order_indices") == 0)
        order_print(reducer->last_order, reducer->last_count, out);
    else if (strcmp(key, "has_rebuilt_buckets") == 0)
        str_addf(out, "%d", reducer->has_rebuilt);
    else if (strcmp(key, "bucket_cap_bytes") == 0)
        str_addf(out, "%zu", reducer->bucket_bytes);
    else if (strcmp(key, "num_parameter_tensors") == 0)
        str_addf(out, "%d", reducer->params_count);
    else if (strcmp(key, "total_parameter_size_bytes") == 0)
        str_addf(out, "%" PRId64, bytes);
    else if (strcmp(key, "find_unused_parameters") == 0)
        str_addf(out, "%d", reducer->find_unused);
    else if (strcmp(key, "world_size") == 0)
        str_addf(out, "%d", reducer->world);
    else if (strcmp(key, "rank") == 0)
        str_addf(out, "%d", process_group_rank(reducer->group));
    else if (strcmp(key, "iteration") == 0)
        str_addf(out, "%" PRId64, reducer->iterations);
    else
        return strcmp(key, "rebuilt_bucket_sizes") == 0 || strcmp(key, "rebuilt_per_bucket_param_indices") == 0;
    return true;
}

/* ---- making and freeing ---- */

static void
drop_nothing(struct task *me, void *context)
{
    (void)me, (void)context;
}

/* The accumulator is kept: a tensor only points to it weakly, and the hook must outlive the first graph. */
static bool
reducer_add_hook(struct task *me, struct reducer *reducer, int index)
{
    struct reducer_hook *mine = &reducer->hooks[index];
    *mine = (struct reducer_hook){ .reducer = reducer, .index = index, .id = -1 };
    mine->node = node_accumulator(me, reducer->params[index]);
    if (mine->node == NULL)
        return false;
    struct hook hook = { .run = reducer_run_hook, .drop = drop_nothing, .context = mine };
    int         id   = -1;
    if (!node_add_post_hook(me, mine->node, &hook, &id))
        return false;
    mine->id = id;
    return true;
}

static bool
reducer_copy_params(struct task *me, struct reducer *reducer, struct tensor *const *params, const char *const *names)
{
    for (int i = 0; i < reducer->params_count; i++) {
        reducer->params[i] = tensor_ref(params[i]);
        reducer->names[i]  = strdup(names != NULL && names[i] != NULL ? names[i] : "");
        if (reducer->names[i] == NULL)
            return failed(me, E_MEMORY, "out of memory for the reducer");
        if (tensor_device(params[i]) == tensor_device(params[0]) || reducer->has_lock)
            continue;
        reducer->has_lock = lock_init(me, &reducer->lock, "reducer");
        if (!reducer->has_lock)
            return false;
    }
    return true;
}

static bool
reducer_take_memory(struct task *me, struct reducer *reducer)
{
    size_t count = (size_t)reducer->params_count;
    reducer->params        = calloc(count, sizeof *reducer->params);
    reducer->names         = calloc(count, sizeof *reducer->names);
    reducer->hooks         = calloc(count, sizeof *reducer->hooks);
    reducer->bucket_of     = calloc(count, sizeof *reducer->bucket_of);
    reducer->place_of      = calloc(count, sizeof *reducer->place_of);
    reducer->ready         = calloc(count, sizeof *reducer->ready);
    reducer->unused        = calloc(count, sizeof *reducer->unused);
    reducer->used          = calloc(count, sizeof *reducer->used);
    reducer->used_numbers  = calloc(count, sizeof *reducer->used_numbers);
    reducer->ready_order   = calloc(count, sizeof *reducer->ready_order);
    reducer->last_order    = calloc(count, sizeof *reducer->last_order);
    reducer->rebuilt_order = calloc(count, sizeof *reducer->rebuilt_order);
    const void *parts[] = { reducer->params, reducer->names, reducer->hooks, reducer->bucket_of, reducer->place_of,
                            reducer->ready, reducer->unused, reducer->used, reducer->used_numbers,
                            reducer->ready_order, reducer->last_order, reducer->rebuilt_order };
    for (size_t i = 0; i < countof(parts); i++)
        if (parts[i] == NULL)
            return failed(me, E_MEMORY, "out of memory for the reducer");
    return true;
}

static bool
reducer_set_up(struct task *me, struct reducer *reducer, struct tensor *const *params, const char *const *names)
{
    int64_t count = reducer->params_count;
    if (!reducer_take_memory(me, reducer) || !reducer_copy_params(me, reducer, params, names))
        return false;
    if (reducer->find_unused) {
        tensor_keep(me, &reducer->used_map, tensor_empty(me, DTYPE_F32, DEVICE_CPU, 1, &count));
        if (reducer->used_map == NULL)
            return false;
    }
    if (!reducer_first_buckets(me, reducer))
        return false;
    sizes_print(reducer, &reducer->first_sizes);
    for (int i = 0; i < count; i++)
        if (!reducer_add_hook(me, reducer, i))
            return false;
    return str_ok(&reducer->first_sizes) || failed(me, E_MEMORY, "out of memory for the reducer");
}

struct reducer *
reducer_new(struct task *me, struct tensor *const *params, int count, struct process_group *group,
            const struct reducer_options *options)
{
    if (count < 1)
        return failed_null(me, E_RUNTIME, "a reducer needs parameters");
    struct reducer *reducer = calloc(1, sizeof *reducer);
    if (reducer == NULL)
        return failed_null(me, E_MEMORY, "out of memory for the reducer");
    reducer->params_count       = count;
    reducer->group              = group;
    reducer->world              = process_group_size(group);
    reducer->find_unused        = options->find_unused_parameters;
    reducer->first_bucket_bytes = options->first_bucket_bytes != 0 ? options->first_bucket_bytes : FIRST_BUCKET_BYTES;
    reducer->bucket_bytes       = options->bucket_bytes != 0 ? options->bucket_bytes : BUCKET_BYTES;
    if (reducer_set_up(me, reducer, params, options->names))
        return reducer;
    reducer_free(me, reducer);
    return NULL;
}

void
reducer_free(struct task *me, struct reducer *reducer)
{
    if (reducer == NULL)
        return;
    for (int i = 0; reducer->hooks != NULL && i < reducer->params_count; i++) {
        struct reducer_hook *hook = &reducer->hooks[i];
        if (hook->node != NULL && hook->id >= 0)
            hook_list_remove(me, hook->node->post_hooks, hook->id);
        if (hook->node != NULL)
            node_unref(me, hook->node);
    }
    work_free(me, reducer->used_work);
    reducer_clear_buckets(me, reducer);
    tensor_drop(me, &reducer->used_map);
    for (int i = 0; i < reducer->params_count; i++) {
        if (reducer->params != NULL)
            tensor_drop(me, &reducer->params[i]);
        if (reducer->names != NULL)
            free(reducer->names[i]);
    }
    if (reducer->has_lock)
        lock_destroy(&reducer->lock);
    void *parts[] = { reducer->params, reducer->names, reducer->hooks, reducer->bucket_of, reducer->place_of,
                      reducer->ready, reducer->unused, reducer->used, reducer->used_numbers, reducer->ready_order,
                      reducer->last_order, reducer->rebuilt_order };
    for (size_t i = 0; i < countof(parts); i++)
        free(parts[i]);
    str_free(&reducer->first_sizes);
    free(reducer);
}
