/* rs.lesson, rs.say, rs.ask, rs.check, rs.close and their like: how a lesson talks. The counting and printing is
 * narration.c's, nearness is close.c's.
 *
 * Interface: lua_open_lesson. */
#include "lua/lesson.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/rng.h"
#include "base/vec.h"
#include "device/device.h"
#include "hw/cost.h"
#include "hw/presets.h"
#include "lua/choices.h"
#include "lua/close.h"
#include "lua/dial.h"
#include "lua/internal.h"
#include "lua/json.h"
#include "lua/spawn.h"
#include "sched/sched.h"
#include "sched/stage.h"
#include "tensor/tensor.h"
#include "trace/schema.h"
#include "trace/writer.h"

enum { LESSON_DEVICES = DEVICE_MAX, LESSON_COSTS = 64 };

static void
drop_own_lesson(struct task *me, void *lesson)
{
    sched_set_part(me->sched, PART_LESSON, NULL);
    lesson_free(lesson);
}

/* A script that runs without a command line around it speaks to its own output. */
static struct lesson *
lesson_here(lua_State *L, struct task *me)
{
    struct lesson *lesson = lesson_of(me);
    struct script *script = script_of(L);
    if (lesson != NULL)
        return lesson;
    struct lesson_options options = { .name = script->name, .out = script->options.out,
                                      .trusted = script->options.trusted };
    lesson = lesson_new(&options);
    if (lesson == NULL)
        raise_error(L, "MemoryError", "out of memory");
    script->parts[SCRIPT_LESSON]     = lesson;
    script->drop_part[SCRIPT_LESSON] = drop_own_lesson;
    sched_set_part(me->sched, PART_LESSON, lesson);
    return lesson;
}

/* ---- rs.lesson ---- */

struct declared {
    struct lesson_head head;
    struct cost_model  costs;
    uint64_t           device_memory[LESSON_DEVICES]; /* bytes; 0: what the hardware has */
    const char        *show;                          /* what `next` stops at too; NULL: nothing more */
    struct dial        dial;
};

static int
by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* In order of their names: the order of a Lua table is not repeatable, and the trace says what they are. */
static void
read_costs(lua_State *L, int table, struct cost_model *costs)
{
    const char *names[LESSON_COSTS];
    size_t      count = 0;
    check_table(L, table);
    for (lua_pushnil(L); lua_next(L, table) != 0; lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING || lua_type(L, -1) != LUA_TNUMBER)
            raise_error(L, "TypeError", "costs are a table like { host = 1, kernel = 10, Linear_backward = 500 } (us)");
        if (count == LESSON_COSTS)
            raise_error(L, "ValueError", "at most %d costs", LESSON_COSTS);
        names[count++] = lua_tostring(L, -2);
    }
    qsort(names, count, sizeof names[0], by_text);
    for (size_t i = 0; i < count; i++) {
        lua_getfield(L, table, names[i]);
        if (!cost_set(costs, names[i], lua_tonumber(L, -1)))
            raise_error(L, "ValueError", "cost '%s' = %s: prices are 0 to 1e12 us, names at most 47 letters", names[i],
                        lua_tostring(L, -1));
        lua_pop(L, 1);
    }
}

static int
small_option(lua_State *L, int table, const char *name, int64_t most)
{
    int64_t value = option_integer(L, table, name, 0);
    if (value < 0 || value > most)
        raise_error(L, "ValueError", "%s = %lld: 0 to %lld", name, (long long)value, (long long)most);
    return (int)value;
}

static uint64_t
check_memory(lua_State *L, int index)
{
    int64_t bytes = check_integer(L, index);
    if (bytes <= 0)
        raise_error(L, "ValueError", "device_memory is a number of bytes above 0, not %lld", (long long)bytes);
    return (uint64_t)bytes;
}

