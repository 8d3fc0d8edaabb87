/* Plug-ins are found by name when they are first asked for. */
#ifndef C10D_PLUGIN_H
#define C10D_PLUGIN_H
#include <stddef.h>

struct transport;
/* The transport of that name ("gloo"); NULL: `why` says in one sentence what is missing. */
const struct transport *plugin_open(const char *name, char *why, size_t why_size);
#endif
