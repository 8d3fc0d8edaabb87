/* What is known of each op, from ops.def.
 *
 * Interface: op_info, op_find. */
#include <string.h>
#include "tensor/internal.h"

const struct op_info op_infos[OP_COUNT] = {
#define OP(name, inputs, node, module, gradient, help) { #name, node, module, inputs, help },
#include "tensor/ops.def"
#undef OP
};

const struct op_info *
op_info(enum op op)
{
    return &op_infos[op];
}

int
op_find(const char *name)
{
    for (int i = 0; i < OP_COUNT; i++) {
        if (strcmp(op_infos[i].name, name) == 0)
            return i;
    }
    return -1;
}
