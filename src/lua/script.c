/* One rank's Lua state: made, budgeted, run, closed. Interface in order of use: script_new, script_run_text,
 * script_free.
 * The sandbox is sandbox.c's business, entering and leaving Lua is door.c's. */
#include "lua/internal.h"
#include <lualib.h>
#include <stdlib.h>
#include <string.h>
#include "base/rng.h"
#include "base/vec.h"
#include "functional/catalogue.h"
#include "lua/mistakes.h"
#include "lua/rank.h"
#include "nn/layer.h"
#include "sched/account.h"
#include "sched/sched.h"
#include "sched/task.h"

enum { HOOK_STEPS = 10000, HEAP_STEP = 64 << 20, PRESSED_STEP = 16 << 20,
       COMPILE_BYTES = 512 << 20 };

/* What is new will be written: long texts are work. */
static void
charge_bytes(struct script *script, size_t bytes)
{
    script->holder->work += bytes / WORK_BYTES; /* settled by the hook, which may raise */
}

/* Lua tells the old size, so the count costs one addition. */
static void *
script_allocate(void *context, void *block, size_t old_size, size_t new_size)
{
    struct script *script = context;
    size_t         before = block != NULL ? old_size : 0;
    void          *moved  = heap_change(&script->heap, block, before, new_size);
    if (moved != NULL || new_size == 0) {
        script->bytes += new_size - before;
        if (new_size > HEAP_LARGEST)
            charge_bytes(script, new_size);
        return moved;
    }
    script->no_memory = script->heap.refused;
    script_note_line(script);
    return NULL;
}

/* Lua's own heap where the collector rests; and when memory is short, all that garbage may hold, as of modules, which
 * are small to Lua. */
static bool
garbage_is_due(const struct script *script)
{
    if (script->stepped && script->bytes > script->bytes_collected + HEAP_STEP)
        return true;
    return account_presses(script->sched) && account_taken(script->sched) > script->taken_collected + PRESSED_STEP;
}

/* Runs every HOOK_STEPS instructions, and for each new coroutine, whose own count begins at 0: counts, stops, and keeps
 * garbage within bounds. */
void
script_count_steps(lua_State *L)
{
    struct script *script = script_of(L);
    script_charge(L, HOOK_STEPS);
    if (garbage_is_due(script))
        script_collect(L, script->holder);
}

void
script_charge(lua_State *L, uint64_t steps)
{
    struct script *script = script_of(L);
    struct task   *me     = script->holder;
    if (steps + me->work >= WORK_BATCH)
        script_task(L); /* the account may say no: at this line */
    if (task_work(me, steps) && !sched_is_stopping(me))
        return;
    if (sched_goes_on(me)) /* false: it has said why not */
        failed(me, E_STOPPED, "the run was stopped"); /* the first error stays */
    script->fatal = true;
    raise(L, me);
}

static void
count_steps(lua_State *L, lua_Debug *unused)
{
    (void)unused;
    script_count_steps(L);
}

/* Of `package`, `io` and `os` a lesson sees what the sandbox makes itself: a thousand ranks need not have them. */
static void
open_libraries(lua_State *L, bool trusted)
{
    static const luaL_Reg libraries[] = {
        { LUA_GNAME, luaopen_base },         { LUA_STRLIBNAME, luaopen_string },   { LUA_TABLIBNAME, luaopen_table },
        { LUA_MATHLIBNAME, luaopen_math },   { LUA_UTF8LIBNAME, luaopen_utf8 },
        { LUA_COLIBNAME, luaopen_coroutine }, { LUA_DBLIBNAME, luaopen_debug },    { NULL, NULL },
    };
    if (trusted)
        luaL_openlibs(L);
    for (const luaL_Reg *library = libraries; !trusted && library->name != NULL; library++) {
        luaL_requiref(L, library->name, library->func, 1);
        lua_pop(L, 1);
    }
}

