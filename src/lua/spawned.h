/* One dist.spawn under way, as its parts see it. For spawn.c (the ranks), spawn_outcome.c (what the lesson is told), spawn_job.c
 * (ranks that are processes of a job). */
#ifndef LUA_SPAWNED_H
#define LUA_SPAWNED_H
#include <stdbool.h>
#include "c10d/debug_level.h"
#include "lua/rank.h"
#include "lua/script.h"
#include "sched/task.h"

struct check_ranks; struct flight; struct job; struct lesson; struct parcel; struct world;

/* Lives in a userdata of the spawning script: an error on the way frees it. */
struct spawn {
    struct world         *world;
    struct check_ranks   *check;        /* NULL: replicas are not compared */
    struct parcel        *parcel;
    struct rank          *ranks;
    int                   count;
    bool                  by_hand;      /* init = false: ranks call init_process_group themselves */
    enum debug_level      debug_level;  /* the ranks' first */
    struct script_options options;
    struct lesson        *lesson;       /* NULL: none */
    struct flight        *flight;       /* what the ranks called, when they have ended; the script's */
    char                  name[128];    /* the lesson's file */
    struct job           *job;          /* of several processes, which all run the lesson; NULL: this one is alone */
    struct script        *script;       /* the spawning one */
    bool                  split;        /* over the job's processes: each has at most one of the ranks */
    unsigned              number;       /* of the lesson's spawns, in a job: equal in all processes */
};

bool spawn_run(struct task *me, struct spawn *spawn);          /* all ranks are tasks of this process. false: failed */
bool spawn_start_rank(struct task *me, struct spawn *spawn, int number);
void spawn_stop_stragglers(struct task *me, struct spawn *spawn);

/* spawn_outcome.c: of the ranks' errors one becomes me's. */
void spawn_raise_first(struct task *me, struct spawn *spawn);
void spawn_fail_as(struct task *me, const struct error *error);

/* spawn_job.c: the ranks are processes, if there are enough; all learn how each went. false: failed. */
bool spawn_in_job(struct task *me, struct spawn *spawn);
#endif
