/* Loaded before the program: the allocation number $FAIL_AT fails, once. At exit the count goes to $FAIL_COUNT's file.
 * Below a sanitizer the blocks are its own, so that it sees what leaks. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t align, size_t size);
void *__interceptor_malloc(size_t size) __attribute__((weak));
void *__interceptor_calloc(size_t count, size_t size) __attribute__((weak));
void *__interceptor_realloc(void *block, size_t size) __attribute__((weak));
void *__interceptor_aligned_alloc(size_t align, size_t size) __attribute__((weak));

static atomic_long seen;
static long        fail_at = -1;

__attribute__((constructor)) static void
begin(void)
{
    const char *text = getenv("FAIL_AT");
    fail_at          = text != NULL ? atol(text) : 0;
    seen             = 0;
}

__attribute__((destructor)) static void
end(void)
{
    const char *path = getenv("FAIL_COUNT");
    FILE       *file = path != NULL ? fopen(path, "w") : NULL;
    if (file == NULL)
        return;
    fprintf(file, "%ld\n", (long)seen);
    fclose(file);
}

/* Before a library's product blas.c tries whether there is memory, below a foreign allocator only: where none fails the
 * trial does not count. */
static int
is_trial(size_t size)
{
    return fail_at == 0 && size == 64 << 10;
}

static int
fails(void)
{
    if (fail_at < 0 || atomic_fetch_add(&seen, 1) + 1 != fail_at)
        return 0;
    errno = ENOMEM;
    return 1;
}

static void *
aligned(size_t align, size_t size)
{
    return __interceptor_aligned_alloc != NULL ? __interceptor_aligned_alloc(align, size) : __libc_memalign(align, size);
}

void *
malloc(size_t size)
{
    if (!is_trial(size) && fails())
        return NULL;
    return __interceptor_malloc != NULL ? __interceptor_malloc(size) : __libc_malloc(size);
}

void *
calloc(size_t count, size_t size)
{
    if (fails())
        return NULL;
    return __interceptor_calloc != NULL ? __interceptor_calloc(count, size) : __libc_calloc(count, size);
}

void *
realloc(void *block, size_t size)
{
    if (fails())
        return NULL;
    return __interceptor_realloc != NULL ? __interceptor_realloc(block, size) : __libc_realloc(block, size);
}

void *memalign(size_t align, size_t size) { return fails() ? NULL : aligned(align, size); }
void *aligned_alloc(size_t align, size_t size) { return fails() ? NULL : aligned(align, size); }

int
posix_memalign(void **out, size_t align, size_t size)
{
    void *block = fails() ? NULL : aligned(align, size);
    if (block == NULL)
        return ENOMEM;
    *out = block;
    return 0;
}
