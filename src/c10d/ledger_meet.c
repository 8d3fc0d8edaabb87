/* A collective that begins when every rank has called it, over a job: each says in the store what it calls, and
 * reads what the others do, so a call that differs is told before anything moves. At DEBUG_DETAIL only: it costs a
 * few trips to the store. PyTorch: ProcessGroupWrapper, a monitored barrier and a comparison in front of each
 * collective. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/map.h"
#include "c10d/internal.h"
#include "c10d/store.h"

static void
key_of(const struct work *work, int64_t sequence, int rank, char *out, size_t size)
{
    snprintf(out, size, "call/%016" PRIx64 "/%" PRId64 "/%d", work->group->communicator->id, sequence, rank);
}

/* The first number is of what must be equal. */
static bool
print_mine(const struct work *work, struct str *out)
{
    struct fingerprint mine = fingerprint_of(&work->call, work->line), bare = mine;
    struct str         text = { 0 };
    bare.line = 0;
    bare.rank = 0;
    fingerprint_print(&bare, true, &text);
    str_addf(out, "%016" PRIx64 " ", hash_bytes(bare.shapes, str_text(&text), text.len));
    fingerprint_print(&mine, true, out);
    bool ok = str_ok(&text) && str_ok(out);
    str_free(&text);
    return ok;
}

static bool
differs(struct task *me, struct work *work, int rank, const char *theirs, const char *mine)
{
    const struct process_group *group = work->group;
    int  low = rank < group->rank ? rank : group->rank, other = rank < group->rank ? group->rank : rank;
    char of[32] = "";
    if (strncmp(theirs, mine, 16) == 0)
        return false;
    if (group->communicator->number > 0)
        snprintf(of, sizeof of, " of group %d", group->communicator->number);
    (void)failed(me, E_MISMATCH,
                 "collective #%" PRId64 "%s differs: rank %d calls %.700s but rank %d calls %.700s; every "
                 "rank must issue the same collectives in the same order",
                 work->call.sequence, of, group->communicator->ranks[low], (low == rank ? theirs : mine) + 17,
                 group->communicator->ranks[other], (other == rank ? theirs : mine) + 17);
    return true;
}

/* Whether it has called; *ok: false: failed. */
static bool
has_called(struct task *me, struct work *work, int rank, const char *mine, bool *ok)
{
    struct store_text text;
    char              key[96];
    bool              there = false;
    size_t            mark  = scope_mark(me);
    key_of(work, work->call.sequence, rank, key, sizeof key);
    *ok = store_peek(me, work->group->world->store, key, &text, &there);
    if (there && text.count < 17)
        *ok = failed(me, E_RUNTIME, "the job's store tells nonsense about what rank %d calls", rank);
    else if (there)
        *ok = !differs(me, work, rank, text.bytes, mine);
    scope_release(me, mark);
    return there;
}

static bool
say_mine(struct task *me, const struct work *work, const struct str *mine)
{
    char              key[96];
    struct store_text text = { str_text(mine), mine->len };
    key_of(work, work->call.sequence, work->group->rank, key, sizeof key);
    return store_multi_set(me, work->group->world->store, &(const char *){ key }, &text, 1);
}

/* All know by now that this one was called: what was said of the one before is of no use any more. */
static void
forget_before(struct task *me, const struct work *work)
{
    char key[96];
    bool was_there;
    if (work->call.sequence == 0)
        return;
    key_of(work, work->call.sequence - 1, work->group->rank, key, sizeof key);
    (void)store_delete_key(me, work->group->world->store, key, &was_there);
}

bool
ledger_meet_in_store(struct task *me, struct work *work, bool (*wait)(struct task *me, struct work *work))
{
    const struct communicator *communicator = work->group->communicator;
    struct str                 mine   = { 0 };
    bool ok = (print_mine(work, &mine) || failed(me, E_MEMORY, "out of memory")) && say_mine(me, work, &mine);
    for (int rank = 0; ok && rank < communicator->size;) {
        bool called = rank == work->group->rank || has_called(me, work, rank, str_text(&mine), &ok);
        rank += called;
        if (ok && !called)
            ok = wait(me, work);
    }
    if (ok)
        forget_before(me, work);
    str_free(&mine);
    return ok;
}
