/* One compiled predicate over one event: what `break`, `until`, `/`, `rs.trace:count` and `events FILTER` speak.
 *
 *   EXPR   :=  AND { "or" AND }      AND := NOT { "and" NOT }      NOT := ["not"] TERM
 *   TERM   :=  "(" EXPR ")" | KIND | FIELD OP VALUE | "rank" N | "device" N | "lane" NAME
 *   FIELD  :=  seq t rank device lane iter phase kind flow line depth, or an argument's name (bytes, bucket, op ...)
 *   VALUE  :=  a number, a word, "a text", or an argument of the same event (bucket > next)
 *   OP     :=  = == != < <= > >= ~   (~ : contains, for texts)
 *   KIND   :=  a dotted name; a trailing ".*" or a bare family ("dp") matches what is below it too
 *
 * A KIND alone matches begin and instant events only (each stage once); with "phase = end" said it matches ends.
 * A field that an event does not have makes the comparison false. `t` is in ns; numbers may be written 1e6 or 2.5.
 * "break KIND rank 1 if bytes > 10": match_compile_break takes that form: KIND [rank R] [if EXPR]. */
#ifndef TRACE_MATCH_H
#define TRACE_MATCH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "trace/format.h"

struct match; struct kind_info; struct trace;

/* What a predicate is compiled and evaluated against: the engine fills it from its schema, a reader from its file. */
struct match_names {
    void *context;
    int         (*kind_count)(void *context);
    const char *(*kind_name)(void *context, int kind);
    const char *(*kind_args)(void *context, int kind);   /* "bytes, op:text" */
    const char *(*text)(void *context, int64_t id);      /* interned text, "?" unknown */
    const char *(*lane)(void *context, uint32_t lane);   /* name */
};

struct match_names match_names_of_trace(const struct trace *trace);

/* NULL: `why` says what is wrong and where ("unknown kind 'dp.sctter'; did you mean dp.scatter?"). */
struct match *match_compile(const char *expression, const struct match_names *names, char *why, size_t why_size);
struct match *match_compile_break(const char *text, const struct match_names *names, char *why, size_t why_size);
bool          match_event(const struct match *match, const struct trace_event *event, uint64_t seq, uint64_t time_ps);
/* Looks names up there from now on: another trace of the same program, whose kinds are those it was compiled for. */
void          match_use(struct match *match, const struct match_names *names);
const char   *match_text(const struct match *match); /* as it was written */
void          match_free(struct match *match);
#endif
