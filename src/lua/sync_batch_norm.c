/* nn.SyncBatchNorm, a class with a static method, and what a lesson reads of one.
 *
 * Interface: lua_open_sync_batch_norm, push_sync_batch_norm_attribute. */
#include "parallel/sync_batch_norm.h"
#include <string.h>
#include "base/vec.h"
#include "lua/dispatch.h"
#include "lua/parallel.h"
#include "lua/rank.h"
#include "nn/norm.h"
#include "sched/task.h"

/* In the order of the signature. */
enum { AT_FEATURES, AT_EPS, AT_MOMENTUM, AT_AFFINE, AT_TRACK, AT_GROUP, AT_DEVICE, AT_DTYPE, AT_BIAS };

static struct sync_group
group_at(lua_State *L, int index)
{
    struct process_group *group = check_group(L, index);
    return (struct sync_group){ group, group == NULL };
}

static int
l_sync_batch_norm(lua_State *L)
{
    struct task     *me = script_task(L);
    struct arguments a;
    take_arguments(L, &a);
    const struct argument  *given = &a.at[AT_GROUP];
    const struct sync_group group = given->none ? (struct sync_group){ NULL, false }
                                                : group_at(L, (int)given->integer[0]);
    const struct batch_norm_settings settings = {
        .num_features        = a.at[AT_FEATURES].integer[0],
        .eps                 = a.at[AT_EPS].number,
        .momentum            = a.at[AT_MOMENTUM].number,
        .cumulative          = a.at[AT_MOMENTUM].none,
        .affine              = a.at[AT_AFFINE].integer[0] != 0,
        .track_running_stats = a.at[AT_TRACK].integer[0] != 0,
        .bias                = a.at[AT_BIAS].integer[0] != 0,
        .dtype               = a.at[AT_DTYPE].none ? default_dtype(me) : a.at[AT_DTYPE].dtype,
    };
    if (!dtype_is_float(settings.dtype))
        raise_error(L, "TypeError", "nn.SyncBatchNorm: a layer's numbers are fractions, not %s",
                    dtype_name(settings.dtype));
    bool           moves  = !a.at[AT_DEVICE].none;
    struct call    call   = call_open(L, me, CALL_PLAIN);
    struct module *module = sync_batch_norm_new(me, &settings, &group);
    if (module != NULL && moves && !module_to(me, module, (int)a.at[AT_DEVICE].integer[0]))
        module = NULL;
    return call_module(&call, module);
}

/* nn.SyncBatchNorm.convert_sync_batchnorm(module, group), or (module, { process_group = group }) */
static int
l_convert(lua_State *L)
{
    struct module    *module = check_module(L, 1);
    struct sync_group group  = { NULL, false };
    arg_most(L, 2);
    lua_settop(L, 2);
    if (is_plain_table(L, 2)) {
        option_known(L, 2, "process_group");
        lua_getfield(L, 2, "process_group");
        lua_replace(L, 2);
    }
    if (!lua_isnil(L, 2))
        group = group_at(L, 2);
    struct call call = call_open(L, script_task(L), CALL_PLAIN);
    return call_module(&call, sync_batch_norm_convert(call.me, module, &group));
}

bool
push_sync_batch_norm_attribute(lua_State *L, const struct module *module, const char *name)
{
    if (!module_is_sync_batch_norm(module) || strcmp(name, "process_group") != 0)
        return false;
    struct sync_group own = sync_batch_norm_group(module);
    if (own.group == NULL && !own.outside)
        lua_pushnil(L);
    else
        push_group(L, own.group);
    return true;
}

static const struct lua_entry entries[] = {
    { "SyncBatchNorm", l_sync_batch_norm,
      "nn.SyncBatchNorm(int num_features, float eps=1e-5, float? momentum=0.1, bool affine=True, "
      "bool track_running_stats=True, any? process_group=None, device? device=None, dtype? dtype=None, *, "
      "bool bias=True) -> any",
      "channels normalised over the batches of all ranks of the group: in training a forward all-gathers each rank's "
      "mean, scale and count, its backward all-reduces two sums a channel. In evaluation, without a group or alone in "
      "one it is a BatchNorm. It runs on devices. Under Join it needs throw_on_early_termination: nobody shadows these "
      "two collectives" },
};

static const struct lua_entry statics[] = {
    { "convert_sync_batchnorm", l_convert,
      "nn.SyncBatchNorm.convert_sync_batchnorm(module, process_group)",
      "each BatchNorm below the module gives way to a SyncBatchNorm with the same parameters and buffers; answers the "
      "module, or the SyncBatchNorm that stands for it" },
};

void
lua_open_sync_batch_norm(lua_State *L)
{
    open_namespace(L, "nn", entries, countof(entries));
    make_class(L, "rs.nn.SyncBatchNorm", statics, countof(statics));
    lua_pop(L, 1);
}
