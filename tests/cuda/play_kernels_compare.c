/* The CPU's function and the kernel do the same work on the same memory, the kernel several times: in one block,
 * in three, in many, each with several orders of threads.
 *
 * Interface: compare, lacks. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "play_kernels_internal.h"
#include "fake/emulate.h"
#include "fake/reference.h"
#include "plugins/cuda/kernels/table.h"
#include "tensor/cpu/lstm.h"

enum { BLOCK = 256, MANY_ALONE = 4096, MANY_TOGETHER = 40, SEEDS = 3 };

union params {
    struct cpu_call      call;
    struct update_job    update;
    struct elements_job  elements;
    struct draw_job      draw;
    struct all_reduce_job all_reduce;
    struct lstm_forward  forward;
    struct lstm_backward backward;
};

/* ---- memory before and after ---- */

/* Memory that the params point into: the case may have more, of calls before. Any word that could be a pointer is
 * one. */
static void
look_for_used(struct play *p, const void *params, size_t size)
{
    for (size_t at = 0; at + sizeof(uintptr_t) <= size; at += sizeof(uintptr_t)) {
        uintptr_t word;
        memcpy(&word, (const char *)params + at, sizeof word);
        for (struct storage *s = p->storages; s != NULL; s = s->next)
            s->is_used = s->is_used || (word >= (uintptr_t)s->data && word < (uintptr_t)s->data + s->bytes);
    }
}

static struct storage *
next_used(struct storage *s)
{
    while (s != NULL && !s->is_used)
        s = s->next;
    return s;
}
#define EACH_USED(s, p) struct storage *s = next_used((p)->storages); s != NULL; s = next_used(s->next)

static void
keep_before(struct play *p)
{
    for (EACH_USED(s, p))
        s->before = memcpy(room(s->bytes), s->data, s->bytes);
}

static void
keep_wanted(struct play *p)
{
    for (EACH_USED(s, p))
        s->wanted = memcpy(room(s->bytes), s->data, s->bytes);
}

static void
put_back(struct play *p)
{
    for (EACH_USED(s, p))
        memcpy(s->data, s->before, s->bytes);
}

static void
forget(struct play *p)
{
    for (EACH_USED(s, p)) {
        free(s->before);
        free(s->wanted);
        s->before = s->wanted = NULL;
    }
}

/* ---- the CPU ---- */

static void
run_cpu(enum kernel kernel, const void *params)
{
    union params own;
    if (kernel < KERNEL_OPS) {
        own.call = *(const struct cpu_call *)params;
        for (int i = 0; i < own.call.inputs; i++)
            if (own.call.in[i].data == NULL)
                own.call.in[i].data = &own.call.constant[i];
        cpu_kernel_of(kernel)(&own.call);
    } else if (kernel == KERNEL_update) {
        own.update = *(const struct update_job *)params;
        cpu_update(&own.update);
    } else if (kernel == KERNEL_reduce) {
        reference_elements(params);
    } else if (kernel == KERNEL_all_reduce) {
        reference_all_reduce(params);
    } else if (kernel == KERNEL_draw) {
        own.draw = *(const struct draw_job *)params;
        cpu_draw(&own.draw);
    } else if (kernel == KERNEL_lstm_forward) {
        own.forward = *(const struct lstm_forward *)params;
        cpu_lstm_forward(&own.forward);
    } else {
        own.backward = *(const struct lstm_backward *)params;
        cpu_lstm_backward(&own.backward);
    }
}

/* ---- the GPU ---- */

struct run { enum kernel kernel; unsigned blocks; uint64_t seed; };

static void
say(struct play *p, const struct run *run, const char *what)
{
    char text[600];
    snprintf(text, sizeof text, "%s in %u blocks, order %" PRIu64 ": %s", kernel_name(run->kernel), run->blocks,
             run->seed, what);
    if (p->expect_wrong) {
        p->found++;
        snprintf(p->said, sizeof p->said, "%.*s", (int)sizeof p->said - 1, text);
    } else {
        play_wrong(p, "%s", text);
    }
}

