/* A new trace of this program: its kinds stand at the head. What writes traces of others' kinds (trace/join.c) does not
 * need this file, nor the tables of the engine's sources that it brings.
 *
 * Interface: trace_create. */
#include "trace/internal.h"
#include "trace/schema.h"

static bool
declare_kinds(struct trace_writer *writer)
{
    for (unsigned id = 1; id < KIND_COUNT; id++) {
        const struct kind_info  *info  = &kind_table[id];
        const struct stage_text *place = &stage_text_table[id];
        const struct trace_kind  kind  = {
            .name = info->name, .function = info->function, .pytorch = info->pytorch, .args = info->args,
            .is_stage = info->is_stage, .file = place->file != NULL ? place->file : "",
            .first_line = place->first_line, .line = place->line, .source = place->text != NULL ? place->text : "",
        };
        if (!trace_declare(writer, id, &kind))
            return false;
    }
    return true;
}

struct trace_writer *
trace_create(const struct trace_options *options, char *why, size_t why_size)
{
    return writer_create(options, declare_kinds, why, why_size);
}
