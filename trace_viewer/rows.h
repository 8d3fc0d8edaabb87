/* Which row of the timeline shows what: lanes of a rank together, the selected one unfolded first, then its rank, then
 * all as far as there are rows; many ranks one row each, ranks that are alike one for several. Order of use: rows_deal,
 * look at them, rows_free. */
#ifndef VIEWER_ROWS_H
#define VIEWER_ROWS_H
#include <stdbool.h>
#include "axis.h"
#include "view.h"

/* ROW_LANE: a lane's levels. ROW_RANK: all lanes of a rank. ROW_ALIKE: of several ranks. ROW_REST: of those without a
 * row of their own. ROW_CURVE: a curve. */
enum row_kind { ROW_LANE, ROW_RANK, ROW_ALIKE, ROW_REST, ROW_CURVE, ROW_CONTRAST };

struct row {
    enum row_kind kind;
    int           lane;        /* ROW_LANE; of others the first of theirs; -1 none. ROW_CURVE: which */
    int           first, last; /* of ROW_CONTRAST the lanes of the two runs; levels of ROW_LANE; the last row's last is LEVELS: to the innermost */
    int           more;        /* levels that could be unfolded, and are in this row */
    int           unit;        /* its place among the units */
    bool          heads;       /* the first row of its rank on the screen: it bears the rank's name */
};

/* What moves as one: a lane, a rank in one row, ranks in one row. Its lanes are rows.lane[from] and on. */
struct unit { enum row_kind kind; int from, count; uint64_t apart; };

struct rows {
    struct row  *row;
    int          count;
    int         *lane;         /* every lane that may be seen, in the order of rows */
    int          lanes;
    struct unit *unit;
    int          units, top, shown;  /* the first on the screen below a pinned one, and how many */
    int          pinned;             /* the unit at the top, -1 none */
};

/* Levels of which nothing is seen in the window have no row. false: no memory. */
bool rows_deal(const struct model *model, const struct view *view, const struct axis *axis, int room,
               struct rows *rows);
void rows_free(struct rows *rows);
int  rows_wanted(const struct model *model, const struct view *view, const struct axis *axis);
/* The lane so many units below (or above) the selected one. */
int  rows_lane_beside(const struct model *model, const struct view *view, int room, int by);
bool rows_hold_curves(const struct view *view);
#endif
