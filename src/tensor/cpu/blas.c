/* OpenBLAS and oneDNN behind one call. Measured: small products and narrow ones are OpenBLAS's, the others oneDNN's;
 * where one of them is missing the other takes all that it can.
 *
 * Interface in order of use: blas_open, blas_describe; then blas_takes and blas_mm by the kernels. In PyTorch:
 * ATen/native/CPUBlas.cpp, mkldnn/Matmul.cpp. */
#include "tensor/cpu/blas.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include "base/vec.h"
#include "tensor/cpu/blas_trial.h"
#include "tensor/cpu/convert.h"
#include "tensor/cpu/kernel.h"
#include "tensor/cpu/loop.h"

/* ---- opening ---- */

static const char *const openblas_files[] = {
    "libopenblas.so.0", "libopenblasp.so.0", "libopenblas.so", "libopenblas.0.dylib",
    "/opt/homebrew/opt/openblas/lib/libopenblas.dylib", "/usr/local/opt/openblas/lib/libopenblas.dylib",
};
static const char *const onednn_files[] = {
    "libdnnl.so.3", "libdnnl.so.2", "libdnnl.so", "libdnnl.3.dylib",
    "/opt/homebrew/opt/onednn/lib/libdnnl.dylib", "/usr/local/opt/onednn/lib/libdnnl.dylib",
};

