/* Lua's libraries as lessons have them against Lua's own, in one state: libraries.lua compares results, messages and the
 * order in which tables are touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <lualib.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "lua/internal.h"
#include "sched/sched.h"
#include "trace/writer.h"

struct rig {
    const char *part;       /* of libraries.lua */
    char       *text;
    size_t      length;
};

/* The library of this name that Lua opens anew, into the table at the top. */
static void
set_plain(lua_State *L, const char *name, lua_CFunction open)
{
    lua_pushcfunction(L, open);
    lua_call(L, 0, 1);
    lua_setfield(L, -2, name);
}

/* Opening `string` anew gives all strings its methods: they get ours back. */
static int
open_plain(lua_State *L)
{
    lua_pushliteral(L, "");
    lua_getmetatable(L, -1);
    lua_newtable(L);
    set_plain(L, "string", luaopen_string);
    set_plain(L, "table", luaopen_table);
    set_plain(L, "utf8", luaopen_utf8);
    lua_setglobal(L, "plain");
    lua_setmetatable(L, -2);
    return 0;
}

/* tonumber, select and rawequal come from a state of their own: opening the base library would undo ours. */
static int
add_plain_functions(lua_State *L)
{
    static const char *const names[] = { "tonumber", "select", "rawequal" };
    lua_State *own = luaL_newstate();
    luaL_requiref(own, "_G", luaopen_base, 1);
    lua_getglobal(L, "plain");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        lua_getglobal(own, names[i]);
        lua_pushcfunction(L, lua_tocfunction(own, -1));
        lua_setfield(L, -2, names[i]);
    }
    lua_close(own);
    return 0;
}

static bool
run_rig(struct task *me, void *argument)
{
    struct rig            *rig     = argument;
    struct script_options  options = { .step_limit = UINT64_MAX };
    if (!devices_ready(me, 1))
        return false;
    struct script *script = script_new(me, &options);
    if (script == NULL)
        return false;
    lua_State *L = script->L;
    lua_pushcfunction(L, open_plain);
    bool ok = script_call(L, me, 0, 0);
    lua_pushcfunction(L, add_plain_functions);
    ok = ok && script_call(L, me, 0, 0);
    lua_pushstring(L, rig->part);
    lua_setglobal(L, "wanted");
    ok = ok && script_run_text(me, script, "libraries.lua", rig->text, rig->length);
    script_free(me, script);
    return ok;
}

static void
read_text(struct rig *rig)
{
    FILE *file = fopen("tests/unit/libraries.lua", "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    rig->length = (size_t)ftell(file);
    rewind(file);
    rig->text = malloc(rig->length + 1);
    assert_non_null(rig->text);
    assert_int_equal(fread(rig->text, 1, rig->length, file), rig->length);
    fclose(file);
}

static void
holds(const char *part)
{
    char                       why[256] = "";
    struct rig                 rig      = { .part = part };
    struct error               error    = { .kind = E_NONE };
    const struct trace_options traced   = { .clock = CLOCK_VIRTUAL_PS };
    struct trace_writer       *writer   = trace_create(&traced, why, sizeof why);
    assert_non_null(writer);
    read_text(&rig);
    const struct sched_options options = { .executor = EXECUTOR_STEPPED, .writer = writer };
    struct sched              *sched   = sched_new(&options, why, sizeof why);
    assert_non_null(sched);
    sched_run(sched, run_rig, &rig, &error);
    devices_free(sched);
    sched_free(sched);
    trace_close(writer);
    free(rig.text);
    if (error.kind != E_NONE)
        print_error("%s:%u: %s\n", error_name(error.kind), (unsigned)error.lesson_line, error.message);
    assert_int_equal(error.kind, E_NONE);
}

static void
find_match_gmatch_gsub_answer_as_luas_own(void **state)
{
    holds("patterns");
}

static void
they_do_for_random_patterns(void **state)
{
    holds("random_patterns");
}

static void
they_refuse_the_same_arguments(void **state)
{
    holds("wrong_arguments");
}

static void
insert_remove_move_concat_unpack_touch_tables_as_luas_own(void **state)
{
    holds("tables");
}

static void
sort_sorts_as_luas_own(void **state)
{
    holds("sort");
}

static void
what_is_charged_before_lua_does_it_answers_the_same(void **state)
{
    holds("charged");
}

static void
format_writes_texts_and_numbers_as_luas_own(void **state)
{
    holds("formats");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(find_match_gmatch_gsub_answer_as_luas_own),
        cmocka_unit_test(they_do_for_random_patterns),
        cmocka_unit_test(they_refuse_the_same_arguments),
        cmocka_unit_test(insert_remove_move_concat_unpack_touch_tables_as_luas_own),
        cmocka_unit_test(sort_sorts_as_luas_own),
        cmocka_unit_test(what_is_charged_before_lua_does_it_answers_the_same),
        cmocka_unit_test(format_writes_texts_and_numbers_as_luas_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
