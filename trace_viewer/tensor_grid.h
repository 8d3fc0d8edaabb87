/* A tensor's values as the shaped matrix it is: rows and columns numbered, corners first, slices of more dimensions below
 * each other. Order of use: tensor_sheet_new for what is drawn, then the drawing. */
#ifndef VIEWER_TENSOR_GRID_H
#define VIEWER_TENSOR_GRID_H
#include "analysis/tensors.h"
#include "canvas.h"

struct tensor_sheet {
    const struct seen_tensor   *tensor;
    const struct tensor_values *now, *then;   /* then: what changed since is bold; NULL: not compared */
    const struct seen_tensor   *other;        /* what differs from it is reversed, with a cross; NULL: not compared */
    const struct tensor_values *other_now;
    int64_t                     element;      /* under the cursor; -1 none */
    bool                        percent;      /* the change in place of the value */
};

/* Fills the canvas; where not all fits an ellipsis says so. */
void tensor_grid_draw(const struct tensor_sheet *sheet, struct canvas *pane, const struct capabilities *capabilities);
/* How many rows all of it would take in so many columns, at most `limit`. */
int  tensor_grid_rows(const struct tensor_sheet *sheet, int width, int limit);
/* One element in few characters, and with all its digits. */
void tensor_value_short(const struct seen_tensor *tensor, const void *element, char out[32]);
void tensor_value_exact(const struct seen_tensor *tensor, const void *element, char out[40]);
#endif
