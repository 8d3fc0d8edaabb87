/* What an op costs, and whose price it takes: by its name or that of the module that calls it; see op.h.
 *
 * Interface: op_price, op_pay_host, prices_named, task_module. */
#include "hw/cost.h"
#include "sched/sched.h"
#include "tensor/internal.h"

const char *
task_module(const struct task *me)
{
    return (const char *)(uintptr_t)me->slots[SLOT_MODULE];
}

void
task_set_module(struct task *me, const char *name)
{
    me->slots[SLOT_MODULE] = (uintptr_t)name;
}

bool
prices_named(const struct task *me)
{
    const struct cost_model *cost = sched_cost(me->sched);
    return sched_is_stepped(me->sched) && cost != NULL && cost->item_count > 0;
}

static struct price
priced(const struct cost_model *cost, uint64_t kernel, bool found)
{
    return (struct price){ .host = cost_host(cost), .kernel = kernel, .work = found ? kernel : 0 };
}

/* A module's price is taken once, by the first of its ops; "" says that it was. */
struct price
op_price(struct task *me, enum op op, const char *module)
{
    if (!sched_is_stepped(me->sched))
        return (struct price){ 0 }; /* the wall clock has no prices */
    struct cost_model *cost = sched_cost(me->sched);
    bool               of_task = module == NULL, found = false;
    if (of_task)
        module = task_module(me);
    if (module != NULL && module[0] == '\0')
        return (struct price){ .covered = true };
    uint64_t price = cost_kernel(cost, op_infos[op].name, NULL, &found);
    if (found)
        return priced(cost, price, true);
    if (module != NULL)
        price = cost_kernel(cost, NULL, module, &found);
    if (found && of_task)
        task_set_module(me, "");
    if (!found)
        price = cost_kernel(cost, NULL, op_infos[op].module[0] != '\0' ? op_infos[op].module : NULL, &found);
    return priced(cost, price, found);
}

void
op_pay_host(struct task *me, enum op op, const char *module)
{
    struct price price = op_price(me, op, module);
    sched_advance(me, price.host + price.work);
}
