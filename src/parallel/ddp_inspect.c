/* A DistributedDataParallel, looked at from outside. Interface: ddp_look_inside, ddp_tell_error. */
#include "parallel/ddp_inspect.h"
#include "parallel/ddp_internal.h"
#include "parallel/internal.h"
#include "parallel/logger.h"
#include "sched/task.h"

static void
look_at_reducer(const struct reducer *reducer, struct ddp_inside *out)
{
    out->iterations       = reducer->forwards;
    out->params           = reducer->params;
    out->names            = reducer->names;
    out->sparse           = reducer->sparse;
    out->count            = reducer->params_count;
    out->used_map         = reducer->used_map;
    out->graph_static     = !reducer->graph_changed;
    out->limits           = reducer->limits;
    out->limit_count      = reducer->limit_count;
    out->first_is_smaller = reducer->limit_count == 0 && reducer->first_bucket_bytes < reducer->bucket_bytes;
}

bool
ddp_look_inside(const struct module *wrapper, struct ddp_inside *out)
{
    *out = (struct ddp_inside){ .graph_static = true };
    if (ddp_module(wrapper) == NULL)
        return false;
    const struct ddp *ddp = wrapper->script;
    out->group  = ddp->group;
    out->logger = ddp->logger;
    if (ddp->reducer != NULL)
        look_at_reducer(ddp->reducer, out);
    return true;
}

bool
ddp_tell_error(struct task *me, const struct ddp_inside *inside)
{
    if (inside->logger != NULL)
        logger_set_error(inside->logger, me->error.message, inside->iterations);
    return false;
}