/* One number for all devices, or a list with one for each. */
static void
read_device_memory(lua_State *L, int table, struct declared *out)
{
    if (!option_push(L, table, "device_memory"))
        return;
    int  given = lua_gettop(L);
    bool list  = lua_type(L, given) == LUA_TTABLE;
    if (list && lua_rawlen(L, given) != (size_t)out->head.devices)
        raise_error(L, "ValueError", "device_memory has %lld entries for %d devices",
                    (long long)lua_rawlen(L, given), out->head.devices);
    for (int i = 0; i < out->head.devices; i++) {
        if (list)
            lua_rawgeti(L, given, i + 1);
        out->device_memory[i] = check_memory(L, -1);
        lua_settop(L, given);
    }
    lua_pop(L, 1);
}

/* { latency =, bandwidth = } of the table at `table`; what is not given stays. */
static void
read_link(lua_State *L, int table, const char *name, struct link_price *link)
{
    if (!option_push(L, table, name))
        return;
    int given = lua_gettop(L);
    check_table(L, given);
    option_known(L, given, "latency bandwidth");
    link->latency_us   = option_number(L, given, "latency", link->latency_us);
    link->bytes_per_us = option_number(L, given, "bandwidth", link->bytes_per_us);
    if (!(link->latency_us >= 0 && link->latency_us <= 1e12) || !(link->bytes_per_us > 0 && link->bytes_per_us <= 1e12))
        raise_error(L, "ValueError", "topology's %s: latency is 0 to 1e12 us, bandwidth more than 0 and at most 1e12 "
                                     "bytes a us", name);
    lua_pop(L, 1);
}

/* Which ranks share a node: the hardware's price is that of both kinds of links unless they say theirs. */
static void
read_topology(lua_State *L, int table, struct cost_model *costs)
{
    if (!option_push(L, table, "topology"))
        return;
    int given = lua_gettop(L);
    check_table(L, given);
    option_known(L, given, "ranks_per_node intra inter");
    struct topology *topology = &costs->topology;
    topology->intra = topology->inter = (struct link_price){ costs->latency_us, costs->bytes_per_us };
    topology->ranks_per_node = small_option(L, given, "ranks_per_node", 1024);
    if (topology->ranks_per_node == 0)
        raise_error(L, "ValueError", "topology needs ranks_per_node: { ranks_per_node = 8, inter = { latency = 25, "
                                     "bandwidth = 10000 } }");
    read_link(L, given, "intra", &topology->intra);
    read_link(L, given, "inter", &topology->inter);
    lua_pop(L, 1);
}

/* What the lesson is about although `next` passes over it elsewhere. */
static const char *
read_show(lua_State *L, int table)
{
    const char *show = option_text(L, table, "show", NULL);
    if (show != NULL && strcmp(show, "stores") != 0)
        raise_error(L, "ValueError", "rs.lesson: show = \"%.40s\"; there is \"stores\"", show);
    return show;
}

/* May raise; nothing has happened yet. */
static void
read_declaration(lua_State *L, int table, const struct lesson_options *options, struct declared *out)
{
    option_known(L, table, "title devices hardware seed costs world minutes needs prefix device_memory topology hops "
                           "check_ranks show story tell");
    const char *title    = option_text(L, table, "title", NULL);
    const char *hardware = option_text(L, table, "hardware", "classroom");
    if (title == NULL)
        raise_error(L, "ValueError", "rs.lesson needs a title: rs.lesson { title = \"...\" }");
    if (preset_find(hardware) == NULL)
        raise_error(L, "ValueError", "unknown hardware '%s'; 'ringside devices' lists what there is", hardware);
    out->head.title   = title;
    out->head.prefix  = option_text(L, table, "prefix", NULL);
    out->head.devices = small_option(L, table, "devices", LESSON_DEVICES);
    out->head.world   = options->world > 0 ? options->world : small_option(L, table, "world", 1024);
    option_number(L, table, "minutes", 0);
    read_device_memory(L, table, out);
    if (option_push(L, table, "seed")) {
        out->head.has_seed = true;
        out->head.seed     = (uint64_t)check_integer(L, -1);
        lua_pop(L, 1);
    }
    out->head.other_hardware = options->hardware != NULL && strcmp(options->hardware, hardware) != 0;
    cost_preset(&out->costs, options->hardware != NULL ? options->hardware : hardware);
    if (option_push(L, table, "costs")) {
        read_costs(L, lua_gettop(L), &out->costs);
        lua_pop(L, 1);
    }
    read_topology(L, table, &out->costs);
    out->show      = read_show(L, table);
    read_dial(L, table, &out->dial);
    out->head.hops = options->hops || option_bool(L, table, "hops", false);
    out->head.check_ranks = options->check_ranks || option_bool(L, table, "check_ranks", false);
}

