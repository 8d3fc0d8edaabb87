/* rs.trace: questions to the events recorded so far. A filter is an expression of trace/match.h, or a table
 * { kind = "dp.scatter.chunk", rank =, device =, iter =, phase =, lane =, bytes = ... }. A stage counts once, by its
 * begin; its arguments are those that it ended with. Ask a stage's arguments after it ended.
 *
 * Interface: lua_open_trace. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "analysis/state.h"
#include "base/vec.h"
#include "c10d/nccl.h"
#include "device/real.h"
#include "device/stream.h"
#include "lua/internal.h"
#include "lua/trace_job.h"
#include "sched/sched.h"
#include "trace/match.h"
#include "trace/reader.h"
#include "trace/writer.h"

enum { FILTER_FIELDS = 12, FILTER_ORDER = 64 };

enum event_field { FIELD_RANK, FIELD_DEVICE, FIELD_ITER, FIELD_LINE, FIELD_FLOW, FIELD_SEQ, FIELD_LANE, FIELD_ARG };

struct condition {
    enum event_field  field;
    const char *name;       /* FIELD_ARG */
    const char *text;       /* a text to be equal to, else `number` */
    double      number;
};

/* A compiled filter; lives as userdata, so that an error on the way frees it. */
struct filter {
    struct match    *match; /* of the kind, or the whole expression */
    struct condition conditions[FILTER_FIELDS];
    int              count;
};

static int
filter_gc(lua_State *L)
{
    struct filter *filter = lua_touserdata(L, 1);
    match_free(filter->match);
    filter->match = NULL;
    return 0;
}

/* ---- the live trace ---- */

static void
drop_trace(struct task *me, void *trace)
{
    (void)me;
    trace_release(trace);
}

static void
let_devices_tell(lua_State *L, struct task *me)
{
    struct call call = call_open(L, me, CALL_PLAIN);
    bool        ok   = devices_tell(me);
    nccl_tell(me);
    call_done(&call, ok);
}

/* Everything recorded so far; in a job by all of its processes. Events are numbered in the order of their times, so
 * those of real devices have to be there first. */
static struct trace *
live_trace(lua_State *L)
{
    struct script       *script = script_of(L);
    struct trace        *trace  = script->parts[SCRIPT_TRACE];
    struct trace_writer *writer = sched_writer(script->sched);
    char                 why[256] = "there is none";
    if (devices_are_real(script->sched) && !sched_is_stepped(script->sched))
        let_devices_tell(L, script_task(L));
    if (trace == NULL && writer != NULL)
        trace = trace_open_live(writer, why, sizeof why);
    if (trace == NULL)
        raise_error(L, "RuntimeError", "the trace of this run cannot be read: %s", why);
    script->parts[SCRIPT_TRACE]     = trace;
    script->drop_part[SCRIPT_TRACE] = drop_trace;
    trace_refresh(trace);
    if (trace_starved(trace))
        raise_error(L, "MemoryError", "out of memory for the trace");
    if (trace_gone(trace))
        raise_error(L, "RuntimeError", "the trace of this run cannot be read any more: %s", trace_note(trace));
    if (trace_lost(writer) > 0) /* what is not recorded cannot be counted */
        raise_error(L, "RuntimeError", "the trace of this run is not whole: there was no room for it all, on the disk "
                    "or in memory");
    struct trace *whole = trace_job_whole(L, trace);
    return whole != NULL ? whole : trace;
}

/* What the reader, and the state that is folded from it, may need. */
static void
need_room(lua_State *L, struct trace *trace, size_t bytes_per_event)
{
    struct script *script = script_of(L);
    size_t         need   = trace_count(trace) * bytes_per_event, more = need - script->trace_charged;
    if (need <= script->trace_charged)
        return;
    if (!account_take(script->sched, more)) {
        memory_failed(script->holder, more, "the host");
        raise(L, script->holder);
    }
    script->trace_charged = need;
}

/* Before anything that depends on which end belongs to which begin: that costs memory for each event, so who only
 * counts does without. */
