/* The block emulator. Threads that know nothing of each other are calls, one after the other. Those that wait for each
 * other are fibers, kept from launch to launch: each runs a kernel's thread, then that of the next block. Who waits hands
 * over to another that is ready; the last of a block hands back to who launched.
 *
 * Interface: emulate; what device.h calls: emulated_barrier, emulated_down_bits, emulated_thread, _block, _blocks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "emulate.h"
#include "plugins/cuda/kernels/device.h"
extern "C" {
#include "sched/fiber.h"
void fiber_swap(void **save, void *load);      /* sched/switch.S */
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMULATE_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define EMULATE_TSAN 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define EMULATE_ASAN 1
#endif
#ifdef __SANITIZE_THREAD__
#define EMULATE_TSAN 1
#endif
extern "C" {
void __sanitizer_start_switch_fiber(void **fake, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *fake, const void **bottom, size_t *size);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
}

namespace {

enum { WARPS = BLOCK_THREADS / WARP, STACK_BYTES = 64 * 1024, COLOURS = 32, COLOUR_BYTES = 128 };
enum pick { PICK_ANY, PICK_LAST, PICKS };      /* LAST: a warp whose lanes have met runs ahead of the others */

struct worker {
    struct fiber fiber;
    unsigned     index;
};

/* The threads of a block that wait for each other. */
struct crew {
    struct fiber home;                         /* who launched */
    bool         from_home;                    /* it was home that handed over last */
    struct worker worker[BLOCK_THREADS];
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

/* On a stack again, or for the first time. The sanitizer tells whose stack was left: home's is known in no other way. */
void
arrive(struct crew *crew, struct fiber *self)
{
    (void)crew, (void)self;
#ifdef EMULATE_ASAN
    const void *bottom = NULL;
    size_t      size   = 0;
    __sanitizer_finish_switch_fiber(self->fake, &bottom, &size);
    if (crew->from_home) {
        crew->home.seen_stack = bottom;
        crew->home.seen_size  = size;
    }
#endif
}

void
hand_over(struct crew *crew, struct fiber *from, struct fiber *to)
{
    crew->from_home = from == &crew->home;
#ifdef EMULATE_ASAN
    __sanitizer_start_switch_fiber(&from->fake, to->stack != NULL ? to->stack : to->seen_stack,
                                   to->stack != NULL ? to->size : to->seen_size);
#endif
#ifdef EMULATE_TSAN
    __tsan_switch_to_fiber(to->thread_state, 0);
#endif
    fiber_swap(&from->saved, to->saved);
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

/* Somebody else's turn; NULL: nobody can go on, be it that all have returned. */
struct worker *
next_ready(struct crew *crew)
{
    if (crew->at_barrier == BLOCK_THREADS) {
        crew->at_barrier = 0;
        make_ready(crew, 0, BLOCK_THREADS);
    }
    if (crew->ready_count == 0)
        return NULL;
    unsigned at   = crew->pick == PICK_ANY ? draw_below(&crew->random, crew->ready_count) : crew->ready_count - 1;
    unsigned next = crew->ready[at];
    crew->ready[at] = crew->ready[--crew->ready_count];
    return &crew->worker[next];
}

void
pass_on(struct crew *crew, struct worker *self)
{
    struct worker *next = next_ready(crew);
    if (next == self)
        return;
    if (next != NULL)
        now_thread = next->index;
    hand_over(crew, &self->fiber, next != NULL ? &next->fiber : &crew->home);
}

/* A stack's first bytes lie at the same place of a page as the others': some room apart, they do not share a cache's lines. */
void
worker_run(void *argument)
{
    struct worker *self = static_cast<struct worker *>(argument);
    struct crew   *crew = now_crew;
    arrive(crew, &self->fiber);
    volatile char *colour = static_cast<volatile char *>(__builtin_alloca((self->index % COLOURS + 1) * COLOUR_BYTES));
    colour[0] = 0;
    for (;;) {
        crew->body(crew->params);
        crew->returned++;
        pass_on(crew, self);
    }
}

/* ---- a thread's crew, from its first launch that needs one to its end ---- */

void
crew_free(struct crew *crew)
{
    for (struct worker &worker : crew->worker)
        fiber_free(&worker.fiber);
    free(crew);
}

struct crew *
crew_new(void)
{
    struct crew *crew = static_cast<struct crew *>(calloc(1, sizeof *crew));
    if (crew == NULL)
        return NULL;
    for (unsigned i = 0; i < BLOCK_THREADS; i++) {
        crew->worker[i].index = i;
        if (!fiber_start(&crew->worker[i].fiber, STACK_BYTES, worker_run, &crew->worker[i])) {
            crew_free(crew);
            return NULL;
        }
    }
    return crew;
}

struct kept_crew {
    struct crew *crew = NULL;
    ~kept_crew() { drop(); }
    void
    drop()
    {
        if (crew != NULL)
            crew_free(crew);
        crew = NULL;
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
    struct worker *first = next_ready(crew);
    now_thread = first->index;
    hand_over(crew, &crew->home, &first->fiber);
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
        if (kept.crew == NULL && (kept.crew = crew_new()) == NULL) {
            snprintf(why, why_size, "no memory for the stacks of kernel %s", row->symbol);
            return false;
        }
        crew         = kept.crew;
        crew->body   = body;
        crew->params = params;
        crew->random = draw(&random);
        fiber_adopt(&crew->home);
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
            kept.drop();                       /* its fibers stand in the midst of a kernel for ever */
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
    pass_on(crew, &crew->worker[now_thread]);
}

uint64_t
emulated_down_bits(uint64_t value, unsigned by)
{
    struct crew   *crew = crew_or_abort("lane_down");
    struct worker *self = &crew->worker[now_thread];
    unsigned       warp = self->index / WARP, first = warp * WARP;
    crew->gives[self->index] = value;
    if (++crew->at_lanes[warp] == WARP) {
        crew->at_lanes[warp] = 0;
        memcpy(crew->given + first, crew->gives + first, WARP * sizeof *crew->given);
        make_ready(crew, first, WARP);
    }
    pass_on(crew, self);
    return self->index % WARP + by < WARP ? crew->given[self->index + by] : value;
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