static void
record_number(struct trace_writer *writer, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    trace_option(writer, key, text);
}

static void
record_options(struct task *me, const struct declared *declared)
{
    struct trace_writer *writer = sched_writer(me->sched);
    char                 costs[1024];
    if (writer == NULL)
        return;
    cost_print(&declared->costs, costs, sizeof costs);
    trace_option(writer, "title", declared->head.title);
    trace_option(writer, "hardware", declared->costs.preset);
    trace_option(writer, "costs", costs);
    if (declared->show != NULL)
        trace_option(writer, "show", declared->show);
    record_dial(writer, &declared->dial);
    record_number(writer, "devices", (uint64_t)declared->head.devices);
    if (declared->head.world > 0)
        record_number(writer, "world", (uint64_t)declared->head.world);
    if (declared->head.has_seed)
        record_number(writer, "seed", declared->head.seed);
}

static bool
declare(struct task *me, struct lesson *lesson, const struct declared *declared)
{
    record_options(me, declared);
    lesson_begin(me, lesson, &declared->head);
    *sched_cost(me->sched) = declared->costs;
    if (declared->head.has_seed) {
        struct generator *generator = default_generator(me);
        if (generator == NULL)
            return false;
        generator_seed(generator, declared->head.seed);
    }
    bool ok = devices_ready(me, declared->head.devices);
    for (int i = 0; ok && i < declared->head.devices; i++)
        ok = declared->device_memory[i] == 0 || device_set_total(me, i, declared->device_memory[i]);
    return ok;
}

static int
l_lesson(lua_State *L)
{
    struct task    *me     = script_task(L);
    struct lesson  *lesson = lesson_here(L, me);
    struct declared declared = { .head = *lesson_head(lesson) };
    check_table(L, 1);
    refuse_in_rank(L, "rs.lesson");
    if (lesson_begun(lesson))
        raise_error(L, "RuntimeError", "rs.lesson is called once, at the top of the lesson");
    read_declaration(L, 1, lesson_options(lesson), &declared);
    struct script *script = script_of(L);
    uint64_t       seed   = declared.head.seed;
    for (size_t i = 0; declared.head.has_seed && i < countof(script->random); i++)
        script->random[i] = splitmix(&seed);

    struct call call = call_open(L, me, CALL_PLAIN);
    bool        ok   = declare(me, lesson, &declared);
    return call_done(&call, ok);
}

/* ---- narration ---- */

/* What is told is kept in the trace, shown on a screen and read by people. */
enum { WORDS_BYTES = 64 << 10 };

/* The text at index, or raises. */
static const char *
check_words(lua_State *L, int index)
{
    const char *text   = check_text(L, index);
    size_t      length = lua_rawlen(L, index);
    if (length > WORDS_BYTES)
        raise_error(L, "ValueError", "a text of %zu bytes is too long to be told: at most %d", length, WORDS_BYTES);
    script_charge(L, 8 + length / WORK_BYTES);
    return text;
}

