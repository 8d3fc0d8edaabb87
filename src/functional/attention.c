/* torch.nn.functional.scaled_dot_product_attention and multi_head_attention_forward, step by step as PyTorch's, so that
 * the graph shows the same nodes. */
#include <math.h>
#include <string.h>
#include "autograd/call.h"
#include "autograd/node.h"
#include "base/str.h"
#include "functional/functional.h"
#include "functional/functions.h"
#include "sched/sched.h"

/* ---- scaled_dot_product_attention: queries, keys, values are [..., length, width] ---- */

static bool
wants_gradient(const struct tensor *x)
{
    return x->requires_grad || x->grad_fn != NULL;
}

/* Of the sizes before the last two, from the right. Heads may be fewer in key and value, which heads_divide sees to. */
static bool
batches_fit(const struct tensor *a, const struct tensor *b, bool grouped)
{
    bool fits = true;
    for (int i = grouped ? 4 : 3; fits && i <= a->dims && i <= b->dims; i++) {
        int64_t x = a->size[a->dims - i], y = b->size[b->dims - i];
        fits = x == y || x == 1 || y == 1;
    }
    return fits;
}

static bool
mask_stretches(struct task *me, const struct tensor *mask, const struct tensor *q, const struct tensor *k)
{
    const int64_t wanted[2] = { k->size[k->dims - 2], q->size[q->dims - 2] };
    bool          fits = true;
    for (int i = 0; mask != NULL && i < 2 && i < mask->dims; i++) {
        int64_t is = mask->size[mask->dims - 1 - i];
        fits = fits && (is == 1 || is == wanted[i]);
    }
    return fits || failed(me, E_RUNTIME, "scaled_dot_product_attention: expected attn_mask to stretch to [%lld, %lld] "
                          "(query's length, key's length) in its last two dimensions, got %s", (long long)wanted[1],
                          (long long)wanted[0], shape_text(mask).text);
}

static bool
sizes_attend(struct task *me, struct tensor *const qkv[3], const struct scaled_dot_product *o)
{
    const struct tensor *q = qkv[0], *k = qkv[1], *v = qkv[2];
    const char *name = "scaled_dot_product_attention";
    if (q->size[q->dims - 1] != k->size[k->dims - 1])
        return failed(me, E_RUNTIME, "%s: expected key's last dimension to be query's, %lld, got %lld (query %s, key "
                      "%s)", name, (long long)q->size[q->dims - 1], (long long)k->size[k->dims - 1], shape_text(q).text,
                      shape_text(k).text);
    if (k->size[k->dims - 2] != v->size[v->dims - 2])
        return failed(me, E_RUNTIME, "%s: expected as many values as keys, %lld, got %lld (key %s, value %s)", name,
                      (long long)k->size[k->dims - 2], (long long)v->size[v->dims - 2], shape_text(k).text,
                      shape_text(v).text);
    if (!batches_fit(q, k, o->grouped) || !batches_fit(q, v, o->grouped) || !batches_fit(k, v, o->grouped))
        return failed(me, E_RUNTIME, "%s: expected query, key and value to have equal sizes, or 1, before the last two "
                      "dimensions, got %s, %s and %s", name, shape_text(q).text, shape_text(k).text,
                      shape_text(v).text);
    return mask_stretches(me, o->mask, q, k);
}

