/* Stacks come from mmap with a guard page below; only touched pages cost. PyTorch has no counterpart: its ranks
 * are processes. */
#include "sched/fiber.h"
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define FIBER_TSAN 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define FIBER_ASAN 1
#endif
#ifdef __SANITIZE_THREAD__
#define FIBER_TSAN 1
#endif

#ifdef FIBER_ASAN
void __sanitizer_start_switch_fiber(void **fake, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *fake, const void **bottom, size_t *size);
void __asan_unpoison_memory_region(const volatile void *address, size_t size);
void __lsan_register_root_region(const void *begin, size_t size);
void __lsan_unregister_root_region(const void *begin, size_t size);
enum { STACK_FACTOR = 4 };
#else
enum { STACK_FACTOR = 1 };
#endif
#ifdef FIBER_TSAN
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void  __tsan_destroy_fiber(void *fiber);
void  __tsan_switch_to_fiber(void *fiber, unsigned flags);
#endif

#if defined(__x86_64__) || defined(__aarch64__)
void fiber_swap(void **save, void *load);
void fiber_boot(void);

static bool
prepare_stack(struct fiber *fiber)
{
    uintptr_t top = ((uintptr_t)fiber->stack + fiber->size) & ~(uintptr_t)15;
#if defined(__x86_64__)
    /* fiber_swap pops 8 bytes of control words and six registers, then returns into fiber_boot 16-aligned. */
    uint64_t *frame = (uint64_t *)top - 10;
    uint32_t  control[2] = { 0, 0 };
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(control[0]), "=m"(control[1]));
    frame[0] = (uint64_t)control[1] << 32 | control[0];
    frame[1] = frame[2] = 0;                       /* r15 r14 */
    frame[3] = (uint64_t)(uintptr_t)fiber->argument; /* r13 */
    frame[4] = (uint64_t)(uintptr_t)fiber->run;      /* r12 */
    frame[5] = frame[6] = 0;                       /* rbx rbp */
    frame[7] = (uint64_t)(uintptr_t)fiber_boot;
    frame[8] = frame[9] = 0;
#else
    uint64_t *frame = (uint64_t *)top - 22;
    for (int i = 0; i < 22; i++)
        frame[i] = 0;
    frame[0]  = (uint64_t)(uintptr_t)fiber->run;      /* x19 */
    frame[1]  = (uint64_t)(uintptr_t)fiber->argument; /* x20 */
    frame[11] = (uint64_t)(uintptr_t)fiber_boot;      /* x30 */
#endif
    fiber->saved = frame;
    return true;
}

static void
swap(struct fiber *from, struct fiber *to)
{
    fiber_swap(&from->saved, to->saved);
}
#else
#include <ucontext.h>

static void
context_entry(unsigned high, unsigned low)
{
    struct fiber *fiber = (struct fiber *)(uintptr_t)((uint64_t)high << 32 | low);
    fiber->run(fiber->argument);
    abort();
}

static bool
prepare_stack(struct fiber *fiber)
{
    ucontext_t *context = calloc(1, sizeof *context);
    if (context == NULL || getcontext(context) != 0) {
        free(context);
        return false;
    }
    context->uc_stack.ss_sp   = fiber->stack;
    context->uc_stack.ss_size = fiber->size;
    uint64_t self = (uintptr_t)fiber;
    makecontext(context, (void (*)(void))context_entry, 2, (unsigned)(self >> 32), (unsigned)self);
    fiber->saved = context;
    return true;
}

static void
swap(struct fiber *from, struct fiber *to)
{
    if (from->saved == NULL)
        from->saved = calloc(1, sizeof(ucontext_t));
    if (from->saved == NULL)
        abort();
    swapcontext(from->saved, to->saved);
}
#endif

void
fiber_adopt(struct fiber *fiber)
{
    *fiber = (struct fiber){ 0 };
#ifdef FIBER_TSAN
    fiber->thread_state = __tsan_get_current_fiber();
#endif
}

bool
fiber_start(struct fiber *fiber, size_t stack_bytes, void (*run)(void *argument), void *argument)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t size = (stack_bytes * STACK_FACTOR + page - 1) / page * page;
    char  *base = mmap(NULL, size + page, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (base == MAP_FAILED)
        return false;
    if (mprotect(base, page, PROT_NONE) != 0) {
        munmap(base, size + page);
        return false;
    }
    *fiber = (struct fiber){ .stack = base + page, .size = size, .run = run, .argument = argument };
    if (!prepare_stack(fiber)) {
        munmap(base, size + page);
        return false;
    }
#ifdef FIBER_ASAN
    __lsan_register_root_region(fiber->stack, fiber->size);
#endif
#ifdef FIBER_TSAN
    fiber->thread_state = __tsan_create_fiber(0);
#endif
    return true;
}

void
fiber_switch(struct fiber *from, struct fiber *to, bool for_ever)
{
#ifdef FIBER_ASAN
    const void *bottom = to->stack != NULL ? to->stack : to->seen_stack;
    size_t      size   = to->stack != NULL ? to->size : to->seen_size;
    __sanitizer_start_switch_fiber(for_ever ? NULL : &from->fake, bottom, size);
#endif
    (void)for_ever;
#ifdef FIBER_TSAN
    __tsan_switch_to_fiber(to->thread_state, 0);
#endif
    swap(from, to);
#ifdef FIBER_ASAN
    __sanitizer_finish_switch_fiber(from->fake, NULL, NULL);
#endif
}

void
fiber_entered(struct fiber *self, struct fiber *from)
{
    (void)self;
    (void)from;
#ifdef FIBER_ASAN
    const void *bottom = NULL;
    size_t      size   = 0;
    __sanitizer_finish_switch_fiber(NULL, &bottom, &size);
    if (from != NULL && from->stack == NULL) {
        from->seen_stack = bottom;
        from->seen_size  = size;
    }
#endif
}

void
fiber_free(struct fiber *fiber)
{
#ifdef FIBER_TSAN
    if (fiber->stack != NULL)
        __tsan_destroy_fiber(fiber->thread_state);
#endif
#if !defined(__x86_64__) && !defined(__aarch64__)
    free(fiber->saved);
#endif
    if (fiber->stack == NULL)
        return;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
#ifdef FIBER_ASAN
    __lsan_unregister_root_region(fiber->stack, fiber->size);
    __asan_unpoison_memory_region(fiber->stack, fiber->size);
#endif
    munmap((char *)fiber->stack - page, fiber->size + page);
    fiber->stack = NULL;
}
