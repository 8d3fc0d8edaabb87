/* The door to plug-ins that move bytes between processes: Gloo, Open MPI. A transport knows memory, sizes and peers, no
 * tensor, no task and no trace; numbering calls, saying why one is lost and telling events lies on this side of it
 * (remote.c), once for all transports. One process is one rank. Plug-ins may be C or C++, export one symbol,
 * `ringside_transport_1`, and include this header alone of c10d.
 *
 * Threads. Everything about one channel that blocks (connect, run) is called by one thread at a time; send, recv, test and
 * cancel by any, several at once. Whoever blocks asks its waiter between two looks, at least every few milliseconds, and
 * gives up at once when that says so.
 *
 * Errors: false (or TRANSPORT_FAILED) and one sentence for people in `why`, without the transport's name, files or lines
 * ("the connection to rank 2 was reset"). No exception, abort or exit leaves a plug-in. */
#ifndef C10D_TRANSPORT_H
#define C10D_TRANSPORT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TRANSPORT_ABI = 1, TRANSPORT_WHY = 300, TRANSPORT_ANY = -1 };

struct transport_why { char text[TRANSPORT_WHY]; };

/* A message of a transport's own algorithm, as it goes by: ranks of the channel. */
struct transport_hop {
    int         peer;        /* sent to, received from */
    bool        is_send;
    uint64_t    slot;        /* messages between two ranks with equal slots keep their order */
    const void *data;        /* where it is sent from, or has come to */
    size_t      bytes;
};

/* Who blocks on this side of the door. */
struct transport_waiter {
    void *context;
    /* Nothing has come in `looks` looks (0: the first): spins, yields or sleeps a moment. false: give up. */
    bool (*pause)(void *context, uint64_t looks);
    /* A message leaves (before), or is waited for (before), or has come (after). May be NULL: nobody wants to know. */
    void (*hop_begin)(void *context, const struct transport_hop *hop);
    void (*hop_end)(void *context, const struct transport_hop *hop);
};

/* Keys and values that all ranks see, for meeting; they wait for nobody but the store. */
struct transport_store {
    void *context;
    bool (*set)(void *context, const char *key, const void *bytes, size_t count);
    /* 1: `out` has it, *count bytes, the caller's to free(). 0: nobody has set it yet. -1: failed. */
    int  (*get)(void *context, const char *key, void **out, size_t *count);
};

/* Who this process is, as the transport's own launcher says. */
struct transport_place { int rank, size, local_rank, local_size; };

struct transport_options {
    int                            rank, size;
    const char                    *host;        /* this process's own name or address towards the others; NULL: loopback */
    uint64_t                       timeout_ms;  /* of meeting; 0: 30 minutes */
    const struct transport_store  *store;
    const struct transport_waiter *waiter;
};

struct transport_channel_options {
    const char                    *name;        /* of the group, the same on its ranks, of no other group of the job */
    const int                     *ranks;       /* of the job, by rank in the channel; outlive it */
    int                            size, rank;  /* rank: mine in the channel */
    const struct transport_waiter *waiter;      /* while connecting */
    const struct transport_store  *store;
    uint64_t                       timeout_ms;
};

enum transport_operation {
    TRANSPORT_ALL_REDUCE, TRANSPORT_BROADCAST, TRANSPORT_REDUCE, TRANSPORT_ALL_GATHER, TRANSPORT_GATHER,
    TRANSPORT_SCATTER, TRANSPORT_REDUCE_SCATTER, TRANSPORT_ALL_TO_ALL, TRANSPORT_BARRIER, TRANSPORT_OPERATIONS
};
/* The numbers of enum dtype (base/dtype.h) and of the first eight of enum reduce_op (c10d/group.h). */
enum transport_dtype { TRANSPORT_F32, TRANSPORT_F64, TRANSPORT_I64, TRANSPORT_BOOL, TRANSPORT_I32, TRANSPORT_U8,
                       TRANSPORT_F16, TRANSPORT_BF16, TRANSPORT_I8 };
enum transport_reduce { TRANSPORT_SUM, TRANSPORT_AVG, TRANSPORT_PRODUCT, TRANSPORT_MIN, TRANSPORT_MAX, TRANSPORT_BAND,
                        TRANSPORT_BOR, TRANSPORT_BXOR };

