/* The lesson that a word of the command line means, from any folder: a file, or a lesson of the course by its number or
 * name. */
#ifndef CLI_COURSE_H
#define CLI_COURSE_H
#include <stdbool.h>
#include <stddef.h>

struct run_options;

/* Puts the lesson's path into the options. A file wins, with or without ".lua"; then the course: "15",
 * "15-hooks-and-order", "hooks-and-order", any beginning that fits one lesson alone, then one example; "exercises/15",
 * "solutions/15" and the like for what lies in its folders. What looks like a path and is none of these stays as it is: who opens it says what
 * is wrong. -1: go on; else the exit status, and what there is instead has been said. */
int lesson_choose(const char *command, struct run_options *options);

/* Whether a word means one lesson of the course, and which. */
bool course_has(const char *word, char *name, size_t size);

/* A folder of lessons: as given, else below the course. */
void lessons_folder(const char *word, char *out, size_t size);
#endif
