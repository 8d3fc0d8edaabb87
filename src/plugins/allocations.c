/* Loaded before the program by `ringside bench`: counts the calls to the system's allocator. Freeing is not counted. */
#include <stdatomic.h>
#include <stddef.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t align, size_t size);

void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *block, size_t size);
void *aligned_alloc(size_t align, size_t size);
long  allocations_seen(void);

static atomic_long seen;

static void
count_one(void)
{
    atomic_fetch_add_explicit(&seen, 1, memory_order_relaxed);
}

void *
malloc(size_t size)
{
    count_one();
    return __libc_malloc(size);
}

void *
calloc(size_t count, size_t size)
{
    count_one();
    return __libc_calloc(count, size);
}

void *
realloc(void *block, size_t size)
{
    count_one();
    return __libc_realloc(block, size);
}

void *
aligned_alloc(size_t align, size_t size)
{
    count_one();
    return __libc_memalign(align, size);
}

long
allocations_seen(void)
{
    return atomic_load_explicit(&seen, memory_order_relaxed);
}
