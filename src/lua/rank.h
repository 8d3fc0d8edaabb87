/* A rank as its script sees it, and what the functions of rs.distributed share: who asks, in which group. Shared by
 * spawn.c, lone.c, distributed.c, backends.c, debug_level.c, process_group.c, groups.c, work.c, collectives.c, p2p.c,
 * store.c and ddp.c only. */
#ifndef LUA_RANK_H
#define LUA_RANK_H
#include <lua.h>
#include <stdbool.h>
#include <stdint.h>
#include "c10d/debug_level.h"
#include "c10d/group.h"
#include "functional/catalogue.h"
#include "lua/internal.h"
#include "sched/task.h"

struct spawn; struct parcel; struct script;

struct rank {
    struct rank_context context;
    struct spawn       *spawn;      /* NULL: a world of the lesson's own script alone (lone.c) */
    struct script      *script;     /* while it runs */
    struct parcel      *result;
    void               *pickled;    /* the same for other processes of a job; owned */
    size_t              pickled_size;
    struct task        *task;
    struct error        error;
    bool                stuck;      /* the run was stopped while it kept others waiting */
    bool                implicit;   /* the spawn made the group, no init_process_group was called yet */
    char                name[24];
};

struct rank          *rank_here(lua_State *L);    /* raises where there is none */
struct process_group *group_here(lua_State *L);   /* the default group; raises before init_process_group */

/* A function of a rank: who asks, in which group, and its arguments. */
struct rank_call { struct task *me; struct process_group *group; struct arguments a; };
/* `group` is the place of the argument of that name, -1: none, the default group. false: this rank is no member of it,
 * was warned, and has nothing to do. */
bool take_rank_call(lua_State *L, struct rank_call *out, int group);
/* An argument that is a rank of the world, as its rank in the group. Raises ValueError where that is no member. */
int  peer_of(lua_State *L, const struct argument *rank, const struct process_group *group);

/* p2p.c: the peer of two arguments, dst and group_dst say, of which one must be given; a rank of the group. */
struct peer_places { int world, group; const char *word; /* "dst" */ };
int  peer_given(lua_State *L, const struct rank_call *r, const struct peer_places *places);

/* lone.c */
struct rank *lone_rank_new(lua_State *L, struct task *me, enum debug_level level);   /* NULL: failed */
void         lone_rank_free(struct task *me, struct rank *rank);  /* after the script's works and modules; NULL is fine */

/* backends.c: checks a name that a lesson gives; NULL is fine. Raises unless ranks here have it. */
void check_backend(lua_State *L, struct task *me, const char *name);
void check_device_id(lua_State *L, struct task *me, const struct argument *device_id);   /* raises unless it is there */
void lua_open_backends(lua_State *L);

/* process_group.c */
void push_group(lua_State *L, struct process_group *group);      /* NULL: what stands for a group without this rank */
/* The group at `index`; NULL: this rank is no member. Raises for anything else, and for a group that was destroyed. */
struct process_group *check_group(lua_State *L, int index);
/* The same of an argument; nothing: the default group. */
struct process_group *group_given(lua_State *L, const struct argument *given);
uint64_t check_timeout(lua_State *L, double seconds);            /* ps; raises unless it is a time */
/* The arguments timeout and pg_options, a table that may have _timeout, which wins. ps; 0: none is given. */
uint64_t timeout_given(lua_State *L, const struct argument *seconds, const struct argument *pg_options);
void lua_open_process_group(lua_State *L);
int  l_register_on_completion_hook(lua_State *L);   /* completion.c */
int  l_wait_for_pending_works(lua_State *L);

/* debug_level.c: the level of TORCH_DISTRIBUTED_DEBUG in this script; raises if the environment's is none. */
enum debug_level debug_level_here(lua_State *L);
void lua_open_debug_level(lua_State *L);

void lua_open_groups(lua_State *L);       /* groups.c */

/* flight.c */
struct flight;
struct flight *flight_keep(lua_State *L);   /* an empty one that dist.flight_recorder shows; the script's */
void lua_open_flight(lua_State *L);

/* work.c: an empty box that keeps the value at `index` alive; call_work fills it, when it is at the top. */
void push_work_box(lua_State *L, int index);
void fill_work_box(lua_State *L, struct work *work);
void push_tensor_work(lua_State *L, struct tensor *tensor);
int  call_work(lua_State *L, struct call *call, struct work *work);
void lua_open_work(lua_State *L);

/* algorithm.c: a call of the algorithm that the lesson registered under `name`; NULL: there is none. May raise, and after
 * it nothing may before algorithm_issued. `work` is NULL if the issue failed. */
struct algorithm_run;
struct algorithm_run          *algorithm_begin(lua_State *L, const char *name, struct process_group *group);
const struct custom_algorithm *algorithm_custom(const struct algorithm_run *run);
void algorithm_issued(struct task *me, struct algorithm_run *run, struct work *work);
void push_algorithms(lua_State *L);        /* the table of those that are registered, by name */
void take_algorithms(lua_State *L);        /* the table at the top, popped, takes its place */
void lua_open_algorithms(lua_State *L);
void lua_open_functional_collectives(lua_State *L);   /* functional.c */

void lua_open_collectives(lua_State *L);   /* collectives.c */
void lua_open_p2p(lua_State *L);           /* p2p.c */
void lua_open_objects(lua_State *L);       /* objects.c */

int  l_spawn(lua_State *L);
int  l_bucket_assignment(lua_State *L);
void lua_open_ddp(lua_State *L);    /* ddp.c: nn.parallel.DistributedDataParallel */
void lua_open_sync_batch_norm(lua_State *L);   /* sync_batch_norm.c: nn.SyncBatchNorm */
void lua_open_model_averaging(lua_State *L);
void lua_open_post_localsgd_optimizer(lua_State *L);
void lua_open_ddp_inspect(lua_State *L);   /* ddp_inspect.c: the private names by which tests look into one */
struct store *store_at(lua_State *L, int index);   /* store.c; NULL: it is no store */
int  l_ddp_join(lua_State *L);      /* join.c */
bool push_ddp_join_config(lua_State *L, const struct module *module);   /* false: not a DistributedDataParallel */
void lua_open_join(lua_State *L);   /* dist.algorithms: Join, Joinable, JoinHook */
int  l_register_comm_hook(lua_State *L);   /* comm_hook.c */
int  l_register_buffer_hook(lua_State *L);
void lua_open_comm_hook(lua_State *L);
void lua_open_store(lua_State *L);  /* store.c: dist.store */
#endif
