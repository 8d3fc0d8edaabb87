/* What the files of the `local` back-end share: ranks are tasks of one process, every hop of every algorithm is
 * traced. They know of process groups what backend.h says, as any back-end does.
 *
 *   local.c  the table    all_reduce.c  its algorithms, a page each: ring.c, binomial.c, double_tree.c, naive.c,
 *   halving_doubling.c, hierarchical.c, direct.c    rehearsal.c  their prices
 *   tree.c  broadcast and barrier    post.c  send, recv
 *   reduce_scatter.c  and reduce    gather.c  and scatter    alltoall.c
 *   hop.c    one step of any of them    link.c  messages between two ranks    wire.c  when they arrive
 *   handover.c  messages between threads
 *   shared.c  direct where threads share memory    fused.c  the same on one GPU    nodes.c  who stands together    reduce.c  elements
 *
 * Groups may be in flight at once: each has links of its own, so that their messages do not mix, over wires that all
 * share. Ranks of links are those of the group; wires, events and messages to people know the world's.
 * Monitors nest in this order only: the transport's, a channel's, a link's or an inbox's, a post's. */
#ifndef C10D_LOCAL_H
#define C10D_LOCAL_H
#include <stdatomic.h>
#include "base/map.h"
#include "c10d/backend.h"
#include "hw/topology.h"
#include "sched/faults.h"
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
    bool            one_gpu;     /* fused.c's: all of the run's devices are one */
    bool            by_messages; /* `free`: also what could go through shared memory, since messages may be struck */
    struct job     *job;         /* remote.h; NULL: all ranks are tasks of this process */
    atomic_bool     nccl_broken; /* nccl.h: something failed there, so what is left of it is aborted */
    struct topology topology;
    struct nic     *nics;        /* by 2 * node: what leaves it, and at + 1 what comes; NULL: there is one node */
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
    struct map      inboxes;     /* by rank, made when first used */
    struct inbox   *first_inbox;
    /* The barrier: ranks that have come to the one that is due, those that have opened, and when the last one did. The
     * next cannot open before all have left this one. */
    int             arrived;
    uint64_t        opened, open_at;
    int             pauses;      /* `free`: spin_pauses for its ranks */
    struct shared  *shared;      /* `free`: where its ranks meet in memory; made when first used */
    const struct carrier  *carrier;
    struct remote_channel *remote;   /* remote.h; NULL: all its ranks are tasks of this process */
    struct nccl_channel   *nccl;     /* nccl.h; NULL: all elements go through the host's memory */
    struct map             hop_counts, post_counts;   /* remote_hops.c's, remote_post.c's; in the monitor */
    struct map             cheapest;     /* `stepped`: all_reduce.c's table, by a tensor's bytes and elements; in the monitor */
    struct rehearsal      *rehearsal;    /* rehearsal.c's; NULL: messages go */
};

/* ---- wires: when messages arrive. In `stepped` only: in `free` there are no prices ---- */

/* One per ordered pair of ranks, which all groups share: one transfer at a time. */
struct wire {
    int              from, to;       /* ranks of the world */
    uint64_t         free_at;        /* ps: when the last transfer whose end is known has arrived */
    struct transfer *first, *last;   /* between nodes: the one under way, then those that wait for it */
};

/* A node's network card, one direction: who is under way shares its bandwidth. */
struct nic { struct transfer *first; int count; };

/* One message on its way. Between nodes its end changes whenever another one begins or ends at one of its two cards. */
struct transfer {
    struct sched_source source;      /* first: fires when it may begin, then when all its bytes are through */
    struct local       *local;
    struct wire        *wire;
    struct monitor     *monitor;     /* woken when it has landed */
    struct transfer    *next;        /* on its wire */
    struct transfer    *next_at[2];  /* at its sender's card, at its receiver's */
    double              left;        /* bytes that are not through, at `since` */
    uint64_t            since, bytes;
    int                 sharers;     /* it has one such part of a card; 0: it has not begun */
    bool                landed;      /* `arrival` is known */
    uint64_t            arrival;
};

