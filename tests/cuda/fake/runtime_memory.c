/* Memory of the fake's GPUs: for each a range of addresses that is closed to everybody but while an operation runs; and
 * the host's pinned memory. See fake.h. Only under the lock. */
#include "fake.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNED = 512, FILL = 0xff };

/* Given out and not yet back, in order of addresses. */
struct piece { char *at; size_t bytes; };
struct pieces { struct piece *piece; size_t count, room; };

/* touched: bytes that ever were given out; open: of them, those that can be read and written now */
struct region { char *base; size_t touched, open, used; struct pieces given; };

static struct region regions[FAKE_DEVICES];
static struct pieces pinned;
static int           openers;

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

static void
open_up_to(struct region *region, size_t bytes)
{
    if (region->open == bytes)
        return;
    size_t most = bytes > region->open ? bytes : region->open;
    if (mprotect(region->base, most, bytes > region->open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
        abort();
    region->open = bytes;
}

void
fake_open(void)
{
    for (int device = 0; device < fake.devices && openers == 0; device++)
        open_up_to(&regions[device], regions[device].touched);
    openers++;
}

/* Not with guard=off: closing takes long where several threads run. */
void
fake_close(void)
{
    openers--;
    for (int device = 0; device < fake.devices && openers == 0 && fake.guard; device++)
        open_up_to(&regions[device], 0);
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
    void *base = mmap(NULL, fake.memory, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return false;
    region->base = base;
    return true;
}

static void
fill(struct region *region, char *at, size_t bytes)
{
    size_t end = (size_t)(at - region->base) + bytes;
    if (end > region->touched)
        region->touched = (end + 4095) / 4096 * 4096;
    fake_open();
    memset(at, FILL, bytes);
    fake_close();
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
    fill(region, at, rounded(bytes));
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
    fill(&regions[device], piece->at, rounded(piece->bytes));
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
