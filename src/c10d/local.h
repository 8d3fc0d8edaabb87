/* What the files of the `local` back-end share: ranks are tasks of one process, every hop of every algorithm is
 * traced. They know of process groups what backend.h says, as any back-end does.
 *
 *   local.c  the table    ring.c  all-reduce, all-gather    tree.c  broadcast and barrier    post.c  send, recv
 *   link.c   messages between two ranks                     reduce.c  elements
 *
 * Monitors nest in this order only: the transport's, a link's. */
#ifndef C10D_LOCAL_H
#define C10D_LOCAL_H
#include "c10d/backend.h"
#include "sched/sched.h"
#include "tensor/tensor.h"

/* The transport of a world. */
struct local {
    struct sched  *sched;
    struct monitor monitor;
    int            size;
    struct link  **links;        /* [from * size + to], made when first used */
    struct link   *first_link;   /* those that were made */
    bool           hops_off;     /* hop events are switched off as long as it lives */
    /* The barrier: ranks that have come to the one that is due, those that have opened, and when the last one did. The
     * next cannot open before all have left this one. */
    int            arrived;
    uint64_t       opened, open_at;
};

/* ---- links: one per ordered pair of ranks ---- */

struct link {
    struct link   *next;             /* in the transport's list */
    struct sched  *sched;
    struct monitor monitor;
    int            from, to;
    uint64_t       free_at;          /* ps: one transfer at a time */
    bool           full;             /* one message in flight */
    void          *data;
    size_t         bytes, room;
    uint64_t       arrival;
    uint32_t       flow;
    struct post   *posts[2];         /* without a mate yet: recvs, sends */
};

struct link *link_between(struct task *me, struct local *local, int from, int to);  /* NULL: failed */
void         link_free(struct link *link);
/* When a message of `bytes` that leaves now or as soon as the link is free arrives. In the link's monitor. */
uint64_t     link_depart(struct task *me, struct link *link, uint64_t bytes);

struct message { void *data; size_t bytes; uint32_t flow; uint64_t arrival; };
/* Hands a message to the link, as soon as the last one was taken; `arrival` is set. Does not wait for it to arrive. */
bool link_put(struct task *me, const struct collective *call, struct link *link, struct message *message);
/* Waits for the next message of just so many bytes; me's clock rises to its arrival; `flow` is set. Its elements
 * replace those at message->data, or are reduced into them. */
struct reduction { bool on; enum reduce_op op; int dtype; };
bool link_take(struct task *me, const struct collective *call, struct link *link, struct message *message,
               const struct reduction *reduction);

/* ---- algorithms, each a slot of the table ---- */
bool local_all_reduce(struct task *me, const struct collective *call);
bool local_all_gather(struct task *me, const struct collective *call);
bool local_broadcast(struct task *me, const struct collective *call);
bool local_barrier(struct task *me, const struct collective *call);
bool local_post(struct task *me, struct post *post);
bool local_send(struct task *me, struct post *post);
bool local_recv(struct task *me, struct post *post);
void local_withdraw(struct task *me, struct post *post);

/* ---- elements ---- */
void  reduce_elements(const struct reduction *reduction, void *into, const void *from, size_t bytes);
void  reduce_average(int dtype, void *data, size_t bytes, int ranks);
void *tensor_elements(const struct tensor *tensor);                /* of a contiguous tensor */
/* The whole tensor is read, or written too, by the host: for the race checker. false: a race; failed. */
bool  tensor_touch(struct task *me, struct tensor *tensor, bool write, const char *what);
void  tensor_tell(struct task *me, struct tensor *tensor);         /* the trace learns its new elements */
void  tensor_paste(struct task *me, struct tensor *to, const struct tensor *from);
#endif