/* NULL: no memory. */
struct wire *wire_between(struct task *me, struct local *local, int from, int to);
/* A message of `bytes` leaves now, or as soon as the wire is free. It lands in `monitor`, in which me is, at once or later. */
void         transfer_begin(struct task *me, struct local *local, struct wire *wire, struct monitor *monitor,
                            uint64_t bytes, struct transfer *transfer);
uint64_t     wire_depart(struct task *me, struct wire *wire, uint64_t bytes);
/* Nobody waits for it any more, and its memory goes. */
void         transfer_cancel(struct task *me, struct transfer *transfer);

/* ---- links: one per ordered pair of ranks of a group ---- */

struct link {
    struct link   *next;             /* in the channel's list */
    struct sched  *sched;
    struct channel *channel;
    struct wire   *wire;
    struct monitor monitor;
    int            from, to;         /* ranks of the group */
    int            sender, receiver; /* the same ranks in the world */
    /* In `free` (handover.c): */
    atomic_uint    state;
    atomic_int     asleep;           /* who waits for it in the monitor */
    const void    *at;               /* where the message lies */
    bool           copied;           /* in the link's memory */
    /* In `stepped`: */
    bool           full;             /* one message in flight */
    void          *data;
    size_t         bytes, room;
    struct transfer transfer;        /* of that message */
    bool           wanted;           /* its receiver waits for one, since: */
    uint64_t       wanted_at;
    uint32_t       flow;
    /* Faults on purpose (sched/faults.h); in the monitor: */
    uint64_t       messages;         /* that went through it; remote_link.c's, with: */
    struct transport_request *sending;  /* NULL: nothing is under way */
    bool           lost, again;      /* nothing comes any more, and `why`; the message is there a second time */
    bool           shifted;          /* one was: its sender no longer waits until its last one was taken */
    uint64_t       late_ps;          /* it arrives so much later */
    char           why[72];
};

struct link *link_between(struct task *me, struct channel *channel, int from, int to);  /* NULL: failed */
void         link_free(struct task *me, struct link *link);
bool         link_room(struct task *me, struct link *link, size_t bytes);   /* at link->data; false: no memory */
void         link_forget(struct link *link);                                  /* that memory, if it is much */
/* Waits in the monitor, which was left if it answers false: the sender for room, the receiver for a message. */
bool         link_await(struct task *me, const struct collective *call, struct link *link, int peer);
void         link_lose(struct task *me, struct link *link, const struct fault_message *fault);   /* it, and what follows */
void         fault_words(const struct fault_message *fault, int from, int to, char *out, size_t size);
bool         link_misfit(struct task *me, const struct link *link, size_t sent, size_t expected);   /* false: failed */
/* in_turn: it leaves only when its receiver waits for it; both ends say so. in_place: nothing changes it until it has
 * landed, nor does the sender anything before that but take a message. first: the number of its first element in the
 * tensor that is cut in chunks. */
struct message { void *data; size_t bytes; int64_t first; uint32_t flow; bool in_turn, in_place; struct fault_message fault; };
/* Only the time that the message takes on the wire: its receiver takes it out of the sender's memory. */
bool link_carry(struct task *me, struct link *link, const struct message *message);
struct reduction { bool on; enum reduce_op op; int dtype; };

/* How messages go over a link: in virtual time (link.c), between threads (handover.c), between processes
 * (remote_link.c). */
struct carrier {
    /* Hands a message to the link, as soon as the last one was taken. Does not wait for it to arrive: `land` does. */
    bool (*put)(struct task *me, const struct collective *call, struct link *link, struct message *message);
    bool (*land)(struct task *me, const struct collective *call, struct link *link);
    /* Waits for the next message of just so many bytes; me's clock rises to its arrival; `flow` is set. Its elements
     * replace those at message->data, or are reduced into them. */
    bool (*take)(struct task *me, const struct collective *call, struct link *link, struct message *message,
                 const struct reduction *reduction);
    /* The sender fails: what it has put is not read any more from here on, unless it lies in the link's own memory. */
    void (*withdraw)(struct task *me, struct link *link);
    /* Of the message that is put next: both ends must know it. */
    uint32_t (*next_flow)(struct task *me, const struct link *link);
};
extern const struct carrier carrier_wires, carrier_threads;

