/* Scopes hold what a stage gave birth to: it dies with the stage, unless it was handed up. */
#include "base/vec.h"
#include "sched/task.h"

void *
born(struct task *me, void *object, void (*drop)(struct task *me, void *object))
{
    if (object == NULL)
        return NULL;
    if (me->scope_count == me->scope_room &&
        !vec_room(&me->scope, &me->scope_room, me->scope_count + 1, sizeof *me->scope)) {
        drop(me, object);
        return failed_null(me, E_MEMORY, "out of memory");
    }
    me->scope[me->scope_count++] = (struct scope_item){ object, drop, false };
    return object;
}

void *
hand_up(struct task *me, void *object)
{
    for (size_t i = me->scope_count; object != NULL && i > 0; i--) {
        struct scope_item *item = &me->scope[i - 1];
        if (item->object == object && !item->handed) {
            item->handed = true;
            break;
        }
    }
    return object;
}

/* Newest first, as C++ would. Dropping may not give birth. What was handed up becomes the outer scope's. */
void
scope_release(struct task *me, size_t mark)
{
    struct scope_item *items = me->scope;
    size_t             count = me->scope_count, handed = 0, kept = mark;
    for (size_t i = count; i-- > mark;) {
        handed += items[i].handed;
        if (!items[i].handed)
            items[i].drop(me, items[i].object);
    }
    for (size_t i = mark; handed > 0; i++) {
        if (!items[i].handed)
            continue;
        items[i].handed = false;
        items[kept++]   = items[i];
        handed--;
    }
    me->scope_count = kept;
}
