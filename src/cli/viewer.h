/* Becoming the viewer: trace_viewer lies beside ringside, else somewhere in PATH. */
#ifndef CLI_VIEWER_H
#define CLI_VIEWER_H

int viewer_exec(char **argv); /* argv as trace_viewer gets it; answers (2) only when it cannot be started */
#endif
