/* ringside view: hands over to trace_viewer, the program beside this one. The engine is not needed to read a trace,
 * so the viewer does not have it. Interface: cli_view; viewer_exec for whoever else shows a trace. */
#include "cli/commands.h"
#include "cli/viewer.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int
viewer_exec(char **argv)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length > 0) {
        path[length] = '\0';
        char *name = strrchr(path, '/');
        if (name != NULL && sizeof path - (size_t)(name + 1 - path) > sizeof "trace_viewer") {
            memcpy(name + 1, "trace_viewer", sizeof "trace_viewer");
            execv(path, argv);
        }
    }
    execvp("trace_viewer", argv);
    fprintf(stderr, "ringside: cannot start trace_viewer: %s; make builds it beside ringside\n", strerror(errno));
    return 2;
}

/* argv[0] becomes the program's name; everything else is the viewer's business, --help too. */
int
cli_view(int argc, char **argv)
{
    (void)argc;
    char name[] = "trace_viewer";
    argv[0] = name;
    return viewer_exec(argv);
}