static void
element_text(enum dtype dtype, const void *element, char *text, size_t size)
{
    if (dtype_is_float(dtype))
        snprintf(text, size, "%.17g (%a)", dtype_fraction(dtype, element), dtype_fraction(dtype, element));
    else
        snprintf(text, size, "%" PRId64, dtype_whole(dtype, element));
}

/* Which of the case's pieces of memory, in the order in which it made them. */
static int
number_of(const struct play *p, const struct storage *s)
{
    int number = -1;
    for (; s != NULL; s = s->next)
        number++;
    (void)p;
    return number;
}

static bool
elements_hold(struct play *p, const struct run *run, const struct storage *s)
{
    size_t element = dtype_size(s->dtype);
    char   is[80], wanted[80], before[80], text[500];
    if (memcmp(s->data, s->wanted, s->bytes) == 0)
        return true;
    for (size_t i = 0; i + element <= s->bytes; i += element) {
        if (same_element(s->dtype, s->data + i, s->wanted + i))
            continue;
        element_text(s->dtype, s->data + i, is, sizeof is);
        element_text(s->dtype, s->wanted + i, wanted, sizeof wanted);
        element_text(s->dtype, s->before + i, before, sizeof before);
        snprintf(text, sizeof text, "element %zu of %zu of the case's memory %d (%s) is %s, of the CPU %s; it was %s",
                 i / element, s->bytes / element, number_of(p, s), dtype_name(s->dtype), is, wanted, before);
        say(p, run, text);
        return false;
    }
    return true;
}

/* false: a fault was raised that the CPU did not raise, or not; outputs mean nothing then. */
static bool
fault_holds(struct play *p, const struct run *run, const struct storage *s, bool *raised)
{
    const struct kernel_fault *is = (const void *)s->data, *wanted = (const void *)s->wanted;
    char                       text[200];
    *raised = wanted->raised != 0;
    if ((is->raised != 0) == *raised && (!*raised || is->limit == wanted->limit))
        return true;
    snprintf(text, sizeof text,
             "a fault %s (index %" PRId64 " of %" PRId64 "), of the CPU %s (index %" PRId64 " of %" PRId64 ")",
             is->raised ? "was raised" : "was not raised", is->index, is->limit, *raised ? "it was" : "it was not",
             wanted->index, wanted->limit);
    say(p, run, text);
    return false;
}

static bool
result_holds(struct play *p, const struct run *run)
{
    bool raised = false, holds = true;
    for (EACH_USED(s, p))
        if (s->use == USE_FAULT && !fault_holds(p, run, s, &raised))
            return false;
    for (EACH_USED(s, p)) {
        if (!storage_rim_holds(s)) {
            say(p, run, "bytes beside the case's memory were written");
            return false;
        }
        if (s->use == USE_ELEMENTS && !raised)
            holds = holds && elements_hold(p, run, s);
    }
    return holds;
}

static const struct gpu_kernel *
first_row(const struct play *p, enum kernel kernel)
{
    return p->instead != NULL ? p->instead : gpu_kernel_first(kernel);
}

static bool
is_together(const struct play *p, enum kernel kernel)
{
    for (const struct gpu_kernel *row = first_row(p, kernel); row != NULL; row = gpu_kernel_next(row))
        if (row->threads == TOGETHER)
            return true;
    return false;
}

struct turn { struct play *p; const struct run *run; const void *params; bool holds; };

static void *
run_rows(void *context)
{
    struct turn      *turn = context;
    const struct run *run  = turn->run;
    char              why[400];
    for (const struct gpu_kernel *row = first_row(turn->p, run->kernel); row != NULL; row = gpu_kernel_next(row))
        if (!emulate(row, turn->params, run->blocks, run->seed, why, sizeof why)) {
            say(turn->p, run, why);
            return NULL;
        }
    turn->holds = result_holds(turn->p, run);
    return NULL;
}

