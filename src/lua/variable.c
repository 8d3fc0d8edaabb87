/* What a lesson calls a tensor, for messages: the local variable or upvalue of the function that runs which holds it,
 * or the element of a list in one. Where several views share the bytes, the one that has these and no others. It looks
 * only.
 *
 * Interface: lesson_names_tensors, once a run. */
#include <stdio.h>
#include <string.h>
#include "device/claims.h"
#include "lua/internal.h"
#include "lua/lesson.h"
#include "tensor/tensor.h"

enum { LIST_LOOKED_AT = 64, VARIABLES = 255 };

struct search {
    const struct access *access;
    char                *out;
    size_t               room;
    bool                 known, exact;   /* a name was found; it is of these bytes and no others */
};

/* Of the value at the top; index 0: the variable itself. */
static void
look_at_tensor(lua_State *L, struct search *search, const char *name, int index)
{
    const struct tensor *tensor = test_tensor(L, -1);
    if (tensor == NULL || search->exact || tensor_is_sparse(tensor) || tensor->storage != search->access->storage)
        return;
    struct access all   = tensor_access(tensor, false, NULL);
    bool          exact = all.begin == search->access->begin && all.end == search->access->end;
    if (search->known && !exact)
        return;
    search->known = true;
    search->exact = exact;
    if (index > 0)
        snprintf(search->out, search->room, "%s[%d]", name, index);
    else
        snprintf(search->out, search->room, "%s", name);
}

/* Pops the value. */
static void
look_at_variable(lua_State *L, struct search *search, const char *name)
{
    look_at_tensor(L, search, name, 0);
    for (int i = 1; lua_istable(L, -1) && i <= LIST_LOOKED_AT; i++) {
        bool ends = lua_rawgeti(L, -1, i) == LUA_TNIL;
        look_at_tensor(L, search, name, i);
        lua_pop(L, 1);
        if (ends)
            break;
    }
    lua_pop(L, 1);
}

/* The function that runs is at the top. */
static void
look_through(lua_State *L, lua_Debug *ar, struct search *search)
{
    const char *name;
    for (int i = 1; i < VARIABLES && (name = lua_getlocal(L, ar, i)) != NULL; i++) {
        if (name[0] != '(')
            look_at_variable(L, search, name);
        else
            lua_pop(L, 1);
    }
    for (int i = 1; i < VARIABLES && (name = lua_getupvalue(L, -1, i)) != NULL; i++)
        look_at_variable(L, search, name);
}

static bool
find_variable(struct task *me, const struct access *access, char *out, size_t room)
{
    lua_State    *L = task_lua(me);
    lua_Debug     ar;
    struct search search = { .access = access, .out = out, .room = room };
    if (L == NULL || !lua_checkstack(L, 8))
        return false;
    for (int level = 0; lua_getstack(L, level, &ar); level++) {
        lua_getinfo(L, "Sf", &ar);
        bool runs = strcmp(ar.what, "C") != 0;
        if (runs)
            look_through(L, &ar, &search);
        lua_pop(L, 1);
        if (runs)
            break;
    }
    return search.known;
}

void
lesson_names_tensors(struct sched *sched)
{
    static const struct access_names names = { .find = find_variable };
    claims_name_by(sched, &names);
}
