/* Cases for the kernels of pooling; the list is play_rows.c's. */
#include "play_rows.h"
#include <string.h>

/* Planes of height and width; kernel, stride, padding, dilation, height and width each; `ceil`: a last, cut window. */
struct pool_case { int64_t planes, h, w, s[8]; bool ceil; };

static const struct pool_case pools[] = {
    { 2, 7, 9, { 3, 3, 2, 2, 1, 1, 1, 1 }, false }, { 3, 7, 9, { 3, 2, 1, 2, 0, 0, 1, 1 }, false },
    { 2, 12, 11, { 2, 2, 2, 2, 0, 0, 1, 1 }, true }, { 1, 30, 31, { 5, 3, 1, 1, 2, 1, 1, 1 }, false },
    { 2, 5, 5, { 5, 3, 1, 1, 2, 1, 1, 1 }, false },  { 2, 1, 1, { 1, 1, 1, 1, 0, 0, 1, 1 }, false },
    { 0, 4, 4, { 2, 2, 2, 2, 0, 0, 1, 1 }, false },  { 3, 16, 5, { 4, 1, 4, 3, 2, 0, 1, 1 }, true },
    { 2, 12, 11, { 3, 3, 2, 3, 1, 0, 2, 1 }, true }, { 2, 12, 11, { 2, 3, 1, 1, 0, 0, 3, 2 }, false },
};
enum { POOLS = sizeof pools / sizeof *pools, WITH_GAPS = 2, AVERAGES = 3, ADAPTIVE = 2 }; /* the last ones have gaps */

static int64_t
windows_of(const struct pool_case *c, int side)
{
    int64_t length = side == 0 ? c->h : c->w, stride = c->s[2 + side], pad = c->s[4 + side];
    int64_t room = length + 2 * pad - c->s[6 + side] * (c->s[side] - 1) - 1;
    int64_t count = (room + (c->ceil ? stride - 1 : 0)) / stride + 1;
    return c->ceil && (count - 1) * stride >= length + pad ? count - 1 : count;
}

static void
window_case(struct play *p, bool odd, enum dtype dtype, enum layout layout, const struct pool_case *c, int64_t start)
{
    bool         adaptive = start == ADAPTIVE, most = p->kernel == KERNEL_cpu_max_pool2d_indices;
    bool         back = p->kernel == KERNEL_cpu_avg_pool2d_backward;
    struct sizes plane = { 4, { c->planes, 2, c->h, c->w } }, windows = plane;
    for (int side = 0; side < 2; side++)
        windows.size[2 + side] = adaptive ? c->s[side] : windows_of(c, side);
    struct cpu_call call = rows_call(p, 1, dtype);
    call.in[0]  = numbers(p, odd, dtype, layout, back ? windows : plane);
    call.out    = result(p, most ? DTYPE_I64 : dtype, back ? plane : windows);
    call.start  = start;
    call.length = c->h;
    call.step   = c->w;
    memcpy(call.sizes, c->s, sizeof call.sizes);
    compare(p, p->kernel, &call);
}

static void
each_window(struct play *p, int count, int64_t starts)
{
    for (int t = 0; t < REAL_TYPES; t++)
        for (int i = 0; i < count; i++)
            for (int64_t start = 0; start < starts; start++)
                for (int l = 0; l < (i == 0 ? ROW_LAYOUTS : 1); l++) {
                    window_case(p, false, real_types[t], row_layouts[l], &pools[i], start);
                    window_case(p, true, real_types[t], row_layouts[l], &pools[i], start);
                }
}

void
pool_windows(struct play *p)
{
    bool most = p->kernel == KERNEL_cpu_max_pool2d_indices;
    each_window(p, most ? POOLS : POOLS - WITH_GAPS, most ? 1 : AVERAGES);
}

void
pool_spread(struct play *p)
{
    each_window(p, POOLS - WITH_GAPS, AVERAGES);
}

/* More windows than a block has threads, many at one place. */
void
pool_places(struct play *p)
{
    static const int64_t sides[][4] = { { 3, 4, 2, 2 }, { 2, 2, 20, 20 }, { 9, 8, 16, 16 }, { 1, 1, 257, 1 },
                                        { 5, 5, 0, 3 } };
    bool                 back = p->kernel == KERNEL_cpu_max_pool2d_backward;
    for (int t = 0; t < REAL_TYPES; t++)
        for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
            for (int l = 0; l < ROW_LAYOUTS; l++) {
                struct sizes    plane = { 4, { 2, 3, sides[i][0], sides[i][1] } };
                struct sizes    windows = { 4, { 2, 3, sides[i][2], sides[i][3] } };
                struct cpu_call call = rows_call(p, 2, real_types[t]);
                call.in[0]  = numbers(p, false, real_types[t], row_layouts[l], back ? windows : plane);
                call.in[1]  = places(p, row_layouts[l], windows, 0, sides[i][0] * sides[i][1]);
                call.out    = result(p, real_types[t], back ? plane : windows);
                call.length = sides[i][0];
                call.step   = sides[i][1];
                compare(p, p->kernel, &call);
            }
}