/* ---- inboxes: one per rank of a group that sends and receives ---- */

/* A send that is there a second time: nobody runs it. `like`: what its tensor was; the elements follow. */
struct repeat { struct post post; struct tensor like; struct sched *sched; size_t bytes; };
bool repeat_send(struct task *me, const struct post *post);   /* false: failed */
void repeat_free(struct repeat *repeat);                      /* in no line any more */

/* Posts without a mate yet, in order of posting, by their tag. */
enum { LINES = 16 };
struct line { struct post *first, *last; };
struct inbox {
    struct inbox  *next;             /* in the channel's list */
    struct monitor monitor;
    struct line    lines[2][LINES];  /* receives by this rank, sends to it */
};
void inbox_wake(struct task *me, struct inbox *inbox);
void inbox_free(struct inbox *inbox);

/* ---- hops ---- */

struct hop {
    int            chunk;          /* of the one that is sent, or else received: as the algorithm counts them */
    bool           even_empty;     /* empty messages travel too: both ends see that they agree */
    bool           reduce;         /* what comes is reduced into what `receive` points to */
    bool           aside;          /* but not yet: the algorithm does it */
    bool           goes_on;        /* the sender does not wait until its message has arrived */
    struct link   *out, *in;       /* NULL: nothing is sent, received */
    struct message send, receive;  /* where the elements are; empty ones do not travel otherwise */
    int            dtype;          /* of the elements where it is direct */
    bool           direct;         /* `out` carries no elements: its receiver is there, who gets them from the sender */
    bool         (*carry)(struct task *me, struct hop *hop);     /* NULL; or what a direct one does instead of taking time */
    bool         (*received)(struct task *me, struct hop *hop);  /* NULL; or called when the elements are there */
    void          *context;        /* its own */
};
/* `call` may be NULL where the hop is direct. */
bool hop_run(struct task *me, const struct collective *call, struct hop *hop);
/* Once what came has changed call->tensor: small tensors in small worlds tell the trace their elements after each hop. */
void hop_tell(struct task *me, const struct collective *call);
bool hop_tells(const struct collective *call);

/* Some of call->tensor's elements. */
struct part { int64_t first, count; };
/* The `index`th of `parts` equal ones, the last of which may be shorter or empty: torch.chunk's rule. */
struct part    part_of(struct part whole, int index, int parts);
struct message part_message(const struct collective *call, struct part part);

/* A hop between ranks of the group that sends and receives parts of call->tensor. */
struct exchange {
    int         to, from;          /* -1: nobody */
    int         chunk;
    struct link *out, *in;         /* theirs; NULL: to be looked up */
    struct part send, receive;
    bool        reduce, goes_on, in_turn, in_place;
};
bool exchange_run(struct task *me, const struct collective *call, const struct exchange *exchange);

/* ---- all-reduce ---- */

/* How a tensor is cut in chunks, for the trace: in `parts`, each of `each` elements (0: as part_of cuts), and each of
 * them again `within` times (1: not; 0: `parts` are halves of halves). */
struct cut { int64_t parts, within, each; };
/* `stepped` only: the trace is told the algorithm's name, and how it cuts so many elements. */
void algorithm_announce(struct task *me, const char *name, int64_t elements, const struct cut *cut);

/* Leaves the reduction of all ranks' tensors in each of them, equal to the bit. The caller has checked that there is
 * more than one rank and an element, sees to AVG and PREMUL_SUM (here they are SUM), and tells the tensor's new version. */
