/* The breakpoints as the viewer knows them: its own over a recorded trace, a session's as it told them last. */
#ifndef VIEWER_POINTS_H
#define VIEWER_POINTS_H
#include <stddef.h>
#include "view.h"

struct session;

void   points_print(const struct view *view, struct str *out); /* as breaks_list, nothing when there are none */
size_t points_count(const struct view *view);
/* Asks the session, which waits for a command. */
void   points_ask(struct view *view, struct session *session);
#endif
