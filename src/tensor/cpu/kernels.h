/* The CPU's kernels, file by file, and how much workspace those want that have one. */
#ifndef TENSOR_CPU_KERNELS_H
#define TENSOR_CPU_KERNELS_H
#include <stddef.h>
#include "tensor/cpu/kernel.h"

/* ---- elementwise.c, functions.c, activation.c ---- */
#define MAP(name, ...) cpu_kernel cpu_##name;
#define SCALE(name, ...) cpu_kernel cpu_##name;
#define COMPARE(name, ...) cpu_kernel cpu_##name;
#include "tensor/cpu/elementwise.def"
#undef MAP
#undef SCALE
#undef COMPARE
#define FUN(name, ...) cpu_kernel map_##name;
#define QUOTIENT(name, ...) cpu_kernel map_##name;
#include "tensor/cpu/functions.def"
#undef FUN
#undef QUOTIENT
#define ACTIVATION(name, ...) cpu_kernel activate_##name;
#include "tensor/cpu/activation.def"
#undef ACTIVATION
cpu_kernel map_add, map_sub, cpu_gelu, cpu_gelu_backward;

/* ---- copy.c: elements from in to out, which have the same sizes; both may be one view ---- */
cpu_kernel cpu_copy;

/* ---- reduce.c, fold.c, sort.c, pick.c ---- */
cpu_kernel cpu_sum, cpu_sum_dim, cpu_sum_to, cpu_mean, cpu_max, cpu_min;
cpu_kernel fold_prod, fold_amax, fold_amin, fold_argmax, fold_argmin, fold_truth, fold_var, fold_std, fold_mean,
           fold_cumsum, fold_cumprod;
cpu_kernel sort_argsort;
cpu_kernel pick_gather, pick_scatter, pick_scatter_add, pick_index, pick_index_put, pick_index_add, pick_flip,
           pick_tril, pick_triu;
size_t     cpu_sort_workspace(int64_t length);

/* ---- mm.c, products.c ---- */
cpu_kernel cpu_mm, cpu_mm_add, cpu_addmm, product_bmm, product_vector;
size_t     cpu_mm_workspace(enum dtype dtype, int64_t k);

/* ---- conv.c, pool.c, norm.c, recurrent.c (see lstm.h for lstm.c); see conv.h for the workspace of convolutions ---- */
cpu_kernel cpu_conv2d, cpu_conv_transpose2d, cpu_conv2d_weight;
cpu_kernel cpu_max_pool2d_indices, cpu_max_pool2d, cpu_max_pool2d_backward, cpu_avg_pool2d, cpu_avg_pool2d_backward;
cpu_kernel cpu_batch_norm_stats, cpu_batch_norm_gather_stats, cpu_batch_norm, cpu_batch_norm_sums, cpu_batch_norm_terms,
           cpu_batch_norm_backward;
cpu_kernel cpu_layer_norm, cpu_layer_norm_backward, cpu_layer_norm_sums;
cpu_kernel cpu_group_norm, cpu_group_norm_backward, cpu_group_norm_sums;
cpu_kernel cpu_lstm_cell, cpu_lstm_cell_backward, cpu_gru_cell, cpu_gru_cell_backward;
size_t     pool_workspace(int64_t windows, int64_t taps);

/* ---- embedding.c, renorm.c, softmax.c, loss.c, nll.c, bce.c ---- */
cpu_kernel cpu_embedding, cpu_embedding_backward, cpu_embedding_renorm, cpu_add_rows;
cpu_kernel cpu_softmax, cpu_softmax_backward, cpu_log_softmax, cpu_log_softmax_backward;
#define LOSS(name, ...) cpu_kernel loss_##name;
#define LOSS_BACKWARD LOSS
#include "tensor/cpu/loss.def"
#undef LOSS_BACKWARD
#undef LOSS
cpu_kernel cpu_bce, cpu_nll_loss, cpu_nll_loss_backward, cpu_bce_with_logits, cpu_bce_with_logits_backward;
#endif
