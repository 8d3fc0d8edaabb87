/* Finds and opens the plug-ins that move bytes between processes (transport.h): beside the program, or where `make install`
 * lays them. A plug-in that is open stays so until the process ends. */
#ifndef C10D_PLUGIN_H
#define C10D_PLUGIN_H
#include "c10d/transport.h"

/* How many there may be, and their names as --backend spells them. */
size_t      plugin_count(void);
const char *plugin_name(size_t i);

/* NULL: `why` is one sentence that says what to do, for a line that begins with the name. */
const struct transport *plugin_open(const char *name, struct transport_why *why);
#endif
