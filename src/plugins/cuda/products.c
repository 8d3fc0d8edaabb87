/* Products of matrices by cuBLAS, where a run does not ask for exact ones. What it cannot take (whole numbers,
 * strides that are none of a matrix by rows or by columns, nothing to multiply) is left to the kernels of our own.
 *
 * A stream has a handle and a workspace of its own: then the same products give the same bits however streams run
 * beside each other. Full precision, no atomics; RINGSIDE_TF32=1 lets float32 be multiplied in TF32, which is
 * quicker and keeps ten bits of a fraction.
 *
 * Interface: products_probe; products_launch, products_close. In PyTorch: ATen/cuda/CUDABlas.cpp,
 * CublasHandlePool.cpp. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "plugins/cuda/cublas.h"
#include "plugins/cuda/cuda.h"
#include "plugins/cuda/kernels/matrix.h"
#include "plugins/cuda/kernels/table.h"

/* What NVIDIA recommends: 32 MiB from compute capability 9 on, else 4. It is beside the engine's pool. */
enum { HOPPER = 9, WORKSPACE_LARGE = 32 << 20, WORKSPACE_SMALL = 4 << 20 };

struct products { const struct cublas *table; void *handle, *workspace; };

static bool
allows_tf32(void)
{
    const char *asked = getenv("RINGSIDE_TF32");
    return asked != NULL && strcmp(asked, "1") == 0;
}

/* ---- for people ---- */

static const char *const meddlers[] = {     /* NVIDIA's variables that change what a product is calculated in */
    "NVIDIA_TF32_OVERRIDE", "CUBLAS_EMULATE_SINGLE_PRECISION", "CUBLAS_EMULATE_DOUBLE_PRECISION",
    "CUBLAS_EMULATION_STRATEGY",
};

static void
probe_meddlers(struct backend_probe *probe)
{
    const int most = (int)(sizeof probe->parts / sizeof *probe->parts);
    for (size_t i = 0; i < sizeof meddlers / sizeof *meddlers; i++) {
        const char *value = getenv(meddlers[i]);
        if (value != NULL && probe->part_count < most)
            snprintf(probe->parts[probe->part_count++], sizeof probe->parts[0],
                     "products: %s=%.40s is set, and cuBLAS follows it", meddlers[i], value);
    }
}

void
products_probe(struct backend_probe *probe)
{
    char        file[PATH_MAX];
    const char *name;
    char       *line;
    if (probe->part_count >= (int)(sizeof probe->parts / sizeof *probe->parts))
        return;
    line = probe->parts[probe->part_count++];
    if (!cublas_find(file, sizeof file)) {
        snprintf(line, sizeof probe->parts[0], "products: our own kernels; faster with cuBLAS (%.60s)", file);
        return;
    }
    name = strrchr(file, '/');
    snprintf(line, sizeof probe->parts[0], "products: cuBLAS (%.60s), float32 in %s; our own kernels with --exact",
             name != NULL ? name + 1 : file,
             allows_tf32() ? "TF32, as RINGSIDE_TF32=1 says" : "full precision (RINGSIDE_TF32=1 for TF32)");
    probe_meddlers(probe);
}

/* ---- a stream's handle ---- */

static bool
went_well(int status, const char *what, struct backend_why *why)
{
    static const struct { int status; const char *text; } meanings[] = {
        { 1, "it did not start; a cuBLAS that is newer than the driver does so" }, { 3, "it has no memory left" },
        { 7, "it refuses the operands" }, { 8, "it does not know this kind of GPU" }, { 13, "its kernel failed" },
        { 14, "something in it went wrong" }, { 15, "it has no such product" },
    };
    const char *text = "it does not say why";
    if (status == CUBLAS_WELL)
        return true;
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].status == status)
            text = meanings[i].text;
    if (!cuda_done(cudaPeekAtLastError(), what, why))      /* CUDA knows better */
        return false;
    why->trouble = status == 3 ? TROUBLE_MEMORY : TROUBLE_FAILED;
    snprintf(why->text, sizeof why->text, "cuBLAS failed when %s (status %d): %s; --exact multiplies without it", what,
             status, text);
    return false;
}

