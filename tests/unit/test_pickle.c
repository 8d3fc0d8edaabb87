/* Pickled values come back as they were, and bytes that were changed on their way are a value or a RuntimeError, nothing
 * else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "hw/cost.h"
#include "lua/internal.h"
#include "lua/pickle.h"
#include "sched/stage.h"
#include "trace/writer.h"

static const char values[] =
    "local rs = require 'ringside' "
    "local shared = { 1, 2, { 'x', rs.none, 1.5, 0/0 } } "
    "local v = { shared, shared, name = 'a\\0b', [-3] = true, [2.5] = 'half', [false] = math.mininteger, "
    "  t = rs.arange(6):reshape(2, 3):t(), b = rs.tensor{ true, false }, e = rs.zeros(0, 3), n = rs.tensor(7), "
    "  h = rs.tensor({ 1.5, -2 }, { dtype = 'bfloat16' }), p = rs.nn.Parameter(rs.ones(2)), "
    "  pair = rs.tuple(1, rs.tuple('two')) } "
    "v.self = v shared[4] = v "
    "return v";

struct bytes { char *all; size_t size; };

/* Argument 1: the bytes; answers what they say. */
static int
read_bytes_of(lua_State *L)
{
    const struct bytes *bytes = lua_touserdata(L, 1);
    unpickle(L, bytes->all, bytes->size);
    return 1;
}

static struct bytes
bytes_of(lua_State *L, int index)
{
    struct bytes bytes = { .size = pickle_size(L, index) };
    bytes.all = malloc(bytes.size);
    pickle(L, index, bytes.all, bytes.size);
    return bytes;
}

static void
push_made(lua_State *L)
{
    if (luaL_loadstring(L, values) != LUA_OK)
        lua_error(L);
    lua_call(L, 0, 1);
}

struct rig { lua_CFunction body; int refused, read, wrong; };

/* What comes back has the same bytes, so it is the same but for its identity. */
static int
there_and_back(lua_State *L)
{
    struct rig *rig = lua_touserdata(L, 1);
    push_made(L);
    struct bytes first = bytes_of(L, -1);
    unpickle(L, first.all, first.size);
    struct bytes second = bytes_of(L, -1);
    rig->wrong += first.size != second.size || memcmp(first.all, second.all, first.size) != 0;
    lua_getfield(L, -1, "self");
    rig->wrong += !lua_rawequal(L, -1, -2) || lua_rawequal(L, -1, -3);
    free(first.all);
    free(second.all);
    return 0;
}

static void
try_bytes(lua_State *L, struct rig *rig, struct bytes *bytes)
{
    lua_pushcfunction(L, read_bytes_of);
    lua_pushlightuserdata(L, bytes);
    if (lua_pcall(L, 1, 1, 0) == LUA_OK) {
        rig->read++;
        lua_pop(L, 1);
        return;
    }
    rig->refused++;
    bool told = lua_istable(L, -1) && lua_getfield(L, -1, "kind") == LUA_TSTRING;
    rig->wrong += !told || strcmp(lua_tostring(L, -1), "RuntimeError") != 0;
    lua_settop(L, 2);
}

/* In memory of just their length, so that a byte too many is noticed. */
static int
changed(lua_State *L)
{
    struct rig *rig = lua_touserdata(L, 1);
    push_made(L);
    struct bytes good  = bytes_of(L, -1);
    uint64_t     state = 7;
    for (int round = 0; round < 6000; round++) {
        struct bytes bytes = { .size = good.size };
        state = state * 6364136223846793005u + 1442695040888963407u;
        if (round % 3 == 0)
            bytes.size = (size_t)(state >> 33) % good.size;
        bytes.all = malloc(bytes.size + (bytes.size == 0));
        memcpy(bytes.all, good.all, bytes.size);
        for (int i = 0; i < round % 4 && bytes.size > 0; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            bytes.all[(size_t)(state >> 33) % bytes.size] = (char)(round % 2 == 0 ? state >> 20 : state >> 20 & 3);
        }
        try_bytes(L, rig, &bytes);
        free(bytes.all);
    }
    free(good.all);
    return 0;
}

static bool
run_body(struct task *me, void *argument)
{
    struct rig           *rig     = argument;
    struct script_options options = { 0 };
    if (!devices_ready(me, 1))
        return false;
    struct script *script = script_new(me, &options);
    bool           ok     = script != NULL && script_visit(me, script, rig->body, rig);
    script_free(me, script);
    return ok;
}

static void
run(struct rig *rig)
{
    char              why[256] = "";
    struct error      error    = { .kind = E_NONE };
    struct cost_model cost;
    assert_true(cost_preset(&cost, "classroom"));
    const struct trace_options traced = { .clock = CLOCK_VIRTUAL_PS };
    struct trace_writer *writer = trace_create(&traced, why, sizeof why);
    assert_non_null(writer);
    const struct sched_options options = { .executor = EXECUTOR_STEPPED, .writer = writer, .cost = &cost };
    struct sched *sched = sched_new(&options, why, sizeof why);
    assert_non_null(sched);
    sched_run(sched, run_body, rig, &error);
    devices_free(sched);
    sched_free(sched);
    trace_close(writer);
    if (error.kind != E_NONE)
        print_error("%s: %s\n", error_name(error.kind), error.message);
    assert_int_equal(error.kind, E_NONE);
    assert_int_equal(rig->wrong, 0);
}

static void
values_come_back_as_they_were(void **state)
{
    (void)state;
    run(&(struct rig){ .body = there_and_back });
}

static void
changed_bytes_are_a_value_or_refused(void **state)
{
    (void)state;
    struct rig rig = { .body = changed };
    run(&rig);
    assert_true(rig.refused > 2000);
    assert_true(rig.read > 500);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_back_as_they_were),
        cmocka_unit_test(changed_bytes_are_a_value_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
