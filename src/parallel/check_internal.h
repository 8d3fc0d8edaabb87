/* What the files of --check-ranks share: the registry of a world, the models in it, each rank's part.
 *
 *   check_find.c     what was found, and elements in a row     check_changes.c  each change of a tensor under watch
 *   check_marks.c    where all ranks meet                      check_once.c     gradients, names, orders of samplers
 *   check_ranks.c    made and freed
 *
 * One mutex, in which nobody waits and nothing is told: threads of `free` meet in it, and it must not order them for the
 * race checker, as a monitor would. */
#ifndef PARALLEL_CHECK_INTERNAL_H
#define PARALLEL_CHECK_INTERNAL_H
#include <pthread.h>
#include "base/str.h"
#include "device/storage.h"
#include "parallel/check_ranks.h"
#include "parallel/divergence.h"
#include "parallel/agreements.h"
#include "parallel/replica_states.h"

enum { LAST_MARK = INT32_MAX };         /* the rank's end */

/* Where the first rank was that came to a meeting of all: for each tensor its state. */
struct held { struct replica_state *at; int64_t changes; };
struct mark { struct mark *next; int64_t number; int rank, missing; struct held held[]; };   /* rank -1: nobody was */

/* A model as all ranks of a group have it. */
struct model {
    struct model    *next;
    const int       *group;             /* the members' ranks in the world: one array a group */
    int              ranks, first;      /* members; who came first */
    bool            *here;              /* by rank: it has come */
    int              left;              /* ranks that have freed theirs */
    int              count;             /* tensors: all parameters, then buffers */
    struct subject  *subjects;
    struct replica_states *states;
    struct mark     *marks;
    struct agreements   agreements;
};

/* One tensor of one rank. */
struct watched {
    struct storage_watch watch;         /* first: the storage hands it back */
    struct replica      *replica;
    int                  index;
    struct tensor       *tensor;        /* references, both */
    struct storage      *storage;
    struct replica_state      *at;            /* NULL: not compared any more */
    int64_t              changes, grads;
    const struct tensor *grad;          /* the reduced one, and its state then */
    uint32_t             grad_version;
};

/* A gradient on a device whose last bytes are under way. */
struct awaited {
    struct storage_watch watch;
    struct awaited      *next;
    struct replica      *replica;
    struct tensor       *grad;
    int                  index, writes; /* writes: that have still to happen, its own the last */
    int64_t              number;
    uint32_t             line;
};

struct replica {
    struct replica     *next;           /* of the same rank */
    struct check_ranks *check;
    struct model       *model;
    int                 rank, global;   /* in the group, in the world */
    int                 count;          /* tensors */
    int64_t             marks, named;   /* marks passed; how often its buckets were laid out */
    bool                ended;
    int                *trainable;      /* tensors by the reducer's index */
    struct awaited     *awaited;
    struct watched      watched[];
};

struct rank_models { struct replica *replicas; };

struct check_ranks {
    pthread_mutex_t    mutex;
    struct model      *models;
    struct agreements     samplers;
    bool               over;            /* something was found: nothing more is compared */
    int                ranks;
    struct rank_models of[];            /* by rank in the world */
};

/* ---- check_find.c: noted in the mutex, told outside ---- */

struct finding { struct str report; const char *name; int rank, than; bool found; size_t refused; };  /* bytes */
/* `rank` is the group's. */
struct side side_of(const struct replica *replica, int rank, const struct replica_state *state, int64_t changes);
void finding_of(struct finding *finding, const struct divergence *divergence);
/* true: nothing was found. Frees the report. `queued`: by a stream's entry, which cannot fail. */
bool finding_tell(struct task *me, struct finding *finding, bool queued);
/* The elements where they lie, or a packed copy, which elements_done lets go. NULL: no memory. */
const void *elements_now(struct task *me, const struct tensor *tensor);
void        elements_done(struct task *me, const struct tensor *tensor, const void *elements);
/* Tells the run's account of the work. */
bool check_charge(struct task *me, size_t bytes);

/* ---- check_changes.c ---- */

/* The rank's first state, or one more. */
bool watched_arrives(struct task *me, struct watched *w, struct change change, bool queued);
void watched_attach(struct watched *w, struct tensor *tensor);
void watched_detach(struct task *me, struct watched *w);
/* The tensor has got another memory (net:to(...)), or another tensor stands in its place. What has become of another type
 * or shape is compared no more. */
bool watched_follow(struct task *me, struct watched *w, struct tensor *tensor);
bool subject_fits(const struct subject *subject, const struct tensor *tensor);
/* Work that a device has still to do on what is watched is waited for: what was asked for before counts. */
bool replica_settle(struct task *me, const struct replica *replica);

/* ---- check_marks.c ---- */

/* Ranks that have changed a tensor differently, or more often, are found where they meet, unless its bytes are the same
 * again. */
bool replica_meets(struct task *me, struct replica *replica, int64_t number);
/* In the mutex: the rank will come to none of the marks that it has not passed. */
void replica_leaves_marks(struct task *me, struct replica *replica);
void marks_free(struct task *me, struct model *model);

/* ---- check_once.c ---- */
void replica_drop_awaited(struct task *me, struct replica *replica);
bool replica_shadowed_grads(struct task *me, struct replica *replica, const int32_t *used);   /* as replica_shadowed */
#endif
