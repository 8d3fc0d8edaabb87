/* play_cublas PLUGIN: plays products that need not be exact through the table of a kind of device, and prints TAP. With
 * the fake runtime (fake_cuda.so) cuBLAS is one whose sums go backwards, so that bits tell who multiplied; with a real
 * GPU it is NVIDIA's. Without a GPU there is nothing to play.
 *
 *     play_cublas PLUGIN PART      one part, in this process: variables and errors are a process's
 *
 * Order of use: main; play_once for each part; in the child part_run, which opens the rig. */
#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "device/backend.h"
#include "tensor/cpu/kernels.h"

enum { STREAMS = 4, ROOM = 4 << 20, PIECES = 8, PIECE = ROOM / PIECES };

/* One device; memory in pieces of PIECE bytes on it and, the same, on the host. */
struct rig {
    const struct device_backend *cuda;
    struct backend_device       *device;
    struct backend_stream       *stream[STREAMS];
    char                        *there, *here;
    struct backend_why           why;
    bool                         is_fake;
    int                          wrongs;
    uint64_t                     random;
};

static bool
that(struct rig *rig, bool holds, const char *format, ...)
{
    va_list args;
    if (holds || rig->wrongs++ >= 10)
        return holds;
    va_start(args, format);
    printf("# ");
    vprintf(format, args);
    printf("\n");
    va_end(args);
    return false;
}

static bool
done(struct rig *rig, bool well, const char *what)
{
    return that(rig, well, "%s: %s", what, rig->why.text);
}

/* ---- operands ---- */

/* [-1, 1), in steps that add up without rounding only by luck. */
static double
draw(struct rig *rig)
{
    rig->random = rig->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(rig->random >> 20) / (double)(1ll << 43) - 1;
}

static double
value_at(const struct rig *rig, const struct cpu_view *view, int64_t at)
{
    const char *bytes = rig->here + ((char *)view->data - rig->there);
    if (view->dtype == DTYPE_F32)
        return ((const float *)(const void *)bytes)[at];
    return view->dtype == DTYPE_F64 ? ((const double *)(const void *)bytes)[at]
                                    : (double)((const int64_t *)(const void *)bytes)[at];
}

static void
fill_piece(struct rig *rig, int piece, enum dtype dtype)
{
    char *bytes = rig->here + (size_t)piece * PIECE;
    for (size_t i = 0; i < PIECE / dtype_size(dtype); i++) {
        double value = draw(rig);
        if (dtype == DTYPE_F32)
            ((float *)(void *)bytes)[i] = (float)value;
        else if (dtype == DTYPE_F64)
            ((double *)(void *)bytes)[i] = value;
        else
            ((int64_t *)(void *)bytes)[i] = (int64_t)(value * 1000);
    }
}

enum lie { BY_ROW, BY_COLUMN, APART, STRETCHED, LIES };      /* STRETCHED: all rows are one */

static struct cpu_view
view_of(const struct rig *rig, int piece, enum dtype dtype, const int64_t *sizes, int dims, enum lie lie)
{
    struct cpu_view view = { .data = rig->there + (size_t)piece * PIECE, .dtype = dtype, .dims = dims };
    int64_t         beyond = lie == APART ? 3 : 0, step = 1;
    for (int turn = 0; turn < dims; turn++) {
        int d = lie == BY_COLUMN && turn < 2 && dims >= 2 ? dims - 2 + turn : dims - 1 - turn;
        view.size[d]   = sizes[d];
        view.stride[d] = lie == STRETCHED && d == dims - 2 ? 0 : step;
        step = step * sizes[d] + beyond;
    }
    return view;
}

static bool
move(struct rig *rig, int stream, int piece, bool back)
{
    char               *there = rig->there + (size_t)piece * PIECE, *here = rig->here + (size_t)piece * PIECE;
    struct backend_copy copy = { back ? here : there, back ? there : here, PIECE, back ? -1 : 0, back ? 0 : -1 };
    return done(rig, rig->cuda->copy(rig->stream[stream], &copy, 0, &rig->why), "copying");
}

