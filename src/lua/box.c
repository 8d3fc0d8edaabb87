/* Boxes: engine objects as Lua userdata; objects: Lua values held by the engine. Both directions keep to one rule:
 * who lets go does not do the work, it queues it. __gc queues what the engine must drop (script_drop_dead does, in
 * order of storage numbers, at collection points); object_free queues registry references (refs_settle gives them
 * back, by whoever takes the lock next). */
#include "lua/shelf.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/vec.h"
#include "device/device.h"
#include "device/storage.h"
#include "sched/account.h"
#include "sched/task.h"
#include "tensor/tensor.h"

static const char LIVE[] = "ringside.live", HELP[] = "ringside.help";
enum { DEBT_STEPPED = 16 << 20, DEBT_FREE = 1 << 20, HEAP_FREE = 256 << 10 };

static const struct { const char *metatable, *word; } box_kinds[BOX_KINDS] = {
    [BOX_TENSOR]    = { "ringside.tensor", "Tensor" },
    [BOX_MODULE]    = { "ringside.module", "Module" },
    [BOX_NODE]      = { "ringside.node", "Node" },
    [BOX_OPTIMIZER] = { "ringside.optimizer", "Optimizer" },
    [BOX_STREAM]    = { "ringside.stream", "Stream" },
    [BOX_EVENT]     = { "ringside.event", "Event" },
    [BOX_GENERATOR] = { "ringside.generator", "Generator" },
    [BOX_HANDLE]    = { "ringside.handle", "RemovableHandle" },
    [BOX_GROUP]     = { "ringside.group", "ProcessGroup" },
    [BOX_WORK]      = { "ringside.work", "Work" },
    [BOX_STORE]     = { "ringside.store", "Store" },
    [BOX_FUTURE]    = { "ringside.future", "Future" },
    [BOX_BUCKET]    = { "ringside.bucket", "GradBucket" },
    [BOX_HOOK_RUN]  = { "ringside.hook_run", "call of a comm hook" },
    [BOX_HOOK_STATE] = { "ringside.hook_state", "state of a comm hook" },
};

const char *
box_metatable(enum box_kind kind)
{
    return box_kinds[kind].metatable;
}

struct box *
box_push(lua_State *L, enum box_kind kind, int values)
{
    struct script *script = script_of(L);
    struct box    *box    = lua_newuserdatauv(L, sizeof *box, values);
    *box                  = (struct box){ .serial = ++script->boxes, .kind = kind };
    luaL_setmetatable(L, box_kinds[kind].metatable);
    return box;
}

/* The object's live box takes the place of the one at the top, which lets go: it is not the last reference. */
static bool
has_live_box(lua_State *L, struct box *box)
{
    void *object = box->object;
    push_weak_table(L, LIVE, "v");
    lua_rawgetp(L, -1, object);
    struct box *live = lua_touserdata(L, -1);
    bool        has  = live != NULL && live->object == object && live->kind == box->kind;
    if (has) {
        box->object = NULL;
        if (box->drop != NULL)
            box->drop(script_of(L)->holder, object);
        lua_replace(L, -3);
        lua_pop(L, 1);
        return true;
    }
    lua_pop(L, 1);
    lua_pushvalue(L, -2);
    lua_rawsetp(L, -2, object);
    lua_pop(L, 1);
    return false;
}

void
box_fill(lua_State *L, void *object, void (*drop)(struct task *me, void *object), bool shared)
{
    struct box *box = lua_touserdata(L, -1);
    box->object     = object;
    box->drop       = drop;
    if ((!shared || !has_live_box(L, box)) && box->kind != BOX_TENSOR)
        script_allocated(L, script_of(L)->holder, 0); /* a tensor's elements are counted by who hands it over */
}

void *
box_test(lua_State *L, int index, enum box_kind kind)
{
    struct box *box = luaL_testudata(L, index, box_kinds[kind].metatable);
    return box != NULL ? box->object : NULL;
}

void *
box_check(lua_State *L, int index, enum box_kind kind)
{
    void *object = box_test(L, index, kind);
    if (object == NULL)
        arg_error(L, index, box_kinds[kind].word);
    return object;
}