static bool
scaled_dot_product_fits(struct task *me, struct tensor *const qkv[3], const struct scaled_dot_product *o)
{
    const struct tensor *q = qkv[0], *k = qkv[1], *v = qkv[2];
    if (q->dims < 2 || k->dims < 2 || v->dims < 2)
        return failed(me, E_RUNTIME, "Expected query, key, and value to all be  at least 2 dimensional, but got "
                      "query.dim: %d key.dim: %d and value.dim: %d instead.", q->dims, k->dims, v->dims);
    if (q->dtype != k->dtype || q->dtype != v->dtype)
        return failed(me, E_RUNTIME, "Expected query, key, and value to have the same dtype, but got query.dtype: %s "
                      "key.dtype: %s and value.dtype: %s instead.", dtype_name(q->dtype), dtype_name(k->dtype),
                      dtype_name(v->dtype));
    if (!dtype_is_float(q->dtype))
        return failed(me, E_RUNTIME, "expected scalar type Float but found %s", dtype_title(q->dtype));
    if (!sizes_attend(me, qkv, o))
        return false;
    if (!(o->dropout >= 0 && o->dropout <= 1))
        return failed(me, E_RUNTIME, "dropout probability has to be between 0 and 1, but got %g", o->dropout);
    if (o->mask != NULL && o->causal)
        return failed(me, E_RUNTIME, "_scaled_dot_product_attention: Explicit attn_mask should not be set when "
                                     "is_causal=True");
    if (o->mask != NULL && o->mask->dtype != DTYPE_BOOL && o->mask->dtype != DTYPE_F32 && o->mask->dtype != q->dtype)
        return failed(me, E_RUNTIME, "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
                      "attn_mask.dtype: %s and  query.dtype: %s instead.", dtype_name(o->mask->dtype),
                      dtype_name(q->dtype));
    return true;
}

static bool
heads_divide(struct task *me, struct tensor *const qkv[3])
{
    int64_t heads[3];
    for (int i = 0; i < 3; i++) {
        if (qkv[i]->dims < 3)
            return failed(me, E_RUNTIME, "scaled_dot_product_attention: enable_gqa wants a dimension of heads");
        heads[i] = qkv[i]->size[qkv[i]->dims - 3];
    }
    return (heads[1] > 0 && heads[2] > 0 && heads[0] % heads[1] == 0 && heads[0] % heads[2] == 0) ||
           failed(me, E_RUNTIME, "Number of heads in key and value must divide the number of heads in query");
}

/* One with a mask for every pair, or one that stretches to them. */
static bool
mask_is_plain(const struct tensor *mask, const struct tensor *q, const struct tensor *k)
{
    if (mask == NULL)
        return true;
    const int64_t *m = mask->size + mask->dims - 2;
    if (wants_gradient(mask) || mask->dims < 2 || (m[0] != q->size[2] && m[0] != 1) ||
        (m[1] != k->size[2] && m[1] != 1))
        return false;
    return mask->dims == 2 || (mask->dims == 4 && (mask->size[0] == 1 || mask->size[0] == q->size[0]) &&
                               (mask->size[1] == 1 || mask->size[1] == q->size[1]));
}

/* What PyTorch's CPU does in one kernel; all else is matmul, softmax, matmul. */
static bool
is_one_kernel(struct tensor *const qkv[3], const struct scaled_dot_product *o)
{
    const struct tensor *q = qkv[0];
    for (int i = 0; i < 3; i++) {
        const struct tensor *x = qkv[i];
        if (x->dims != 4 || x->size[0] != q->size[0] || x->size[3] != q->size[3] || x->size[2] == 0 ||
            x->stride[3] != 1 || (x->size[1] != q->size[1] && !o->grouped))
            return false;
    }
    return o->dropout == 0 && q->size[3] > 0 && mask_is_plain(o->mask, q, qkv[1]);
}

static struct tensor *
by_one_kernel(struct task *me, struct tensor *const qkv[3], const struct scaled_dot_product *o, double scale)
{
    struct tensor *mask = o->mask;
    bool           on = grad_enabled(me);
    grad_set_enabled(me, false);
    struct op_args weighing = { .in = { qkv[0], qkv[1], mask != NULL ? mask : qkv[0] }, .start = mask != NULL,
                                .alpha = scale, .flag = o->causal };
    struct tensor *shares = op_call_checked(me, OP_attention_weights, &weighing);
    grad_set_enabled(me, on);
    struct op_args mixing = { .in = { qkv[0], qkv[1], qkv[2], shares }, .alpha = scale, .flag = o->causal,
                              .list = &mask, .list_count = mask != NULL };
    return op_call_checked(me, OP_attention, &mixing);
}

