/* Cases for the kernels of gather and scatter, of rows by index, of other orders; the list is play_pick.c's. */
#include "play_pick.h"
#include "plugins/cuda/kernels/order_room.h"

/* ---- an index for each element; in: elements, indices, source ---- */

struct along_case { struct sizes whole; int dim; int64_t indices; enum layout layout; bool bad; };

static void
along_case(struct play *p, enum dtype dtype, const struct along_case *c)
{
    bool            gather = p->kernel == KERNEL_pick_gather;
    int64_t         limit = c->whole.size[c->dim];
    struct sizes    index = c->whole, source;
    struct cpu_call call = rows_call(p, gather ? 2 : 3, dtype);
    index.size[c->dim] = c->indices;
    source = index;
    source.size[0]++; /* a source may be larger than the indices */
    call.in[0] = numbers(p, true, dtype, c->layout, c->whole);
    call.in[1] = places(p, c->layout, index, c->bad ? -1 : 0, limit + c->bad);
    if (!gather)
        call.in[2] = numbers(p, false, dtype, c->layout, source);
    call.out = result(p, dtype, gather ? index : c->whole);
    call.dim = c->dim;
    compare(p, p->kernel, &call);
}

static void
each_along(struct play *p, bool bad)
{
    for (int t = 0; t < DTYPE_COUNT; t++)
        for (int l = 0; l < (t < 2 ? ROW_LAYOUTS : 2); l++)
            for (int dim = 0; dim < 3; dim++) {
                struct along_case c = { { 3, { 3, 4, 5 } }, dim, 6, row_layouts[l], bad };
                along_case(p, all_types[t], &c);
            }
    for (int i = 0; i < LENGTHS - 1; i++) {
        struct along_case c = { { 2, { 4, 3 } }, 0, lengths[i], LAYOUT_PLAIN, bad };
        along_case(p, DTYPE_F32, &c);
    }
}

void
gather_along(struct play *p)
{
    each_along(p, false);
}

void
scatter_along(struct play *p)
{
    each_along(p, false);
}

void
along_bad(struct play *p)
{
    each_along(p, true);
}

/* Lines that a block has, and so many that a thread has one. */
void
scatter_long(struct play *p)
{
    for (int t = 0; t < DTYPE_COUNT; t++) {
        struct along_case c = { { 2, { 2, 7 } }, 1, 700, row_layouts[t % ROW_LAYOUTS], false };
        along_case(p, all_types[t], &c);
    }
    struct along_case c = { { 2, { 1 << 14, 3 } }, 1, 33, LAYOUT_PLAIN, false };
    along_case(p, DTYPE_F32, &c);
}

/* Of a maximum over a dimension. */
void
gather_lacking(struct play *p)
{
    for (int l = 0; l < ROW_LAYOUTS; l++)
        for (int dim = 0; dim < 3; dim++) {
            struct sizes    whole = { 3, { 3, 4, 5 } }, index = { 2, { 0 } };
            struct cpu_call call = rows_call(p, 2, DTYPE_F32);
            for (int d = 0, k = 0; d < 3; d++) {
                if (d != dim)
                    index.size[k++] = whole.size[d];
            }
            call.in[0] = numbers(p, true, DTYPE_F32, row_layouts[l], whole);
            call.in[1] = places(p, row_layouts[l], index, 0, whole.size[dim]);
            call.out   = result(p, DTYPE_F32, index);
            call.dim   = dim;
            compare(p, p->kernel, &call);
        }
}

/* The index of a number alone may be a number of the host's. */
void
alone(struct play *p)
{
    struct sizes none = { 0, { 0 } };
    for (int t = 0; t < DTYPE_COUNT; t++)
        for (int host = 0; host < 2; host++) {
            struct cpu_call call = rows_call(p, p->kernel == KERNEL_pick_gather ? 2 : 3, all_types[t]);
            call.in[0] = numbers(p, false, all_types[t], LAYOUT_PLAIN, none);
            call.in[1] = places(p, LAYOUT_PLAIN, none, 0, 1);
            call.in[2] = numbers(p, false, all_types[t], LAYOUT_PLAIN, none);
            if (host)
                constant_set(&call, 1, DTYPE_I64, 0, none);
            call.out = result(p, all_types[t], none);
            compare(p, p->kernel, &call);
        }
}

/* ---- an index for each row, of one dimension or of two; in: elements, indices, rows ---- */

static void
rows_case(struct play *p, enum dtype dtype, enum dtype rows, const struct along_case *c, int index_dims)
{
    int64_t         limit = c->whole.size[c->dim];
    struct sizes    index = { index_dims, { c->indices, 2 } }, packed = { 0, { 0 } };
    struct cpu_call call = rows_call(p, p->kernel == KERNEL_pick_index ? 2 : 3, dtype);
    for (int d = 0; d < c->whole.dims; d++) {
        if (d != c->dim)
            packed.size[packed.dims++] = c->whole.size[d];
        for (int i = 0; d == c->dim && i < index_dims; i++)
            packed.size[packed.dims++] = index.size[i];
    }
    call.in[0] = numbers(p, true, dtype, c->layout, c->whole);
    call.in[1] = places(p, c->layout, index, -limit - c->bad, limit + c->bad);
    call.in[2] = numbers(p, p->kernel == KERNEL_pick_index_put, rows, c->layout, packed);
    call.out   = result(p, dtype, p->kernel == KERNEL_pick_index ? packed : c->whole);
    call.dim   = c->dim;
    call.alpha = 2.5;
    compare(p, p->kernel, &call);
}