static bool
workspace_take(struct backend_stream *stream, struct products *products, struct backend_why *why)
{
    int    major = 0;
    size_t bytes = WORKSPACE_SMALL;
    if (!cuda_done(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, stream->device->physical),
                   "asking for the GPU's kind", why))
        return false;
    if (major >= HOPPER)
        bytes = WORKSPACE_LARGE;
    return cuda_done(cudaMalloc(&products->workspace, bytes), "taking a workspace for cuBLAS", why) &&
           went_well(products->table->set_workspace(products->handle, products->workspace, bytes),
                     "taking its workspace", why);
}

/* In this order: a stream that is set takes away the workspace. */
static bool
handle_open(struct backend_stream *stream, struct products *products, struct backend_why *why)
{
    const struct cublas *table = products->table;
    if (!went_well(table->create(&products->handle), "starting", why)) {
        products->handle = NULL;
        return false;
    }
    return went_well(table->set_stream(products->handle, stream->stream), "taking a stream", why) &&
           workspace_take(stream, products, why) &&
           went_well(table->set_math(products->handle, allows_tf32() ? CUBLAS_TF32 : CUBLAS_FULL),
                     "choosing its precision", why) &&
           went_well(table->set_atomics(products->handle, CUBLAS_NO_ATOMICS), "forbidding atomics", why);
}

/* What is in the stream is done: who closes it has waited. */
void
products_close(struct backend_stream *stream)
{
    struct products   *products = stream->products;
    struct backend_why why = { TROUBLE_NONE, "" };
    stream->products = NULL;
    if (products == NULL)
        return;
    if (cuda_enter(stream->device, &why)) {     /* else the process ends, and all goes with it */
        if (products->handle != NULL)
            (void)products->table->destroy(products->handle);
        if (products->workspace != NULL)
            (void)cuda_done(cudaFree(products->workspace), "giving back cuBLAS's workspace", &why);
    }
    free(products);
}

static enum product_answer
refuse(struct backend_why *why, enum backend_trouble trouble, const char *text)
{
    why->trouble = trouble;
    snprintf(why->text, sizeof why->text, "%s", text);
    return PRODUCT_FAILED;
}

static enum product_answer
products_of(struct backend_stream *stream, struct backend_why *why)
{
    char text[300];
    if (stream->products != NULL)
        return PRODUCT_DONE;
    const struct cublas *table = cublas_open(text, sizeof text);
    if (table == NULL)
        return text[0] == '\0' ? PRODUCT_NOT_MINE : refuse(why, TROUBLE_MISSING, text);
    stream->products = calloc(1, sizeof *stream->products);
    if (stream->products == NULL)
        return refuse(why, TROUBLE_MEMORY, "the host has no memory left for a stream's products");
    stream->products->table = table;
    if (handle_open(stream, stream->products, why))
        return PRODUCT_DONE;
    products_close(stream);
    return PRODUCT_FAILED;
}

/* ---- which products ---- */

struct layout { int turn, lead; };          /* as cuBLAS names a matrix by rows: turned once more */

/* One dimension's elements lie beside each other, the other's at least as far apart as these reach. */
static bool
layout_of(const struct matrix *m, struct layout *layout)
{
    bool    by_row = (m->column_step == 1 || m->columns == 1) && (m->rows == 1 || m->row_step >= m->columns);
    bool    by_column = (m->row_step == 1 || m->rows == 1) && (m->columns == 1 || m->column_step >= m->rows);
    int64_t lead = by_row ? m->rows == 1 ? m->columns : m->row_step : m->columns == 1 ? m->rows : m->column_step;
    layout->turn = by_row ? CUBLAS_PLAIN : CUBLAS_TURNED;
    layout->lead = (int)lead;
    return (by_row || by_column) && lead <= INT_MAX;
}

static bool
small(int64_t size)
{
    return size >= 1 && size <= INT_MAX;
}

struct gemm { enum dtype dtype; struct matrix a, b, c; struct layout la, lb, lc; bool add; };