/* True allows, which is to say that elsewhere -inf is added; numbers are added as they are. */
static struct tensor *
added_mask(struct task *me, struct tensor *mask, enum dtype dtype)
{
    if (mask == NULL || mask->dtype != DTYPE_BOOL)
        return mask;
    struct tensor *open = tensor_zeros(me, dtype, tensor_device(mask), mask->dims, mask->size);
    return op_on(me, OP_masked_fill, open, op_on(me, OP_logical_not, mask, NULL, 1), -INFINITY);
}

static struct tensor *
causal_mask(struct task *me, const struct tensor *q, const struct tensor *k)
{
    const int64_t  sizes[2] = { q->size[q->dims - 2], k->size[k->dims - 2] };
    struct tensor *far = tensor_empty(me, q->dtype, tensor_device(q), 2, sizes);
    struct op_args upper = { .in = { far }, .start = 1 };
    return far != NULL && tensor_fill(me, far, -INFINITY) ? op_call(me, OP_triu, &upper) : NULL;
}

/* Heads of keys or values as often as they serve one of the queries'. */
static struct tensor *
heads_repeated(struct task *me, struct tensor *x, int64_t heads)
{
    int64_t wide[TENSOR_DIMS], sizes[TENSOR_DIMS];
    int     at = x->dims - 3;
    if (x->size[at] == heads)
        return x;
    memcpy(sizes, x->size, sizeof sizes);
    memcpy(wide, x->size, (size_t)(at + 1) * sizeof *wide);
    wide[at + 1] = heads / x->size[at];
    memcpy(wide + at + 2, x->size + at + 1, 2 * sizeof *wide);
    sizes[at] = heads;
    struct tensor *apart = tensor_expand(me, tensor_unsqueeze(me, x, at + 1), x->dims + 1, wide);
    struct tensor *whole = tensor_copied(me, apart);
    return whole != NULL ? tensor_reshape(me, whole, x->dims, sizes) : NULL;
}

static struct tensor *
times_number(struct task *me, struct tensor *x, double number)
{
    static const struct recorded_as by_scalar = { "MulBackward1", 1 };
    return x != NULL ? op_call(me, OP_mul_scalar, &(struct op_args){ .in = { x }, .alpha = number, .as = &by_scalar })
                     : NULL;
}

/* Queries and keys both take the root of the scale, against overflow. */
static struct tensor *
by_products(struct task *me, struct tensor *const qkv[3], const struct scaled_dot_product *o, double scale)
{
    struct tensor *q = qkv[0], *k = qkv[1], *v = qkv[2];
    double         root = sqrt(fabs(scale));
    struct tensor *mask = o->causal ? causal_mask(me, q, k) : added_mask(me, o->mask, q->dtype);
    if (o->grouped) {
        k = heads_repeated(me, k, q->size[q->dims - 3]);
        v = k != NULL ? heads_repeated(me, v, q->size[q->dims - 3]) : NULL;
    }
    struct tensor *queries = times_number(me, q, scale < 0 ? -root : root);
    struct tensor *keys = k != NULL ? times_number(me, tensor_transpose(me, k, -2, -1), root) : NULL;
    struct tensor *scores = tensor_matmul(me, queries, keys);
    if (o->mask != NULL || o->causal)
        scores = scores != NULL && mask != NULL ? tensor_add(me, scores, mask) : NULL;
    struct op_args sharing = { .in = { scores }, .dim = scores != NULL ? scores->dims - 1 : 0 };
    struct tensor *shares = op_call_checked(me, OP_safe_softmax, &sharing);
    return tensor_matmul(me, dropout(me, shares, o->dropout, DROP_ELEMENTS, true), v);
}

