/* The runs that a session keeps: changing the past of one makes another, which has its beginning in common with it. */
#ifndef VIEWER_BRANCHES_H
#define VIEWER_BRANCHES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct branch {
    int    number, parent;  /* parent 0: none */
    size_t from, to;        /* the event at which it left its parent; its last one */
    char   how[16];         /* "paused" "finished" "failed" "died" */
    bool   present;
    char   change[80];      /* what was changed: "kill 1" */
};

/* Where a person changed the present run first, and how: "set b.weight[0] 3"; "" nobody did. */
struct edited { size_t at; char how[80]; };

enum { BRANCHES_MOST = 32 };
struct branches { struct branch of[BRANCHES_MOST]; int count; };

/* A line of the wire (control/commands.h) into the list; false: it is none of these. */
bool branches_take(struct branches *branches, const char *line);
bool edited_take(struct edited *edited, const char *line);
#endif
