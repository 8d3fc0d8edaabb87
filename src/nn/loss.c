/* Losses as modules. In PyTorch: torch/nn/modules/loss.py. */
#include <string.h>
#include "functional/functional.h"
#include "nn/layer.h"
#include "sched/task.h"

/* Places in integers: the reduction, what the losses take besides. The number is the loss's own. */
enum { REDUCTION, IGNORED, FIRST_FLAG, SECOND_FLAG, BATCH_MEAN };

static enum reduction
reduction_of(const struct module *self)
{
    return (enum reduction)self->integers[REDUCTION];
}

static struct loss_options
loss_options_of(const struct module *self)
{
    return (struct loss_options){ .reduction = reduction_of(self),
                                  .ignore_index = self->integers[IGNORED], .label_smoothing = self->numbers[0],
                                  .weight = module_buffer(self, "weight"),
                                  .pos_weight = module_buffer(self, "pos_weight") };
}

static struct tensor *
apply_mse(struct task *me, struct module *self, struct tensor *const *in)
{
    return mean_square(me, in[0], in[1], reduction_of(self));
}

static struct tensor *
apply_l1(struct task *me, struct module *self, struct tensor *const *in)
{
    return l1_loss(me, in[0], in[1], reduction_of(self));
}

static struct tensor *
apply_huber(struct task *me, struct module *self, struct tensor *const *in)
{
    return huber_loss(me, in[0], in[1], reduction_of(self), self->numbers[0]);
}

static struct tensor *
apply_nll(struct task *me, struct module *self, struct tensor *const *in)
{
    struct loss_options options = loss_options_of(self);
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

enum loss_kind { MSE, L1, HUBER, NLL, CROSS_ENTROPY, BCE_WITH_LOGITS, SMOOTH_L1, BCE,
                 KL_DIV, SOFT_MARGIN, HINGE, POISSON };
static const struct layer_type loss_types[] = {
    [MSE] = { { "MSELoss", layer_forward, &module_plain, layer_describe_nothing, NULL }, 2, apply_mse },
    [L1] = { { "L1Loss", layer_forward, &module_plain, layer_describe_nothing, NULL }, 2, apply_l1 },
    [HUBER] = { { "HuberLoss", layer_forward, &module_plain, layer_describe_nothing, NULL }, 2, apply_huber },
    [NLL] = { { "NLLLoss", layer_forward, &module_plain, layer_describe_nothing, NULL }, 2, apply_nll },
    [CROSS_ENTROPY] = { { "CrossEntropyLoss", layer_forward, &module_plain, layer_describe_nothing, NULL },
                        2, apply_cross_entropy },
    [BCE_WITH_LOGITS] = { { "BCEWithLogitsLoss", layer_forward, &module_plain, layer_describe_nothing, NULL },
                          2, apply_bce },
    [SMOOTH_L1] = { { "SmoothL1Loss", layer_forward, &module_plain, layer_describe_nothing, NULL },
                    2, apply_smooth_l1 },
    [BCE] = { { "BCELoss", layer_forward, &module_plain, layer_describe_nothing, NULL }, 2, apply_binary },
    [KL_DIV] = { { "KLDivLoss", layer_forward, &module_plain, layer_describe_nothing, NULL }, 2, apply_kl_div },
    [SOFT_MARGIN] = { { "SoftMarginLoss", layer_forward, &module_plain, layer_describe_nothing, NULL },
                      2, apply_soft_margin },
    [HINGE] = { { "HingeEmbeddingLoss", layer_forward, &module_plain, layer_describe_nothing, NULL },
                2, apply_hinge },
    [POISSON] = { { "PoissonNLLLoss", layer_forward, &module_plain, layer_describe_nothing, NULL },
                  2, apply_poisson },
};

static struct module *
loss_module(struct task *me, enum loss_kind kind, const char *reduction, double number)
{
    enum reduction which = LOSS_SUM;
    bool           batch = kind == KL_DIV && strcmp(reduction, "batchmean") == 0;
    if (!batch && !reduction_parse(me, reduction, &which))
        return NULL;
    struct module *module = module_new(me, &loss_types[kind].type);
    if (module == NULL)
        return NULL;
    module->integers[REDUCTION]  = which;
    module->integers[IGNORED]    = IGNORE_INDEX;
    module->integers[BATCH_MEAN] = batch;
    module->numbers[0]           = number;
    return module;
}

static struct module *
with_integer(struct module *module, int place, int64_t integer)
{
    if (module != NULL)
        module->integers[place] = integer;
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
    return loss_module(me, MSE, a->at[0].text, 0);
}

struct module *
make_l1_loss(struct task *me, const struct arguments *a)
{
    return loss_module(me, L1, a->at[0].text, 0);
}

struct module *
make_soft_margin_loss(struct task *me, const struct arguments *a)
{
    return loss_module(me, SOFT_MARGIN, a->at[0].text, 0);
}

/* reduction, delta */
struct module *
make_huber_loss(struct task *me, const struct arguments *a)
{
    if (!(a->at[1].number > 0))
        return failed_null(me, E_VALUE, "HuberLoss: delta must be positive, got %g", a->at[1].number);
    return loss_module(me, HUBER, a->at[0].text, a->at[1].number);
}

/* reduction, beta */
struct module *
make_smooth_l1_loss(struct task *me, const struct arguments *a)
{
    return loss_module(me, SMOOTH_L1, a->at[0].text, a->at[1].number);
}

/* margin, reduction */
struct module *
make_hinge_embedding_loss(struct task *me, const struct arguments *a)
{
    return loss_module(me, HINGE, a->at[1].text, a->at[0].number);
}

/* reduction, log_target */
struct module *
make_kl_div_loss(struct task *me, const struct arguments *a)
{
    return with_integer(loss_module(me, KL_DIV, a->at[0].text, 0), FIRST_FLAG, a->at[1].integer[0]);
}

/* log_input, full, eps, reduction */
struct module *
make_poisson_nll_loss(struct task *me, const struct arguments *a)
{
    struct module *module = loss_module(me, POISSON, a->at[3].text, a->at[2].number);
    return with_integer(with_integer(module, FIRST_FLAG, a->at[0].integer[0]), SECOND_FLAG, a->at[1].integer[0]);
}

/* weight, ignore_index, reduction */
struct module *
make_nll_loss(struct task *me, const struct arguments *a)
{
    struct module *module = with_buffer(me, loss_module(me, NLL, a->at[2].text, 0), "weight", a->at[0].tensor);
    return with_integer(module, IGNORED, a->at[1].integer[0]);
}

/* weight, ignore_index, reduction, label_smoothing */
struct module *
make_cross_entropy_loss(struct task *me, const struct arguments *a)
{
    struct module *module = loss_module(me, CROSS_ENTROPY, a->at[2].text, a->at[3].number);
    return with_integer(with_buffer(me, module, "weight", a->at[0].tensor), IGNORED, a->at[1].integer[0]);
}

/* weight, reduction */
struct module *
make_bce_loss(struct task *me, const struct arguments *a)
{
    return with_buffer(me, loss_module(me, BCE, a->at[1].text, 0), "weight", a->at[0].tensor);
}

/* weight, reduction, pos_weight */
struct module *
make_bce_with_logits_loss(struct task *me, const struct arguments *a)
{
    struct module *module = loss_module(me, BCE_WITH_LOGITS, a->at[1].text, 0);
    return with_buffer(me, with_buffer(me, module, "weight", a->at[0].tensor), "pos_weight", a->at[2].tensor);
}
