/* Which parameters and buffers are DistributedDataParallel's business: all but those that are ignored or delayed. */
#include <string.h>
#include "nn/name.h"
#include "parallel/ddp_internal.h"
#include "tensor/tensor.h"

static bool
is_ignored(const struct ddp_options *options, const char *name)
{
    for (int i = 0; i < options->ignored_count; i++)
        if (strcmp(options->ignored[i], name) == 0)
            return true;
    for (int i = 0; i < options->delayed.count; i++)
        if (strcmp(options->delayed.names[i], name) == 0)
            return true;
    return false;
}

/* Takes out what `options` ignores, and all that requires no gradient if `trained`. */
void
ddp_keep_wanted(struct task *me, struct named_tensors *list, const struct ddp_options *options, bool trained)
{
    int kept = 0;
    for (int i = 0; i < list->count; i++) {
        if (is_ignored(options, list->names[i]) || (trained && !list->tensors[i]->requires_grad)) {
            name_unref(me, list->names[i]);
            continue;
        }
        list->tensors[kept] = list->tensors[i];
        list->names[kept++] = list->names[i];
    }
    list->count = kept;
}

bool
ddp_wanted_parameters(struct task *me, struct module *module, const struct ddp_options *options,
                      struct named_tensors *out)
{
    bool done = module_named_parameters(me, module, out);
    if (done)
        ddp_keep_wanted(me, out, options, false);
    return done;
}

bool
ddp_wanted_buffers(struct task *me, struct module *module, const struct ddp_options *options, struct named_tensors *out)
{
    bool done = module_named_buffers(me, module, out);
    if (done)
        ddp_keep_wanted(me, out, options, false);
    return done;
}

bool
ddp_wanted_states(struct task *me, struct module *module, const struct ddp_options *options, bool buffers,
                  struct named_tensors *out)
{
    struct named_tensors of_params = { 0 }, of_buffers = { 0 };
    bool done = ddp_wanted_parameters(me, module, options, &of_params) &&
                (!buffers || ddp_wanted_buffers(me, module, options, &of_buffers));
    *out = (struct named_tensors){ 0 };
    if (done)
        out->tensors = scratch_new(me, (size_t)(of_params.count + of_buffers.count) + 1, sizeof *out->tensors);
    for (int i = 0; i < of_params.count && out->tensors != NULL; i++)
        out->tensors[out->count++] = of_params.tensors[i];
    for (int i = 0; i < of_buffers.count && out->tensors != NULL; i++)
        out->tensors[out->count++] = of_buffers.tensors[i];
    named_tensors_free(me, &of_params);
    named_tensors_free(me, &of_buffers);
    return out->tensors != NULL;
}