void
rows_along(struct play *p)
{
    for (int t = 0; t < DTYPE_COUNT; t++)
        for (int l = 0; l < (t < 2 ? ROW_LAYOUTS : 2); l++)
            for (int dim = 0; dim < 3; dim++) {
                struct along_case c = { { 3, { 3, 4, 5 } }, dim, 6, row_layouts[l], false };
                rows_case(p, all_types[t], all_types[t], &c, 1 + t % 2);
            }
    for (int i = 0; i < LENGTHS; i++) {
        struct along_case c = { { 2, { 3, 2 } }, 0, lengths[i], LAYOUT_PLAIN, false };
        rows_case(p, DTYPE_F32, DTYPE_F32, &c, 1);
    }
}

void
rows_of_other_types(struct play *p)
{
    struct along_case c = { { 3, { 3, 4, 5 } }, 1, 6, LAYOUT_STRIDED, false };
    for (int t = 0; t < DTYPE_COUNT; t++)
        for (int r = 0; r < DTYPE_COUNT; r++)
            rows_case(p, all_types[t], all_types[r], &c, 1);
}

void
rows_bad(struct play *p)
{
    struct along_case c = { { 3, { 3, 4, 5 } }, 1, 30, LAYOUT_PLAIN, true };
    rows_case(p, DTYPE_F32, DTYPE_F32, &c, 1);
    rows_case(p, DTYPE_I64, DTYPE_I64, &c, 2);
}

/* ---- other orders ---- */

static void
other_case(struct play *p, enum dtype dtype, enum layout layout, struct sizes sizes, int64_t start)
{
    struct cpu_call call = rows_call(p, 1, dtype);
    call.in[0] = numbers(p, true, dtype, layout, sizes);
    call.out   = result(p, dtype, sizes);
    call.start = start;
    compare(p, p->kernel, &call);
}

static void
each_start(struct play *p, int64_t low, int64_t high)
{
    for (int64_t start = low; start <= high; start++)
        for (int t = 0; t < DTYPE_COUNT; t++)
            other_case(p, all_types[t], row_layouts[t % ROW_LAYOUTS], (struct sizes){ 3, { 3, 4, 5 } }, start);
    for (int i = 0; i < LENGTHS; i++)
        other_case(p, DTYPE_F32, LAYOUT_PLAIN, (struct sizes){ 2, { 2, lengths[i] } }, 1);
}

void
others_flip(struct play *p)
{
    each_start(p, 0, 7);
    other_case(p, DTYPE_F64, LAYOUT_PLAIN, (struct sizes){ 0, { 0 } }, 0);
}

void
others_triangle(struct play *p)
{
    each_start(p, -5, 6);
}

/* ---- order ---- */

static void
order_case(struct play *p, bool odd, enum dtype dtype, enum layout layout, struct sizes sizes, int dim, bool descending)
{
    struct cpu_call call = rows_call(p, 1, dtype);
    call.in[0]     = numbers(p, odd, dtype, layout, sizes);
    call.out       = result(p, DTYPE_I64, sizes);
    call.dim       = dim;
    call.start     = descending;
    call.workspace = workspace_new(p, cpu_sort_workspace(sizes.dims > 0 ? sizes.size[dim] : 1));
    compare(p, p->kernel, &call);
}

static void
both_orders(struct play *p, bool odd, enum dtype dtype, enum layout layout, struct sizes sizes, int dim)
{
    order_case(p, odd, dtype, layout, sizes, dim, false);
    order_case(p, odd, dtype, layout, sizes, dim, true);
}

void
order_along_each(struct play *p)
{
    for (int t = 0; t < DTYPE_COUNT; t++)
        for (int l = 0; l < ROW_LAYOUTS; l++)
            for (int dim = 0; dim < 3; dim++)
                both_orders(p, true, all_types[t], row_layouts[l], (struct sizes){ 3, { 7, 20, 3 } }, dim);
    both_orders(p, true, DTYPE_F32, LAYOUT_PLAIN, (struct sizes){ 0, { 0 } }, 0);
}

/* Numbers of few values are often equal. */
void
order_lengths(struct play *p)
{
    static const int64_t more[] = { 2, 17, ORDER_CHUNK - 1, ORDER_CHUNK, ORDER_CHUNK + 1, 2 * ORDER_CHUNK + 5 };
    for (int i = 0; i < LENGTHS; i++)
        both_orders(p, false, DTYPE_I32, LAYOUT_PLAIN, (struct sizes){ 2, { i < LENGTHS - 1 ? 3 : 1, lengths[i] } }, 1);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        both_orders(p, false, DTYPE_I8, LAYOUT_PLAIN, (struct sizes){ 2, { 2, more[i] } }, 1);
    both_orders(p, false, DTYPE_U8, LAYOUT_TRANSPOSED, (struct sizes){ 2, { 700, 9 } }, 1);
}

void
order_long(struct play *p)
{
    struct sizes sizes = { 1, { (int64_t)ORDER_CHUNK * ORDER_WAYS + 77 } };
    order_case(p, false, DTYPE_I8, LAYOUT_PLAIN, sizes, 0, true);
}

void
order_lacks(struct play *p)
{
    int             keys = p->kernel == KERNEL_sort_argsort ? 0 : 1;
    struct cpu_call call = call_of(2, DTYPE_F32);
    call.in[keys] = (struct cpu_view){ .dtype = DTYPE_I64, .dims = 1, .size = { ORDER_LIMIT + 1 }, .stride = { 1 } };
    lacks(p, p->kernel, &call);
}
