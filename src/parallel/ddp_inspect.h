/* What PyTorch's private methods show of a DistributedDataParallel: for scripts that test it, nothing else needs it. */
#ifndef PARALLEL_DDP_INSPECT_H
#define PARALLEL_DDP_INSPECT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct task; struct module; struct tensor; struct process_group; struct ddp_logger;

struct ddp_inside {
    struct process_group *group;
    struct ddp_logger    *logger;             /* NULL: all parameters are delayed, as where the count is 0 */
    int64_t               iterations;         /* synchronising forwards so far */
    struct tensor *const *params;             /* the reducer's, in its order */
    char *const          *names;
    const bool           *sparse;             /* whose gradients are */
    int                   count;
    struct tensor        *used_map;           /* int32, a number for each: how many ranks used it; NULL: nobody asks */
    bool                  graph_static;       /* the parameters that were found unused are the same in every iteration */
    const size_t         *limits;             /* bucket_cap_mb_list in bytes */
    int                   limit_count;
    bool                  first_is_smaller;   /* the first bucket's cap is less than the others' */
};
bool ddp_look_inside(const struct module *wrapper, struct ddp_inside *out);   /* false: not a DistributedDataParallel */

/* What me has failed with goes into the logging data; answers false. */
bool ddp_tell_error(struct task *me, const struct ddp_inside *inside);
#endif
