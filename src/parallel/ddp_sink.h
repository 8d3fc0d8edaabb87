/* DistributedDataParallel's outputs on their way to the caller. */
#ifndef PARALLEL_DDP_SINK_H
#define PARALLEL_DDP_SINK_H
#include <stdbool.h>

struct task; struct tensor; struct value;

/* The tensors of an output that have a history, in me's scope. false: failed. */
struct tensor_list { struct tensor **tensors; int count; };
bool ddp_find_tensors(struct task *me, struct value *output, struct tensor_list *out);

/* _DDPSink: all of them go through one node. So a backward from some of them reaches the parameters of the others too,
 * with no gradient, and their hooks run. `began` is called when its backward begins; NULL: nobody. Takes over the context. */
struct ddp_sink {
    bool  clone;                                       /* outputs are copied; else they share memory with forward's */
    bool (*began)(struct task *me, void *context);
    void (*drop)(struct task *me, void *context);      /* with `began`: when nobody can call it any more */
    void  *context;
};
struct value *ddp_sink(struct task *me, struct value *output, const struct tensor_list *list,
                       const struct ddp_sink *sink);
#endif