static int
l_say(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct lesson *lesson = lesson_here(L, me);
    int            count  = lua_gettop(L);
    luaL_checkstack(L, 2 * count + 4, "too many things to say");
    lua_pushliteral(L, "");
    for (int i = 1; i <= count; i++) {
        if (i > 1)
            lua_pushliteral(L, " ");
        push_text(L, i);
    }
    lua_concat(L, lua_gettop(L) - count);
    const char *text = check_words(L, -1);
    struct call call = call_open(L, me, CALL_PLAIN);
    bool        ok   = lesson_say(me, lesson, script_rank(script_of(L)), text);
    return call_done(&call, ok);
}

static int
l_teacher(lua_State *L)
{
    struct lesson *lesson = lesson_here(L, script_task(L));
    if (lesson_options(lesson)->teacher)
        lesson_note(lesson, script_rank(script_of(L)), "teacher", check_words(L, 1));
    return 0;
}

static int
l_hint(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct lesson *lesson = lesson_here(L, me);
    if (lesson_failed(lesson) == 0)
        return 0;
    const char *text = check_words(L, 1);
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_done(&call, lesson_hint(me, lesson, script_rank(script_of(L)), text));
}

/* The first time only: what is said again for each batch is no longer read. */
void
lesson_warn(lua_State *L, const char *text)
{
    struct script *script = script_of(L);
    struct task   *me     = script->holder;
    struct lesson *lesson = lesson_of(me);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, "ringside.warned");
    bool before = lua_getfield(L, -1, text) != LUA_TNIL;
    lua_pushboolean(L, true);
    lua_setfield(L, -3, text);
    lua_pop(L, 2);
    if (before)
        return;
    int64_t id = stage_text_id(me, text);
    POINT(me, lesson_warning, id);
    if (lesson != NULL)
        lesson_note(lesson, script_rank(script), "warning", text);
}

static int
warn_body(lua_State *L)
{
    lesson_warn(L, *(const char *const *)lua_touserdata(L, 1));
    return 0;
}

/* A worker that has not called into a script yet belongs to none: its warning is in the trace alone. */
void
lesson_warn_of_engine(struct task *me, const char *text)
{
    struct script *script = task_script(me);
    if (script != NULL)
        (void)!script_visit(me, script, warn_body, &text);
}

/* ---- questions ---- */

/* What a question has at most on the stack: the words it was given, as long as the call. */
struct asked { struct lesson_question ask; struct lesson_choice choices[LESSON_CHOICES]; };

static int
choice_at(const struct lesson_question *ask, const char *text)
{
    for (int i = 0; i < ask->choice_count; i++)
        if (strcmp(ask->choices[i].text, text) == 0)
            return i;
    return -1;
}

/* Texts of the list at the top. */
static void
read_choices(lua_State *L, struct asked *asked)
{
    int table = lua_gettop(L), count = 0;
    check_table(L, table);
    for (; count < LESSON_CHOICES && lua_rawgeti(L, table, count + 1) != LUA_TNIL; count++) {
        push_text(L, lua_gettop(L));
        lua_remove(L, -2);
        asked->choices[count].text = check_words(L, -1);
        luaL_checkstack(L, 8, "too many choices");
    }
    if (count == 0)
        raise_error(L, "ValueError", "rs.ask: an empty list of choices; leave it out where any answer may be given");
    asked->ask.choices      = asked->choices;
    asked->ask.choice_count = count;
}

/* Raises: `what` is none of the choices. */
static void
refuse_choice(lua_State *L, const struct lesson_question *ask, const char *what, const char *text)
{
    char   said[400];
    size_t used = 0;
    said[0]     = '\0';
    for (int i = 0; i < ask->choice_count && used < sizeof said; i++)
        used += (size_t)snprintf(said + used, sizeof said - used, "%s\"%.60s\"", i > 0 ? ", " : "",
                                 ask->choices[i].text);
    raise_error(L, "ValueError", "rs.ask: %s \"%.80s\" is none of the choices: %s", what, text,
                ask->choice_count > 0 ? said : "there are none");
}

