/* The door to NCCL: what the CUDA plug-in does with it for the back-end nccl (c10d/nccl.c). NCCL moves elements
 * between GPUs and nothing else; who has to come, for how long he is waited for and what is said when he does not
 * lie on this side. A communicator is one rank's end of a group, on one GPU; no call waits: each begins something,
 * and `poll` says how far it has come. NCCL has no deadlines, so who waits has.
 *
 * Order of use: version; profile, before the first join; rank 0 of a group makes its id, all join with it and poll
 * until READY; launch and poll until READY; destroy, or abort where anything has failed. A plug-in that has this
 * table exports it beside the device's. In it an error is one sentence for people, with what to do.
 *
 * Threads: one communicator by one thread at a time, several at once. In PyTorch: NCCLComm (torch/csrc/distributed/
 * c10d/NCCLUtils.hpp). */
#ifndef C10D_NCCL_TABLE_H
#define C10D_NCCL_TABLE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "device/backend.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { NCCL_TABLE_ABI = 1, NCCL_ID_BYTES = 128, NCCL_NAME = 32 };
#define NCCL_TABLE_SYMBOL "ringside_nccl_1"   /* a struct nccl_table, of a plug-in */

struct nccl_id { unsigned char bytes[NCCL_ID_BYTES]; };

struct nccl_comm;

struct nccl_member {
    const struct nccl_id  *id;
    int                    rank, size;   /* in the group */
    int                    number;       /* the group's, for people and records: "group 3" */
    struct backend_stream *stream;       /* what it launches goes there; it outlives the communicator */
};

/* In the order of the engine's own: base/dtype.h. */
enum nccl_dtype { NCCL_F32, NCCL_F64, NCCL_I64, NCCL_BOOL, NCCL_I32, NCCL_U8, NCCL_F16, NCCL_BF16, NCCL_I8,
                 NCCL_DTYPES };

/* AVG rounds as NCCL does: fractions are multiplied by 1 / ranks before they are added, whole numbers divided after.
 * PREMUL_SUM multiplies by `factor` first. */
enum nccl_reduce { NCCL_SUM, NCCL_PRODUCT, NCCL_MIN, NCCL_MAX, NCCL_AVG, NCCL_PREMUL_SUM };

/* One of NCCL's own operations. `count`: elements of
 *
 *                    send            recv               count                peer
 *   all_reduce       mine            may be the same    all                  -
 *   broadcast        the root's      may be the same    all                  the root
 *   reduce           mine            the root's         all                  the root
 *   all_gather       mine            all in order       of one rank          -
 *   reduce_scatter   all in order    mine               of one rank          -
 *   send             mine            -                  all                  to whom; perhaps oneself
 *   recv             -               mine               all                  from whom; perhaps oneself
 *   barrier          -               -                  -                    -     an all_reduce of one element      */
enum nccl_kind { NCCL_ALL_REDUCE, NCCL_BROADCAST, NCCL_REDUCE, NCCL_ALL_GATHER, NCCL_REDUCE_SCATTER, NCCL_SEND,
                NCCL_RECV,
                 NCCL_BARRIER };
struct nccl_operation { enum nccl_kind kind; const void *send; void *recv; size_t count; int peer; };

/* Operations that are one to NCCL: in one group where there are several, so that sends need not wait for receives. */
struct nccl_launch {
    const struct nccl_operation *operations;
    int                          count;
    enum nccl_dtype              dtype;
    enum nccl_reduce             reduce;
    uint64_t                     factor;      /* PREMUL_SUM: its first bytes are one element of `dtype` */
};

enum nccl_state { NCCL_BUSY, NCCL_READY, NCCL_FAILED };

/* What NCCL's profiler interface told: when something was done, and where. Times are nanoseconds of the clock that
 * `profile` was given, where NCCL's own thread saw it; a channel's are the GPU's stamps, turned into that clock. */
enum nccl_record_kind {
    NCCL_RECORD_COLLECTIVE,   /* as it was queued: its end is not when it was done */
    NCCL_RECORD_P2P,
    NCCL_RECORD_GROUP,        /* of operations between ncclGroupStart and ncclGroupEnd */
    NCCL_RECORD_CHANNEL,      /* the kernel's work on one channel */
    NCCL_RECORD_PROXY,        /* the network thread's work on one channel for one peer */
    NCCL_RECORD_STEP,         /* one message over the network */
    NCCL_RECORD_COPY_ENGINE   /* a collective that copy engines do */
};
struct nccl_record {
    enum nccl_record_kind kind;
    uint64_t comm;                /* NCCL's number of it, equal on all its ranks */
    int      number, rank, ranks; /* of the group: struct nccl_member's, -1: nobody said so */
    uint64_t sequence;            /* NCCL's own count of collectives in `comm`; of what this belongs to */
    char     function[24], dtype[16], algorithm[16], protocol[12];   /* "AllReduce", "ncclFloat32", "RING",
        "SIMPLE"; "": not told */
    uint64_t bytes;
    int      channels, channel;   /* how many; which one. -1: not told */
    int      peer;                /* rank of the group; -1: none */
    int      step;                /* of a message among those of its channel; -1: none */
    bool     is_send;
    uint64_t begin, end;          /* ns */
    uint64_t wait_gpu, wait_peer,
        wait_net;   /* a message's: ns that it waited for the kernel, for its receiver's credit, for
                                                 the network */
    bool     is_cut;              /* it never ended: the communicator went first */
};

struct nccl_table {
    uint32_t abi, size;           /* NCCL_TABLE_ABI, sizeof(struct nccl_table) */
    bool     on_host;             /* it works on the memory of virtual devices: a stream may be NULL */

    /* "NCCL 2.28.9", opened at the first call; NULL: `why`. */
    const char *(*version)(struct backend_why *why);
    int  (*gpus)(void);           /* that this process may use; 0: none */
    int  (*physical)(const struct backend_stream *stream);      /* on which of them it is */

    /* What NCCL tells its profiler becomes records, in this clock, until it is called with NULL; false: it does not. */
    bool (*profile)(const struct backend_host *host, struct backend_why *why);
    /* In order of their ends; answers how many. `lost`: dropped since the last call, as nobody took them. */
    size_t (*records)(struct nccl_record *out, size_t room, uint64_t *lost);

    bool (*make_id)(struct nccl_id *id, struct backend_why *why);
    /* NULL: failed. READY when all ranks have joined. */
    struct nccl_comm *(*join)(const struct nccl_member *member, struct backend_why *why);
    /* What was asked of it last. FAILED: `why`; then abort is all that is left. */
    enum nccl_state (*poll)(struct nccl_comm *comm, struct backend_why *why);
    /* Queued in the communicator's stream; READY: the GPU has done it. Only when the last one is READY. */
    bool (*launch)(struct nccl_comm *comm, const struct nccl_launch *launch, struct backend_why *why);
    /* Stops what is under way on this GPU and frees; all other ranks' have to be aborted as well. */
    void (*abort)(struct nccl_comm *comm);
    void (*destroy)(struct nccl_comm *comm);   /* nothing is under way */
};
#ifdef __cplusplus
}
#endif
#endif