static void
need_partners(lua_State *L, struct trace *trace)
{
    enum { PARTNER_BYTES = 16 };
    need_room(L, trace, PARTNER_BYTES);
    if (!trace_whole(trace))
        raise_error(L, "MemoryError", "out of memory for the trace");
}

/* ---- filters ---- */

static void
compile_query(lua_State *L, struct filter *filter, struct trace *trace, const char *expression)
{
    struct match_names names = match_names_of_trace(trace);
    char               why[256] = "";
    filter->match = match_compile(expression, &names, why, sizeof why);
    if (filter->match == NULL)
        raise_error(L, "ValueError", "%s", why);
}

static enum event_field
event_field_of(const char *name)
{
    static const char *const names[] = { "rank", "device", "iter", "line", "flow", "seq", "lane" };
    for (size_t i = 0; i < countof(names); i++)
        if (strcmp(name, names[i]) == 0)
            return (enum event_field)i;
    return FIELD_ARG;
}

static bool
known_argument(struct trace *trace, const char *name)
{
    for (unsigned kind = 0; kind < trace_kinds(trace); kind++) {
        const struct trace_kind *info = trace_kind(trace, kind);
        for (int i = 0; i < info->arg_count; i++)
            if (strcmp(info->arg_name[i], name) == 0)
                return true;
    }
    return false;
}

/* Key and value at -2 and -1. */
static void
add_condition(lua_State *L, struct filter *filter, struct trace *trace)
{
    const char      *name = lua_tostring(L, -2);
    struct condition condition = { .field = event_field_of(name), .name = name };
    if (filter->count == FILTER_FIELDS)
        raise_error(L, "ValueError", "a filter has at most %d fields", FILTER_FIELDS);
    if (condition.field == FIELD_ARG && !known_argument(trace, name))
        raise_error(L, "ValueError", "no kind of event has an argument '%s'", name);
    if (condition.field == FIELD_ARG)
        need_partners(L, trace);
    if (condition.field == FIELD_DEVICE)
        condition.number = check_device(L, -1);
    else if (lua_type(L, -1) == LUA_TNUMBER)
        condition.number = lua_tonumber(L, -1);
    else if (lua_type(L, -1) == LUA_TBOOLEAN)
        condition.number = lua_toboolean(L, -1);
    else if (lua_type(L, -1) == LUA_TSTRING)
        condition.text = lua_tostring(L, -1);
    else
        raise_error(L, "TypeError", "%s: a filter compares with numbers, booleans and texts", name);
    filter->conditions[filter->count++] = condition;
}

/* The part about kind and phase, as an expression: `kind` may be a family ("dp", "dp.*"). */
static void
compile_kind(lua_State *L, struct filter *filter, struct trace *trace, int table)
{
    const char *kind  = option_text(L, table, "kind", NULL);
    const char *phase = option_text(L, table, "phase", NULL);
    char        text[256];
    if (phase != NULL && strcmp(phase, "begin") != 0 && strcmp(phase, "end") != 0 && strcmp(phase, "instant") != 0)
        raise_error(L, "ValueError", "phase is begin, end or instant, not '%s'", phase);
    if (kind != NULL && strspn(kind, "abcdefghijklmnopqrstuvwxyz0123456789_.*") != strlen(kind))
        raise_error(L, "ValueError", "'%s' is no kind of event", kind);
    if (kind != NULL && phase != NULL)
        snprintf(text, sizeof text, "%.200s and phase = %s", kind, phase);
    else if (phase != NULL)
        snprintf(text, sizeof text, "phase = %s", phase);
    else if (kind != NULL)
        snprintf(text, sizeof text, "%.200s", kind);
    else
        snprintf(text, sizeof text, "not phase = end");
    compile_query(L, filter, trace, text);
}

