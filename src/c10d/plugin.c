/* Plug-ins are shared objects beside the program. */
#include "c10d/plugin.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include "base/place.h"
#include "c10d/transport.h"

const struct transport *
plugin_open(const char *name, char *why, size_t why_size)
{
    char folder[PATH_MAX - 64] = "", path[PATH_MAX];
    program_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/%s.so", folder, name);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct transport *table = library != NULL ? dlsym(library, TRANSPORT_SYMBOL) : NULL;
    if (table == NULL || table->abi != TRANSPORT_ABI) {
        snprintf(why, why_size, "the back-end %s is not there: %s", name, dlerror());
        return NULL;
    }
    return table;
}
