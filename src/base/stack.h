/* A program's first stack is as large as the system's limit says, and a limit can be anything. */
#ifndef BASE_STACK_H
#define BASE_STACK_H

/* Runs a program's main where there is room for it: here, or on a stack of its own where the limit (ulimit -s) is below a
 * MiB. Answers its status, which is not negative; -1: it was not run, there is no memory for the other stack. */
int stack_run(int (*run)(int argc, char **argv), int argc, char **argv);
#endif