/* The filter at `index` (nil: every event), compiled; pushed. `also`: an option of the caller in the same table. */
static struct filter *
check_filter(lua_State *L, int index, struct trace *trace, const char *also)
{
    enum { FILTER_STEPS = 200, EVENTS_A_STEP = 2 };
    bool all = lua_isnoneornil(L, index);
    script_charge(L, FILTER_STEPS + trace_count(trace) / EVENTS_A_STEP); /* it will be asked of each event */
    struct filter *filter = push_owned(L, sizeof *filter, "ringside.filter", filter_gc);
    if (all) {
        compile_query(L, filter, trace, "not phase = end");
        return filter;
    }
    if (lua_type(L, index) == LUA_TSTRING) {
        compile_query(L, filter, trace, lua_tostring(L, index));
        return filter;
    }
    check_table(L, index);
    compile_kind(L, filter, trace, index);
    for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
        const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
        if (name == NULL)
            raise_error(L, "TypeError", "a filter is a table of names: { kind = \"dp.scatter\", rank = 0 }");
        if (strcmp(name, "kind") != 0 && strcmp(name, "phase") != 0 && (also == NULL || strcmp(name, also) != 0))
            add_condition(L, filter, trace);
    }
    return filter;
}

/* The event that holds a span's final arguments: its end if it has ended. */
static const struct trace_event *
final_event(struct trace *trace, size_t seq)
{
    const struct trace_event *event = trace_event(trace, seq);
    if (event->phase != PHASE_BEGIN)
        return event;
    size_t end = trace_partner(trace, seq);
    return end != SIZE_MAX ? trace_event(trace, end) : event;
}

/* false: the kind has no such argument. */
static bool
event_argument(struct trace *trace, size_t seq, const char *name, int64_t *value, const char **text)
{
    const struct trace_event *event = trace_event(trace, seq);
    const struct trace_kind  *kind  = trace_kind(trace, event->kind);
    for (int i = 0; i < kind->arg_count; i++) {
        if (strcmp(kind->arg_name[i], name) != 0)
            continue;
        *value = final_event(trace, seq)->args[i];
        *text  = strcmp(kind->arg_type[i], "text") == 0 ? trace_text_at(trace, *value) : NULL;
        return true;
    }
    return false;
}

static bool
condition_holds(struct trace *trace, const struct condition *c, size_t seq)
{
    const struct trace_event *event = trace_event(trace, seq);
    int64_t                   value = 0;
    const char               *text  = NULL;
    switch (c->field) {
    case FIELD_RANK: value = event->rank; break;
    case FIELD_DEVICE: value = event->device; break;
    case FIELD_ITER: value = event->iteration; break;
    case FIELD_LINE: value = event->line; break;
    case FIELD_FLOW: value = event->flow; break;
    case FIELD_SEQ: value = (int64_t)seq; break;
    case FIELD_LANE: text = trace_lane_at(trace, event->lane)->name; value = event->lane; break;
    case FIELD_ARG:
        if (!event_argument(trace, seq, c->name, &value, &text))
            return false;
        break;
    }
    if (c->text != NULL)
        return text != NULL && strcmp(text, c->text) == 0;
    return (text == NULL || c->field == FIELD_LANE) && (double)value == c->number;
}

static bool
filter_holds(struct trace *trace, const struct filter *filter, size_t seq)
{
    if (!match_event(filter->match, trace_event(trace, seq), seq, trace_time(trace, seq)))
        return false;
    for (int i = 0; i < filter->count; i++)
        if (!condition_holds(trace, &filter->conditions[i], seq))
            return false;
    return true;
}

/* The first match at or behind `from`; SIZE_MAX: none. */
static size_t
find_event(struct trace *trace, const struct filter *filter, size_t from)
{
    for (size_t seq = from; seq < trace_count(trace); seq++)
        if (filter_holds(trace, filter, seq))
            return seq;
    return SIZE_MAX;
}

/* ---- events as tables ---- */

static void
push_arguments(lua_State *L, struct trace *trace, size_t seq)
{
    const struct trace_kind  *kind  = trace_kind(trace, trace_event(trace, seq)->kind);
    const struct trace_event *final = final_event(trace, seq);
    lua_createtable(L, 0, kind->arg_count);
    for (int i = 0; i < kind->arg_count; i++) {
        if (strcmp(kind->arg_type[i], "text") == 0)
            set_text(L, -1, kind->arg_name[i], trace_text_at(trace, final->args[i]));
        else if (strcmp(kind->arg_type[i], "flag") == 0)
            set_flag(L, -1, kind->arg_name[i], final->args[i] != 0);
        else
            set_integer(L, -1, kind->arg_name[i], final->args[i]);
    }
}

