/* What functional.c and functional_collectives.c share: how a collective is recorded, and what its node remembers. */
#ifndef C10D_FUNCTIONAL_RECORD_H
#define C10D_FUNCTIONAL_RECORD_H
#include "autograd/node.h"
#include "c10d/functional.h"
#include "device/cells.h"
#include "sched/task.h"

/* For a rank: all_to_all's input, all_to_all_single's rows to it and from it. */
struct part { int64_t output, input; int dims; int64_t size[TENSOR_DIMS]; };

struct recall {
    struct functional call;
    size_t            bytes;       /* of this */
    int               count;
    bool              dim_split;   /* the parts have rows */
    struct part       parts[];
};

struct recording {
    const char              *name;
    node_backward           *backward;
    const struct functional *call;
    struct tensor *const    *in;
    struct tensor          **out;
    int                      in_count, out_count;
    int                      parts;      /* how many the node remembers */
    const struct splits     *splits;     /* of all_to_all_single; NULL: none */
    bool                     save;       /* in[0] and out[0] */
};
/* One node, if gradients are recorded and one of its inputs wants one. false: failed. */
bool functional_record(struct task *me, const struct recording *recording);
/* The splits of the way back. */
bool recall_splits(struct task *me, const struct recall *recall, struct splits *out);
#endif
