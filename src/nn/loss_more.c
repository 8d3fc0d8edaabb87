/* Losses of each element by itself, as modules. In PyTorch: torch/nn/modules/loss.py. */
#include <string.h>
#include "autograd/call.h"
#include "functional/functional.h"
#include "nn/layer.h"
#include "sched/task.h"

enum { REDUCTION, FIRST_FLAG, SECOND_FLAG, BATCH_MEAN };

static enum reduction
reduction_of(const struct module *self)
{
    return (enum reduction)self->integers[REDUCTION];
}

static struct tensor *
apply_smooth_l1(struct task *me, struct module *self, struct tensor *const *in)
{
    return smooth_l1_loss(me, in[0], in[1], reduction_of(self), self->numbers[0]);
}

static struct tensor *
apply_binary(struct task *me, struct module *self, struct tensor *const *in)
{
    return binary_cross_entropy(me, in[0], in[1], module_buffer(self, "weight"), reduction_of(self));
}

static struct tensor *
apply_kl_div(struct task *me, struct module *self, struct tensor *const *in)
{
    return kl_reduced(me, kl_div(me, in[0], in[1], self->integers[FIRST_FLAG]), reduction_of(self),
                      self->integers[BATCH_MEAN]);
}

static struct tensor *
apply_soft_margin(struct task *me, struct module *self, struct tensor *const *in)
{
    return soft_margin_loss(me, in[0], in[1], reduction_of(self));
}

static struct tensor *
apply_hinge(struct task *me, struct module *self, struct tensor *const *in)
{
    return hinge_embedding_loss(me, in[0], in[1], reduction_of(self), self->numbers[0]);
}

static struct tensor *
apply_poisson(struct task *me, struct module *self, struct tensor *const *in)
{
    struct poisson_options options = { .log_input = self->integers[FIRST_FLAG], .full = self->integers[SECOND_FLAG],
                                       .eps = self->numbers[0], .reduction = reduction_of(self) };
    return poisson_nll_loss(me, in[0], in[1], &options);
}

static const struct layer_type smooth_l1_type = {
    { "SmoothL1Loss", layer_forward, module_plain_copy, module_plain_rewired, module_plain_drop,
      layer_describe_nothing, NULL }, 2, apply_smooth_l1,
};
static const struct layer_type binary_type = {
    { "BCELoss", layer_forward, module_plain_copy, module_plain_rewired, module_plain_drop,
      layer_describe_nothing, NULL }, 2, apply_binary,
};
static const struct layer_type kl_div_type = {
    { "KLDivLoss", layer_forward, module_plain_copy, module_plain_rewired, module_plain_drop,
      layer_describe_nothing, NULL }, 2, apply_kl_div,
};
static const struct layer_type soft_margin_type = {
    { "SoftMarginLoss", layer_forward, module_plain_copy, module_plain_rewired, module_plain_drop,
      layer_describe_nothing, NULL }, 2, apply_soft_margin,
};
static const struct layer_type hinge_type = {
    { "HingeEmbeddingLoss", layer_forward, module_plain_copy, module_plain_rewired, module_plain_drop,
      layer_describe_nothing, NULL }, 2, apply_hinge,
};
static const struct layer_type poisson_type = {
    { "PoissonNLLLoss", layer_forward, module_plain_copy, module_plain_rewired, module_plain_drop,
      layer_describe_nothing, NULL }, 2, apply_poisson,
};

/* integers: the reduction and two flags; a number. */
static struct module *
loss_module_with(struct task *me, const struct layer_type *type, const char *reduction, const int64_t flags[2],
                 double number)
{
    enum reduction which = LOSS_SUM;
    bool           batch = type == &kl_div_type && strcmp(reduction, "batchmean") == 0;
    if (!batch && !reduction_parse(me, reduction, &which))
        return NULL;
    struct module *module = module_new(me, &type->type);
    if (module == NULL)
        return NULL;
    module->integers[REDUCTION]   = which;
    module->integers[FIRST_FLAG]  = flags[0];
    module->integers[SECOND_FLAG] = flags[1];
    module->integers[BATCH_MEAN]  = batch;
    module->numbers[0]            = number;
    return module;
}

static const int64_t none[2];

/* reduction, beta */
struct module *
make_smooth_l1_loss(struct task *me, const struct arguments *a)
{
    return loss_module_with(me, &smooth_l1_type, a->at[0].text, none, a->at[1].number);
}

/* weight, reduction */
struct module *
make_bce_loss(struct task *me, const struct arguments *a)
{
    struct module *module = loss_module_with(me, &binary_type, a->at[1].text, none, 0);
    return module != NULL && module_add_buffer(me, module, "weight", a->at[0].tensor) ? module : NULL;
}

/* reduction, log_target */
struct module *
make_kl_div_loss(struct task *me, const struct arguments *a)
{
    return loss_module_with(me, &kl_div_type, a->at[0].text, (const int64_t[]){ a->at[1].integer[0], 0 }, 0);
}

/* reduction */
struct module *
make_soft_margin_loss(struct task *me, const struct arguments *a)
{
    return loss_module_with(me, &soft_margin_type, a->at[0].text, none, 0);
}

/* margin, reduction */
struct module *
make_hinge_embedding_loss(struct task *me, const struct arguments *a)
{
    return loss_module_with(me, &hinge_type, a->at[1].text, none, a->at[0].number);
}

/* log_input, full, eps, reduction */
struct module *
make_poisson_nll_loss(struct task *me, const struct arguments *a)
{
    return loss_module_with(me, &poisson_type, a->at[3].text,
                            (const int64_t[]){ a->at[0].integer[0], a->at[1].integer[0] }, a->at[2].number);
}
