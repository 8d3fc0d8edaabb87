/* Products of more than two matrices' kind: einsum, tensordot, outer, addmm and their like, all made of mm, bmm and
 * permutations. Methods and functions of rs alike: rs.einsum("ij,jk->ik", a, b), bias:addmm(a, b). */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "autograd/call.h"
#include "base/vec.h"
#include "device/device.h"
#include "lua/internal.h"
#include "sched/task.h"

static struct tensor *
bmm(struct task *me, struct tensor *a, struct tensor *b)
{
    return a != NULL && b != NULL ? op_on(me, OP_bmm, a, b, 1) : NULL;
}

/* ---- two vectors ---- */

static struct tensor *
outer_of(struct task *me, struct tensor *a, struct tensor *b)
{
    return tensor_mul(me, tensor_unsqueeze(me, a, 1), b);
}

static int
outer(lua_State *L)
{
    struct task   *me = script_task(L);
    struct tensor *a = check_tensor(L, 1), *b = check_tensor(L, 2);
    if (a->dims != 1 || b->dims != 1)
        raise_error(L, "RuntimeError", "outer: expected two vectors, got tensors of %d and %d dimensions", a->dims,
                    b->dims);
    script_reserve(L, me, 8 * (double)tensor_count(a) * (double)tensor_count(b));
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, outer_of(me, a, b));
}

/* Over the last dimension of both; a number just multiplies. */
static int
inner(lua_State *L)
{
    struct task   *me = script_task(L);
    struct tensor *a = check_tensor(L, 1), *b = check_tensor(L, 2);
    int64_t        sizes[2 * TENSOR_DIMS];
    int            dims = 0;
    if (a->dims > 0 && b->dims > 0 && tensor_size(a, -1) != tensor_size(b, -1))
        raise_error(L, "RuntimeError", "inner: the last dimensions must match, but they are %lld and %lld",
                    (long long)tensor_size(a, -1), (long long)tensor_size(b, -1));
    if (a->dims + b->dims - 2 > TENSOR_DIMS)
        raise_error(L, "RuntimeError", "inner: the result would have more than %d dimensions", TENSOR_DIMS);
    script_reserve(L, me, 8 * (double)tensor_count(a) * (double)tensor_count(b));
    struct call call = call_open(L, me, CALL_PLAIN);
    if (a->dims == 0 || b->dims == 0)
        return call_tensor(&call, tensor_mul(me, a, b));
    for (int i = 0; i < a->dims - 1; i++)
        sizes[dims++] = a->size[i];
    for (int i = 0; i < b->dims - 1; i++)
        sizes[dims++] = b->size[i];
    int64_t        depth = tensor_size(a, -1), rows = 1, columns = 1;
    for (int i = 0; i < a->dims - 1; i++)
        rows *= a->size[i];
    for (int i = 0; i < b->dims - 1; i++)
        columns *= b->size[i];
    struct tensor *left  = tensor_reshape(me, a, 2, (const int64_t[]){ rows, depth });
    struct tensor *right = tensor_reshape(me, b, 2, (const int64_t[]){ columns, depth });
    return call_tensor(&call, tensor_reshape(me, tensor_mm(me, left, tensor_t(me, right)), dims, sizes));
}

/* ---- beta * input + alpha * product ---- */

enum adding { ADD_MM, ADD_MV, ADD_BMM_SUM, ADD_BMM, ADD_OUTER };

static struct tensor *
product_of(struct task *me, enum adding which, struct tensor *a, struct tensor *b)
{
    switch (which) {
    case ADD_MM: return tensor_mm(me, a, b);
    case ADD_MV: return op_on(me, OP_mv, a, b, 1);
    case ADD_BMM: return bmm(me, a, b);
    case ADD_BMM_SUM: return tensor_sum_dim(me, bmm(me, a, b), 0, false);
    case ADD_OUTER: return outer_of(me, a, b);
    }
    return NULL;
}

