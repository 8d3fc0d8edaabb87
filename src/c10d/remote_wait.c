/* Waiting for other processes: nobody wakes us, so we look. First without letting go of the core, since messages
 * come within microseconds; then between naps in the channel's monitor, in which the watcher (job_watch.c) wakes
 * us when a rank has ended. Whoever waits asks every millisecond whether it waits in vain. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include "c10d/remote.h"
#include "c10d/spin.h"

#define US_PS UINT64_C(1000000)
enum { SPIN_US = 200, YIELD_US = 1000, SHORT_NAP_US = 30, SHORT_US = 50000, LONG_NAP_US = 400 };

void
remote_wait_begin(struct remote_wait *wait, struct task *me, struct channel *channel, const struct wait_reason *reason)
{
    *wait = (struct remote_wait){ .me = me, .channel = channel, .reason = *reason,
                                  .waiter = { .pause = remote_pause, .hop_begin = remote_hop_begin,
                                              .hop_end = remote_hop_end } };
    wait->waiter.context = wait;
    if (wait->reason.timeout_ps == 0)
        wait->reason.timeout_ps = sched_timeout(me->sched);
}

/* ---- is it in vain? ---- */

static enum remote_hope
hope_of(const struct remote_wait *wait)
{
    return wait->vain != NULL ? wait->vain->hope(wait->what) : HOPE;
}

/* What was sent by who has ended comes within two seconds, or not at all. */
static bool
is_in_vain(struct remote_wait *wait, uint64_t now)
{
    enum remote_hope hope = hope_of(wait);
    if (hope != LITTLE_HOPE)
        wait->dim_since = 0;
    else if (wait->dim_since == 0)
        wait->dim_since = now;
    return hope == NO_HOPE || (wait->dim_since > 0 && now - wait->dim_since > 2000000 * US_PS);
}

/* ---- one look after the other ---- */

static bool
look_up(struct remote_wait *wait, uint64_t now)
{
    wait->looked_at = now;
    wait->in_vain   = is_in_vain(wait, now);
    return !wait->in_vain && !sched_is_stopping(wait->me);
}

static bool
nap(struct remote_wait *wait, uint64_t now, uint64_t us)
{
    struct monitor *monitor = &wait->channel->monitor;
    wait->reason.until = now + us * US_PS;
    monitor_enter(wait->me, monitor);
    bool goes_on = monitor_wait(wait->me, monitor, &wait->reason);
    monitor_leave(wait->me, monitor);
    return goes_on;
}

/* By time and not by looks, since a look may be a wait of the transport's own. */
bool
remote_pause(void *context, uint64_t looks)
{
    struct remote_wait *wait = context;
    uint64_t            now  = sched_now(wait->me);
    (void)looks;
    if (wait->reason.since == 0)
        wait->reason.since = wait->looked_at = now;
    if (now - wait->looked_at >= 1000 * US_PS && !look_up(wait, now))
        return false;
    uint64_t waited = (now - wait->reason.since) / US_PS;
    if (wait->channel->pauses > 0 && waited < SPIN_US)
        return true;
    if (waited < YIELD_US) {
        sched_yield();
        return true;
    }
    return nap(wait, now, waited < SHORT_US ? SHORT_NAP_US : LONG_NAP_US);
}

void
remote_wait_end(struct remote_wait *wait)
{
    if (wait->reason.since != 0)
        sched_wait_over(wait->me);
}

bool
remote_await(struct remote_wait *wait, struct transport_request *request)
{
    const struct remote_channel *remote = wait->channel->remote;
    enum transport_state         state;
    for (uint64_t looks = 0;; looks++) {
        state = remote->table->test(remote->own, request);
        if (state == TRANSPORT_DONE) {
            remote_wait_end(wait);
            return true;
        }
        if (state == TRANSPORT_FAILED)
            return remote_failed(wait, &request->why);
        if (!remote_pause(wait, looks)) {
            remote->table->cancel(remote->own, request);
            return remote_failed(wait, &(struct transport_why){ "" });
        }
    }
}

/* ---- and why ---- */

/* A connection that broke is told a moment before the log says who died. */
static bool
await_reason(struct remote_wait *wait)
{
    enum { PATIENCE_MS = 1500 };
    uint64_t end = sched_now(wait->me) + PATIENCE_MS * 1000 * US_PS;
    while (hope_of(wait) == HOPE && sched_now(wait->me) < end && !sched_is_stopping(wait->me))
        if (!nap(wait, sched_now(wait->me), 10000))
            return false;
    return hope_of(wait) != HOPE;
}

/* The store that it met in is gone, maybe with who is waited for. */
static bool
store_failed(struct remote_wait *wait)
{
    struct task *me    = wait->me;
    struct error error = me->error;
    task_clear_error(me);
    if (error.kind == E_DIST_NETWORK && await_reason(wait) && !task_failed(me))
        return wait->vain->say(me, wait->what);
    if (!task_failed(me) && sched_goes_on(me)) /* else the run was stopped, with more to say of it */
        task_take_error(me, &error);
    return false;
}

bool
remote_failed(struct remote_wait *wait, const struct transport_why *why)
{
    struct task                 *me     = wait->me;
    struct remote_channel       *remote = wait->channel->remote;
    if (remote != NULL) /* else NCCL's: who waits for it sees to that */
        atomic_store(&remote->is_broken, true);
    if (task_failed(me)) {
        remote_wait_end(wait);
        return store_failed(wait);
    }
    wait->in_vain = wait->in_vain || (why->text[0] != '\0' && await_reason(wait));
    bool differs = !wait->in_vain && why->text[0] != '\0' && wait->vain != NULL && wait->vain->differs != NULL &&
                   !task_failed(me) && wait->vain->differs(me, wait->what);
    remote_wait_end(wait);
    if (differs || task_failed(me))
        return false;
    if (wait->in_vain)
        return wait->vain->say(me, wait->what);
    if (sched_is_stopping(me))
        return sched_goes_on(me) && failed(me, E_STOPPED, "the run is over");
    return failed(me, E_DIST_NETWORK, "%s on rank %d: %s", wait->reason.what, me->rank,
                  why->text[0] != '\0' ? why->text : "it was given up");
}
