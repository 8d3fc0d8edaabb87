/* The reducer's fields, shared by its pages, to be read in this order:
 *
 *   reducer.c          an iteration, from forward to finalize: the story
 *   reducer_grads.c    between a parameter's .grad and its place in a bucket
 *   reducer_unused.c   who gets no gradient: the graph's search, the used map
 *   reducer_join.c     a rank that has no inputs left sends zeros
 *   reducer_buckets.c  which parameters travel together, now and after the rebuild; their memory
 *   reducer_setup.c    making and freeing one
 *   reducer_report.c   what it says when something goes wrong */
#ifndef PARALLEL_INTERNAL_H
#define PARALLEL_INTERNAL_H
#include "autograd/node.h"
#include "base/str.h"
#include "parallel/buckets.h"
#include "parallel/flat.h"
#include "parallel/logger.h"
#include "parallel/reducer.h"
#include "sched/lock.h"
#include "tensor/tensor.h"

struct work; struct live_ranks;

/* Gradients that travel together: one flat tensor and a view into it for each parameter. A sparse gradient travels
 * alone: its bucket has no views, and no tensor until the gradient has come. */
struct bucket {
    struct tensor  *gradients;     /* NULL: of a sparse bucket, or not allocated (lazy_bucket_allocation) */
    struct tensor **views;         /* shaped like the parameters */
    int            *indices;       /* of the parameters, in the bucket's order */
    int             count, pending;/* parameters; those whose gradient has not come */
    int64_t         bytes;
    bool            sparse;
    struct work    *work;          /* its all-reduce, between launch and finalize */
    void           *hooked;        /* or what the comm hook has started */
};

struct reducer_hook { struct reducer *reducer; struct node *node; int index, id; };

/* What the search through the graph needs in each iteration, kept between them. */
struct reducer_search { struct node **stack; size_t depth, room; uint64_t *seen; size_t slots, count; };

struct reducer {
    struct tensor       **params;
    char                **names;
    bool                 *sparse;               /* per parameter */
    int                   params_count;
    struct process_group *group;
    struct replica       *replica;              /* check_ranks.h; NULL: nobody checks */
    struct module        *owner;                /* no reference; NULL: none */
    int                   world;
    struct reducer_hook  *hooks;
    struct comm_hook      comm_hook;            /* start is NULL: none */
    struct lock           lock;                 /* only when gradients come from several devices */
    bool                  has_lock;

    /* how it was made */
    bool                  find_unused, as_views, skip_unused, batched_copy, lazy;
    bool                  static_graph;         /* saves the search and the used map from the second iteration on, and
                                                   buckets are rebuilt although some parameters go unused */
    size_t                first_bucket_bytes, bucket_bytes;
    size_t               *limits;               /* bucket_cap_mb_list; NULL: none */
    int                   limit_count;

    struct bucket        *buckets;
    int                   count, next;          /* buckets; the next one to be started */
    int                  *bucket_of, *place_of; /* per parameter */

    /* this iteration */
    bool                  expect_hooks;         /* a forward has prepared for this backward */
    bool                  hook_called;          /* the backward has begun */
    bool                  require_finalize;     /* something was marked ready and not yet finalized */
    bool                  has_marked_unused;
    bool                 *ready, *unused;       /* per parameter; unused: in a static graph, of the first iteration */
    struct live_ranks    *live;                 /* of the wrapper: divide by those that are left in a Join; NULL: by all */
    int                   divisor;              /* what a gradient is divided by: settled once a backward; 0: not yet */
    int                   buckets_reduced;      /* not those that were skipped, nor a static graph's first ones */
    bool                  manual;               /* who calls backward finalizes, too */

    /* who used what */
    bool                 *used;                 /* per parameter, since the used map was reduced */
    int32_t              *used_numbers;         /* the map: this rank's, then the sum over ranks */
    bool                  used_reduced;         /* the sum is known */
    struct tensor        *used_map;             /* one int32 per parameter; NULL: nobody asks */
    struct work          *used_work;
    struct reducer_search search;
    bool                  warned_all_used, warned_history;

    /* a static graph's first backward, by which the later ones are judged */
    int                  *times_used, *times_left;   /* per parameter: hooks in the first backward; still to come in this */

    int64_t               forwards;             /* synchronising ones so far: DDP counts by it too */
    int64_t               backwards;            /* that called a hook */
    int                  *ready_order, *rebuilt_order;
    int                   ready_count, rebuilt_count;
    bool                  has_rebuilt;
    struct future       **futures;              /* of buffer hooks */
    size_t                future_count, future_room;

