/* Interface: device_backend_open, devices_use. */
#include "device/load.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/place.h"
#include "device/internal.h"

static const struct device_backend *
say(struct backend_why *why, const char *text)
{
    why->trouble = TROUBLE_MISSING;
    snprintf(why->text, sizeof why->text, "%s", text);
    return NULL;
}

static const struct device_backend *
take(void *library, struct backend_why *why)
{
    const struct device_backend *backend = dlsym(library, DEVICE_BACKEND_SYMBOL);
    if (backend != NULL && backend->abi == DEVICE_BACKEND_ABI && backend->size == sizeof *backend)
        return backend;
    return say(why, "its plug-in belongs to another version of ringside: run make again");
}

const struct device_backend *
device_backend_open(const char *kind, struct backend_why *why)
{
    char file[PATH_MAX + 64];
    *why = (struct backend_why){ 0 };
    if (strcmp(kind, backend_virtual.name) == 0)
        return &backend_virtual;
    if (strcmp(kind, "cuda") != 0)
        return say(why, "there are cpu (virtual devices) and cuda");
    bool is_fake = getenv("RINGSIDE_FAKE_CUDA") != NULL;
    if (!plugin_file(is_fake ? "fake_cuda" : kind, file, sizeof file))
        return say(why, is_fake ? "RINGSIDE_FAKE_CUDA is set, and the tests' plug-in is not built: make tests"
                                : "built without CUDA: install the CUDA toolkit (nvcc), then run make");
    if (!plugin_is_whole(file))
        return say(why, "its plug-in's file is cut short: run make again");
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library != NULL)
        return take(library, why);
    const char *error = dlerror();
    why->trouble = TROUBLE_MISSING;
    snprintf(why->text, sizeof why->text, "its plug-in cannot be opened (%.300s)",
             error != NULL ? error : "the system does not say why");
    return NULL;
}

bool
devices_use(struct task *me, const struct device_backend *backend)
{
    struct devices *devices = devices_of(me);
    if (devices == NULL)
        return false;
    if (devices->count > 0 && devices->backend != backend)
        return failed(me, E_RUNTIME, "the devices of this run are there already");
    devices->backend = backend;
    return backend->on_host || real_begin(me, devices);
}
