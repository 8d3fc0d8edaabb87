/* Functions that are made when a lesson first names them. A table (rs, a namespace, the methods of a class) knows from
 * which lists of entries, or from which part of the catalogue, it can be filled; until then a function costs nothing.
 *
 * Interface: shelf_open, shelf_is, shelf_has_methods, shelf_add, shelf_add_catalogue once per list; shelf_get for a
 * lookup; shelf_fill before a table is walked. */
#include "lua/shelf.h"
#include <stdio.h>
#include <string.h>
#include "base/vec.h"
#include "lua/copy.h"
#include "lua/dispatch.h"

static const char SHELVES[] = "ringside.shelves", MADE[] = "ringside.made";

/* One list of a table, which is known by its address: it lives as long as the state. */
struct shelf {
    const void     *table;
    union {
        const struct lua_entry   *entries;
        const struct shelf_maker *maker;
        const char               *before; /* of the catalogue: "rs.", "t:" */
    };
    uint16_t        count, forms;         /* entries; which of the catalogue's functions */
    bool            makes, filled;        /* makes: it has a maker */
};

static void
add_shelf(lua_State *L, struct shelf shelf)
{
    struct script *script = script_of(L);
    if (!vec_room(&script->shelves, &script->shelf_room, script->shelf_count + 1, sizeof shelf))
        raise_error(L, "MemoryError", "out of memory");
    script->shelves[script->shelf_count++] = shelf;
}

bool
shelf_is(lua_State *L, int table)
{
    const struct script *script = script_of(L);
    const void *wanted = lua_topointer(L, table);
    for (size_t i = script->shelf_count; i-- > 0;) /* the one that is being filled came last */
        if (script->shelves[i].table == wanted)
            return true;
    return false;
}

bool
shelf_has_methods(lua_State *L, int table)
{
    const struct script *script = script_of(L);
    for (size_t i = 0; i < script->shelf_count; i++) {
        const struct shelf *shelf = &script->shelves[i];
        if (shelf->table == lua_topointer(L, table) && shelf->count > 0 &&
            strcspn(shelf->entries->signature, ":") < strcspn(shelf->entries->signature, "("))
            return true;
    }
    return false;
}

bool
shelf_add(lua_State *L, int table, const struct lua_entry *entries, size_t count)
{
    if (!shelf_is(L, table))
        return false;
    add_shelf(L, (struct shelf){ .table = lua_topointer(L, table), .entries = entries, .count = (uint16_t)count });
    return true;
}

void
shelf_add_catalogue(lua_State *L, int table, unsigned forms, const char *before)
{
    add_shelf(L, (struct shelf){ .table = lua_topointer(L, table), .before = before, .forms = (uint16_t)forms });
}

void
shelf_add_maker(lua_State *L, int table, const struct shelf_maker *maker)
{
    add_shelf(L, (struct shelf){ .table = lua_topointer(L, table), .maker = maker, .makes = true });
}

/* ---- making one ---- */

/* Parsed once in each script. The function itself has the entry, which outlives every script: a copy of it in another
 * rank, or one that a rank answered, finds a signature of its own. */
const struct signature *
entry_signature(lua_State *L, const struct lua_entry *entry)
{
    struct arena     *arena     = &script_of(L)->signatures;
    struct signature *signature = NULL;
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, entry) == LUA_TLIGHTUSERDATA)
        signature = lua_touserdata(L, -1);
    lua_pop(L, 1);
    if (signature != NULL)
        return signature;
    signature = arena_take(arena, sizeof *signature);
    if (signature == NULL || !signature_parse(arena, entry->signature, signature))
        raise_error(L, "MemoryError", "out of memory");
    lua_pushlightuserdata(L, signature);
    lua_rawsetp(L, LUA_REGISTRYINDEX, entry);
    return signature;
}

/* The signature is either a usage, to be shown as it is, or in the catalogue's language: then the entry is the
 * function's upvalue 1, for take_arguments. */
static void
push_entry_function(lua_State *L, const struct lua_entry *entry)
{
    if (strstr(entry->signature, ") -> ") == NULL) {
        lua_pushcfunction(L, entry->function);
        note_help(L, entry->signature, entry->help);
        return;
    }
    const char *usage = push_usage(L, entry_signature(L, entry), "");
    lua_pushlightuserdata(L, (void *)(uintptr_t)entry);
    lua_pushcclosure(L, entry->function, 1);
    note_help(L, usage, entry->help);
    lua_remove(L, -2);
}

/* The function of that name from a list of entries, pushed and noted; false: there is none. */
static bool
push_entry(lua_State *L, const struct shelf *shelf, const char *name)
{
    for (size_t i = 0; i < shelf->count; i++) {
        if (strcmp(shelf->entries[i].name, name) != 0)
            continue;
        push_entry_function(L, &shelf->entries[i]);
        return true;
    }
    return false;
}

static bool
push_from(lua_State *L, int table, const struct shelf *shelf, const char *name)
{
    if (shelf->makes)
        return shelf->maker->push(L, name);
    if (shelf->forms == 0)
        return push_entry(L, shelf, name);
    return push_catalogue_function(L, table, name, shelf->forms, shelf->before);
}

/* Has a shelf's function been made before? Then the lesson has taken it away. Notes that it is now. */
static bool
was_made(lua_State *L, size_t shelf, const char *name)
{
    luaL_getsubtable(L, LUA_REGISTRYINDEX, MADE);
    lua_pushfstring(L, "%d %s", (int)shelf, name);
    lua_pushvalue(L, -1);
    bool before = lua_rawget(L, -3) != LUA_TNIL;
    lua_pop(L, 1);
    lua_pushboolean(L, true);
    lua_rawset(L, -3);
    lua_pop(L, 1);
    return before;
}

