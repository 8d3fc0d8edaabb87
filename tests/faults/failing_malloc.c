/* Loaded before the program: the allocation number $FAIL_AT fails, and with $FAIL_ON=1 all that come after it. Memory,
 * mappings and threads count alike, those of child processes too: the count lies in $FAIL_COUNT's file, which all of
 * them map. Below a sanitizer the blocks are its own, so that it sees what leaks. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t align, size_t size);
void *__interceptor_malloc(size_t size) __attribute__((weak));
void *__interceptor_calloc(size_t count, size_t size) __attribute__((weak));
void *__interceptor_realloc(void *block, size_t size) __attribute__((weak));
void *__interceptor_aligned_alloc(size_t align, size_t size) __attribute__((weak));

static atomic_long  own;
static atomic_long *seen = &own;
static long         fail_at = -1;
static int          fail_on, blocks_only; /* $FAIL_BLOCKS: mappings, as of a file's next chunk, do not count */
static int        (*create)(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *argument);

static void *
map(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

__attribute__((constructor)) static void
begin(void)
{
    const char *text = getenv("FAIL_AT"), *path = getenv("FAIL_COUNT");
    int         fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void       *shared = fd >= 0 ? map(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    if (shared != MAP_FAILED)
        seen = shared;
    void *found = dlsym(RTLD_NEXT, "pthread_create");
    memcpy(&create, &found, sizeof create);
    fail_on = getenv("FAIL_ON") != NULL;
    blocks_only = getenv("FAIL_BLOCKS") != NULL;
    fail_at = text != NULL ? atol(text) : 0;
}

/* The program's end is not its business any more: the libraries' destructors run without looking. */
__attribute__((destructor)) static void
end(void)
{
    fail_at = -1;
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
    if (fail_at < 0)
        return 0;
    long number = atomic_fetch_add(seen, 1) + 1;
    if (fail_at == 0 || number < fail_at || (number > fail_at && !fail_on))
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

void *
mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    return !blocks_only && fails() ? MAP_FAILED : map(at, bytes, protection, flags, fd, offset);
}

/* Its stack. */
int
pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *argument)
{
    return fails() ? EAGAIN : create(thread, how, run, argument);
}
