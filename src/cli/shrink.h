/* Makes a schedule that was found as short as it gets: fewer switches, and the same failure. */
#ifndef CLI_SHRINK_H
#define CLI_SHRINK_H
#include <stdbool.h>
#include <stdint.h>

struct schedule; struct trials;

/* `group`: the outcome's that it leads to. false: it does not repeat, or it was stopped before that was known. */
bool shrink_schedule(struct trials *trials, uint64_t group, struct schedule *schedule);
#endif
