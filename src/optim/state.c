/* What an optimizer consists of, told to those who print, save and load it. In PyTorch: Optimizer.state_dict and
 * load_state_dict. */
#include "autograd/call.h"
#include "autograd/node.h"
#include "optim/internal.h"
#include "sched/task.h"

const char *
optim_name(enum optim_kind kind)
{
    static const char *const names[OPTIM_KINDS] = { "SGD", "Adam", "AdamW", "Adagrad", "SparseAdam" };
    return names[kind];
}

const char *
optim_slot(enum optim_kind kind, int slot)
{
    static const char *const names[OPTIM_KINDS][OPTIM_SLOTS] = {
        [OPTIM_SGD] = { "momentum_buffer" }, [OPTIM_ADAM] = { "exp_avg", "exp_avg_sq", "max_exp_avg_sq" },
        [OPTIM_ADAMW] = { "exp_avg", "exp_avg_sq", "max_exp_avg_sq" }, [OPTIM_ADAGRAD] = { "sum" },
        [OPTIM_SPARSE_ADAM] = { "exp_avg", "exp_avg_sq" },
    };
    return names[kind][slot];
}

enum optim_kind
optimizer_kind(const struct optimizer *optimizer)
{
    return optimizer->kind;
}

int
optimizer_groups(const struct optimizer *optimizer)
{
    return (int)optimizer->group_count;
}

int64_t
optimizer_steps(const struct optimizer *optimizer)
{
    return optimizer->steps;
}

const struct optim_options *
optimizer_options(const struct optimizer *optimizer, int group)
{
    return &optimizer->groups[group];
}

int
optimizer_count(const struct optimizer *optimizer)
{
    return (int)optimizer->count;
}

const struct optim_state *
optimizer_state(const struct optimizer *optimizer, int index)
{
    return &optimizer->states[index];
}

/* A copy that belongs to nobody else, as the parameter is. */
static struct tensor *
copied_for(struct task *me, const struct tensor *param, struct tensor *from)
{
    if (!tensor_same_shape(param, from))
        return failed_null(me, E_VALUE, "the state of a parameter has another shape than the parameter: expected "
                           "%s, got %s", shape_text(param).text, shape_text(from).text);
    if (tensor_device(from) == tensor_device(param) && from->dtype == param->dtype)
        return tensor_copied(me, from);
    return tensor_copy_to(me, from, tensor_device(param), param->dtype);
}

bool
optimizer_load_state(struct task *me, struct optimizer *optimizer, int index, int64_t steps,
                     struct tensor *const *slots)
{
    struct optim_state *state   = &optimizer->states[index];
    struct tensor      *copies[OPTIM_SLOTS] = { NULL };
    bool                enabled = grad_enabled(me), ok = true;
    grad_set_enabled(me, false);
    for (int slot = 0; ok && slot < OPTIM_SLOTS; slot++) {
        if (slots[slot] != NULL)
            copies[slot] = copied_for(me, state->param, slots[slot]);
        ok = slots[slot] == NULL || copies[slot] != NULL;
    }
    grad_set_enabled(me, enabled);
    for (int slot = 0; ok && slot < OPTIM_SLOTS; slot++) {
        if (copies[slot] != NULL)
            tensor_keep(me, &state->slot[slot], copies[slot]);
        else
            tensor_drop(me, &state->slot[slot]);
    }
    state->steps = ok ? steps : state->steps;
    return ok;
}
