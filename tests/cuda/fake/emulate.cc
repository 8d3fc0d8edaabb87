/* The block emulator. Threads that know nothing of each other are calls, one after the other. Those that wait for
 * each other are fibers, kept from launch to launch: each runs a kernel's thread, then that of the next block. Who
 * waits hands over to another that is ready; the last of a block hands back to who launched.
 *
 * Interface: emulate; what device.h calls: emulated_barrier, emulated_down_bits, emulated_thread, _block, _blocks. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "emulate.h"
#include "plugins/cuda/kernels/device.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMULATE_ASAN 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define EMULATE_ASAN 1
#endif
extern "C" {
void __sanitizer_start_switch_fiber(void **fake, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *fake, const void **bottom, size_t *size);
void __asan_unpoison_memory_region(const volatile void *address, size_t size);

/* Saves what a function must keep on this stack, its address in *save, and goes on where `load` was saved. As sched's
 * switch, but the control words of arithmetic stay: kernels do not change them, and changes are what time goes to. */
void emulate_swap(void **save, void *load) __attribute__((visibility("hidden")));
}
#if defined(__x86_64__)
__asm__(".text\n.hidden emulate_swap\n.globl emulate_swap\n.type emulate_swap, @function\nemulate_swap:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\n"
        "popq %rcx\njmp *%rcx\n.size emulate_swap, .-emulate_swap\n");
enum { SAVED_WORDS = 8, SAVED_RETURN = 6 }; /* six registers, where to go on; a function begins 8 below a multiple of 16 */
#elif defined(__aarch64__)
__asm__(".text\n.hidden emulate_swap\n.globl emulate_swap\n.type emulate_swap, %function\nemulate_swap:\n"
        "sub sp, sp, #160\nstp x19, x20, [sp, #0]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\n"
        "stp x25, x26, [sp, #48]\nstp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\nstp d8, d9, [sp, #96]\n"
        "stp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
        "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
        "ldp x19, x20, [sp, #0]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\n"
        "ldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\nldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\n"
        "ldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\nadd sp, sp, #160\nret\n"
        ".size emulate_swap, .-emulate_swap\n");
enum { SAVED_WORDS = 20, SAVED_RETURN = 11 };  /* x30 */
#else
#error "the block emulator switches stacks on x86-64 and on AArch64 only"
#endif