struct tensor *
scaled_dot_product(struct task *me, struct tensor *const qkv[3], const struct scaled_dot_product *options)
{
    struct scaled_dot_product o = *options;
    struct tensor            *in[3] = { qkv[0], qkv[1], qkv[2] };
    if (in[0] == NULL || in[1] == NULL || in[2] == NULL || !scaled_dot_product_fits(me, in, &o) ||
        (o.grouped && !heads_divide(me, in)))
        return NULL;
    int64_t width = in[0]->size[in[0]->dims - 1];
    double  scale = o.scaled ? o.scale : 1 / sqrt((double)width);
    bool    three = in[0]->dims == 3 && in[1]->dims == 3 && in[2]->dims == 3;
    for (int i = 0; three && i < 3; i++)
        in[i] = tensor_unsqueeze(me, in[i], 0);
    if (in[0] == NULL || in[1] == NULL || in[2] == NULL)
        return NULL;
    if (three && o.mask != NULL && o.mask->dims == 3)
        o.mask = tensor_unsqueeze(me, o.mask, 0);
    if (is_one_kernel(in, &o)) {
        struct tensor *mixed = by_one_kernel(me, in, &o, scale);
        return three && mixed != NULL ? tensor_squeeze(me, mixed, 0) : mixed;
    }
    o.mask = options->mask;
    return by_products(me, qkv, &o, scale);
}

struct tensor *
fn_scaled_dot_product_attention(struct task *me, struct arguments *a)
{
    struct scaled_dot_product o = { .mask = a->at[3].tensor, .dropout = a->at[4].number,
                                    .causal = a->at[5].integer[0], .scaled = !a->at[6].none,
                                    .scale = a->at[6].number, .grouped = a->at[7].integer[0] };
    return scaled_dot_product(me, (struct tensor *[]){ a->at[0].tensor, a->at[1].tensor, a->at[2].tensor }, &o);
}

/* ---- multi-head attention: projections ---- */

struct projected { struct tensor *q, *k, *v; };

/* Parts of weight or bias, one after the other along dimension 0; without one there are none. */
static bool
parted(struct task *me, struct tensor *whole, int count, const int64_t *lengths, struct tensor **out)
{
    struct pieces pieces = { .dim = 0, .count = count, .lengths = lengths, .listed = count == 2 };
    return whole == NULL || tensor_split(me, whole, &pieces, out);
}

/* A product that holds `count` projections side by side, apart: [count, length, batch, wide] in one piece. */
static bool
projections_of(struct task *me, struct tensor *product, int count, struct tensor **out)
{
    if (product == NULL)
        return false;
    const int64_t *s = product->size, sizes[4] = { s[0], s[1], count, s[2] / count };
    struct tensor *x = tensor_unsqueeze(me, tensor_reshape(me, product, 4, sizes), 0);
    x = x != NULL ? tensor_squeeze(me, tensor_transpose(me, x, 0, -2), -2) : NULL;
    x = x == NULL || tensor_is_contiguous(x) ? x : tensor_copied(me, x);
    for (int i = 0; x != NULL && i < count; i++)
        out[i] = tensor_select(me, x, 0, i);
    return x != NULL && !task_failed(me);
}

/* One product where all three are one tensor, two where keys and values are. */
static struct projected
project_packed(struct task *me, struct tensor *q, struct tensor *k, struct tensor *v, const struct attention *o)
{
    struct tensor *weights[3] = { NULL }, *biases[3] = { NULL }, *made[3] = { NULL };
    int64_t        wide = tensor_size(q, -1);
    const int64_t  thirds[3] = { wide, wide, wide }, pair[2] = { wide, 2 * wide };
    int            parts = q == k && k == v ? 1 : k == v ? 2 : 3;
    if (parts == 1) {
        projections_of(me, linear(me, q, o->in_weight, o->in_bias), 3, made);
        return (struct projected){ made[0], made[1], made[2] };
    }
    const int64_t *lengths = parts == 2 ? pair : thirds;
    if (!parted(me, o->in_weight, parts, lengths, weights) || !parted(me, o->in_bias, parts, lengths, biases))
        return (struct projected){ NULL, NULL, NULL };
    made[0] = linear(me, q, weights[0], biases[0]);
    made[1] = linear(me, k, weights[1], biases[1]);
    if (parts == 2)
        projections_of(me, made[1], 2, made + 1);
    else
        made[2] = linear(me, v, weights[2], biases[2]);
    return (struct projected){ made[0], made[1], made[2] };
}

