/* Products of more than two matrices' kind: einsum, tensordot, outer, addmm and their like, all made of mm, bmm and
 * permutations. PyTorch: torch.einsum, torch.addmm. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "autograd/call.h"
#include "device/device.h"
#include "functional/functional.h"
#include "functional/functions.h"
#include "sched/task.h"

/* ---- two vectors, two tensors ---- */

static struct tensor *
outer_product(struct task *me, struct tensor *a, struct tensor *b)
{
    return tensor_mul(me, tensor_unsqueeze(me, a, 1), b);
}

struct tensor *
fn_outer(struct task *me, struct arguments *a)
{
    struct tensor *x = a->at[0].tensor, *y = a->at[1].tensor;
    if (x->dims != 1 || y->dims != 1)
        return failed_null(me, E_RUNTIME, "outer: expected two vectors, got tensors of %d and %d dimensions", x->dims,
                           y->dims);
    return outer_product(me, x, y);
}

/* Over the last dimension of both; a number just multiplies. */
struct tensor *
fn_inner(struct task *me, struct arguments *a)
{
    struct tensor *x = a->at[0].tensor, *y = a->at[1].tensor;
    int64_t        sizes[2 * TENSOR_DIMS], depth = tensor_size(x, -1), rows = 1, columns = 1;
    int            dims = 0;
    if (x->dims == 0 || y->dims == 0)
        return tensor_mul(me, x, y);
    if (depth != tensor_size(y, -1))
        return failed_null(me, E_RUNTIME, "inner: the last dimensions must match, but they are %lld and %lld",
                           (long long)depth, (long long)tensor_size(y, -1));
    if (x->dims + y->dims - 2 > TENSOR_DIMS)
        return failed_null(me, E_RUNTIME, "inner: the result would have more than %d dimensions", TENSOR_DIMS);
    for (int i = 0; i < x->dims - 1; i++)
        rows *= sizes[dims++] = x->size[i];
    for (int i = 0; i < y->dims - 1; i++)
        columns *= sizes[dims++] = y->size[i];
    struct tensor *left  = tensor_reshape(me, x, 2, (const int64_t[]){ rows, depth });
    struct tensor *right = tensor_reshape(me, y, 2, (const int64_t[]){ columns, depth });
    return tensor_reshape(me, tensor_mm(me, left, tensor_t(me, right)), dims, sizes);
}

/* Each element of the one times the whole of the other. */
struct tensor *
fn_kron(struct task *me, struct arguments *a)
{
    struct tensor *x = a->at[0].tensor, *y = a->at[1].tensor;
    int            dims = x->dims > y->dims ? x->dims : y->dims;
    int64_t        left[TENSOR_DIMS], right[TENSOR_DIMS], sizes[TENSOR_DIMS];
    if (2 * dims > TENSOR_DIMS)
        return failed_null(me, E_RUNTIME, "kron: tensors of at most %d dimensions, got %d", TENSOR_DIMS / 2, dims);
    for (int i = 0; i < dims; i++) {
        int64_t n = i >= dims - x->dims ? x->size[i - dims + x->dims] : 1;
        int64_t m = i >= dims - y->dims ? y->size[i - dims + y->dims] : 1;
        left[2 * i] = n, left[2 * i + 1] = 1;
        right[2 * i] = 1, right[2 * i + 1] = m;
        if (__builtin_mul_overflow(n, m, &sizes[i]))
            return failed_null(me, E_RUNTIME, "kron: sizes %lld and %lld make a dimension that is too large",
                               (long long)n, (long long)m);
    }
    struct tensor *each = tensor_reshape(me, x, 2 * dims, left), *whole = tensor_reshape(me, y, 2 * dims, right);
    return tensor_reshape(me, tensor_mul(me, each, whole), dims, sizes);
}

/* The p-norm of the difference. */
struct tensor *
fn_dist(struct task *me, struct arguments *a)
{
    return tensor_norm(me, tensor_sub(me, a->at[0].tensor, a->at[1].tensor), a->at[2].number,
                       &(struct fold_options){ .dims = 0 });
}

