/* Several ranks in few words: "r0-r2, r7". */
#ifndef VIEWER_RANKS_H
#define VIEWER_RANKS_H
#include <stddef.h>

struct str;

void ranks_print(const int *ranks, size_t count, struct str *out); /* in rising order */
#endif
