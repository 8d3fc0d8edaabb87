/* Pooling over windows of planes: the largest (its places first, then elements by place) and the average.
 *
 * sizes: kernel, stride, padding, dilation, height and width each. avg_pool2d: start 0 counts the padding, 1 does not,
 * 2: adaptive, the windows share the plane out. Of the gradients length and step are the plane's height and width.
 * In PyTorch: ATen/native/cpu/MaxPoolKernel.cpp, AvgPoolKernel.cpp, AdaptiveAvgPoolKernel.cpp. */
#include <string.h>
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/pack.h"
#include "tensor/cpu/pool.h"
#include "tensor/cpu/wide.h"

enum { BLOCK = 16 };

struct planes { int64_t count, area, windows; };      /* area: elements of one; windows: in one */
struct inside { int64_t count, taps; const int32_t *corner, *tap; }; /* corner: up to a whole block */

#define T float
#define POOL(part) f32_##part
#include "tensor/cpu/pool_type.def"
#define T double
#define POOL(part) f64_##part
#include "tensor/cpu/pool_type.def"

static int64_t
planes_of(const struct cpu_view *view)
{
    int64_t planes = 1;
    for (int d = 0; d < view->dims - 2; d++)
        planes *= view->size[d];
    return planes;
}

static int64_t
area_of(const struct cpu_view *view)
{
    return view->size[view->dims - 1] * view->size[view->dims - 2];
}

static bool
all_inside(const struct window *s)
{
    return s->ph == 0 && s->pw == 0 && (s->oh - 1) * s->sh + (s->kh - 1) * s->dh < s->h &&
           (s->ow - 1) * s->sw + (s->kw - 1) * s->dw < s->w && s->h * s->w < INT32_MAX;
}

static int64_t
whole_blocks(int64_t count)
{
    return (count + BLOCK - 1) / BLOCK * BLOCK;
}

size_t
pool_workspace(int64_t windows, int64_t taps)
{
    return (size_t)(whole_blocks(windows) + taps) * sizeof(int32_t);
}

static struct inside
tables(const struct window *s, void *room)
{
    int32_t      *corner = room;
    struct inside inside = { s->oh * s->ow, s->kh * s->kw, corner, corner + whole_blocks(s->oh * s->ow) };
    for (int64_t o = 0; o < whole_blocks(inside.count); o++) {
        int64_t known = o < inside.count ? o : inside.count - 1;
        corner[o] = (int32_t)(known / s->ow * s->sh * s->w + known % s->ow * s->sw);
    }
    corner += whole_blocks(inside.count);
    for (int64_t k = 0; k < inside.taps; k++)
        corner[k] = (int32_t)(k / s->kw * s->dh * s->w + k % s->kw * s->dw);
    return inside;
}

void
cpu_max_pool2d_indices(const struct cpu_call *call)
{
    char         *room = call->workspace;
    struct window s = window_of(call, &call->in[0], &call->out);
    const void   *x = pack_input(call, 0, &room);
    struct inside inside = { 0 };
    if (all_inside(&s))
        inside = tables(&s, room);
    if (inside.count > 0 && call->compute == DTYPE_F32)
        f32_inside(call->out.data, x, &inside, planes_of(&call->out), s.h * s.w);
    else if (inside.count > 0)
        f64_inside(call->out.data, x, &inside, planes_of(&call->out), s.h * s.w);
    else if (call->compute == DTYPE_F32)
        f32_indices(call->out.data, x, &s, planes_of(&call->out));
    else
        f64_indices(call->out.data, x, &s, planes_of(&call->out));
}

/* in: planes, places. */
void
cpu_max_pool2d(const struct cpu_call *call)
{
    char          *room = call->workspace;
    const void    *x = pack_input(call, 0, &room);
    const int64_t *index = pack_as(call, 1, DTYPE_I64, &room);
    struct planes  all = { planes_of(&call->out), area_of(&call->in[0]), area_of(&call->out) };
    if (call->compute == DTYPE_F32)
        f32_pick(call->out.data, x, index, &all);
    else
        f64_pick(call->out.data, x, index, &all);
}

/* in: gradient, places. */
void
cpu_max_pool2d_backward(const struct cpu_call *call)
{
    char          *room = call->workspace;
    const void    *grad = pack_input(call, 0, &room);
    const int64_t *index = pack_as(call, 1, DTYPE_I64, &room);
    struct planes  all = { planes_of(&call->out), area_of(&call->out), area_of(&call->in[0]) };
    if (call->compute == DTYPE_F32)
        f32_put(call->out.data, grad, index, &all);
    else
        f64_put(call->out.data, grad, index, &all);
}

void
cpu_avg_pool2d(const struct cpu_call *call)
{
    char         *room = call->workspace;
    struct window s = window_of(call, &call->in[0], &call->out);
    const void   *x = pack_input(call, 0, &room);
    if (call->compute == DTYPE_F32)
        f32_average(call->out.data, x, &s, planes_of(&call->out));
    else
        f64_average(call->out.data, x, &s, planes_of(&call->out));
}

void
cpu_avg_pool2d_backward(const struct cpu_call *call)
{
    char         *room = call->workspace;
    struct window s = window_of(call, &call->out, &call->in[0]);
    const void   *grad = pack_input(call, 0, &room);
    if (call->compute == DTYPE_F32)
        f32_spread(call->out.data, grad, &s, planes_of(&call->out));
    else
        f64_spread(call->out.data, grad, &s, planes_of(&call->out));
}
