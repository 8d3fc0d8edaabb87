/* The names of back-ends of process groups: what is built in, what PyTorch has, what is neither. As
 * torch.distributed.Backend, is_available, is_backend_available, is_gloo_available and its like.
 *
 * Interface: check_backend, check_device_id, lua_open_backends. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/vec.h"
#include "c10d/backend.h"
#include "c10d/job.h"
#include "c10d/nccl.h"
#include "c10d/plugin.h"
#include "device/device.h"
#include "lua/dispatch.h"
#include "lua/rank.h"
#include "lua/share.h"
#include "lua/spawned.h"

enum { NAME_MOST = 32 };

static const char *const known[] = { "local", "gloo", "nccl", "ucc", "mpi", "xccl", "fake" };

/* In lower case; false: it is longer than any name. */
static bool
lower_name(const char *name, char out[NAME_MOST])
{
    size_t length = strlen(name);
    for (size_t i = 0; i <= length && length < NAME_MOST; i++)
        out[i] = (char)tolower((unsigned char)name[i]);
    return length < NAME_MOST;
}

static bool
is_known(const char *lower)
{
    bool found = false;
    for (size_t i = 0; i < countof(known) && !found; i++)
        found = strcmp(known[i], lower) == 0;
    return found;
}

static bool
is_nccl_here(void)
{
    struct backend_why       why;
    const struct nccl_table *table = nccl_table_open(&why);
    return table != NULL && table->gpus() > 0;
}

/* `local` always; those between processes where their library and our part for it are there; NCCL with GPUs. */
static bool
is_built(const char *lower)
{
    struct transport_why why;
    if (strcmp(lower, backend_nccl.name) == 0)
        return is_nccl_here();
    for (size_t i = 0; i < plugin_count(); i++)
        if (strcmp(lower, plugin_name(i)) == 0)
            return plugin_open(lower, &why) != NULL;
    return strcmp(lower, backend_local.name) == 0;
}

/* Ranks are processes of a job, whose back-end is one for all; or, where it has too few, tasks of the first. */
static const char *
backend_here(lua_State *L, const struct task *me)
{
    const struct rank *rank = script_of(L)->parts[SCRIPT_DISTRIBUTED];
    const struct job  *job  = share_job(me);
    bool               split = rank == NULL || rank->spawn == NULL || rank->spawn->split;
    return job != NULL && split ? job_backend(job) : backend_local.name;
}

/* With --backend nccl, whether there are GPUs enough or `local` does it. */
static bool
is_nccls(const struct task *me, const char *lower)
{
    return nccl_is_on(me->sched) && (strcmp(lower, backend_nccl.name) == 0 || strcmp(lower, backend_local.name) == 0);
}

/* Of one process alone, which talks to nobody: the name that its job has is as good as ours. */
static bool
is_lone_jobs(lua_State *L, const struct task *me, const char *lower)
{
    const struct rank *rank = script_of(L)->parts[SCRIPT_DISTRIBUTED];
    const struct job  *job  = job_of(me->sched);
    return job != NULL && job_size(job) == 1 && (rank == NULL || rank->spawn == NULL) &&
           strcmp(job_backend(job), lower) == 0;
}

static void
refuse_backend(lua_State *L, const char *lower, const char *here)
{
    if (strcmp(here, backend_local.name) != 0)
        raise_error(L, "RuntimeError", "the ranks of this job have the back-end '%s', not '%s': write '%s', or leave "
                    "it out", here, lower, here);
    if (strcmp(lower, backend_nccl.name) == 0 && is_built(lower))
        raise_error(L, "RuntimeError", "the back-end 'nccl' is chosen on the command line: ringside run --device cuda "
                    "--backend nccl LESSON; here, write '%s', or leave it out", here);
    if (is_built(lower))
        raise_error(L, "RuntimeError", "the back-end '%s' is for ranks that are processes: %s; here, write '%s', or "
                    "leave it out", lower, strcmp(lower, "mpi") == 0 ? "mpirun -n 2 ringside run --backend mpi LESSON"
                    : "ringside launch --nproc 2 LESSON", here);
    raise_error(L, "RuntimeError", "the back-end '%s' is not built in: write '%s', or leave it out", lower, here);
}

