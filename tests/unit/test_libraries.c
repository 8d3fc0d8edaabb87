/* Lua's libraries as lessons have them against Lua's own, in one state: libraries.lua compares results, messages and
 * the order in which tables are touched; hostile.txt has lessons that no budget would end if only Lua were counted. */
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

static const size_t MEMORY = (size_t)256 << 20;

struct rig {
    const char *part;       /* of libraries.lua; NULL: the text is a lesson by itself */
    const char *text;
    size_t      length;
    uint64_t    step_limit;
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
open_rig(struct task *me, lua_State *L, const struct rig *rig)
{
    if (rig->part == NULL)
        return true;
    lua_pushcfunction(L, open_plain);
    bool ok = script_call(L, me, 0, 0);
    lua_pushcfunction(L, add_plain_functions);
    ok = ok && script_call(L, me, 0, 0);
    lua_pushstring(L, rig->part);
    lua_setglobal(L, "wanted");
    return ok;
}

static bool
run_rig(struct task *me, void *argument)
{
    const struct rig           *rig     = argument;
    const struct script_options options = { 0 };
    if (!devices_ready(me, 1))
        return false;
    struct script *script = script_new(me, &options);
    if (script == NULL)
        return false;
    bool ok = open_rig(me, script->L, rig) && script_run_text(me, script, "lesson.lua", rig->text, rig->length);
    script_free(me, script);
    return ok;
}

static struct error
run(struct rig *rig)
{
    char                       why[256] = "";
    struct error               error    = { .kind = E_NONE };
    const struct trace_options traced   = { .clock = CLOCK_VIRTUAL_PS };
    struct trace_writer       *writer   = trace_create(&traced, why, sizeof why);
    assert_non_null(writer);
    const struct sched_options options = { .executor = EXECUTOR_STEPPED, .writer = writer,
                                           .work_limit = rig->step_limit, .memory_limit = MEMORY };
    struct sched              *sched   = sched_new(&options, why, sizeof why);
    assert_non_null(sched);
    sched_run(sched, run_rig, rig, &error);
    devices_free(sched);
    sched_free(sched);
    trace_close(writer);
    return error;
}

static char *
read_text(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *length = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(*length + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, *length, file), *length);
    text[*length] = '\0';
    fclose(file);
    return text;
}

static void
holds(const char *part)
{
    struct rig   rig   = { .part = part, .step_limit = UINT64_MAX };
    char        *text  = read_text("tests/unit/libraries.lua", &rig.length);
    rig.text           = text;
    struct error error = run(&rig);
    free(text);
    if (error.kind != E_NONE)
        print_error("%s:%u: %s\n", error_name(error.kind), (unsigned)error.lesson_line, error.message);
    assert_int_equal(error.kind, E_NONE);
}

/* Each line is a lesson, a tab, and how it ends. What would run for hours ends as soon as its steps are spent: a loop
 * that does not count keeps this test from ending. */
static void
no_call_of_a_library_outruns_the_budget(void **state)
{
    size_t length;
    char  *text = read_text("tests/unit/hostile.txt", &length);
    int    bad  = 0;
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        char *tab = strchr(line, '\t');
        assert_true(tab != NULL && tab < end);
        *tab = *end             = '\0';
        struct rig   rig        = { .text = line, .length = strlen(line), .step_limit = 5000000 };
        struct error error      = run(&rig);
        if (strcmp(error_name(error.kind), tab + 1) != 0) {
            print_error("%s\n  ends with %s (%s), must with %s\n", line, error_name(error.kind), error.message,
                        tab + 1);
            bad++;
        }
    }
    free(text);
    assert_int_equal(bad, 0);
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
        cmocka_unit_test(no_call_of_a_library_outruns_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