namespace {

#ifdef EMULATE_ASAN
enum { STACK_BYTES = 256 * 1024 };
#else
enum { STACK_BYTES = 64 * 1024 };
#endif
/* Stacks whose tops lie at the same place of a page share a cache's lines: they are some room apart. */
enum { WARPS = BLOCK_THREADS / WARP, COLOURS = 31, COLOUR_BYTES = 128 };
enum pick { PICK_ANY, PICK_LAST, PICKS };      /* LAST: a warp whose lanes have met runs ahead of the others */

/* A stack and where it goes on. */
struct fiber {
    void       *saved;
    void       *fake;                          /* AddressSanitizer's */
    const void *bottom;                        /* of home: learnt from AddressSanitizer */
    size_t      size;
};

/* The threads of a block that wait for each other. */
struct crew {
    struct crew *next;                         /* of those that nobody has */
    struct fiber home;                         /* who launched */
    bool         from_home;                    /* it was home that handed over last */
    struct fiber worker[BLOCK_THREADS];
    char        *stacks;                       /* of the workers, each above a page that nobody may touch */
    size_t       stacks_size;
    void       (*body)(const void *params);
    const void  *params;
    uint64_t     random;
    enum pick    pick;
    unsigned     ready[BLOCK_THREADS], ready_count;
    unsigned     at_barrier, returned, at_lanes[WARPS];
    uint64_t     gives[BLOCK_THREADS];         /* what who waits for lanes hands down */
    uint64_t     given[BLOCK_THREADS];         /* the same when all lanes had come: the quick may hand down again */
};

/* Of the thread that emulates: which of a block's threads it is just now. Plain data: kernels ask all the time. */
const unsigned nobody = BLOCK_THREADS;
thread_local unsigned     now_thread, now_block, now_blocks;
thread_local const char  *now_symbol;
thread_local struct crew *now_crew;            /* NULL: threads that know nothing of each other */

uint64_t
draw(uint64_t *random)                         /* splitmix64 */
{
    uint64_t z = *random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

unsigned
draw_below(uint64_t *random, unsigned limit)
{
    return (unsigned)((draw(random) >> 32) * limit >> 32);
}

void
shuffle(uint64_t *random, unsigned *list, unsigned count)
{
    for (unsigned i = count; i > 1; i--) {
        unsigned other = draw_below(random, i), kept = list[i - 1];
        list[i - 1] = list[other];
        list[other] = kept;
    }
}

/* ---- handing over ---- */

/* On a stack again, or for the first time. The sanitizer tells whose stack was left: home's is known in no other way.
 * ThreadSanitizer is told nothing: to it a block's threads are one, which they are. */
void
arrive(struct crew *crew, struct fiber *self)
{
    (void)crew, (void)self;
#ifdef EMULATE_ASAN
    const void *bottom = NULL;
    size_t      size   = 0;
    __sanitizer_finish_switch_fiber(self->fake, &bottom, &size);
    if (crew->from_home) {
        crew->home.bottom = bottom;
        crew->home.size   = size;
    }
#endif
}

void
hand_over(struct crew *crew, struct fiber *from, struct fiber *to)
{
    crew->from_home = from == &crew->home;
#ifdef EMULATE_ASAN
    __sanitizer_start_switch_fiber(&from->fake, to->bottom, to->size);
#endif
    emulate_swap(&from->saved, to->saved);
    arrive(crew, from);
}

/* The threads from `first` on may go on. Once whole warps after each other, once all mixed. */
void
make_ready(struct crew *crew, unsigned first, unsigned count)
{
    unsigned *list = crew->ready + crew->ready_count;
    crew->ready_count += count;
    for (unsigned i = 0; i < count; i++)
        list[i] = first + i;
    if (draw(&crew->random) & 1 || count == WARP) {
        shuffle(&crew->random, list, count);
        return;
    }
    unsigned warp[WARPS];
    for (unsigned w = 0; w < count / WARP; w++)
        warp[w] = w;
    shuffle(&crew->random, warp, count / WARP);
    for (unsigned i = 0; i < count; i++)
        list[i] = first + warp[i / WARP] * WARP + i % WARP;
    for (unsigned w = 0; w < count / WARP; w++)
        shuffle(&crew->random, list + w * WARP, WARP);
}

/* Whose turn it is; `nobody`: none can go on, be it that all have returned. */
unsigned
next_ready(struct crew *crew)
{
    if (crew->at_barrier == BLOCK_THREADS) {
        crew->at_barrier = 0;
        make_ready(crew, 0, BLOCK_THREADS);
    }
    if (crew->ready_count == 0)
        return nobody;
    unsigned at   = crew->pick == PICK_ANY ? draw_below(&crew->random, crew->ready_count) : crew->ready_count - 1;
    unsigned next = crew->ready[at];
    crew->ready[at] = crew->ready[--crew->ready_count];
    return next;
}

/* Not inlined: a crew may go on in another thread, where `now_thread` lies elsewhere. */
__attribute__((noinline)) void
pass_on(struct crew *crew)
{
    unsigned self = now_thread, next = next_ready(crew);
    if (next == self)
        return;
    now_thread = next;
    hand_over(crew, &crew->worker[self], next != nobody ? &crew->worker[next] : &crew->home);
}

/* Where a stack begins. */
void
worker_run(void)
{
    struct crew *crew = now_crew;
    arrive(crew, &crew->worker[now_thread]);
    for (;;) {
        crew->body(crew->params);
        crew->returned++;
        pass_on(crew);
    }
}

/* ---- a thread's crew, from its first launch that needs one to the thread's end ---- */

void
crew_free(struct crew *crew)
{
#ifdef EMULATE_ASAN
    __asan_unpoison_memory_region(crew->stacks, crew->stacks_size);
#endif
    munmap(crew->stacks, crew->stacks_size);
    free(crew);
}

bool
worker_start(struct fiber *worker, unsigned index, char *room, size_t page)
{
    if (mprotect(room, page, PROT_NONE) != 0)
        return false;
    worker->bottom = room + page;
    worker->size   = STACK_BYTES;
    char  *top     = room + page + STACK_BYTES - index % COLOURS * COLOUR_BYTES;
    void **saved   = reinterpret_cast<void **>(top) - SAVED_WORDS;
    saved[SAVED_RETURN] = reinterpret_cast<void *>(worker_run);
    worker->saved       = saved;
    return true;
}

struct crew *
crew_new(void)
{
    struct crew *crew = static_cast<struct crew *>(calloc(1, sizeof *crew));
    if (crew == NULL)
        return NULL;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), step = page + STACK_BYTES;
    crew->stacks_size = BLOCK_THREADS * step;
    void *stacks = mmap(NULL, crew->stacks_size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) {
        free(crew);
        return NULL;
    }
    crew->stacks = static_cast<char *>(stacks);
    for (unsigned i = 0; i < BLOCK_THREADS; i++)
        if (!worker_start(&crew->worker[i], i, crew->stacks + i * step, page)) {
            crew_free(crew);
            return NULL;
        }
    return crew;
}

/* Crews of threads that have ended wait for others: many threads launch a kernel or two. */
struct { pthread_mutex_t lock; struct crew *first; } idle = { PTHREAD_MUTEX_INITIALIZER, NULL };

struct crew *
crew_take(void)
{
    pthread_mutex_lock(&idle.lock);
    struct crew *crew = idle.first;
    if (crew != NULL)
        idle.first = crew->next;
    pthread_mutex_unlock(&idle.lock);
    return crew != NULL ? crew : crew_new();
}

void
crew_give(struct crew *crew)
{
    pthread_mutex_lock(&idle.lock);
    crew->next = idle.first;
    idle.first = crew;
    pthread_mutex_unlock(&idle.lock);
}

struct kept_crew {
    struct crew *crew = NULL;
    ~kept_crew()
    {
        if (crew != NULL)
            crew_give(crew);
    }
};
thread_local struct kept_crew kept;

void
say_stuck(const struct crew *crew, char *why, size_t why_size)
{
    unsigned lanes = 0;
    for (unsigned waiting : crew->at_lanes)
        lanes += waiting;
    snprintf(why, why_size,
             "kernel %s is stuck in block %u of %u: of its %u threads %u wait at a barrier, %u wait for lanes of their "
             "warp, %u have returned; all have to come to each barrier, and all lanes of a warp to each lane_down",
             now_symbol, now_block, now_blocks, (unsigned)BLOCK_THREADS, crew->at_barrier, lanes, crew->returned);
}

bool
run_together(struct crew *crew)
{
    crew->at_barrier = crew->returned = crew->ready_count = 0;
    for (unsigned &waiting : crew->at_lanes)
        waiting = 0;
    crew->pick = static_cast<enum pick>(draw_below(&crew->random, PICKS));
    make_ready(crew, 0, BLOCK_THREADS);
    now_thread = next_ready(crew);
    hand_over(crew, &crew->home, &crew->worker[now_thread]);
    return crew->returned == BLOCK_THREADS;
}

void
run_alone(void (*body)(const void *params), const void *params, uint64_t random)
{
    unsigned step = (unsigned)random | 1, start = (unsigned)(random >> 32);
    for (unsigned i = 0; i < BLOCK_THREADS; i++) {
        now_thread = (start + i * step) % BLOCK_THREADS;      /* an odd step meets all */
        body(params);
    }
}

/* Blocks in some order: a step without a common divisor meets all. */
unsigned
block_step(uint64_t *random, unsigned blocks)
{
    for (;;) {
        unsigned step = 1 + draw_below(random, blocks), a = step, b = blocks;
        while (b != 0) {
            unsigned rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1)
            return step;
    }
}

}   /* namespace */

