/* What there is to say of DDP's buckets. Interface: buckets_ranks, bucket_status, buckets_next, buckets_parties,
 * bucket_names, bucket_params, bucket_look_near, buckets_print. */
#include "analysis/buckets.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/vec.h"
#include "trace/format.h"
#include "trace/reader.h"

enum { NEAR = 1 << 15 };

int
buckets_ranks(const struct trace *trace)
{
    int ranks = 0;
    for (size_t i = 0; i < trace_lanes(trace); i++)
        if (trace_lane_at(trace, i)->rank >= ranks)
            ranks = trace_lane_at(trace, i)->rank + 1;
    return ranks;
}

const char *
bucket_status(const struct state_bucket *bucket)
{
    if (bucket->finalized)
        return "done";
    if (bucket->copied > 0)
        return "copying back";
    if (bucket->reduced)
        return "reduced";
    if (bucket->launched)
        return "sent";
    return bucket->ready >= bucket->params ? "ready" : "pending";
}

int
buckets_next(const struct state_bucket *buckets, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!buckets[i].launched)
            return (int)i;
    return -1;
}

/* Where a rank stands: "b1 2 left", "all sent", "all reduced", "done". */
static void
add_standing(const struct state_bucket *buckets, size_t count, struct str *out)
{
    int  next = buckets_next(buckets, count);
    bool reduced = true, done = true;
    for (size_t i = 0; i < count; i++) {
        reduced &= buckets[i].reduced;
        done    &= buckets[i].finalized;
    }
    if (next >= 0 && buckets[next].ready < buckets[next].params)
        str_addf(out, "b%" PRId64 " %" PRId64 " left", buckets[next].index, buckets[next].params - buckets[next].ready);
    else if (next >= 0)
        str_addf(out, "b%" PRId64 " ready", buckets[next].index);
    else
        str_add(out, done ? "done" : reduced ? "all reduced" : "all sent");
}

static void
add_party(int first, int last, int here, const struct str *standing, struct str *out)
{
    bool is_here = here >= first && here <= last;
    str_addf(out, "%s%sr%d", out->len > 0 ? "  " : "", is_here ? "► " : "", first);
    if (last > first)
        str_addf(out, "-r%d", last);
    str_enclose(out, " ", standing, "");
}

void
buckets_parties(const struct state *state, int ranks, int here, struct str *out)
{
    struct state_bucket *buckets = calloc(BUCKETS_MOST, sizeof *buckets);
    struct str standing = { 0 }, before = { 0 };
    int        first = -1;
    for (int rank = 0; buckets != NULL && rank <= ranks; rank++) {
        size_t count = rank < ranks ? state_buckets(state, rank, buckets, BUCKETS_MOST) : 0;
        str_clear(&standing);
        if (count > 0)
            add_standing(buckets, count < BUCKETS_MOST ? count : BUCKETS_MOST, &standing);
        out->broken |= standing.broken;
        if (first >= 0 && strcmp(str_text(&standing), str_text(&before)) == 0)
            continue;
        if (first >= 0)
            add_party(first, rank - 1, here, &before, out);
        first = count > 0 ? rank : -1;
        str_clear(&before);
        str_enclose(&before, "", &standing, "");
    }
    out->broken |= buckets == NULL;
    free(buckets);
    str_free(&standing);
    str_free(&before);
}

/* ---- names ---- */

/* From event to event as long as the rank's model is the same one. A step of -1 ends before event 0, as ~0 is none. */
static void
read_names(const struct trace *trace, int rank, size_t seq, size_t step, struct bucket_names *names)
{
    int kind = trace_kind_id(trace, "ddp.mark_variable_ready"), announced = trace_kind_id(trace, "ddp.init");
    for (size_t steps = 0; steps < NEAR && seq < trace_count(trace); steps++, seq += step) {
        const struct trace_event *event = trace_event(trace, seq);
        if (event->kind == announced && event->rank == rank && event->phase == PHASE_BEGIN)
            return;
        int64_t param = event->args[0];
        if (event->kind == kind && param >= 0 && param < (int64_t)countof(names->texts) && names->texts[param] == 0)
            names->texts[param] = event->args[3];
    }
}

/* Of each parameter the name that an event told last; of those that had no turn yet the one that it will have, if that
 * is recorded: a name is the same all along. */
void
bucket_names(const struct trace *trace, int rank, size_t seq, struct bucket_names *names)
{
    int kind = trace_kind_id(trace, "ddp.mark_variable_ready");
    *names = (struct bucket_names){ { 0 } };
    const struct trace_kind *info = kind >= 0 ? trace_kind(trace, (unsigned)kind) : NULL;
    if (info == NULL || info->arg_count < 4 || strcmp(info->arg_name[3], "name") != 0)
        return;
    read_names(trace, rank, seq, (size_t)-1, names);
    read_names(trace, rank, seq + 1, 1, names);
}