/* input:addmm(a, b, {beta = 1, alpha = 1}). With beta 0 the input is not read: its NaNs do not spread. */
static int
added_product(lua_State *L)
{
    static const int dims[] = { 2, 2, 3, 3, 1 }, second[] = { 2, 1, 3, 3, 1 };
    struct task     *me = script_task(L);
    enum adding      which = (enum adding)lua_tointeger(L, lua_upvalueindex(1));
    struct tensor   *input = check_tensor(L, 1), *a = check_tensor(L, 2), *b = check_tensor(L, 3);
    int              table = option_table(L, lua_istable(L, 4) ? 4 : 0);
    option_known(L, table, "beta alpha");
    double beta = option_number(L, table, "beta", 1), alpha = option_number(L, table, "alpha", 1);
    if (a->dims != dims[which] || b->dims != second[which])
        raise_error(L, "RuntimeError", "expected tensors of %d and %d dimensions to multiply, got %d and %d",
                    dims[which],
                    second[which], a->dims, b->dims);
    script_reserve(L, me, 8 * (double)tensor_count(a) * (double)tensor_size(b, -1));
    struct call call = call_open(L, me, CALL_PLAIN);
    if (which == ADD_MM && beta == 1 && alpha == 1) {
        struct op_args args = { .in = { input, a, b } };
        return call_tensor(&call, op_call(me, OP_addmm, &args));
    }
    struct tensor *product = product_of(me, which, a, b);
    if (beta == 0 && product != NULL)
        return call_tensor(&call, alpha == 1 ? product : tensor_mul_number(me, product, alpha));
    return call_tensor(&call, tensor_add_scaled(me, beta == 1 ? input : tensor_mul_number(me, input, beta), product,
                                                alpha));
}

/* ---- einsum ---- */

/* Every letter, and every dimension that "..." stands for, is a label; an operand is seen with a dimension for each. */
struct equation {
    int      labels, dots;               /* labels 0 to dots - 1 belong to "..." */
    int      of_letter[128];             /* -1: not met yet */
    unsigned output;                     /* a bit for each label that stays */
    int      order[TENSOR_DIMS], out_dims;
};

static int
label_of(lua_State *L, struct equation *equation, char letter)
{
    int *label = &equation->of_letter[(unsigned char)letter & 127];
    if (*label < 0)
        *label = equation->labels++;
    if (equation->labels > TENSOR_DIMS)
        raise_error(L, "RuntimeError", "einsum: more than %d different subscripts", TENSOR_DIMS);
    return *label;
}

/* The subscripts of one operand, or of the output: letters, blanks, "..." once. Answers how many letters, whether
 * dots. */
