/* What is on the screen, kept as a film in asciinema's format, version 2: a header, then a line for each frame that changed
 * something. Pauses are at most two seconds long; every ten seconds of film there is a whole frame, to seek to.
 * Order of use: cast_open, cast_frame for each frame, cast_close. */
#ifndef VIEWER_CAST_H
#define VIEWER_CAST_H
#include <stddef.h>
#include <stdint.h>
#include "canvas.h"

struct cast;

/* A new file, never one that is there; NULL: `why` says what is in the way. */
struct cast *cast_open(const char *path, char *why, size_t why_size);
/* At that moment of a clock that only goes forwards, in ms. false: it cannot be written, and the film ends here. */
bool         cast_frame(struct cast *cast, const struct canvas *canvas, const struct capabilities *capabilities,
                        uint64_t now_ms);
bool         cast_close(struct cast *cast);   /* false: not all of it could be written. NULL is fine */
#endif