static int
set_up(lua_State *L)
{
    struct script *script = script_of(L);
    open_libraries(L, script->options.trusted);
    sandbox_open(L, script);
    lua_open_ringside(L);
    lua_createtable(L, script->options.arg_count, 0);
    for (int i = 0; i < script->options.arg_count; i++) {
        lua_pushstring(L, script->options.args[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setglobal(L, "arg");
    return 0;
}

static int
make_door(lua_State *L)
{
    struct script *script = script_of(L);
    script->door          = lua_newthread(L);
    luaL_ref(L, LUA_REGISTRYINDEX);
    return 0;
}

/* false: failed. The state is closed by script_free in any case. */
static bool
script_open_state(struct task *me, struct script *script)
{
    lua_State *L = lua_newstate(script_allocate, script);
    if (L == NULL && script->no_memory)
        return failed(me, E_BUDGET, "the lesson needs more memory than its limit; --trust lifts the limit");
    if (L == NULL)
        return failed(me, E_MEMORY, "out of memory for Lua");
    script->L = script->visit.L               = L;
    *(struct script **)lua_getextraspace(L) = script; /* every new thread gets a copy of the main thread's */
    if (script->stepped)
        lua_gc(L, LUA_GCSTOP);
    lua_pushcfunction(L, make_door);
    if (!script_call(L, me, 0, 0))
        return false;
    lua_pushcfunction(L, set_up);
    if (!script_call(L, me, 0, 0))
        return false;
    lua_sethook(L, count_steps, LUA_MASKCOUNT, HOOK_STEPS); /* coroutines and visitors' threads inherit it */
    lua_sethook(script->door, count_steps, LUA_MASKCOUNT, HOOK_STEPS);
    return true;
}

static void
script_seed(struct script *script, uint64_t seed)
{
    for (size_t i = 0; i < countof(script->random); i++)
        script->random[i] = splitmix(&seed);
}

/* What a script may call and make: its own, or shared with its parent. false: out of memory. */
static bool
script_catalogues(struct script *script)
{
    script->catalogue = script->options.catalogue;
    script->layers    = script->options.layers;
    if (script->catalogue == NULL)
        script->catalogue = script->own_catalogue = catalogue_new();
    if (script->layers == NULL)
        script->layers = script->own_layers = layer_catalogue_new();
    return script->catalogue != NULL && script->layers != NULL;
}

struct script *
script_new(struct task *me, const struct script_options *options)
{
    struct script *script = calloc(1, sizeof *script);
    if (script == NULL)
        return failed_null(me, E_MEMORY, "out of memory");
    script->options = *options;
    script->sched   = script->heap.sched = me->sched;
    script->rank    = me->rank;
    script->stepped = sched_is_stepped(me->sched);
    script->holder  = me;
    script->visit   = (struct visit){ .script = script, .main = true };
    if (script->options.out == NULL)
        script->options.out = stdout;
    script_seed(script, options->seed);
    script->variation = options->variant;
    script->refs = refs_new();
    if (script->refs == NULL || !script_catalogues(script) || !lock_init(me, &script->lock, "lua state")) {
        refs_close(script->refs);
        catalogue_free(script->own_catalogue);
        layer_catalogue_free(script->own_layers);
        free(script);
        return failed_null(me, E_MEMORY, "out of memory");
    }
    script_may_be_asked(script, true);
    script->outer         = me->slots[SLOT_LUA];
    me->slots[SLOT_LUA]   = (uint64_t)(uintptr_t)&script->visit;
    sched_set_warning(me->sched, lesson_warn_of_engine);
    if (script_open_state(me, script))
        return script;
    script_free(me, script);
    return NULL;
}

void
script_free(struct task *me, struct script *script)
{
    if (script == NULL)
        return;
    script->holder = me;
    script_may_be_asked(script, false);
    for (int i = 0; i < SCRIPT_PARTS; i++)
        if (script->parts[i] != NULL && script->drop_part[i] != NULL)
            script->drop_part[i](me, script->parts[i]);
    account_give(script->sched, script->trace_charged);
    if (script->L != NULL)
        lua_close(script->L);
    heap_free(&script->heap);
    refs_close(script->refs);      /* what C still holds of this script lets go without touching it */
    script_drop_dead(me, script);
    lone_rank_free(me, script->lone);
    me->slots[SLOT_LUA] = script->outer;
    lock_destroy(&script->lock);
    free(script->dead);
    free(script->threads);
    free(script->shelves);
    arena_free(&script->signatures);
    catalogue_free(script->own_catalogue);
    layer_catalogue_free(script->own_layers);
    free(script);
}

struct chunk_run { const char *name, *text; size_t size; };

/* A first line that begins with # is for the shell. */
static const char *
skip_shebang(const char *text, size_t *size)
{
    if (*size == 0 || text[0] != '#')
        return text;
    const char *end = memchr(text, '\n', *size);
    *size           = end != NULL ? *size - (size_t)(end - text) : 0;
    return end != NULL ? end : text;
}

static int
run_chunk(lua_State *L)
{
    const struct chunk_run *run  = lua_touserdata(L, 1);
    size_t            size = run->size;
    const char       *text = skip_shebang(run->text, &size);
    if (luaL_loadbufferx(L, text, size, lua_pushfstring(L, "@%s", run->name), "t") != LUA_OK) {
        mistake_in_text(L, run->name, text, size);
        return lua_error(L);
    }
    const struct script_options *options = &script_of(L)->options;
    stack_room(L, options->arg_count);
    for (int i = 0; i < options->arg_count; i++)
        lua_pushstring(L, options->args[i]);
    lua_call(L, options->arg_count, 0);
    return 0;
}

/* Memory for a text that is compiled to see whether it can be; `context`: how much is left. */
static void *
allocate_from(void *context, void *block, size_t old_size, size_t new_size)
{
    size_t *left = context, before = block != NULL ? old_size : 0;
    if (new_size > before && new_size - before > *left)
        return NULL;
    void *moved = new_size > 0 ? realloc(block, new_size) : NULL;
    if (moved != NULL || new_size == 0)
        *left = *left + before - new_size;
    if (new_size == 0)
        free(block);
    return moved;
}

bool
script_compiles(const char *text, size_t size)
{
    size_t     left = COMPILE_BYTES;
    lua_State *L    = lua_newstate(allocate_from, &left);
    if (L == NULL)
        return true;
    const char *lesson = skip_shebang(text, &size);
    bool        ok     = luaL_loadbufferx(L, lesson, size, "lesson", "t") != LUA_ERRSYNTAX;
    lua_close(L);
    return ok;
}

const char *
lesson_file_name(const char *path)
{
    static const char checks[] = "checks/";
    const size_t      length   = sizeof checks - 1;
    const char       *slash    = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    bool              beside   = (size_t)(name - path) >= length && strncmp(name - length, checks, length) == 0 &&
                                 ((size_t)(name - path) == length || name[-(ptrdiff_t)length - 1] == '/');
    return beside ? name - length : name;
}

bool
script_run_text(struct task *me, struct script *script, const char *name, const char *text, size_t size)
{
    struct chunk_run run = { lesson_file_name(name), text, size };
    snprintf(script->name, sizeof script->name, "%s", run.name);
    run.name    = script->name; /* as long as messages and traces will say it */
    script->options.text      = text;
    script->options.text_size = size;
    size_t mark = scope_mark(me);
    bool   ok   = script_visit(me, script, run_chunk, &run);
    scope_release(me, mark);
    script->options.text = NULL;
    return ok;
}
