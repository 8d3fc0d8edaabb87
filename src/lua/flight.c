/* dist.flight_recorder: what ranks called, with the fields of PyTorch's Flight Recorder. A rank sees its own calls, the
 * lesson those of its last spawn. dist._dump_fr_trace_json says it as a dump.
 *
 * Interface: lua_open_flight, flight_keep. */
#include "flight/flight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/str.h"
#include "base/vec.h"
#include "flight/dump.h"
#include "lua/dispatch.h"
#include "lua/rank.h"
#include "lua/spawn.h"

#define KEPT "ringside.flight"
#define VERSION "2.10"   /* of the fields, as PyTorch 2.15 numbers them */

/* ---- from a flight to tables; each pushes one value ---- */

static const char *
state_name(enum flight_state state)
{
    return state == FLIGHT_SCHEDULED ? "scheduled" : state == FLIGHT_STARTED ? "started" : "completed";
}

/* "[[3, 4], [5]]" as nested lists, "[float32]" as a list of texts. Ours are well formed. */
static const char *
push_list(lua_State *L, const char *text)
{
    lua_createtable(L, 4, 0);
    luaL_checkstack(L, 4, NULL);
    for (int i = 1; *text != '\0' && *text != ']'; i++) {
        text += strspn(text, " ,");
        size_t length = strcspn(text, ",]");
        if (*text == '[') {
            text = push_list(L, text + 1);
        } else {
            lua_pushlstring(L, text, length);
            lua_Integer whole;
            int         is_number;
            whole = lua_tointegerx(L, -1, &is_number);
            if (is_number) {
                lua_pop(L, 1);
                lua_pushinteger(L, whole);
            }
            text += length;
        }
        lua_rawseti(L, -2, i);
        text += strspn(text, " ,");
    }
    return *text == ']' ? text + 1 : text;
}

static void
set_list(lua_State *L, const char *name, const char *text)
{
    if (text == NULL)
        return;
    push_list(L, text + (*text == '['));
    lua_setfield(L, -2, name);
}

static void
set_known(lua_State *L, const char *name, int64_t value)
{
    if (value > 0)
        set_integer(L, -1, name, value);
}

/* "local:all_reduce", "local:send 1->2", "local:recv 3<-0". */
static void
set_profiling_name(lua_State *L, const struct flight_entry *entry, int rank)
{
    char name[120], who[16] = "any", way[48] = "";
    if (entry->peer >= 0)
        snprintf(who, sizeof who, "%d", entry->peer);
    if (entry->is_p2p)
        snprintf(way, sizeof way, " %d%s%s", rank, strstr(entry->operation, "send") != NULL ? "->" : "<-", who);
    snprintf(name, sizeof name, "%s:%s%s", entry->backend, entry->operation, way);
    set_text(L, -1, "profiling_name", name);
}

static void
set_frames(lua_State *L, const struct flight_entry *entry)
{
    lua_createtable(L, 1, 0);
    lua_createtable(L, 0, 3);
    set_text(L, -1, "name", entry->operation);
    set_text(L, -1, "filename", script_of(L)->name);
    set_integer(L, -1, "line", entry->line);
    lua_rawseti(L, -2, 1);
    lua_setfield(L, -2, "frames");
}

static void
push_entry(lua_State *L, const struct flight *flight, int rank, const struct flight_entry *entry)
{
    const struct flight_group *group = &flight->groups[entry->group];
    lua_createtable(L, 0, 24);
    set_integer(L, -1, "record_id", entry->record);
    set_integer(L, -1, "pg_id", entry->group);
    lua_createtable(L, 2, 0);
    lua_pushstring(L, group->name);
    lua_rawseti(L, -2, 1);
    lua_pushstring(L, group->description != NULL ? group->description : "");
    lua_rawseti(L, -2, 2);
    lua_setfield(L, -2, "process_group");
    set_integer(L, -1, "collective_seq_id", entry->is_p2p ? 0 : entry->sequence);
    set_integer(L, -1, "p2p_seq_id", entry->is_p2p ? entry->sequence : 0);
    set_integer(L, -1, "op_id", entry->record);
    set_profiling_name(L, entry, rank);
    set_list(L, "input_sizes", entry->input_sizes);
    set_list(L, "input_dtypes", entry->input_dtypes);
    set_list(L, "output_sizes", entry->output_sizes);
    set_list(L, "output_dtypes", entry->output_dtypes);
    set_text(L, -1, "state", state_name(entry->state));
    set_integer(L, -1, "time_created_ns", entry->created_ns);
    if (entry->state >= FLIGHT_STARTED)
        set_integer(L, -1, "time_discovered_started_ns", entry->started_ns);
    if (entry->state == FLIGHT_COMPLETED)
        set_integer(L, -1, "time_discovered_completed_ns", entry->completed_ns);
    set_flag(L, -1, "retired", entry->retired);
    set_known(L, "timeout_ms", entry->timeout_ms);
    set_flag(L, -1, "is_p2p", entry->is_p2p);
    set_frames(L, entry);
}

static void
set_config(lua_State *L, const struct flight *flight)
{
    lua_createtable(L, 0, flight->group_count);
    for (int i = 0; i < flight->group_count; i++) {
        const struct flight_group *group = &flight->groups[i];
        lua_createtable(L, 0, 3);
        set_text(L, -1, "name", group->name);
        set_text(L, -1, "desc", group->description != NULL ? group->description : "");
        lua_createtable(L, group->size, 0);
        for (int k = 0; k < group->size; k++) {
            lua_pushinteger(L, group->ranks[k]);
            lua_rawseti(L, -2, k + 1);
        }
        lua_setfield(L, -2, "ranks");
        lua_setfield(L, -2, group->name);
    }
    lua_setfield(L, -2, "pg_config");
}

