/* A lock that hands out tickets. In the story of DataParallel it is Python's interpreter lock. */
#include "sched/lock.h"
#include "sched/stage.h"

bool
lock_init(struct task *me, struct lock *lock, const char *name)
{
    *lock = (struct lock){ .name = stage_text_id(me, name), .word = name };
    return monitor_init(&lock->monitor) || failed(me, E_MEMORY, "out of memory");
}

void
lock_destroy(struct lock *lock)
{
    monitor_destroy(&lock->monitor);
}

/* A lock is held, from the turn that comes to the hand-over. */
static void
lock_note_hold(struct task *me, struct lock *lock, bool begins)
{
    const int64_t args[4] = { lock->name, (int64_t)lock->serving };
    if (begins)
        span_begin(me, KIND_lock_hold, args);
    else
        span_end(me, KIND_lock_hold, args);
}

/* ---- the line; in the monitor ---- */

static void
join_line(struct lock *lock, struct lock_ticket *ticket)
{
    if (lock->first != NULL)
        lock->last->next = ticket;
    else
        lock->first = ticket;
    lock->last = ticket;
}

static void
leave_line(struct lock *lock, const struct lock_ticket *ticket)
{
    struct lock_ticket *before = NULL, *at = lock->first;
    for (; at != NULL && at != ticket; at = at->next)
        before = at;
    if (at == NULL)
        return;
    *(before != NULL ? &before->next : &lock->first) = ticket->next;
    if (lock->last == ticket)
        lock->last = before;
}

/* It is the turn of whoever is first in line. */
static void
next_turn(struct lock *lock)
{
    lock->holder = lock->first != NULL ? lock->first->task : NULL;
    if (lock->first != NULL)
        lock->first = lock->first->next;
}

/* An uncontended lock costs no event but its hold; who has to wait shows it. In `free` the wait neither times out nor
 * stops: the holder's own waits are bounded. Whose wait failed stands in nobody's way, also if its turn came then. */
static bool
lock_queue(struct task *me, struct lock *lock, struct lock_ticket *ticket)
{
    struct wait_reason reason = { .what = "lock", .sequence = -1, .peer = -1, .join = !sched_is_stepped(me->sched) };
    bool               ok     = true;
    monitor_enter(me, &lock->monitor);
    while (lock->holder != me && ok) {
        reason.holder = lock->holder;
        ok            = monitor_wait(me, &lock->monitor, &reason);
    }
    if (!ok)
        leave_line(lock, ticket);
    if (!ok && lock->holder == me) {
        next_turn(lock);
        monitor_wake(me, &lock->monitor);
    }
    monitor_leave(me, &lock->monitor);
    return ok;
}

/* A stage of its own, so that who did not have to wait shows nothing: stripes of lock.wait in the
 * timeline are threads that could have worked. */
static bool
lock_wait_turn(struct task *me, struct lock *lock, struct lock_ticket *ticket,
               uint64_t number)
{
    STAGE(me, lock_wait, lock->name, (int64_t)number);
    return lock_queue(me, lock, ticket);
}

bool
lock_acquire(struct task *me, struct lock *lock)
{
    struct lock_ticket ticket = { .task = me };
    sched_touch(me, TOUCH_CHANGE, lock->word, (const int64_t[3]){ me->rank });
    monitor_enter(me, &lock->monitor);
    uint64_t number = lock->next_ticket++;
    bool     free   = lock->holder == NULL && lock->first == NULL;
    if (free)
        lock->holder = me;
    else
        join_line(lock, &ticket);
    monitor_leave(me, &lock->monitor);
    if (!free && !lock_wait_turn(me, lock, &ticket, number))
        return false;
    lock->serving = number;
    lock_note_hold(me, lock, true);
    return true;
}

void
lock_release(struct task *me, struct lock *lock)
{
    lock_note_hold(me, lock, false);
    monitor_enter(me, &lock->monitor);
    next_turn(lock);
    monitor_wake(me, &lock->monitor);
    monitor_leave(me, &lock->monitor);
    sched_point(me);
}
