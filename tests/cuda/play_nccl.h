/* What the files of play_nccl share: a world of ranks that are threads. */
#ifndef PLAY_NCCL_H
#define PLAY_NCCL_H
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "c10d/nccl_table.h"
#include "device/backend.h"

extern const struct nccl_table ringside_nccl_1;

enum { PLAY_RANKS = 8, PLAY_MEMORIES = 8 };
struct play_rank;
typedef bool (*play_function)(struct play_rank *rank);

struct play_rank {
    struct play_world     *world;
    int                    rank, gpu;
    bool                   fine;
    struct backend_why     why;
    struct backend_device *device;
    struct backend_stream *stream;
    struct nccl_comm      *comm;
    struct { void *at; size_t bytes; } memory[PLAY_MEMORIES];   /* given back at the end */
    int                    memory_count;
};

struct play_world {
    int               ranks, number, gpus;
    struct nccl_id    id;
    play_function     run;               /* on each rank's thread; false: `why` says what is wrong */
    pthread_barrier_t door;
    struct play_rank  rank[PLAY_RANKS];
};

/* a line of TAP; answers `is` */
bool play_ok(bool is, const char *sentence, ...) __attribute__((format(printf, 2, 3)));
void play_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
struct backend_host play_host(void);     /* its clock counts how often it was read */
bool play_ranks(int ranks, const char *name, play_function run);
bool play_world(struct play_world *world, const char *name);

/* On a rank's thread. */
void play_meet(struct play_rank *rank);                       /* all of them */
bool play_join(struct play_rank *rank);                       /* begins to */
enum nccl_state play_await(struct play_rank *rank);
bool play_is_busy(struct play_rank *rank, int looks);
bool play_launch(struct play_rank *rank, const struct nccl_launch *launch);   /* and waits */
void play_leave(struct play_rank *rank, bool is_abort);
void *play_memory(struct play_rank *rank, size_t bytes);      /* of its GPU */
bool play_copy(struct play_rank *rank, void *to, const void *from, size_t bytes, bool to_host);

void play_collectives(void);
void play_faults(void);
void play_profiler(void);
#endif
