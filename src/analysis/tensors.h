/* What is known of tensors as of an event: which ones an event is about, where they lie, what they are called, their
 * values then, who shares their storage, and which tensors of other ranks are the same. Everything comes from events
 * (memory.tensor, memory.snapshot, memory.alias ...); what was not recorded is not known.
 *
 * An index over the trace, grown a slice at a time; no question reads more events than it answers about.
 * Order of use: tensors_new, tensors_grow until false (again when the trace has grown), questions, tensors_free. */
#ifndef ANALYSIS_TENSORS_H
#define ANALYSIS_TENSORS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/shape.h"
#include "trace/format.h"

struct trace; struct state; struct tensors;

struct tensors *tensors_new(struct trace *trace);       /* NULL: no memory. Borrows the trace */
void            tensors_free(struct tensors *tensors);
bool            tensors_grow(struct tensors *tensors, size_t slice); /* true: there is more to take in */
size_t          tensors_seen(const struct tensors *tensors);         /* events that are in */

/* A tensor, as an event named it. */
struct seen_tensor {
    size_t  told;                 /* the event that says so */
    int64_t storage, offset;      /* offset in elements; storage 0: it is `numbers` alone */
    int64_t version;              /* -1: not recorded */
    int64_t numbers;              /* of a message: the snapshot of what it carries; 0 none */
    int     rank, device;
    char    role[48];             /* "input 1", "chunk", "gradient" */
    char    name[160];            /* "0.weight", "0.weight.grad", "bucket 0"; "" it has none */
    bool    shaped;               /* dtype, sizes and strides are known */
    bool    requires_grad;
    int     dtype, dims;
    int64_t size[TENSOR_DIMS], stride[TENSOR_DIMS];
};

enum { TENSORS_OF_EVENT = 24 };

/* Those that event `seq` is about: told before it; of an end those of its begin too; where it names none, those of the
 * innermost stage around it that does, as `state` (of that event) has it open. *of: whose they are. */
size_t tensors_of_event(const struct tensors *tensors, const struct state *state, size_t seq,
                        struct seen_tensor out[TENSORS_OF_EVENT], size_t *of);
int64_t seen_count(const struct seen_tensor *tensor);   /* elements */
/* The same tensor as of `seq` on other ranks (of other devices where there are no ranks), by its name, its bucket, or the
 * collective that works on it; itself too, in order of rank and device. 0 or 1: there is no other. */
size_t tensors_of_peers(const struct tensors *tensors, const struct seen_tensor *tensor, size_t of, size_t seq,
                        struct seen_tensor *out, size_t room);
/* The latest tensor of that name at or before the event; rank -1: any. false: no event named it. */
bool   tensors_named(const struct tensors *tensors, const char *name, int rank, size_t seq, struct seen_tensor *out);

/* ---- values ---- */

enum { VALUE_PIECES = 16 };
struct value_piece { const unsigned char *bytes; int64_t begin, end; }; /* in the storage; NULL: not kept */

/* What snapshots at or before an event hold of a tensor. */
struct tensor_values {
    struct value_piece pieces[VALUE_PIECES]; /* the newest first */
    int                count;
    bool               edges;          /* of what was too large only the first and the last elements */
    size_t             seq;            /* the event of the newest; SIZE_MAX: nothing was recorded */
    size_t             written_since;  /* a later write without a snapshot; SIZE_MAX none */
};
void tensors_values(const struct tensors *tensors, const struct seen_tensor *tensor, size_t seq,
                    struct tensor_values *out);
/* The element's bytes by its number in row-major order; NULL: not recorded. Unaligned. */
const void *seen_element(const struct seen_tensor *tensor, const struct tensor_values *values, int64_t index);

struct value_summary {
    int64_t  count, known, nans, infinities;  /* known: of `count`, how many were recorded */
    double   least, most, mean;               /* of the finite ones */
    uint32_t hash;                            /* of the bytes of those known, in order: 16 bits */
};
/* At most `limit` elements are gone over (summary.known tells). */
struct value_summary seen_summary(const struct seen_tensor *tensor, const struct tensor_values *values, int64_t limit);

/* ---- storages ---- */

struct storage_facts {
    bool    known;
    int64_t storage, bytes, block;
    int     device, rank;
    size_t  born, freed;          /* freed: SIZE_MAX not (yet) */
    size_t  stage;                /* begin of the stage in which it was taken; SIZE_MAX none */
};
struct storage_facts tensors_storage(const struct tensors *tensors, int64_t storage, size_t seq);
/* What its bytes are called as of the event: a name, or what was done to it ("output of 0"); "" nothing is known. */
void tensors_storage_name(const struct tensors *tensors, int64_t storage, size_t seq, char out[160]);

/* A stretch of a storage that tensors were seen at, in elements. */
struct extent { int64_t begin, end; size_t told; char label[160]; };
/* Sorted by begin; what lies as another does is one of them, named by who was named last. */
size_t tensors_extents(const struct tensors *tensors, int64_t storage, size_t seq, struct extent *out, size_t room);
/* The largest that live on the device as of the event, largest first. Answers how many it put out. */
size_t tensors_largest(const struct tensors *tensors, int device, size_t seq, struct storage_facts *out, size_t room);
#endif
