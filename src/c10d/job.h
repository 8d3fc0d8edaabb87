/* A job: many processes, each of which is one rank, that meet in a TCP store. This is what one process knows of it. Ranks
 * that live elsewhere are seen through the store's log of ends (job_end.h), which a task of each process follows over a
 * connection of its own; where that connection ends, the store's server says so to all in its name: its last will.
 * Order of use: job_new when the program starts; job_join when ranks are first needed; worlds (group.h) and their groups;
 * job_leave at the run's end; job_free.
 *
 * Who is who comes from torchrun's environment: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT;
 * TORCHELASTIC_USE_AGENT_STORE=True: the launcher serves the store, else rank 0 does; or from the transport's own
 * launcher (mpirun, srun). */
#ifndef C10D_JOB_H
#define C10D_JOB_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "c10d/job_end.h"
#include "sched/task.h"

struct error; struct job; struct sched; struct store; struct str; struct task; struct transport; struct world;

struct job_options {
    int         rank, size, local_rank, local_size;
    const char *host;          /* of the store */
    int         port;
    bool        is_hosted;     /* by the launcher */
    const struct transport *transport;   /* outlives the job; NULL: none is there: worlds of several ranks are refused */
    const char *backend;       /* its name, also where it is not there: "gloo" */
    const char *missing;       /* why it is not there, one sentence; outlives the job; NULL: it is */
};
struct job *job_new(const struct job_options *options, char *why, size_t why_size);   /* NULL: `why` */
void        job_free(struct job *job);                       /* after the run; NULL is fine */

struct job *job_of(const struct sched *sched);               /* PART_JOB; NULL: this process is no part of one */
int         job_rank(const struct job *job);
int         job_size(const struct job *job);
int         job_local_rank(const struct job *job);
int         job_local_size(const struct job *job);
bool        job_is_launched(const struct job *job);          /* by `ringside launch`, which names whoever prints */
const char *job_backend(const struct job *job);

/* Meets the others at the store, once; later calls answer at once. Blocks until rank 0 or the launcher serves it, the
 * store's time-out at most. */
bool          job_join(struct task *me, struct job *job) __attribute__((warn_unused_result));
bool          job_has_joined(const struct job *job);
struct store *job_store(const struct job *job);              /* NULL before; keys that begin with "job/" or "world/" are ours */
/* On this process's page, what it fails with: the first one counts. Before people are told of it. */
void          job_note_error(struct job *job, const struct error *error);
/* Tells the others that this process goes, and how (me's error, or `error` unless NULL). */
void          job_leave(struct task *me, struct job *job, const struct error *error);
/* Behind it, when all was told to people: where this process serves the store it stays until the others have left. Before
 * sched_free. NULL is fine. */
void          job_close(struct job *job);

/* Who ended, of world `world` (their processes, too), in the order in which the log has it; answers how many, at most `room`. */
size_t        job_ends(struct task *me, struct job *job, int world, struct job_end *out, size_t room);

/* Whether one of these ranks' processes has ended otherwise than by returning. */
bool          job_has_lost(struct task *me, struct job *job, const int *ranks, int count);

/* ---- for the world and its groups ---- */

/* A world, as the job sees it. Its functions are called on the watcher's task, or on whoever adds the world, in the job's
 * monitor, in which the world's own may be entered. */
struct standstill { int world; enum error_kind kind; uint64_t state; };   /* state: equal as long as nothing moves */
struct job_world_kind {
    /* A rank that is no task of this process has ended. */
    void     (*gone)(struct task *me, struct world *world, const struct job_end *end);
    /* The lowest rank that lives is this process's. */
    bool     (*is_first)(const struct world *world);
    /* What this process's rank called and is in, as a dump. false: no memory. */
    bool     (*write_own)(struct task *me, const struct world *world, struct str *out);
    /* For how long it has waited, in ps; 0: it does not, or for what may come from outside. */
    uint64_t (*own_wait)(struct task *me, struct world *world);
    /* Whether all ranks that live wait, so that nobody can end it; `report` says why. */
    bool     (*stands)(struct task *me, struct world *world, struct standstill *found, struct str *report);
    /* They do: whoever waits in it fails with this, now and later. */
    void     (*end_waits)(struct task *me, struct world *world, enum error_kind kind, const char *report);
};
/* In the world's memory. */
struct job_world {
    struct job_world            *next;
    const struct job_world_kind *kind;
    struct world                *world;
    int                          number;      /* of the job's worlds, counted alike in all its processes */
    bool                         has_rank;    /* this process has one in it */
};
int  job_number_world(struct task *me, struct job *job);   /* the next one's, whether it comes to be made or not */
void job_add_world(struct task *me, struct job *job, struct job_world *world);    /* from now on ends are told to it */
void job_remove_world(struct task *me, struct job *job, struct job_world *world);
/* This process's rank of a world has ended, or, -1, the process itself: with this error (NULL, or E_NONE: it has returned);
 * `dump` says what it has called (NULL: that is not told). */
void job_say_end(struct task *me, struct job *job, int world, const struct error *error, const struct str *dump);
/* What this process is in, for whoever reads its page: a call begins, is over. */
struct job_call {
    uint64_t    id;            /* of its group; 0: it is none that is counted */
    int64_t     issued, over;  /* collectives of that, by then */
    const char *operation;     /* "all_reduce"; "recv from rank 1" */
    int64_t     sequence;      /* -1: it has no number */
    int         group;         /* its number */
    uint32_t    line;
    bool        inside;
};
void job_note_call(struct job *job, const struct job_call *call);
void job_fill_groups(const struct job *job, struct job_end *end);             /* from the page */
/* What the other processes are in, as dumps of theirs (flight/dump.h): `take` gets those that come within a second. From any
 * thread; needs no task. Answers whether all came. */
struct job_ask {
    int    size;                                                  /* ranks 0 to size - 1 */
    void  *context;
    int    world;                                                 /* its number, for what ranks left that have ended in it */
    bool (*is_asked)(void *context, int rank);
    bool (*has_ended)(void *context, int rank);
    void (*take)(void *context, int rank, const void *dump, size_t bytes);
};
bool job_ask_flights(struct job *job, const struct job_ask *ask);
/* The transport, opened when it is first asked for. NULL: failed. */
void *job_transport(struct task *me, struct job *job);
const struct transport *job_transport_table(const struct job *job);
#endif
