/* Places in the trace that a person comes back to: marks by a letter, and where one stood before each jump. */
#ifndef VIEWER_MARKS_H
#define VIEWER_MARKS_H
#include <stdbool.h>
#include <stddef.h>

struct str;

enum { MARKS = 52, JUMPS = 64 };

struct marks {
    size_t at[MARKS];            /* seq + 1; 0: not set */
    size_t jumps[JUMPS];         /* the oldest first */
    int    jump_count;
};

/* false: it is no letter from a to z or A to Z. */
bool   marks_set(struct marks *marks, char letter, size_t seq);
bool   marks_find(const struct marks *marks, char letter, size_t *seq);
/* All that are set, in the order of their letters, for the minimap: the `number`th, counted from 0. */
bool   marks_take(const struct marks *marks, int number, char *letter, size_t *seq);
/* One stood there, and jumps away. */
void   marks_leave(struct marks *marks, size_t seq);
/* Where one stood `count` jumps ago; that jump is taken back: `here` is what one comes back to. */
bool   marks_return(struct marks *marks, int count, size_t here, size_t *seq);
#endif