struct algorithm {
    const char *name;
    bool      (*run)(struct task *me, const struct collective *call);
    struct cut (*cut)(const struct collective *call);     /* NULL: the tensor goes as a whole */
    bool        has_price;                                /* "auto" may take it: it is made of exchanges alone */
    const char *hops, *bytes;                             /* of all ranks; that one sends: N ranks, S bytes */
    const char *help;
};
extern const struct algorithm algorithm_ring, algorithm_double_tree, algorithm_tree, algorithm_halving_doubling,
    algorithm_hierarchical, algorithm_direct, algorithm_naive;
const struct algorithm *algorithm_at(size_t index);       /* in teaching order; NULL behind the last */
/* The one that an all-reduce names, or the back-end's choice. NULL: failed, there is none. */
bool algorithm_is_built_in(const char *name);
const struct algorithm *algorithm_chosen(struct task *me, const struct collective *call);
/* How long it takes in `stepped` where all ranks begin at once and nothing else is under way, in ps. false: failed. */
bool rehearsal_price(struct task *me, const struct collective *call, const struct algorithm *algorithm, uint64_t *ps);
bool rehearsal_note(struct task *me, const struct collective *call, const struct exchange *exchange);
bool rehearses(const struct collective *call);            /* exchanges are noted, none moves an element */
/* How many of the group's ranks stand together on each node, if need be on a part of a node. */
int nodes_ranks_each(const struct channel *channel);

/* Rings over some of the ranks, for all algorithms that are made of them. */
struct ring {
    const struct collective *call;
    int             first_rank, apart;   /* of the group: the ring's first one; from one to the next, 0 as 1 */
    int             place, size; /* mine among them */
    bool            forwards;    /* sends to the next place, in NCCL's order; else to the one before, in Gloo's */
    struct part     part;        /* what goes round */
    int64_t         chunk;       /* elements of a chunk; 0: as part_of cuts them. Chunk p ends at place p (forwards: p - 1) */
    int             first_chunk; /* the number of its chunk 0, for the trace */
    struct link    *out, *in;    /* ring_open's */
};
bool    ring_open(struct task *me, struct ring *ring);
bool    ring_reduce_scatter(struct task *me, struct ring *ring);
bool    ring_all_gather(struct task *me, struct ring *ring);
/* Elements of a chunk as Gloo cuts a tensor: `direct` adds in the same order. */
int64_t gloo_chunk(const struct collective *call);

/* `direct` where ranks are threads: false: failed. */
bool shared_all_reduce(struct task *me, const struct collective *call);
/* For fused.c: each shows where its elements lie, and all are there; what each does then ends, come what may; and all have
 * done it. shared_show: NULL: failed, and there is nothing to be done. */
struct shown { char *data; bool on_device; struct stream *stream; };   /* stream: fused.c's, kept for the next call */
struct shared *shared_show(struct task *me, const struct collective *call, const struct shown *mine);
struct shown  *shared_shown(struct shared *shared, int rank);
bool           shared_done(struct task *me, const struct collective *call, struct shared *shared);
void shared_free(struct shared *shared);
/* fused.c. Whether there are such devices; the all-reduce, by the host where a tensor lies elsewhere. */
bool fused_is_possible(struct task *me);
bool fused_run(struct task *me, const struct collective *call,
               bool (*by_host)(struct task *me, const struct collective *call));
bool local_stays(struct task *me, const struct collective *call);   /* all_reduce.c: group_backend's `stays` */

/* ---- algorithms, each a slot of the table ---- */
bool local_accepts(struct task *me, const struct collective *call);
void local_close(struct task *me, void *transport);   /* of any back-end whose transport is a struct local */
void local_wake(struct task *me, void *transport);
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
void  reduce_multiply(int dtype, void *data, size_t bytes, double factor);   /* PREMUL_SUM's */
void *tensor_elements(const struct tensor *tensor);                /* of a contiguous tensor */
/* The whole tensor is read, or written too, by the host: for the race checker. false: a race; failed. */
bool  tensor_touch(struct task *me, struct tensor *tensor, bool write, const char *what);
void  tensor_tell(struct task *me, struct tensor *tensor);         /* the trace learns its new elements */
void  tensor_paste(struct task *me, struct tensor *to, const struct tensor *from);
#endif
