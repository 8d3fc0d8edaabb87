/* Opens cuBLAS: by the loader's own paths, else beside the toolkit. It holds CUDA's runtime within itself, so that
 * one of another CUDA than the plug-in's works as well, as far as the driver knows it; the plug-in's own is tried
 * first.
 *
 * Interface: cublas_find, cublas_open. */
#include "plugins/cuda/cublas.h"
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__has_include)
#if __has_include(<cublas_v2.h>)
#include <cublas_v2.h>
_Static_assert((int)CUBLAS_WELL == (int)CUBLAS_STATUS_SUCCESS, "status");
_Static_assert((int)CUBLAS_PLAIN == (int)CUBLAS_OP_N && (int)CUBLAS_TURNED == (int)CUBLAS_OP_T, "operations");
_Static_assert((int)CUBLAS_FULL == (int)CUBLAS_DEFAULT_MATH && (int)CUBLAS_TF32 == (int)CUBLAS_TF32_TENSOR_OP_MATH,
               "modes of calculating");
_Static_assert((int)CUBLAS_NO_ATOMICS == (int)CUBLAS_ATOMICS_NOT_ALLOWED, "atomics");
#endif
#endif

enum { OWN_MAJOR = CUDART_VERSION / 1000, NEWEST_MAJOR = 13, OLDEST_MAJOR = 11 };

/* A library is the process's, and so is the table of it. */
static struct { pthread_once_t once; bool works; struct cublas table; char why[300]; }
    loaded = { .once = PTHREAD_ONCE_INIT };

/* The plug-in's own CUDA first, then from the newest down. */
enum { TURNS = NEWEST_MAJOR - OLDEST_MAJOR + 2 };

static void
name_of(int turn, char *name, size_t room)
{
    snprintf(name, room, "libcublas.so.%d", turn == 0 ? (int)OWN_MAJOR : (int)NEWEST_MAJOR - turn + 1);
}

/* ---- where it may lie ---- */

static bool
lies_in(const char *folder, size_t length, const char *name, char *path, size_t room)
{
    int used = snprintf(path, room, "%.*s/%s", (int)length, folder, name);
    return length > 0 && used > 0 && (size_t)used < room && access(path, R_OK) == 0;
}

/* Of folders with colons between them. */
static bool
lies_in_any(const char *folders, const char *name, char *path, size_t room)
{
    while (folders != NULL && *folders != '\0') {
        size_t length = strcspn(folders, ":");
        if (lies_in(folders, length, name, path, room))
            return true;
        folders += length + (folders[length] == ':');
    }
    return false;
}

static bool
lies_in_toolkit(const char *name, char *path, size_t room)
{
    static const char *const folders[] = { "lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib" };
    const char *home = getenv("CUDA_HOME");
    char        folder[PATH_MAX];
    if (home == NULL || home[0] == '\0')
        home = "/usr/local/cuda";
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(folder, sizeof folder, "%s/%s", home, folders[i]);
        if (lies_in(folder, strlen(folder), name, path, room))
            return true;
    }
    return false;
}

/* The loader's list of libraries holds their names as they are; only the loader itself reads it properly. */
static bool
loader_knows(const char *name)
{
    static const char list[] = "/etc/ld.so.cache";
    FILE  *file = fopen(list, "rb");
    size_t matched = 0, length = strlen(name) + 1;      /* with the end of the string */
    bool   found = false;
    int    c;
    if (file == NULL)
        return false;
    while (!found && (c = getc_unlocked(file)) != EOF) {
        matched = c == (unsigned char)name[matched] ? matched + 1 : c == (unsigned char)name[0] ? 1 : 0;
        found   = matched == length;
    }
    fclose(file);
    return found;
}

static bool
find_file(int turn, char *file, size_t room)
{
    char name[32];
    name_of(turn, name, sizeof name);
    if (lies_in_any(getenv("LD_LIBRARY_PATH"), name, file, room) || lies_in_toolkit(name, file, room))
        return true;
    if (!loader_knows(name) && !lies_in_any("/lib:/usr/lib:/lib64:/usr/lib64", name, file, room))
        return false;
    snprintf(file, room, "%s", name);
    return true;
}

bool
cublas_find(char *file, size_t room)
{
    for (int turn = 0; turn < TURNS; turn++)
        if (find_file(turn, file, room))
            return true;
    name_of(0, file, room);
    return false;
}

/* ---- opening ---- */

/* A function's address, by way of memory: ISO C converts no object pointer to one. */
static bool
find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static bool
find_all(void *library, struct cublas *table)
{
    const struct { const char *name; void *place; } names[] = {
        { "cublasCreate_v2", &table->create },           { "cublasDestroy_v2", &table->destroy },
        { "cublasSetStream_v2", &table->set_stream },    { "cublasSetWorkspace_v2", &table->set_workspace },
        { "cublasSetMathMode", &table->set_math },       { "cublasSetAtomicsMode", &table->set_atomics },
        { "cublasSgemm_v2", &table->sgemm },             { "cublasDgemm_v2", &table->dgemm },
        { "cublasSgemmStridedBatched", &table->sgemm_batch },
        { "cublasDgemmStridedBatched", &table->dgemm_batch },
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (find(library, names[i].name, names[i].place))
            continue;
        snprintf(loaded.why, sizeof loaded.why, "cuBLAS has no %s: it is older than CUDA 11.2; install a newer one, or "
                 "multiply without it (--exact)", names[i].name);
        return false;
    }
    return true;
}

/* What is said of the first that does not open holds if no other does. */
static void
load(void)
{
    char  file[PATH_MAX];
    void *library = NULL;
    for (int turn = 0; turn < TURNS && library == NULL; turn++) {
        if (!find_file(turn, file, sizeof file))
            continue;
        library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (library == NULL && loaded.why[0] == '\0')
            snprintf(loaded.why, sizeof loaded.why, "cuBLAS is here and does not open: %.160s; repair it, or multiply "
                     "without it (--exact)", dlerror());
    }
    loaded.works = library != NULL && find_all(library, &loaded.table);
}

const struct cublas *
cublas_open(char *why, size_t room)
{
    pthread_once(&loaded.once, load);
    snprintf(why, room, "%s", loaded.why);
    return loaded.works ? &loaded.table : NULL;
}
