/* Interface: branches_take, edited_take. */
#include "branches.h"

#include <stdio.h>
#include <string.h>

bool
branches_take(struct branches *branches, const char *line)
{
    struct branch branch = { 0 };
    char          mark = 0;
    int           behind = 0;
    if (sscanf(line, "branch %d of %d from %zu to %zu %15s %c%n", &branch.number, &branch.parent, &branch.from,
               &branch.to, branch.how, &mark, &behind) != 6 || behind == 0 || (mark != '*' && mark != '-'))
        return false;
    branch.present = mark == '*';
    snprintf(branch.change, sizeof branch.change, "%s", line + behind);
    if (branches->count < BRANCHES_MOST)
        branches->of[branches->count++] = branch;
    return true;
}

bool
edited_take(struct edited *edited, const char *line)
{
    size_t at;
    int    behind = 0;
    if (sscanf(line, "edited %zu %n", &at, &behind) != 1 || behind == 0)
        return false;
    edited->at = at;
    snprintf(edited->how, sizeof edited->how, "%s", line + behind);
    return true;
}
