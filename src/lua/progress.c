/* rs.progress: a line on a terminal while a lesson works long. Nothing of it is kept, and in TAP, in pipes, with
 * --quiet and under a viewer nothing is shown. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/vec.h"
#include "base/visible.h"
#include "lua/data.h"
#include "lua/internal.h"
#include "lua/lesson.h"
#include "lua/spawn.h"
#include "sched/sched.h"
#include "sched/task.h"

static const char LAST[] = "ringside.progress_ms";
enum { BAR = 24, TEXT = 59 /* bytes */, EVERY_MS = 100 };

static bool
has_terminal(lua_State *L, struct task *me)
{
    const struct lesson *lesson = lesson_of(me);
    if (lesson == NULL || lesson_options(lesson)->tap || lesson_options(lesson)->quiet)
        return false;
    return script_rank(script_of(L)) <= 0 && isatty(STDERR_FILENO);
}

/* Often enough for the eye, seldom enough for the loop. */
static bool
is_due(lua_State *L)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    lua_getfield(L, LUA_REGISTRYINDEX, LAST);
    bool due = ms - lua_tointeger(L, -1) >= EVERY_MS;
    lua_pop(L, 1);
    if (due) {
        set_integer(L, LUA_REGISTRYINDEX, LAST, ms);
    }
    return due;
}

/* rs.progress(done, total, text); done == total takes the line away. */
static int
progress(lua_State *L)
{
    struct task *me    = script_task(L);
    double       done  = check_number(L, 1), total = check_number(L, 2);
    const char  *given = lua_isnoneornil(L, 3) ? "" : check_text(L, 3);
    char         bar[BAR + 1];
    if (!has_terminal(L, me))
        return 0;
    if (!(done < total)) {
        fputs("\r\033[K", stderr);
        return 0;
    }
    if (!is_due(L))
        return 0;
    size_t full = done > 0 ? (size_t)(done / total * BAR) : 0, length = strnlen(given, TEXT + 1);
    if (length > TEXT)
        for (length = TEXT; length > 0 && ((unsigned char)given[length] & 0xc0) == 0x80; length--)
            continue; /* no half of a character */
    memset(bar, '.', BAR);
    memset(bar, '#', full);
    bar[BAR] = '\0';
    fprintf(stderr, "\r\033[K[%s] %.0f of %.0f  ", bar, done, total);
    visible_write(stderr, given, length, VISIBLE_LINE);
    return 0;
}

static const struct lua_entry entries[] = {
    { "progress", progress, "rs.progress(done, total, text)",
      "a line on a terminal while a loop works; nowhere else" },
};

void
lua_open_progress(lua_State *L)
{
    fill_namespace(L, "", entries, countof(entries));
}
