/* Roles of memory: two tables. The innermost stage that says something decides.
 *
 * Interface: memory_role_in_stage, memory_role_of_word, memory_role_name. In PyTorch: the categories of
 * torch/profiler/_memory_profiler.py. */
#include "analysis/memory.h"
#include <string.h>
#include "base/vec.h"

/* A name that ends in a dot stands for its family; the first that fits counts. */
static const struct { const char *kind; uint8_t says; } stages[] = {
    { "op", STAGE_IS_OP },
    { "dp.scatter", ROLE_INPUTS },
    { "dp.replicate", ROLE_REPLICAS },
    { "dp.broadcast_coalesced", ROLE_REPLICAS },
    { "dp.gather", ROLE_OUTPUTS },
    { "dp.gather.backward", ROLE_GRADIENTS },
    { "dp.scatter.backward", ROLE_GRADIENTS },
    { "dp.reduce_add_coalesced", ROLE_GRADIENTS },
    { "optim.step", ROLE_OPTIMIZER },
    { "autograd.checkpoint", STAGE_SAYS_NOTHING },
    { "autograd.recompute", ROLE_ACTIVATIONS },
    { "autograd.", ROLE_GRADIENTS },
    { "module.forward", ROLE_ACTIVATIONS },
    { "ddp.forward", STAGE_SAYS_NOTHING },
    { "ddp.", ROLE_OTHER },
    { "c10d.", ROLE_OTHER },
};

static const struct { const char *name, *word; } roles[MEMORY_ROLES] = {
    [ROLE_PARAMETERS] = { "parameters", "parameter" }, [ROLE_BUFFERS] = { "buffers", "buffer" },
    [ROLE_GRADIENTS] = { "gradients", "gradient" }, [ROLE_OPTIMIZER] = { "optimizer state", "optimizer" },
    [ROLE_REPLICAS] = { "replicas", "replica" }, [ROLE_ACTIVATIONS] = { "activations", "activation" },
    [ROLE_INPUTS] = { "inputs", "input" }, [ROLE_OUTPUTS] = { "outputs", "output" },
    [ROLE_BUCKETS] = { "buckets", "bucket" }, [ROLE_OTHER] = { "other", "other" },
};

const char *
memory_role_name(enum memory_role role)
{
    return roles[role].name;
}

enum memory_role
memory_role_of_word(const char *word)
{
    enum memory_role role = ROLE_PARAMETERS;
    while (role < ROLE_OTHER && strcmp(roles[role].word, word) != 0)
        role++;
    return role;
}

uint8_t
memory_role_in_stage(const char *kind)
{
    for (size_t i = 0; i < countof(stages); i++) {
        size_t length = strlen(stages[i].kind);
        bool   family = stages[i].kind[length - 1] == '.';
        if (family ? strncmp(kind, stages[i].kind, length) == 0 : strcmp(kind, stages[i].kind) == 0)
            return stages[i].says;
    }
    return STAGE_SAYS_NOTHING;
}
