/* Interface: config_read. */
#include "config.h"

#include "options.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* false: `why`. */
static bool
carry_out(struct view *view, struct model *model, const char *text, char *why, size_t why_size)
{
    struct command_line line;
    if (!command_parse(text, &line, why, why_size))
        return false;
    if (line.command != CMD_set && line.command != CMD_bind) {
        snprintf(why, why_size, "only set and bind belong here, not %s", command_info(line.command)->name);
        return false;
    }
    return line.command == CMD_set ? options_set(view, model, line.rest, why, why_size)
                                   : options_bind(view, line.rest, why, why_size);
}

bool
config_read_file(struct view *view, struct model *model, const char *path)
{
    char  text[512], why[256];
    FILE *file = fopen(path, "r");
    int   bad = 0, first = 0;
    char  first_why[256] = "";
    if (file == NULL)
        return false;
    for (int number = 1; fgets(text, sizeof text, file) != NULL; number++) {
        text[strcspn(text, "\r\n")] = '\0';
        const char *line = text + strspn(text, " \t");
        if (line[0] == '\0' || line[0] == '#' || carry_out(view, model, line, why, sizeof why))
            continue;
        if (bad++ == 0) {
            first = number;
            snprintf(first_why, sizeof first_why, "%s", why);
        }
    }
    fclose(file);
    const char *name = strrchr(path, '/');
    if (bad > 0)
        view_say(view, "%s:%d: %s%s", name != NULL ? name + 1 : path, first, first_why,
                 bad > 1 ? "; there are more" : "");
    return true;
}

void
config_read(struct view *view, struct model *model)
{
    const char *home = getenv("XDG_CONFIG_HOME");
    char        path[PATH_MAX];
    if (home != NULL && home[0] == '/')
        snprintf(path, sizeof path, "%s/ringside/viewer.conf", home);
    else if ((home = getenv("HOME")) != NULL)
        snprintf(path, sizeof path, "%s/.config/ringside/viewer.conf", home);
    else
        return;
    config_read_file(view, model, path);
}
