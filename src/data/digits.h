/* The handwritten digits that come with the lessons: 8 x 8 pixels of 0 to 16 a row, then the label. */
#ifndef DATA_DIGITS_H
#define DATA_DIGITS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct task;

enum { DIGITS_PIXELS = 64, DIGITS_TRAIN = 1438 };   /* the first rows train, the others test */
struct digits { float *pixels; int64_t *labels; int64_t rows; size_t pixel_room, label_room; };

/* Pixels divided by 16. false: failed; digits_free in any case. */
bool digits_read(struct task *me, const char *path, struct digits *digits) __attribute__((warn_unused_result));
void digits_free(struct digits *digits);
#endif