static struct projected
project(struct task *me, struct tensor *q, struct tensor *k, struct tensor *v, const struct attention *o)
{
    struct tensor *biases[3] = { NULL };
    int64_t        wide = tensor_size(q, -1);
    if (o->in_weight != NULL)
        return project_packed(me, q, k, v, o);
    if (!parted(me, o->in_bias, 3, (const int64_t[]){ wide, wide, wide }, biases))
        return (struct projected){ NULL, NULL, NULL };
    struct projected to = { .q = linear(me, q, o->q_weight, biases[0]) };
    to.k = linear(me, k, o->k_weight, biases[1]);
    to.v = linear(me, v, o->v_weight, biases[2]);
    return to;
}

/* ---- heads ---- */

/* [T, N, E] to [N * heads, T, E / heads]. */
static struct tensor *
heads_apart(struct task *me, struct tensor *x, int64_t heads)
{
    if (x == NULL)
        return NULL;
    int64_t sizes[3] = { x->size[0], x->size[1] * heads, x->size[2] / heads };
    return tensor_transpose(me, tensor_reshape(me, x, 3, sizes), 0, 1);
}

/* A column of the learned bias behind the keys. */
static struct tensor *
with_bias(struct task *me, struct tensor *x, struct tensor *bias)
{
    if (x == NULL || bias == NULL)
        return x;
    struct op_args often = { .in = { bias }, .dims = 3, .sizes = { 1, x->size[1], 1 } };
    struct tensor *wide = op_call(me, OP_repeat, &often);
    return tensor_cat(me, (struct tensor *[]){ x, wide }, 2, 0);
}

/* A column of zeros behind the keys of all heads. */
static struct tensor *
with_zero(struct task *me, struct tensor *x, bool zero)
{
    if (x == NULL || !zero)
        return x;
    struct tensor *column = tensor_zeros(me, x->dtype, tensor_device(x), 3, (int64_t[]){ x->size[0], 1, x->size[2] });
    return column != NULL ? tensor_cat(me, (struct tensor *[]){ x, column }, 2, 1) : NULL;
}

/* ---- masks: true forbids here ---- */

static struct tensor *
forbidding(struct task *me, struct tensor *mask, enum dtype dtype)
{
    if (mask == NULL || mask->dtype != DTYPE_BOOL)
        return mask;
    struct tensor *open = tensor_zeros(me, dtype, tensor_device(mask), mask->dims, mask->size);
    return open != NULL ? op_on(me, OP_masked_fill, open, mask, -INFINITY) : NULL;
}

/* Everybody may see the columns behind the keys. */
static struct tensor *
mask_with_more(struct task *me, struct tensor *mask, const struct attention *o)
{
    int64_t sizes[TENSOR_DIMS], more = (o->bias_k != NULL) + o->zero;
    if (mask == NULL || more == 0)
        return mask;
    memcpy(sizes, mask->size, sizeof sizes);
    sizes[mask->dims - 1] = more;
    struct tensor *open = tensor_zeros(me, mask->dtype, tensor_device(mask), mask->dims, sizes);
    return tensor_cat(me, (struct tensor *[]){ mask, open }, 2, -1);
}

/* The padding mask [N, S] as [N * heads, 1, S]. */
static struct tensor *
padding_for_heads(struct task *me, struct tensor *padding, const struct attention *o)
{
    int64_t        batch = padding->size[0], keys = padding->size[1];
    struct tensor *apart = tensor_reshape(me, padding, 4, (const int64_t[]){ batch, 1, 1, keys });
    apart = tensor_expand(me, apart, 4, (const int64_t[]){ batch, o->heads, 1, keys });
    return tensor_reshape(me, apart, 3, (const int64_t[]){ batch * o->heads, 1, keys });
}

/* Both masks as one that is added, [1 or N * heads, 1 or L, S]; *out NULL: there is none. */
static bool
merged_masks(struct task *me, const struct attention *o, enum dtype dtype, struct tensor **out)
{
    *out = forbidding(me, mask_with_more(me, o->mask, o), dtype);
    if (*out != NULL && (*out)->dims == 2)
        *out = tensor_unsqueeze(me, *out, 0);
    if (o->padding == NULL || task_failed(me))
        return !task_failed(me);
    struct tensor *padding = forbidding(me, mask_with_more(me, o->padding, o), dtype);
    padding = padding != NULL ? padding_for_heads(me, padding, o) : NULL;
    *out    = *out != NULL && padding != NULL ? tensor_add(me, *out, padding) : padding;
    return *out != NULL;
}