static void
push_event(lua_State *L, struct trace *trace, size_t seq)
{
    static const char *const   phases[] = { "", "begin", "end", "instant" };
    const struct trace_event  *event = trace_event(trace, seq);
    const struct trace_kind   *kind  = trace_kind(trace, event->kind);
    luaL_checkstack(L, 8, "too many events");
    need_partners(L, trace);
    lua_createtable(L, 0, 12);
    set_integer(L, -1, "seq", (int64_t)seq);
    set_number(L, -1, "t", (double)trace_time(trace, seq) / 1000.0);
    set_text(L, -1, "phase", phases[event->phase & 3]);
    set_text(L, -1, "kind", kind->name);
    if (event->rank >= 0)
        set_integer(L, -1, "rank", event->rank);
    if (event->device >= 0)
        set_integer(L, -1, "device", event->device);
    set_text(L, -1, "lane", trace_lane_at(trace, event->lane)->name);
    set_integer(L, -1, "iter", event->iteration);
    if (event->flow != 0)
        set_integer(L, -1, "flow", event->flow);
    push_arguments(L, trace, seq);
    lua_setfield(L, -2, "args");
    lua_createtable(L, 0, 5);
    set_text(L, -1, "function", kind->function);
    set_text(L, -1, "file", kind->file);
    set_integer(L, -1, "line", kind->line);
    set_text(L, -1, "pytorch", kind->pytorch);
    if (event->line != 0)
        set_integer(L, -1, "lesson_line", event->line);
    lua_setfield(L, -2, "place");
}

/* ---- the methods; argument 1 is rs.trace ---- */

static int
count_events(lua_State *L)
{
    script_task(L);
    struct trace  *trace  = live_trace(L);
    struct filter *filter = check_filter(L, 2, trace, NULL);
    int64_t        count  = 0;
    for (size_t seq = find_event(trace, filter, 0); seq != SIZE_MAX; seq = find_event(trace, filter, seq + 1))
        count++;
    lua_pushinteger(L, count);
    return 1;
}

static int
list_events(lua_State *L)
{
    script_task(L);
    struct trace  *trace  = live_trace(L);
    struct filter *filter = check_filter(L, 2, trace, NULL);
    int64_t        count  = 0;
    lua_newtable(L);
    for (size_t seq = find_event(trace, filter, 0); seq != SIZE_MAX; seq = find_event(trace, filter, seq + 1)) {
        push_event(L, trace, seq);
        lua_rawseti(L, -2, ++count);
    }
    return 1;
}

static int
push_event_or_nil(lua_State *L, struct trace *trace, size_t seq)
{
    if (seq == SIZE_MAX)
        lua_pushnil(L);
    else
        push_event(L, trace, seq);
    return 1;
}

static int
first_event(lua_State *L)
{
    script_task(L);
    struct trace  *trace  = live_trace(L);
    struct filter *filter = check_filter(L, 2, trace, NULL);
    return push_event_or_nil(L, trace, find_event(trace, filter, 0));
}

static int
last_event(lua_State *L)
{
    script_task(L);
    struct trace  *trace  = live_trace(L);
    struct filter *filter = check_filter(L, 2, trace, NULL);
    for (size_t seq = trace_count(trace); seq > 0; seq--)
        if (filter_holds(trace, filter, seq - 1))
            return push_event_or_nil(L, trace, seq - 1);
    return push_event_or_nil(L, trace, SIZE_MAX);
}

struct event_place { size_t seq; int index; };

static int
by_seq(const void *a, const void *b)
{
    const struct event_place *x = a, *y = b;
    if (x->seq != y->seq)
        return x->seq < y->seq ? -1 : 1;
    return x->index - y->index;
}

