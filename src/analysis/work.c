/* Classes of work by family of kinds. Interface: work_of_kind, work_inside. */
#include "analysis/work.h"

#include "base/vec.h"

#include <stddef.h>
#include <string.h>

/* First match wins: the longer beginnings stand first. */
static const struct { const char *beginning; enum work work; } families[] = {
    { "fault.", WORK_FAULT },
    { "lock.wait", WORK_WAIT },
    { "task.join", WORK_WAIT },
    { "c10d.wait", WORK_WAIT },
    { "c10d.store.wait", WORK_WAIT },
    { "c10d.rendezvous", WORK_WAIT },
    { "c10d.monitored_barrier", WORK_WAIT },
    { "stream.synchronize", WORK_WAIT },
    { "event.synchronize", WORK_WAIT },
    { "kernel", WORK_KERNEL },
    { "memory.copy", WORK_COPY },
    { "memory.", WORK_OTHER },
    { "stream.", WORK_OTHER },
    { "task.", WORK_OTHER },
    { "lock.", WORK_OTHER },
    { "optim", WORK_OPTIMIZER },
    { "lesson.", WORK_LESSON },
    { "data", WORK_DATA },
    { "autograd.checkpoint", WORK_FORWARD },
    { "autograd", WORK_BACKWARD },
    { "dp.forward", WORK_FORWARD },
    { "dp.parallel_apply", WORK_FORWARD },
    { "dp.worker", WORK_FORWARD },
    { "dp.check", WORK_FORWARD },
    { "dp.", WORK_COMMUNICATION },
    { "ddp.forward", WORK_FORWARD },
    { "ddp.prepare_for_backward", WORK_FORWARD },
    { "ddp.init", WORK_COMMUNICATION },
    { "ddp.verify", WORK_COMMUNICATION },
    { "ddp.ctor", WORK_COMMUNICATION },
    { "ddp.sync", WORK_COMMUNICATION },
    { "ddp.all_reduce", WORK_COMMUNICATION },
    { "ddp.", WORK_BACKWARD },
    { "c10d.", WORK_COMMUNICATION },
    { "comm.", WORK_COMMUNICATION },
    { "module.", WORK_FORWARD },
    { "op", WORK_FORWARD },
};

enum work
work_of_kind(const char *kind)
{
    for (size_t i = 0; i < countof(families); i++)
        if (strncmp(kind, families[i].beginning, strlen(families[i].beginning)) == 0)
            return families[i].work;
    return WORK_OTHER;
}

enum work
work_inside(enum work work, enum work around)
{
    return work == WORK_FORWARD && (around == WORK_BACKWARD || around == WORK_OPTIMIZER) ? around : work;
}
