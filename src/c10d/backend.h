/* The door to process groups: what a back-end does for them, and what it may ask. A back-end moves elements between
 * ranks and nothing else: numbering the calls, comparing them, queueing them on the comm task, waiting for them and
 * saying why one is lost lie above this table, once for all back-ends. `local` (local.c) fills it for ranks that are
 * tasks of one process. Every slot is filled: what a back-end lacks is a function that fails with "not supported by
 * NAME", so no caller tests for NULL. PyTorch: c10d::Backend, as ProcessGroupGloo and ProcessGroupNCCL fill it.
 *
 * For all slots: an error is recorded in `me` and the answer is false or NULL; the caller holds no monitor; what may block
 * waits in work_await or monitor_wait and nowhere else, so that a deadlock is known and explained. */
#ifndef C10D_BACKEND_H
#define C10D_BACKEND_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "c10d/group.h"
#include "sched/sched.h"

struct store; struct event; struct inbox; struct nccl_way; struct repeat; struct task; struct tensor; struct work;

enum operation {
    OPERATION_ALL_REDUCE, OPERATION_BROADCAST, OPERATION_REDUCE, OPERATION_ALL_GATHER, OPERATION_GATHER,
    OPERATION_SCATTER, OPERATION_REDUCE_SCATTER, OPERATION_ALL_TO_ALL, OPERATION_BARRIER, OPERATION_SEND, OPERATION_RECV
};

/* One collective of one rank, as its back-end sees it. It belongs to the work, which keeps the tensors until the
 * back-end's function has returned; `options` are the caller's, checked by the back-end's `accepts`. All tensors are
 * contiguous; the host has waited for their streams, unless the back-end is on_devices. Ranks, here and in options.root,
 * are those of the group.
 *
 *                    tensor        inputs             outputs
 *   all_reduce       in place      -                  -
 *   broadcast        in place      -                  -
 *   reduce           in place      -                  -                  unchanged on ranks other than the root
 *   all_gather       mine          -                  one a rank         they may differ in length
 *   gather           mine          -                  one a rank: root   like mine
 *   scatter          becomes mine  one a rank: root   -                  like mine
 *   reduce_scatter   becomes mine  one a rank         -                  they may differ in length; stay as they are
 *   all_to_all       -             one a rank         one a rank         they may differ in length
 *   barrier          -             -                  -                                                      */
struct collective {
    struct work              *work;      /* for work_await */
    void                     *channel;   /* what `connect` answered */
    enum operation            operation;
    int64_t                   sequence;  /* its number, equal on all ranks */
    int                       rank, ranks;
    struct tensor            *tensor;
    struct tensor           **inputs, **outputs; /* `ranks` each; NULL: none */
    bool                      in_one;            /* reduce_scatter: the inputs are pieces of one tensor, in order, and
                                                    are added as an all-reduce of that would, in its order */
    struct tensor            *gathered;          /* all_gather into one tensor instead of outputs: part r is rank r's */
    int64_t                   bytes, elements;   /* of `tensor`; reduce_scatter, all_to_all: of all inputs together */
    struct event             *ready;             /* on_devices: the tensors' stream has to come so far first; NULL: to
                                                    where it is now, where they are a device's */
    struct collective_options options;
};

/* One end of a send or recv: pairs up with the other end by the tag, in the order in which both were posted. */
struct post {
    const struct process_group *group;   /* mine */
    void          *channel;
    const char    *name;                 /* "send", "irecv": what was called */
    bool           is_send, is_later;    /* is_later: isend or irecv, so the host goes on meanwhile */
    int            rank, peer;           /* mine, the other end's: ranks of the group. A recv's ANY_SOURCE becomes the
                                            sender's */
    int64_t        tag;                  /* below 0: it belongs to a collective */
    struct tensor *tensor;
    struct event  *event;                /* the tensor's device has come so far; NULL: host memory */
    uint32_t       line, flow;           /* flow: the sender's arrow; `recv` learns it from the other end */
    uint64_t       recorded;             /* its number in the group's recorder; 0: it is not there */
    uint32_t       version;              /* is_later: the tensor's, when it was posted */
    char           detail[72];           /* of its wait, for people: what is not as usual, "tag 7 of group 2" */
    struct transport_request *request;   /* remote_post.c's: between processes; NULL: between tasks */
    bool           is_over;              /* of it */
    struct nccl_way *way;                /* nccl_post.c's: through NCCL; NULL */
    uint64_t       turn;                 /* among its end's messages there */
    /* The back-end's own, zero before `post`: here, so that a post needs no memory. As `local` uses them: */
    struct inbox  *inbox;
    struct post   *next, *before, *mate;
    struct monitor monitor;              /* where its task waits until it is `called` */
    bool           called, met, ready, done, abandoned, refused;
    bool           lost;                 /* its message was, as `detail` says */
    bool           killed;               /* abandoned, since the other end's rank was */
    struct repeat *repeat;               /* this is one; NULL */
    uint64_t       since, arrival;       /* a receive's: when it was ready, when it had the message */
    int            why_kind;             /* abandoned within a collective: the kind of the other end's error */
    char           why[240];             /* and what it was; refused: what does not fit */
};

/* How the members of a group meet, where that takes more than memory. */
struct communicator;
struct group_meeting {
    uint64_t                   id;           /* the group's, equal on all its members, of no other */
    int                        rank;         /* mine in it */
    const char                *what;         /* the call, for messages */
    uint64_t                   timeout_ps;   /* 0: the run's */
    struct store              *store;        /* all members'; NULL: they share memory */
    const struct communicator *communicator; /* for communicator_is_lost */
};

