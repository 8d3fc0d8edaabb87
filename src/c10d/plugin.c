/* Interface: plugin_count, plugin_name, plugin_open. */
#include "c10d/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include "base/place.h"
#include "base/vec.h"

/* What brings each, as Debian calls it: to build it, and to run what is built. */
struct kind { const char *name, *to_build, *to_run; };
static const struct kind kind_table[] = {
    { "gloo", "libgloo-dev and g++", "libgloo0" },
    { "mpi", "libopenmpi-dev and openmpi-bin", "libopenmpi3 and openmpi-bin" },
};

size_t
plugin_count(void)
{
    return countof(kind_table);
}

const char *
plugin_name(size_t i)
{
    return kind_table[i].name;
}

static const struct kind *
kind_of(const char *name)
{
    for (size_t i = 0; i < countof(kind_table); i++)
        if (strcmp(kind_table[i].name, name) == 0)
            return &kind_table[i];
    return NULL;
}

/* The loader's own words for a library that is not there begin with its name. */
static void
say_unopened(const struct kind *kind, const char *error, struct transport_why *why)
{
    const char *end = strstr(error, ": cannot open shared object file");
    if (end != NULL)
        snprintf(why->text, sizeof why->text, "%.*s is not on this machine: install %s", (int)(end - error), error,
                 kind->to_run);
    else
        snprintf(why->text, sizeof why->text, "its plug-in cannot be opened (%s)", error);
}

static const struct transport *
take(void *library, const char *name, struct transport_why *why)
{
    const struct transport *transport = dlsym(library, TRANSPORT_SYMBOL);
    if (transport != NULL && transport->abi == TRANSPORT_ABI && strcmp(transport->name, name) == 0)
        return transport;
    snprintf(why->text, sizeof why->text, "its plug-in belongs to another version of ringside: run make again");
    dlclose(library);
    return NULL;
}

const struct transport *
plugin_open(const char *name, struct transport_why *why)
{
    char               file[PATH_MAX + 64];
    const struct kind *kind = kind_of(name);
    why->text[0] = '\0';
    if (kind == NULL) {
        snprintf(why->text, sizeof why->text, "no back-end has this name");
        return NULL;
    }
    if (!plugin_file(name, file, sizeof file)) {
        snprintf(why->text, sizeof why->text, "not built: install %s, then run make", kind->to_build);
        return NULL;
    }
    if (!plugin_is_whole(file)) {
        snprintf(why->text, sizeof why->text, "its plug-in's file is cut short: run make again");
        return NULL;
    }
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL)
        return take(library, name, why);
    const char *error = dlerror();
    say_unopened(kind, error != NULL ? error : "the system does not say why", why);
    return NULL;
}
