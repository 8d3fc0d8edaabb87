/* Losses as modules. In PyTorch: torch/nn/modules/loss.py. */
#include "functional/functional.h"
#include "nn/layer.h"
#include "sched/task.h"

enum { REDUCTION, IGNORED };

static struct loss_options
loss_options_of(const struct module *self)
{
    return (struct loss_options){ .reduction = (enum reduction)self->integers[REDUCTION],
                                  .ignore_index = self->integers[IGNORED], .label_smoothing = self->numbers[0],
                                  .weight = module_buffer(self, "weight"),
                                  .pos_weight = module_buffer(self, "pos_weight") };
}

static struct tensor *
apply_mse(struct task *me, struct module *self, struct tensor *const *in)
{
    return mean_square(me, in[0], in[1], loss_options_of(self).reduction);
}

static struct tensor *
apply_l1(struct task *me, struct module *self, struct tensor *const *in)
{
    return l1_loss(me, in[0], in[1], loss_options_of(self).reduction);
}

static struct tensor *
apply_huber(struct task *me, struct module *self, struct tensor *const *in)
{
    return huber_loss(me, in[0], in[1], loss_options_of(self).reduction, self->numbers[0]);
}

static struct tensor *
apply_nll(struct task *me, struct module *self, struct tensor *const *in)
{
    struct loss_options options = loss_options_of(self);
    options.label_smoothing = 0;
    return nll_loss(me, in[0], in[1], &options);
}

static struct tensor *
apply_cross_entropy(struct task *me, struct module *self, struct tensor *const *in)
{
    struct loss_options options = loss_options_of(self);
    return cross_entropy_loss(me, in[0], in[1], &options);
}

static struct tensor *
apply_bce(struct task *me, struct module *self, struct tensor *const *in)
{
    struct loss_options options = loss_options_of(self);
    return bce_with_logits(me, in[0], in[1], &options);
}

static const struct layer_type mse_type = {
    { "MSELoss", layer_forward, module_plain_copy, module_plain_rewired, module_plain_drop, layer_describe_nothing,
      NULL }, 2, apply_mse,
};
static const struct layer_type l1_type = {
    { "L1Loss", layer_forward, module_plain_copy, module_plain_rewired, module_plain_drop, layer_describe_nothing,
      NULL }, 2, apply_l1,
};
static const struct layer_type huber_type = {
    { "HuberLoss", layer_forward, module_plain_copy, module_plain_rewired, module_plain_drop, layer_describe_nothing,
      NULL }, 2, apply_huber,
};
static const struct layer_type nll_type = {
    { "NLLLoss", layer_forward, module_plain_copy, module_plain_rewired, module_plain_drop, layer_describe_nothing,
      NULL }, 2, apply_nll,
};
static const struct layer_type cross_entropy_type = {
    { "CrossEntropyLoss", layer_forward, module_plain_copy, module_plain_rewired, module_plain_drop,
      layer_describe_nothing, NULL }, 2, apply_cross_entropy,
};
static const struct layer_type bce_type = {
    { "BCEWithLogitsLoss", layer_forward, module_plain_copy, module_plain_rewired, module_plain_drop,
      layer_describe_nothing, NULL }, 2, apply_bce,
};

static struct module *
plain_loss_module(struct task *me, const struct layer_type *type, const char *reduction)
{
    enum reduction which;
    struct module *module = reduction_parse(me, reduction, &which) ? module_new(me, &type->type) : NULL;
    if (module != NULL) {
        module->integers[REDUCTION] = which;
        module->integers[IGNORED]   = -100;
    }
    return module;
}

static struct module *
with_buffer(struct task *me, struct module *module, const char *name, struct tensor *tensor)
{
    return module != NULL && module_add_buffer(me, module, name, tensor) ? module : NULL;
}

/* reduction */
struct module *
make_mse_loss(struct task *me, const struct arguments *a)
{
    return plain_loss_module(me, &mse_type, a->at[0].text);
}

struct module *
make_l1_loss(struct task *me, const struct arguments *a)
{
    return plain_loss_module(me, &l1_type, a->at[0].text);
}

/* reduction, delta */
struct module *
make_huber_loss(struct task *me, const struct arguments *a)
{
    if (!(a->at[1].number > 0))
        return failed_null(me, E_VALUE, "HuberLoss: delta must be positive, got %g", a->at[1].number);
    struct module *module = plain_loss_module(me, &huber_type, a->at[0].text);
    if (module != NULL)
        module->numbers[0] = a->at[1].number;
    return module;
}

/* weight, ignore_index, reduction */
struct module *
make_nll_loss(struct task *me, const struct arguments *a)
{
    struct module *module = with_buffer(me, plain_loss_module(me, &nll_type, a->at[2].text), "weight", a->at[0].tensor);
    if (module != NULL)
        module->integers[IGNORED] = a->at[1].integer[0];
    return module;
}

/* weight, ignore_index, reduction, label_smoothing */
struct module *
make_cross_entropy_loss(struct task *me, const struct arguments *a)
{
    struct module *module = with_buffer(me, plain_loss_module(me, &cross_entropy_type, a->at[2].text), "weight",
                                        a->at[0].tensor);
    if (module != NULL) {
        module->integers[IGNORED] = a->at[1].integer[0];
        module->numbers[0]        = a->at[3].number;
    }
    return module;
}

/* weight, reduction, pos_weight */
struct module *
make_bce_with_logits_loss(struct task *me, const struct arguments *a)
{
    struct module *module = with_buffer(me, plain_loss_module(me, &bce_type, a->at[1].text), "weight", a->at[0].tensor);
    return with_buffer(me, module, "pos_weight", a->at[2].tensor);
}
