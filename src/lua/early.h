/* What a script prints before it is known whether it shall be shown: whole lines, 64 KiB at most.
 * Order of use: zero-initialised is empty; early_add; early_end; then `text` is what to print; early_free. */
#ifndef LUA_EARLY_H
#define LUA_EARLY_H
#include <stddef.h>
#include <stdint.h>
#include "base/str.h"

struct early {
    struct str text;
    uint64_t   lost;           /* bytes for which there was no room */
};

void early_add(struct early *early, const char *text, size_t length);   /* without memory `text` is broken */
void early_end(struct early *early);     /* a line says what is lost; the last newline goes: who prints adds it */
void early_free(struct early *early);
#endif
