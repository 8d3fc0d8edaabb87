/* How a width is dealt out: lane names, time, and at the right of wide screens a column of panes. */
#ifndef VIEWER_COLUMNS_H
#define VIEWER_COLUMNS_H

int columns_of_names(int width); /* of a timeline that wide: its gutter */
int columns_of_side(int width);  /* of a screen that wide; 0: too narrow for panes at the right */
int columns_of_time(int width);  /* of that screen, when the timeline has the whole width or what is left of it */
#endif
