/* Which command line a key carries out where it is not the table's (control/commands.def): a person's own keys, and
 * those of programs that fingers know (`set keys`). */
#ifndef VIEWER_BINDS_H
#define VIEWER_BINDS_H
#include <stdbool.h>
#include <stddef.h>

enum { BOUND_LINE = 128, KEY_NAME = 20 };

struct bind { char key[KEY_NAME], line[BOUND_LINE]; };
struct binds { struct bind *rows; size_t count, room; };   /* a person's own, in the order in which they were made */

/* false: `why`. A key may be written as it is named in --keys, with < > or without. */
bool        binds_set(struct binds *binds, const char *key, const char *line, char *why, size_t why_size);
bool        binds_remove(struct binds *binds, const char *key);
/* The line that the key stands for with these keys (enum in settings.h); NULL: the table's. */
const char *binds_line(const struct binds *binds, int keys, const char *key);
/* The command that the key carries out after all, -1 none; *line: what is bound, NULL where it is the table's. */
int         binds_command(const struct binds *binds, int keys, const char *key, const char **line);
/* The keys of a command, "s Space", without those that mean something else now. */
void        binds_keys_of(const struct binds *binds, int keys, int command, char *out, size_t size);
void        binds_free(struct binds *binds);
#endif
