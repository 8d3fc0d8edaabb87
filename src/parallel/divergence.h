/* Two ranks' replicas of a tensor differ: what is said of it, and how the run ends. Order of use: divergence_print while
 * the elements of both are there, then divergence_stop. */
#ifndef PARALLEL_DIVERGENCE_H
#define PARALLEL_DIVERGENCE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/dtype.h"
#include "base/shape.h"

struct task; struct str; struct change;

/* One tensor of a model, as all ranks have it. */
struct subject {
    char      *name;             /* "net.0.weight" */
    enum dtype dtype;
    int        dims;
    int64_t    size[TENSOR_DIMS];
    size_t     bytes;
    bool       is_buffer;
};

/* One rank's replica of it; `rank` is the world's. */
struct side { int rank, others /* ranks that agree with it */; const void *elements; const struct change *change;
              int64_t changes /* so far; -1: not told */; };
struct divergence {
    enum { DIFFERS_BY_VALUE,     /* the same change has made other numbers */
           DIFFERS_BY_EXTRA,     /* `first` was changed as `other` was not */
           DIFFERS_BY_CHANGE     /* each was changed by something else */ } kind;
    const struct subject *subject;
    const char           *suffix;     /* of the name: ".grad"; NULL: none */
    struct side           first, other;
};

void divergence_print(const struct divergence *divergence, struct str *out);
/* As `subject` of a trace's event and error. `queued`: found by a stream's entry, where no task can fail, so the whole
 * run is stopped. Answers false. */
struct divergence_told { const char *report, *name; int rank, than; bool queued; };
bool divergence_stop(struct task *me, const struct divergence_told *told);
#endif
