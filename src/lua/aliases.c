/* PyTorch's second names: torch.clip is torch.clamp, torch.softmax is functional.softmax, rs.reshape(t, ...) is
 * t:reshape(...). The same function object under another name, so that there is one help text and one behaviour. */
#include <stdio.h>
#include "base/vec.h"
#include "lua/shelf.h"

struct alias { const char *name, *of; };

/* Of methods and functions alike; in-place twins follow where there are any. */
static const struct alias second_names[] = { { "ger", "outer" } };

/* Functions of nn.functional that torch has, too. */
static const char *const of_functional[] = {
    "softmax", "relu_", "dropout", "embedding", "layer_norm", "group_norm", "batch_norm", "instance_norm", "bilinear",
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "max_pool1d",
        "max_pool2d",
    "max_pool3d", "avg_pool1d", "adaptive_avg_pool1d", "celu", "selu", "prelu", "threshold", "pairwise_distance",
    "cosine_similarity", "binary_cross_entropy_with_logits", "kl_div", "pixel_shuffle", "pixel_unshuffle", "hardshrink",
};

/* And that tensors have as methods. */
static const char *const as_methods[] = { "softmax", "prelu", "hardshrink" };

/* Into the table at `to` from the one at `from`; what is not there, or has that name already, stays as it is. */
static void
alias(lua_State *L, int to, const char *name, int from, const char *of)
{
    lua_pushstring(L, name);
    lua_pushstring(L, of);
    bool wanted = shelf_get(L, from) == LUA_TFUNCTION;
    lua_insert(L, -2);
    wanted = shelf_get(L, to) == LUA_TNIL && wanted;
    lua_pop(L, 1);
    if (wanted)
        lua_setfield(L, to, name);
    else
        lua_pop(L, 1);
}

static void
second_names_of(lua_State *L, int table)
{
    for (size_t i = 0; i < countof(second_names); i++) {
        char name[40], of[40];
        alias(L, table, second_names[i].name, table, second_names[i].of);
        snprintf(name, sizeof name, "%s_", second_names[i].name);
        snprintf(of, sizeof of, "%s_", second_names[i].of);
        alias(L, table, name, table, of);
    }
}

/* Comes last: the tables it copies from are filled. */
void
lua_open_aliases(lua_State *L)
{
    push_ringside(L);
    int rs = lua_gettop(L);
    luaL_getmetatable(L, box_metatable(BOX_TENSOR));
    lua_getfield(L, -1, "methods");
    int methods = lua_gettop(L);
    lua_getfield(L, rs, "nn");
    lua_getfield(L, -1, "functional");
    int functional = lua_gettop(L);

    second_names_of(L, rs);
    second_names_of(L, methods);
    for (size_t i = 0; i < countof(of_functional); i++)
        alias(L, rs, of_functional[i], functional, of_functional[i]);
    for (size_t i = 0; i < countof(as_methods); i++)
        alias(L, methods, as_methods[i], functional, as_methods[i]);
    lua_settop(L, rs - 1);
}
