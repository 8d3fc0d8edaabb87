/* Interface: marks_set, marks_find, marks_take for drawing them; marks_leave before a jump, marks_return. */
#include "marks.h"

#include <string.h>

static const char letters[MARKS + 1] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

static int
number_of(char letter)
{
    const char *at = letter != '\0' ? strchr(letters, letter) : NULL;
    return at != NULL ? (int)(at - letters) : -1;
}

bool
marks_set(struct marks *marks, char letter, size_t seq)
{
    int number = number_of(letter);
    if (number >= 0)
        marks->at[number] = seq + 1;
    return number >= 0;
}

bool
marks_find(const struct marks *marks, char letter, size_t *seq)
{
    int number = number_of(letter);
    if (number < 0 || marks->at[number] == 0)
        return false;
    *seq = marks->at[number] - 1;
    return true;
}

bool
marks_take(const struct marks *marks, int number, char *letter, size_t *seq)
{
    for (int i = 0; i < MARKS; i++)
        if (marks->at[i] != 0 && number-- == 0) {
            *letter = letters[i];
            *seq = marks->at[i] - 1;
            return true;
        }
    return false;
}

void
marks_leave(struct marks *marks, size_t seq)
{
    if (marks->jump_count > 0 && marks->jumps[marks->jump_count - 1] == seq)
        return;
    if (marks->jump_count == JUMPS) {
        memmove(marks->jumps, marks->jumps + 1, (JUMPS - 1) * sizeof marks->jumps[0]);
        marks->jump_count--;
    }
    marks->jumps[marks->jump_count++] = seq;
}

bool
marks_return(struct marks *marks, int count, size_t here, size_t *seq)
{
    if (count < 1 || count > marks->jump_count)
        return false;
    marks->jump_count -= count - 1;
    *seq = marks->jumps[marks->jump_count - 1];
    marks->jumps[marks->jump_count - 1] = here; /* so that twice is where one was */
    return true;
}
