/* A collective in words: the heading and the message of a pane, and the lines of `info ring`.
 * Interface: rounds_heading, rounds_progress, rounds_moved, rounds_message_words, rounds_numbers, rounds_print. */
#include "analysis/rounds_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/str.h"
#include "trace/reader.h"

enum { LINE_NUMBERS = 16 };

void
rounds_heading(const struct rounds *rounds, struct str *out)
{
    static const char *const whens[] = { [ROUNDS_NONE] = "", [ROUNDS_NOW] = "", [ROUNDS_LAST] = "last: ",
                                         [ROUNDS_NEXT] = "next: " };
    str_add(out, whens[rounds->when]);
    if (rounds->when == ROUNDS_NONE) {
        str_add(out, "no collective near here");
        return;
    }
    if (rounds->member_count == 0) {
        str_addf(out, "%s, between two ranks", rounds->kind);
        return;
    }
    str_add(out, rounds->kind);
    if (rounds->sequence >= 0)
        str_addf(out, " #%" PRId64, rounds->sequence);
    if (rounds->bucket >= 0)
        str_addf(out, " bucket %d", rounds->bucket);
    if (rounds->group > 0)
        str_addf(out, " group %d", rounds->group);
    if (rounds->algorithm[0] != '\0')
        str_addf(out, " %s", rounds->algorithm);
}

static int
members_come(const struct rounds *rounds)
{
    int come = 0;
    for (int i = 0; i < rounds->member_count; i++)
        come += rounds->members[i].begin != ROUNDS_NOWHERE;
    return come;
}

static bool
all_done(const struct rounds *rounds)
{
    bool done = rounds->member_count > 0;
    for (int i = 0; i < rounds->member_count && done; i++)
        done = rounds->members[i].end != ROUNDS_NOWHERE;
    return done;
}

/* "step 2/6 adds" of who sends, "message 3" where steps are not the same for all. */
static void
add_step(const struct rounds *rounds, struct str *out)
{
    const struct rounds_message *message = rounds->current >= 0 ? &rounds->messages[rounds->current] : NULL;
    if (message == NULL)
        return;
    int before = 1;
    for (int i = 0; i < rounds->current; i++)
        before += rounds->messages[i].from == message->from;
    if (rounds->steps > 0)
        str_addf(out, "step %d/%d", before, rounds->steps);
    else
        str_addf(out, "message %d", rounds->current + 1);
    if (rounds->form == FORM_SUM)
        str_add(out, message->reduce ? " adds" : " copies");
}

void
rounds_progress(const struct rounds *rounds, struct str *out)
{
    int come = members_come(rounds);
    if (rounds->when == ROUNDS_NEXT)
        str_add(out, "nobody has begun");
    else if (all_done(rounds))
        str_add(out, "done");
    else if (rounds->member_count > 0 && come < rounds->member_count && rounds->message_count == 0)
        str_addf(out, "%d of %d ranks came", come, rounds->member_count);
    else
        add_step(rounds, out);
}

void
rounds_moved(const struct rounds *rounds, struct str *out)
{
    if (rounds->total >= 0 && rounds->when != ROUNDS_NEXT)
        str_addf(out, "%" PRId64 "/%" PRId64 " B", rounds->moved, rounds->total);
    else if (rounds->moved > 0)
        str_addf(out, "%" PRId64 " B", rounds->moved);
}

/* ---- a message ---- */

static void
add_number(struct str *out, const struct trace_snapshot *snapshot, size_t index)
{
    enum dtype  dtype = (enum dtype)snapshot->dtype;
    const char *at    = (const char *)snapshot->elements + index * dtype_size(dtype);
    if (!dtype_is_float(dtype))
        str_addf(out, "%" PRId64, dtype_whole(dtype, at));
    else
        str_addf(out, "%.5g", dtype_fraction(dtype, at));
}

void
rounds_numbers(const struct rounds *rounds, int index, int most, struct str *out)
{
    const struct rounds_message *message = &rounds->messages[index];
    struct trace_snapshot        snapshot;
    size_t from = out->len;
    if (message->elements < 0) {
        str_add(out, "numbers not recorded");
        return;
    }
    if (trace_snapshot_at(rounds->trace, message->numbers, &snapshot)) {
        size_t size = dtype_size((enum dtype)snapshot.dtype), count = size > 0 ? snapshot.bytes / size : 0;
        for (size_t i = 0; i < count && i < (size_t)most; i++) {
            str_add(out, i > 0 ? " " : "");
            add_number(out, &snapshot, i);
        }
        if (count > 0 && (int64_t)(count < (size_t)most ? count : (size_t)most) < message->elements)
            str_add(out, " ...");
    }
    if (out->len == from)
        str_addf(out, "checksum %" PRId64, message->checksum);
}