/* Makes the function `name` of a table and keeps it there and on the stack; of two lists the later one counts. */
static bool
make_function(lua_State *L, int table, const char *name)
{
    const struct script *script = script_of(L);
    for (size_t i = script->shelf_count; i-- > 0;) {
        const struct shelf shelf = script->shelves[i];
        if (shelf.table != lua_topointer(L, table) || !push_from(L, table, &shelf, name))
            continue;
        if (was_made(L, i, name)) {
            lua_pop(L, 1);
            return false;
        }
        lua_pushstring(L, name);
        lua_pushvalue(L, -2);
        lua_rawset(L, table);
        permanents_forget(L);
        return true;
    }
    return false;
}

int
shelf_get(lua_State *L, int table)
{
    table = lua_absindex(L, table);
    lua_pushvalue(L, -1);
    if (lua_rawget(L, table) == LUA_TNIL && lua_type(L, -2) == LUA_TSTRING) {
        lua_pop(L, 1);
        if (!make_function(L, table, lua_tostring(L, -1)))
            lua_pushnil(L);
    }
    lua_remove(L, -2);
    return lua_type(L, -1);
}

/* ---- all of them ---- */

static void
fill_one(lua_State *L, int table, const char *name)
{
    lua_pushstring(L, name);
    shelf_get(L, table);
    lua_pop(L, 1);
}

static void
fill_catalogue(lua_State *L, int table, unsigned forms)
{
    size_t                 count;
    const struct function *functions = catalogue_functions(script_of(L)->catalogue, &count);
    const char            *name, *of;
    char                   twin[64];
    for (size_t i = 0; i < count; i++) {
        if ((functions[i].row->forms & forms) == 0)
            continue;
        snprintf(twin, sizeof twin, "%s%s", functions[i].signature.name, forms == FORM_IN_PLACE ? "_" : "");
        fill_one(L, table, twin);
    }
    for (size_t i = 0; catalogue_alias(i, &name, &of); i++) {
        snprintf(twin, sizeof twin, "%s%s", name, forms == FORM_IN_PLACE ? "_" : "");
        fill_one(L, table, twin);
    }
}

static void
fill_made(lua_State *L, int table, const struct shelf_maker *maker)
{
    const char *name;
    for (size_t i = 0; (name = maker->name(L, i)) != NULL; i++)
        fill_one(L, table, name);
}

void
shelf_fill(lua_State *L, int table)
{
    struct script *script = script_of(L);
    table                 = lua_absindex(L, table);
    for (size_t i = 0; i < script->shelf_count; i++) {
        struct shelf shelf = script->shelves[i];
        if (shelf.table != lua_topointer(L, table) || shelf.filled)
            continue;
        script->shelves[i].filled = true;
        for (size_t j = 0; j < shelf.count; j++)
            fill_one(L, table, shelf.entries[j].name);
        if (shelf.makes)
            fill_made(L, table, shelf.maker);
        if (shelf.forms != 0)
            fill_catalogue(L, table, shelf.forms);
    }
}

/* The tables themselves are kept by shelf_open. */
void
shelf_fill_all(lua_State *L)
{
    luaL_getsubtable(L, LUA_REGISTRYINDEX, SHELVES);
    for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1))
        shelf_fill(L, -1);
    lua_pop(L, 1);
}

/* ---- the tables' metatables ---- */

/* Upvalues: the table; the namespace's name, nil for methods. */
static int
shelf_index(lua_State *L)
{
    if (lua_type(L, 2) != LUA_TSTRING)
        return 0;
    lua_pushvalue(L, 2);
    if (shelf_get(L, lua_upvalueindex(1)) != LUA_TNIL || lua_isnil(L, lua_upvalueindex(2)))
        return 1;
    return no_attribute(L, lua_tostring(L, lua_upvalueindex(2)), lua_tostring(L, 2), lua_upvalueindex(1), NULL);
}

static int
walk_next(lua_State *L)
{
    lua_settop(L, 2);
    return lua_next(L, 1) != 0 ? 2 : (lua_pushnil(L), 1);
}

/* pairs of the trusted; a lesson's own fills the table too, see push_sorted_keys. */
static int
shelf_pairs(lua_State *L)
{
    shelf_fill(L, 1);
    lua_pushcfunction(L, walk_next);
    lua_pushvalue(L, 1);
    lua_pushnil(L);
    return 3;
}

static int
namespace_call(lua_State *L)
{
    return raise_error(L, "TypeError", "%s is a namespace, not a function", lua_tostring(L, lua_upvalueindex(1)));
}

void
shelf_open(lua_State *L, int table, const char *path)
{
    table = lua_absindex(L, table);
    if (shelf_is(L, table))
        return;
    add_shelf(L, (struct shelf){ .table = lua_topointer(L, table) });
    luaL_getsubtable(L, LUA_REGISTRYINDEX, SHELVES);
    lua_pushvalue(L, table);
    luaL_ref(L, -2);
    lua_pop(L, 1);
    lua_createtable(L, 0, 3);
    lua_pushvalue(L, table);
    lua_pushstring(L, path);
    lua_pushcclosure(L, shelf_index, 2);
    lua_setfield(L, -2, "__index");
    if (path != NULL) {
        lua_pushstring(L, path);
        lua_pushcclosure(L, namespace_call, 1);
        lua_setfield(L, -2, "__call");
    }
    if (script_of(L)->options.trusted) {
        lua_pushcfunction(L, shelf_pairs);
        lua_setfield(L, -2, "__pairs");
    }
    lua_setmetatable(L, table);
}
