/* Lists of hooks, as nodes and leaves carry them: in the order in which they were added. */
#ifndef AUTOGRAD_HOOK_LIST_H
#define AUTOGRAD_HOOK_LIST_H
#include <stdbool.h>

struct node; struct task; struct tensor;

struct hook {
    bool (*run)(struct task *me, void *context, struct node *node, struct tensor **grads, int count); /* may replace */
    void (*drop)(struct task *me, void *context);
    void  *context;
    int    id;
    int    nr;                             /* tensor hooks: of which output; a leaf's: HOOK_AFTER or 0 */
};
enum { HOOK_AFTER = 1 };                    /* when the leaf's .grad was updated, not before */
struct hook_list { struct hook *hooks; int count, room, next_id; };
bool hook_list_add(struct task *me, struct hook_list **list, const struct hook *hook, int *id);
bool hook_list_remove(struct task *me, struct hook_list *list, int id);
void hook_list_free(struct task *me, struct hook_list *list);
#endif