/* Whether the first events of these filters came in this order; and in which order they did come (those that came). */
static int
order_of_events(lua_State *L)
{
    script_task(L);
    struct trace *trace = live_trace(L);
    struct event_place  places[FILTER_ORDER];
    bool          as_said = true;
    check_table(L, 2);
    int count = (int)lua_rawlen(L, 2);
    if (count > FILTER_ORDER)
        return raise_error(L, "ValueError", "at most %d filters", FILTER_ORDER);
    for (int i = 0; i < count; i++) {
        lua_rawgeti(L, 2, i + 1);
        places[i] = (struct event_place){ find_event(trace, check_filter(L, lua_gettop(L), trace, NULL), 0), i + 1 };
        as_said   = as_said && places[i].seq != SIZE_MAX && (i == 0 || places[i].seq > places[i - 1].seq);
        lua_settop(L, 2);
    }
    qsort(places, (size_t)count, sizeof places[0], by_seq);
    lua_pushboolean(L, as_said);
    lua_createtable(L, count, 0);
    for (int i = 0; i < count && places[i].seq != SIZE_MAX; i++) {
        lua_rawgeti(L, 2, places[i].index);
        lua_rawseti(L, -2, i + 1);
    }
    return 2;
}

static int
sum_of_events(lua_State *L)
{
    script_task(L);
    struct trace *trace = live_trace(L);
    check_table(L, 2);
    const char *name = option_text(L, 2, "arg", "bytes");
    if (!known_argument(trace, name))
        return raise_error(L, "ValueError", "no kind of event has an argument '%.60s'", name);
    struct filter *filter = check_filter(L, 2, trace, "arg");
    int64_t        sum    = 0, value = 0;
    const char    *text   = NULL;
    need_partners(L, trace);
    for (size_t seq = find_event(trace, filter, 0); seq != SIZE_MAX; seq = find_event(trace, filter, seq + 1))
        if (event_argument(trace, seq, name, &value, &text) && text == NULL)
            sum = (int64_t)((uint64_t)sum + (uint64_t)value);
    lua_pushinteger(L, sum);
    return 1;
}

/* In microseconds: of an event from events(), or of the first that a filter finds. nil: none, or it has not ended. */
static int
duration_of_event(lua_State *L)
{
    script_task(L);
    struct trace *trace = live_trace(L);
    size_t        seq;
    if (lua_type(L, 2) == LUA_TTABLE && lua_getfield(L, 2, "seq") == LUA_TNUMBER &&
        lua_getfield(L, 2, "t") == LUA_TNUMBER)
        seq = (size_t)lua_tointeger(L, -2);
    else
        seq = find_event(trace, check_filter(L, 2, trace, NULL), 0);
    if (seq >= trace_count(trace))
        return push_event_or_nil(L, trace, SIZE_MAX);
    need_partners(L, trace);
    size_t end = trace_event(trace, seq)->phase == PHASE_INSTANT ? seq : trace_partner(trace, seq);
    if (end == SIZE_MAX)
        return push_event_or_nil(L, trace, SIZE_MAX);
    uint64_t a = trace_time(trace, seq), b = trace_time(trace, end);
    lua_pushnumber(L, (double)(b > a ? b - a : a - b) / 1e6);
    return 1;
}

static int
count_so_far(lua_State *L)
{
    script_task(L);
    lua_pushinteger(L, (int64_t)trace_count(live_trace(L)));
    return 1;
}

/* ---- memory ---- */

static void
drop_state(struct task *me, void *state)
{
    (void)me;
    state_free(state);
}

/* The state just after event `seq`; kept, so that the next question goes on from there. */
static struct state *
state_at(lua_State *L, struct trace *trace, size_t seq)
{
    enum { STATE_BYTES = 48 };
    struct script *script = script_of(L);
    struct state  *state  = script->parts[SCRIPT_STATE];
    need_partners(L, trace);
    need_room(L, trace, STATE_BYTES);
    if (state == NULL)
        state = state_new(trace);
    script->parts[SCRIPT_STATE]     = state;
    script->drop_part[SCRIPT_STATE] = drop_state;
    if (state == NULL || !state_seek(state, seq))
        raise_error(L, "MemoryError", "out of memory for the state of the run");
    return state;
}

