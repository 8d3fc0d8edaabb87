/* The event in one line that is too narrow for it: the place's folder goes first, then the place, the middle of long
 * texts, time and device, which stand elsewhere too; last the middle of the kind's name. Arguments stay. */
#ifndef VIEWER_EVENT_LINE_H
#define VIEWER_EVENT_LINE_H
#include <stddef.h>

struct model; struct str;

void event_line_fit(const struct model *model, size_t seq, int room, struct str *text); /* of view_print_event */
#endif
