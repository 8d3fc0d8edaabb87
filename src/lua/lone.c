/* A world of one: the lesson's own script as its only rank, so that a program written for ranks runs without them. Its
 * collectives go the same way as everybody's. As a PyTorch process with RANK=0 and WORLD_SIZE=1.
 *
 * Interface: lone_rank_new in init_process_group, lone_rank_free when the script ends. */
#include <stdio.h>
#include <stdlib.h>
#include "lua/rank.h"
#include "lua/spawn.h"

struct rank *
lone_rank_new(lua_State *L, struct task *me, enum debug_level level)
{
    struct script       *script  = script_of(L);
    struct world_options options = { .size = 1 };
    struct rank         *rank    = calloc(1, sizeof *rank);
    if (rank == NULL)
        return failed_null(me, E_MEMORY, "out of memory for a process group");
    rank->context.world = world_new(me, &options);
    if (rank->context.world == NULL) {
        free(rank);
        return NULL;
    }
    rank->context.debug_level = level;
    rank->script = script;
    rank->task   = me;
    snprintf(rank->name, sizeof rank->name, "r0 main");
    rank_context_set(me, &rank->context);
    script->parts[SCRIPT_DISTRIBUTED] = script->lone = rank;
    return rank;
}

void
lone_rank_free(struct task *me, struct rank *rank)
{
    if (rank == NULL)
        return;
    if (rank_context(me) == &rank->context)
        rank_context_set(me, NULL);
    world_free(me, rank->context.world);
    free(rank);
}
