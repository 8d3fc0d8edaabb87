/* Reading digits.csv.gz: no header, 65 small integers a line. Every one is checked.
 *
 * Interface: digits_read, digits_free. */
#include "data/digits.h"
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>
#include "base/reader.h"
#include "base/vec.h"
#include "sched/task.h"

enum { LINE = 1024, DIGITS_MOST = 100000 };

/* A number of 0 to `most` and what follows it; NULL: something else stands there. */
static const char *
take_number(const char *at, int most, char after, int *out)
{
    int value = 0, digits = 0;
    for (; *at >= '0' && *at <= '9' && digits < 3; at++, digits++)
        value = value * 10 + (*at - '0');
    *out = value;
    if (digits == 0 || value > most)
        return NULL;
    if (after == '\n')
        return *at == '\n' || *at == '\r' || *at == '\0' ? at : NULL;
    return *at == after ? at + 1 : NULL;
}

static bool
take_row(const char *line, float *pixels, int64_t *label)
{
    int number = 0;
    for (int i = 0; i < DIGITS_PIXELS; i++) {
        line = take_number(line, 16, ',', &number);
        if (line == NULL)
            return false;
        pixels[i] = (float)number / 16;
    }
    line   = take_number(line, 9, '\n', &number);
    *label = number;
    return line != NULL;
}

static bool
digits_add_row(struct task *me, struct digits *digits, const char *line, const char *path)
{
    size_t rows = (size_t)digits->rows + 1;
    if (rows > DIGITS_MOST)
        return failed(me, E_VALUE, "%s: more than %d rows", path, DIGITS_MOST);
    if (!vec_room(&digits->pixels, &digits->pixel_room, rows * DIGITS_PIXELS, sizeof(float)) ||
        !vec_room(&digits->labels, &digits->label_room, rows, sizeof(int64_t)))
        return failed(me, E_MEMORY, "out of memory while reading the digits");
    if (!take_row(line, digits->pixels + (rows - 1) * DIGITS_PIXELS, &digits->labels[rows - 1]))
        return failed(me, E_VALUE, "%s: row %zu is not 64 pixels of 0 to 16 and a label of 0 to 9", path, rows);
    digits->rows++;
    return true;
}

static gzFile
open_digits(struct task *me, const char *path)
{
    const char *why  = NULL;
    int         fd   = file_open(path, &why);
    gzFile      file = fd >= 0 ? gzdopen(fd, "rb") : NULL;
    if (fd < 0)
        return failed_null(me, E_RUNTIME, "%s: %s", path, why);
    if (file != NULL)
        return file;
    close(fd);
    return failed_null(me, E_MEMORY, "out of memory while reading the digits");
}

bool
digits_read(struct task *me, const char *path, struct digits *digits)
{
    char   line[LINE];
    int    code = Z_OK;
    bool   ok   = true;
    gzFile file = open_digits(me, path);
    *digits     = (struct digits){ 0 };
    if (file == NULL)
        return false;
    while (ok && gzgets(file, line, sizeof line) != NULL)
        ok = digits_add_row(me, digits, line, path);
    gzerror(file, &code);
    gzclose(file);
    if (ok && (code != Z_OK && code != Z_STREAM_END))
        return failed(me, E_VALUE, "%s: damaged", path);
    if (ok && digits->rows == 0)
        return failed(me, E_VALUE, "%s: no rows", path);
    return ok;
}

void
digits_free(struct digits *digits)
{
    free(digits->pixels);
    free(digits->labels);
    *digits = (struct digits){ 0 };
}
