/* Who gets no gradient. On this rank: by a search through the graph (find_unused_parameters), or by a static graph's
 * first backward. On all ranks: by the used map, a number for each parameter that is 1 where this rank has used it
 * since the last reduction; the map's sum travels beside the buckets, and what is 0 in it nobody has used. Only then a
 * gradient stays as it was; a parameter that another rank used gets the mean here, too. */
#include <string.h>
#include "c10d/group.h"
#include "device/cells.h"
#include "parallel/internal.h"
#include "sched/account.h"
#include "sched/stage.h"
#include "tensor/op.h"

/* ---- the search ---- */

enum { SEARCH_SLOTS = 256 };

static size_t
slot_of_node(const struct reducer_search *search, const struct node *node)
{
    size_t slot = ((uintptr_t)node >> 4) * 0x9e3779b97f4a7c15u >> 20 & (search->slots - 1);
    while (search->seen[slot] != 0 && search->seen[slot] != (uintptr_t)node)
        slot = (slot + 1) & (search->slots - 1);
    return slot;
}

/* At most half of the slots are taken. */
static bool
search_room(struct task *me, struct reducer_search *search)
{
    if (search->count * 2 < search->slots)
        return true;
    size_t    slots = search->slots > 0 ? 2 * search->slots : SEARCH_SLOTS, before = search->slots;
    uint64_t *seen = host_take(me, slots * sizeof *seen), *old = search->seen;
    if (seen == NULL)
        return memory_failed(me, slots * sizeof *seen, "the host");
    memset(seen, 0, slots * sizeof *seen);
    search->seen  = seen;
    search->slots = slots;
    for (size_t i = 0; i < before; i++)
        if (old[i] != 0)
            seen[slot_of_node(search, (struct node *)(uintptr_t)old[i])] = old[i];
    if (old != NULL)
        host_return(me, old, before * sizeof *old);
    return true;
}

static bool
node_visit(struct task *me, struct reducer_search *search, struct node *node)
{
    if (node == NULL)
        return true;
    if (!search_room(me, search))
        return false;
    size_t slot = slot_of_node(search, node);
    if (search->seen[slot] != 0)
        return true;
    search->seen[slot] = (uintptr_t)node;
    search->count++;
    if (!host_room(me, &search->stack, &search->room, search->depth + 1, sizeof *search->stack))
        return memory_failed(me, sizeof *search->stack, "the host");
    search->stack[search->depth++] = node;
    return true;
}

static bool
graph_visit(struct task *me, struct reducer_search *search, struct tensor *const *outputs, int count)
{
    for (int i = 0; i < count; i++)
        if (!node_visit(me, search, outputs[i]->grad_fn))
            return false;
    while (search->depth > 0) {
        struct node *node = search->stack[--search->depth];
        for (int i = 0; i < node->edge_count; i++)
            if (!node_visit(me, search, node->edges[i].node))
                return false;
    }
    return true;
}

/* The same parameters without a gradient in each iteration: static_graph could take the place of the search. */
static void
reducer_note_change(struct reducer *reducer, bool changed)
{
    bool first             = reducer->searched && changed && !reducer->graph_changed;
    reducer->graph_changed = reducer->graph_changed || first;
    reducer->searched      = true;
    if (first && reducer->logger != NULL)
        logger_log_if_graph_static(reducer->logger, false, reducer->forwards);
}

/* Depth first over the graph from every output: whose accumulator is not met gets no gradient in this iteration. */
bool
reducer_search_unused(struct task *me, struct reducer *reducer, struct tensor *const *outputs, int count)
{
    struct reducer_search *search = &reducer->search;
    int                    unused = 0;
    search->depth = search->count = 0;
    if (search->slots > 0)
        memset(search->seen, 0, search->slots * sizeof *search->seen);
    if (!search_room(me, search) || !graph_visit(me, search, outputs, count))
        return false;
    bool changed = false;
    for (int i = 0; i < reducer->params_count; i++) {
        bool found         = search->seen[slot_of_node(search, reducer->hooks[i].node)] != 0;
        changed            = changed || reducer->unused[i] == found;
        reducer->unused[i] = !found;
        unused += !found;
    }
    reducer_note_change(reducer, changed);
    if (unused == 0 && !reducer->warned_all_used) {
        reducer->warned_all_used = true;
        task_warn(me, "find_unused_parameters=true, but this forward used all parameters. The graph is searched in "
                      "every iteration for that: leave the option out if no branch of the model is ever skipped.");
    }
    return true;
}

void
reducer_forget_search(struct task *me, struct reducer *reducer)
{
    struct reducer_search *search = &reducer->search;
    if (search->stack != NULL)
        host_return(me, search->stack, search->room * sizeof *search->stack);
    if (search->seen != NULL)
        host_return(me, search->seen, search->slots * sizeof *search->seen);
    *search = (struct reducer_search){ 0 };
}

/* ---- the used map ---- */

/* The map leaves behind the last bucket (in a static graph's first backward before the first), 4 bytes for each
 * parameter: every rank learns which ones nobody has used. */
bool
reducer_launch_used_map(struct task *me, struct reducer *reducer)
{
    STAGE(me, ddp_used_map, reducer->params_count, tensor_bytes(reducer->used_map));
    for (int i = 0; i < reducer->params_count; i++)
        reducer->used_numbers[i] = reducer->used[i];
    if (!tensor_write(me, reducer->used_map, reducer->used_numbers))
        return false;
    reducer->used_reduced = false;
    reducer->used_work    = group_all_reduce(me, reducer->group, reducer->used_map, NULL);
    return reducer->used_work != NULL;
}

static bool
await_used_map(struct task *me, struct reducer *reducer)
{
    struct work *work = reducer->used_work;
    reducer->used_work = NULL;
    bool done = work_wait(me, work) && tensor_read(me, reducer->used_map, reducer->used_numbers);
    work_free(me, work);
    reducer->used_reduced = done;
    return done;
}

/* Only who did not use the parameter itself must ask the others. A static graph asks once: its first map holds for
 * all iterations. */
bool
reducer_globally_unused(struct task *me, struct reducer *reducer, int index, bool *unused)
{
    *unused = false;
    if ((!reducer->find_unused && !reducer->static_graph) || reducer->used[index])
        return true;
    if (reducer->used_work != NULL && !await_used_map(me, reducer))
        return false;
    *unused = reducer->used_numbers[index] == 0;
    return true;
}

bool
reducer_finish_used_map(struct task *me, struct reducer *reducer)
{
    bool done = reducer->used_work == NULL || await_used_map(me, reducer);
    if (dynamic_find_unused(reducer))
        memset(reducer->used, 0, sizeof *reducer->used * (size_t)reducer->params_count);
    return done;
}