/* The order in which dead things are dropped must not depend on where they lay in memory. */
static uint64_t
death_order(const struct box *box)
{
    const struct tensor *tensor = box->object;
    if (box->kind != BOX_TENSOR)
        return ((uint64_t)(box->kind + 1) << 40) + box->serial;
    return tensor->storage != NULL ? tensor->storage->number : 0;
}

static int
box_gc(lua_State *L)
{
    enum box_kind  kind   = (enum box_kind)lua_tointeger(L, lua_upvalueindex(1));
    struct script *script = script_of(L);
    struct box    *box    = luaL_testudata(L, 1, box_kinds[kind].metatable);
    if (box == NULL || box->object == NULL)
        return 0;
    struct dead dead = { box->object, box->drop, death_order(box) };
    box->object      = NULL;
    if (dead.drop == NULL)
        return 0;
    if (vec_room(&script->dead, &script->dead_room, script->dead_count + 1, sizeof dead))
        script->dead[script->dead_count++] = dead;
    else
        dead.drop(script->holder, dead.object);
    return 0;
}

static void
sink(struct dead *dead, size_t root, size_t count)
{
    for (size_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && dead[child].order < dead[child + 1].order)
            child++;
        if (dead[root].order >= dead[child].order)
            return;
        struct dead moved = dead[root];
        dead[root]        = dead[child];
        dead[child]       = moved;
    }
}

/* A heap sort: qsort would ask the system for memory. */
static void
sort_dead(struct dead *dead, size_t count)
{
    for (size_t root = count / 2; root-- > 0;)
        sink(dead, root, count);
    for (size_t end = count; end-- > 1;) {
        struct dead last = dead[0];
        dead[0]          = dead[end];
        dead[end]        = last;
        sink(dead, 0, end);
    }
}

void
script_drop_dead(struct task *me, struct script *script)
{
    while (script->dead_count > 0) {
        struct dead *dead  = script->dead;
        size_t       count = script->dead_count, room = script->dead_room;
        script->dead       = NULL; /* dropping a module may find more dead */
        script->dead_count = script->dead_room = 0;
        sort_dead(dead, count);
        for (size_t i = 0; i < count; i++)
            dead[i].drop(me, dead[i].object);
        if (script->dead == NULL) { /* kept for the next time */
            script->dead      = dead;
            script->dead_room = room;
        } else {
            free(dead);
        }
    }
}

void
script_collect(lua_State *L, struct task *me)
{
    struct script *script = script_of(L);
    lua_gc(L, LUA_GCCOLLECT);
    script->bytes_collected = script->bytes;
    script->debt            = 0;
    script_drop_dead(me, script);
    refs_settle(L, script->refs);
    heap_trim(&script->heap);
    script->taken_collected = account_taken(script->sched);
}

/* Memory is short. In `stepped` nobody else runs and every C function has its arguments on a stack, so any script's
 * garbage can go; in `free` only that of a task which holds its Lua. */
static bool
collect_garbage(struct task *me, struct collector *self)
{
    struct script *script = (struct script *)(void *)((char *)self - offsetof(struct script, collector));
    if (!(script->stepped || task_holds_script(me, script)) || script->L == NULL || script->fatal)
        return false; /* another thread's script is not even looked at */
    struct task *holder = script->holder;
    script->holder = me; /* whoever had it is away */
    script_collect(script->door, me);
    script->holder = holder;
    return true;
}

void
script_may_be_asked(struct script *script, bool may)
{
    script->collector.collect = collect_garbage;
    if (may)
        account_add_collector(script->sched, &script->collector);
    else
        account_remove_collector(script->sched, &script->collector);
}

/* In `free`, where no run is like another, a full collection has to be worth it: small steps share one. */
void
script_collect_if_due(lua_State *L, struct task *me)
{
    struct script *script = script_of(L);
    if (script->stepped || script->debt >= DEBT_FREE || script->bytes > script->bytes_collected + HEAP_FREE) {
        script_collect(L, me);
        return;
    }
    script_drop_dead(me, script);
    refs_settle(L, script->refs);
}

/* What an object takes beside a tensor's elements: structs, a box, perhaps a node. */
enum { OBJECT_OVERHEAD = 1024 };

/* The more ranks there are, the less garbage each may keep. */
static uint64_t
debt_allowed(const struct script *script)
{
    uint64_t share = DEBT_STEPPED / (1 + account_collectors(script->sched) / 4);
    return !script->stepped || share < DEBT_FREE ? DEBT_FREE : share;
}

