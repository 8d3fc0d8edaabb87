/* Checks that wait to be printed: those of ranks, which finish in any order. Zero-initialised is empty; guarded by who owns it.
 * Order of use: check_list_add, or check_list_read of what another process wrote; check_list_sort; the checks; check_list_clear. */
#ifndef LUA_CHECK_LIST_H
#define LUA_CHECK_LIST_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/reader.h"
#include "base/str.h"
#include "lua/lesson.h"

struct kept_check { struct lesson_check check; uint32_t order; size_t bytes; };   /* owns its four texts */
struct check_list { struct kept_check *checks; size_t count, room; };

size_t check_bytes(const struct lesson_check *check);
bool   check_list_add(struct sched *sched, struct check_list *list, const struct lesson_check *check);   /* copies; false: no memory */
void   check_list_sort(struct check_list *list);              /* by rank and line */
void   check_list_clear(struct sched *sched, struct check_list *list);
void   check_list_free(struct check_list *list);              /* after the run: its account is gone */
void   check_list_write(const struct check_list *list, struct str *out);
bool   check_list_read(struct sched *sched, struct check_list *list, struct reader *in);   /* adds; false: no memory, or no such bytes */
#endif