static bool
gemm_of(const struct cpu_call *call, enum kernel kernel, struct gemm *gemm)
{
    struct product_form form;
    if (!product_form_of(kernel, &form) || call->blas == NULL ||
        (call->compute != DTYPE_F32 && call->compute != DTYPE_F64) || call->in[form.left].dtype != call->compute ||
        call->in[form.right].dtype != call->compute || call->out.dtype != call->compute)
        return false;
    gemm->dtype = call->compute;
    gemm->a     = matrix_of(&call->in[form.left], form.left_form);
    gemm->b     = matrix_of(&call->in[form.right], form.right_form);
    gemm->c     = matrix_of(&call->out, form.right_form);
    gemm->add   = kernel == KERNEL_cpu_mm_add || kernel == KERNEL_cpu_addmm;
    return small(gemm->c.count) && small(gemm->a.rows) && small(gemm->a.columns) && small(gemm->b.columns) &&
           layout_of(&gemm->a, &gemm->la) && layout_of(&gemm->b, &gemm->lb) && layout_of(&gemm->c, &gemm->lc) &&
           gemm->lc.turn == CUBLAS_PLAIN;
}

/* A matrix by rows is by columns the turned one, so that b stands first: c turned is b turned times a turned. */
static int
gemm_f32(const struct products *p, const struct gemm *g)
{
    const int   m = (int)g->b.columns, n = (int)g->a.rows, k = (int)g->a.columns;
    const float one = 1, beta = g->add;
    if (g->c.count == 1)
        return p->table->sgemm(p->handle, g->lb.turn, g->la.turn, m, n, k, &one, g->b.data, g->lb.lead, g->a.data,
                               g->la.lead, &beta, g->c.data, g->lc.lead);
    return p->table->sgemm_batch(p->handle, g->lb.turn, g->la.turn, m, n, k, &one, g->b.data, g->lb.lead, g->b.next,
                                 g->a.data, g->la.lead, g->a.next, &beta, g->c.data, g->lc.lead, g->c.next,
                                 (int)g->c.count);
}

static int
gemm_f64(const struct products *p, const struct gemm *g)
{
    const int    m = (int)g->b.columns, n = (int)g->a.rows, k = (int)g->a.columns;
    const double one = 1, beta = g->add;
    if (g->c.count == 1)
        return p->table->dgemm(p->handle, g->lb.turn, g->la.turn, m, n, k, &one, g->b.data, g->lb.lead, g->a.data,
                               g->la.lead, &beta, g->c.data, g->lc.lead);
    return p->table->dgemm_batch(p->handle, g->lb.turn, g->la.turn, m, n, k, &one, g->b.data, g->lb.lead, g->b.next,
                                 g->a.data, g->la.lead, g->a.next, &beta, g->c.data, g->lc.lead, g->c.next,
                                 (int)g->c.count);
}

/* ---- the bias ---- */

/* The bias in every row, which the product is added to. */
static struct cpu_call
bias_copy(const struct cpu_call *call)
{
    struct cpu_call copy = { .inputs = 1, .out = call->out, .compute = call->compute, .common = call->compute };
    struct matrix   bias = matrix_of(&call->in[0], FORM_ROW);
    copy.in[0] = (struct cpu_view){ .data = bias.data, .dtype = call->compute, .dims = 2,
                                    .size = { call->out.size[0], call->out.size[1] } };
    copy.in[0].stride[0] = bias.rows == 1 ? 0 : bias.row_step;
    copy.in[0].stride[1] = bias.columns == 1 ? 0 : bias.column_step;
    return copy;
}

static bool
bias_put(struct backend_stream *stream, const struct cpu_call *copy, struct backend_why *why)
{
    return cuda_launch_rows(stream, KERNEL_cpu_copy, copy, sizeof *copy, 0, why);
}

enum product_answer
products_launch(struct backend_stream *stream, enum kernel kernel, const void *params, struct backend_why *why)
{
    const struct cpu_call *call = params;
    struct gemm            gemm;
    struct cpu_call        copy;
    if (kernel >= KERNEL_OPS || !gemm_of(call, kernel, &gemm))
        return PRODUCT_NOT_MINE;
    if (kernel == KERNEL_cpu_addmm) {
        copy = bias_copy(call);
        if (call->in[0].dtype != call->compute || !cuda_has(KERNEL_cpu_copy, &copy))
            return PRODUCT_NOT_MINE;
    }
    enum product_answer answer = products_of(stream, why);
    if (answer != PRODUCT_DONE)
        return answer;
    if (kernel == KERNEL_cpu_addmm && !bias_put(stream, &copy, why))
        return PRODUCT_FAILED;
    int status = gemm.dtype == DTYPE_F32 ? gemm_f32(stream->products, &gemm) : gemm_f64(stream->products, &gemm);
    return went_well(status, "multiplying", why) ? PRODUCT_DONE : PRODUCT_FAILED;
}
