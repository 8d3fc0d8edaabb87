/* Lists of hooks, as nodes and leaves carry them. Who runs them is hooks.c's business. */
#include "autograd/hook_list.h"
#include <stdlib.h>
#include "base/vec.h"
#include "sched/task.h"

bool
hook_list_add(struct task *me, struct hook_list **list, const struct hook *hook, int *id)
{
    if (*list == NULL)
        *list = calloc(1, sizeof **list);
    struct hook_list *hooks = *list;
    size_t            room  = hooks != NULL ? (size_t)hooks->room : 0;
    if (hooks == NULL || !vec_room(&hooks->hooks, &room, (size_t)hooks->count + 1, sizeof *hooks->hooks))
        return failed(me, E_MEMORY, "out of memory while registering a hook");
    hooks->room = (int)room;
    hooks->hooks[hooks->count]      = *hook;
    hooks->hooks[hooks->count++].id = hooks->next_id;
    if (id != NULL)
        *id = hooks->next_id;
    hooks->next_id++;
    return true;
}

bool
hook_list_remove(struct task *me, struct hook_list *list, int id)
{
    for (int i = 0; list != NULL && i < list->count; i++) {
        if (list->hooks[i].id != id)
            continue;
        struct hook gone = list->hooks[i];
        for (int j = i + 1; j < list->count; j++)
            list->hooks[j - 1] = list->hooks[j];
        list->count--;
        if (gone.drop != NULL)
            gone.drop(me, gone.context);
        return true;
    }
    return false;
}

void
hook_list_free(struct task *me, struct hook_list *list)
{
    if (list == NULL)
        return;
    for (int i = 0; i < list->count; i++)
        if (list->hooks[i].drop != NULL)
            list->hooks[i].drop(me, list->hooks[i].context);
    free(list->hooks);
    free(list);
}