/* The table at the top: for each choice that is wrong what is said of it. */
static void
read_wrong(lua_State *L, struct asked *asked)
{
    int table = lua_gettop(L), count, keys;
    check_table(L, table);
    count = push_sorted_keys(L, table);
    keys  = lua_gettop(L);
    luaL_checkstack(L, count + 12, "too many choices");
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(L, keys, i);
        push_text(L, lua_gettop(L));
        int choice = choice_at(&asked->ask, check_words(L, -1));
        if (choice < 0)
            refuse_choice(L, &asked->ask, "wrong's", lua_tostring(L, -1));
        if (strcmp(asked->choices[choice].text, asked->ask.answer) == 0)
            raise_error(L, "ValueError", "rs.ask: wrong's \"%.80s\" is the answer", asked->ask.answer);
        lua_pop(L, 1);
        lua_rawget(L, table);
        asked->choices[choice].wrong = check_words(L, -1); /* the table keeps it */
        lua_pop(L, 1);
    }
}

/* "dp.scatter.chunk" or what kinds begin with: "dp.scatter", "dp". */
static void
check_kind(lua_State *L, const char *kind)
{
    size_t length = strlen(kind);
    for (int i = KIND_NONE + 1; i < KIND_COUNT && length > 0; i++) {
        const char *name = kind_table[i].name;
        if (strncmp(name, kind, length) == 0 && (name[length] == '\0' || name[length] == '.'))
            return;
    }
    no_kind(L, "rs.ask: hides", kind);
}

/* A kind or a list of them, at the top, becomes a text with blanks between, pushed. */
static const char *
read_hides(lua_State *L)
{
    int value = lua_gettop(L), count = 0;
    if (!lua_istable(L, value)) {
        check_kind(L, check_words(L, value));
        return lua_tostring(L, value);
    }
    lua_pushliteral(L, "");
    while (lua_rawgeti(L, value, count + 1) != LUA_TNIL) {
        check_kind(L, check_words(L, -1));
        if (count++ > 0) {
            lua_pushliteral(L, " ");
            lua_insert(L, -2);
        }
        lua_concat(L, count > 1 ? 3 : 2);
    }
    lua_pop(L, 1);
    return check_words(L, -1);
}

/* Argument 1 is the question. What is read stays on the stack. */
static void
read_question(lua_State *L, struct asked *asked)
{
    struct lesson_question *ask = &asked->ask;
    check_table(L, 1);
    options_listed(L, 1, "question choices answer why wrong hides");
    if (lua_rawgeti(L, 1, 1) == LUA_TNIL)
        lua_getfield(L, 1, "question");
    ask->question = lua_isstring(L, -1) ? check_words(L, -1) : NULL;
    if (lua_getfield(L, 1, "answer") != LUA_TNIL)
        push_text(L, lua_gettop(L));
    ask->answer = lua_isstring(L, -1) ? check_words(L, -1) : NULL;
    if (ask->question == NULL || ask->answer == NULL)
        raise_error(L, "ValueError", "rs.ask { \"How many?\", answer = \"3\" } needs a question and an answer");
    ask->why = option_text(L, 1, "why", NULL);
    if (option_push(L, 1, "choices"))
        read_choices(L, asked);
    if (ask->choice_count > 0 && choice_at(ask, ask->answer) < 0)
        refuse_choice(L, ask, "the answer", ask->answer);
    if (option_push(L, 1, "wrong"))
        read_wrong(L, asked);
    if (option_push(L, 1, "hides"))
        ask->hides = read_hides(L);
}