static int
subscripts_length(lua_State *L, const char *text, const char *end, bool *dots)
{
    int letters = 0;
    *dots       = false;
    for (; text < end; text++) {
        if (*text == ' ')
            continue;
        if (end - text >= 3 && strncmp(text, "...", 3) == 0 && !*dots) {
            *dots = true;
            text += 2;
        } else if (isalpha((unsigned char)*text)) {
            letters++;
        } else {
            raise_error(L, "RuntimeError", "einsum: '%c' is no subscript: use letters, \"...\" once, \",\" and \"->\"",
                        isprint((unsigned char)*text) ? *text : '?');
        }
    }
    return letters;
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
static void
count_dots(lua_State *L, struct equation *equation, const char *text, const char *end, struct tensor **tensors,
           int count)
{
    for (int i = 0; i < count; i++) {
        const char *stop = term_end(text, end);
        bool        dots;
        int         letters = subscripts_length(L, text, stop, &dots), rest = tensors[i]->dims - letters;
        if (rest < 0 || (rest > 0 && !dots))
            raise_error(L, "RuntimeError", "einsum: operand %d has %d dimensions, but its subscripts name %d", i,
                        tensors[i]->dims, letters);
        if (dots && rest > equation->dots)
            equation->dots = rest;
        if ((stop == end) != (i == count - 1))
            raise_error(L, "RuntimeError", "einsum: %s operands than the equation has terms",
                        stop == end ? "more" : "fewer");
        text = stop + 1;
    }
    equation->labels = equation->dots;
    if (equation->dots > TENSOR_DIMS)
        raise_error(L, "RuntimeError", "einsum: more than %d dimensions", TENSOR_DIMS);
}

/* The labels of an operand's dimensions, in their order. */
static void
operand_labels(lua_State *L, struct equation *equation, const char *text, const char *end, int dims, int *labels)
{
    bool dots;
    int  letters = subscripts_length(L, text, end, &dots), at = 0;
    for (; text < end; text++) {
        if (isalpha((unsigned char)*text)) {
            labels[at++] = label_of(L, equation, *text);
        } else if (*text == '.') {
            for (int i = dims - letters; i > 0; i--)
                labels[at++] = equation->dots - i;
            text += 2;
        }
    }
}

static void
output_labels(lua_State *L, struct equation *equation, const char *arrow, const int *uses)
{
    bool dots = true;
    if (arrow != NULL)
        subscripts_length(L, arrow + 2, arrow + strlen(arrow), &dots);
    for (int i = 0; arrow == NULL && i < equation->dots; i++)
        equation->order[equation->out_dims++] = i;
    for (int letter = 'A'; arrow == NULL && letter <= 'z'; letter++) { /* each letter that is met once, in order */
        if (isalpha(letter) && equation->of_letter[letter] >= 0 && uses[equation->of_letter[letter]] == 1)
            equation->order[equation->out_dims++] = equation->of_letter[letter];
    }
    for (const char *at = arrow != NULL ? arrow + 2 : ""; *at != '\0'; at++) {
        for (int i = 0; *at == '.' && i < equation->dots; i++)
            equation->order[equation->out_dims++] = i;
        at += *at == '.' ? 2 : 0;
        if (!isalpha((unsigned char)*at))
            continue;
        int label = equation->of_letter[(unsigned char)*at & 127];
        if (label < 0 || equation->output >> label & 1)
            raise_error(L, "RuntimeError", "einsum: output subscript %c %s", *at,
                        label < 0 ? "does not appear in the equation for any operand" : "appears more than once");
        equation->output |= 1u << label;
        equation->order[equation->out_dims++] = label;
    }
    for (int i = 0; i < equation->out_dims; i++)
        equation->output |= 1u << equation->order[i];
}

/* The operand with a dimension for each label, of size 1 where it has none; a label that it has twice: the diagonal. */
static struct tensor *
spread(struct task *me, struct tensor *tensor, const int *given, int labels)
{
    int     place[TENSOR_DIMS], dims = tensor->dims, of[TENSOR_DIMS];
    int64_t order[TENSOR_DIMS];
    memcpy(of, given, sizeof of);
    for (int i = 0; i < dims && tensor != NULL; i++) {
        for (int j = i + 1; j < dims && tensor != NULL; j++) {
            if (of[j] != of[i])
                continue;
            if (tensor->size[i] != tensor->size[j])
                return failed_null(me, E_SHAPE, "einsum: a subscript is repeated for sizes %lld and %lld",
                                   (long long)tensor->size[i], (long long)tensor->size[j]);
            struct op_args args = { .in = { tensor }, .dim = i, .start = j };
            tensor = op_call(me, OP_diagonal, &args);       /* its dimension comes last */
            int same = of[i];
            memmove(of + j, of + j + 1, (size_t)(dims - j - 1) * sizeof *of);
            memmove(of + i, of + i + 1, (size_t)(dims - i - 2) * sizeof *of);
            of[--dims - 1] = same;
            i = -1;
            break;
        }
    }
    for (int label = 0; label < labels; label++)
        place[label] = -1;
    for (int i = 0; i < dims; i++)
        place[of[i]] = i;
    for (int label = 0; label < labels && tensor != NULL; label++) {
        if (place[label] < 0) {
            tensor       = tensor_unsqueeze(me, tensor, dims);
            place[label] = dims++;
        }
        order[label] = place[label];
    }
    return tensor != NULL ? tensor_permute(me, tensor, labels, order) : NULL;
}

static struct tensor *
summed(struct task *me, struct tensor *tensor, unsigned labels)
{
    struct fold_options options = { .keepdim = true };
    for (int i = 0; tensor != NULL && i < tensor->dims; i++)
        if (labels >> i & 1 && tensor->size[i] != 1)
            options.dim[options.dims++] = i;
    return options.dims > 0 ? tensor_fold(me, OP_sum_dims, tensor, &options) : tensor;
}

/* Labels of one kind, at the end of an order; how many elements they span. */
static int64_t
take_labels(unsigned labels, const struct tensor *tensor, int64_t *order, int *count)
{
    int64_t span = 1;
    for (int i = 0; i < tensor->dims; i++) {
        if (labels >> i & 1) {
            order[(*count)++] = i;
            span *= tensor->size[i];
        }
    }
    return span;
}

/* One batched product: labels of both stay as the batch or are summed away, the others are rows and columns. */
static struct tensor *
contracted(struct task *me, struct tensor *a, struct tensor *b, unsigned gone)
{
    unsigned both = 0, left = 0, all = (1u << a->dims) - 1;
    for (int i = 0; i < a->dims; i++) {
        if (a->size[i] != 1 && b->size[i] != 1 && a->size[i] != b->size[i])
            return failed_null(me, E_SHAPE, "einsum: operands do not broadcast: a subscript has sizes %lld and %lld",
                               (long long)a->size[i], (long long)b->size[i]);
        both |= (unsigned)(a->size[i] != 1 && b->size[i] != 1) << i;
        left |= (unsigned)(a->size[i] != 1 && b->size[i] == 1) << i;
    }
    a = summed(me, a, gone & ~both);
    b = summed(me, b, gone & ~both);
    if (a == NULL || b == NULL)
        return NULL;
    unsigned batch = both & ~gone, inside = both & gone, right = all & ~both & ~left;
    int64_t  from_a[TENSOR_DIMS], from_b[TENSOR_DIMS], back[TENSOR_DIMS], sizes[TENSOR_DIMS];
    int      at_a = 0, at_b = 0;
    int64_t  batches = take_labels(batch, a, from_a, &at_a), rows = take_labels(left, a, from_a, &at_a);
    int64_t  depth   = take_labels(inside, a, from_a, &at_a);
    take_labels(right, a, from_a, &at_a);
    take_labels(batch, b, from_b, &at_b);
    take_labels(inside, b, from_b, &at_b);
    int64_t columns = take_labels(right, b, from_b, &at_b);
    take_labels(left, b, from_b, &at_b);
    struct tensor *x = tensor_reshape(me, tensor_permute(me, a, a->dims, from_a), 3,
                                      (const int64_t[]){ batches, rows, depth });
    struct tensor *y = tensor_reshape(me, tensor_permute(me, b, b->dims, from_b), 3,
                                      (const int64_t[]){ batches, depth, columns });
    int at = 0;
    take_labels(batch, a, back, &at);
    take_labels(left, a, back, &at);
    take_labels(right, b, back, &at);
    take_labels(inside, a, back, &at);
    int64_t inverse[TENSOR_DIMS];
    for (int i = 0; i < at; i++) {
        int label      = (int)back[i];
        sizes[i]       = inside >> label & 1 ? 1 : right >> label & 1 ? b->size[label] : a->size[label];
        inverse[label] = i;
    }
    struct tensor *product = tensor_reshape(me, bmm(me, x, y), at, sizes);
    return tensor_permute(me, product, at, inverse);
}

static struct tensor *
einsum_of(struct task *me, const struct equation *equation, struct tensor **operands, int count, const int *last)
{
    unsigned       all    = (1u << equation->labels) - 1, gone = all & ~equation->output;
    struct tensor *result = operands[0];
    int64_t        order[TENSOR_DIMS], sizes[TENSOR_DIMS];
    for (int i = 1; i < count && result != NULL; i++) {
        unsigned done = 0;
        for (int label = 0; label < equation->labels; label++)
            done |= (unsigned)(last[label] <= i) << label;
        result = contracted(me, result, operands[i], gone & done);
    }
    result = summed(me, result, gone);
    if (result == NULL || equation->labels == 0)
        return result;
    int at = 0;
    for (; at < equation->out_dims; at++) {
        order[at] = equation->order[at];
        sizes[at] = result->size[order[at]];
    }
    for (int label = 0; label < equation->labels; label++)
        if (gone >> label & 1)
            order[at++] = label;
    return tensor_reshape(me, tensor_permute(me, result, at, order), equation->out_dims, sizes);
}

/* The result must fit the lesson's memory. */
static void
reserve_output(lua_State *L, const struct equation *equation, struct tensor **tensors, int count,
               int (*labels)[TENSOR_DIMS])
{
    int64_t sizes[TENSOR_DIMS];
    double  bytes = 8;
    for (int label = 0; label < equation->labels; label++)
        sizes[label] = 1;
    for (int i = 0; i < count; i++)
        for (int d = 0; d < tensors[i]->dims; d++)
            if (tensors[i]->size[d] != 1)
                sizes[labels[i][d]] = tensors[i]->size[d];
    for (int i = 0; i < equation->out_dims; i++)
        bytes *= (double)sizes[equation->order[i]];
    script_reserve(L, script_of(L)->holder, bytes);
}

/* rs.einsum("bij,bjk->bik", a, b), or the operands in a list */
static int
einsum(lua_State *L)
{
    struct task *me   = script_task(L);
    const char  *text = check_text(L, 1), *arrow = strstr(text, "->"), *end = arrow != NULL ? arrow
        : text + strlen(text);
    int          count = 0, last[TENSOR_DIMS] = { 0 }, uses[TENSOR_DIMS] = { 0 };
    if (test_tensor(L, 2) != NULL) {
        int given = lua_gettop(L) - 1;
        lua_createtable(L, given, 0);
        lua_insert(L, 2);
        for (int i = given; i >= 1; i--)
            lua_rawseti(L, 2, i);
    }
    struct tensor **tensors = check_tensors(L, 2, &count);
    if (count == 0)
        raise_error(L, "RuntimeError", "einsum: expected at least one operand");
    struct equation equation = { 0 };
    memset(equation.of_letter, -1, sizeof equation.of_letter);
    count_dots(L, &equation, text, end, tensors, count);
    int (*labels)[TENSOR_DIMS] = lua_newuserdatauv(L, (size_t)count * sizeof *labels, 0);
    for (int i = 0; i < count; i++) {
        const char *stop = term_end(text, end);
        operand_labels(L, &equation, text, stop, tensors[i]->dims, labels[i]);
        for (int d = 0; d < tensors[i]->dims; d++) {
            last[labels[i][d]] = i;
            uses[labels[i][d]]++;
        }
        text = stop + 1;
    }
    output_labels(L, &equation, arrow, uses);
    reserve_output(L, &equation, tensors, count, labels);
    struct call call = call_open(L, me, CALL_PLAIN);
    for (int i = 0; i < count; i++)
        tensors[i] = spread(me, tensors[i], labels[i], equation.labels);
    return call_tensor(&call, task_failed(me) ? NULL : einsum_of(me, &equation, tensors, count, last));
}

/* ---- distances ---- */

/* rs.dist(a, b, p): the p-norm of the difference */
static int
dist(lua_State *L)
{
    struct task   *me = script_task(L);
    struct tensor *a = check_tensor(L, 1), *b = check_tensor(L, 2);
    double         p = opt_number(L, 3, 2);
    reserve_result(L, me, a, b);
    struct call         call = call_open(L, me, CALL_PLAIN);
    struct fold_options all  = { .dims = 0 };
    struct tensor      *away = tensor_sub(me, a, b);
    return call_tensor(&call, away != NULL ? tensor_norm(me, away, p, &all) : NULL);
}

/* rs.cdist(a, b, p): between each row of a and each of b */
static int
cdist(lua_State *L)
{
    struct task   *me = script_task(L);
    struct tensor *a = check_tensor(L, 1), *b = check_tensor(L, 2);
    double         p = opt_number(L, 3, 2);
    if (a->dims < 2 || b->dims < 2 || a->dims == TENSOR_DIMS || b->dims == TENSOR_DIMS ||
        tensor_size(a, -1) != tensor_size(b, -1))
        raise_error(L, "RuntimeError",
                    "cdist: expected two tensors of 2 dimensions or more whose rows have one length");
    script_reserve(L, me, 16 * (double)tensor_count(a) * (double)tensor_size(b, -2));
    struct call         call = call_open(L, me, CALL_PLAIN);
    struct tensor *rows = tensor_unsqueeze(me, a, a->dims - 1), *others = tensor_unsqueeze(me, b, b->dims - 2);
    struct tensor *away = tensor_sub(me, rows, others);
    struct fold_options last = { .dims = 1, .dim = { tensor_dims(away) - 1 } };
    return call_tensor(&call, away != NULL ? tensor_norm(me, away, p, &last) : NULL);
}

/* ---- tensordot, kron ---- */

struct contraction { int count; int64_t a[TENSOR_DIMS], b[TENSOR_DIMS]; };

/* A number: the last dimensions of a and the first of b; or two lists. */
static struct contraction
check_contraction(lua_State *L, const struct tensor *a, const struct tensor *b)
{
    struct contraction dims = { .count = 2 };
    if (lua_istable(L, 3)) {
        lua_rawgeti(L, 3, 1);
        lua_rawgeti(L, 3, 2);
        int top = lua_gettop(L);
        if (!lua_istable(L, top) || !lua_istable(L, top - 1) || lua_rawlen(L, 3) != 2)
            arg_error(L, 3, "a number, or two lists of dimensions such as {{1}, {0}}");
        dims.count = check_shape(L, top - 1, dims.a);
        if (check_shape(L, top, dims.b) != dims.count)
            raise_error(L, "RuntimeError", "tensordot: both dimension lists should have same length");
    } else {
        int64_t count = opt_integer(L, 3, 2);
        if (count < 0 || count > a->dims || count > b->dims)
            raise_error(L, "RuntimeError", "tensordot: %lld dimensions of tensors that have %d and %d",
                        (long long)count, a->dims, b->dims);
        dims.count = (int)count;
        for (int i = 0; i < dims.count; i++) {
            dims.a[i] = a->dims - dims.count + i;
            dims.b[i] = i;
        }
    }
    for (int i = 0; i < dims.count; i++) {
        dims.a[i] += dims.a[i] < 0 ? a->dims : 0;
        dims.b[i] += dims.b[i] < 0 ? b->dims : 0;
        if (dims.a[i] < 0 || dims.a[i] >= a->dims || dims.b[i] < 0 || dims.b[i] >= b->dims)
            raise_error(L, "IndexError", "tensordot: a dimension is out of range");
        for (int j = 0; j < i; j++)
            if (dims.a[j] == dims.a[i] || dims.b[j] == dims.b[i])
                raise_error(L, "RuntimeError", "tensordot: a dimension appears multiple times in the list of dims");
        if (a->size[dims.a[i]] != b->size[dims.b[i]])
            raise_error(L, "RuntimeError", "tensordot: contracted dimensions need to match, but are %lld and %lld",
                        (long long)a->size[dims.a[i]], (long long)b->size[dims.b[i]]);
    }
    return dims;
}

/* The contracted dimensions last (of b: first), the others in their order; a matrix. */
static struct tensor *
as_matrix(struct task *me, struct tensor *tensor, const int64_t *dims, int count, bool first)
{
    int64_t order[TENSOR_DIMS], inside = 1, outside = 1;
    int     at = first ? count : 0, taken = first ? 0 : tensor->dims - count;
    for (int d = 0; d < tensor->dims; d++) {
        bool contracted_too = false;
        for (int i = 0; i < count; i++)
            contracted_too = contracted_too || dims[i] == d;
        if (contracted_too)
            continue;
        order[at++] = d;
        outside *= tensor->size[d];
    }
    for (int i = 0; i < count; i++) {
        order[taken++] = dims[i];
        inside *= tensor->size[dims[i]];
    }
    const int64_t sizes[2] = { first ? inside : outside, first ? outside : inside };
    return tensor_reshape(me, tensor_permute(me, tensor, tensor->dims, order), 2, sizes);
}

static int
tensordot(lua_State *L)
{
    struct task       *me = script_task(L);
    struct tensor     *a = check_tensor(L, 1), *b = check_tensor(L, 2);
    struct contraction dims = check_contraction(L, a, b);
    int64_t            sizes[2 * TENSOR_DIMS];
    int                out = 0;
    for (int side = 0; side < 2; side++) {
        const struct tensor *tensor = side == 0 ? a : b;
        for (int d = 0; d < tensor->dims; d++) {
            bool contracted_too = false;
            for (int i = 0; i < dims.count; i++)
                contracted_too = contracted_too || (side == 0 ? dims.a : dims.b)[i] == d;
            if (!contracted_too)
                sizes[out++] = tensor->size[d];
        }
    }
    if (out > TENSOR_DIMS)
        raise_error(L, "RuntimeError", "tensordot: the result would have more than %d dimensions", TENSOR_DIMS);
    double bytes = 8;
    for (int i = 0; i < out; i++)
        bytes *= (double)sizes[i];
    script_reserve(L, me, bytes);
    struct call    call = call_open(L, me, CALL_PLAIN);
    struct tensor *left = as_matrix(me, a, dims.a, dims.count, false),
        *right = as_matrix(me, b, dims.b, dims.count, true);
    return call_tensor(&call, tensor_reshape(me, tensor_mm(me, left, right), out, sizes));
}

/* Each element of a times the whole of b. */
static int
kron(lua_State *L)
{
    struct task   *me = script_task(L);
    struct tensor *a = check_tensor(L, 1), *b = check_tensor(L, 2);
    int            dims = a->dims > b->dims ? a->dims : b->dims;
    int64_t        left[TENSOR_DIMS], right[TENSOR_DIMS], sizes[TENSOR_DIMS];
    if (2 * dims > TENSOR_DIMS)
        raise_error(L, "RuntimeError", "kron: tensors of at most %d dimensions, got %d", TENSOR_DIMS / 2, dims);
    for (int i = 0; i < dims; i++) {
        int64_t x = i >= dims - a->dims ? a->size[i - dims + a->dims] : 1;
        int64_t y = i >= dims - b->dims ? b->size[i - dims + b->dims] : 1;
        left[2 * i] = x, left[2 * i + 1] = 1;
        right[2 * i] = 1, right[2 * i + 1] = y;
        if (__builtin_mul_overflow(x, y, &sizes[i]))
            raise_error(L, "RuntimeError", "kron: sizes %lld and %lld make a dimension that is too large", (long long)x,
                        (long long)y);
    }
    script_reserve(L, me, 8 * (double)tensor_count(a) * (double)tensor_count(b));
    struct call    call    = call_open(L, me, CALL_PLAIN);
    struct tensor *each = tensor_reshape(me, a, 2 * dims, left), *whole = tensor_reshape(me, b, 2 * dims, right);
    struct tensor *product = tensor_mul(me, each, whole);
    return call_tensor(&call, tensor_reshape(me, product, dims, sizes));
}

/* ---- registration ---- */

static const struct op_row rows[] = {
    { "outer", outer, 0, "outer(a, b)", "the product of each element of a with each of b" },
    { "inner", inner, 0, "inner(a, b)", "products summed over the last dimension of both" },
    { "addmm", added_product, ADD_MM, "addmm(t, a, b, {beta = 1, alpha = 1})", "beta * t + alpha * a @ b, matrices" },
    { "addmv", added_product, ADD_MV, "addmv(t, a, b, {beta = 1, alpha = 1})", "beta * t + alpha * a @ b, b a vector" },
    { "addbmm", added_product, ADD_BMM_SUM, "addbmm(t, a, b, {beta = 1, alpha = 1})",
      "beta * t + alpha * the sum of the products of two batches" },
    { "baddbmm", added_product, ADD_BMM, "baddbmm(t, a, b, {beta = 1, alpha = 1})",
      "beta * t + alpha * the products of two batches" },
    { "addr", added_product, ADD_OUTER, "addr(t, a, b, {beta = 1, alpha = 1})", "beta * t + alpha * outer(a, b)" },
    { "dist", dist, 0, "dist(a, b, p)", "the p-norm of a - b, p = 2 unless given" },
    { "kron", kron, 0, "kron(a, b)", "each element of a times the whole of b" },
};
static const struct op_row functions[] = {
    { "einsum", einsum, 0, "rs.einsum(\"ij,jk->ik\", a, b, ...)",
      "products summed over the subscripts that the output does not name" },
    { "cdist", cdist, 0, "rs.cdist(a, b, p)", "the p-norm of the difference of each row of a and each of b" },
    { "tensordot", tensordot, 0, "rs.tensordot(a, b, dims)",
      "products summed over the last dims dimensions of a and the first of b, or over two lists" },
};

void
lua_open_contract(lua_State *L)
{
    push_ringside(L);
    add_ops(L, rows, countof(rows));
    add_ops(L, functions, countof(functions));
    lua_pop(L, 1);
    luaL_getmetatable(L, box_metatable(BOX_TENSOR));
    lua_getfield(L, -1, "methods");
    add_ops(L, rows, countof(rows));
    lua_pop(L, 2);
}