/* What is SHARED is a thread's: a fresh one has nothing there. What the run before left would hide a missing
 * barrier. */
static bool
run_afresh(struct play *p, const struct run *run, const void *params)
{
    struct turn turn = { p, run, params, false };
    pthread_t   thread;
    if (!is_together(p, run->kernel))
        run_rows(&turn);
    else if (pthread_create(&thread, NULL, run_rows, &turn) != 0 || pthread_join(thread, NULL) != 0)
        play_wrong(p, "no thread");
    return turn.holds;
}

/* As many blocks as a launch would have at most: for the largest piece of memory. */
static unsigned
many_blocks(struct play *p, enum kernel kernel)
{
    size_t   most  = 0;
    unsigned limit = is_together(p, kernel) ? MANY_TOGETHER : MANY_ALONE;
    for (EACH_USED(s, p))
        if (s->use == USE_ELEMENTS && s->bytes / dtype_size(s->dtype) > most)
            most = s->bytes / dtype_size(s->dtype);
    size_t blocks = most / BLOCK + 1;
    return blocks < limit ? (unsigned)blocks : limit;
}

static void
run_gpu(struct play *p, enum kernel kernel, const void *params)
{
    const unsigned grids[] = { 1, 3, many_blocks(p, kernel) };
    for (size_t g = 0; g < sizeof grids / sizeof *grids; g++)
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            struct run run = { kernel, grids[g], seed };
            put_back(p);
            if (!run_afresh(p, &run, params) && !p->expect_wrong)
                return;
        }
}

/* The workspace that the kernel wants instead, if its family says so; zeroed by nobody. */
static void
give_workspace(struct play *p, enum kernel kernel, union params *own)
{
    size_t wanted = kernel < KERNEL_OPS ? gpu_room(kernel, own) : 0, has = 0;
    for (struct storage *s = p->storages; s != NULL; s = s->next)
        if (s->data == own->call.workspace)
            has = s->bytes;
    if (wanted > has)
        own->call.workspace = workspace_new(p, wanted);
}

static size_t
params_size(enum kernel kernel)
{
    return kernel < KERNEL_OPS                ? sizeof(struct cpu_call)
           : kernel == KERNEL_update          ? sizeof(struct update_job)
           : kernel == KERNEL_reduce          ? sizeof(struct elements_job)
           : kernel == KERNEL_lstm_forward    ? sizeof(struct lstm_forward)
           : kernel == KERNEL_draw            ? sizeof(struct draw_job)
           : kernel == KERNEL_all_reduce      ? sizeof(struct all_reduce_job)
                                              : sizeof(struct lstm_backward);
}

void
compare(struct play *p, enum kernel kernel, const void *params)
{
    union params own;
    memcpy(&own, params, params_size(kernel));
    p->compared++;
    p->seen[kernel] += p->instead == NULL;
    if (first_row(p, kernel) == NULL || (p->instead == NULL && !gpu_has(kernel, params))) {
        play_wrong(p, "%s: no kernel for these types", kernel_name(kernel));
        return;
    }
    give_workspace(p, kernel, &own);
    for (struct storage *s = p->storages; s != NULL; s = s->next)
        s->is_used = false;
    look_for_used(p, params, params_size(kernel));
    look_for_used(p, &own, params_size(kernel));          /* its workspace may be another */
    keep_before(p);
    run_cpu(kernel, params);
    keep_wanted(p);
    run_gpu(p, kernel, &own);
    put_back(p);
    forget(p);
}

void
lacks(struct play *p, enum kernel kernel, const void *params)
{
    p->compared++;
    if (gpu_kernel_first(kernel) != NULL && gpu_has(kernel, params))
        play_wrong(p, "%s: `has` says that there is a kernel for these types", kernel_name(kernel));
}
