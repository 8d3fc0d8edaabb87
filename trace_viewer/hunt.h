/* The nearest event of which something is true, forwards or back, in slices, so that a key is answered at once however
 * far away it is. Questions may ask where one stands: the cursor stays where it is until the event is found. What an open
 * question hides is not found. Part of the view. Order of use: hunt_begin; hunt_on as long as the view is moving, or
 * hunt_pause. */
#ifndef VIEWER_HUNT_H
#define VIEWER_HUNT_H
#include <stdbool.h>
#include <stddef.h>

struct model; struct view;

struct hunt {
    bool      (*is)(const struct view *view, const struct model *model, size_t seq); /* NULL: no hunt is under way */
    int         direction;   /* 1, -1 */
    const char *what;        /* "wait on this lane": said where there is none */
    size_t      at;          /* the event that was looked at last; hunt_begin's */
};

/* Looks at a first slice already. */
void hunt_begin(struct view *view, const struct model *model, const struct hunt *hunt);
bool hunt_on(struct view *view, const struct model *model);    /* another slice; false: it is over */
void hunt_pause(struct view *view);                            /* one stays where one is */

/* The search alone: at most `slice` events from hunt->at on. */
enum hunt_result { HUNT_GOES_ON, HUNT_FOUND /* hunt->at is it */, HUNT_NOTHING };
enum hunt_result hunt_some(struct hunt *hunt, const struct view *view, const struct model *model, size_t slice);
#endif
