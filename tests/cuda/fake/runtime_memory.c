/* Memory of the fake's GPUs, and the host's pinned memory. See fake.h. Only under the lock.
 *
 * Each GPU's memory lies at two places: at the addresses that callers are given nobody can touch it; what is queued
 * reaches it at others, which callers never see. So no operation has to open and close anything, and a host's thread
 * that reads faults whatever others do. Only the work of other libraries' stand-ins runs at the callers' addresses,
 * open meanwhile. */
#include "fake.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGNED = 512, FILL = 0xff };

/* Given out and not yet back, in order of addresses. */
struct piece { char *at; size_t bytes; };
struct pieces { struct piece *piece; size_t count, room; };

struct region { char *base, *reach; size_t used; struct pieces given; };

static struct region regions[FAKE_DEVICES];
static struct pieces pinned;

/* ---- pieces ---- */

/* The last that begins at or before `at`, plus one. */
static size_t
piece_behind(const struct pieces *pieces, const char *at)
{
    size_t low = 0, high = pieces->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pieces->piece[middle].at <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct piece *
piece_around(const struct pieces *pieces, const void *memory, size_t bytes)
{
    const char *at     = memory;
    size_t      behind = piece_behind(pieces, at);
    if (behind == 0)
        return NULL;
    struct piece *piece = &pieces->piece[behind - 1];
    size_t        from  = (size_t)(at - piece->at);
    return from < piece->bytes && bytes <= piece->bytes - from ? piece : NULL;
}

static void
piece_add(struct pieces *pieces, char *at, size_t bytes)
{
    if (pieces->count == pieces->room) {
        pieces->room  = pieces->room > 0 ? 2 * pieces->room : 64;
        pieces->piece = realloc(pieces->piece, pieces->room * sizeof *pieces->piece);
        if (pieces->piece == NULL)
            abort();
    }
    size_t i = piece_behind(pieces, at);
    memmove(pieces->piece + i + 1, pieces->piece + i, (pieces->count - i) * sizeof *pieces->piece);
    pieces->piece[i] = (struct piece){ at, bytes };
    pieces->count++;
}

static void
piece_remove(struct pieces *pieces, struct piece *piece)
{
    size_t i = (size_t)(piece - pieces->piece);
    memmove(piece, piece + 1, (pieces->count - i - 1) * sizeof *piece);
    pieces->count--;
}

/* ---- where memory lies ---- */

static int
region_of(const void *memory)
{
    const char *at = memory;
    for (int device = 0; device < fake.devices; device++)
        if (regions[device].base != NULL && at >= regions[device].base && at < regions[device].base + fake.memory)
            return device;
    return -1;
}

int
fake_place(const void *memory, size_t bytes)
{
    int device = region_of(memory);
    if (device >= 0)
        return piece_around(&regions[device].given, memory, bytes) != NULL ? device : PLACE_NOWHERE;
    return piece_around(&pinned, memory, bytes) != NULL ? PLACE_PINNED : PLACE_PAGEABLE;
}

void *
fake_reach(const void *memory)
{
    int device = region_of(memory);
    if (device < 0)
        return (void *)(uintptr_t)memory;
    return regions[device].reach + ((const char *)memory - regions[device].base);
}

static void
protect(int access)
{
    for (int device = 0; device < fake.devices; device++)
        if (regions[device].base != NULL && mprotect(regions[device].base, fake.memory, access) != 0)
            abort();
}

void
fake_open(void)
{
    protect(PROT_READ | PROT_WRITE);
}

/* Pages are forgotten, which keeps what is in them: opening and closing take as long as what was touched between. Not with
 * guard=off: closing takes long where several threads run. */
void
fake_close(void)
{
    if (!fake.guard)
        return;
    for (int device = 0; device < fake.devices; device++)
        if (regions[device].base != NULL)
            (void)madvise(regions[device].base, fake.memory, MADV_DONTNEED);
    protect(PROT_NONE);
}

/* ---- devices ---- */

static size_t
rounded(size_t bytes)
{
    return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* The first hole that is wide enough; NULL: none. */
static char *
hole(const struct region *region, size_t bytes)
{
    char *at = region->base;
    for (size_t i = 0; i < region->given.count; i++) {
        const struct piece *piece = &region->given.piece[i];
        if ((size_t)(piece->at - at) >= bytes)
            return at;
        at = piece->at + rounded(piece->bytes);
    }
    return fake.memory - (size_t)(at - region->base) >= bytes ? at : NULL;
}

/* Pages that nobody has touched take no memory of the machine. */
static bool
region_begin(struct region *region)
{
    if (region->base != NULL)
        return true;
    int file = memfd_create("fake GPU", MFD_CLOEXEC);
    if (file < 0)
        return false;
    bool  sized = ftruncate(file, (off_t)fake.memory) == 0;
    void *base  = sized ? mmap(NULL, fake.memory, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0) : MAP_FAILED;
    void *reach = sized ? mmap(NULL, fake.memory, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0)
                        : MAP_FAILED;
    close(file);
    if (base == MAP_FAILED || reach == MAP_FAILED)
        return false;
    region->base  = base;
    region->reach = reach;
    return true;
}

static cudaError_t
give(void **memory, size_t bytes)
{
    struct region *region = &regions[fake_current()];
    if (bytes == 0) {
        *memory = NULL;
        return cudaSuccess;
    }
    if (fake_strikes(&fake.fail_memory) || bytes > fake.memory || !region_begin(region))
        return cudaErrorMemoryAllocation;
    char *at = hole(region, rounded(bytes));
    if (at == NULL)
        return cudaErrorMemoryAllocation;
    piece_add(&region->given, at, bytes);
    region->used += rounded(bytes);
    memset(fake_reach(at), FILL, rounded(bytes));
    *memory = at;
    return cudaSuccess;
}

cudaError_t
cudaMalloc(void **memory, size_t bytes)
{
    cudaError_t error = fake_enter("cudaMalloc");
    return fake_leave(error != cudaSuccess ? error : give(memory, bytes));
}

/* The real one waits for all that is queued; who relies on it is told, as its memory may be handed on elsewhere. */
static cudaError_t
take_back(void *memory)
{
    int           device = region_of(memory);
    const char   *by     = NULL;
    struct piece *piece  = device >= 0 ? piece_around(&regions[device].given, memory, 0) : NULL;
    if (piece == NULL || piece->at != memory)
        return fake_misuse(cudaErrorInvalidValue, "%p was freed before, or never given out", memory);
    bool is_used = fake_is_used(piece->at, piece->bytes, &by);
    cudaError_t error = fake_run_all(device);
    if (error != cudaSuccess)
        return error;
    piece = piece_around(&regions[device].given, memory, 0);
    memset(fake_reach(piece->at), FILL, rounded(piece->bytes));
    regions[device].used -= rounded(piece->bytes);
    piece_remove(&regions[device].given, piece);
    if (is_used)
        return fake_misuse(cudaErrorInvalidValue, "%p is freed while %s, which is queued, uses it", memory, by);
    return cudaSuccess;
}

cudaError_t
cudaFree(void *memory)
{
    cudaError_t error = fake_enter("cudaFree");
    return fake_leave(error != cudaSuccess || memory == NULL ? error : take_back(memory));
}

cudaError_t
cudaMemGetInfo(size_t *left, size_t *total)
{
    cudaError_t error = fake_enter("cudaMemGetInfo");
    if (error == cudaSuccess) {
        *total = fake.memory;
        *left  = fake.memory - regions[fake_current()].used;
    }
    return fake_leave(error);
}

/* ---- the host's ---- */

static cudaError_t
give_pinned(void **memory, size_t bytes)
{
    if (fake_strikes(&fake.fail_pinned) || bytes == 0 || posix_memalign(memory, 4096, bytes) != 0)
        return cudaErrorMemoryAllocation;
    memset(*memory, FILL, bytes);
    piece_add(&pinned, *memory, bytes);
    return cudaSuccess;
}

cudaError_t
cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    cudaError_t error = fake_enter("cudaHostAlloc");
    if (error == cudaSuccess && (flags & cudaHostAllocPortable) == 0)
        error = fake_misuse(cudaErrorInvalidValue, "memory that is not portable is slow for every GPU but one");
    return fake_leave(error != cudaSuccess ? error : give_pinned(memory, bytes));
}

static cudaError_t
take_back_pinned(void *memory)
{
    const char   *by    = NULL;
    struct piece *piece = piece_around(&pinned, memory, 0);
    if (piece == NULL || piece->at != memory)
        return fake_misuse(cudaErrorInvalidValue, "%p was freed before, or never pinned", memory);
    bool is_used = fake_is_used(piece->at, piece->bytes, &by);
    cudaError_t error = fake_run_all(-1);
    if (error != cudaSuccess)
        return error;
    if (is_used)
        error = fake_misuse(cudaErrorInvalidValue, "%p is freed while %s, which is queued, uses it", memory, by);
    piece_remove(&pinned, piece_around(&pinned, memory, 0));
    free(memory);
    return error;
}

cudaError_t
cudaFreeHost(void *memory)
{
    cudaError_t error = fake_enter("cudaFreeHost");
    return fake_leave(error != cudaSuccess || memory == NULL ? error : take_back_pinned(memory));
}