    /* for the logging data */
    int64_t               sample_rate;          /* times are taken in iterations 1 to 10 and every so many */
    int64_t               moments[REDUCER_MOMENTS];  /* ps; -1: not yet */
    struct ddp_logger    *logger;               /* is told of errors; NULL: none */
    bool                  searched, graph_changed;    /* find_unused: it has been; another search had another result */
    bool                  names_wanted;         /* in errors: dist.set_debug_level, when it was made */
};

/* Whether parameters may go unused differently in each iteration, which the graph is searched for; and whether this is
 * the backward in which a static graph is watched, or a later one. */
static inline bool dynamic_find_unused(const struct reducer *r) { return r->find_unused && !r->static_graph; }
static inline bool static_first(const struct reducer *r) { return r->static_graph && r->backwards == 1; }
static inline bool static_later(const struct reducer *r) { return r->static_graph && r->backwards > 1; }

/* reducer.c */
bool reducer_run_hook(struct task *me, void *context, struct node *node, struct tensor **grads, int count); /* the
                                            post-hook of a parameter's AccumulateGrad; context: a struct reducer_hook */
bool reducer_collects_times(const struct reducer *reducer);
void reducer_moment(struct task *me, struct reducer *reducer, enum reducer_moment moment);
void reducer_abandon(struct task *me, struct reducer *reducer); /* nothing of this iteration stays */
bool reducer_all_reduce_bucket(struct task *me, struct reducer *reducer, struct bucket *bucket);
bool reducer_skips_bucket(const struct reducer *reducer, const struct bucket *bucket);
bool reducer_finish_futures(struct task *me, const struct reducer *reducer);

/* reducer_grads.c: each false: failed */
bool reducer_in_slot(const struct reducer *reducer, int index);  /* its .grad lies in the bucket already */
void reducer_announce_slot(struct task *me, const struct reducer *reducer, int index); /* to the trace */
bool reducer_fill_slot(struct task *me, struct reducer *reducer, int index);          /* .grad into its bucket */
bool reducer_fill_bucket(struct task *me, struct reducer *reducer, struct bucket *bucket);  /* all at once, if so asked */
bool reducer_finish_bucket(struct task *me, struct reducer *reducer, struct bucket *bucket);

/* reducer_unused.c */
bool reducer_search_unused(struct task *me, struct reducer *reducer, struct tensor *const *outputs, int count);
bool reducer_launch_used_map(struct task *me, struct reducer *reducer);
bool reducer_globally_unused(struct task *me, struct reducer *reducer, int index, bool *unused);
bool reducer_finish_used_map(struct task *me, struct reducer *reducer);
void reducer_forget_search(struct task *me, struct reducer *reducer);

/* reducer_buckets.c: the first ones by the parameters, those of the rebuild by the order in which gradients came */
bool reducer_first_buckets(struct task *me, struct reducer *reducer, bool static_graph);
bool reducer_assign_by_order(struct task *me, const struct reducer *reducer, struct bucket_list *out);
bool reducer_sync_bucket_indices(struct task *me, struct reducer *reducer, struct bucket_list *list);
bool reducer_initialize_buckets(struct task *me, struct reducer *reducer, const struct bucket_list *list);
void reducer_clear_buckets(struct task *me, struct reducer *reducer);
bool bucket_allocate(struct task *me, const struct reducer *reducer, struct bucket *bucket);
void bucket_release(struct task *me, struct bucket *bucket);              /* its memory; the views' .grads keep theirs */
void bucket_forget(struct task *me, const struct reducer *reducer, struct bucket *bucket);  /* what it has started */
void bucket_print(const struct bucket *bucket, struct str *out);           /* its parameters: "3 2" */

/* reducer_report.c: each records an error and answers false */
bool reducer_unfinished(struct task *me, const struct reducer *reducer);
bool reducer_wrong_grad(struct task *me, const struct reducer *reducer, int index, const struct tensor *slot);
bool reducer_wrong_view(struct task *me, const struct reducer *reducer, int index);
bool reducer_missing_grad(struct task *me, const struct reducer *reducer, int index);
bool reducer_not_sparse(struct task *me, const struct reducer *reducer, int index);
bool reducer_ready_twice(struct task *me, const struct reducer *reducer, int index);
bool reducer_not_watched(struct task *me, const struct reducer *reducer);
bool reducer_graph_changed(struct task *me, const struct reducer *reducer, int index);
bool reducer_tell(struct task *me, const struct reducer *reducer);  /* me's error is one for the logging data, too */
#endif
