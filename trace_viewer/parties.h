/* Ranks that stand alike, in one line: who waits for whom, in which call, since when, at which line of the lesson.
 * Order of use: parties_take, parties_print, parties_free. */
#ifndef VIEWER_PARTIES_H
#define VIEWER_PARTIES_H
#include "page.h"
#include "analysis/waits.h"

struct party {
    const struct waiter *first;       /* of one of them; all others are like it */
    int                 *ranks;
    size_t               rank_count, rank_room;
    bool                 differs;     /* these went another way than the others */
};
struct parties {
    struct waits  waits;
    struct party *list;               /* those that went another way first, then those that wait in vain */
    size_t        count, room;
};

bool parties_take(struct parties *parties, const struct state *state);  /* false: no memory, nothing to free */
void parties_free(struct parties *parties);
/* A line for each. `mark` stands beside those that differ. */
void parties_print(const struct parties *parties, const struct scene *scene, int width, struct page *page);
/* "r5 was killed", "r6 has returned": those that are gone while others wait for them; "" none. */
void parties_print_gone(const struct parties *parties, struct str *out);
/* How many ranks wait, of how many. */
size_t parties_waiting(const struct parties *parties, size_t *ranks);
#endif
