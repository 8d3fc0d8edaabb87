/* Where `goto` goes: "118", "1.2ms", "at 1.204 ms", "+50us", "-3us", "it 3", "40%". */
#ifndef VIEWER_PLACE_H
#define VIEWER_PLACE_H
#include <stdbool.h>
#include <stddef.h>
#include "model.h"

/* false: `why`. Of a time the first event at or behind it; + and - count from the event `here`. */
bool place_find(const struct model *model, size_t here, const char *text, size_t *seq, char *why, size_t why_size);
/* The first event at that time or later; `seen` past the last. */
size_t place_of_time(const struct model *model, uint64_t time);
#endif
