/* Views as matrices of a batch: what mm.cu and the products of cuBLAS (products.c) both make of an op's operands. */
#ifndef CUDA_KERNELS_MATRIX_H
#define CUDA_KERNELS_MATRIX_H
#include "base/both.h"
#include "tensor/cpu/kernels.h"

enum matrix_form {
    FORM_MATRIX,
    FORM_BATCH,      /* the first dimension counts matrices */
    FORM_ROW,        /* a vector; what has two dimensions is a matrix all the same */
    FORM_COLUMN
};
/* `steps`: elements between rows, columns; `next`: between matrices of the batch. */
struct matrix { void *data; int64_t count, rows, columns, row_step, column_step, next; };

BOTH struct matrix
matrix_of(const struct cpu_view *view, enum matrix_form form)
{
    struct matrix m = { view->data, 1, 1, 1, 1, 1, 0 };
    const int     first = form == FORM_BATCH ? 1 : 0;
    if (form == FORM_BATCH)
        m.count = view->size[0], m.next = view->stride[0];
    if (view->dims == first + 2) {
        m.rows        = view->size[first];
        m.columns     = view->size[first + 1];
        m.row_step    = view->stride[first];
        m.column_step = view->stride[first + 1];
    } else if (view->dims == 1 && form == FORM_ROW) {
        m.columns     = view->size[0];
        m.column_step = view->stride[0];
    } else if (view->dims == 1) {
        m.rows     = view->size[0];
        m.row_step = view->stride[0];
    }
    return m;
}

/* Which operands are multiplied, in which form. false: `kernel` is no product. */
struct product_form { int left, right; enum matrix_form left_form, right_form; };

BOTH bool
product_form_of(enum kernel kernel, struct product_form *form)
{
    const enum matrix_form left = kernel == KERNEL_product_bmm ? FORM_BATCH
                                : kernel == KERNEL_product_vector ? FORM_ROW : FORM_MATRIX;
    form->left       = kernel == KERNEL_cpu_addmm ? 1 : 0;
    form->right      = form->left + 1;
    form->left_form  = left;
    form->right_form = left == FORM_ROW ? FORM_COLUMN : left;
    return kernel == KERNEL_cpu_mm || kernel == KERNEL_cpu_mm_add || kernel == KERNEL_cpu_addmm ||
           kernel == KERNEL_product_bmm || kernel == KERNEL_product_vector;
}
#endif
