/* How busy lanes are, without their rows: for the minimap, and for lanes that share one. It costs what the columns
 * cost, however long the trace. Waits are idle. */
#ifndef VIEWER_BUSY_H
#define VIEWER_BUSY_H
#include <stddef.h>
#include "model.h"
#include "scale.h"
#include "veil.h"

/* What lanes do in a column: how long they work, at what first, whether anything at all touches it. */
struct share { uint64_t busy; uint8_t work; bool touched; };

/* Adds a lane's outermost spans and its marks. In large traces blocks of 64 spans are split in proportion. */
void busy_lane(const struct model *model, const struct veil *veil, size_t lane, const struct scale *scale,
               struct share *columns);
void busy_columns(const struct model *model, const struct veil *veil, const struct scale *scale,
                  struct share *columns);  /* all lanes */
#endif
