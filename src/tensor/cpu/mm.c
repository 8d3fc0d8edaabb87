/* The exact matrix product: the same bits on every CPU, from every compiler, at every alignment. Each element is the
 * sum over k in order, starting at 0, without fused multiply-add; vectors run over columns only, so their width says
 * nothing. A panel of the second operand (256 bytes wide, 256 deep) is packed; four rows by two vectors stay in
 * registers. Sums that go on in the next panel pass through the result, where they keep their bits.
 *
 * Where a run uses the libraries of blas.h, they take what they can and the rest is done here.
 *
 * Interface: cpu_mm, cpu_mm_add (fractions, the sums begin at what is there), cpu_addmm (the bias is added last),
 * cpu_mm_workspace. */
#include <string.h>
#include "tensor/cpu/blas.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/loop.h"
#include "tensor/cpu/view.h"

enum { PANEL_BYTES = 256, DEPTH = 256 };

/* Four rows of the first operand, k elements of each, and four of the result, all as wide as a panel. */
struct tile { const void *a[4]; int64_t a_step; void *c; int64_t c_step, k; bool fresh; }; /* fresh: sums begin here */
typedef void tile_kernel(const void *panel, const struct tile *tile);
/* Of the second operand: rows p to p + k, columns j to j + wide. */
struct panel { int64_t p, k, j, wide; };

#define TILE_NAME f32_narrow
#define TILE_TYPE float
#define TILE_BYTES 16
#define TILE_TARGET
#include "tensor/cpu/mm_tile.def"
#define TILE_NAME f64_narrow
#define TILE_TYPE double
#define TILE_BYTES 16
#define TILE_TARGET
#include "tensor/cpu/mm_tile.def"

#if defined(__x86_64__)
#define TILE_NAME f32_avx2
#define TILE_TYPE float
#define TILE_BYTES 32
#define TILE_TARGET __attribute__((target("avx2")))
#include "tensor/cpu/mm_tile.def"
#define TILE_NAME f64_avx2
#define TILE_TYPE double
#define TILE_BYTES 32
#define TILE_TARGET __attribute__((target("avx2")))
#include "tensor/cpu/mm_tile.def"
#define TILE_NAME f32_avx512
#define TILE_TYPE float
#define TILE_BYTES 64
#define TILE_TARGET __attribute__((target("avx512f")))
#include "tensor/cpu/mm_tile.def"
#define TILE_NAME f64_avx512
#define TILE_TYPE double
#define TILE_BYTES 64
#define TILE_TARGET __attribute__((target("avx512f")))
#include "tensor/cpu/mm_tile.def"

static tile_kernel *
widest_f32(void)
{
    return __builtin_cpu_supports("avx512f") ? f32_avx512 : __builtin_cpu_supports("avx2") ? f32_avx2 : f32_narrow;
}

static tile_kernel *
widest_f64(void)
{
    return __builtin_cpu_supports("avx512f") ? f64_avx512 : __builtin_cpu_supports("avx2") ? f64_avx2 : f64_narrow;
}
#else
static tile_kernel *
widest_f32(void)
{
    return f32_narrow;
}

static tile_kernel *
widest_f64(void)
{
    return f64_narrow;
}
#endif

static void
f32_tile(const void *panel, const struct tile *tile)
{
    widest_f32()(panel, tile);
}

static void
f64_tile(const void *panel, const struct tile *tile)
{
    widest_f64()(panel, tile);
}

#define MM_TYPE float
#define MM_NAME(part) f32_##part
#include "tensor/cpu/mm_type.def"
#define MM_TYPE double
#define MM_NAME(part) f64_##part
#include "tensor/cpu/mm_type.def"

/* Whole numbers wrap around. */
static void
i64_mm(const struct cpu_view *a, const struct cpu_view *b, int64_t *out)
{
    for (int64_t i = 0; i < a->size[0]; i++) {
        for (int64_t j = 0; j < b->size[1]; j++) {
            const int64_t *x = (const int64_t *)a->data + i * a->stride[0];
            const int64_t *y = (const int64_t *)b->data + j * b->stride[1];
            uint64_t       sum = 0;
            for (int64_t p = 0; p < a->size[1]; p++)
                sum += (uint64_t)x[p * a->stride[1]] * (uint64_t)y[p * b->stride[0]];
            out[i * b->size[1] + j] = (int64_t)sum;
        }
    }
}

/* add: to what is there, of fractions only. */
static void
matrix_product(const struct cpu_view *a, const struct cpu_view *b, const struct cpu_call *call, bool add)
{
    if (call->blas != NULL && blas_mm(call->blas, a, b, &call->out, add))
        return;
    if (call->compute == DTYPE_F32)
        f32_mm(a, b, call->out.data, call->workspace, add);
    else if (call->compute == DTYPE_F64)
        f64_mm(a, b, call->out.data, call->workspace, add);
    else
        i64_mm(a, b, call->out.data);
}

/* Room for one panel. */
size_t
cpu_mm_workspace(enum dtype dtype, int64_t k)
{
    return dtype_is_float(dtype) ? (size_t)(k < 1 ? 1 : k < DEPTH ? k : DEPTH) * PANEL_BYTES : 0;
}

void
cpu_mm(const struct cpu_call *call)
{
    matrix_product(&call->in[0], &call->in[1], call, false);
}

void
cpu_mm_add(const struct cpu_call *call)
{
    matrix_product(&call->in[0], &call->in[1], call, true);
}

/* A library adds its product to what is there: the bias in every row. */
static bool
addmm_fast(const struct cpu_call *call)
{
    if (call->blas == NULL || !blas_takes(call->blas, &call->in[1], &call->in[2], &call->out))
        return false;
    struct cpu_view bias = view_expand(&call->in[0], 2, call->out.size);
    size_t          row  = (size_t)bias.size[1] * dtype_size(bias.dtype);
    if (bias.dtype == call->out.dtype && bias.stride[1] == 1 && bias.stride[0] == 0) {
        memcpy(call->out.data, bias.data, row);
        repeat_row(call->out.data, row, bias.size[0]);
    } else {
        struct cpu_call copy = { .inputs = 1, .in = { bias }, .out = call->out, .compute = call->compute };
        cpu_copy(&copy);
    }
    return blas_mm(call->blas, &call->in[1], &call->in[2], &call->out, true);
}

/* in: bias, input, weight. */
void
cpu_addmm(const struct cpu_call *call)
{
    if (addmm_fast(call))
        return;
    matrix_product(&call->in[1], &call->in[2], call, false);
    struct cpu_call add = { .inputs = 2, .out = call->out, .alpha = 1, .compute = call->compute };
    add.in[0] = call->out;
    add.in[1] = view_expand(&call->in[0], 2, call->out.size);
    cpu_add(&add);
}