/* Between each row of the one and each of the other. */
struct tensor *
fn_cdist(struct task *me, struct arguments *a)
{
    struct tensor *x = a->at[0].tensor, *y = a->at[1].tensor;
    if (x->dims < 2 || y->dims < 2 || x->dims == TENSOR_DIMS || y->dims == TENSOR_DIMS)
        return failed_null(me, E_RUNTIME, "cdist: expected X1 and X2 of 2 to %d dimensions, got %d and %d",
                           TENSOR_DIMS - 1, x->dims, y->dims);
    if (tensor_size(x, -1) != tensor_size(y, -1))
        return failed_null(me, E_RUNTIME, "cdist: X1 and X2 must have the same number of columns. X1: %lld X2: %lld",
                           (long long)tensor_size(x, -1), (long long)tensor_size(y, -1));
    struct tensor *rows = tensor_unsqueeze(me, x, x->dims - 1), *others = tensor_unsqueeze(me, y, y->dims - 2);
    struct tensor *away = tensor_sub(me, rows, others);
    return tensor_norm(me, away, a->at[2].number,
                       &(struct fold_options){ .dims = 1, .dim = { tensor_dims(away) - 1 } });
}

/* ---- beta * input + alpha * product ---- */

static bool
may_multiply(struct task *me, const struct arguments *a, int left, int right)
{
    int x = a->at[1].tensor->dims, y = a->at[2].tensor->dims;
    return (x == left && y == right) ||
           failed(me, E_RUNTIME, "expected tensors of %d and %d dimensions to multiply, got %d and %d", left, right, x,
                  y);
}

/* With beta 0 the input is not read: its NaNs do not spread. */
static struct tensor *
added_product(struct task *me, const struct arguments *a, struct tensor *product)
{
    double beta = a->at[3].number, alpha = a->at[4].number;
    if (beta == 0)
        return alpha == 1 ? product : tensor_mul_number(me, product, alpha);
    struct tensor *input = beta == 1 ? a->at[0].tensor : tensor_mul_number(me, a->at[0].tensor, beta);
    return tensor_add_scaled(me, input, product, alpha);
}

struct tensor *
fn_addmm(struct task *me, struct arguments *a)
{
    struct op_args args = { .in = { a->at[0].tensor, a->at[1].tensor, a->at[2].tensor } };
    if (!may_multiply(me, a, 2, 2))
        return NULL;
    if (a->at[3].number == 1 && a->at[4].number == 1)
        return op_call(me, OP_addmm, &args);
    return added_product(me, a, tensor_mm(me, args.in[1], args.in[2]));
}

struct tensor *
fn_addmv(struct task *me, struct arguments *a)
{
    if (!may_multiply(me, a, 2, 1))
        return NULL;
    return added_product(me, a, op_on(me, OP_mv, a->at[1].tensor, a->at[2].tensor, 1));
}

struct tensor *
fn_baddbmm(struct task *me, struct arguments *a)
{
    if (!may_multiply(me, a, 3, 3))
        return NULL;
    struct op_args args = { .in = { a->at[0].tensor, a->at[1].tensor, a->at[2].tensor }, .alpha = a->at[4].number,
                            .beta = a->at[3].number };
    if (args.beta != 0 && dtype_is_float(args.in[0]->dtype))
        return op_call(me, OP_baddbmm, &args);
    return added_product(me, a, op_on(me, OP_bmm, args.in[1], args.in[2], 1));
}

struct tensor *
fn_addbmm(struct task *me, struct arguments *a)
{
    if (!may_multiply(me, a, 3, 3))
        return NULL;
    struct tensor *products = op_on(me, OP_bmm, a->at[1].tensor, a->at[2].tensor, 1);
    return added_product(me, a, tensor_sum_dim(me, products, 0, false));
}

struct tensor *
fn_addr(struct task *me, struct arguments *a)
{
    if (!may_multiply(me, a, 1, 1))
        return NULL;
    return added_product(me, a, outer_product(me, a->at[1].tensor, a->at[2].tensor));
}

/* ---- einsum: the equation ---- */

/* Every letter, and every dimension that "..." stands for, is a label; an operand is seen with a dimension for each. */
struct equation {
    const char *text, *arrow, *end;      /* arrow NULL: none; end: of the operands' subscripts */
    int         labels, dots;            /* labels 0 to dots - 1 belong to "..." */
    int         of_letter[128];          /* -1: not met yet */
    int         last[TENSOR_DIMS], uses[TENSOR_DIMS]; /* of a label: the last operand that has it; in how many places */
    unsigned    output;                  /* a bit for each label that stays */
    int         order[TENSOR_DIMS], out_dims;
    char        wrong[128];              /* why it cannot be read */
};

