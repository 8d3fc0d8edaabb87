/* The loop over several views, and sums in a fixed order.
 *
 * In PyTorch: ATen/TensorIterator.cpp (coalesce_dimensions), ATen/native/cpu/SumKernel.cpp (cascade_sum). */
#include "tensor/cpu/loop.h"
#include <string.h>
#include "base/dtype.h"
#include "tensor/cpu/convert.h"
#include "tensor/cpu/wide.h"

/* Does dimension `d` of the views go on where the outermost one so far ends? */
static bool
joins(const struct loop *loop, const struct cpu_view *const *views, int d)
{
    int last = loop->dims - 1;
    for (int v = 0; v < loop->views; v++) {
        int64_t stride = views[v]->stride[d] * (int64_t)dtype_size(views[v]->dtype);
        if (stride != loop->stride[v][last] * loop->size[last])
            return false;
    }
    return true;
}

static void
put_outside(struct loop *loop, const struct cpu_view *const *views, int d)
{
    loop->size[loop->dims]  = views[0]->size[d];
    loop->index[loop->dims] = 0;
    for (int v = 0; v < loop->views; v++)
        loop->stride[v][loop->dims] = views[v]->stride[d] * (int64_t)dtype_size(views[v]->dtype);
    loop->dims++;
}

/* From the right: what lies in one piece is joined, dimensions of size 1 say nothing. */
void
loop_begin(struct loop *loop, const struct cpu_view *const *views, int count)
{
    loop->views = count;
    loop->dims  = 0;
    loop->more  = true;
    for (int d = views[0]->dims; d-- > 0;) {
        int64_t size = views[0]->size[d];
        loop->more   = loop->more && size > 0;
        if (size == 1)
            continue;
        if (loop->dims > 0 && joins(loop, views, d))
            loop->size[loop->dims - 1] *= size;
        else
            put_outside(loop, views, d);
    }
    loop->run = loop->dims > 0 ? loop->size[0] : 1;
    for (int v = 0; v < count; v++) {
        loop->at[v]    = views[v]->data;
        loop->step[v]  = loop->dims > 0 ? loop->stride[v][0] : 0;
        loop->dtype[v] = views[v]->dtype;
    }
}

void
loop_next(struct loop *loop)
{
    for (int d = 1; d < loop->dims; d++) {
        bool again = ++loop->index[d] < loop->size[d];
        for (int v = 0; v < loop->views; v++)
            loop->at[v] += again ? loop->stride[v][d] : -loop->stride[v][d] * (loop->size[d] - 1);
        if (again)
            return;
        loop->index[d] = 0;
    }
    loop->more = false;
}

void
run_convert(void *buffer, enum dtype dtype, const struct run *run)
{
    cpu_convert(buffer, every(dtype, 1), run->at, every(run->dtype, run->step / (int64_t)dtype_size(run->dtype)),
                run->count);
}

void
run_store(const struct run *run, const void *from, enum dtype dtype)
{
    cpu_convert(run->at, every(run->dtype, run->step / (int64_t)dtype_size(run->dtype)), from, every(dtype, 1),
                run->count);
}

const void *
run_load(void *buffer, enum dtype dtype, const struct run *run)
{
    if (run->dtype == dtype && (run->step == (int64_t)dtype_size(dtype) || run->count == 1))
        return run->at;
    run_convert(buffer, dtype, run);
    return buffer;
}

void
sum_add(struct running_sum *sum, double chunk, bool single)
{
    int level = 0;
    for (uint64_t bits = sum->chunks; bits & 1; bits >>= 1, level++)
        chunk = single ? (double)((float)sum->level[level] + (float)chunk) : sum->level[level] + chunk;
    sum->level[level] = chunk;
    sum->chunks++;
}

double
sum_total(const struct running_sum *sum, bool single)
{
    double total = 0;
    int    level = 0;
    for (uint64_t bits = sum->chunks; bits != 0; bits >>= 1, level++) {
        if (bits & 1)
            total = single ? (double)((float)sum->level[level] + (float)total) : sum->level[level] + total;
    }
    return total;
}

WIDE static void
run_f32(float *restrict to, const float *restrict from, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] += from[i];
}

WIDE static void
run_f64(double *restrict to, const double *restrict from, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] += from[i];
}

enum { NARROW = 16 };

/* The sums of a few columns stay where they are worked out. */
WIDE static void
narrow_rows_f32(float *restrict to, const float *restrict from, int64_t step, int64_t rows, int64_t count)
{
    float sum[NARROW] = { 0 }, row[NARROW] = { 0 };
    for (int64_t i = 0; i < count; i++) {
        sum[i] = to[i];
        row[i] = from[i];
    }
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; step != 0 && i < count; i++)
            row[i] = from[r * step + i];
        for (int i = 0; i < NARROW; i++)
            sum[i] += row[i];
    }
    memcpy(to, sum, (size_t)count * sizeof *to);
}

/* Four at a time: the sums are read and written less often. */
WIDE static void
rows_f32(float *restrict to, const float *restrict from, int64_t step, int64_t rows, int64_t count)
{
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4, from += 4 * step) {
        const float *b = from + step, *c = b + step, *d = c + step;
        for (int64_t i = 0; i < count; i++)
            to[i] = to[i] + from[i] + b[i] + c[i] + d[i];
    }
    for (; r < rows; r++, from += step)
        for (int64_t i = 0; i < count; i++)
            to[i] += from[i];
}

void
add_run_f32(float *restrict to, const float *restrict from, int64_t count)
{
    run_f32(to, from, count);
}

void
add_run_f64(double *restrict to, const double *restrict from, int64_t count)
{
    run_f64(to, from, count);
}

void
add_rows_f32(float *restrict to, const float *restrict from, int64_t step, int64_t rows, int64_t count)
{
    (count <= NARROW && step == 0 ? narrow_rows_f32 : rows_f32)(to, from, step, rows, count);
}

/* Small rows by many at a time. */
void
repeat_row(void *first, size_t bytes, int64_t rows)
{
    enum { AT_ONCE = 1024 };
    size_t done = bytes, whole = bytes * (size_t)(rows > 0 ? rows : 0);
    while (done < whole && bytes > 0) {
        size_t piece = bytes > AT_ONCE ? bytes : done > AT_ONCE ? AT_ONCE / bytes * bytes : done;
        piece = whole - done < piece ? whole - done : piece;
        memcpy((char *)first + done, first, piece);
        done += piece;
    }
}

/* Lane j adds x[j], x[j + 16] and so on; then the lanes are added by halves. */
float
lanes_f32(const float *x, int64_t count)
{
    float   lane[16] = { 0 };
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) {
        for (int j = 0; j < 16; j++)
            lane[j] += x[i + j];
    }
    for (int j = 0; i < count; i++, j++)
        lane[j] += x[i];
    for (int half = 8; half > 0; half /= 2) {
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    }
    return lane[0];
}

double
lanes_f64(const double *x, int64_t count)
{
    double  lane[16] = { 0 };
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) {
        for (int j = 0; j < 16; j++)
            lane[j] += x[i + j];
    }
    for (int j = 0; i < count; i++, j++)
        lane[j] += x[i];
    for (int half = 8; half > 0; half /= 2) {
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    }
    return lane[0];
}