static void
set_status(lua_State *L, const struct flight *flight, int rank)
{
    lua_createtable(L, 0, flight->group_count);
    for (int i = 0; i < flight->group_count; i++) {
        const struct flight_group *group = &flight->groups[i];
        int                        place = flight_group_rank(group, rank);
        if (place < 0)
            continue;
        lua_createtable(L, 0, 3);
        set_integer(L, -1, "last_enqueued_collective", group->progress[place].enqueued);
        set_integer(L, -1, "last_started_collective", group->progress[place].started);
        set_integer(L, -1, "last_completed_collective", group->progress[place].completed);
        lua_setfield(L, -2, group->name);
    }
    lua_setfield(L, -2, "pg_status");
}

static void
push_rank(lua_State *L, const struct flight *flight, int number)
{
    const struct flight_rank *rank = &flight->ranks[number];
    lua_createtable(L, 0, 5);
    set_text(L, -1, "version", VERSION);
    set_integer(L, -1, "rank", number);
    set_config(L, flight);
    set_status(L, flight, number);
    lua_createtable(L, rank->count < 4096 ? (int)rank->count : 0, 0);
    for (size_t i = 0; i < rank->count; i++) {
        push_entry(L, flight, number, &rank->entries[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "entries");
}

/* ---- the function ---- */

static int
kept_gc(lua_State *L)
{
    flight_free(lua_touserdata(L, 1));
    return 0;
}

struct flight *
flight_keep(lua_State *L)
{
    struct flight *flight = push_owned(L, sizeof *flight, KEPT, kept_gc);
    *flight               = (struct flight){ 0 };
    lua_setfield(L, LUA_REGISTRYINDEX, KEPT " last");
    return flight;
}

static void
check_whole(lua_State *L, const struct flight *flight)
{
    if (flight->broken)
        raise_error(L, "MemoryError", "out of memory for what the ranks called");
}

/* Both push what holds the flight. */
static const struct flight *
flight_of_rank(lua_State *L, struct task *me, const struct rank *rank)
{
    struct flight *flight = push_owned(L, sizeof *flight, KEPT, kept_gc);
    *flight               = (struct flight){ 0 };
    flight_of_world(me, rank->context.world, flight);
    check_whole(L, flight);
    return flight;
}

static const struct flight *
flight_of_last_spawn(lua_State *L)
{
    if (lua_getfield(L, LUA_REGISTRYINDEX, KEPT " last") == LUA_TNIL)
        raise_error(L, "ValueError", "no ranks yet whose calls could be shown: dist.spawn starts some");
    const struct flight *flight = lua_touserdata(L, -1);
    check_whole(L, flight);
    return flight;
}

/* dist.flight_recorder() */
static int
l_flight_recorder(lua_State *L)
{
    struct task      *me   = script_task(L);
    struct rank      *rank = script_of(L)->parts[SCRIPT_DISTRIBUTED];
    struct arguments  a;
    take_arguments(L, &a);
    if (rank != NULL) {
        push_rank(L, flight_of_rank(L, me, rank), rank->context.rank);
        return 1;
    }
    const struct flight *flight = flight_of_last_spawn(L);
    lua_createtable(L, flight->rank_count, 1);
    for (int i = 0; i < flight->rank_count; i++) {
        push_rank(L, flight, i);
        lua_rawseti(L, -2, i);
    }
    return 1;
}

/* ---- as a dump ---- */

static int
text_gc(lua_State *L)
{
    str_free(lua_touserdata(L, 1));
    return 0;
}

/* Of one rank its dump, of several an object of theirs by rank: ringside hang reads both. */
static int
push_dump(lua_State *L, const struct flight *flight, int first, int count)
{
    struct str *text = push_owned(L, sizeof *text, KEPT " text", text_gc);
    *text            = (struct str){ 0 };
    bool good        = true;
    for (int rank = first; rank < first + count; rank++) {
        if (count > 1)
            str_addf(text, "%s\"%d\": ", rank > first ? ", " : "{", rank);
        good = flight_write_json(flight, rank, text) && good;
    }
    str_add(text, count > 1 ? "}\n" : "");
    if (!good || !str_ok(text))
        raise_error(L, "MemoryError", "out of memory for what the ranks called");
    lua_pushlstring(L, str_text(text), text->len);
    return 1;
}

/* dist._dump_fr_trace_json() */
static int
l_dump_fr_trace_json(lua_State *L)
{
    struct task      *me   = script_task(L);
    struct rank      *rank = script_of(L)->parts[SCRIPT_DISTRIBUTED];
    struct arguments  a;
    take_arguments(L, &a);
    if (rank != NULL) {
        const struct flight *flight = flight_of_rank(L, me, rank);
        return push_dump(L, flight, rank->context.rank, 1);
    }
    const struct flight *flight = flight_of_last_spawn(L);
    return push_dump(L, flight, 0, flight->rank_count);
}

static const struct lua_entry entries[] = {
    { "_dump_fr_trace_json", l_dump_fr_trace_json, "dist._dump_fr_trace_json() -> any",
      "the same as a text of JSON, which ringside hang and PyTorch's analysers read" },
    { "flight_recorder", l_flight_recorder, "dist.flight_recorder() -> any",
      "a rank's calls of its groups, the last ones, with the fields of PyTorch's Flight Recorder; outside of a rank a "
      "list of those of the last spawn's ranks, also of one that failed" },
};

void
lua_open_flight(lua_State *L)
{
    fill_namespace(L, "distributed", entries, countof(entries));
}