static bool __attribute__((format(printf, 2, 3)))
reject(struct equation *equation, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(equation->wrong, sizeof equation->wrong, format, arguments);
    va_end(arguments);
    return false;
}

/* The subscripts of one operand, or of the output: letters, blanks, "..." once. */
static bool
count_subscripts(struct equation *equation, const char *text, const char *end, int *letters, bool *dots)
{
    *letters = 0;
    *dots    = false;
    for (; text < end; text++) {
        if (end - text >= 3 && strncmp(text, "...", 3) == 0 && !*dots) {
            *dots = true;
            text += 2;
        } else if (isalpha((unsigned char)*text)) {
            ++*letters;
        } else if (*text != ' ') {
            return reject(equation, "einsum: '%c' is no subscript: use letters, \"...\" once, \",\" and \"->\"",
                          isprint((unsigned char)*text) ? *text : '?');
        }
    }
    return true;
}

/* What stands between commas, from `text` on: its end. */
static const char *
term_end(const char *text, const char *end)
{
    while (text < end && *text != ',')
        text++;
    return text;
}

/* First pass: how many dimensions "..." stands for, the most of all operands. */
static bool
count_dots(struct equation *equation, const struct argument *operands)
{
    const char *text = equation->text;
    for (int i = 0; i < operands->count; i++) {
        const char *stop = term_end(text, equation->end);
        bool        dots;
        int         letters, rest;
        if (!count_subscripts(equation, text, stop, &letters, &dots))
            return false;
        rest = operands->tensors[i]->dims - letters;
        if (rest < 0 || (rest > 0 && !dots))
            return reject(equation, "einsum: operand %d has %d dimensions, but its subscripts name %d", i,
                          operands->tensors[i]->dims, letters);
        if (dots && rest > equation->dots)
            equation->dots = rest;
        if ((stop == equation->end) != (i == operands->count - 1))
            return reject(equation, "einsum: %s operands than the equation has terms",
                          stop == equation->end ? "more" : "fewer");
        text = stop + 1;
    }
    equation->labels = equation->dots;
    return true;
}

/* The labels of an operand's dimensions, in their order, and what follows its term. NULL: too many. */
static const char *
read_labels(struct equation *equation, const char *text, int dims, int *labels)
{
    const char *end = term_end(text, equation->end);
    bool        dots;
    int         letters, at = 0;
    count_subscripts(equation, text, end, &letters, &dots);
    for (; text < end; text++) {
        for (int i = dims - letters; *text == '.' && i > 0; i--)
            labels[at++] = equation->dots - i;
        text += *text == '.' ? 2 : 0;
        if (!isalpha((unsigned char)*text))
            continue;
        int *label = &equation->of_letter[(unsigned char)*text & 127];
        if (*label < 0)
            *label = equation->labels++;
        if (equation->labels > TENSOR_DIMS) {
            reject(equation, "einsum: more than %d different subscripts", TENSOR_DIMS);
            return NULL;
        }
        labels[at++] = *label;
    }
    return end + 1;
}

static void
put_out(struct equation *equation, int label)
{
    equation->output |= 1u << label;
    equation->order[equation->out_dims++] = label;
}

/* Without an arrow: each letter that is met once, in order. */
static void
imply_output(struct equation *equation)
{
    for (int i = 0; i < equation->dots; i++)
        put_out(equation, i);
    for (int letter = 'A'; letter <= 'z'; letter++) {
        int label = equation->of_letter[letter];
        if (isalpha(letter) && label >= 0 && equation->uses[label] == 1)
            put_out(equation, label);
    }
}

static bool
read_output(struct equation *equation)
{
    const char *at = equation->arrow + 2;
    int         letters;
    bool        dots;
    if (!count_subscripts(equation, at, at + strlen(at), &letters, &dots))
        return false;
    for (; *at != '\0'; at++) {
        for (int i = 0; *at == '.' && i < equation->dots; i++)
            put_out(equation, i);
        at += *at == '.' ? 2 : 0;
        if (!isalpha((unsigned char)*at))
            continue;
        int label = equation->of_letter[(unsigned char)*at & 127];
        if (label < 0 || equation->output >> label & 1)
            return reject(equation, "einsum: output subscript %c %s", *at,
                          label < 0 ? "does not appear in the equation for any operand" : "appears more than once");
        put_out(equation, label);
    }
    return true;
}