static void *
open_first(const char *const *files, size_t count)
{
    void *library = NULL;
    for (size_t i = 0; i < count && library == NULL; i++)
        library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

enum level { LEVEL_PLAIN, LEVEL_AVX, LEVEL_AVX2, LEVEL_AVX512 };
static const char *const level_names[] = { "SSE", "AVX", "AVX2", "AVX-512" };

/* What this CPU could do; 0 where nobody knows better. */
static enum level
cpu_level(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        return LEVEL_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return LEVEL_AVX2;
    return __builtin_cpu_supports("avx") ? LEVEL_AVX : LEVEL_PLAIN;
#else
    return LEVEL_PLAIN;
#endif
}

/* OpenBLAS's names for its kernel sets; one that is not here is taken to be as good as the CPU. */
static const struct { const char *name; enum level level; } kernel_sets[] = {
    { "SkylakeX", LEVEL_AVX512 }, { "Cooperlake", LEVEL_AVX512 }, { "SapphireRapids", LEVEL_AVX512 },
    { "Haswell", LEVEL_AVX2 },    { "Zen", LEVEL_AVX2 },          { "Excavator", LEVEL_AVX2 },
    { "Sandybridge", LEVEL_AVX }, { "Bulldozer", LEVEL_AVX },     { "Piledriver", LEVEL_AVX },
    { "Steamroller", LEVEL_AVX }, { "Prescott", LEVEL_PLAIN },    { "Core2", LEVEL_PLAIN },
    { "Penryn", LEVEL_PLAIN },    { "Dunnington", LEVEL_PLAIN },  { "Nehalem", LEVEL_PLAIN },
    { "Atom", LEVEL_PLAIN },      { "Athlon", LEVEL_PLAIN },      { "Opteron", LEVEL_PLAIN },
    { "Barcelona", LEVEL_PLAIN }, { "Bobcat", LEVEL_PLAIN },      { "Katmai", LEVEL_PLAIN },
    { "Coppermine", LEVEL_PLAIN }, { "Northwood", LEVEL_PLAIN },  { "Nano", LEVEL_PLAIN },
};

static enum level
level_of_set(const char *name)
{
    for (size_t i = 0; i < countof(kernel_sets); i++)
        if (strcasecmp(kernel_sets[i].name, name) == 0)
            return kernel_sets[i].level;
    return cpu_level();
}

static void
warn_of(struct blas *blas, const char *library, enum level used, const char *variable)
{
    const char *value = getenv(variable);
    if (used >= cpu_level() || blas->warning[0] != '\0')
        return;
    if (value != NULL)
        snprintf(blas->warning, sizeof blas->warning, "%s=%.40s: %s uses %s where this CPU has %s; unset it for speed",
                 variable, value, library, level_names[used], level_names[cpu_level()]);
    else
        snprintf(blas->warning, sizeof blas->warning, "%s uses %s where this CPU has %s; a newer one may know it",
                 library, level_names[used], level_names[cpu_level()]);
}

/* A function's address, by way of memory: ISO C converts no object pointer to one. */
static void
find_symbol(void *library, const char *name, void *function)
{
    void *found = library != NULL ? dlsym(library, name) : NULL;
    memcpy(function, &found, sizeof found);
}

static void
open_openblas(struct blas *blas)
{
    void *library = blas->library = open_first(openblas_files, countof(openblas_files));
    char *(*config)(void), *(*corename)(void);
    void  (*threads)(int);
    find_symbol(library, "cblas_sgemm", &blas->sgemm);
    find_symbol(library, "cblas_dgemm", &blas->dgemm);
    find_symbol(library, "openblas_get_config", &config);
    find_symbol(library, "openblas_get_corename", &corename);
    find_symbol(library, "openblas_set_num_threads", &threads);
    if (blas->sgemm == NULL || blas->dgemm == NULL || threads == NULL) {
        blas->sgemm = NULL;
        blas->dgemm = NULL;
        return;
    }
    threads(1);
    const char *core = corename != NULL ? corename() : "unknown kernels";
    char        version[24] = "";
    if (config != NULL && sscanf(config(), "OpenBLAS %20s", version) != 1)
        version[0] = '\0';
    snprintf(blas->openblas, sizeof blas->openblas, "OpenBLAS%s%s (%.16s)", version[0] != '\0' ? " " : "", version,
             core);
    warn_of(blas, "OpenBLAS", level_of_set(core), "OPENBLAS_CORETYPE");
}

/* Bits of dnnl_cpu_isa_t. */
enum { ISA_AVX = 0x2, ISA_AVX2 = 0x4, ISA_AVX512 = 0x20 };

static void
open_onednn(struct blas *blas)
{
    struct version { int major, minor, patch; };
    void *library = open_first(onednn_files, countof(onednn_files));
    int   (*isa)(void);
    const struct version *(*version)(void);
    find_symbol(library, "dnnl_sgemm", &blas->dnnl);
    find_symbol(library, "dnnl_get_effective_cpu_isa", &isa);
    find_symbol(library, "dnnl_version", &version);
    if (blas->dnnl == NULL)
        return;
    int        bits  = isa != NULL ? isa() : 0;
    enum level level = bits & ISA_AVX512 ? LEVEL_AVX512 : bits & ISA_AVX2 ? LEVEL_AVX2
                     : bits & ISA_AVX    ? LEVEL_AVX    : LEVEL_PLAIN;
    int        length = snprintf(blas->onednn, sizeof blas->onednn, "oneDNN");
    if (version != NULL)
        length += snprintf(blas->onednn + length, sizeof blas->onednn - (size_t)length, " %d.%d", version()->major,
                           version()->minor);
    if (bits == 0 || cpu_level() == LEVEL_PLAIN)
        return;
    snprintf(blas->onednn + length, sizeof blas->onednn - (size_t)length, " (%s)", level_names[level]);
    warn_of(blas, "oneDNN", level, "ONEDNN_MAX_CPU_ISA");
}

/* ---- memory ---- */

/* The libraries take 85 MiB of address space, oneDNN's code 10 when it is first used; a buffer of OpenBLAS 128 MiB,
 * twice that on some machines, of which only what a product uses is ever touched. */
enum { LIBRARY_BYTES = 192 << 20, BUFFER_BYTES = 256 << 20, MOST_BUFFERS = 16 };

/* As many products at once as there are CPUs, if there is room for their buffers. All are taken before the first is
 * given back: else they would be the same one. */
static void
take_buffers(struct blas *blas)
{
    void *(*take)(int);
    void  (*give_back)(void *);
    void *taken[MOST_BUFFERS];
    long  cpus = sysconf(_SC_NPROCESSORS_ONLN), wanted = cpus < 2 ? 2 : cpus > MOST_BUFFERS ? MOST_BUFFERS : cpus;
    int   count = 0;
    find_symbol(blas->library, "blas_memory_alloc", &take);
    find_symbol(blas->library, "blas_memory_free", &give_back);
    while (take != NULL && give_back != NULL && count < wanted && address_space_fits(BUFFER_BYTES)) {
        taken[count] = take(0);
        if (taken[count] == NULL)
            break;
        count++;
    }
    for (int i = 0; i < count; i++)
        give_back(taken[i]);
    atomic_init(&blas->buffers.free, count);
    if (count == 0)
        blas->sgemm = NULL, blas->dgemm = NULL, blas->openblas[0] = '\0';
}

/* Before a product in OpenBLAS. Nobody holds anything else meanwhile, so all who wait go on. */
static void
enter_openblas(struct blas *blas)
{
    struct blas_buffers *buffers = &blas->buffers;
    if (atomic_fetch_sub(&buffers->free, 1) > 0)
        return;
    pthread_mutex_lock(&buffers->mutex);
    while (buffers->handed == 0)
        pthread_cond_wait(&buffers->freed, &buffers->mutex);
    buffers->handed--;
    pthread_mutex_unlock(&buffers->mutex);
}

static void
leave_openblas(struct blas *blas)
{
    struct blas_buffers *buffers = &blas->buffers;
    if (atomic_fetch_add(&buffers->free, 1) >= 0)
        return;
    pthread_mutex_lock(&buffers->mutex);
    buffers->handed++;
    pthread_cond_signal(&buffers->freed);
    pthread_mutex_unlock(&buffers->mutex);
}

/* A thread's first product allocates where nobody looks whether it failed. */
static bool
memory_is_short(const struct blas *blas)
{
    void *trial = blas->guarded ? malloc(64 << 10) : NULL;
    free(trial);
    return blas->guarded && trial == NULL;
}

/* The variables are read while the libraries are loaded: set later they would not keep threads from being started. */
static void
open_libraries(struct blas *blas)
{
    *blas = (struct blas){ 0 };
    pthread_mutex_init(&blas->buffers.mutex, NULL);
    pthread_cond_init(&blas->buffers.freed, NULL);
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    open_openblas(blas);
    open_onednn(blas);
    if (blas->sgemm != NULL)
        take_buffers(blas);
}

/* What a library allocates at its first product. */
static void
warm(const struct blas *blas)
{
    enum { SIDE = 64 };
    static const float ones[SIDE * SIDE];
    float              out[SIDE * SIDE];
    if (blas->sgemm != NULL)
        blas->sgemm(BLAS_ROW_MAJOR, BLAS_TRANSPOSED, BLAS_PLAIN, SIDE, SIDE, SIDE, 1, ones, SIDE, ones, SIDE, 0, out,
                    SIDE);
    if (blas->dnnl != NULL)
        blas->dnnl('N', 'N', SIDE, SIDE, SIDE, 1, ones, SIDE, ones, SIDE, 0, out, SIDE);
}

static bool
open_and_warm(struct blas *blas)
{
    open_libraries(blas);
    warm(blas);
    return blas->sgemm != NULL || blas->dnnl != NULL;
}

bool
blas_open(struct blas *blas)
{
    bool guarded = memory_is_guarded(), fits = address_space_fits(LIBRARY_BYTES + (size_t)BUFFER_BYTES);
    *blas = (struct blas){ 0 };
    if (!fits || (guarded && !child_survives(open_and_warm, blas))) {
        blas->refused = "memory is short for OpenBLAS and oneDNN: products are exact, and slower";
        return false;
    }
    if (guarded)
        run_silent(open_and_warm, blas);
    else
        open_libraries(blas);
    blas->guarded = guarded;
    return blas->sgemm != NULL || blas->dnnl != NULL;
}

void
blas_describe(const struct blas *blas, char *out, size_t size)
{
    bool both = blas->openblas[0] != '\0' && blas->onednn[0] != '\0';
    snprintf(out, size, "%s%s%s", blas->openblas, both ? ", " : "", blas->onednn);
    if (blas->openblas[0] == '\0' && blas->onednn[0] == '\0')
        snprintf(out, size, "none");
}

/* ---- products ---- */

/* One of the two dimensions lies in one piece; `step` is the distance of the other's. */
struct layout { bool transposed; int64_t step; };

static bool
matrix_layout(const struct cpu_view *matrix, struct layout *layout)
{
    int64_t rows = matrix->size[0], columns = matrix->size[1];
    bool    by_row    = (matrix->stride[1] == 1 || columns == 1) && (rows == 1 || matrix->stride[0] >= columns);
    bool    by_column = (matrix->stride[0] == 1 || rows == 1) && (columns == 1 || matrix->stride[1] >= rows);
    if (by_row)
        *layout = (struct layout){ false, rows == 1 ? columns : matrix->stride[0] };
    else
        *layout = (struct layout){ true, columns == 1 ? rows : matrix->stride[1] };
    return (by_row || by_column) && layout->step <= INT_MAX;
}

enum { PACKED = 4096, PACKED_AT_ONCE = 128 }; /* elements that are laid out anew at a time */

static bool
small(int64_t size)
{
    return size >= 1 && size <= INT_MAX;
}

/* A library can read it, perhaps piece by piece: an expanded gradient is neither row- nor column-major. */
static bool
readable(const struct cpu_view *matrix, int64_t k)
{
    struct layout layout;
    return matrix_layout(matrix, &layout) || k <= PACKED;
}

bool
blas_takes(const struct blas *blas, const struct cpu_view *a, const struct cpu_view *b, const struct cpu_view *out)
{
    struct layout layout;
    int64_t       k = a->size[1];
    if (a->dtype != b->dtype || a->dtype != out->dtype || !small(a->size[0]) || !small(k) || !small(b->size[1]) ||
        !readable(a, k) || !readable(b, k) || !matrix_layout(out, &layout) || layout.transposed)
        return false;
    return a->dtype == DTYPE_F32 || (a->dtype == DTYPE_F64 && blas->dgemm != NULL);
}

static bool
for_openblas(const struct blas *blas, int64_t m, int64_t n, int64_t k)
{
    if (blas->sgemm == NULL || blas->dnnl == NULL)
        return blas->sgemm != NULL;
    return (m <= 100 && n <= 100 && k <= 100) || (n <= 16 && m <= 64);
}

static bool
multiply(struct blas *blas, const struct cpu_view *a, const struct cpu_view *b, const struct cpu_view *out,
         bool add)
{
    struct layout la, lb, lc;
    int64_t       m = a->size[0], n = b->size[1], k = a->size[1];
    if (!matrix_layout(a, &la) || !matrix_layout(b, &lb) || !matrix_layout(out, &lc))
        return false;
    int ta = la.transposed ? BLAS_TRANSPOSED : BLAS_PLAIN, tb = lb.transposed ? BLAS_TRANSPOSED : BLAS_PLAIN;
    if (memory_is_short(blas))
        return false;
    bool openblas = a->dtype == DTYPE_F64 || for_openblas(blas, m, n, k);
    if (openblas)
        enter_openblas(blas);
    if (a->dtype == DTYPE_F64)
        blas->dgemm(BLAS_ROW_MAJOR, ta, tb, (int)m, (int)n, (int)k, 1, a->data, (int)la.step, b->data, (int)lb.step,
                    add, out->data, (int)lc.step);
    else if (openblas)
        blas->sgemm(BLAS_ROW_MAJOR, ta, tb, (int)m, (int)n, (int)k, 1, a->data, (int)la.step, b->data, (int)lb.step,
                    add, out->data, (int)lc.step);
    else
        return blas->dnnl(la.transposed ? 'T' : 'N', lb.transposed ? 'T' : 'N', m, n, k, 1, a->data, la.step, b->data,
                          lb.step, add, out->data, lc.step) == 0;
    if (openblas)
        leave_openblas(blas);
    return true;
}

/* `count` rows (dim 0) or columns (dim 1) from `first`. */
static struct cpu_view
matrix_part(const struct cpu_view *matrix, int dim, int64_t first, int64_t count)
{
    struct cpu_view part = *matrix;
    part.data      = (char *)part.data + first * part.stride[dim] * (int64_t)dtype_size(part.dtype);
    part.size[dim] = count;
    return part;
}

/* The part in rows, one after the other, in the buffer. */
static struct cpu_view
packed(const struct cpu_view *part, void *buffer)
{
    struct cpu_view rows = { .data = buffer, .dtype = part->dtype, .dims = 2,
                             .size = { part->size[0], part->size[1] }, .stride = { part->size[1], 1 } };
    int64_t element = (int64_t)dtype_size(part->dtype);
    if (part->stride[0] == 0 && part->stride[1] == 0) {
        cpu_convert(buffer, every(part->dtype, 1), part->data, every(part->dtype, 0), part->size[0] * part->size[1]);
        return rows;
    }
    for (int64_t i = 0; i < part->size[0]; i++)
        cpu_convert((char *)buffer + i * part->size[1] * element, every(part->dtype, 1),
                    (char *)part->data + i * part->stride[0] * element, every(part->dtype, part->stride[1]),
                    part->size[1]);
    return rows;
}

/* b's columns in pieces, if it has to be packed. */
static bool
by_columns(struct blas *blas, const struct cpu_view *a, const struct cpu_view *b, const struct cpu_view *out,
           bool add)
{
    double        buffer[PACKED];
    struct layout layout;
    int64_t       n = b->size[1], step = PACKED / b->size[0];
    if (matrix_layout(b, &layout))
        return multiply(blas, a, b, out, add);
    for (int64_t j = 0; j < n; j += step) {
        int64_t         count = n - j < step ? n - j : step;
        struct cpu_view columns = matrix_part(b, 1, j, count), to = matrix_part(out, 1, j, count);
        struct cpu_view rows = packed(&columns, buffer);
        if (!multiply(blas, a, &rows, &to, add))
            return false;
    }
    return true;
}

/* a's rows in pieces, if it has to be packed. */
static bool
by_rows(struct blas *blas, const struct cpu_view *a, const struct cpu_view *b, const struct cpu_view *out,
        bool add)
{
    double        buffer[PACKED];
    struct layout layout;
    int64_t       m = a->size[0], step = PACKED / a->size[1];
    if (matrix_layout(a, &layout))
        return by_columns(blas, a, b, out, add);
    for (int64_t i = 0; i < m; i += step) {
        int64_t         count = m - i < step ? m - i : step;
        struct cpu_view part = matrix_part(a, 0, i, count), to = matrix_part(out, 0, i, count);
        struct cpu_view rows = packed(&part, buffer);
        if (!by_columns(blas, &rows, b, &to, add))
            return false;
    }
    return true;
}

/* What is small is laid out anew as a whole, on a small piece of the stack. */
static bool
at_once(struct blas *blas, const struct cpu_view *a, const struct cpu_view *b, const struct cpu_view *out,
        bool add)
{
    double          a_buffer[PACKED_AT_ONCE], b_buffer[PACKED_AT_ONCE];
    struct layout   layout;
    struct cpu_view rows[2];
    if (!matrix_layout(a, &layout))
        rows[0] = packed(a, a_buffer), a = &rows[0];
    if (!matrix_layout(b, &layout))
        rows[1] = packed(b, b_buffer), b = &rows[1];
    return multiply(blas, a, b, out, add);
}

static bool
is_few(const struct cpu_view *matrix)
{
    return matrix->size[0] <= PACKED_AT_ONCE && matrix->size[0] * matrix->size[1] <= PACKED_AT_ONCE;
}

static bool
in_pieces(struct blas *blas, const struct cpu_view *a, const struct cpu_view *b, const struct cpu_view *out,
          bool add)
{
    return (is_few(a) && is_few(b) ? at_once : by_rows)(blas, a, b, out, add);
}

/* The rows of an expanded gradient are all one, and so are those of its products. */
static bool
row_and_copies(struct blas *blas, const struct cpu_view *a, const struct cpu_view *b, const struct cpu_view *out)
{
    struct cpu_view row = matrix_part(a, 0, 0, 1), first = matrix_part(out, 0, 0, 1);
    if (!in_pieces(blas, &row, b, &first, false))
        return false;
    repeat_row(out->data, (size_t)out->size[1] * dtype_size(out->dtype), out->size[0]);
    return true;
}

bool
blas_mm(struct blas *blas, const struct cpu_view *a, const struct cpu_view *b, const struct cpu_view *out,
        bool add)
{
    struct layout la, lb;
    if (!blas_takes(blas, a, b, out))
        return false;
    if (matrix_layout(a, &la) && matrix_layout(b, &lb))
        return multiply(blas, a, b, out, add);
    if (a->stride[0] == 0 && a->size[0] > 1 && !add && out->stride[0] == out->size[1])
        return row_and_copies(blas, a, b, out);
    return in_pieces(blas, a, b, out, add);
}
