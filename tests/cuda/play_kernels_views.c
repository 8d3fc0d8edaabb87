/* Memory of a case and views of it, full of odd values.
 *
 * Interface: view_new, view_row, memory_new, workspace_new, fault_new; fill_*; view_at; storage_*. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "play_kernels_internal.h"
#include "base/fault.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RIMLESS 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define RIMLESS 1
#endif

enum { RIM_BYTE = 0xa5, GARBAGE = 0x7f, STRIDE = 2, OFFSET = 3, ODD_VALUES = 24 };

const int64_t lengths[LENGTHS] = { 0, 1, 3, 255, 256, 257, 10007 };

uint64_t
play_draw(struct play *p, uint64_t limit)
{
    uint64_t z = p->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % limit;
}

/* ---- memory ---- */

void *
room(size_t bytes)
{
    void *block = malloc(bytes > 0 ? bytes : 1);
    if (block != NULL)
        return block;
    puts("Bail out! no memory");
    exit(1);
}

struct storage *
storage_new(struct play *p, enum storage_use use, enum dtype dtype, size_t bytes)
{
#ifdef RIMLESS
    size_t rim = 0;
#else
    size_t rim = RIM;
#endif
    struct storage *s = room(sizeof *s);
    *s = (struct storage){ .next = p->storages, .use = use, .dtype = dtype, .bytes = bytes };
    s->block = room(bytes + 2 * rim);
    s->data  = s->block + rim;
    memset(s->block, RIM_BYTE, bytes + 2 * rim);
    memset(s->data, GARBAGE, bytes);
    p->storages = s;
    return s;
}

bool
storage_rim_holds(const struct storage *s)
{
    for (const char *at = s->block; at < s->data; at++)
        if ((unsigned char)at[0] != RIM_BYTE || (unsigned char)at[s->data - s->block + (ptrdiff_t)s->bytes] != RIM_BYTE)
            return false;
    return true;
}

void
storages_free(struct play *p)
{
    while (p->storages != NULL) {
        struct storage *next = p->storages->next;
        free(p->storages->block);
        free(p->storages);
        p->storages = next;
    }
}

void *
memory_new(struct play *p, enum dtype dtype, size_t elements)
{
    struct storage *s    = storage_new(p, USE_ELEMENTS, dtype, elements * dtype_size(dtype));
    struct cpu_view view = { .data = s->data, .dtype = dtype, .dims = 1, .size = { (int64_t)elements } };
    view.stride[0]       = 1;
    fill_odd(p, view);
    return s->data;
}

void *
workspace_new(struct play *p, size_t bytes)
{
    return storage_new(p, USE_WORKSPACE, DTYPE_U8, bytes)->data;
}

struct kernel_fault *
fault_new(struct play *p, bool zeros)
{
    struct kernel_fault *fault = (void *)storage_new(p, USE_FAULT, DTYPE_U8, sizeof *fault)->data;
    memset(fault, 0, sizeof *fault);
    fault->zeros = zeros;
    return fault;
}

/* ---- views ---- */

void *
view_at(struct cpu_view view, int64_t i)
{
    int64_t at = 0;
    for (int d = view.dims; d-- > 0;) {
        at += i % view.size[d] * view.stride[d];
        i /= view.size[d];
    }
    return (char *)view.data + at * (int64_t)dtype_size(view.dtype);
}

/* Strides as in memory where the last two dimensions have changed places. */
static void
transpose(struct cpu_view *view)
{
    int     last = view->dims - 1;
    int64_t turned[TENSOR_DIMS];
    if (last < 1)
        return;
    memcpy(turned, view->size, sizeof turned);
    turned[last]     = view->size[last - 1];
    turned[last - 1] = view->size[last];
    row_major_strides(view->dims, turned, view->stride);
    int64_t kept = view->stride[last];
    view->stride[last]     = view->stride[last - 1];
    view->stride[last - 1] = kept;
}

/* Each dimension has room for STRIDE as many elements. */
static void
spread(struct cpu_view *view)
{
    int64_t wide[TENSOR_DIMS];
    for (int d = 0; d < view->dims; d++)
        wide[d] = view->size[d] * STRIDE;
    row_major_strides(view->dims, wide, view->stride);
    for (int d = 0; d < view->dims; d++)
        view->stride[d] *= STRIDE;
}

/* From the first element to the last. */
static int64_t
span_of(const struct cpu_view *view)
{
    int64_t span = 1;
    for (int d = 0; d < view->dims; d++) {
        if (view->size[d] == 0)
            return 0;
        span += (view->size[d] - 1) * view->stride[d];
    }
    return span;
}

