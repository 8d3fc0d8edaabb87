/* What leaves the screen: a frame as a file, a film of what is shown, the commands of a session as a script. */
#include "look_internal.h"

#include "base/str.h"
#include "cast.h"
#include "export.h"
#include "frame.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDEST = 1000 };

/* false: said why. A file that is there stays as it is. */
static bool
write_new_file(struct view *view, const char *path, const struct str *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    bool good = file != NULL && fwrite(str_text(text), 1, text->len, file) == text->len;
    int  error = good ? 0 : errno;
    if (file != NULL && fclose(file) != 0 && good) {
        good  = false;
        error = errno;
    }
    if (!good)
        view_say(view, "%.300s: %s", path, strerror(error));
    return good;
}

static bool
ends_with(const char *path, const char *ending)
{
    size_t length = strlen(path), end = strlen(ending);
    return length > end && strcmp(path + length - end, ending) == 0;
}

/* By the end of the file's name: .svg, .html, .ansi, else text. */
static void
print_as(const struct canvas *canvas, const char *path, enum theme theme, struct str *out)
{
    struct capabilities capabilities = { .colours = 256, .utf8 = true, .theme = theme };
    if (ends_with(path, ".svg"))
        export_svg(canvas, &capabilities, out);
    else if (ends_with(path, ".html"))
        export_html(canvas, &capabilities, out);
    else
        canvas_print(canvas, &capabilities, ends_with(path, ".ansi"), out);
}

/* frame FILE [WxH] */
static void
save_frame(struct view *view, struct model *model, const struct command_line *line)
{
    char path[512] = "";
    int  width = view->width, height = view->height;
    int  read = sscanf(line->rest, "%511s %4dx%4d", path, &width, &height);
    if ((read != 1 && read != 3) || width < 1 || height < 1 || width > WIDEST || height > WIDEST) {
        view_say(view, "frame FILE [WxH]: .svg, .html, .ansi, else text");
        return;
    }
    struct str          text = { 0 };
    struct canvas       canvas;
    struct view         shown = *view;
    struct capabilities capabilities = { .utf8 = true, .theme = view->theme };
    if (ends_with(path, ".svg") || ends_with(path, ".html") || ends_with(path, ".ansi"))
        capabilities.colours = 256;
    shown.width      = width;
    shown.height     = height;
    shown.message[0] = '\0';
    if (!canvas_init(&canvas, width, height)) {
        view_say(view, "out of memory");
        return;
    }
    if (shown.cursor != NO_EVENT)
        model_seek(model, shown.cursor);
    frame_draw(model, &shown, &canvas, &capabilities);
    print_as(&canvas, path, view->theme, &text);
    if (!str_ok(&text))
        view_say(view, "out of memory");
    else if (write_new_file(view, path, &text))
        view_say(view, "%.300s holds this frame, %dx%d", path, width, height);
    str_free(&text);
    canvas_free(&canvas);
}

/* cast FILE begins a film, cast ends it. */
static void
film(struct view *view, struct model *model, const struct command_line *line)
{
    (void)model;
    char why[400];
    bool rolling = view->cast != NULL, good = cast_close(view->cast);
    view->cast   = NULL;
    if (line->rest[0] == '\0') {
        view_say(view, !rolling ? "no film is being made; cast FILE begins one"
                       : good ? "the film has ended" : "the film has ended, and not all of it could be written");
        return;
    }
    view->cast = cast_open(line->rest, why, sizeof why);
    if (view->cast == NULL)
        view_say(view, "%s", why);
    else
        view_say(view, "filming into %.300s; cast ends it", line->rest);
}

/* script FILE: the commands so far, to be done again by --commands FILE. */
static void
save_script(struct view *view, struct model *model, const struct command_line *line)
{
    (void)model;
    if (write_new_file(view, line->rest, &view->done))
        view_say(view, "%.300s holds what was done; --commands %.100s does it again", line->rest, line->rest);
}

const struct look_rule look_export_rules[] = {
    { CMD_frame, save_frame },
    { CMD_cast, film },
    { CMD_script, save_script },
    { 0, NULL },
};