/* ---- the whole ---- */

/* wanted: [batch * heads, queries, keys]; one mask for all has the last two. */
static bool
mask_fits(struct task *me, const struct tensor *mask, const int64_t wanted[3])
{
    int            dims = mask->dims;
    const int64_t *should = &wanted[3 - dims];
    struct str     is = { 0 }, expected = { 0 };
    if (memcmp(mask->size, should, (size_t)dims * sizeof *should) == 0)
        return true;
    shape_print(dims, mask->size, &is);
    shape_print(dims, should, &expected);
    failed(me, E_RUNTIME, "The shape of the %dD attn_mask is torch.Size(%s), but should be %s.", dims, str_text(&is),
           str_text(&expected));
    str_free(&is);
    str_free(&expected);
    return false;
}

static bool
masks_fit(struct task *me, const struct tensor *q, const struct tensor *k, const struct attention *o)
{
    const struct tensor *padding = o->padding;
    const int64_t        wanted[3] = { q->size[1] * o->heads, q->size[0], k->size[0] };
    if (padding != NULL && padding->dims != 2)
        return failed(me, E_ASSERTION, "For batched (3-D) `query`, expected `key_padding_mask` to be `None` or 2-D but "
                      "found %d-D tensor instead", padding->dims);
    if (padding != NULL && (padding->size[0] != q->size[1] || padding->size[1] != k->size[0]))
        return failed(me, E_ASSERTION, "expecting key_padding_mask shape of (%lld, %lld), but got (%lld, %lld)",
                      (long long)q->size[1], (long long)k->size[0], (long long)padding->size[0],
                      (long long)padding->size[1]);
    if (o->mask != NULL && o->mask->dims != 2 && o->mask->dims != 3)
        return failed(me, E_ASSERTION, "For batched (3-D) `query`, expected `attn_mask` to be `None`, 2-D or 3-D but "
                      "found %d-D tensor instead", o->mask->dims);
    return o->mask == NULL || mask_fits(me, o->mask, wanted);
}

static bool
attention_fits(struct task *me, struct tensor *q, struct tensor *k, struct tensor *v, const struct attention *o)
{
    if (q == NULL || k == NULL || v == NULL)
        return false;
    if (q->dims != 3 || k->dims != 3 || v->dims != 3)
        return failed(me, E_ASSERTION, "MultiheadAttention: expected query, key and value of 3 dimensions, got %d, %d "
                      "and %d", q->dims, k->dims, v->dims);
    if (k->size[0] != v->size[0] || k->size[1] != v->size[1])
        return failed(me, E_ASSERTION, "key shape torch.Size(%s) does not match value shape torch.Size(%s): length and "
                      "batch size must be equal", shape_text(k).text, shape_text(v).text);
    if (q->size[1] != k->size[1])
        return failed(me, E_SHAPE, "MultiheadAttention: expected key and value of batch size %lld, as the query's, got "
                      "%lld", (long long)q->size[1], (long long)k->size[1]);
    if (q->size[2] % o->heads != 0)
        return failed(me, E_ASSERTION, "embed_dim must be divisible by num_heads, got %lld and %lld",
                      (long long)q->size[2], (long long)o->heads);
    return masks_fit(me, q, k, o);
}

static struct tensor *
averaged_weights(struct task *me, struct tensor *shares, const struct attention *o, int64_t batch)
{
    int64_t        sizes[4] = { batch, o->heads, tensor_size(shares, 1), tensor_size(shares, 2) };
    struct tensor *apart = tensor_reshape(me, shares, 4, sizes);
    if (o->per_head)
        return apart;
    return tensor_fold(me, OP_mean_dims, apart, &(struct fold_options){ .dims = 1, .dim = { 1 } });
}