/* "c2", "c0-c1"; "" if it is no chunk. */
static void
add_chunk(const struct rounds *rounds, const struct rounds_message *message, struct str *out)
{
    if (message->columns == 1)
        str_addf(out, "c%d", message->column);
    else if (message->columns > 1)
        str_addf(out, "c%d-%d", message->column, message->column + message->columns - 1);
    else if (rounds->form != FORM_MESSAGES && message->chunk >= 0)
        str_addf(out, "c%" PRId64, message->chunk);
}

void
rounds_chunk(const struct rounds *rounds, int message, struct str *out)
{
    add_chunk(rounds, &rounds->messages[message], out);
}

/* What it does where it comes: parts are added, or take the place of what is there. */
void
rounds_effect(const struct rounds *rounds, int index, struct str *out)
{
    const struct rounds_message *message = &rounds->messages[index];
    bool sums = rounds->form == FORM_SUM;
    if (sums && message->columns > 0)
        str_addf(out, "sum of %d, ", rounds->carried[message->shares].count);
    if (sums && message->reduce)
        str_add(out, message->arrived ? "added" : "to be added");
    else if (sums && strcmp(rounds->kind, "reduce_scatter") == 0)
        str_add(out, message->arrived ? "came home" : "goes home");
    else if (sums)
        str_add(out, message->arrived ? "copied" : "to be copied");
    else
        str_add(out, message->arrived ? "arrived" : "under way");
}

void
rounds_message_words(const struct rounds *rounds, int index, struct str *out)
{
    const struct rounds_message *message = &rounds->messages[index];
    str_addf(out, "r%d sends ", message->from_rank);
    size_t before = out->len;
    add_chunk(rounds, message, out);
    str_addf(out, "%sto r%d, %" PRId64 " B, ", out->len > before ? " " : "", message->to_rank, message->bytes);
    rounds_effect(rounds, index, out);
    str_add(out, ": ");
    rounds_numbers(rounds, index, LINE_NUMBERS, out);
}

/* ---- lines ---- */

const char *
rounds_member_state(const struct rounds *rounds, int index)
{
    const struct rounds_member *member = &rounds->members[index];
    if (member->begin == ROUNDS_NOWHERE)
        return rounds->cut_off ? "not followed so far back" : "has not come";
    if (member->end != ROUNDS_NOWHERE)
        return "is through";
    return rounds_is_done(rounds, index) ? "has all" : "is in it";
}

static void
print_member(const struct rounds *rounds, int index, struct str *out)
{
    const struct rounds_member *member = &rounds->members[index];
    if (member->rank >= 0)
        str_addf(out, "r%d ", member->rank);
    else
        str_add(out, "a rank ");
    str_add(out, rounds_member_state(rounds, index));
    for (int column = 0; column < rounds->columns; column++)
        str_addf(out, "%s c%d %d/%d", column > 0 ? "," : ":", column, rounds_share(rounds, index, column).count,
                 rounds_full(rounds));
    if (member->hops > 0)
        str_addf(out, "; sent %" PRId64 " B in %d message%s", member->sent, member->hops,
                 member->hops == 1 ? "" : "s");
    str_add(out, "\n");
}

void
rounds_print(const struct rounds *rounds, struct str *out)
{
    struct str progress = { 0 };
    rounds_heading(rounds, out);
    rounds_progress(rounds, &progress);
    str_enclose(out, ", ", &progress, "");
    str_clear(&progress);
    rounds_moved(rounds, &progress);
    str_enclose(out, ", ", &progress, " moved");
    str_free(&progress);
    if (rounds->bytes >= 0 && rounds->when != ROUNDS_NONE)
        str_addf(out, "; %" PRId64 " B a rank", rounds->bytes);
    if (rounds->columns > 0)
        str_addf(out, " in %d chunk%s", rounds->columns, rounds->columns == 1 ? "" : "s");
    str_add(out, "\n");
    for (int i = 0; i < rounds->member_count; i++)
        print_member(rounds, i, out);
    if (rounds->current >= 0) {
        rounds_message_words(rounds, rounds->current, out);
        str_add(out, "\n");
    }
}
