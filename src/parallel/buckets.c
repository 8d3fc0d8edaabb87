/* Which gradients travel together: compute_bucket_assignment_by_size, to the letter.
 *
 * A bucket closes when it reaches its limit, so it usually exceeds it; each pair of dtype and device fills buckets of
 * its own and walks along the limits by itself. Without an order the buckets are sorted by their smallest index; with
 * one (the rebuild) they stay as they were closed, left-over ones last, of the newest kind first. */
#include "parallel/buckets.h"
#include "device/cells.h"
#include "sched/task.h"
#include "tensor/tensor.h"

/* The bucket that tensors of one kind go into now: its number, or -1 before its first tensor. */
struct open_bucket { int key, limit, bucket; size_t bytes; };

/* Buckets get a number with their first tensor; `closed` lists the numbers in the order in which they close. */
struct filling {
    const struct bucket_assignment *wanted;
    struct open_bucket *open;
    int                *bucket_of, *sizes, *closed;   /* bucket_of: by place in the order given */
    size_t             *limits;
    int                 open_count, bucket_count, closed_count;
};

static struct open_bucket *
open_find(struct filling *f, int key)
{
    for (int i = 0; i < f->open_count; i++)
        if (f->open[i].key == key)
            return &f->open[i];
    f->open[f->open_count] = (struct open_bucket){ .key = key, .bucket = -1 };
    return &f->open[f->open_count++];
}

static void
bucket_close(struct filling *f, int bucket, size_t limit)
{
    f->limits[bucket]            = limit;
    f->closed[f->closed_count++] = bucket;
}

static void
open_close(struct filling *f, struct open_bucket *open, size_t limit)
{
    bucket_close(f, open->bucket, limit);
    open->bucket = -1;
    open->bytes  = 0;
}

static void
tensor_add_to_bucket(struct filling *f, int place)
{
    const struct bucket_assignment *wanted = f->wanted;
    int index = wanted->order != NULL ? wanted->order[place] : place;
    if (wanted->inputs[index].sparse) {
        f->sizes[f->bucket_count] = 1;
        f->bucket_of[place]       = f->bucket_count++;
        bucket_close(f, f->bucket_of[place], 0);
        return;
    }
    struct open_bucket *open = open_find(f, wanted->inputs[place].key);
    if (open->bucket < 0)
        open->bucket = f->bucket_count++;
    f->bucket_of[place] = open->bucket;
    f->sizes[open->bucket]++;
    open->bytes += wanted->inputs[place].bytes;
    size_t limit = wanted->limits[open->limit];
    if (open->bytes < limit)
        return;
    open->limit += open->limit + 1 < wanted->limit_count;
    open_close(f, open, limit);
}

static void
buckets_sort(struct bucket_list *list)
{
    for (int i = 1; i < list->count; i++) {
        for (int j = i; j > 0 && list->indices[j - 1][0] > list->indices[j][0]; j--) {
            int   *indices = list->indices[j];
            int    size    = list->sizes[j];
            size_t limit   = list->limits[j];
            list->indices[j] = list->indices[j - 1];
            list->sizes[j]   = list->sizes[j - 1];
            list->limits[j]  = list->limits[j - 1];
            list->indices[j - 1] = indices;
            list->sizes[j - 1]   = size;
            list->limits[j - 1]  = limit;
        }
    }
}

/* One array holds the indices of all buckets, in the order in which they were closed. */
static void
buckets_list(const struct filling *f, int *indices, int **row_of, struct bucket_list *out)
{
    for (int i = 0, at = 0; i < f->closed_count; at += f->sizes[f->closed[i]], i++) {
        int bucket      = f->closed[i];
        out->indices[i] = row_of[bucket] = indices + at;
        out->sizes[i]   = f->sizes[bucket];
        out->limits[i]  = f->limits[bucket];
    }
    out->count = f->closed_count;
    for (int place = 0; place < f->wanted->count; place++)
        *row_of[f->bucket_of[place]]++ = f->wanted->order != NULL ? f->wanted->order[place] : place;
    if (f->wanted->order == NULL)
        buckets_sort(out);
}

static bool
assignment_check(struct task *me, const struct bucket_assignment *wanted)
{
    if (wanted->limit_count < 1)
        return failed(me, E_VALUE, "buckets need a size limit");
    if (wanted->order == NULL)
        return true;
    if (wanted->order_count != wanted->count)
        return failed(me, E_VALUE, "%d tensors but %d indices", wanted->count, wanted->order_count);
    for (int i = 0; i < wanted->count; i++)
        if (wanted->order[i] < 0 || wanted->order[i] >= wanted->count)
            return failed(me, E_INDEX, "tensor index %d is out of range for %d tensors", wanted->order[i],
                          wanted->count);
    return true;
}

bool
buckets_assign(struct task *me, const struct bucket_assignment *wanted, struct bucket_list *out)
{
    *out = (struct bucket_list){ 0 };
    if (!assignment_check(me, wanted))
        return false;
    size_t         room    = (size_t)wanted->count + 1;
    int           *numbers = scratch_new(me, 5 * room, sizeof *numbers);
    size_t        *limits  = scratch_new(me, 2 * room, sizeof *limits);
    int          **rows    = scratch_new(me, 2 * room, sizeof *rows);
    struct filling f = { .wanted = wanted, .open = scratch_new(me, room, sizeof *f.open) };
    if (numbers == NULL || limits == NULL || rows == NULL || f.open == NULL)
        return false;
    f.bucket_of = numbers;
    f.sizes     = numbers + room;
    f.closed    = numbers + 2 * room;
    f.limits    = limits;
    for (int place = 0; place < wanted->count; place++)
        tensor_add_to_bucket(&f, place);
    /* PyTorch's map of them gives the kind that came last first. */
    for (int i = f.open_count; i-- > 0;)
        if (f.open[i].bucket >= 0)
            open_close(&f, &f.open[i], wanted->limits[f.open[i].limit]);
    *out = (struct bucket_list){ .indices = rows, .sizes = numbers + 3 * room, .limits = limits + room };
    buckets_list(&f, numbers + 4 * room, rows + room, out);
    return true;
}

struct bucket_input
bucket_input_of(const struct tensor *tensor)
{
    return (struct bucket_input){ .bytes = (size_t)tensor_bytes(tensor),
                                  .key = (int)tensor->dtype + DTYPE_COUNT * (tensor_device(tensor) + 1) };
}