/* With the shares as a second answer; [L * N, E]. */
static struct tensor *
attend_and_tell(struct task *me, const struct projected *heads, struct tensor *mask, const struct attention *o,
                struct tensor **shares)
{
    struct tensor *keys = heads->k != NULL ? tensor_transpose(me, heads->k, -2, -1) : NULL;
    if (heads->q == NULL || keys == NULL || heads->v == NULL)
        return NULL;
    int64_t        length = heads->q->size[1], width = heads->q->size[2], rows = heads->q->size[0] * length / o->heads;
    struct tensor *queries = tensor_mul_number(me, heads->q, sqrt(1 / (double)width));
    struct op_args adding = { .in = { mask, queries, keys }, .alpha = 1, .beta = 1 };
    struct tensor *scores = mask != NULL ? op_call_checked(me, OP_baddbmm, &adding)
                                         : op_on(me, OP_bmm, queries, keys, 1);
    *shares = dropout(me, softmax(me, scores, -1), o->dropout, DROP_ELEMENTS, o->training);
    struct tensor *mixed = tensor_transpose(me, op_on(me, OP_bmm, *shares, heads->v, 1), 0, 1);
    return tensor_reshape(me, mixed, 2, (const int64_t[]){ rows, width * o->heads });
}

static struct tensor *
by_heads(struct task *me, struct tensor *x, int64_t batch, int64_t heads)
{
    if (x == NULL)
        return NULL;
    return tensor_view_as(me, x, 4, (const int64_t[]){ batch, heads, x->size[1], x->size[2] }, VIEW_PLAIN);
}

/* Without: in one kernel, if nothing is dropped. */
static struct tensor *
attend_only(struct task *me, const struct projected *heads, struct tensor *mask, const struct attention *o)
{
    if (heads->q == NULL)
        return NULL;
    int64_t batch = heads->q->size[0] / o->heads, length = heads->q->size[1], wide = heads->q->size[2] * o->heads;
    struct scaled_dot_product how = { .dropout = o->training ? o->dropout : 0 };
    if (mask != NULL)
        how.mask = mask->size[0] == 1 ? tensor_unsqueeze(me, mask, 0) : by_heads(me, mask, batch, o->heads);
    struct tensor *in[3] = { by_heads(me, heads->q, batch, o->heads) };
    in[1] = by_heads(me, heads->k, batch, o->heads);
    in[2] = by_heads(me, heads->v, batch, o->heads);
    struct tensor *mixed = task_failed(me) ? NULL : scaled_dot_product(me, in, &how);
    mixed = mixed != NULL ? tensor_permute(me, mixed, 4, (const int64_t[]){ 2, 0, 1, 3 }) : NULL;
    return tensor_reshape(me, mixed, 2, (const int64_t[]){ batch * length, wide });
}

struct tensor *
attend(struct task *me, struct tensor *const qkv[3], const struct attention *o, struct tensor **weights)
{
    struct tensor *q = qkv[0], *k = qkv[1], *v = qkv[2], *mask = NULL, *shares = NULL;
    if (!attention_fits(me, q, k, v, o) || !merged_masks(me, o, q->dtype, &mask))
        return NULL;
    const int64_t    sizes[3] = { q->size[0], q->size[1], q->size[2] };
    struct projected p = project(me, q, k, v, o);
    struct projected heads = { .q = heads_apart(me, p.q, o->heads) };
    heads.k = with_zero(me, heads_apart(me, with_bias(me, p.k, o->bias_k), o->heads), o->zero);
    heads.v = with_zero(me, heads_apart(me, with_bias(me, p.v, o->bias_v), o->heads), o->zero);
    struct tensor *rows = o->want_weights ? attend_and_tell(me, &heads, mask, o, &shares)
                                          : attend_only(me, &heads, mask, o);
    struct tensor *output = tensor_reshape(me, linear(me, rows, o->out_weight, o->out_bias), 3, sizes);
    if (o->want_weights && shares != NULL)
        *weights = averaged_weights(me, shares, o, sizes[1]);
    return output;
}
