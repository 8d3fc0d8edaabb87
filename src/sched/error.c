/* Errors are said once, where they are found. */
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include "sched/internal.h"
#include "sched/stage.h"

const char *
error_name(enum error_kind kind)
{
    switch (kind) {
    case E_NONE: return "none";
    case E_VALUE: return "ValueError";
    case E_TYPE: return "TypeError";
    case E_INDEX: return "IndexError";
    case E_KEY: return "KeyError";
    case E_ATTRIBUTE: return "AttributeError";
    case E_NOT_IMPLEMENTED: return "NotImplementedError";
    case E_ASSERTION: return "AssertionError";
    case E_PERMISSION: return "PermissionError";
    case E_RUNTIME:
    case E_SHAPE:
    case E_DTYPE:
    case E_DEVICE: return "RuntimeError";
    case E_SCRIPT: return "LuaError";
    case E_CHECKPOINT: return "CheckpointError";
    case E_ENOUGH: return "StopRecomputation";
    case E_QUEUE_EMPTY: return "QueueEmptyError";
    case E_BUDGET: return "BudgetError";
    case E_MEMORY: return "MemoryError";
    case E_OUT_OF_MEMORY: return "OutOfMemoryError";
    case E_DEADLOCK: return "DeadlockError";
    case E_TIMEOUT: return "TimeoutError";
    case E_DIST_STORE: return "DistStoreError";
    case E_DIST_NETWORK: return "DistNetworkError";
    case E_MISMATCH: return "MismatchError";
    case E_DIVERGENCE: return "DivergenceError";
    case E_RACE: return "RaceError";
    case E_KILLED: return "KilledError";
    case E_STOPPED: return "StoppedError";
    }
    return "RuntimeError";
}

bool
error_is_of_hang(const struct error *error)
{
    return error->kind == E_DEADLOCK || error->kind == E_TIMEOUT || error->kind == E_MISMATCH;
}

int
error_exit_status(const struct error *error)
{
    return error->kind >= E_MEMORY || error->hung ? 3 : 2;
}

/* Interning the texts needs memory: when there is none the event says "?" and the error stands all the same. */
static void
task_announce_error(struct task *me)
{
    int64_t kind    = stage_text_id(me, error_name(me->error.kind));
    int64_t message = stage_text_id(me, me->error.message);
    int64_t found   = stage_text_id(me, me->error.function);
    POINT(me, fault_error, kind, message, found); /* no line: compilers number a call over several lines differently */
}

bool
task_fail(struct task *me, struct code_place found, enum error_kind kind, const char *format, ...)
{
    if (task_failed(me))
        return false;
    va_list args;
    va_start(args, format);
    vsnprintf(me->error.message, sizeof me->error.message, format, args);
    va_end(args);
    me->error.kind        = kind;
    me->error.function    = found.function;
    me->error.line        = found.line;
    me->error.lesson_line = me->line;
    me->error.rank        = me->rank;
    me->error.payload     = NULL;
    me->error.hung        = false;
    me->error.order       = atomic_fetch_add(&me->sched->errors, 1);
    if (kind == E_ENOUGH)
        return false;
    bool tells = kind != E_KILLED || atomic_load(&me->killed) == NOT_KILLED; /* NOT_KILLED: it tells another's end */
    if (tells || atomic_exchange(&me->killed, KILLED) == KILLED_TELLS)
        task_announce_error(me);
    return false;
}

void
task_clear_error(struct task *me)
{
    me->error.kind       = E_NONE;
    me->error.message[0] = '\0';
    me->error.payload    = NULL;
}

void
task_take_error(struct task *me, struct error *from)
{
    if (from->kind == E_NONE || task_failed(me))
        return;
    me->error  = *from;
    from->kind = E_NONE;
}
