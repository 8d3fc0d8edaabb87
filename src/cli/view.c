/* ringside view: hands over to trace_viewer, the program beside this one. The engine is not needed to read a trace,
 * so the viewer does not have it. Interface: cli_view; viewer_exec for whoever else shows a trace. */
#include "base/place.h"
#include "cli/commands.h"
#include "cli/course.h"
#include "cli/message.h"
#include "cli/viewer.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int
viewer_exec(char **argv)
{
    char folder[PATH_MAX], path[PATH_MAX + 16];
    if (program_folder(folder, sizeof folder)) {
        snprintf(path, sizeof path, "%s/trace_viewer", folder);
        execv(path, argv);
    }
    execvp("trace_viewer", argv);
    fprintf(stderr, "ringside: cannot start trace_viewer: %s; make builds it beside ringside\n", strerror(errno));
    return 2;
}

/* argv[0] becomes the program's name; everything else is the viewer's business, --help too. */
int
cli_view(int argc, char **argv)
{
    char lesson[NAME_MAX + 1];
    if (argc == 2 && access(argv[1], F_OK) != 0 && course_has(argv[1], lesson, sizeof lesson))
        return message(STATUS_USAGE, "view shows a trace, and %s is a lesson: ringside step %s", argv[1], argv[1]);
    char name[] = "trace_viewer";
    argv[0] = name;
    return viewer_exec(argv);
}
