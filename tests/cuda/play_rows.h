/* What the cases of kernels of rows and of picking share: operands, and the files' parts of one list. */
#ifndef TESTS_CUDA_PLAY_ROWS_H
#define TESTS_CUDA_PLAY_ROWS_H
#include "play_kernels.h"

/* WORKSPACE: as much as any CPU's function here packs. */
enum { REAL_TYPES = 2, ROW_LAYOUTS = 4, WORKSPACE = 1 << 17 };
extern const enum dtype  real_types[REAL_TYPES];       /* what kernels of layers calculate in */
extern const enum layout row_layouts[ROW_LAYOUTS];     /* all that a result of its own may be worked out from */

/* Numbers from -3 to 3, so that a wrong order of a sum shows; `odd`: NaN, infinities and so on among them. */
struct cpu_view numbers(struct play *p, bool odd, enum dtype dtype, enum layout layout, struct sizes sizes);
struct cpu_view result(struct play *p, enum dtype dtype, struct sizes sizes);   /* in one piece */
/* Indices from `low` on, below `high`. */
struct cpu_view places(struct play *p, enum layout layout, struct sizes sizes, int64_t low, int64_t high);
/* A call with workspace and a fault to raise; the operands of the one before are given back. */
struct cpu_call rows_call(struct play *p, int inputs, enum dtype dtype);

void batch_shapes(struct play *p);
void batch_odd(struct play *p);
void lines_layer(struct play *p);
void lines_layer_sums(struct play *p);
void lines_group(struct play *p);
void lines_group_sums(struct play *p);
void lines_odd(struct play *p);
void pool_windows(struct play *p);
void pool_places(struct play *p);
void pool_spread(struct play *p);
#endif
