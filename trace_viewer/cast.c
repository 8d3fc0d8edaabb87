/* Frames to a film. A frame is the rows that differ from the one before, each with its place; the first of a size and
 * one every ten seconds are whole. Interface: cast_open, cast_frame, cast_close. */
#include "cast.h"

#include "base/str.h"
#include "base/visible.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAUSE_MS = 2000, WHOLE_EVERY_MS = 10000 };

struct cast {
    FILE         *file;
    struct canvas last;            /* the frame before; no cells: none */
    uint64_t      last_ms, at_ms;  /* of the clock; of the film */
    uint64_t      whole_ms;        /* when the last whole frame was */
    bool          begun;
};

struct cast *
cast_open(const char *path, char *why, size_t why_size)
{
    int          fd   = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    struct cast *cast = fd >= 0 ? calloc(1, sizeof *cast) : NULL;
    if (cast != NULL)
        cast->file = fdopen(fd, "w");
    if (cast != NULL && cast->file != NULL)
        return cast;
    snprintf(why, why_size, "%.300s: %s", path, strerror(fd < 0 ? errno : ENOMEM));
    if (fd >= 0)
        close(fd);
    free(cast);
    return NULL;
}

static bool
same_row(const struct canvas *a, const struct canvas *b, int row)
{
    for (int column = 0; column < a->width; column++) {
        const struct cell *one = canvas_at(a, row, column), *other = canvas_at(b, row, column);
        if (one->code != other->code || one->style.ink != other->style.ink || one->style.paper != other->style.paper ||
            one->style.attr != other->style.attr)
            return false;
    }
    return true;
}

/* The rows that changed, each behind the place where it begins. */
static void
add_rows(struct cast *cast, const struct canvas *canvas, const struct capabilities *capabilities, bool whole,
         struct str *out)
{
    if (whole)
        str_add(out, "\x1b[0m\x1b[2J");
    for (int row = 0; row < canvas->height; row++) {
        if (!whole && same_row(canvas, &cast->last, row))
            continue;
        struct canvas line = canvas_part(canvas, row, 0, 1, canvas->width);
        str_addf(out, "\x1b[%d;1H\x1b[K", row + 1);
        canvas_print(&line, capabilities, true, out);
        if (out->len > 0 && !out->broken)
            out->text[--out->len] = '\0'; /* the newline */
    }
}

static bool
keep_frame(struct cast *cast, const struct canvas *canvas)
{
    if (cast->last.cells == NULL || cast->last.width != canvas->width || cast->last.height != canvas->height) {
        canvas_free(&cast->last);
        if (!canvas_init(&cast->last, canvas->width, canvas->height))
            return false;
    }
    for (int row = 0; row < canvas->height; row++)
        memcpy(cast->last.cells + (size_t)row * (size_t)cast->last.stride,
               canvas->cells + (size_t)row * (size_t)canvas->stride, (size_t)canvas->width * sizeof *canvas->cells);
    return true;
}

static void
write_header(struct cast *cast, const struct canvas *canvas)
{
    fprintf(cast->file, "{\"version\": 2, \"width\": %d, \"height\": %d}\n", canvas->width, canvas->height);
    cast->begun = true;
}

bool
cast_frame(struct cast *cast, const struct canvas *canvas, const struct capabilities *capabilities, uint64_t now_ms)
{
    bool     first = !cast->begun;
    uint64_t pause = first || now_ms < cast->last_ms ? 0 : now_ms - cast->last_ms;
    bool     resized = !first && (cast->last.width != canvas->width || cast->last.height != canvas->height);
    if (first)
        write_header(cast, canvas);
    cast->last_ms = now_ms;
    cast->at_ms += pause < PAUSE_MS ? pause : PAUSE_MS;
    double at = (double)cast->at_ms / 1000;
    if (resized)
        fprintf(cast->file, "[%.3f, \"r\", \"%dx%d\"]\n", at, canvas->width, canvas->height);
    bool whole = first || resized || cast->last.cells == NULL || cast->at_ms - cast->whole_ms >= WHOLE_EVERY_MS;
    if (whole)
        cast->whole_ms = cast->at_ms;
    struct str rows = { 0 };
    add_rows(cast, canvas, capabilities, whole, &rows);
    if (rows.len > 0) {
        fprintf(cast->file, "[%.3f, \"o\", \"", at);
        visible_write(cast->file, rows.text, rows.len, VISIBLE_JSON);
        fputs("\"]\n", cast->file);
    }
    bool good = str_ok(&rows) && keep_frame(cast, canvas) && ferror(cast->file) == 0;
    str_free(&rows);
    return good;
}

bool
cast_close(struct cast *cast)
{
    if (cast == NULL)
        return true;
    bool good = ferror(cast->file) == 0;
    good = fclose(cast->file) == 0 && good;
    canvas_free(&cast->last);
    free(cast);
    return good;
}
