/* What tells a finished trace from any other, for whoever keeps beside it what was worked out from it. */
#ifndef TRACE_IDENTITY_H
#define TRACE_IDENTITY_H
#include <stdbool.h>
#include <stdint.h>

struct trace;

struct trace_identity { uint64_t size, mtime, sum; }; /* mtime in ns; sum: of its head and of pages all over it */

/* false: it is not finished, or nobody knows by which name it was opened (errno 0), or it cannot be read. */
bool        trace_identity(const struct trace *trace, struct trace_identity *out);
const char *trace_path(const struct trace *trace); /* as it was opened; "" none */
bool        trace_is_finished(const struct trace *trace); /* it does not grow any more */
#endif
