/* Matrix products with the bits of the CPU's exact one (tensor/cpu/mm.c, products.c): each element is the sum over k in
 * order, by tiles. Operands of any strides. What cuBLAS does when a run is not exact: products.c.
 *
 * Kernels: cpu_mm, cpu_mm_add (sums begin at what is there), cpu_addmm (the bias is added last), product_bmm,
 * product_vector. In PyTorch: ATen/native/cuda/Blas.cpp. */
#include "plugins/cuda/kernels/matrix.h"
#include "plugins/cuda/kernels/tile.h"

struct mm_job {
    enum dtype    dtype;
    struct matrix left, right, out;
    struct matrix bias;       /* data NULL: none */
    bool          add;
};

template <typename T> struct mm_product {
    typedef T element;
    enum { SEGMENTED = false };
    int64_t  batch, rows, columns, depth;
    int64_t  a_row, a_column, b_row, b_column, c_row, c_column, bias_row, bias_column, a_next, b_next, c_next;
    const T *a, *b, *bias;
    T       *c;
    bool     add, left_by_k, right_by_k;
    enum { segments = 1 };

    MEMBER explicit mm_product(const struct mm_job *job)
        : batch(job->out.count), rows(job->out.rows), columns(job->out.columns), depth(job->left.columns),
          a_row(job->left.row_step), a_column(job->left.column_step), b_row(job->right.row_step),
          b_column(job->right.column_step), c_row(job->out.row_step), c_column(job->out.column_step),
          bias_row(job->bias.row_step), bias_column(job->bias.column_step), a_next(job->left.next),
          b_next(job->right.next), c_next(job->out.next), a(static_cast<const T *>(job->left.data)),
          b(static_cast<const T *>(job->right.data)), bias(static_cast<const T *>(job->bias.data)),
          c(static_cast<T *>(job->out.data)), add(job->add), left_by_k(a_column <= a_row), right_by_k(b_row < b_column)
    {
    }
    MEMBER void enter(int64_t at) { a += at * a_next, b += at * b_next, c += at * c_next; }
    MEMBER T left(int64_t, int64_t i, int64_t k) const { return a[i * a_row + k * a_column]; }
    MEMBER T right(int64_t, int64_t k, int64_t j) const { return b[k * b_row + j * b_column]; }
    MEMBER T first(int64_t i, int64_t j) const { return add ? c[i * c_row + j * c_column] : 0; }
    MEMBER bool counts(int64_t, int64_t, int64_t) const { return true; }
    MEMBER void store(int64_t i, int64_t j, T sum) const
    {
        c[i * c_row + j * c_column] = bias != NULL ? sum + bias[i * bias_row + j * bias_column] : sum;
    }
};

APART void
multiply(const struct mm_job *job)
{
    if (job->dtype == DTYPE_F32)
        work_out(mm_product<float>(job));
    else if (job->dtype == DTYPE_F64)
        work_out_narrow(mm_product<double>(job));
    else
        work_out_plainly(mm_product<uint64_t>(job));
}

ON_DEVICE struct mm_job
job_of(const struct cpu_call *call, enum kernel kernel)
{
    struct mm_job       job;
    struct product_form form;
    product_form_of(kernel, &form);
    job.dtype     = call->compute;
    job.left      = matrix_of(&call->in[form.left], form.left_form);
    job.right     = matrix_of(&call->in[form.right], form.right_form);
    job.out       = matrix_of(&call->out, form.right_form);
    job.add       = kernel == KERNEL_cpu_mm_add;
    job.bias      = job.out;
    job.bias.data = NULL;
    return job;
}

TILES_OF(cpu_mm, struct cpu_call)
{
    const struct mm_job job = job_of(&call, KERNEL_cpu_mm);
    multiply(&job);
}

TILES_OF(cpu_mm_add, struct cpu_call)
{
    const struct mm_job job = job_of(&call, KERNEL_cpu_mm_add);
    multiply(&job);
}

/* The bias stretches over what it has no or one element for. */
TILES_OF(cpu_addmm, struct cpu_call)
{
    struct mm_job job = job_of(&call, KERNEL_cpu_addmm);
    job.bias = matrix_of(&call.in[0], FORM_ROW);
    if (job.bias.rows == 1)
        job.bias.row_step = 0;
    if (job.bias.columns == 1)
        job.bias.column_step = 0;
    multiply(&job);
}

TILES_OF(product_bmm, struct cpu_call)
{
    const struct mm_job job = job_of(&call, KERNEL_product_bmm);
    multiply(&job);
}

TILES_OF(product_vector, struct cpu_call)
{
    const struct mm_job job = job_of(&call, KERNEL_product_vector);
    multiply(&job);
}
