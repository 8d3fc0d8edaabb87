/* A frame as something else than a terminal's: the same cells as a picture (SVG) or a page (HTML). Nothing of a host, a
 * clock or a path is in them. */
#ifndef VIEWER_EXPORT_H
#define VIEWER_EXPORT_H
#include "canvas.h"

struct str;

void export_svg(const struct canvas *canvas, const struct capabilities *capabilities, struct str *out);
void export_html(const struct canvas *canvas, const struct capabilities *capabilities, struct str *out);
#endif
