/* nn.Conv2d and all other layers: what nn/layers.def lists, with arguments in PyTorch's order, by name in one trailing
 * table, or both. rs.none is None. */
#include <stdio.h>
#include <string.h>
#include "lua/dispatch.h"
#include "lua/shelf.h"
#include "nn/layer.h"
#include "sched/task.h"

static int
make_layer(lua_State *L)
{
    struct task             *me   = script_task(L);
    const struct layer_kind *kind = lua_touserdata(L, lua_upvalueindex(1));
    struct arguments         a;
    char                     title[64];
    snprintf(title, sizeof title, "nn.%s", kind->signature.name);
    read_arguments(L, &kind->signature, title, &a);
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_module(&call, layer_new(me, kind, &a));
}

/* The constructor of that layer, pushed and noted; false: there is none. */
static bool
push_layer(lua_State *L, const char *name)
{
    size_t                   count;
    const struct layer_kind *kinds = layer_kinds(script_of(L)->layers, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(kinds[i].signature.name, name) != 0)
            continue;
        const char *usage = push_usage(L, &kinds[i].signature, "nn.");
        lua_pushlightuserdata(L, (void *)(uintptr_t)&kinds[i]);
        lua_pushcclosure(L, make_layer, 1);
        note_help(L, usage, kinds[i].row->help);
        lua_remove(L, -2);
        return true;
    }
    return false;
}

static const char *
layer_name(lua_State *L, size_t index)
{
    size_t                   count;
    const struct layer_kind *kinds = layer_kinds(script_of(L)->layers, &count);
    return index < count ? kinds[index].signature.name : NULL;
}

void
lua_open_catalog(lua_State *L)
{
    static const struct shelf_maker layers = { push_layer, layer_name };
    open_namespace(L, "nn", NULL, 0);
    shelf_add_maker(L, -1, &layers);
    lua_pop(L, 1);
}
