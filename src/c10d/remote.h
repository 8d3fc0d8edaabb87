/* Ranks that are processes: a back-end made of a transport (transport.h). What local.h says of channels, links and hops
 * holds here, too: the algorithms are the same, but a link's messages go through the transport (remote_link.c), and what
 * the transport does itself it is left to do (remote.c). Sends and receives: remote_post.c. Waiting, and why it ends:
 * remote_wait.c. Hops of a transport's own algorithms: remote_hops.c. */
#ifndef C10D_REMOTE_H
#define C10D_REMOTE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "c10d/local.h"
#include "c10d/transport.h"
#include "sched/stage.h"

struct job;

extern const struct group_backend backend_remote;   /* its name is the transport's: a world has a copy */

/* What a channel has besides what local.h says. */
struct remote_channel {
    struct job             *job;
    const struct transport *table;
    void                   *own;         /* the transport's; NULL: not met */
    uint64_t                id;          /* the group's, equal on its ranks */
    int                     rank;        /* mine in it */
    atomic_bool             is_broken;   /* a peer is dead, or a call was given up: it is good for nothing more */
};

/* ---- waiting ---- */

/* Who could end a wait: somebody; nobody, but what they have sent may still come; nobody any more. */
enum remote_hope { HOPE, LITTLE_HOPE, NO_HOPE };
/* That, and what is said when a wait is in vain: records it in me, answers false. */
struct remote_vain {
    enum remote_hope (*hope)(const void *what);
    bool (*say)(struct task *me, const void *what);
    /* The transport failed, and no rank has ended: whether calls differ; then records that. NULL: nobody knows. */
    bool (*differs)(struct task *me, const void *what);
};
extern const struct remote_vain remote_work_vain;   /* of a struct work */
extern const struct remote_vain remote_meeting_vain;    /* of a struct group_meeting */

/* One wait of a task for other processes, from its first look to its last. */
struct remote_wait {
    struct task             *me;
    struct channel          *channel;
    const struct remote_vain *vain;      /* of: */
    const void              *what;
    struct wait_reason       reason;
    uint64_t                 looked_at;  /* ps: when it was last asked whether it is in vain */
    uint64_t                 dim_since;  /* ps: since then there has been little hope; 0: there is more */
    bool                     in_vain;    /* it is: nobody who could end it will */
    struct transport_waiter  waiter;     /* whose context this is */
    /* The message that is under way in the transport's own algorithm. */
    const struct collective *call;
    struct stage             stage;
    bool                     in_stage;
};
void remote_wait_begin(struct remote_wait *wait, struct task *me, struct channel *channel,
                       const struct wait_reason *reason);
void remote_wait_end(struct remote_wait *wait);        /* what it waited for has come; remote_await, remote_failed do so */
bool remote_pause(void *context, uint64_t looks);      /* the waiter's slot */
/* Until the request is done. false: failed. */
bool remote_await(struct remote_wait *wait, struct transport_request *request);
/* What the transport failed with, or why the wait was given up, becomes me's error: told by who died if that is why.
 * Answers false. */
bool remote_failed(struct remote_wait *wait, const struct transport_why *why);

/* ---- what algorithms ask ---- */
bool remote_takes(const struct collective *call);       /* the transport does this collective itself */
bool remote_run(struct task *me, const struct collective *call);
uint32_t remote_flow(const struct channel *channel, int from, int to, uint64_t number);   /* equal at both ends */

/* ---- hops of the transport's own algorithms (remote_hops.c), the waiter's slots ---- */
void remote_hop_begin(void *context, const struct transport_hop *hop);
void remote_hop_end(void *context, const struct transport_hop *hop);

extern const struct carrier carrier_remote;             /* remote_link.c */
extern const struct algorithm algorithm_transport;      /* the transport's own all-reduce */

/* ---- sends and receives (remote_post.c), for post.c ---- */
bool remote_post_begin(struct task *me, struct post *post, const struct remote_vain *vain);
bool remote_post_send(struct task *me, struct post *post, const struct remote_vain *vain);
bool remote_post_receive(struct task *me, struct post *post, const struct remote_vain *vain);
void remote_post_end(struct task *me, struct post *post);

/* Tags of messages: user's below, then those of algorithms that a lesson wrote, then links'. */
enum { REMOTE_TAGS = 1 << 28 };
uint32_t remote_tag(int64_t tag);
enum { REMOTE_LINK_TAG = 3 * REMOTE_TAGS };
#endif
