/* What kinds of events there are: pure data from stages.def, given to the writer, which puts it at the file's head.
 * `trace/` knows no kind by name; the enum is for those who append. */
#ifndef TRACE_SCHEMA_H
#define TRACE_SCHEMA_H
#include <stdbool.h>
#include <stdint.h>

enum kind {
    KIND_NONE,
#define STAGE_KIND(id, function, name, pytorch, args) KIND_##id,
#define POINT_KIND(id, function, name, pytorch, args) KIND_##id,
#include "stages.def"
#undef STAGE_KIND
#undef POINT_KIND
    KIND_COUNT
};

/* An argument list is "bytes, chunk, op:text, tensor:storage": a name, and a type unless it is a plain integer:
 * text (id of an interned text), bytes, ps (a duration), device, rank, storage, snapshot, kind, flag. */
struct kind_info {
    const char *name;     /* dotted: "dp.scatter.chunk" */
    const char *function; /* the one C function that opens it or emits it */
    const char *pytorch;  /* counterpart, "" none */
    const char *args;
    bool        is_stage;
};

extern const struct kind_info kind_table[KIND_COUNT]; /* [0] is all "" */

/* Where each kind's function stands; generated at build time from the sources by scripts/stage-text. */
struct stage_text {
    const char *file;       /* "src/parallel/scatter_gather.c" */
    uint32_t    first_line; /* of the text, comment included */
    uint32_t    line;       /* of the STAGE or POINT macro */
    const char *text;
};
extern const struct stage_text stage_text_table[KIND_COUNT];
#endif
