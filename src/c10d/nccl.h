/* The back-end nccl: ranks are threads or processes, each with a GPU of its own, and NCCL moves what lies on GPUs;
 * the plug-in's table (nccl_table.h) has its calls. What lies in the host's memory goes as in `local`, or between
 * processes as in Gloo, as in PyTorch's "cpu:gloo,cuda:nccl". The functions of `local` are the back-end's, too: each
 * of them hands to nccl_run what NCCL takes.
 *
 *   nccl.c  the run's NCCL, the table, groups    nccl_join.c  how a communicator is made, and waiting
 *   nccl_run.c  collectives    nccl_post.c  sends and receives    nccl_events.c  what NCCL tells of itself
 *
 * Order of use: nccl_begin with the run, worlds, nccl_end. PyTorch: c10d::ProcessGroupNCCL. */
#ifndef C10D_NCCL_H
#define C10D_NCCL_H
#include <stdbool.h>
#include "c10d/nccl_table.h"

struct group_backend; struct nccl; struct sched; struct task; struct world_options;

/* From here on the run's worlds have this back-end where they can. `table` NULL: the plug-in's. false: failed. */
bool nccl_begin(struct task *me, const struct nccl_table *table) __attribute__((warn_unused_result));
bool nccl_is_on(const struct sched *sched);    /* between the two: worlds have it, or would with more GPUs */
/* What NCCL has told of itself so far is in the trace from here on. */
void nccl_tell(struct task *me);
void nccl_end(struct task *me);        /* all worlds are over; without nccl_begin: nothing */
/* The back-end of such a world; NULL: another one, perhaps since there are fewer GPUs than ranks, which the run is
 * told. */
const struct group_backend *nccl_backend(struct task *me, const struct world_options *options);
/* The plug-in's table. NULL: why->text is one sentence that says what to do. */
const struct nccl_table *nccl_table_open(struct backend_why *why);
#endif
