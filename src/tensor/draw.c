/* Random tensors made from other tensors: coins with a probability each, numbers by their weights. Drawn on the host,
 * row by row. In PyTorch: ATen/native/Distributions.cpp, cpu/MultinomialKernel.cpp. */
#include <math.h>
#include "base/rng.h"
#include "device/cells.h"
#include "sched/account.h"
#include "tensor/internal.h"

/* The elements as float64, in me's scope; NULL: failed. */
static double *
elements_of(struct task *me, struct tensor *tensor, const char *what)
{
    if (tensor == NULL || task_failed(me))
        return NULL;
    if (!dtype_is_float(tensor->dtype))
        return failed_null(me, E_NOT_IMPLEMENTED, "%s: expected probabilities that are fractions, got a tensor of %s",
                           what, dtype_name(tensor->dtype));
    int64_t count = tensor_count(tensor);
    double *out = task_work(me, (uint64_t)count) ? scratch_new(me, (size_t)count + 1, sizeof *out) : NULL;
    if (out == NULL || !tensor_read(me, tensor, out))
        return NULL;
    for (int64_t i = count; tensor->dtype != DTYPE_F64 && i-- > 0;) /* from the end: each is wider than it was */
        out[i] = dtype_fraction(tensor->dtype, (const char *)out + i * (int64_t)dtype_size(tensor->dtype));
    return out;
}

struct tensor *
tensor_bernoulli_of(struct task *me, struct tensor *probabilities, struct generator *generator)
{
    double *p = elements_of(me, probabilities, "bernoulli");
    if (p == NULL || generator == NULL)
        return NULL;
    bool    single = probabilities->dtype != DTYPE_F64;
    int64_t count = tensor_count(probabilities);
    for (int64_t i = 0; i < count; i++) {
        if (!(p[i] >= 0 && p[i] <= 1))
            return failed_null(me, E_RUNTIME, "Expected p_in >= 0 && p_in <= 1 to be true, but got false.");
        p[i] = (single ? (double)generator_f32(generator) : generator_f64(generator)) < p[i];
    }
    struct tensor *drawn = tensor_from(me, DTYPE_F64, probabilities->dims, probabilities->size, p);
    return drawn != NULL ? tensor_to(me, drawn, tensor_device(probabilities), probabilities->dtype) : NULL;
}

/* Rows of weights, of float32 if `single`, and the numbers that are drawn by each. */
struct weights { double *at; int64_t rows, wide; bool single; };
struct drawing { struct generator *generator; int64_t *out, count; bool replacement; };

static bool
weights_fit(struct task *me, const struct weights *weights)
{
    for (int64_t r = 0; r < weights->rows; r++) {
        double sum = 0;
        for (int64_t i = 0; i < weights->wide; i++) {
            double w = weights->at[r * weights->wide + i];
            if (!(w >= 0 && w < INFINITY))
                return failed(me, E_RUNTIME, "probability tensor contains either `inf`, `nan` or element < 0");
            sum += w;
        }
        if (!(sum > 0))
            return failed(me, E_RUNTIME, "invalid multinomial distribution (sum of probabilities <= 0)");
    }
    return true;
}

/* Running sums in the weights' type, divided by the total; the first that reaches the draw. */
static void
with_replacement(const struct weights *weights, int64_t row, const struct drawing *drawing)
{
    int64_t wide = weights->wide, *out = drawing->out + row * drawing->count;
    double *sums = weights->at + row * wide;
    bool    single = weights->single;
    for (int64_t i = 1; i < wide; i++)
        sums[i] = single ? (double)((float)sums[i - 1] + (float)sums[i]) : sums[i - 1] + sums[i];
    double total = sums[wide - 1];
    for (int64_t i = 0; i < wide; i++)
        sums[i] = single ? (double)((float)sums[i] / (float)total) : sums[i] / total;
    sums[wide - 1] = 1;
    for (int64_t s = 0; s < drawing->count; s++) {
        double  u = generator_f64(drawing->generator);
        int64_t low = 0, high = wide - 1;
        while (low < high) {
            int64_t middle = low + (high - low) / 2;
            if (sums[middle] < u)
                low = middle + 1;
            else
                high = middle;
        }
        out[s] = low;
    }
}

/* The largest shares first; of equals the first. */
static void
largest_shares(double *shares, int64_t wide, int64_t *out, int64_t count)
{
    for (int64_t s = 0; s < count; s++) {
        int64_t best = 0;
        for (int64_t i = 1; i < wide; i++)
            best = shares[i] > shares[best] ? i : best;
        out[s]       = best;
        shares[best] = -1;
    }
}

static void
draw_by_weight(const struct weights *weights, const struct drawing *drawing)
{
    double *w = weights->at;
    int64_t wide = weights->wide, count = drawing->count;
    bool    again = drawing->replacement && count > 1; /* 1.13 drew a single number as it drew many */
    for (int64_t i = 0; !again && i < weights->rows * wide; i++) {
        double q = draw_exponential(drawing->generator, 1);
        w[i] = weights->single ? (double)((float)w[i] / (float)q) : w[i] / q;
    }
    for (int64_t r = 0; r < weights->rows; r++) {
        if (again)
            with_replacement(weights, r, drawing);
        else
            largest_shares(w + r * wide, wide, drawing->out + r * count, count);
    }
}

/* In steps of work: each draw is a search through a row, by halves or, where nothing comes twice, from end to end. */
static uint64_t
draws_cost(int64_t rows, int64_t wide, int64_t count, bool replacement)
{
    enum { SEARCH_STEPS = 8, SHARES_A_STEP = 8 };
    double steps = (double)rows * (double)wide;
    steps += (double)rows * (double)count * (replacement ? SEARCH_STEPS : (double)wide / SHARES_A_STEP);
    return steps < 0x1p62 ? (uint64_t)steps : (uint64_t)1 << 62;
}

struct tensor *
tensor_multinomial(struct task *me, struct tensor *weights, int64_t count, bool replacement,
                   struct generator *generator)
{
    double *w = elements_of(me, weights, "multinomial");
    if (w == NULL || generator == NULL)
        return NULL;
    if (weights->dims < 1 || weights->dims > 2)
        return failed_null(me, E_RUNTIME, "prob_dist must be 1 or 2 dim, got %d", weights->dims);
    int64_t wide = tensor_size(weights, -1), rows = weights->dims == 2 ? weights->size[0] : 1;
    if (count < 1 || count > INT32_MAX || wide < 1)
        return failed_null(me, E_RUNTIME, "cannot sample n_sample <= 0 samples");
    if (!replacement && count > wide)
        return failed_null(me, E_RUNTIME, "cannot sample n_sample > prob_dist.size(-1) samples without replacement: "
                           "got %lld of %lld", (long long)count, (long long)wide);
    if (!task_work(me, draws_cost(rows, wide, count, replacement)))
        return NULL;
    int64_t *out = scratch_new(me, (size_t)rows * (size_t)count + 1, sizeof *out);
    if (out == NULL)
        return NULL;
    struct weights given = { w, rows, wide, weights->dtype != DTYPE_F64 };
    if (!weights_fit(me, &given))
        return NULL;
    draw_by_weight(&given, &(struct drawing){ generator, out, count, replacement });
    int64_t        sizes[2] = { rows, count };
    bool           one = weights->dims == 1;
    struct tensor *drawn = tensor_from(me, DTYPE_I64, one ? 1 : 2, one ? &count : sizes, out);
    return drawn != NULL ? tensor_to(me, drawn, tensor_device(weights), DTYPE_I64) : NULL;
}