void
script_allocated(lua_State *L, struct task *me, uint64_t bytes)
{
    struct script *script = script_of(L);
    script->debt += bytes + OBJECT_OVERHEAD;
    if (script->debt < debt_allowed(script))
        return;
    if (script->stepped || account_presses(script->sched)) {
        script_collect(L, me);
        return;
    }
    uint64_t kilobytes = script->debt >> 10;
    script->debt       = 0;
    lua_gc(L, LUA_GCSTEP, (int)(kilobytes < 1 << 20 ? kilobytes : 1 << 20));
    script_drop_dead(me, script);
}

/* ---- Lua values held by the engine ---- */

struct refs {
    atomic_int      references;
    pthread_mutex_t mutex;
    bool            closed;
    int            *refs;
    size_t          count, room;
};

struct refs *
refs_new(void)
{
    struct refs *refs = calloc(1, sizeof *refs);
    if (refs == NULL)
        return NULL;
    atomic_init(&refs->references, 1);
    pthread_mutex_init(&refs->mutex, NULL);
    return refs;
}

static void
refs_drop(struct refs *refs)
{
    if (atomic_fetch_sub(&refs->references, 1) > 1)
        return;
    pthread_mutex_destroy(&refs->mutex);
    free(refs->refs);
    free(refs);
}

void
refs_close(struct refs *refs)
{
    if (refs == NULL)
        return;
    pthread_mutex_lock(&refs->mutex);
    refs->closed = true;
    pthread_mutex_unlock(&refs->mutex);
    refs_drop(refs);
}

void
refs_settle(lua_State *L, struct refs *refs)
{
    pthread_mutex_lock(&refs->mutex);
    for (size_t i = 0; i < refs->count; i++)
        luaL_unref(L, LUA_REGISTRYINDEX, refs->refs[i]);
    refs->count = 0;
    pthread_mutex_unlock(&refs->mutex);
}

struct script_object *
object_new(lua_State *L, struct task *me, int index, const char *name)
{
    struct script *script = script_of(L);
    index                 = lua_absindex(L, index);
    lua_pushvalue(L, index);
    int                   ref    = luaL_ref(L, LUA_REGISTRYINDEX);
    struct script_object *object = host_take(me, sizeof *object);
    if (object == NULL) {
        luaL_unref(L, LUA_REGISTRYINDEX, ref);
        return NULL;
    }
    *object = (struct script_object){ .refs = script->refs, .script = script, .ref = ref };
    snprintf(object->name, sizeof object->name, "%s", name != NULL ? name : "");
    atomic_fetch_add(&script->refs->references, 1);
    return object;
}

bool
object_open(const struct script_object *object)
{
    pthread_mutex_lock(&object->refs->mutex);
    bool open = !object->refs->closed;
    pthread_mutex_unlock(&object->refs->mutex);
    return open;
}

void
object_push(lua_State *L, const struct script_object *object)
{
    if (object != NULL && object_open(object) && object->script == script_of(L))
        lua_rawgeti(L, LUA_REGISTRYINDEX, object->ref);
    else
        lua_pushnil(L);
}

/* Without memory for the note the reference stays until the script closes: nothing else is lost. */
void
object_free(struct task *me, void *pointer)
{
    struct script_object *object = pointer;
    if (object == NULL)
        return;
    struct refs *refs = object->refs;
    pthread_mutex_lock(&refs->mutex);
    if (!refs->closed && vec_room(&refs->refs, &refs->room, refs->count + 1, sizeof *refs->refs))
        refs->refs[refs->count++] = object->ref;
    pthread_mutex_unlock(&refs->mutex);
    refs_drop(refs);
    host_return(me, object, sizeof *object);
}

/* ---- metatables and tables of functions ---- */

void
box_class(lua_State *L, enum box_kind kind, const struct lua_entry *methods, size_t count)
{
    luaL_newmetatable(L, box_kinds[kind].metatable);
    lua_pushinteger(L, kind);
    lua_pushcclosure(L, box_gc, 1);
    lua_setfield(L, -2, "__gc");
    lua_pushstring(L, box_kinds[kind].word);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "__name");
    lua_setfield(L, -2, "__metatable"); /* what getmetatable shows; setmetatable refuses */
    lua_newtable(L);
    shelf_open(L, -1, NULL);
    add_entries(L, -1, methods, count);
    lua_setfield(L, -2, "__index");
}

