/* What a lesson says of its own story: kinds of events that are scenes of it or are left out, and sentences of its own.
 * Order of use: read_dial while rs.lesson's options are read; record_dial before the lesson begins. */
#ifndef LUA_DIAL_H
#define LUA_DIAL_H
#include <lua.h>

#include "trace/schema.h"

struct trace_writer;

enum dial_part { DIAL_USUAL, DIAL_SCENE, DIAL_SILENT };

struct dial {
    unsigned char part[KIND_COUNT];       /* enum dial_part */
    const char   *sentence[KIND_COUNT];   /* NULL: the reader's own */
};

/* Options `story` and `tell` of the table at `table`, which keeps the sentences. May raise. */
void read_dial(lua_State *L, int table, struct dial *out);
void record_dial(struct trace_writer *writer, const struct dial *dial);

/* Raises: `kind`, in the option `option` ("rs.ask: hides"), is none; and what may be meant. */
int no_kind(lua_State *L, const char *option, const char *kind);
#endif
