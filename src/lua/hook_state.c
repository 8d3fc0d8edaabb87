/* States of the library's comm hooks in Lua: state.iter, state.start_localSGD_iter = 10. A state's fields are those of
 * a C struct, described by a table; the hook reads and counts them there without a visit to Lua. As Python objects with
 * __slots__: there are no other fields. The box's user value 1 is its class. */
#include "lua/comm_hook.h"

#include <string.h>
#include "base/vec.h"
#include "lua/rank.h"

enum { HAS_CLASS = 1 };

void
push_state_box(lua_State *L, const struct state_class *class)
{
    box_push(L, BOX_HOOK_STATE, HAS_CLASS);
    lua_pushlightuserdata(L, (void *)(uintptr_t)class);
    lua_setiuservalue(L, -2, HAS_CLASS);
}

void
fill_state_box(lua_State *L, struct hook_state *state)
{
    box_fill(L, state, hook_state_unref, true);
}

static const struct state_class *
class_of(lua_State *L, int index)
{
    lua_getiuservalue(L, index, HAS_CLASS);
    const struct state_class *class = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return class;
}

const struct state_class *
state_class_at(lua_State *L, int index)
{
    return box_test(L, index, BOX_HOOK_STATE) != NULL ? class_of(L, index) : NULL;
}

struct hook_state *
check_state(lua_State *L, int index, const struct state_class *class, const char *hook)
{
    struct hook_state *state = box_test(L, index, BOX_HOOK_STATE);
    if (state == NULL || (class != NULL && class_of(L, index) != class))
        raise_error(L, "TypeError", "%s takes a %s for its state, but got %s", hook,
                    class != NULL ? class->name : "state",
                    state != NULL ? class_of(L, index)->name : luaL_typename(L, index));
    return state;
}

/* ---- fields ---- */

static const struct state_field *
find_field(const struct state_class *class, const char *name)
{
    for (size_t i = 0; i < class->field_count; i++)
        if (strcmp(class->fields[i].name, name) == 0)
            return &class->fields[i];
    return NULL;
}

static void
push_field(lua_State *L, const struct state_field *field, struct hook_state *state)
{
    const char           *place = (const char *)state + field->offset;
    struct process_group *group;
    switch (field->type) {
    case FIELD_INTEGER: lua_pushinteger(L, *(const int64_t *)place); break;
    case FIELD_NUMBER:  lua_pushnumber(L, *(const double *)place); break;
    case FIELD_FLAG:    lua_pushboolean(L, *(const bool *)place); break;
    case FIELD_GROUP:
        group = *(struct process_group *const *)place;
        if (group != NULL)
            push_group(L, group);
        else
            lua_pushnil(L);
        break;
    case FIELD_OWN:     field->push(L, state); break;
    }
}

static int
no_such_field(lua_State *L, const struct state_class *class, const char *name)
{
    lua_createtable(L, 0, (int)class->field_count);
    for (size_t i = 0; i < class->field_count; i++)
        set_flag(L, -1, class->fields[i].name, true);
    lua_pushfstring(L, "'%s' object", class->name);
    return no_attribute(L, lua_tostring(L, -1), name, lua_gettop(L) - 1, NULL);
}

static int
state_index(lua_State *L)
{
    struct hook_state        *state = box_check(L, 1, BOX_HOOK_STATE);
    const struct state_class *class = class_of(L, 1);
    const char               *name  = check_text(L, 2);
    const struct state_field *field = find_field(class, name);
    if (field != NULL) {
        push_field(L, field, state);
        return 1;
    }
    for (size_t i = 0; i < class->method_count; i++)
        if (strcmp(class->methods[i].name, name) == 0) {
            lua_pushcfunction(L, class->methods[i].function);
            return 1;
        }
    return no_such_field(L, class, name);
}

static int
state_newindex(lua_State *L)
{
    struct hook_state        *state = box_check(L, 1, BOX_HOOK_STATE);
    const struct state_class *class = class_of(L, 1);
    const char               *name  = check_text(L, 2);
    const struct state_field *field = find_field(class, name);
    if (field == NULL)
        return no_such_field(L, class, name);
    if (field->read_only)
        return raise_error(L, "AttributeError", "%s.%s is kept by its hook: it can be read, not set", class->name,
                           name);
    char *place = (char *)state + field->offset;
    switch (field->type) {
    case FIELD_INTEGER: *(int64_t *)place = check_integer(L, 3); break;
    case FIELD_NUMBER:  *(double *)place = check_number(L, 3); break;
    case FIELD_FLAG:    *(bool *)place = check_flag(L, 3); break;
    case FIELD_GROUP:
        *(struct process_group **)place = lua_isnil(L, 3) ? NULL : check_group(L, 3);
        break;
    case FIELD_OWN:     break;
    }
    return 0;
}

static int
state_tostring(lua_State *L)
{
    lua_pushfstring(L, "%s()", class_of(L, 1)->name);
    return 1;
}

void
lua_open_hook_states(lua_State *L)
{
    box_class(L, BOX_HOOK_STATE, NULL, 0);
    lua_pushcfunction(L, state_index);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, state_newindex);
    lua_setfield(L, -2, "__newindex");
    lua_pushcfunction(L, state_tostring);
    lua_setfield(L, -2, "__tostring");
    lua_pop(L, 1);
}