/* rs.ask { "How many?", choices = { "4", "3" }, answer = "3", why = "..." }, headless: answered by its own answer. */
static int
l_ask(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct lesson *lesson = lesson_here(L, me);
    struct asked   asked  = { 0 };
    refuse_in_rank(L, "rs.ask");
    read_question(L, &asked);
    struct call call = call_open(L, me, CALL_PLAIN);
    bool        ok   = lesson_ask(me, lesson, &asked.ask);
    call_end(&call, ok);
    lua_pushstring(L, asked.ask.answer);
    return call_leave(&call, 1);
}

/* ---- checks ---- */

/* Checks of virtual times hold on the stepped executor and on the lesson's own hardware only. NULL: go on. */
static const char *
why_no_lesson(lua_State *L, struct task *me, struct lesson *lesson, int options)
{
    if (options == 0 || !option_bool(L, options, "virtual", false))
        return NULL;
    if (!sched_is_stepped(me->sched))
        return "times are wall times in free";
    if (lesson_head(lesson)->other_hardware)
        return "priced by other hardware than the lesson's";
    return NULL;
}

/* A trailing table whose only names are those of options; 0: there is none at `index`. */
static int
check_options(lua_State *L, int index)
{
    int table = option_table(L, index);
    option_known(L, table, "virtual atol rtol hints");
    return table;
}

/* A list of texts becomes one, pushed: a line for each. NULL: there are none. */
static const char *
read_hints(lua_State *L, int options)
{
    if (options == 0 || !option_push(L, options, "hints"))
        return NULL;
    int list = lua_gettop(L), count = 0;
    check_table(L, list);
    lua_pushliteral(L, "");
    while (lua_rawgeti(L, list, count + 1) != LUA_TNIL) {
        luaL_gsub(L, check_words(L, -1), "\n", " ");
        lua_remove(L, -2);
        if (count++ > 0) {
            lua_pushliteral(L, "\n");
            lua_insert(L, -2);
        }
        lua_concat(L, count > 1 ? 3 : 2);
    }
    lua_pop(L, 1);
    return count > 0 ? check_words(L, -1) : NULL;
}

static int
tell_lesson(lua_State *L, struct task *me, struct lesson *lesson, struct lesson_check *check)
{
    check->rank      = script_rank(script_of(L));
    check->line      = me->line;
    struct call call = call_open(L, me, CALL_PLAIN);
    bool        done = lesson_check(me, lesson, check);
    call_end(&call, done);
    lua_pushboolean(L, check->ok);
    return call_leave(&call, 1);
}

static int
l_check(lua_State *L)
{
    struct task        *me     = script_task(L);
    struct lesson      *lesson = lesson_here(L, me);
    struct lesson_check check  = { .name = check_words(L, 1), .ok = lua_toboolean(L, 2) };
    if (lua_type(L, 2) == LUA_TNUMBER && lua_type(L, 3) == LUA_TNUMBER)
        lua_settop(L, 2);   /* text:find(...) answers where it begins, and where it ends */
    int options = check_options(L, 3);
    check.skip = why_no_lesson(L, me, lesson, options);
    check.ok   = check.ok || check.skip != NULL;
    if (!check.ok && lua_isnoneornil(L, 2))
        check.detail = "got nil";
    check.hints = read_hints(L, options);
    return tell_lesson(L, me, lesson, &check);
}

/* rs.close(name, got, expected [, tolerance] [, { virtual =, atol =, rtol = }]) */
static int
l_close(lua_State *L)
{
    struct task        *me        = script_task(L);
    struct lesson      *lesson    = lesson_here(L, me);
    struct lesson_check check     = { .name = check_words(L, 1), .ok = true };
    struct closeness    closeness = { .absolute = 1e-6, .relative = 1e-6, .veiled = lesson_examines(lesson) };
    bool                plain     = lua_type(L, 4) == LUA_TNUMBER;
    int                 options   = check_options(L, plain ? 5 : 4);
    if (lua_isnone(L, 3))
        arg_error(L, 3, "what is expected");
    if (plain)
        closeness = (struct closeness){ .absolute = lua_tonumber(L, 4), .veiled = closeness.veiled };
    if (options != 0) {
        closeness.absolute = option_number(L, options, "atol", closeness.absolute);
        closeness.relative = option_number(L, options, "rtol", closeness.relative);
    }
    check.skip = why_no_lesson(L, me, lesson, options);
    if (check.skip == NULL) {
        check.ok     = values_close(L, 2, 3, &closeness);
        check.detail = closeness.why;
    }
    check.hints = read_hints(L, options);
    return tell_lesson(L, me, lesson, &check);
}

