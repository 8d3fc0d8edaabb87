/* Opens NCCL's library when it is first needed: by the loader's own paths (LD_LIBRARY_PATH; where Python's wheels keep
 * theirs has to stand there), else beside the toolkit. What is open stays so, since NCCL's threads outlive their
 * communicators.
 *
 * Interface: nccl_load. */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "plugins/cuda/nccl_api.h"

#if defined(__has_include)
#if __has_include(<nccl.h>)
#include <nccl.h>
_Static_assert(NCCL_ID_BYTES == NCCL_UNIQUE_ID_BYTES && sizeof(ncclUniqueId) == sizeof(struct nccl_id), "NCCL's id");
_Static_assert((int)RESULT_IN_PROGRESS == (int)ncclInProgress && (int)RESULT_REMOTE == (int)ncclRemoteError, "results");
_Static_assert((int)TYPE_BFLOAT16 == (int)ncclBfloat16 && (int)TYPE_INT64 == (int)ncclInt64, "types");
_Static_assert((int)OP_MAX == (int)ncclMax && (int)OP_MIN == (int)ncclMin && (int)OP_AVG == (int)ncclAvg, "reductions");
_Static_assert((int)SCALAR_HOST == (int)ncclScalarHostImmediate, "scalars");
_Static_assert(offsetof(struct nccl_config, blocking) == offsetof(ncclConfig_t, blocking), "the config");
#if NCCL_VERSION_CODE >= 22700
_Static_assert(offsetof(struct nccl_config, name) == offsetof(ncclConfig_t, commName), "the config");
_Static_assert(sizeof(struct nccl_config) == offsetof(ncclConfig_t, collnetEnable), "the config");
#endif
#endif
#endif

enum { VERSION_LEAST = 21400 };

/* One library of a process: NCCL counts its communicators, threads and settings for all who use it. */
static struct { pthread_mutex_t mutex; bool tried, works; struct backend_why why; struct nccl_api api; }
    loaded = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static void *
open_beside_toolkit(void)
{
    static const char *const folders[] = { "lib64", "lib", "targets/x86_64-linux/lib" };
    const char *home = getenv("CUDA_HOME");
    char        path[PATH_MAX];
    if (home == NULL || home[0] == '\0')
        home = "/usr/local/cuda";
    void *library = NULL;
    for (size_t i = 0; i < sizeof folders / sizeof *folders && library == NULL; i++) {
        snprintf(path, sizeof path, "%s/%s/libnccl.so.2", home, folders[i]);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    }
    return library;
}

static bool
refuse(const char *text)
{
    loaded.why.trouble = TROUBLE_MISSING;
    snprintf(loaded.why.text, sizeof loaded.why.text, "%s", text);
    return false;
}

static bool
open_library(void **library)
{
    *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const char *error = *library == NULL ? dlerror() : NULL;
    char        text[300];
    snprintf(text, sizeof text, "libnccl.so.2 is there and cannot be opened: %.200s", error != NULL ? error : "");
    if (*library == NULL)
        *library = open_beside_toolkit();
    if (*library != NULL)
        return true;
    bool is_absent = error == NULL || strstr(error, "libnccl.so.2: cannot open shared object file") != NULL;
    return refuse(is_absent ? "NCCL is not on this machine: install libnccl2, or put the folder of a libnccl.so.2 "
                              "(a Python wheel's is site-packages/nvidia/nccl/lib) into LD_LIBRARY_PATH" : text);
}

/* Objects and functions have different pointers in C, one in POSIX. */
static bool
find(void *library, const char *name, void *place)
{
    void *symbol = dlsym(library, name);
    memcpy(place, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool
find_all(void *library, struct nccl_api *api)
{
    const struct { const char *name; void *place; } names[] = {
        { "ncclGetVersion", &api->version },          { "ncclGetUniqueId", &api->unique_id },
        { "ncclCommInitRankConfig", &api->join },     { "ncclCommGetAsyncError", &api->async_error },
        { "ncclCommDestroy", &api->destroy },         { "ncclCommAbort", &api->abort },
        { "ncclGetErrorString", &api->text },         { "ncclGetLastError", &api->last_error },
        { "ncclGroupStart", &api->group_start },      { "ncclGroupEnd", &api->group_end },
        { "ncclAllReduce", &api->all_reduce },        { "ncclBroadcast", &api->broadcast },
        { "ncclReduce", &api->reduce },               { "ncclAllGather", &api->all_gather },
        { "ncclReduceScatter", &api->reduce_scatter }, { "ncclSend", &api->send },
        { "ncclRecv", &api->recv },                   { "ncclRedOpCreatePreMulSum", &api->premul },
        { "ncclRedOpDestroy", &api->premul_free },
    };
    bool all = true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        all = find(library, names[i].name, names[i].place) && all;
    return all;
}

static bool
load(void)
{
    void *library = NULL;
    int   version = 0;
    if (!open_library(&library))
        return false;
    if (find_all(library, &loaded.api) && loaded.api.version(&version) == RESULT_SUCCESS && version >= VERSION_LEAST) {
        snprintf(loaded.api.title, sizeof loaded.api.title, "NCCL %d.%d.%d", version / 10000, version / 100 % 100,
                 version % 100);
        return true;
    }
    return refuse("NCCL is too old here: communicators that do not block came with 2.14; install a newer libnccl2");
}

const struct nccl_api *
nccl_load(struct backend_why *why)
{
    pthread_mutex_lock(&loaded.mutex);
    if (!loaded.tried) {
        loaded.tried = true;
        loaded.works = load();
    }
    bool works = loaded.works;
    if (!works)
        *why = loaded.why;
    pthread_mutex_unlock(&loaded.mutex);
    return works ? &loaded.api : NULL;
}
