/* What a person made of the timeline: which lanes are folded, pinned or left out, how ranks are set side by side, which
 * flows and curves are drawn. Part of the view. Order of use: zero-initialised; the commands of look_timeline.c;
 * arrange_settle before a frame; arrange_free. */
#ifndef VIEWER_ARRANGE_H
#define VIEWER_ARRANGE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "align.h"
#include "curves.h"
#include "filter.h"

struct match_names; struct model; struct str; struct view;

enum flows_shown { FLOWS_SELECTION, FLOWS_ITERATION, FLOWS_ALL, FLOWS_OFF };
enum curves_shown { CURVES_BY_SIZE, CURVES_ON, CURVES_OFF };

/* FOLD_NONE: levels where there are rows. FOLD_LEVELS: one row. FOLD_RANK: one row for all lanes of its rank.
 * FOLD_OPEN: never one row for its rank, nor for several. */
enum fold { FOLD_NONE, FOLD_LEVELS, FOLD_RANK, FOLD_OPEN };

enum { WINDOWS = 32 };
struct window { uint64_t unit; int64_t left; };

/* A rank that does what the one before it does: by how much their times differ at most. */
struct likeness { bool like; uint64_t apart; };

struct arrange {
    uint8_t          *fold;                  /* enum fold of each lane; those behind `fold_room` FOLD_NONE */
    size_t            fold_room;
    int               pinned;                /* the lane at the top, counted from 1; 0 none */
    bool              squeezed, following;
    bool              working;               /* something is still looked for over the whole trace */
    enum flows_shown  flows;
    enum curves_shown curves_shown;
    struct align      align;
    struct filter     filter;
    struct curves     curves;
    struct window     windows[WINDOWS];      /* those that one zoomed in from */
    int               window_count;
    struct likeness  *likeness;              /* of each rank to the one before it, by number */
    size_t            like_ranks, like_seen; /* as of so many events */
};

enum fold arrange_fold(const struct arrange *arrange, int lane);
bool      arrange_set_fold(struct arrange *arrange, int lane, enum fold fold); /* false: no memory */
/* What depends on where one stands is worked out anew: how ranks are aligned, which are alike. */
void      arrange_settle(struct view *view, const struct model *model);
/* A slice of what is looked for over the whole trace: lanes that match the filter, curves; `working`: there is more.
 * true: it is all known now, and was not before, so a frame may look otherwise. */
bool      arrange_work(struct view *view, const struct model *model);
/* Another run's trace takes the old one's place. */
void      arrange_use(struct arrange *arrange, const struct match_names *names);
/* "  squeezed  filtered": for the title. */
void      arrange_print(const struct view *view, const struct model *model, struct str *out);
void      arrange_free(struct arrange *arrange);
#endif