/* Of the arguments (equation, operands). false: `wrong` says why. */
static bool
read_equation(struct equation *equation, const struct arguments *a)
{
    const struct argument *operands = &a->at[1];
    const char            *text     = a->at[0].text, *arrow = strstr(text, "->");
    *equation = (struct equation){ .text = text, .arrow = arrow, .end = arrow != NULL ? arrow : text + strlen(text) };
    memset(equation->of_letter, -1, sizeof equation->of_letter);
    if (operands->count == 0)
        return reject(equation, "einsum: expected at least one operand");
    if (!count_dots(equation, operands))
        return false;
    for (int i = 0; i < operands->count; i++) {
        int labels[TENSOR_DIMS];
        text = read_labels(equation, text, operands->tensors[i]->dims, labels);
        for (int d = 0; text != NULL && d < operands->tensors[i]->dims; d++) {
            equation->last[labels[d]] = i;
            equation->uses[labels[d]]++;
        }
        if (text == NULL)
            return false;
    }
    if (arrow != NULL)
        return read_output(equation);
    imply_output(equation);
    return true;
}

/* ---- einsum: the products ---- */

/* Of a label that the operand has twice, at i and j: the diagonal, which comes last. `of` follows its dimensions. */
static struct tensor *
repeated_label(struct task *me, struct tensor *x, int *of, int i, int j)
{
    if (x->size[i] != x->size[j])
        return failed_null(me, E_SHAPE, "einsum: a subscript is repeated for an operand of shape %s, but its sizes "
                           "%lld and %lld differ", shape_text(x).text, (long long)x->size[i], (long long)x->size[j]);
    int same = of[i], dims = x->dims;
    memmove(of + j, of + j + 1, (size_t)(dims - j - 1) * sizeof *of);
    memmove(of + i, of + i + 1, (size_t)(dims - i - 2) * sizeof *of);
    of[dims - 2] = same;
    return op_call(me, OP_diagonal, &(struct op_args){ .in = { x }, .dim = i, .start = j });
}

/* The operand with a dimension for each label, of size 1 where it has none. */
static struct tensor *
labelled(struct task *me, struct tensor *x, int *of, int labels)
{
    int64_t order[TENSOR_DIMS];
    int     place[TENSOR_DIMS], dims;
    for (int i = 0; x != NULL && i < x->dims; i++) {
        for (int j = i + 1; x != NULL && j < x->dims; j++) {
            if (of[j] != of[i])
                continue;
            x = repeated_label(me, x, of, i, j);
            i = -1;
            break;
        }
    }
    if (x == NULL)
        return NULL;
    memset(place, -1, sizeof place);
    for (dims = 0; dims < x->dims; dims++)
        place[of[dims]] = dims;
    for (int label = 0; label < labels && x != NULL; label++) {
        if (place[label] < 0) {
            x            = tensor_unsqueeze(me, x, dims);
            place[label] = dims++;
        }
        order[label] = place[label];
    }
    return x != NULL ? tensor_permute(me, x, labels, order) : NULL;
}

static struct tensor *
summed_labels(struct task *me, struct tensor *x, unsigned labels)
{
    struct fold_options options = { .keepdim = true };
    for (int i = 0; x != NULL && i < x->dims; i++)
        if (labels >> i & 1 && x->size[i] != 1)
            options.dim[options.dims++] = i;
    return options.dims > 0 ? tensor_fold(me, OP_sum_dims, x, &options) : x;
}

/* Labels of one kind, at the end of an order; how many elements they span. */
static int64_t
take_labels(unsigned labels, const struct tensor *x, int64_t *order, int *count)
{
    int64_t span = 1;
    for (int i = 0; i < x->dims; i++) {
        if (labels >> i & 1) {
            order[(*count)++] = i;
            span *= x->size[i];
        }
    }
    return span;
}

/* What labels are in a product: those of both stay as the batch or are summed away (inside), of one are rows (left) or
 * columns (right). */
struct kinds { unsigned batch, inside, left, right; };

