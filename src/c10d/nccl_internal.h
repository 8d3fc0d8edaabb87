/* What the files of the back-end nccl share, and what the functions of `local` ask it. See nccl.h. */
#ifndef C10D_NCCL_INTERNAL_H
#define C10D_NCCL_INTERNAL_H
#include <stdatomic.h>
#include <stdbool.h>
#include "c10d/local.h"
#include "c10d/nccl.h"
#include "c10d/remote.h"

struct nccl_events; struct stream;

/* The run's. */
struct nccl {
    const struct nccl_table *table;
    struct nccl_events      *events;   /* NULL: nobody asked for them */
    atomic_bool              told;     /* that there are too few GPUs */
};

/* One rank's end of a communicator. */
struct nccl_end {
    struct nccl_comm *comm;            /* NULL: not joined, or aborted */
    struct stream    *stream;
    int               device;          /* of the run */
};

/* A way from one rank of the group to another: a communicator of the two, for messages in that direction alone, so
 * that no message waits behind one that goes the other way. Those of a lesson's own algorithm have ways of their
 * own. Each end's messages go one after the other, in the order in which they were posted. In the channel's monitor,
 * but for `end`. */
struct nccl_way {
    struct nccl_way *next;
    int              from, to;
    bool             within;           /* of a lesson's own algorithm */
    struct nccl_id   id;
    bool             has_id, is_lost;  /* a message failed: those behind it do */
    struct { struct nccl_end end; uint64_t posted, served; } side[2];   /* the sender's, the receiver's */
};

/* What a channel has besides what local.h says. */
struct nccl_channel {
    struct nccl     *nccl;
    struct nccl_id   id;               /* in the channel's monitor */
    bool             has_id;
    uint64_t         meeting;          /* the group's id */
    int              number;           /* the group's */
    struct store    *store;            /* all members'; NULL: they share memory */
    struct nccl_end *ends;             /* by rank in the group */
    struct nccl_way *ways;
};

/* ---- nccl_join.c ---- */
struct nccl_meeting {
    const char               *key;     /* of the id in the store */
    /* where members that share memory have it, and whether: in the channel's monitor */
    struct nccl_id           *id;
    bool                     *has_id;
    int                       rank, size, number;   /* the communicator's */
    const int                *ranks;   /* its members in the world */
};
/* Joins, and waits until all have. `wait` was begun; it has ended after that. false: failed. */
bool nccl_join(struct task *me, struct nccl_channel *nccl, const struct nccl_meeting *meeting, struct nccl_end *end,
               struct remote_wait *wait);
/* Until the GPU has done what was launched. false: failed; the communicator was aborted. */
bool nccl_await(struct task *me, struct nccl_channel *nccl, struct nccl_end *end, struct remote_wait *wait);
/* Launches and awaits. */
bool nccl_launch(struct task *me, struct nccl_channel *nccl, struct nccl_end *end, const struct nccl_launch *launch,
                 struct remote_wait *wait);
/* A stream of its own on that device. false: failed. */
bool nccl_equip(struct task *me, const struct nccl *nccl, int device, struct nccl_end *end);
/* is_broken: what is under way ends. */
void nccl_close_end(const struct nccl *nccl, struct nccl_end *end, bool is_broken);

/* ---- nccl_run.c: for the functions of `local`, before they touch an element ---- */
bool nccl_takes(const struct collective *call);
bool nccl_run(struct task *me, const struct collective *call);
bool nccl_accepts(struct task *me, const struct collective *call);
void *nccl_elements(const struct tensor *tensor);      /* where the GPU finds them */

/* ---- nccl_post.c: the same of sends and receives ---- */
bool nccl_takes_post(const struct post *post);
bool nccl_post_begin(struct task *me, struct post *post);
bool nccl_post_run(struct task *me, struct post *post, const struct remote_vain *vain);
void nccl_post_end(struct task *me, struct post *post);
#endif
