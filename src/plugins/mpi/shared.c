/* Memory that all members of a channel on one machine share: rank 0 makes it without a name, the others open it
 * through rank 0's descriptor. Each rank has a counter of meetings that only it writes, and two slots that it
 * fills in turn, so that it may write the next while others still read the last.
 * Order of use: shared_new on all members; shared_round, shared_slot, shared_meet; shared_free. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include "plugins/mpi/mpi.h"

/* A slot is as large as the first caches take; with many ranks each one's share would be too small to be worth a
 * meeting. */
enum { LINE = 128, SLOT = 128 << 10, SHARE = 8 << 10, MOST_RANKS = 64 };

/* What a rank calls stands beside, for this meeting and the one before. */
struct counter { _Alignas(LINE) atomic_uint_least64_t come; atomic_uint_least64_t calls[2]; };

/* What rank 0 tells: where the memory is, and what it begins with if it is that. */
struct address { char boot[40]; long process; int descriptor; uint64_t bytes, cookie[2]; };

struct head {
    _Alignas(LINE) uint64_t cookie[2];
    struct counter          counters[];
};

struct shared {
    struct head *head;
    size_t       bytes, slot;
    int          rank, size;
    uint64_t     meetings, rounds, call; /* call: what this rank is in, in a number */
    int          differs;                /* a rank that is in something else; -1: none */
};

static size_t
slot_bytes(int size)
{
    return size * SHARE > SLOT ? (size_t)size * SHARE : SLOT;
}

static size_t
head_bytes(int size)
{
    size_t bytes = sizeof(struct head) + (size_t)size * sizeof(struct counter);
    return (bytes + 4095) / 4096 * 4096;
}

static void
read_boot(char boot[40])
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    memset(boot, 0, 40);
    if (file == NULL)
        return;
    if (fgets(boot, 40, file) == NULL)
        boot[0] = '\0';
    fclose(file);
}

static struct head *
map(int descriptor, size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* Rank 0. All of it is there from the start: a page that is missing later would end the process. */
static struct head *
make(struct address *address, size_t bytes)
{
    struct head *head = NULL;
    read_boot(address->boot);
    address->process    = (long)getpid();
    address->bytes      = bytes;
    address->descriptor = memfd_create("ringside-mpi", MFD_CLOEXEC);
    if (address->boot[0] == '\0' || address->descriptor < 0)
        return NULL;
    if (getrandom(address->cookie, sizeof address->cookie, 0) == (ssize_t)sizeof address->cookie &&
        posix_fallocate(address->descriptor, 0, (off_t)bytes) == 0)
        head = map(address->descriptor, bytes);
    if (head != NULL)
        memcpy(head->cookie, address->cookie, sizeof head->cookie);
    return head;
}

/* On another machine, or in another container, the name means something else, or nothing. */
static struct head *
find(const struct address *address)
{
    char        boot[40], path[64];
    struct stat status;
    read_boot(boot);
    if (boot[0] == '\0' || memcmp(boot, address->boot, sizeof boot) != 0)
        return NULL;
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", address->process, address->descriptor);
    int descriptor = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return NULL;
    bool         is_file = fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
    bool         is_it   = is_file && (uint64_t)status.st_size == address->bytes;
    struct head *head    = is_it ? map(descriptor, address->bytes) : NULL;
    close(descriptor);
    if (head != NULL && memcmp(head->cookie, address->cookie, sizeof head->cookie) != 0) {
        munmap(head, address->bytes);
        return NULL;
    }
    return head;
}

struct shared *
shared_new(MPI_Comm comm, int rank, int size)
{
    struct address address = { .descriptor = -1 };
    size_t         bytes   = head_bytes(size) + (size_t)size * 2 * slot_bytes(size);
    struct shared *shared  = NULL;
    struct head   *head    = NULL;
    if (size < 2 || size > MOST_RANKS)
        return NULL;
    if (rank == 0)
        head = make(&address, bytes);
    int all = MPI_Bcast(&address, sizeof address, MPI_BYTE, 0, comm) == MPI_SUCCESS;
    if (rank != 0 && all && address.bytes == bytes)
        head = find(&address);
    if (head != NULL)
        shared = malloc(sizeof *shared);
    int mine = shared != NULL;
    if (MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm) != MPI_SUCCESS)
        all = 0;
    if (rank == 0 && address.descriptor >= 0)
        close(address.descriptor);
    if (shared != NULL)
        *shared = (struct shared){ .differs = -1, .head = head, .bytes = bytes, .slot = slot_bytes(size),
                                   .rank = rank, .size = size };
    if (shared != NULL && all)
        return shared;
    if (head != NULL)
        munmap(head, bytes);
    free(shared);
    return NULL;
}

void
shared_free(struct shared *shared)
{
    if (shared == NULL)
        return;
    munmap(shared->head, shared->bytes);
    free(shared);
}

size_t
shared_room(const struct shared *shared)
{
    return shared->slot;
}

char *
shared_slot(const struct shared *shared, int rank, uint64_t round)
{
    return (char *)shared->head + head_bytes(shared->size) + ((size_t)rank * 2 + round % 2) * shared->slot;
}

/* Whoever fills a slot of round k has met all in round k - 1, and they came there when they had done with round k
 * - 2. */
uint64_t
shared_round(struct shared *shared)
{
    return ++shared->rounds;
}

/* Equal where ranks call the same: reading each other's memory they would not notice. */
void
shared_call(struct shared *shared, const struct transport_call *call)
{
    uint64_t bytes  = call->operation != TRANSPORT_REDUCE_SCATTER ? call->span.bytes : 0; /* there parts may differ */
    shared->differs = -1;
    shared->call    = (uint64_t)call->operation | (uint64_t)call->op << 8 | (uint64_t)call->dtype << 16 |
                   (uint64_t)(call->root & 0xff) << 24 | bytes << 32;
}

int
shared_differs(const struct shared *shared)
{
    return shared->differs;
}

/* What a rank calls is written before it comes, and not again before all have come to the next meeting. */
bool
shared_meet(struct shared *shared, struct patience *patience)
{
    uint64_t meeting = ++shared->meetings;
    atomic_store_explicit(&shared->head->counters[shared->rank].calls[meeting % 2], shared->call, memory_order_relaxed);
    atomic_store_explicit(&shared->head->counters[shared->rank].come, meeting, memory_order_release);
    for (int i = 0; i < shared->size; i++) {
        patience->looks = patience->asked = 0;
        while (atomic_load_explicit(&shared->head->counters[i].come, memory_order_acquire) < meeting)
            if (!patience_look(patience))
                return false;
        if (atomic_load_explicit(&shared->head->counters[i].calls[meeting % 2], memory_order_relaxed) != shared->call)
            shared->differs = i;
    }
    return shared->differs < 0;
}