enum { GROUP_BACKEND_ABI = 7 };

struct group_backend {
    uint32_t    abi;                     /* GROUP_BACKEND_ABI of the header that it was built with */
    bool        on_devices;              /* it moves elements of devices itself, in their streams (nccl); else it finds
                                            them in the host's memory, or in mirrors of it (mirrored.c) */
    const char *name;                    /* "local": as init_process_group and --backend spell it */

    /* What the ranks of a world share, called transport from here on. On the spawner's task, before its first rank
     * starts and after its last was joined. Neither may block. */
    void *(*open)(struct task *me, const struct world_options *options);
    void  (*close)(struct task *me, void *transport);            /* does not fail */
    /* Whoever waits in this back-end looks again whether it waits in vain: a rank has ended or a collective is broken.
     * On any task, often in vain; may not block or fail. */
    void  (*wake)(struct task *me, void *transport);

    /* What the members of a group share, called channel from here on: made by the first of them to come, let go when the
     * world ends. `ranks` are the members' in the world, in order of their ranks in the group; it outlives the channel.
     * Neither may block. NULL: failed. */
    void *(*connect)(struct task *me, void *transport, const int *ranks, int size);
    /* All members have come; each calls it once, on its own task, before any other slot with the channel. May block. */
    bool  (*meet)(struct task *me, void *channel, const struct group_meeting *meeting);
    void  (*disconnect)(struct task *me, void *channel);         /* does not fail */

    /* Whether it can do this, asked on the calling rank's task before the call has a number; may not block. */
    bool  (*accepts)(struct task *me, const struct collective *call);
    /* Whether this call is done where the tensors lie, on real devices: no mirrors. Equal on all ranks; may not block. */
    bool  (*stays)(struct task *me, const struct collective *call);
    bool  (*has_algorithm)(const char *name);    /* an all-reduce of that name is built in */

    /* On the rank's comm task, one at a time in the order of issue, which is equal on all ranks. They block until this
     * rank's part is done, and open the stage of the collective. After false the group's later collectives are lost. */
    bool  (*all_reduce)(struct task *me, const struct collective *call);
    bool  (*broadcast)(struct task *me, const struct collective *call);  /* from options.root */
    bool  (*reduce)(struct task *me, const struct collective *call);     /* to options.root */
    bool  (*all_gather)(struct task *me, const struct collective *call);
    bool  (*gather)(struct task *me, const struct collective *call);     /* to options.root */
    bool  (*scatter)(struct task *me, const struct collective *call);    /* from options.root */
    bool  (*reduce_scatter)(struct task *me, const struct collective *call);
    bool  (*all_to_all)(struct task *me, const struct collective *call);
    bool  (*barrier)(struct task *me, const struct collective *call);

    /* Point to point. `post` stands in line for its other end, on the calling rank's task, so that the order of the
     * calls counts; it may not block. After true exactly one of the others follows: `send` or `recv`, which block
     * until the elements have moved, on that task or on an isend's own; or `withdraw`, when there is no such task. */
    bool  (*post)(struct task *me, struct post *post);
    bool  (*send)(struct task *me, struct post *post);
    bool  (*recv)(struct task *me, struct post *post);
    void  (*withdraw)(struct task *me, struct post *post);       /* may not block; the peer learns it */
};

extern const struct group_backend backend_local, backend_nccl;

/* ---- what a back-end may ask ---- */

/* Waits in `monitor`, which me is in, for what rank `peer` of the group (-1: many) does in this collective. true: look again. false:
 * failed, since nobody will wake us any more (a lost rank, a deadlock, a timeout), and the monitor was left. */
bool work_await(struct task *me, struct work *work, struct monitor *monitor, int peer)
    __attribute__((warn_unused_result));
/* What the next waits of this rank in it wait for was lost: words that say so, and outlive them; NULL: it was not. */
void work_wait_lost(struct work *work, const char *words);
struct wait_reason work_reason(const struct work *work, int peer);   /* of a wait for that rank of the group; -1: for many */
bool work_is_lost(const struct work *work);                  /* it is waited for in vain */
bool work_say_lost(struct task *me, struct work *work);      /* records why, answers false */
bool work_has_lost_members(const struct work *work);         /* one has ended, though its part in it may be over */
bool work_say_ended(struct task *me, const struct work *work);      /* that this is why it does not end; answers false */
bool work_say_difference(struct task *me, const struct work *work); /* whether ranks call differently; records it then */
bool communicator_is_lost(const struct communicator *communicator);   /* a member has ended */
bool communicator_say_lost(struct task *me, const struct communicator *communicator);
int  communicator_number(const struct communicator *communicator);    /* the group's; 0: the default group's */
bool     group_rank_has_ended(const struct process_group *group, int rank); /* it will send and receive no more */
bool     group_rank_was_killed(const struct process_group *group, int rank); /* that is why; -1: no */
/* It will post nothing more with that tag: it has ended, or its part of the collective is over. */
bool     group_rank_is_through(const struct process_group *group, int rank, int64_t tag);
bool     group_gives_up(const struct process_group *group, int64_t tag);  /* the collective of a message with that tag */
bool     group_say_why(struct task *me, const struct process_group *group); /* records why it does, answers false */
/* Nobody will be this post's other end; in these words unless the run is told more. Records why, answers false. */
bool     post_in_vain(struct task *me, const struct post *post, const char *words);
uint64_t group_timeout_ps(const struct process_group *group);               /* of one wait; 0: the run's */
#endif
