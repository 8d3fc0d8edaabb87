/* A script is one rank's Lua state with its sandbox, budgets and lock: what runs lessons. Order of use, all in the task
 * that is the rank's main: script_new, script_run_text, script_free. */
#ifndef LUA_SCRIPT_H
#define LUA_SCRIPT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct task; struct script; struct catalogue; struct layer_catalogue;

struct script_options {
    bool        trusted;       /* --trust: the full Lua libraries */
    uint64_t    seed;          /* of math.random, until the lesson sets one */
    FILE       *out;           /* print; NULL: stdout */
    int         arg_count;     /* what follows "--" on the command line: the lesson's `arg` and `...` */
    char *const *args;
    const struct catalogue *catalogue; /* NULL: the script makes one; ranks share their parent's */
    const struct layer_catalogue *layers; /* likewise */
    uint64_t    variant;       /* --variant: what rs.vary draws from; 0: the values as they are written */
    bool        guests;        /* functions of another file run here, too (rs.exercise): lines are told with their file */
    const char *text;          /* of the lesson while it runs, for messages: script_run_text sets it */
    size_t      text_size;
};

struct script *script_new(struct task *me, const struct script_options *options); /* NULL: failed */
bool script_run_text(struct task *me, struct script *script, const char *name, const char *text, size_t size); /* false:
                                                                                        failed, with the line */
void script_is_over(struct task *me, const struct script *script);   /* its rank, if it is one of a job, does nothing more */
void script_free(struct task *me, struct script *script);
/* As messages and traces name a lesson: its file without the folder, but for "checks/NN-slug.lua", beside which an exercise of
 * the same name lies. */
const char *lesson_file_name(const char *path);
/* Whether that is Lua at all, found out before anything is begun for it. Where memory is short: true, the run will say. */
bool script_compiles(const char *text, size_t size);
#endif