/* As batches of matrices: of the first operand [batch, left, inside], of the second [batch, inside, right]. */
static struct tensor *
to_batch(struct task *me, struct tensor *x, const struct kinds *kinds, bool second)
{
    int64_t order[TENSOR_DIMS], sizes[3];
    int     at = 0;
    sizes[0]   = take_labels(kinds->batch, x, order, &at);
    sizes[1]   = take_labels(second ? kinds->inside : kinds->left, x, order, &at);
    sizes[2]   = take_labels(second ? kinds->right : kinds->inside, x, order, &at);
    take_labels(second ? kinds->left : kinds->right, x, order, &at);   /* of size 1 */
    return tensor_reshape(me, tensor_permute(me, x, x->dims, order), 3, sizes);
}

/* The batched product with a dimension for each label again. */
static struct tensor *
from_batch(struct task *me, struct tensor *product, const struct kinds *kinds, struct tensor *const *operands)
{
    const struct tensor *x = operands[0], *y = operands[1];
    int64_t              order[TENSOR_DIMS], sizes[TENSOR_DIMS], inverse[TENSOR_DIMS];
    int                  at = 0;
    take_labels(kinds->batch, x, order, &at);
    take_labels(kinds->left, x, order, &at);
    take_labels(kinds->right, y, order, &at);
    take_labels(kinds->inside, x, order, &at);
    for (int i = 0; i < at; i++) {
        int64_t label  = order[i];
        sizes[i]       = kinds->inside >> label & 1 ? 1 : kinds->right >> label & 1 ? y->size[label] : x->size[label];
        inverse[label] = i;
    }
    return tensor_permute(me, tensor_reshape(me, product, at, sizes), at, inverse);
}

/* One batched product with operand `place`; the labels `gone` are summed away. */
static struct tensor *
contracted(struct task *me, struct tensor *a, struct tensor *b, unsigned gone, int place)
{
    unsigned both = 0, left = 0, all = (1u << a->dims) - 1;
    for (int i = 0; i < a->dims; i++) {
        if (a->size[i] != 1 && b->size[i] != 1 && a->size[i] != b->size[i])
            return failed_null(me, E_SHAPE, "einsum: a subscript has size %lld for operand %d which does not broadcast "
                               "with previously seen size %lld", (long long)b->size[i], place, (long long)a->size[i]);
        both |= (unsigned)(a->size[i] != 1 && b->size[i] != 1) << i;
        left |= (unsigned)(a->size[i] != 1 && b->size[i] == 1) << i;
    }
    a = summed_labels(me, a, gone & ~both);
    b = summed_labels(me, b, gone & ~both);
    if (a == NULL || b == NULL)
        return NULL;
    struct kinds   kinds = { .batch = both & ~gone, .inside = both & gone, .left = left, .right = all & ~both & ~left };
    struct tensor *x = to_batch(me, a, &kinds, false), *y = to_batch(me, b, &kinds, true);
    return from_batch(me, op_on(me, OP_bmm, x, y, 1), &kinds, (struct tensor *[]){ a, b });
}

static struct tensor *
contracted_all(struct task *me, const struct equation *equation, struct tensor **operands, int count)
{
    unsigned       gone   = ((1u << equation->labels) - 1) & ~equation->output;
    struct tensor *result = operands[0];
    int64_t        order[TENSOR_DIMS], sizes[TENSOR_DIMS];
    for (int i = 1; i < count && result != NULL; i++) {
        unsigned done = 0;
        for (int label = 0; label < equation->labels; label++)
            done |= (unsigned)(equation->last[label] <= i) << label;
        result = contracted(me, result, operands[i], gone & done, i);
    }
    result = summed_labels(me, result, gone);
    if (result == NULL || equation->labels == 0)
        return result;
    int at = 0;
    for (; at < equation->out_dims; at++) {
        order[at] = equation->order[at];
        sizes[at] = result->size[order[at]];
    }
    take_labels(gone, result, order, &at);
    return tensor_reshape(me, tensor_permute(me, result, at, order), equation->out_dims, sizes);
}

/* "bij,bjk->bik" */
struct tensor *
fn_einsum(struct task *me, struct arguments *a)
{
    struct equation equation;
    struct tensor **operands = a->at[1].tensors;
    if (!read_equation(&equation, a))
        return failed_null(me, E_RUNTIME, "%s", equation.wrong);
    const char *text = equation.text;
    for (int i = 0; i < a->at[1].count; i++) {
        int labels[TENSOR_DIMS];
        text        = read_labels(&equation, text, operands[i]->dims, labels);
        operands[i] = labelled(me, operands[i], labels, equation.labels);
    }
    return task_failed(me) ? NULL : contracted_all(me, &equation, operands, a->at[1].count);
}

