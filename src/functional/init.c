/* nn.init: fills with PyTorch's numbers, unrecorded; each answers its tensor. PyTorch: torch/nn/init.py. */
#include <math.h>
#include <string.h>
#include "autograd/call.h"
#include "autograd/node.h"
#include "base/vec.h"
#include "functional/functions.h"
#include "sched/task.h"
#include "tensor/tensor.h"

/* ---- gains and fans ---- */

/* What the nonlinearity takes away of a deviation; false: failed. */
static bool
gain_of(struct task *me, const char *name, double slope, double *gain)
{
    static const char *const plain[] = { "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
                                         "conv_transpose2d", "conv_transpose3d", "sigmoid" };
    *gain = 1;
    for (size_t i = 0; i < countof(plain); i++)
        if (strcmp(plain[i], name) == 0)
            return true;
    if (strcmp(name, "tanh") == 0)
        *gain = 5.0 / 3;
    else if (strcmp(name, "relu") == 0)
        *gain = sqrt(2.0);
    else if (strcmp(name, "leaky_relu") == 0)
        *gain = sqrt(2.0 / (1 + slope * slope));
    else if (strcmp(name, "selu") == 0)
        *gain = 3.0 / 4;
    else
        return failed(me, E_VALUE, "Unsupported nonlinearity %s", name);
    return true;
}

struct fans { double in, out; };

static bool
fans_of(struct task *me, const struct tensor *tensor, struct fans *fans)
{
    double area = 1;
    if (tensor->dims < 2)
        return failed(me, E_VALUE, "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions: "
                      "got %s", shape_text(tensor).text);
    for (int d = 2; d < tensor->dims; d++)
        area *= (double)tensor->size[d];
    *fans = (struct fans){ (double)tensor->size[1] * area, (double)tensor->size[0] * area };
    return true;
}

/* ---- filling ---- */

/* What a tensor begins as; none of it is recorded. */
struct initial {
    enum { INITIAL_EVEN, INITIAL_NORMAL, INITIAL_TRUNCATED, INITIAL_CONSTANT } kind;
    double            first, second;      /* bounds; mean and deviation; the number */
    struct truncated  truncated;
    struct generator *generator;          /* NULL: the rank's own */
};

static bool
put_initial(struct task *me, struct tensor *tensor, const struct initial *initial)
{
    switch (initial->kind) {
    case INITIAL_EVEN:      return tensor_uniform(me, tensor, initial->first, initial->second, initial->generator);
    case INITIAL_NORMAL:    return tensor_normal(me, tensor, initial->first, initial->second, initial->generator);
    case INITIAL_TRUNCATED: return tensor_trunc_normal(me, tensor, &initial->truncated, initial->generator);
    default:                return tensor_fill_(me, tensor, initial->first) != NULL;
    }
}

static struct tensor *
initialise(struct task *me, struct tensor *tensor, const struct initial *initial)
{
    bool before = grad_enabled(me);
    grad_set_enabled(me, false);
    bool ok = inplace_allowed(me, tensor) && put_initial(me, tensor, initial);
    grad_set_enabled(me, before);
    return ok ? tensor : NULL;
}

/* uniform_(tensor, a, b, generator) */
struct tensor *
fn_init_uniform(struct task *me, struct arguments *a)
{
    return initialise(me, a->at[0].tensor, &(struct initial){ INITIAL_EVEN, a->at[1].number, a->at[2].number,
                                                              .generator = a->at[3].generator });
}

/* normal_(tensor, mean, std, generator) */
struct tensor *
fn_init_normal(struct task *me, struct arguments *a)
{
    return initialise(me, a->at[0].tensor, &(struct initial){ INITIAL_NORMAL, a->at[1].number, a->at[2].number,
                                                              .generator = a->at[3].generator });
}

/* trunc_normal_(tensor, mean, std, a, b, generator) */
struct tensor *
fn_init_trunc_normal(struct task *me, struct arguments *a)
{
    struct truncated truncated = { a->at[1].number, a->at[2].number, a->at[3].number, a->at[4].number };
    return initialise(me, a->at[0].tensor, &(struct initial){ INITIAL_TRUNCATED, .truncated = truncated,
                                                              .generator = a->at[5].generator });
}

/* `matrix` has the tensor's elements, its first dimension as rows. */
static bool
put_matrix(struct task *me, struct tensor *tensor, struct tensor *matrix, double factor)
{
    struct tensor *rows = tensor_view_as(me, tensor, 2, matrix->size, VIEW_PLAIN);
    return rows != NULL && tensor_copy_(me, rows, matrix) != NULL && tensor_mul_(me, tensor, factor) != NULL;
}