/* registry["ringside.help"]: signature -> help, and function -> signature (one C function may have two names; the last
 * one is its own). A help that stays is noted by its address: each rank has a hundred of them. */
static void
note_function(lua_State *L, const char *signature)
{
    luaL_getsubtable(L, LUA_REGISTRYINDEX, HELP);
    lua_pushvalue(L, -2);
    lua_pushstring(L, signature);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

void
note_help(lua_State *L, const char *signature, const char *help)
{
    note_name(L, signature, help);
    note_function(L, signature);
}

void
note_made_help(lua_State *L, const char *signature, const char *help)
{
    luaL_getsubtable(L, LUA_REGISTRYINDEX, HELP);
    lua_pushstring(L, help);
    lua_setfield(L, -2, signature);
    lua_pop(L, 1);
    note_function(L, signature);
}

void
note_name(lua_State *L, const char *signature, const char *help)
{
    luaL_getsubtable(L, LUA_REGISTRYINDEX, HELP);
    lua_pushlightuserdata(L, (void *)(uintptr_t)help);
    lua_setfield(L, -2, signature);
    lua_pop(L, 1);
}

void
push_notes(lua_State *L)
{
    luaL_getsubtable(L, LUA_REGISTRYINDEX, HELP);
}

const char *
noted_help(lua_State *L, int index)
{
    return lua_islightuserdata(L, index) ? lua_touserdata(L, index) : lua_tostring(L, index);
}

bool
push_noted(lua_State *L, const char **help)
{
    luaL_getsubtable(L, LUA_REGISTRYINDEX, HELP);
    lua_insert(L, -2);
    bool known = lua_rawget(L, -2) == LUA_TSTRING;
    if (known) {
        lua_pushvalue(L, -1);
        lua_rawget(L, -3);
        *help = noted_help(L, -1); /* the table keeps it */
        lua_pop(L, 1);
    }
    lua_remove(L, -2);
    return known;
}

void
add_entries(lua_State *L, int table, const struct lua_entry *entries, size_t count)
{
    table = lua_absindex(L, table);
    if (shelf_add(L, table, entries, count))
        return;
    for (size_t i = 0; i < count; i++) {
        lua_pushcfunction(L, entries[i].function);
        note_help(L, entries[i].signature, entries[i].help);
        lua_setfield(L, table, entries[i].name);
    }
}

void
push_ringside(lua_State *L)
{
    if (!luaL_getsubtable(L, LUA_REGISTRYINDEX, "ringside"))
        shelf_open(L, -1, "rs");
}

/* Of the namespace at the top the one inside, in its place: the last word of the first `length` bytes of `path`. */
static void
enter_namespace(lua_State *L, const char *path, size_t length)
{
    size_t word = length;
    while (word > 0 && path[word - 1] != '.')
        word--;
    lua_pushlstring(L, path + word, length - word);
    lua_pushvalue(L, -1);
    if (lua_rawget(L, -3) == LUA_TNIL) {
        char whole[120];
        lua_pop(L, 1);
        lua_newtable(L);
        snprintf(whole, sizeof whole, "rs.%.*s", (int)length, path);
        shelf_open(L, -1, whole);
        lua_pushvalue(L, -2);
        lua_pushvalue(L, -2);
        lua_rawset(L, -5);
    }
    lua_replace(L, -3);
    lua_pop(L, 1);
}

void
open_namespace(lua_State *L, const char *path, const struct lua_entry *entries, size_t count)
{
    push_ringside(L);
    for (size_t at = 0; path[at] != '\0'; at += path[at] == '.') {
        at += strcspn(path + at, ".");
        enter_namespace(L, path, at);
    }
    add_entries(L, -1, entries, count);
}

void
fill_namespace(lua_State *L, const char *path, const struct lua_entry *entries, size_t count)
{
    open_namespace(L, path, entries, count);
    lua_pop(L, 1);
}

void
add_methods(lua_State *L, enum box_kind kind, const struct lua_entry *methods, size_t count)
{
    luaL_getmetatable(L, box_metatable(kind));
    lua_getfield(L, -1, "methods");
    add_entries(L, -1, methods, count);
    lua_pop(L, 2);
}
