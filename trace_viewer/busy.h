/* How busy lanes are, without their rows: for the minimap, and for who leaves out what is idle. Waits are idle. Costs
 * what the columns cost, however long the trace. */
#ifndef VIEWER_BUSY_H
#define VIEWER_BUSY_H
#include "model.h"
#include "scale.h"
#include "veil.h"

/* ps of work of these lanes' outermost spans in each column (a bool for each lane; NULL: all). In large traces blocks
 * of 64 spans are split in proportion. */
void     busy_columns(const struct model *model, const struct veil *veil, const bool *lanes, const struct scale *scale,
                      uint64_t *columns);
/* Which columns are touched by work of the lanes that `lanes` says (a bool for each; NULL: all). A pause of more than
 * eight columns between works is seen; shorter ones may be taken for work. */
void     busy_touched(const struct model *model, const struct veil *veil, const bool *lanes, const struct scale *scale,
                      bool *columns);
/* When work of one of these lanes goes on at or begins behind `time`, in ps; STILL_OPEN: never again. */
uint64_t busy_next(const struct model *model, const struct veil *veil, const bool *lanes, uint64_t time);
#endif
