/* Copies of views: short rows without a call, turned matrices in tiles, the rest run by run. */
#include <string.h>
#include "tensor/cpu/convert.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/loop.h"

enum { TILE = 16 };

/* The innermost dimension of the result is not that of the source, the one around it is: tiles keep both in the cache.
 * Of elements of four bytes, the most there are. */
static bool
is_turned(const struct loop *loop, const struct cpu_call *call)
{
    int around = loop->dims - 1;
    return call->out.dtype == call->in[0].dtype && dtype_size(call->out.dtype) == 4 && around >= 0 &&
           loop->step[0] == 4 && loop->step[1] != 4 && loop->stride[1][around] == 4;
}

static void
turn(const struct loop *loop, int64_t rows, int64_t to_step)
{
    for (int64_t i = 0; i < rows; i += TILE) {
        for (int64_t j = 0; j < loop->run; j += TILE) {
            int64_t high = rows - i < TILE ? rows - i : TILE, wide = loop->run - j < TILE ? loop->run - j : TILE;
            for (int64_t y = 0; y < high; y++) {
                char *to = loop->at[0] + (i + y) * to_step + j * 4, *from = loop->at[1] + (i + y) * 4 +
                                                                            j * loop->step[1];
                for (int64_t x = 0; x < wide; x++)
                    memcpy(to + x * 4, from + x * loop->step[1], 4);
            }
        }
    }
}

/* A short run of one type in both places, which may be one place. */
static bool
is_short(const struct loop *loop, size_t bytes)
{
    return bytes <= 256 && (loop->at[0] + bytes <= loop->at[1] || loop->at[1] + bytes <= loop->at[0]);
}

/* Elements from in to out, which have the same sizes; both may be one view. */
void
cpu_copy(const struct cpu_call *call)
{
    const struct cpu_view *views[2] = { &call->out, &call->in[0] };
    int64_t     to = (int64_t)dtype_size(call->out.dtype), from = (int64_t)dtype_size(call->in[0].dtype);
    struct loop loop;
    loop_begin(&loop, views, 2);
    bool plain = call->out.dtype == call->in[0].dtype && loop.step[0] == to && loop.step[1] == from;
    if (is_turned(&loop, call)) {
        int64_t rows = loop.size[--loop.dims];
        for (; loop.more; loop_next(&loop))
            turn(&loop, rows, loop.stride[0][loop.dims]);
        return;
    }
    for (; loop.more; loop_next(&loop)) {
        if (plain && is_short(&loop, (size_t)(loop.run * to)))
            copy_row(loop.at[0], loop.at[1], (size_t)(loop.run * to));
        else if (loop.at[0] != loop.at[1] || loop.step[0] != loop.step[1]) /* else each element is itself */
            cpu_convert(loop.at[0], every(call->out.dtype, loop.step[0] / to), loop.at[1],
                        every(call->in[0].dtype, loop.step[1] / from), loop.run);
    }
}
