/* nn.utils.clip_grad_norm_ and clip_grad_value_. */
#include <math.h>
#include "base/vec.h"
#include "lua/dispatch.h"
#include "lua/optim.h"
#include "optim/clip.h"
#include "sched/task.h"

static int
clip_grad_norm_(lua_State *L)
{
    struct task     *me    = script_task(L);
    int              count = 0;
    struct arguments a;
    take_arguments(L, &a);
    struct norm_limit limit = { a.at[1].number, a.at[2].number, a.at[3].integer[0] != 0 };
    if (isnan(limit.norm_type))
        raise_error(L, "ValueError", "norm_type is nan: a norm's order is a number, inf or -inf");
    struct tensor **params = check_tensors(L, (int)a.at[0].integer[0], &count);
    struct call     call   = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, clip_grad_norm(me, params, count, &limit));
}

static int
clip_grad_value_(lua_State *L)
{
    struct task     *me    = script_task(L);
    int              count = 0;
    struct arguments a;
    take_arguments(L, &a);
    struct tensor **params = check_tensors(L, (int)a.at[0].integer[0], &count);
    struct call     call   = call_open(L, me, CALL_PLAIN);
    return call_done(&call, clip_grad_value(me, params, count, a.at[1].number));
}

static const struct lua_entry entries[] = {
    { "clip_grad_norm_", clip_grad_norm_,
      "nn.utils.clip_grad_norm_(any params, float max_norm, float norm_type=2, bool error_if_nonfinite=False) -> any",
      "scales all gradients so that their norm is at most max_norm; answers the norm before" },
    { "clip_grad_value_", clip_grad_value_, "nn.utils.clip_grad_value_(any params, float clip_value) -> any",
      "cuts every element of the gradients to -clip_value ... clip_value" },
};

void
lua_open_clip(lua_State *L)
{
    fill_namespace(L, "nn.utils", entries, countof(entries));
}