struct cpu_view
view_new(struct play *p, enum dtype dtype, enum layout layout, struct sizes sizes)
{
    struct cpu_view view = { .dtype = dtype, .dims = sizes.dims };
    memcpy(view.size, sizes.size, sizeof view.size);
    row_major_strides(view.dims, view.size, view.stride);
    if (layout == LAYOUT_TRANSPOSED)
        transpose(&view);
    else if (layout == LAYOUT_STRIDED)
        spread(&view);
    else if (layout == LAYOUT_EXPANDED && view.dims > 0)
        view.stride[0] = 0;
    size_t offset = layout == LAYOUT_OFFSET ? OFFSET : 0;
    view.data = (char *)memory_new(p, dtype, (size_t)span_of(&view) + offset) + offset * dtype_size(dtype);
    return view;
}

struct cpu_view
view_row(struct play *p, enum dtype dtype, int64_t length)
{
    return view_new(p, dtype, LAYOUT_PLAIN, (struct sizes){ 1, { length } });
}

/* ---- values ---- */

/* Odd ones often, else some number of a few or of many digits. */
static double
odd_fraction(struct play *p, enum dtype dtype)
{
    bool         narrow = dtype == DTYPE_F16, wide = dtype == DTYPE_F64;
    double       least = narrow ? 0x1p-24 : wide ? 0x1p-1074 : dtype == DTYPE_BF16 ? 0x1p-133 : 0x1p-149;
    double       whole = dtype == DTYPE_BF16 ? 0x1.fep127 : 0x1.fffffep127;
    double       most = narrow ? 65504 : wide ? 0x1.fffffffffffffp1023 : whole;
    double       normal = narrow ? 0x1p-14 : wide ? 0x1p-1022 : 0x1p-126;
    const double odd[ODD_VALUES] = {
        NAN, INFINITY, -INFINITY, 0.0, -0.0, 1, -1, least, -least, least * 13, normal,
        most, -most, 0.5, -0.5, 1.5, 2.5, -2.5, 88.75, -88.75, 709.5, -104, 3, -20,
    };
    uint64_t kind = play_draw(p, 8);
    if (kind < 2)
        return odd[play_draw(p, ODD_VALUES)];
    double x = (double)play_draw(p, 1u << 24) / (1 << 24) * 2 - 1;
    if (kind == 2)
        return ldexp(x, (int)play_draw(p, 60) - 30);
    return kind < 5 ? x : x * 8;
}

static int64_t
odd_whole(struct play *p, enum dtype dtype)
{
    int64_t least, most;
    if (dtype == DTYPE_BOOL)
        return (int64_t)play_draw(p, 2);
    dtype_ends(dtype, &least, &most);
    switch (play_draw(p, 8)) {
    case 0:  return play_draw(p, 2) ? least : most;
    case 1:  return 0;
    case 2:  return play_draw(p, 2) ? least + 1 : most - 1;
    case 3:  return (int64_t)play_draw(p, UINT64_MAX) ;
    default: return (int64_t)play_draw(p, 41) - (least < 0 ? 20 : 0);
    }
}

void
fill_odd(struct play *p, struct cpu_view view)
{
    for (int64_t i = 0, n = view_count(&view); i < n; i++)
        if (dtype_is_float(view.dtype))
            dtype_put_fraction(view.dtype, view_at(view, i), odd_fraction(p, view.dtype));
        else
            dtype_put_whole(view.dtype, view_at(view, i), odd_whole(p, view.dtype));
}

static void
put(enum dtype dtype, void *element, double value)
{
    if (dtype_is_float(dtype))
        dtype_put_fraction(dtype, element, value);
    else
        dtype_put_whole(dtype, element, (int64_t)value);
}

void
fill_between(struct play *p, struct cpu_view view, double low, double high)
{
    for (int64_t i = 0, n = view_count(&view); i < n; i++)
        put(view.dtype, view_at(view, i), low + (double)play_draw(p, 1u << 24) / (1 << 24) * (high - low));
}

void
fill_indices(struct play *p, struct cpu_view view, int64_t limit)
{
    for (int64_t i = 0, n = view_count(&view); i < n; i++)
        dtype_put_whole(view.dtype, view_at(view, i), (int64_t)play_draw(p, (uint64_t)limit));
}

void
fill_value(struct cpu_view view, double value)
{
    fill_list(view, &value, 1);
}

void
fill_list(struct cpu_view view, const double *values, size_t count)
{
    for (int64_t i = 0, n = view_count(&view); i < n; i++)
        put(view.dtype, view_at(view, i), values[(size_t)i % count]);
}

struct cpu_call
call_of(int inputs, enum dtype dtype)
{
    return (struct cpu_call){ .inputs = inputs, .compute = dtype_wide(dtype), .common = dtype, .alpha = 1, .beta = 1 };
}

void
constant_set(struct cpu_call *call, int i, enum dtype dtype, double value, struct sizes sizes)
{
    call->in[i] = (struct cpu_view){ .dtype = dtype, .dims = sizes.dims };
    memcpy(call->in[i].size, sizes.size, sizeof sizes.size);
    call->constant[i] = 0;
    put(dtype, &call->constant[i], value);
}