/* ---- tensordot ---- */

struct contraction { int count; int64_t a[TENSOR_DIMS], b[TENSOR_DIMS]; };

/* A number: the last dimensions of a and the first of b; or two lists. */
static bool
take_contraction(struct task *me, const struct arguments *a, struct contraction *out)
{
    const struct argument *dims = &a->at[2];
    int                    x = a->at[0].tensor->dims, y = a->at[1].tensor->dims;
    int64_t                count = dims->integers != NULL ? dims->count : dims->integer[0];
    if (dims->integers == NULL && (count < 0 || count > x || count > y))
        return failed(me, E_RUNTIME, "tensordot: %lld dimensions of tensors that have %d and %d", (long long)count, x,
                      y);
    out->count = (int)count;
    for (int i = 0; i < count; i++) {
        out->a[i] = dims->integers != NULL ? dims->integers[i] : x - count + i;
        out->b[i] = dims->integers != NULL ? dims->integers[TENSOR_DIMS + i] : i;
        out->a[i] += out->a[i] < 0 ? x : 0;
        out->b[i] += out->b[i] < 0 ? y : 0;
    }
    return true;
}

static bool
may_contract(struct task *me, const struct tensor *a, const struct tensor *b, const struct contraction *dims)
{
    for (int i = 0; i < dims->count; i++) {
        if (dims->a[i] < 0 || dims->a[i] >= a->dims || dims->b[i] < 0 || dims->b[i] >= b->dims)
            return failed(me, E_INDEX, "tensordot: dimensions %lld and %lld are out of range for tensors of %d and %d",
                          (long long)dims->a[i], (long long)dims->b[i], a->dims, b->dims);
        for (int j = 0; j < i; j++)
            if (dims->a[j] == dims->a[i] || dims->b[j] == dims->b[i])
                return failed(me, E_RUNTIME, "tensordot: a dimension appears multiple times in the list of dims");
        if (a->size[dims->a[i]] != b->size[dims->b[i]])
            return failed(me, E_RUNTIME, "tensordot: contracted dimensions need to match, but first has size %lld in "
                          "dim %lld and second has size %lld in dim %lld", (long long)a->size[dims->a[i]],
                          (long long)dims->a[i], (long long)b->size[dims->b[i]], (long long)dims->b[i]);
    }
    return a->dims + b->dims - 2 * dims->count <= TENSOR_DIMS ||
           failed(me, E_RUNTIME, "tensordot: the result would have more than %d dimensions", TENSOR_DIMS);
}

static unsigned
labels_without(int dims, const int64_t *without, int count)
{
    unsigned labels = (1u << dims) - 1;
    for (int i = 0; i < count; i++)
        labels &= ~(1u << without[i]);
    return labels;
}

struct tensor *
fn_tensordot(struct task *me, struct arguments *a)
{
    struct tensor     *x = a->at[0].tensor, *y = a->at[1].tensor;
    struct contraction dims;
    int64_t            from_x[TENSOR_DIMS], from_y[TENSOR_DIMS], sizes[TENSOR_DIMS], depth = 1;
    int                at_x = 0, out = 0;
    if (!take_contraction(me, a, &dims) || !may_contract(me, x, y, &dims))
        return NULL;
    int     at_y    = dims.count;
    int64_t rows    = take_labels(labels_without(x->dims, dims.a, dims.count), x, from_x, &at_x);
    int64_t columns = take_labels(labels_without(y->dims, dims.b, dims.count), y, from_y, &at_y);
    for (int i = 0; i < at_x; i++)
        sizes[out++] = x->size[from_x[i]];
    for (int i = dims.count; i < at_y; i++)
        sizes[out++] = y->size[from_y[i]];
    for (int i = 0; i < dims.count; i++) {
        from_x[at_x++] = dims.a[i];
        from_y[i]      = dims.b[i];
        depth *= x->size[dims.a[i]];
    }
    struct tensor *left  = tensor_permute(me, x, x->dims, from_x), *right = tensor_permute(me, y, y->dims, from_y);
    left  = tensor_reshape(me, left, 2, (const int64_t[]){ rows, depth });
    right = tensor_reshape(me, right, 2, (const int64_t[]){ depth, columns });
    return tensor_reshape(me, tensor_mm(me, left, right), out, sizes);
}
