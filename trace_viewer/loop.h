/* The viewer on a terminal: draws, waits, does what keys say, until one leaves. */
#ifndef VIEWER_LOOP_H
#define VIEWER_LOOP_H
#include "drive.h"
#include "term.h"

/* Answers the exit status: 0, or 128 + the signal that asked to end. */
int loop_run(struct driver *driver, const struct term_options *options);
#endif