bool
emulate(const struct gpu_kernel *row, const void *params, unsigned blocks, uint64_t seed, char *why, size_t why_size)
{
    void (*body)(const void *) = reinterpret_cast<void (*)(const void *)>(const_cast<void *>(row->address));
    uint64_t     random = seed;
    struct crew *crew   = NULL;
    if (row->threads == TOGETHER) {
        if (kept.crew == NULL && (kept.crew = crew_take()) == NULL) {
            snprintf(why, why_size, "no memory for the stacks of kernel %s", row->symbol);
            return false;
        }
        crew         = kept.crew;
        crew->body   = body;
        crew->params = params;
        crew->random = draw(&random);
    }
    now_crew   = crew;
    now_symbol = row->symbol;
    now_blocks = blocks;
    unsigned step = blocks > 0 ? block_step(&random, blocks) : 0, start = blocks > 0 ? draw_below(&random, blocks) : 0;
    for (unsigned i = 0; i < blocks; i++) {
        now_block = (unsigned)((start + (uint64_t)i * step) % blocks);
        if (crew == NULL) {
            run_alone(body, params, draw(&random));
        } else if (!run_together(crew)) {
            say_stuck(crew, why, why_size);
            crew_free(crew);                   /* its fibers stand in the midst of a kernel for ever */
            kept.crew = NULL;
            return false;
        }
    }
    return true;
}

/* ---- what kernels call ---- */

/* Threads that were said to know nothing of each other do not wait: their row in the table is wrong. */
static struct crew *
crew_or_abort(const char *what)
{
    if (now_crew != NULL)
        return now_crew;
    fprintf(stderr, "kernel %s has a %s, but its row says ALONE: make it TOGETHER\n", now_symbol, what);
    abort();
}

void
emulated_barrier(void)
{
    struct crew *crew = crew_or_abort("barrier");
    crew->at_barrier++;
    pass_on(crew);
}

uint64_t
emulated_down_bits(uint64_t value, unsigned by)
{
    struct crew *crew = crew_or_abort("lane_down");
    unsigned     self = now_thread, warp = self / WARP, first = warp * WARP;
    crew->gives[self] = value;
    if (++crew->at_lanes[warp] == WARP) {
        crew->at_lanes[warp] = 0;
        memcpy(crew->given + first, crew->gives + first, WARP * sizeof *crew->given);
        make_ready(crew, first, WARP);
    }
    pass_on(crew);
    return self % WARP + by < WARP ? crew->given[self + by] : value;
}

unsigned
emulated_thread(void)
{
    return now_thread;
}

unsigned
emulated_block(void)
{
    return now_block;
}

unsigned
emulated_blocks(void)
{
    return now_blocks;
}
