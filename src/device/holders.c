/* What is told when a device has no memory left: how much was asked for, what there is, and who holds it.
 *
 * Interface: holders_report. In PyTorch: the message of torch.OutOfMemoryError. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/str.h"
#include "device/internal.h"
#include "trace/schema.h"

enum { HOLDERS_TOLD = 6 };

/* All blocks that one line took for one module in one stage. */
struct holding { struct cache_holder who; uint64_t bytes, blocks; };

static bool
is_same(const struct cache_holder *a, const struct cache_holder *b)
{
    return a->line == b->line && a->stage == b->stage && strcmp(a->module, b->module) == 0;
}

/* The most first; equals in the order in which they came. */
static int
by_bytes(const void *a, const void *b)
{
    const struct holding *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->who.storage < y->who.storage ? -1 : x->who.storage > y->who.storage;
}

static size_t
sum_up(const struct cache_view *views, size_t count, struct holding *holdings)
{
    size_t kinds = 0;
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        if (views[i].state != BLOCK_HELD)
            continue;
        while (at < kinds && !is_same(&holdings[at].who, &views[i].holder))
            at++;
        if (at == kinds)
            holdings[kinds++] = (struct holding){ .who = views[i].holder };
        holdings[at].bytes += views[i].bytes;
        holdings[at].blocks++;
    }
    qsort(holdings, kinds, sizeof *holdings, by_bytes);
    return kinds;
}

static void
add_bytes(struct str *out, uint64_t bytes)
{
    if (bytes >= (uint64_t)1 << 30)
        str_addf(out, "%.2f GiB", (double)bytes / ((uint64_t)1 << 30));
    else if (bytes >= (uint64_t)1 << 20)
        str_addf(out, "%.2f MiB", (double)bytes / ((uint64_t)1 << 20));
    else if (bytes >= (uint64_t)1 << 10)
        str_addf(out, "%.2f KiB", (double)bytes / ((uint64_t)1 << 10));
    else
        str_addf(out, "%llu bytes", (unsigned long long)bytes);
}

/* "48.00 MiB in 3 blocks: Linear in module.forward, line 12" */
static void
add_holding(struct str *out, const struct holding *holding)
{
    const char *stage  = holding->who.stage != 0 ? kind_table[holding->who.stage].name : "outside of any stage";
    const char *joined = holding->who.stage != 0 ? " in " : ", ";
    str_add(out, "\n  ");
    add_bytes(out, holding->bytes);
    str_addf(out, " in %llu block%s: ", (unsigned long long)holding->blocks, holding->blocks == 1 ? "" : "s");
    if (holding->who.module[0] != '\0')
        str_addf(out, "%s%s", holding->who.module, joined);
    str_add(out, stage);
    if (holding->who.line > 0)
        str_addf(out, ", line %u", holding->who.line);
}

static void
add_holders(struct task *me, struct cache *cache, struct str *out)
{
    size_t             mark = scope_mark(me), count = cache_look(cache, NULL, 0);
    struct cache_view *views = scratch_new(me, count + 1, sizeof *views);
    struct holding    *holdings = views != NULL ? scratch_new(me, count + 1, sizeof *holdings) : NULL;
    if (holdings != NULL) {
        size_t found = cache_look(cache, views, count);
        size_t kinds = sum_up(views, found < count ? found : count, holdings);
        for (size_t i = 0; i < kinds && i < HOLDERS_TOLD; i++)
            add_holding(out, &holdings[i]);
        if (kinds > HOLDERS_TOLD)
            str_addf(out, "\n  and %zu more", kinds - HOLDERS_TOLD);
    }
    scope_release(me, mark);
}

/* Segments without a tensor were given back before: what is still reserved and not allocated lies between others. */
static void
add_advice(struct str *out, uint64_t allocated, uint64_t reserved)
{
    str_add(out, " What helps: a larger device_memory in rs.lesson, a smaller batch, fewer tensors that are kept.");
    if (reserved / 4 * 3 <= allocated)
        return;
    str_add(out, " ");
    add_bytes(out, reserved - allocated);
    str_add(out, " lie free in pieces that are too small, beside tensors: where these can go,"
                 " rs.cuda.empty_cache() gives back the whole segments.");
}

void
holders_report(struct task *me, struct device *device, size_t bytes)
{
    struct str out = { 0 };
    uint64_t   limit = cache_limit(device->cache), allocated = cache_allocated(device->cache);
    cache_note_full(device->cache);
    str_add(&out, "CUDA out of memory. ");
    add_bytes(&out, bytes);
    str_addf(&out, " were asked for on device:%d, which may use ", device->index);
    add_bytes(&out, limit);
    str_add(&out, ": ");
    add_bytes(&out, allocated);
    str_add(&out, " are allocated, ");
    add_bytes(&out, cache_reserved(device->cache));
    str_add(&out, " reserved. The block of ");
    add_bytes(&out, bytes);
    str_add(&out, " fits into no free one, and needs a new segment of ");
    add_bytes(&out, cache_segment_bytes(bytes));
    str_add(&out, ".");
    add_advice(&out, allocated, cache_reserved(device->cache));
    if (allocated > 0)
        str_add(&out, " Held by:");
    add_holders(me, device->cache, &out);
    if (!task_failed(me))
        failed(me, E_OUT_OF_MEMORY, "%s", str_ok(&out) ? str_text(&out) : "CUDA out of memory");
    str_free(&out);
}
