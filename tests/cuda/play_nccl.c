/* play_nccl: plays the CUDA plug-in's table of NCCL with ranks that are threads, each on a GPU of the tests' own
 * runtime and with the tests' own NCCL behind the table, and prints TAP. How late the runtime does its work
 * RINGSIDE_FAKE_CUDA says. Nothing waits for time: who never comes is told by looks that stay in vain.
 *
 * play_nccl.c has ranks and what is waited for; play_nccl_collectives.c values; play_nccl_faults.c what goes wrong;
 * play_nccl_profiler.c what NCCL tells of itself. */
#include "play_nccl.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fake/nccl.h"

extern const struct device_backend ringside_device_backend_1;

static atomic_int told, wrong;

bool
play_ok(bool is, const char *sentence, ...)
{
    va_list args;
    char    text[300];
    va_start(args, sentence);
    vsnprintf(text, sizeof text, sentence, args);
    va_end(args);
    printf("%sok %d - %s\n", is ? "" : "not ", atomic_fetch_add(&told, 1) + 1, text);
    fflush(stdout);
    atomic_fetch_add(&wrong, !is);
    return is;
}

void
play_note(const char *format, ...)
{
    va_list args;
    char    text[600];
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    printf("# %s\n", text);
}

static uint64_t
clock_of(void *run)
{
    return atomic_fetch_add((atomic_uint_least64_t *)run, 10);
}

static atomic_uint_least64_t ticks = 1000000;

struct backend_host
play_host(void)
{
    return (struct backend_host){ clock_of, &ticks, false };
}

/* ---- a rank ---- */

static bool
open_rank(struct play_rank *rank)
{
    struct backend_host host = play_host();
    rank->device = ringside_device_backend_1.open(rank->gpu, &host, &rank->why);
    rank->stream = rank->device != NULL ? ringside_device_backend_1.stream(rank->device, true, &rank->why) : NULL;
    return rank->stream != NULL;
}

static void
close_rank(struct play_rank *rank)
{
    for (int i = 0; i < rank->memory_count; i++)
        ringside_device_backend_1.segment_give(rank->device, rank->memory[i].at, rank->memory[i].bytes);
    if (rank->stream != NULL)
        ringside_device_backend_1.stream_close(rank->stream);
    if (rank->device != NULL)
        ringside_device_backend_1.close(rank->device);
}

/* As often as it takes: every rank gets its turn. */
enum nccl_state
play_await(struct play_rank *rank)
{
    enum nccl_state state;
    while ((state = ringside_nccl_1.poll(rank->comm, &rank->why)) == NCCL_BUSY)
        sched_yield();
    return state;
}

/* Still, after so many looks. */
bool
play_is_busy(struct play_rank *rank, int looks)
{
    for (int i = 0; i < looks; i++) {
        if (ringside_nccl_1.poll(rank->comm, &rank->why) != NCCL_BUSY)
            return false;
        sched_yield();
    }
    return true;
}

bool
play_join(struct play_rank *rank)
{
    const struct nccl_member member = { &rank->world->id, rank->rank, rank->world->ranks, rank->world->number,
                                       rank->stream };
    rank->comm = ringside_nccl_1.join(&member, &rank->why);
    return rank->comm != NULL;
}

bool
play_launch(struct play_rank *rank, const struct nccl_launch *launch)
{
    return ringside_nccl_1.launch(rank->comm, launch, &rank->why) && play_await(rank) == NCCL_READY;
}

void
play_leave(struct play_rank *rank, bool is_abort)
{
    if (rank->comm != NULL)
        (is_abort ? ringside_nccl_1.abort : ringside_nccl_1.destroy)(rank->comm);
    rank->comm = NULL;
}

void *
play_memory(struct play_rank *rank, size_t bytes)
{
    size_t all = (bytes + 511) / 512 * 512 + 512;
    void  *at  = ringside_device_backend_1.segment(rank->device, all, &rank->why);
    rank->memory[rank->memory_count].at      = at;
    rank->memory[rank->memory_count++].bytes = all;
    return at;
}

bool
play_copy(struct play_rank *rank, void *to, const void *from, size_t bytes, bool to_host)
{
    void *between = ringside_device_backend_1.pinned(bytes + 1, &rank->why);
    bool  done    = between != NULL;
    if (done && !to_host)
        memcpy(between, from, bytes);
    const struct backend_copy copy = { to_host ? between : to, to_host ? from : between, bytes, to_host ? -1
                                      : rank->gpu,
                                       to_host ? rank->gpu : -1 };
    done = done && ringside_device_backend_1.copy(rank->stream, &copy, 0, &rank->why) &&
           ringside_device_backend_1.finish(rank->stream, &rank->why);
    if (done && to_host)
        memcpy(to, between, bytes);
    ringside_device_backend_1.pinned_give(between, bytes + 1);
    return done;
}

/* ---- all of them ---- */

void
play_meet(struct play_rank *rank)
{
    pthread_barrier_wait(&rank->world->door);
}

static void *
run_rank(void *given)
{
    struct play_rank *rank = given;
    rank->fine = open_rank(rank);
    play_meet(rank);
    if (rank->fine)
        rank->fine = rank->world->run(rank);
    play_meet(rank);
    close_rank(rank);
    return NULL;
}

bool
play_ranks(int ranks, const char *name, play_function run)
{
    struct play_world  world   = { .ranks = ranks, .number = 3, .run = run, .gpus = ranks };
    return play_world(&world, name);
}

bool
play_world(struct play_world *world, const char *name)
{
    pthread_t          threads[PLAY_RANKS];
    struct backend_why why;
    bool               fine = ringside_nccl_1.make_id(&world->id, &why);
    pthread_barrier_init(&world->door, NULL, (unsigned)world->ranks);
    for (int i = 0; i < world->ranks; i++) {
        world->rank[i] = (struct play_rank){ .world = world, .rank = i, .gpu = i % world->gpus };
        pthread_create(&threads[i], NULL, run_rank, &world->rank[i]);
    }
    for (int i = 0; i < world->ranks; i++) {
        pthread_join(threads[i], NULL);
        if (!world->rank[i].fine)
            play_note("rank %d: %s", i, world->rank[i].why.text);
        fine = fine && world->rank[i].fine;
    }
    pthread_barrier_destroy(&world->door);
    return play_ok(fine, "%s, %d ranks", name, world->ranks);
}

int
main(void)
{
    struct backend_why why  = { 0 };
    const char        *said = ringside_nccl_1.version(&why);
    play_ok(said != NULL && strcmp(said, "NCCL 2.28.9") == 0, "the library says its version");
    play_ok(ringside_nccl_1.gpus() >= PLAY_RANKS, "there are GPUs enough to play");
    play_collectives();
    play_faults();
    play_profiler();
    play_ok(fake_nccl_living() == 0, "no communicator is left");
    printf("1..%d\n", atomic_load(&told));
    return atomic_load(&wrong) > 0;
}
