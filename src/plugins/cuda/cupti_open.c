/* Finds libcupti and fills the table with it. It lies beside the toolkit's libraries, or in extras/CUPTI below the
 * toolkit, or (in Python's wheels) where only the loader's path leads.
 *
 * Interface: cupti_table_open. */
#include "plugins/cuda/cupti.h"
#ifdef HAVE_CUPTI
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct symbol { const char *name; size_t place; bool may_lack; };

static const struct symbol symbols[] = {
    { "cuptiGetVersion", offsetof(struct cupti_table, version), false },
    { "cuptiGetResultString", offsetof(struct cupti_table, text), false },
    { "cuptiActivitySetAttribute", offsetof(struct cupti_table, set_attribute), false },
    { "cuptiActivityRegisterTimestampCallback", offsetof(struct cupti_table, clock), false },
    { "cuptiActivityRegisterCallbacks", offsetof(struct cupti_table, buffers), false },
    { "cuptiActivityEnable", offsetof(struct cupti_table, enable), false },
    { "cuptiActivityDisable", offsetof(struct cupti_table, disable), false },
    { "cuptiActivityEnableRuntimeApi", offsetof(struct cupti_table, enable_runtime), true },
    { "cuptiActivityEnableDriverApi", offsetof(struct cupti_table, enable_driver), true },
    { "cuptiActivityPushExternalCorrelationId", offsetof(struct cupti_table, push), false },
    { "cuptiActivityPopExternalCorrelationId", offsetof(struct cupti_table, pop), false },
    { "cuptiActivityFlushAll", offsetof(struct cupti_table, flush), false },
    { "cuptiActivityGetNextRecord", offsetof(struct cupti_table, next), false },
    { "cuptiActivityGetNumDroppedRecords", offsetof(struct cupti_table, dropped), false },
};

static const char *const names[] = { "libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so" };

/* Of POSIX, where a function and an object pointer are as wide; C has no other way to say it. */
static bool
table_fill(struct cupti_table *table, void *library, char *why, size_t size)
{
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *found = dlsym(library, symbols[i].name);
        if (found == NULL && !symbols[i].may_lack) {
            snprintf(why, size, "CUPTI has no %s", symbols[i].name);
            return false;
        }
        memcpy((char *)table + symbols[i].place, &found, sizeof found);
    }
    return true;
}

static bool
library_use(struct cupti_table *table, void *library, char *why, size_t size)
{
    uint32_t version = 0;
    if (!table_fill(table, library, why, size))
        return false;
    if (table->version(&version) == CUPTI_SUCCESS && version >= CUPTI_API_VERSION)
        return true;
    snprintf(why, size, "CUPTI %u is here, but the plug-in was built with %u: make it anew with this toolkit", version,
             (unsigned)CUPTI_API_VERSION);
    return false;
}

/* Not closed again: it has threads. What was found, but cannot be used, is a better reason than what was not. */
static bool
try_path(struct cupti_table *table, const char *path, char *why, size_t size)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    return library != NULL && library_use(table, library, why, size);
}

static bool
try_folder(struct cupti_table *table, const char *home, const char *below, char *why, size_t size)
{
    char path[4096];
    for (size_t i = 0; home != NULL && home[0] != '\0' && i < sizeof names / sizeof names[0]; i++) {
        int length = snprintf(path, sizeof path, "%s/%s/%s", home, below, names[i]);
        if (length < (int)sizeof path && try_path(table, path, why, size))
            return true;
    }
    return false;
}

bool
cupti_table_open(struct cupti_table *table, char *why, size_t size)
{
    const char *homes[] = { getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda" };
    snprintf(why, size, "no libcupti here");
    for (size_t i = 0; i < sizeof homes / sizeof homes[0]; i++) {
        if (try_folder(table, homes[i], "lib64", why, size) ||
            try_folder(table, homes[i], "extras/CUPTI/lib64", why, size))
            return true;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (try_path(table, names[i], why, size))
            return true;
    }
    return false;
}
#endif