/* "local", or one for each kind of device: "cpu:local,cuda:local". */
void
check_backend(lua_State *L, struct task *me, const char *name)
{
    const char *here = backend_here(L, me);
    for (const char *at = name; at != NULL;) {
        size_t      length = strcspn(at, ","), device = strcspn(at, ":,");
        const char *one    = at + (at[device] == ':' ? device + 1 : 0);
        char        word[NAME_MOST], lower[NAME_MOST];
        snprintf(word, sizeof word, "%.*s", (int)(at + length - one), one);
        bool fits = lower_name(word, lower);
        if (!fits || !is_known(lower))
            raise_error(L, "AssertionError", "Unknown c10d backend type %.60s: there is %s", name, here);
        if (strcmp(lower, here) != 0 && !is_lone_jobs(L, me, lower) && !is_nccls(me, lower))
            refuse_backend(L, lower, here);
        at = at[length] == ',' ? at + length + 1 : NULL;
    }
}

void
check_device_id(lua_State *L, struct task *me, const struct argument *device_id)
{
    int64_t device = device_id->integer[0];
    if (!device_id->none && device >= device_count(me))
        raise_error(L, "ValueError", "device_id %lld is out of range: there are %d devices", (long long)device,
                    device_count(me));
}

/* dist.Backend("LOCAL"): the name in lower case. Argument 1 is the table. */
static int
l_backend(lua_State *L)
{
    char lower[NAME_MOST];
    if (lua_type(L, 2) != LUA_TSTRING)
        return raise_error(L, "ValueError", "Backend constructor parameter must be string-ish, got %s",
                           luaL_typename(L, 2));
    if (!lower_name(lua_tostring(L, 2), lower) || !is_known(lower))
        return raise_error(L, "ValueError", "Invalid backend: '%.60s'; there is %s", lua_tostring(L, 2),
                           backend_local.name);
    lua_pushstring(L, lower);
    return 1;
}

/* dist.Backend.LOCAL */
static int
backend_index(lua_State *L)
{
    char lower[NAME_MOST], upper[NAME_MOST];
    const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    bool        fits = lower_name(name, lower);
    for (size_t i = 0; fits && i <= strlen(lower); i++)
        upper[i] = (char)toupper((unsigned char)lower[i]);
    if (!fits || strcmp(upper, name) != 0 || !is_known(lower))
        return no_attribute(L, "rs.distributed.Backend", name, 0, "LOCAL GLOO NCCL UCC MPI XCCL FAKE");
    lua_pushstring(L, lower);
    return 1;
}

static int
l_is_available(lua_State *L)
{
    lua_pushboolean(L, true);
    return 1;
}

static int
l_is_backend_available(lua_State *L)
{
    struct arguments a;
    char             lower[NAME_MOST];
    script_task(L);
    take_arguments(L, &a);
    lua_pushboolean(L, lower_name(a.at[0].text, lower) && is_built(lower));
    return 1;
}

static int
answer_built(lua_State *L, const char *name)
{
    lua_pushboolean(L, is_built(name));
    return 1;
}

static int
l_is_gloo_available(lua_State *L)
{
    return answer_built(L, "gloo");
}

static int
l_is_mpi_available(lua_State *L)
{
    return answer_built(L, "mpi");
}

static int
l_is_nccl_available(lua_State *L)
{
    return answer_built(L, "nccl");
}

/* torchrun and `ringside launch` say so. */
static int
l_is_torchelastic_launched(lua_State *L)
{
    lua_pushboolean(L, getenv("TORCHELASTIC_RUN_ID") != NULL);
    return 1;
}

static const struct lua_entry entries[] = {
    { "is_torchelastic_launched", l_is_torchelastic_launched, "dist.is_torchelastic_launched()",
      "whether `ringside launch`, or torchrun, started this process" },
    { "is_gloo_available", l_is_gloo_available, "dist.is_gloo_available()", "whether the back-end gloo is there" },
    { "is_mpi_available", l_is_mpi_available, "dist.is_mpi_available()", "whether the back-end mpi is there" },
    { "is_nccl_available", l_is_nccl_available, "dist.is_nccl_available()", "whether the back-end nccl is built in" },
    { "is_available", l_is_available, "dist.is_available()", "whether process groups are built in" },
    { "is_backend_available", l_is_backend_available, "dist.is_backend_available(str backend) -> any",
      "whether that back-end is built in" },
};

void
lua_open_backends(lua_State *L)
{
    open_namespace(L, "distributed", entries, countof(entries));
    lua_newtable(L);
    lua_createtable(L, 0, 2);
    lua_pushcfunction(L, l_backend);
    lua_setfield(L, -2, "__call");
    lua_pushcfunction(L, backend_index);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    lua_setfield(L, -2, "Backend");
    lua_pop(L, 1);
}
