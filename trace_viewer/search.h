/* The search under way in a trace: the next match, behind the last one the first, and how many there are, in slices, so
 * that millions of events do not hold up the screen. Part of the view. Order of use: search_start, then search_hunt for
 * each n and N, search_on until it has nothing to do, search_settle wherever the cursor or the veil may have changed;
 * search_free. */
#ifndef VIEWER_SEARCH_H
#define VIEWER_SEARCH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct find; struct model; struct veil;

struct search {
    struct find *find;               /* owned; NULL nothing was looked for yet */
    bool         active;             /* n and N go from match to match */
    bool         hunting;            /* for the next match, from `at` */
    bool         first, found;       /* of a new search; the hunt's end */
    bool         wrapped;            /* it went on at the other end */
    bool         telling;            /* what came of it is on the message's line */
    int          direction;
    size_t       at, from;           /* from: where the hunt began */
    uint16_t    *blocks;             /* matches in each of so many events */
    size_t       block_room;
    size_t       counted, count;     /* events, and matches among them */
    size_t       place;              /* of the cursor: matches up to it */
    size_t       veil_from;          /* as of which open question they were counted */
};

/* Where it is searched: what is hidden is not found. */
struct searched { const struct model *model; const struct veil *veil; };

void search_start(struct search *search, struct find *find);
void search_hunt(struct search *search, size_t from, int direction);
/* A slice of what is to do; false: nothing is. `found` at the hunt's end: `at` is the match. */
bool search_on(struct search *search, const struct searched *in);
bool search_is_busy(const struct search *search, const struct model *model);
void search_settle(struct search *search, const struct searched *in, size_t cursor);
void search_use(struct search *search, const struct model *model);      /* another trace */
void search_free(struct search *search);
#endif