static bool
finish(struct rig *rig, int stream)
{
    return done(rig, rig->cuda->finish(rig->stream[stream], &rig->why), "finishing");
}

/* ---- what is right ---- */

static const struct { enum kernel kernel; const char *name; } kernels[] = {
    { KERNEL_cpu_mm, "mm" },           { KERNEL_cpu_mm_add, "mm_add" },     { KERNEL_cpu_addmm, "addmm" },
    { KERNEL_product_bmm, "bmm" },     { KERNEL_product_vector, "mv" },     { KERNEL_product_vector, "dot" },
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

enum { LEFT, RIGHT, OUT, BIAS, BEFORE };                     /* pieces */

/* A product and what the host makes of it: of element (b, i, j) the sum in double, or exactly: upwards, in the type. */
struct case_of {
    const char     *name;
    enum kernel     kernel;
    enum dtype      dtype;
    int64_t         count, m, k, n;
    enum lie        left, right;
    struct cpu_call call;
};

static int64_t
element_of(const struct cpu_view *view, int64_t b, int64_t i, int64_t j, bool is_row)
{
    if (view->dims == 3)
        return b * view->stride[0] + i * view->stride[1] + j * view->stride[2];
    if (view->dims == 2)
        return i * view->stride[0] + j * view->stride[1];
    return view->dims == 1 ? (is_row ? j : i) * view->stride[0] : 0;
}

/* What the sum begins at. */
static double
begin_of(const struct rig *rig, const struct case_of *c, const int64_t *at)
{
    struct cpu_view before = c->call.out;
    before.data = rig->there + (size_t)BEFORE * PIECE;
    return c->kernel == KERNEL_cpu_mm_add ? value_at(rig, &before, element_of(&before, at[0], at[1], at[2], false)) : 0;
}

/* `most`: what the terms' sizes add up to, which errors are in proportion to. */
static double
sum_of(const struct rig *rig, const struct case_of *c, const int64_t *at, double *most)
{
    const struct cpu_view *in = c->call.in + (c->kernel == KERNEL_cpu_addmm);
    double                 sum = begin_of(rig, c, at);
    *most = fabs(sum);
    for (int64_t k = 0; k < c->k; k++) {
        double x = value_at(rig, &in[0], element_of(&in[0], at[0], at[1], k, true));
        double y = value_at(rig, &in[1], element_of(&in[1], at[0], k, at[2], false)), term = x * y;
        sum = c->dtype == DTYPE_F32 ? (double)((float)sum + (float)term) : sum + term;
        *most += fabs(term);
    }
    return sum;
}

/* What is added last. */
static double
bias_of(const struct rig *rig, const struct case_of *c, const int64_t *at)
{
    if (c->kernel != KERNEL_cpu_addmm)
        return 0;
    return value_at(rig, &c->call.in[0], element_of(&c->call.in[0], 0, at[1], at[2], true));
}

/* How many elements differ from the exact bits; -1: one is not even near. */
static int64_t
differing(struct rig *rig, const struct case_of *c)
{
    const double step = c->dtype == DTYPE_F32 ? 6e-8 : 1.2e-16;
    int64_t      differ = 0, at[3];
    for (at[0] = 0; at[0] < c->count; at[0]++) {
        for (at[1] = 0; at[1] < c->m; at[1]++) {
            for (at[2] = 0; at[2] < c->n; at[2]++) {
                double most, sum = sum_of(rig, c, at, &most), bias = bias_of(rig, c, at), want = sum + bias;
                double got = value_at(rig, &c->call.out, element_of(&c->call.out, at[0], at[1], at[2], false));
                want = c->dtype == DTYPE_F32 ? (float)want : want;
                differ += got != want;
                if (!that(rig, fabs(got - want) <= step * (double)(c->k + 2) * (most + fabs(bias)),
                          "%s of %lld x %lld x %lld, lying %d, %d: %.17g at %lld, %lld of %lld, expected %.17g",
                          c->name, (long long)c->m, (long long)c->k, (long long)c->n, (int)c->left,
                          (int)c->right, got, (long long)at[1], (long long)at[2], (long long)at[0], want))
                    return -1;
            }
        }
    }
    return differ;
}

/* ---- cases ---- */

static void
case_views(struct rig *rig, struct case_of *c)
{
    const bool    is_vector = c->kernel == KERNEL_product_vector, is_batch = c->kernel == KERNEL_product_bmm;
    const bool    is_dot = is_vector && c->m == 1;
    const int     first = c->kernel == KERNEL_cpu_addmm;
    const int64_t left[] = { c->count, c->m, c->k }, right[] = { c->count, c->k, c->n };
    const int64_t out[] = { c->count, c->m, c->n };
    c->call = (struct cpu_call){ .inputs = 2 + first, .alpha = 1, .compute = c->dtype, .common = c->dtype };
    c->call.in[first] = is_dot ? view_of(rig, LEFT, c->dtype, left + 2, 1, c->left)
                               : view_of(rig, LEFT, c->dtype, left + !is_batch, 2 + is_batch, c->left);
    c->call.in[first + 1] = is_vector ? view_of(rig, RIGHT, c->dtype, right + 1, 1, c->right)
                                      : view_of(rig, RIGHT, c->dtype, right + !is_batch, 2 + is_batch, c->right);
    c->call.out = is_vector ? view_of(rig, OUT, c->dtype, out + 1, is_dot ? 0 : 1, BY_ROW)
                            : view_of(rig, OUT, c->dtype, out + !is_batch, 2 + is_batch, BY_ROW);
    if (first == 1)
        c->call.in[0] = view_of(rig, BIAS, c->dtype, out + 1, 2, STRETCHED);
}

/* `exact`: in a run that wants exact products. */
static bool
case_queue(struct rig *rig, struct case_of *c, bool exact, int stream)
{
    static char anything;
    case_views(rig, c);
    c->call.blas = exact ? NULL : (struct blas *)(void *)&anything;
    fill_piece(rig, LEFT, c->dtype);
    fill_piece(rig, RIGHT, c->dtype);
    fill_piece(rig, BIAS, c->dtype);
    fill_piece(rig, BEFORE, c->dtype);
    memcpy(rig->here + (size_t)OUT * PIECE, rig->here + (size_t)BEFORE * PIECE, PIECE);
    for (int piece = LEFT; piece <= BIAS; piece++)
        if (!move(rig, stream, piece, false))
            return false;
    return rig->cuda->launch(rig->stream[stream], (int)c->kernel, &c->call, sizeof c->call, 0, &rig->why);
}

/* As `differing`; -2: it was not done. */
static int64_t
case_play(struct rig *rig, struct case_of *c, bool exact)
{
    if (!done(rig, case_queue(rig, c, exact, 0), "a product") || !move(rig, 0, OUT, true) || !finish(rig, 0))
        return -2;
    return differing(rig, c);
}

static struct case_of
case_of(int kernel, enum dtype dtype, enum lie left, enum lie right)
{
    static const int64_t sizes[][3] = { { 33, 31, 17 }, { 1, 64, 5 }, { 3, 2, 1 }, { 64, 300, 48 } };
    const int64_t       *size = sizes[((int)left * LIES + (int)right + kernel) % 4];
    struct case_of       c = { kernels[kernel].name, kernels[kernel].kernel, dtype, 1, size[0], size[1], size[2], left,
                               right, { .inputs = 0 } };
    if (c.kernel == KERNEL_product_bmm)
        c.count = 3;
    if (c.kernel == KERNEL_product_vector)
        c.n = 1, c.m = kernel == KERNELS - 1 ? 1 : c.m;
    return c;
}

/* ---- parts ---- */

/* What cuBLAS can read: rows or columns in one piece, those with gaps behind each. APART has gaps between rows only. */
static void
part_near(struct rig *rig)
{
    int64_t differ = 0;
    for (int kernel = 0; kernel < KERNELS; kernel++) {
        for (int lies = 0; lies < APART * APART * 2; lies++) {
            enum dtype     dtype = lies % 2 ? DTYPE_F64 : DTYPE_F32;
            struct case_of c = case_of(kernel, dtype, (enum lie)(lies / 2 % APART), (enum lie)(lies / 2 / APART));
            int64_t        here = case_play(rig, &c, false);
            differ += here > 0;
        }
    }
    that(rig, !rig->is_fake || differ > KERNELS * APART, "only %lld products were cuBLAS's", (long long)differ);
}

static void
play_exact(struct rig *rig, bool exact, enum lie left, enum dtype dtype)
{
    for (int kernel = 0; kernel < KERNELS; kernel++) {
        struct case_of c = case_of(kernel, dtype, left, BY_ROW);
        if (dtype == DTYPE_I64 && c.kernel == KERNEL_cpu_mm_add)
            continue;
        int64_t differ = case_play(rig, &c, exact);
        that(rig, differ == 0, "%s: %lld elements have other bits than the sum in order", c.name,
             (long long)differ);
    }
}

static void
part_exact(struct rig *rig)
{
    for (enum lie left = BY_ROW; left < LIES; left++) {
        play_exact(rig, true, left, DTYPE_F32);
        play_exact(rig, true, left, DTYPE_F64);
    }
}

static void
part_not_its(struct rig *rig)
{
    struct case_of nothing = { "mm", KERNEL_cpu_mm, DTYPE_F32, 1, 5, 0, 7, BY_ROW, BY_ROW, { .inputs = 0 } };
    struct case_of rows = { "mm", KERNEL_cpu_mm, DTYPE_F32, 1, 20, 300, 7, STRETCHED, BY_ROW, { .inputs = 0 } };
    play_exact(rig, false, BY_ROW, DTYPE_I64);
    that(rig, case_play(rig, &nothing, false) == 0, "of nothing comes something else than 0");
    that(rig, case_play(rig, &rows, false) == 0, "rows that are one were not multiplied by our own kernel");
}

static void
part_missing(struct rig *rig)
{
    struct backend_probe probe;
    bool                 said = false;
    rig->cuda->probe(&probe);
    for (int i = 0; i < probe.part_count; i++)
        said = said || strcmp(probe.parts[i], "products: our own kernels; faster with cuBLAS (libcublas.so.13)") == 0;
    that(rig, said, "the probe does not say that cuBLAS is missing");
    play_exact(rig, false, BY_ROW, DTYPE_F32);
    play_exact(rig, false, BY_COLUMN, DTYPE_F64);
}

/* One product of 1 + 2^-12, of which TF32 keeps 1. */
static void
play_precision(struct rig *rig, double expected)
{
    struct case_of c = { "mm", KERNEL_cpu_mm, DTYPE_F32, 1, 64, 64, 64, BY_ROW, BY_ROW, { .inputs = 0 } };
    if (!done(rig, case_queue(rig, &c, false, 0), "a product"))
        return;
    for (int64_t i = 0; i < 64 * 64; i++) {
        ((float *)(void *)(rig->here + (size_t)LEFT * PIECE))[i]  = 1 + 1 / 4096.0f;
        ((float *)(void *)(rig->here + (size_t)RIGHT * PIECE))[i] = i / 64 == i % 64;
    }
    if (!move(rig, 0, LEFT, false) || !move(rig, 0, RIGHT, false) ||
        !done(rig, rig->cuda->launch(rig->stream[0], KERNEL_cpu_mm, &c.call, sizeof c.call, 0, &rig->why), "again") ||
        !move(rig, 0, OUT, true) || !finish(rig, 0))
        return;
    for (int64_t i = 0; i < 64 * 64; i++)
        if (!that(rig, value_at(rig, &c.call.out, i) == expected, "%.9g times 1 is %.9g", 1 + 1 / 4096.0,
                  value_at(rig, &c.call.out, i)))
            return;
}

static void
part_full(struct rig *rig)
{
    play_precision(rig, 1 + 1 / 4096.0);
}

static void
part_tf32(struct rig *rig)
{
    play_precision(rig, 1);
}

/* All streams multiply the same operands at once, into results of their own. */
static void
part_streams(struct rig *rig)
{
    struct case_of c = { "mm", KERNEL_cpu_mm, DTYPE_F32, 1, 96, 700, 96, BY_ROW, BY_ROW, { .inputs = 0 } };
    if (!done(rig, case_queue(rig, &c, false, 0), "a product") || !finish(rig, 0))
        return;
    for (int round = 0; round < 3; round++) {
        for (int s = 0; s < STREAMS; s++) {
            c.call.out.data = rig->there + (size_t)(PIECES - STREAMS + s) * PIECE;
            bool queued = rig->cuda->launch(rig->stream[s], KERNEL_cpu_mm, &c.call, sizeof c.call, 0, &rig->why);
            if (!done(rig, queued, "again"))
                return;
        }
    }
    for (int s = 0; s < STREAMS; s++)
        if (!move(rig, s, PIECES - STREAMS + s, true) || !finish(rig, s))
            return;
    const char *first = rig->here + (size_t)(PIECES - STREAMS) * PIECE;
    for (int s = 1; s < STREAMS; s++)
        that(rig, memcmp(first, first + (size_t)s * PIECE, 96 * 96 * sizeof(float)) == 0,
             "stream %d has other bits than the first", s);
}

static void
says(struct rig *rig, enum backend_trouble trouble, const char *words)
{
    struct case_of c = case_of(0, DTYPE_F32, BY_ROW, BY_ROW);
    that(rig, !case_queue(rig, &c, false, 0), "the product was done");
    that(rig, rig->why.trouble == trouble && strstr(rig->why.text, words) != NULL,
         "trouble %d, \"%s\"; expected %d with \"%s\"", (int)rig->why.trouble, rig->why.text, (int)trouble, words);
    play_exact(rig, true, BY_ROW, DTYPE_F32);
}

static void
part_broken(struct rig *rig)
{
    says(rig, TROUBLE_MISSING, "does not open");
}

static void
part_too_new(struct rig *rig)
{
    says(rig, TROUBLE_FAILED, "newer than the driver");
}

static void
part_no_memory(struct rig *rig)
{
    says(rig, TROUBLE_MEMORY, "no memory left");
}

static void
part_failing(struct rig *rig)
{
    says(rig, TROUBLE_FAILED,
         "cuBLAS failed when multiplying (status 13): its kernel failed; --exact multiplies without it");
}

/* ---- the rig ---- */

static bool
rig_open(struct rig *rig)
{
    static const struct backend_host host = { NULL, NULL, false };
    const struct device_backend     *cuda = rig->cuda;
    rig->device = cuda->open(0, &host, &rig->why);
    if (!done(rig, rig->device != NULL, "opening"))
        return false;
    for (int s = 0; s < STREAMS; s++) {
        rig->stream[s] = cuda->stream(rig->device, s % 2 == 1, &rig->why);
        if (!done(rig, rig->stream[s] != NULL, "a stream"))
            return false;
    }
    rig->there = cuda->segment(rig->device, ROOM, &rig->why);
    rig->here  = rig->there != NULL ? cuda->pinned(ROOM, &rig->why) : NULL;
    return done(rig, rig->here != NULL, "memory");
}

static void
rig_close(struct rig *rig)
{
    for (int s = 0; s < STREAMS; s++)
        rig->cuda->stream_close(rig->stream[s]);
    rig->cuda->segment_give(rig->device, rig->there, ROOM);
    rig->cuda->pinned_give(rig->here, ROOM);
    rig->cuda->close(rig->device);
}

/* ---- parts as processes ---- */

struct part {
    const char *name;
    void      (*run)(struct rig *rig);
    const char *sentence, *cublas, *tf32;
    bool        fake_only;
    const char *order;              /* of the fake's queues; NULL: as late as may be */
};
static const struct part parts[] = {
    { "near", part_near, "cuBLAS's products are near the exact ones, however operands lie", "", "0", false, NULL },
    { "near", part_near, "so they are when work is done at once", "", "0", true, "order=eager" },
    { "exact", part_exact, "exact runs multiply by our own kernels, sums in order of k", "", "0", false, NULL },
    { "not_its", part_not_its, "what cuBLAS cannot take is ours", "", "0", false, NULL },
    { "full", part_full, "float32 is multiplied in full precision", "", "0", false, NULL },
    { "tf32", part_tf32, "RINGSIDE_TF32=1 lets it be TF32", "", "1", true, NULL },
    { "streams", part_streams, "four streams at once give the same bits, again and again", "", "0", false, NULL },
    { "streams", part_streams, "so they do in another order", "", "0", true, "order=seed:1" },
    { "streams", part_streams, "and in a third", "", "0", true, "order=seed:2" },
    { "missing", part_missing, "without cuBLAS the probe says so, and products are ours", "missing", "0", true, NULL },
    { "broken", part_broken, "a cuBLAS that does not open is told of, exact runs go on", "broken", "0", true, NULL },
    { "too_new", part_too_new, "a cuBLAS that does not start is told of", "create:1", "0", true, NULL },
    { "no_memory", part_no_memory, "a cuBLAS without memory is told of", "create:3", "0", true, NULL },
    { "failing", part_failing, "a product that fails says how to go on", "gemm:13", "0", true, NULL },
};
enum { PARTS = sizeof parts / sizeof *parts };

static const struct device_backend *
plugin_open(const char *path)
{
    void                        *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const struct device_backend *table = library != NULL ? dlsym(library, DEVICE_BACKEND_SYMBOL) : NULL;
    if (table != NULL && table->abi == DEVICE_BACKEND_ABI && table->size == sizeof *table)
        return table;
    printf("Bail out! %s\n", library == NULL ? dlerror() : "the plug-in has no table of this version");
    exit(1);
}

static int
part_run(const char *path, const struct part *part)
{
    struct rig rig = { .cuda = plugin_open(path), .is_fake = strstr(path, "fake") != NULL, .random = 7 };
    if (rig_open(&rig)) {
        part->run(&rig);
        rig_close(&rig);
    }
    return rig.wrongs > 0;
}

static bool
play_once(const char *path, const struct part *part)
{
    int   status = 1;
    pid_t child;
    fflush(stdout);
    child = fork();
    if (child == 0) {
        setenv("RINGSIDE_FAKE_CUBLAS", part->cublas, 1);
        setenv("RINGSIDE_TF32", part->tf32, 1);
        if (part->order != NULL)
            setenv("RINGSIDE_FAKE_CUDA", part->order, 1);
        execl("/proc/self/exe", "play_cublas", path, part->name, (char *)NULL);
        _exit(127);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int
main(int argc, char **argv)
{
    struct backend_probe probe;
    bool                 is_fake = argc > 1 && strstr(argv[1], "fake") != NULL;
    int                  bad = 0;
    if (argc < 2)
        return printf("usage: play_cublas PLUGIN [PART]\n"), 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; argc > 2 && i < PARTS; i++)
        if (strcmp(parts[i].name, argv[2]) == 0)
            return part_run(argv[1], &parts[i]);
    plugin_open(argv[1])->probe(&probe);
    if (probe.count == 0)
        return printf("1..0 # SKIP %s\n", probe.why), 0;
    printf("1..%d\n", PARTS);
    for (int i = 0; i < PARTS; i++) {
        bool plays = is_fake || !parts[i].fake_only, well = !plays || play_once(argv[1], &parts[i]);
        printf("%s %d - %s%s\n", well ? "ok" : "not ok", i + 1, parts[i].sentence,
               plays ? "" : " # SKIP a fault on demand, of the fake alone");
        bad += !well;
    }
    return bad > 0;
}
