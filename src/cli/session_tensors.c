/* `info tensor [NAME]` and what `info memory` says of blocks: the facts that the viewer's panes draw, in lines. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "analysis/tensors.h"
#include "base/dtype.h"
#include "cli/session.h"
#include "cli/session_tensors.h"
#include "trace/reader.h"

enum { VALUES_SAID = 64, PEERS = 16, BLOCKS_SAID = 5 };

/* All of the record. NULL: no memory, and `out` says so. */
static struct tensors *
learn(struct session *session, struct str *out)
{
    struct tensors *tensors = tensors_new(session->trace);
    while (tensors != NULL && tensors_grow(tensors, SIZE_MAX))
        continue;
    if (tensors != NULL && tensors_seen(tensors) == trace_count(session->trace))
        return tensors;
    tensors_free(tensors);
    str_add(out, "out of memory\n");
    return NULL;
}

/* "input 2 = 0.weight: float32 [4, 3], cpu, rank 0, storage 12 @40, version 3, requires grad" */
static void
say_tensor(const struct seen_tensor *tensor, struct str *out)
{
    str_addf(out, "%s%s%s: ", tensor->role, tensor->name[0] != '\0' ? " = " : "", tensor->name);
    if (tensor->shaped) {
        str_addf(out, "%s [", dtype_name((enum dtype)tensor->dtype));
        for (int i = 0; i < tensor->dims; i++)
            str_addf(out, i > 0 ? ", %" PRId64 : "%" PRId64, tensor->size[i]);
        str_add(out, "], ");
    }
    if (tensor->device >= 0)
        str_addf(out, "device:%d", tensor->device);
    else
        str_add(out, "cpu");
    if (tensor->rank >= 0)
        str_addf(out, ", rank %d", tensor->rank);
    if (tensor->storage > 0)
        str_addf(out, ", storage %" PRId64 " @%" PRId64, tensor->storage, tensor->offset);
    if (tensor->version >= 0)
        str_addf(out, ", version %" PRId64, tensor->version);
    str_add(out, tensor->requires_grad ? ", requires grad\n" : "\n");
}

static void
say_values(const struct seen_tensor *tensor, const struct tensor_values *values, struct str *out)
{
    struct value_summary summary = seen_summary(tensor, values, 1 << 16);
    if (values->written_since != SIZE_MAX)
        str_addf(out, "  written since by event %zu\n", values->written_since);
    if (summary.known == 0) {
        str_add(out, "  values not recorded\n");
        return;
    }
    str_addf(out, "  as of event %zu: min %.6g mean %.6g max %.6g, nan %" PRId64 ", inf %" PRId64 ", hash %04x",
             values->seq, summary.least, summary.mean, summary.most, summary.nans, summary.infinities, summary.hash);
    if (summary.known < summary.count)
        str_addf(out, " of %" PRId64 " of %" PRId64 " values", summary.known, summary.count);
    str_add(out, "\n  ");
    for (int64_t i = 0; i < summary.count && i < VALUES_SAID; i++) {
        const void *element = seen_element(tensor, values, i);
        if (element == NULL)
            str_add(out, "? ");
        else if (dtype_is_float((enum dtype)tensor->dtype))
            str_addf(out, "%.7g ", dtype_fraction((enum dtype)tensor->dtype, element));
        else
            str_addf(out, "%" PRId64 " ", dtype_whole((enum dtype)tensor->dtype, element));
    }
    str_add(out, summary.count > VALUES_SAID ? "...\n" : "\n");
}

static void
say_ranks(const struct tensors *tensors, const struct seen_tensor *tensor, size_t of, size_t cursor, struct str *out)
{
    struct seen_tensor peers[PEERS];
    size_t   count = tensors_of_peers(tensors, tensor, of, cursor, peers, PEERS);
    bool     differ = false, whole = true;
    uint32_t first = 0;
    for (size_t i = 0; i < count && count > 1; i++) {
        struct tensor_values values;
        tensors_values(tensors, &peers[i], cursor, &values);
        struct value_summary summary = seen_summary(&peers[i], &values, 1 << 16);
        str_addf(out, peers[i].rank >= 0 ? "%srank %d hash " : "%sdevice:%d hash ", i > 0 ? ", " : "  ",
                 peers[i].rank >= 0 ? peers[i].rank : peers[i].device);
        str_addf(out, summary.known > 0 ? "%04x" : "not recorded", summary.hash);
        first = i == 0 ? summary.hash : first;
        differ |= summary.hash != first;
        whole &= summary.known == summary.count;
    }
    if (count > 1)
        str_add(out, !whole ? ": recorded in part\n" : differ ? ": they differ\n" : ": in sync\n");
}

bool
session_tell_tensors(struct session *session, const char *name, struct str *out)
{
    struct tensors    *tensors = learn(session, out);
    struct seen_tensor seen[TENSORS_OF_EVENT];
    size_t count, of = session->cursor;
    if (tensors == NULL)
        return false;
    if (name[0] != '\0')
        count = tensors_named(tensors, name, -1, session->cursor, &seen[0]);
    else
        count = tensors_of_event(tensors, session->state, session->cursor, seen, &of);
    if (count == 0 && name[0] != '\0')
        str_addf(out, "no event until here named a tensor %s\n", name);
    else if (count == 0)
        str_add(out, "this event names no tensor, nor does a stage around it\n");
    for (size_t i = 0; i < count; i++) {
        struct tensor_values values;
        say_tensor(&seen[i], out);
        tensors_values(tensors, &seen[i], session->cursor, &values);
        say_values(&seen[i], &values, out);
        say_ranks(tensors, &seen[i], of, session->cursor, out);
    }
    tensors_free(tensors);
    return count > 0;
}

bool
session_tell_blocks(struct session *session, int last_device, struct str *out)
{
    struct tensors *tensors = learn(session, out);
    if (tensors == NULL)
        return false;
    for (int device = -1; device <= last_device; device++) {
        struct storage_facts blocks[BLOCKS_SAID];
        size_t count = tensors_largest(tensors, device, session->cursor, blocks, BLOCKS_SAID);
        for (size_t i = 0; i < count; i++) {
            char name[160];
            tensors_storage_name(tensors, blocks[i].storage, session->cursor, name);
            str_addf(out, device < 0 ? "cpu" : "device:%d", device);
            str_addf(out, " block of %" PRId64 " B: storage %" PRId64 " %s, line %u, event %zu\n", blocks[i].bytes,
                     blocks[i].storage, name[0] != '\0' ? name : "without a name",
                     trace_event(session->trace, blocks[i].born)->line, blocks[i].born);
        }
    }
    tensors_free(tensors);
    return true;
}
