/* A rank as its script sees it. Shared by spawn.c, distributed.c, store.c and ddp.c only. */
#ifndef LUA_RANK_H
#define LUA_RANK_H
#include <lua.h>
#include <stdbool.h>
#include <stdint.h>
#include "c10d/group.h"
#include "sched/task.h"

struct spawn; struct parcel; struct script;

struct rank {
    struct rank_context context;
    struct spawn       *spawn;
    struct script      *script;     /* while it runs */
    struct parcel      *result;
    struct task        *task;
    struct error        error;
    int                 order;      /* which one it was to fail */
    bool                implicit;   /* the spawn made the group, no init_process_group was called yet */
    char                name[24];
};

struct rank *rank_here(lua_State *L);   /* whose script this is; raises where there are no ranks */
int  l_spawn(lua_State *L);
int  l_bucket_assignment(lua_State *L);
void lua_open_ddp(lua_State *L);    /* ddp.c: nn.parallel.DistributedDataParallel */
void lua_open_store(lua_State *L);  /* store.c: dist.store */
#endif
