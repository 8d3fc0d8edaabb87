/* A job: many processes, each of which is one rank, that meet in a TCP store. This is what one process knows of it. Ranks that live
 * elsewhere are seen through the store's log of ends (job_end.h), which a task of each process follows over a connection of its own;
 * where that connection ends, the store's server says so to all in its name: its last will.
 * Order of use: job_new when the program starts; job_join when ranks are first needed; worlds (group.h) and their groups; job_leave.
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

struct job; struct sched; struct store; struct str; struct task; struct transport;

struct job_options {
    int         rank, size, local_rank, local_size;
    const char *host;          /* of the store */
    int         port;
    bool        is_hosted;     /* by the launcher */
    const struct transport *transport;   /* outlives the job; NULL: none is there, and worlds of several ranks are refused */
    const char *backend;       /* its name, also where it is not there: "gloo" */
};
struct job *job_new(const struct job_options *options, char *why, size_t why_size);   /* NULL: `why` */
void        job_free(struct job *job);                       /* after the run */

struct job *job_of(const struct sched *sched);               /* PART_JOB; NULL: this process is no part of one */
int         job_rank(const struct job *job);
int         job_size(const struct job *job);
int         job_local_rank(const struct job *job);
const char *job_backend(const struct job *job);

/* Meets the others at the store, once; later calls answer at once. Blocks as long as the store's time-out. */
bool        job_join(struct task *me, struct job *job) __attribute__((warn_unused_result));
/* The job's store; NULL before job_join. Keys that begin with "job/" are the job's own, "world/" its worlds'. */
struct store *job_store(const struct job *job);
/* Tells the others that this process goes, and how; the error in `me` says so. After the last world. */
void        job_leave(struct task *me, struct job *job);
/* Who ended, of world `world`, in the order in which the log has it; answers how many, at most `room`. */
size_t      job_ends(struct task *me, const struct job *job, int world, struct job_end *out, size_t room);

/* Why a wait for a rank elsewhere is in vain, or may not be, is the world's business (group.h, world_new with a job). */
#endif
