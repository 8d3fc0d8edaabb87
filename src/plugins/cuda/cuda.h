/* What the files of the CUDA plug-in share. C against CUDA's runtime, which is linked statically; cuBLAS, CUPTI and NCCL
 * are opened when they are first needed. The tests link the same files against a runtime of their own (tests/cuda/fake). */
#ifndef CUDA_CUDA_H
#define CUDA_CUDA_H
#include <cuda_runtime_api.h>
#include "device/backend.h"
#include "tensor/cpu/kernels.h"

struct products; struct timed; struct journal;

/* The architectures that the kernels have code for, as the Makefile chose them. */
#ifndef CUDA_BUILT_FOR
#define CUDA_BUILT_FOR "other architectures"
#endif

struct backend_device {
    int                 number, physical;      /* device:N, the GPU it lies on */
    struct backend_host host;
    uint64_t            memory;
    int                 processors;            /* multiprocessors */
};

struct backend_stream {
    struct backend_device *device;
    cudaStream_t           stream;
    struct products       *products;           /* products.c: handle and workspace; NULL until the first product */
    struct timed          *timed;              /* timeline.c's; NULL: nobody asked for a timeline */
    struct journal        *journal;            /* what was queued; NULL: no memory for it */
};

/* `journal`, `upto`: what its stream is past when the event is. */
struct backend_mark { struct backend_device *device; cudaEvent_t event; bool is_put; struct journal *journal; uint64_t upto; };

/* ---- trouble.c ---- */
/* false: `why` says what CUDA's error means for who called, and what to do; `what` is what was tried: "copying". */
bool cuda_done(cudaError_t error, const char *what, struct backend_why *why);
bool cuda_is_broken(struct backend_why *why);  /* a sticky error was met before: `why` says it again */
/* This thread's calls are for the GPU of that device. Whoever lets another library change the thread's GPU puts it back. */
bool cuda_enter(const struct backend_device *device, struct backend_why *why);
bool cuda_no_memory(const struct backend_device *device, size_t bytes, const char *what, struct backend_why *why); /* false */
bool cuda_absent(cudaError_t error, struct backend_why *why);  /* false: why no GPU can be used at all */

/* ---- journal.c: what was queued and is not known to be done ---- */
struct journal *journal_new(const struct backend_device *device);
struct journal *journal_keep(struct journal *journal);
void     journal_drop(struct journal *journal);
void     journal_add(struct journal *journal, const char *what, uint64_t ticket);
uint64_t journal_mark(const struct journal *journal);
void     journal_reached(struct journal *journal, uint64_t mark);
void     journal_oldest(char *text, size_t room);

/* ---- memory.c, stream.c: the table's functions of the same names ---- */
void *cuda_segment(struct backend_device *device, size_t bytes, struct backend_why *why);
void  cuda_segment_give(struct backend_device *device, void *segment, size_t bytes);
void *cuda_pinned(size_t bytes, struct backend_why *why);
void  cuda_pinned_give(void *memory, size_t bytes);
struct backend_stream *cuda_stream(struct backend_device *device, bool urgent, struct backend_why *why);
void  cuda_stream_close(struct backend_stream *stream);
bool  cuda_copy(struct backend_stream *stream, const struct backend_copy *copy, uint64_t ticket, struct backend_why *why);
bool  cuda_set(struct backend_stream *stream, void *to, int value, size_t bytes, struct backend_why *why);
struct backend_mark *cuda_mark(struct backend_device *device, struct backend_why *why);
void  cuda_mark_free(struct backend_mark *mark);
bool  cuda_put(struct backend_mark *mark, struct backend_stream *stream, struct backend_why *why);
bool  cuda_wait(struct backend_stream *stream, struct backend_mark *mark, struct backend_why *why);
int   cuda_is_past(struct backend_mark *mark, struct backend_why *why);
bool  cuda_finish(struct backend_stream *stream, struct backend_why *why);

/* ---- probe.c ---- */
void cuda_probe(struct backend_probe *probe);
bool cuda_is_here(struct backend_why *why);     /* at least one GPU can be used; asked once, kept */
int  cuda_physical_count(void);                 /* after cuda_is_here */

/* ---- launch.c ---- */
bool   cuda_launch(struct backend_stream *stream, int kernel, const void *params, size_t bytes, uint64_t ticket,
                   struct backend_why *why);
/* The rows of one kernel without what cuda_launch does around them: a part of another operation. */
bool   cuda_launch_rows(struct backend_stream *stream, enum kernel kernel, const void *params, size_t bytes,
                        uint64_t ticket, struct backend_why *why);
bool   cuda_has(int kernel, const void *params);
size_t cuda_room(int kernel, const void *params);

/* ---- products.c: cuBLAS, opened at the first product ---- */
enum product_answer { PRODUCT_DONE, PRODUCT_NOT_MINE, PRODUCT_FAILED };
/* NOT_MINE: a kernel of our own does it: products are exact (no `blas` in the params), a type that cuBLAS has not, no cuBLAS. */
enum product_answer products_launch(struct backend_stream *stream, enum kernel kernel, const void *params,
                                    struct backend_why *why);
void products_close(struct backend_stream *stream);
void products_probe(struct backend_probe *probe);   /* adds its line */

/* ---- timeline.c: when the device did what; cupti.c, pairs.c behind it ---- */
bool   timeline_open(const struct backend_host *host);             /* false: there will be no records */
void   timeline_stream(struct backend_stream *stream);              /* a new one; timeline_stream_close before it goes */
void   timeline_stream_close(struct backend_stream *stream);
void   timeline_before(struct backend_stream *stream, uint64_t ticket);   /* around each operation that is queued */
void   timeline_after(struct backend_stream *stream, uint64_t ticket);
size_t timeline_records(struct backend_record *out, size_t room, uint64_t *lost);
void   timeline_probe(struct backend_probe *probe);
void   timeline_range_begin(const char *name, uint64_t event);
void   timeline_range_end(void);
#endif
