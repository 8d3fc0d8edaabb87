/* How ranks that know nothing of each other meet: from an address to a store, this rank and the world's size.
 * torch.distributed.rendezvous; init_process_group's init_method.
 *
 *   env://                                 RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT of the environment: a TCP store
 *   tcp://HOST:PORT?rank=R&world_size=W    a TCP store, which rank 0 serves
 *   file:///PATH?rank=R&world_size=W       a file store */
#ifndef C10D_RENDEZVOUS_H
#define C10D_RENDEZVOUS_H
#include <stdbool.h>
#include <stdint.h>

struct task; struct store;

struct rendezvous_environment { const char *rank, *world_size, *master_addr, *master_port; }; /* NULL: not set */
struct rendezvous_options {
    int64_t  rank, world_size;   /* < 0: not given; else they must not stand in the address */
    uint64_t timeout_ps;         /* STORE_TIMEOUT: the usual */
    bool     trusted;            /* as for the stores */
    const struct rendezvous_environment *environment; /* NULL: the process's */
};
struct rendezvous { struct store *store; int64_t rank, world_size; };

/* The caller owns the store. false: failed. */
/* Says who is who and goes nowhere: no store. */
bool rendezvous_place(struct task *me, const char *address, const struct rendezvous_options *options,
                      struct rendezvous *met);
bool rendezvous(struct task *me, const char *address, const struct rendezvous_options *options, struct rendezvous *met);
#endif