static void
push_memory(lua_State *L, const struct state_memory *memory)
{
    lua_createtable(L, 0, MEMORY_ROLES + 4);
    set_integer(L, -1, "allocated", (int64_t)memory->allocated);
    set_integer(L, -1, "peak", (int64_t)memory->peak);
    set_integer(L, -1, "reserved", (int64_t)memory->reserved);
    set_integer(L, -1, "blocks", (int64_t)memory->blocks);
    for (int role = 0; role < MEMORY_ROLES; role++) {
        char key[32];
        snprintf(key, sizeof key, "%s", memory_role_name((enum memory_role)role));
        for (char *at = key; *at != '\0'; at++)
            *at = *at == ' ' ? '_' : *at;
        set_integer(L, -1, key, (int64_t)memory->role[role]);
    }
}

/* rs.trace:memory(device, seq): what each byte of a device was for just after that event, unless given: now. */
static int
memory_after(lua_State *L)
{
    enum { EVENTS_A_STEP = 2 };
    script_task(L);
    struct trace *trace  = live_trace(L);
    int           device = lua_isnoneornil(L, 2) ? opt_device(L, 2) : check_device(L, 2);
    size_t        count  = trace_count(trace);
    int64_t       seq    = opt_integer(L, 3, (int64_t)count - 1);
    struct state_memory memory = { 0 };
    if (seq < -1 || seq >= (int64_t)count)
        return raise_error(L, "IndexError", "there are events 0 to %lld, not %lld", (long long)count - 1,
                           (long long)seq);
    script_charge(L, count / EVENTS_A_STEP);
    if (seq >= 0)
        memory = state_memory(state_at(L, trace, (size_t)seq), device);
    push_memory(L, &memory);
    return 1;
}

/* ---- in a job, one process answers for all ---- */

static int
l_count(lua_State *L)
{
    return trace_job_ask(L, count_events);
}

static int
l_events(lua_State *L)
{
    return trace_job_ask(L, list_events);
}

static int
l_first(lua_State *L)
{
    return trace_job_ask(L, first_event);
}

static int
l_last(lua_State *L)
{
    return trace_job_ask(L, last_event);
}

static int
l_order(lua_State *L)
{
    return trace_job_ask(L, order_of_events);
}

static int
l_sum(lua_State *L)
{
    return trace_job_ask(L, sum_of_events);
}

static int
l_duration(lua_State *L)
{
    return trace_job_ask(L, duration_of_event);
}

static int
l_seq(lua_State *L)
{
    return trace_job_ask(L, count_so_far);
}

static int
l_memory(lua_State *L)
{
    return trace_job_ask(L, memory_after);
}

/* rs.trace:clock(): whose time an event's t is. */
static int
l_clock(lua_State *L)
{
    lua_pushstring(L, sched_is_stepped(script_of(L)->sched) ? "virtual" : "wall");
    return 1;
}

static const struct lua_entry trace_entries[] = {
    { "count", l_count, "rs.trace:count(filter)", "How many events: stages once, by their begin." },
    { "events", l_events, "rs.trace:events(filter)",
      "A list of tables {seq, t (ns), phase, kind, rank, device, lane, iter, flow, args, place}." },
    { "first", l_first, "rs.trace:first(filter)", "The first event, nil if there is none." },
    { "last", l_last, "rs.trace:last(filter)", "The last event, nil if there is none." },
    { "order", l_order, "rs.trace:order{filter, filter, ...}",
      "Whether their first events came in this order; and the order in which they came." },
    { "sum", l_sum, "rs.trace:sum{kind=, arg=\"bytes\", ...}",
      "The sum of one argument, of their bytes unless it is said." },
    { "duration", l_duration, "rs.trace:duration(event or filter)",
      "From a stage's begin to its end, in microseconds." },
    { "memory", l_memory, "rs.trace:memory(device, seq)",
      "Bytes of a device after an event (now unless given): allocated, peak, reserved, blocks; and what they are for: "
      "parameters, buffers, gradients, optimizer_state, replicas, activations, inputs, outputs, buckets, other." },
    { "seq", l_seq, "rs.trace:seq()", "How many events have been recorded so far." },
    { "clock", l_clock, "rs.trace:clock()", "Whose time it is: \"virtual\" in stepped, \"wall\" in free." },
};

void
lua_open_trace(lua_State *L)
{
    fill_namespace(L, "trace", trace_entries, countof(trace_entries));
}