/* Some elements of one dtype in a row; NULL where there are none. */
struct transport_span { void *data; size_t bytes; };

/* One collective of one rank. What it reads and changes:
 *
 *                    span            inputs             outputs
 *   all_reduce       in place        -                  -
 *   broadcast        in place        -                  -
 *   reduce           in place        -                  -                  what others than the root have in it is as before
 *   all_gather       mine            -                  one a rank         they may differ in length: rank r's is outputs[r].bytes long
 *   gather           mine            -                  one a rank: root   equal in length
 *   scatter          becomes mine    one a rank: root   -                  equal in length
 *   reduce_scatter   becomes mine    one a rank         -                  they may differ in length; stay as they are
 *   all_to_all       -               one a rank         one a rank         they may differ in length
 *   barrier          -               -                  -                                                             */
struct transport_call {
    enum transport_operation     operation;
    enum transport_dtype         dtype;
    size_t                       element;         /* bytes of one */
    enum transport_reduce        op;              /* never AVG: the caller divides */
    int                          root;
    uint64_t                     number;          /* counts up with each call of the channel, equal on all ranks */
    struct transport_span        span;
    const struct transport_span *inputs, *outputs;
    /* into[i] = into[i] op from[i], rounded as the engine rounds. From any thread. */
    void                       (*reduce)(const struct transport_call *call, void *into, const void *from, size_t bytes);
    const struct transport_waiter *waiter;
};

enum transport_state { TRANSPORT_PENDING, TRANSPORT_DONE, TRANSPORT_FAILED };

/* A message under way; the caller's memory, zeroed before send or recv, in one place until it is DONE, FAILED or cancelled. */
struct transport_request {
    void                *own[6];      /* the transport's */
    int                  peer;        /* recv from TRANSPORT_ANY: becomes the sender */
    size_t               bytes;       /* recv: becomes what came, at most what there was room for */
    struct transport_why why;         /* FAILED */
};

struct transport {
    uint32_t    abi;                  /* TRANSPORT_ABI of the header it was built with */
    const char *name;                 /* "gloo", "mpi": as --backend spells it */
    const char *version;              /* of the library, for `ringside devices` */

    /* Its own launcher started this process: says who it is, and may be asked before open, once, before other threads run.
     * false, `why` empty: it was not started so. false with `why`: it was, but cannot run so. */
    bool (*place)(struct transport_place *place, struct transport_why *why);
    /* Hands the bytes of rank 0 to all ranks of a job that its own launcher started: where the store is. Blocks. May not be
     * there (NULL) where `place` always answers false. */
    bool (*tell_all)(void *bytes, size_t count, struct transport_why *why);

    void *(*open)(const struct transport_options *options, struct transport_why *why);       /* NULL: failed. Waits for nobody */
    void  (*close)(void *transport);                          /* all channels are disconnected; waits for nobody that is dead */
    /* Meets the other members: blocks until all are connected. NULL: failed, or the waiter gave up. */
    void *(*connect)(void *transport, const struct transport_channel_options *options, struct transport_why *why);
    /* `broken`: a peer is dead or a call was given up. Then nothing waits, and what cannot be freed safely is left. */
    void  (*disconnect)(void *channel, bool broken);

    /* Whether `run` does it. What it does not, the caller makes of messages. */
    bool (*has)(enum transport_operation operation, enum transport_dtype dtype, enum transport_reduce op);
    /* false: failed; or the waiter gave up, `why` is empty, and the channel is good for nothing more. */
    bool (*run)(void *channel, const struct transport_call *call, struct transport_why *why);

    /* Messages keep their order between two ranks of a channel for each tag; a receive takes the first that fits. A send may be DONE
     * before it was received. A message that is longer than there is room for fails the receive. Tags: 0 to 2^30 - 1. */
    bool (*send)(void *channel, int peer, uint32_t tag, const void *data, size_t bytes, struct transport_request *request);
    bool (*recv)(void *channel, int peer, uint32_t tag, void *data, size_t bytes, struct transport_request *request);
    enum transport_state (*test)(void *channel, struct transport_request *request);
    /* Nobody waits for it any more: its memory is not touched from here on. */
    void (*cancel)(void *channel, struct transport_request *request);
};

/* The one symbol of a plug-in. */
#define TRANSPORT_SYMBOL "ringside_transport_1"

#ifdef __cplusplus
}
#endif
#endif
