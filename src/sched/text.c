/* Texts as arguments of events: each is written to the trace once and known by its id from then on. */
#include "sched/internal.h"
#include "sched/stage.h"

int64_t
stage_text_id(struct task *me, const char *text)
{
    if (me->buffer == NULL || text == NULL)
        return 0;
    return trace_text(me->sched->writer, text);
}

/* Found again by its address: nothing is hashed, no lock is taken. */
int64_t
stage_name_id(struct task *me, const char *text)
{
    uintptr_t       address = (uintptr_t)text;
    struct text_id *known   = &me->texts[(address ^ address >> 6) % TASK_TEXTS];
    if (me->buffer == NULL)
        return 0;
    if (known->text == text && text != NULL)
        return known->id;
    int64_t id = stage_text_id(me, text);
    if (id != 0)
        *known = (struct text_id){ text, (uint32_t)id };
    return id;
}

int64_t
stage_kept_id(struct task *me, atomic_uint *kept, const char *text)
{
    int64_t id = atomic_load_explicit(kept, memory_order_relaxed);
    if (id != 0 || text == NULL)
        return id;
    id = stage_text_id(me, text);
    atomic_store_explicit(kept, (unsigned)id, memory_order_relaxed);
    return id;
}
