/* What the files of the `local` back-end share: ranks are tasks of one process, every hop of every algorithm is
 * traced. They know of process groups what backend.h says, as any back-end does.
 *
 *   local.c  the table    ring.c  all-reduce, all-gather    tree.c  broadcast and barrier    post.c  send, recv
 *   reduce_scatter.c  and reduce    gather.c  and scatter    alltoall.c
 *   hop.c    one step of any of them    link.c  messages between two ranks    reduce.c  elements
 *
 * Groups may be in flight at once: each has links of its own, so that their messages do not mix, over wires that all
 * share. Ranks of links are those of the group; wires, events and messages to people know the world's.
 * Monitors nest in this order only: the transport's, a channel's, a link's. */
#ifndef C10D_LOCAL_H
#define C10D_LOCAL_H
#include "base/map.h"
#include "c10d/backend.h"
#include "sched/sched.h"
#include "tensor/tensor.h"

/* The transport of a world. */
struct local {
    struct sched   *sched;
    struct monitor  monitor;     /* of what follows */
    int             size;
    struct map      wires;       /* by from * size + to, made when first used */
    struct channel *channels;
    bool            hops_off;    /* hop events are switched off as long as it lives */
};

/* What one group has of it. */
struct channel {
    struct channel *next;        /* in the transport's list */
    struct local   *local;
    const int      *ranks;       /* in the world; the communicator's */
    int             size;
    struct monitor  monitor;     /* of what follows */
    struct map      links;       /* by from * size + to, made when first used */
    struct link    *first_link;
    /* The barrier: ranks that have come to the one that is due, those that have opened, and when the last one did. The
     * next cannot open before all have left this one. */
    int             arrived;
    uint64_t        opened, open_at;
};

/* ---- links: one per ordered pair of ranks of a group ---- */

/* Which all groups share: when it is free again, in ps. In `stepped` only: in `free` there are no prices. */
struct wire { uint64_t free_at; };

struct link {
    struct link   *next;             /* in the channel's list */
    struct sched  *sched;
    struct wire   *wire;
    struct monitor monitor;
    int            from, to;         /* ranks of the group */
    int            sender, receiver; /* the same ranks in the world */
    bool           full;             /* one message in flight */
    void          *data;
    size_t         bytes, room;
    uint64_t       arrival;
    uint32_t       flow;
    struct post   *posts[2];         /* without a mate yet: recvs, sends */
};

struct link *link_between(struct task *me, struct channel *channel, int from, int to);  /* NULL: failed */
void         link_free(struct link *link);
/* When a message of `bytes` that leaves now or as soon as the wire is free arrives. In the link's monitor. */
uint64_t     link_depart(struct task *me, struct link *link, uint64_t bytes);

struct message { void *data; size_t bytes; uint32_t flow; uint64_t arrival; };
/* Hands a message to the link, as soon as the last one was taken; `arrival` is set. Does not wait for it to arrive. */
bool link_put(struct task *me, const struct collective *call, struct link *link, struct message *message);
/* Waits for the next message of just so many bytes; me's clock rises to its arrival; `flow` is set. Its elements
 * replace those at message->data, or are reduced into them. */
struct reduction { bool on; enum reduce_op op; int dtype; };
bool link_take(struct task *me, const struct collective *call, struct link *link, struct message *message,
               const struct reduction *reduction);

/* ---- hops ---- */

struct hop {
    int            chunk;          /* of the one that is sent, or else received: as the algorithm counts them */
    bool           even_empty;     /* empty messages travel too: both ends see that they agree */
    bool           reduce;         /* what comes is reduced into what `receive` points to */
    struct link   *out, *in;       /* NULL: nothing is sent, received */
    struct message send, receive;  /* where the elements are; empty ones do not travel otherwise */
    bool         (*received)(struct task *me, struct hop *hop);  /* NULL; or called when the elements are there */
    void          *context;        /* its own */
};
bool hop_run(struct task *me, const struct collective *call, struct hop *hop);

/* ---- algorithms, each a slot of the table ---- */
bool local_all_reduce(struct task *me, const struct collective *call);
bool local_all_gather(struct task *me, const struct collective *call);
bool local_broadcast(struct task *me, const struct collective *call);
bool local_barrier(struct task *me, const struct collective *call);
bool local_reduce(struct task *me, const struct collective *call);
bool local_gather(struct task *me, const struct collective *call);
bool local_scatter(struct task *me, const struct collective *call);
bool local_reduce_scatter(struct task *me, const struct collective *call);
bool local_all_to_all(struct task *me, const struct collective *call);
bool local_post(struct task *me, struct post *post);
bool local_send(struct task *me, struct post *post);
bool local_recv(struct task *me, struct post *post);
void local_withdraw(struct task *me, struct post *post);

/* How Gloo cuts `bytes` for a ring of `size` ranks: chunk k begins at k times that; the last may be short or empty. */
int64_t gloo_chunk_bytes(int64_t bytes, int64_t element, int64_t size);

/* ---- elements ---- */
void  reduce_elements(const struct reduction *reduction, void *into, const void *from, size_t bytes);
void  reduce_average(int dtype, void *data, size_t bytes, int ranks);
void *tensor_elements(const struct tensor *tensor);                /* of a contiguous tensor */
/* The whole tensor is read, or written too, by the host: for the race checker. false: a race; failed. */
bool  tensor_touch(struct task *me, struct tensor *tensor, bool write, const char *what);
void  tensor_tell(struct task *me, struct tensor *tensor);         /* the trace learns its new elements */
void  tensor_paste(struct task *me, struct tensor *to, const struct tensor *from);
#endif