static int
l_skip(lua_State *L)
{
    struct task        *me    = script_task(L);
    struct lesson_check check = { .name = check_words(L, 1), .skip = check_words(L, 2), .ok = true };
    return tell_lesson(L, me, lesson_here(L, me), &check);
}

/* With `lock` it is Lua's own work, during which nobody else runs Lua; without, the lock is let go, as in a sleep. */
static int
l_advance(lua_State *L)
{
    struct task *me   = script_task(L);
    double       us   = check_number(L, 1);
    bool         lock = flag_or_option(L, 2, "lock", false);
    if (!(us >= 0 && us <= 1e12))
        return raise_error(L, "ValueError", "rs.advance takes 0 to 1e12 us");
    struct call call = call_open(L, me, lock ? CALL_KEEP : CALL_PLAIN);
    sched_advance(me, cost_us(us));
    return call_done(&call, true);
}

static const struct lua_entry lesson_entries[] = {
    { "lesson", l_lesson,
      "rs.lesson{title=, devices=, hardware=, seed=, costs=, world=, minutes=, needs=, prefix=, device_memory=, "
      "topology=, hops=, check_ranks=, show=, story=, tell=}",
      "Declares the lesson, at its top. Costs are in microseconds, by op or module. show = \"stores\": the debugger's "
      "stage stops at each rendezvous and store. story, tell: what else its story stops at, or passes over, and its "
      "own sentences." },
    { "say", l_say, "rs.say(text, ...)",
      "Narration: what it is given, with blanks between; in a rank with its number in front." },
    { "ask", l_ask, "rs.ask{question, choices=, answer=, why=, wrong=, hides=}",
      "A question to the learner; without a screen its own answer is taken. Answers the answer. wrong: what is said of "
      "a choice when it is given, as {[\"4\"] = \"...\"}; hides: the kind of event, what kinds begin with, or a list "
      "of them, that the screen keeps back until it is answered." },
    { "check", l_check, "rs.check(name, ok [, {virtual=true, hints=}])",
      "One check of the lesson. virtual: about virtual time, skipped in free. hints: a list of texts, which help one "
      "after the other whoever fails it." },
    { "close", l_close, "rs.close(name, got, expected [, tolerance] [, {virtual=, atol=, rtol=, hints=}])",
      "A check that numbers, tables or tensors are nearly equal (1e-6). Among the checks of an exercise it says how "
      "they differ, but no expected number." },
    { "skip", l_skip, "rs.skip(name, reason)", "A check that cannot be made here." },
    { "advance", l_advance, "rs.advance(us [, {lock=}])",
      "Host work of so many microseconds: moves this task's virtual clock on. Replicas do it side by side." },
    { "teacher", l_teacher, "rs.teacher(text)", "A note for teachers, shown with --teacher." },
    { "hint", l_hint, "rs.hint(text)", "Shown if a check before it has failed: an exercise ends with its hints." },
};

void
lua_open_lesson(lua_State *L)
{
    const struct script_options *options = &script_of(L)->options;
    push_ringside(L);
    add_entries(L, lua_gettop(L), lesson_entries, countof(lesson_entries));
    lua_createtable(L, options->arg_count, 0);
    for (int i = 0; i < options->arg_count; i++) {
        lua_pushstring(L, options->args[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "args");
    lua_pop(L, 1);
    lua_open_json(L);
}
