/* Where pooling's windows lie, for the CPU's kernels and for GPUs; see pool.c. */
#ifndef TENSOR_CPU_POOL_H
#define TENSOR_CPU_POOL_H
#include "base/both.h"
#include "tensor/cpu/kernel.h"

enum { AVERAGE_ALL, AVERAGE_INSIDE, AVERAGE_ADAPTIVE };   /* a call's `start` */

/* The plane's height and width, the result's; the kernel's, its strides, padding, dilations. */
struct window { int64_t h, w, oh, ow, kh, kw, sh, sw, ph, pw, dh, dw, mode; };
struct span { int64_t from, to, divisor; };

BOTH struct window
window_of(const struct cpu_call *call, const struct cpu_view *plane, const struct cpu_view *result)
{
    const int64_t *s = call->sizes;
    struct window  window = { plane->size[plane->dims - 2], plane->size[plane->dims - 1],
                              result->size[result->dims - 2], result->size[result->dims - 1],
                              s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], call->start };
    return window;
}

/* What output `o` averages of one dimension, and by how much it divides. */
BOTH struct span
pool_span(const struct window *s, int64_t o, bool rows)
{
    int64_t size = rows ? s->h : s->w, outs = rows ? s->oh : s->ow, pad = rows ? s->ph : s->pw;
    int64_t from = o * (rows ? s->sh : s->sw) - pad, to = from + (rows ? s->kh : s->kw);
    if (s->mode == AVERAGE_ADAPTIVE) {
        from = o * size / outs;
        to   = ((o + 1) * size + outs - 1) / outs;
        struct span part = { from, to, to - from };
        return part;
    }
    to = to < size + pad ? to : size + pad;
    int64_t whole = to - from;
    from = from > 0 ? from : 0;
    to   = to < size ? to : size;
    struct span inside = { from, to, s->mode == AVERAGE_ALL ? whole : to - from };
    return inside;
}
#endif
