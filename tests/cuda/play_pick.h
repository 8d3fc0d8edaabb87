/* What the files with cases of picking by index share, beside play_rows.h. */
#ifndef TESTS_CUDA_PLAY_PICK_H
#define TESTS_CUDA_PLAY_PICK_H
#include "play_rows.h"

extern const enum dtype all_types[DTYPE_COUNT];

void gather_along(struct play *p);
void gather_lacking(struct play *p);
void scatter_along(struct play *p);
void scatter_long(struct play *p);
void along_bad(struct play *p);
void rows_along(struct play *p);
void rows_of_other_types(struct play *p);
void rows_bad(struct play *p);
void others_flip(struct play *p);
void others_triangle(struct play *p);
void order_along_each(struct play *p);
void order_lengths(struct play *p);
void order_long(struct play *p);
void order_lacks(struct play *p);
void alone(struct play *p);
#endif