/* orthogonal_(tensor, gain, generator) */
struct tensor *
fn_init_orthogonal(struct task *me, struct arguments *a)
{
    struct tensor *tensor = a->at[0].tensor;
    if (tensor->dims < 2)
        return failed_null(me, E_VALUE, "Only tensors with 2 or more dimensions are supported");
    if (tensor_count(tensor) == 0)
        return tensor;
    int64_t        sizes[2] = { tensor->size[0], tensor_count(tensor) / tensor->size[0] };
    struct tensor *matrix = tensor_empty(me, tensor->dtype, tensor_device(tensor), 2, sizes);
    if (!tensor_normal(me, matrix, 0, 1, a->at[2].generator) || !tensor_make_orthogonal(me, matrix))
        return NULL;
    bool before = grad_enabled(me);
    grad_set_enabled(me, false);
    bool ok = inplace_allowed(me, tensor) && put_matrix(me, tensor, matrix, a->at[1].number);
    grad_set_enabled(me, before);
    return ok ? tensor : NULL;
}

static struct tensor *
initialise_constant(struct task *me, struct tensor *tensor, double number)
{
    return initialise(me, tensor, &(struct initial){ INITIAL_CONSTANT, .first = number });
}

struct tensor *
fn_init_constant(struct task *me, struct arguments *a)
{
    return initialise_constant(me, a->at[0].tensor, a->at[1].number);
}

struct tensor *
fn_init_ones(struct task *me, struct arguments *a)
{
    return initialise_constant(me, a->at[0].tensor, 1);
}

struct tensor *
fn_init_zeros(struct task *me, struct arguments *a)
{
    return initialise_constant(me, a->at[0].tensor, 0);
}

/* 1 where row and column agree. */
struct tensor *
fn_init_eye(struct task *me, struct arguments *a)
{
    struct tensor *tensor = a->at[0].tensor;
    if (tensor->dims != 2)
        return failed_null(me, E_VALUE, "Only tensors with 2 dimensions are supported, got %s",
                           shape_text(tensor).text);
    bool before = grad_enabled(me);
    grad_set_enabled(me, false);
    bool           ok = inplace_allowed(me, tensor) && tensor_fill_(me, tensor, 0) != NULL;
    struct op_args args = { .in = { tensor }, .dim = 0, .start = 1 };
    struct tensor *diagonal = ok ? op_call(me, OP_diagonal, &args) : NULL;
    ok = diagonal != NULL && tensor_fill_(me, diagonal, 1) != NULL;
    grad_set_enabled(me, before);
    return ok ? tensor : NULL;
}

/* A deviation as wide as an even draw's bound is far. */
static struct tensor *
initialise_by_std(struct task *me, struct tensor *tensor, struct initial initial, double std)
{
    double bound = sqrt(3.0) * std;
    initial.first  = initial.kind == INITIAL_EVEN ? -bound : 0;
    initial.second = initial.kind == INITIAL_EVEN ? bound : std;
    return initialise(me, tensor, &initial);
}

/* xavier_*_(tensor, gain, generator) */
static struct tensor *
initialise_xavier(struct task *me, const struct arguments *a, struct initial initial)
{
    struct fans fans;
    initial.generator = a->at[2].generator;
    return fans_of(me, a->at[0].tensor, &fans)
               ? initialise_by_std(me, a->at[0].tensor, initial, a->at[1].number * sqrt(2.0 / (fans.in + fans.out)))
               : NULL;
}

struct tensor *
fn_init_xavier_uniform(struct task *me, struct arguments *a)
{
    return initialise_xavier(me, a, (struct initial){ .kind = INITIAL_EVEN });
}

struct tensor *
fn_init_xavier_normal(struct task *me, struct arguments *a)
{
    return initialise_xavier(me, a, (struct initial){ .kind = INITIAL_NORMAL });
}

/* kaiming_*_(tensor, a, mode, nonlinearity, generator) */
static struct tensor *
initialise_kaiming(struct task *me, const struct arguments *a, struct initial initial)
{
    struct tensor *tensor = a->at[0].tensor;
    const char    *mode = a->at[2].text;
    struct fans    fans;
    double         gain;
    initial.generator = a->at[4].generator;
    if (tensor_count(tensor) == 0)
        return initialise_constant(me, tensor, 0);
    if (!fans_of(me, tensor, &fans))
        return NULL;
    if (strcmp(mode, "fan_in") != 0 && strcmp(mode, "fan_out") != 0)
        return failed_null(me, E_VALUE, "Mode %s not supported, please use one of fan_in, fan_out", mode);
    if (!gain_of(me, a->at[3].text, a->at[1].number, &gain))
        return NULL;
    return initialise_by_std(me, tensor, initial, gain / sqrt(strcmp(mode, "fan_in") == 0 ? fans.in : fans.out));
}

struct tensor *
fn_init_kaiming_uniform(struct task *me, struct arguments *a)
{
    return initialise_kaiming(me, a, (struct initial){ .kind = INITIAL_EVEN });
}

struct tensor *
fn_init_kaiming_normal(struct task *me, struct arguments *a)
{
    return initialise_kaiming(me, a, (struct initial){ .kind = INITIAL_NORMAL });
}

struct tensor *
fn_calculate_gain(struct task *me, struct arguments *a)
{
    (void)gain_of(me, a->at[0].text, a->at[1].none ? 0.01 : a->at[1].number, &a->number);
    return NULL;
}
