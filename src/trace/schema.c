/* The engine's kinds as data: what stages.def says, row by row, for the writer to put at a file's head. */
#include "trace/schema.h"

const struct kind_info kind_table[KIND_COUNT] = {
    [KIND_NONE] = { "", "", "", "", false },
#define STAGE_KIND(id, function, name, pytorch, args) [KIND_##id] = { name, #function, pytorch, args, true },
#define POINT_KIND(id, function, name, pytorch, args) [KIND_##id] = { name, #function, pytorch, args, false },
#include "stages.def"
#undef STAGE_KIND
#undef POINT_KIND
};
