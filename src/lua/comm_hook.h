/* Comm hooks as lessons see them, shared by comm_hook.c (register_comm_hook, GradBucket, a lesson's own functions as
 * hooks), ddp_comm_hooks.c (the library's hooks by PyTorch's names), hook_state.c (their states) and whoever has more
 * such hooks. */
#ifndef LUA_COMM_HOOK_H
#define LUA_COMM_HOOK_H
#include "lua/internal.h"
#include "parallel/comm_hooks.h"
#include "parallel/reducer.h"

/* A hook of the library: a function of (state, bucket) that lessons call or register. Registered, it is what `make`
 * answers, and the reducer calls that without a visit to Lua; called, the same runs once, and who waits for the Future
 * finishes it. `make` reads the state at `state`, may raise before it makes anything, and records an error where it
 * answers a hook without `start`. */
struct library_hook {
    lua_CFunction    function;
    struct comm_hook (*make)(lua_State *L, struct task *me, int state);
};
/* The hooks of one file, until one without a function; listed in ddp_comm_hooks.c. */
extern const struct library_hook plain_hooks[], powersgd_hooks[];
/* The body of each such function: library_hook.function. */
int l_call_library_hook(lua_State *L);

/* The hook that is the function at `function` with the state at `state`: the library's own, one of its wrappers around a
 * hook, or a lesson's function. Raises; nothing may raise between this and who takes the hook over. */
struct comm_hook take_comm_hook(lua_State *L, struct task *me, int state, int function);
struct comm_hook lesson_comm_hook(lua_State *L, struct task *me, int state, int function);    /* a lesson's function */
/* The bucket at `index`, whose parameters are put in a block of Lua's, pushed. */
struct grad_bucket bucket_at(lua_State *L, int index);

/* A wrapper of the library: what f(hook) answers, a function of (state, bucket), too. `wrap` takes `inner` over, also
 * where it fails. Pushed: a function around the hook at `hook` with the value at `more` (0: none). */
struct hook_wrapper { struct comm_hook (*wrap)(lua_State *L, struct task *me, const struct comm_hook *inner, int more); };
int push_wrapped_hook(lua_State *L, const struct hook_wrapper *wrapper, int hook, int more);

/* What hooks take for a state: nil, the default group, or a group. Raises for anything else. */
struct process_group *hook_group(lua_State *L, int state);

/* ---- states (hook_state.c): userdata whose fields are those of a struct that begins with struct hook_state ---- */

enum state_field_type { FIELD_INTEGER, FIELD_NUMBER, FIELD_FLAG, FIELD_GROUP, FIELD_OWN };
/* int64_t, double, bool, struct process_group * (NULL: nil) at `offset`; FIELD_OWN: `push` pushes the value of the state
 * at index 1. A field that is `read_only` is not set by lessons. */
struct state_field {
    const char           *name;
    enum state_field_type type;
    size_t                offset;
    bool                  read_only;
    void                (*push)(lua_State *L, struct hook_state *state);
};
struct state_class {
    const char               *name;       /* "PostLocalSGDState" */
    const struct state_field *fields;
    size_t                    field_count;
    const struct lua_entry   *methods;    /* called with the state as argument 1 */
    size_t                    method_count;
};
/* Empty, pushed first, so that nothing is lost where something raises; then filled, which takes the reference over. */
void push_state_box(lua_State *L, const struct state_class *class);
void fill_state_box(lua_State *L, struct hook_state *state);
/* The state at `index`, of that class; else raises what `hook` wants. NULL class: of any. */
struct hook_state *check_state(lua_State *L, int index, const struct state_class *class, const char *hook);
const struct state_class *state_class_at(lua_State *L, int index);   /* NULL: it is no state */
void push_allreduce_hook(lua_State *L);           /* default_hooks.allreduce_hook, as a lesson has it */
void lua_open_hook_states(lua_State *L);
void lua_open_optimizer_hooks(lua_State *L);      /* optimizer_hooks.c */
void lua_open_comm_hook_types(lua_State *L);      /* comm_hook_types.c */
int  l_register_builtin_comm_hook(lua_State *L);
int  l_register_fused_optim(lua_State *L);
/* comm_hook.c: the function at `function` with the state at `state` becomes the hook of the DistributedDataParallel at
 * `wrapper`. */
void register_comm_hook(lua_State *L, int wrapper, int state, int function);
void lua_open_ddp_comm_hooks(lua_State *L);
void lua_open_powersgd(lua_State *L);
#endif
