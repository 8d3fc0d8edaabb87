/* nn.utils.clip_grad_norm_ and clip_grad_value_. */
#include <math.h>
#include "base/vec.h"
#include "lua/internal.h"
#include "lua/optim.h"
#include "optim/clip.h"
#include "sched/task.h"

/* clip_grad_norm_(parameters, max_norm, {norm_type = 2, error_if_nonfinite = false}) */
static int
clip_grad_norm_(lua_State *L)
{
    struct task *me    = script_task(L);
    int          count = 0;
    struct norm_limit limit = { .max_norm = check_number(L, 2) };
    int          table    = lua_type(L, 3) == LUA_TNUMBER ? 0 : option_table(L, 3);
    option_known(L, table, "norm_type error_if_nonfinite");
    limit.norm_type = option_number(L, table, "norm_type", table == 0 ? opt_number(L, 3, 2) : 2);
    limit.strict    = option_bool(L, table, "error_if_nonfinite", false);
    if (isnan(limit.norm_type))
        raise_error(L, "ValueError", "norm_type is nan: a norm's order is a number, inf or -inf");
    lua_settop(L, 3);
    struct tensor **params = check_tensors(L, 1, &count);
    struct call     call   = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, clip_grad_norm(me, params, count, &limit));
}

static int
clip_grad_value_(lua_State *L)
{
    struct task    *me     = script_task(L);
    int             count  = 0;
    double          value  = check_number(L, 2);
    struct tensor **params = check_tensors(L, 1, &count);
    struct call     call   = call_open(L, me, CALL_PLAIN);
    return call_done(&call, clip_grad_value(me, params, count, value));
}

static const struct lua_entry entries[] = {
    { "clip_grad_norm_", clip_grad_norm_,
      "nn.utils.clip_grad_norm_(params, max_norm, {norm_type = 2, error_if_nonfinite = false})",
      "scales all gradients so that their norm is at most max_norm; answers the norm before" },
    { "clip_grad_value_", clip_grad_value_, "nn.utils.clip_grad_value_(params, clip_value)",
      "cuts every element of the gradients to -clip_value ... clip_value" },
};

void
lua_open_clip(lua_State *L)
{
    fill_namespace(L, "nn.utils", entries, countof(entries));
}
