/* Faults from a seed: what goes wrong, where and when, within what the usual run has shown there is.
 * Order of use: fault_kinds_read once; draw_faults for each schedule. */
#ifndef CLI_DRAW_FAULTS_H
#define CLI_DRAW_FAULTS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sched/faults.h"

struct fault_counts;

/* "late,kill" or "all"; a set, a bit for each kind. false: `word` is none, cut to `size`. */
bool fault_kinds_read(const char *text, unsigned *kinds, char *word, size_t size);
/* One or two of those kinds, of which the usual run had occasions. false: no memory. */
bool draw_faults(const struct fault_counts *counts, unsigned kinds, uint64_t seed, struct fault_plan *plan);
#endif