void
bucket_params(const struct trace *trace, const struct state_bucket *bucket, const struct bucket_names *names,
              struct str *out)
{
    const char *at = bucket->indices;
    char       *end = NULL;
    for (int count = 0; at != NULL; count++, at = end) {
        long long index = strtoll(at, &end, 10);
        if (end == at)
            return;
        str_add(out, count > 0 ? " " : "");
        bool known = index >= 0 && index < (long long)countof(names->texts) && names->texts[index] != 0;
        if (known)
            str_add(out, trace_text_at(trace, names->texts[index]));
        else
            str_addf(out, "%lld", index);
    }
}

/* ---- one bucket ---- */

static bool
has(const struct trace *trace, const struct trace_event *event, const char *name, int64_t *value)
{
    const struct trace_kind *kind = trace_kind(trace, event->kind);
    for (int i = 0; i < kind->arg_count; i++)
        if (strcmp(kind->arg_name[i], name) == 0) {
            *value = event->args[i];
            return true;
        }
    return false;
}

/* Seen from behind: an earlier one stands in front of those that are there. */
static void
add_earlier(struct bucket_near *near, int64_t name)
{
    memmove(&near->names[1], &near->names[0], sizeof near->names - sizeof *near->names);
    near->names[0] = name;
    near->count++;
}

/* Its bytes are told when it is cut, and again whenever it is sent. */
void
bucket_look_near(const struct trace *trace, int64_t bucket, size_t seq, struct bucket_near *near)
{
    const int cut = trace_kind_id(trace, "ddp.bucket"), sent = trace_kind_id(trace, "ddp.all_reduce_bucket");
    const int ready = trace_kind_id(trace, "ddp.mark_variable_ready");
    const int begun = trace_kind_id(trace, "ddp.prepare_for_backward");
    const struct trace_event *here = trace_event(trace, seq);
    bool      names = ready >= 0;
    *near = (struct bucket_near){ .bytes = -1 };
    for (size_t steps = 0; here != NULL && steps < NEAR && (names || near->bytes < 0); steps++, seq--) {
        const struct trace_event *event = trace_event(trace, seq);
        int64_t is = -1, value = 0;
        if (event->rank == here->rank && has(trace, event, "bucket", &is) && is == bucket) {
            if (names && event->kind == ready && event->phase == PHASE_BEGIN && has(trace, event, "name", &value))
                add_earlier(near, value);
            if (near->bytes < 0 && (event->kind == cut || event->kind == sent) && has(trace, event, "bytes", &value))
                near->bytes = value;
        }
        names &= event->rank != here->rank || (event->kind != begun && event->iteration == here->iteration);
        if (seq == 0)
            break;
    }
}

/* ---- lines ---- */

static void
print_bucket(int rank, const struct state_bucket *bucket, struct str *out)
{
    str_addf(out, "rank %d bucket %" PRId64 ": parameters %s, %" PRId64 " B, %" PRId64 "/%" PRId64 " ready", rank,
             bucket->index, bucket->indices, bucket->bytes, bucket->ready, bucket->params);
    if (bucket->unused_bits != 0)
        str_addf(out, " (%d unused)", __builtin_popcountll(bucket->unused_bits));
    str_add(out, bucket->launched ? ", started" : "");
    str_add(out, bucket->reduced ? ", reduced" : "");
    if (bucket->copied > 0)
        str_addf(out, ", copied back to %" PRId64, bucket->copied);
    str_add(out, bucket->finalized ? ", done" : "");
    str_add(out, bucket->rebuilt ? ", rebuilt\n" : "\n");
}

void
buckets_print(const struct trace *trace, const struct state *state, size_t seq, struct str *out)
{
    const struct trace_event *here = trace_event(trace, seq);
    int    rank = here != NULL && here->rank >= 0 ? here->rank : 0;
    struct state_bucket *buckets = calloc(BUCKETS_MOST, sizeof *buckets);
    size_t count = buckets != NULL ? state_buckets(state, rank, buckets, BUCKETS_MOST) : 0;
    if (buckets != NULL && count == 0)
        str_addf(out, "rank %d has no buckets yet\n", rank);
    for (size_t i = 0; i < count && i < BUCKETS_MOST; i++)
        print_bucket(rank, &buckets[i], out);
    struct str parties = { 0 };
    buckets_parties(state, buckets_ranks(trace), -1, &parties);
    str_enclose(out, "ranks: ", &parties, "\n");
    out->broken |= buckets == NULL;
    str_free(&parties);
    free(buckets);
}
