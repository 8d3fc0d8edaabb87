/* The viewer without a screen: commands are typed a line each, and after each a paragraph says where one stands. For screen
 * readers, braille displays and terminals that can do nothing else. */
#ifndef VIEWER_PLAIN_H
#define VIEWER_PLAIN_H
#include "drive.h"

/* Reads commands from standard input until its end or `quit`. Answers the exit status. */
int plain_run(struct driver *driver);
#endif
