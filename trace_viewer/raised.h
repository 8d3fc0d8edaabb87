/* One fault, however many ranks tell it: it is found, each rank that waits for another one raises it, and so does who
 * started the ranks. It is over once the last of them went on, as an error that was caught.
 * Order of use: raised_last, then raised_is_over, raised_first, raised_repeats, raised_print_lanes. */
#ifndef VIEWER_RAISED_H
#define VIEWER_RAISED_H
#include <stdbool.h>
#include <stddef.h>
#include "model.h"

struct str;

size_t raised_last(const struct model *model, size_t cursor);     /* fault at or before it; NO_EVENT: none */
bool   raised_is_over(const struct model *model, size_t fault, size_t cursor);  /* its lane went on before the cursor */
size_t raised_first(const struct model *model, size_t fault);     /* of what is one fault with it */
bool   raised_repeats(const struct model *model, size_t fault);   /* what it says was said by an earlier one */
const char *raised_report(const struct model *model, size_t fault);
/* "main, r0, r1": who has raised what it says up to the cursor; "": nobody yet. */
void   raised_print_lanes(const struct model *model, size_t fault, size_t cursor, struct str *out);
#endif
