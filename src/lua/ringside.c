/* The table `rs` that require "ringside" answers: one file per namespace fills its part. rs.help(f) tells what a
 * function
 * takes and does, from the very table that registered it. */
#include "lua/dispatch.h"
#include "lua/shelf.h"
#include "base/str.h"
#include "base/vec.h"
#include "lua/reference.h"
#include "sched/task.h"

/* Every function's signature and help, sorted. */
static int
help_list(lua_State *L)
{
    lua_Integer count = 0;
    shelf_fill_all(L);
    push_notes(L);
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, 2) != 0; lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING)
            continue;
        lua_pushfstring(L, "%s: %s", lua_tostring(L, -2), noted_help(L, -1));
        lua_rawseti(L, 3, ++count);
    }
    lua_getglobal(L, "table");
    lua_getfield(L, -1, "sort");
    lua_pushvalue(L, 3);
    lua_call(L, 1, 0);
    lua_settop(L, 3);
    return 1;
}

/* What `ringside help NAME` prints. */
static int
help_of_name(lua_State *L)
{
    struct task *me  = script_task(L);
    struct str  *out = lua_newuserdatauv(L, sizeof *out, 0);
    *out             = (struct str){ 0 };
    size_t mark      = scope_mark(me);
    born(me, out, drop_text);
    struct reference_request request = { .form = REFERENCE_NAME, .name = lua_tostring(L, 1), .out = out };
    reference_answer_from(L, &request);
    lua_pushlstring(L, str_text(out), out->len);
    scope_release(me, mark);
    if (!request.found && request.meant[0] != '\0')
        return raise_error(L, "KeyError", "no help for '%.80s': did you mean %s?", lua_tostring(L, 1), request.meant);
    if (!request.found)
        return raise_error(L, "KeyError", "no help for '%.80s'; rs.help() lists what there is", lua_tostring(L, 1));
    return 1;
}

/* rs.help(f): signature and help of a function; rs.help("NAME"): all about a name; rs.help(): every function. */
static int
help_of_any(lua_State *L)
{
    lua_settop(L, 1);
    if (lua_isnil(L, 1))
        return help_list(L);
    if (lua_type(L, 1) == LUA_TSTRING)
        return help_of_name(L);
    const char *help = NULL;
    lua_pushvalue(L, 1);
    if (!push_noted(L, &help))
        return 0;
    lua_pushfstring(L, "%s: %s", lua_tostring(L, -1), help);
    return 1;
}

/* rs.error("ValueError", "text"): raises an error of that kind. */
static int
error_of(lua_State *L)
{
    const char *kind = check_text(L, 1), *message = check_text(L, 2);
    return raise_error(L, kind, "%s", message);
}

static const struct lua_entry entries[] = {
    { "help", help_of_any, "rs.help(name)", "what a name or a function is, as a text; without a name a list of all" },
    { "error", error_of, "rs.error(kind, message)", "raises an error: a table with kind, message and the line" },
};

void
lua_open_ringside(lua_State *L)
{
    static void (*const open[])(lua_State *L) = {
        lua_open_errors, lua_open_values, lua_open_tensor, lua_open_functions, lua_open_index, lua_open_create,
        lua_open_random, lua_open_autograd, lua_open_function, lua_open_module, lua_open_nn, lua_open_catalog,
        lua_open_container, lua_open_parallel, lua_open_optim, lua_open_cuda, lua_open_memory, lua_open_lesson,
        lua_open_exercise, lua_open_trace, lua_open_distributed, lua_open_futures, lua_open_data, lua_open_gradcheck,
        lua_open_dtypes, lua_open_faults, lua_open_checkpoint,
    };
    for (size_t i = 0; i < countof(open); i++) {
        open[i](L);
        lua_settop(L, 0);
    }
    fill_namespace(L, "", entries, countof(entries));
    guard_ringside(L);
}
