/* rs.faults: what goes wrong on purpose, planned by a lesson before it spawns, or done by a rank at once; and rs.sleep.
 * PyTorch has no counterpart: one kills a process, pulls a cable, or waits for it to happen.
 *
 * Interface: lua_open_faults. */
#include "base/vec.h"
#include "hw/cost.h"
#include "lua/dispatch.h"
#include "lua/internal.h"
#include "lua/spawn.h"
#include "sched/faults.h"

enum { RANKS_MOST = 1024 };
static const double US_MOST = 1e12;

static int
rank_given(lua_State *L, const char *name, const struct argument *given)
{
    int64_t rank = given->integer[0];
    if (rank < 0 || rank >= RANKS_MOST)
        raise_error(L, "ValueError", "%s = %lld: a rank of the world, 0 to %d", name, (long long)rank, RANKS_MOST - 1);
    return (int)rank;
}

static uint64_t
time_given(lua_State *L, const struct argument *given)
{
    if (!(given->number >= 0 && given->number <= US_MOST))
        raise_error(L, "ValueError", "us = %g: 0 to 1e12 microseconds", given->number);
    return cost_us(given->number);
}

/* How many of its kind pass before it strikes. */
static uint64_t
number_given(lua_State *L, const char *name, const struct argument *given)
{
    if (!given->none && given->integer[0] < 0)
        raise_error(L, "ValueError", "%s = %lld: counted from 0", name, (long long)given->integer[0]);
    return given->none ? 0 : (uint64_t)given->integer[0];
}

static int
expect(lua_State *L, const struct fault *fault)
{
    if (!fault_expect(script_of(L)->sched, fault))
        raise_error(L, "MemoryError", "out of memory");
    return 0;
}

static int
l_late(lua_State *L)
{
    struct arguments a;
    take_arguments(L, &a);
    struct fault fault = { .kind = FAULT_LATE, .rank = rank_given(L, "rank", &a.at[0]), .peer = -1,
                           .ps = time_given(L, &a.at[1]), .at = number_given(L, "at", &a.at[2]) };
    return expect(L, &fault);
}

/* A rank does it at once, also to itself, unless it says when. */
static int
l_kill(lua_State *L)
{
    struct task     *me = script_task(L);
    struct arguments a;
    take_arguments(L, &a);
    struct fault fault = { .kind = FAULT_KILL, .rank = rank_given(L, "rank", &a.at[0]), .peer = -1,
                           .at = number_given(L, "at", &a.at[1]) };
    if (script_rank(script_of(L)) < 0 || !a.at[1].none)
        return expect(L, &fault);
    struct call call = call_open(L, me, CALL_PLAIN);
    bool        killed = fault_kill(me->sched, me, fault.rank);
    if (!killed)
        failed(me, E_VALUE, "no task of rank %d lives: who has ended cannot be killed", fault.rank);
    return call_done(&call, killed && (!task_is_killed(me) || task_die(me)));
}

/* Arguments 0 and 1 are the ends of a link, the one at `place` the message's number. */
static struct fault
message_fault(lua_State *L, enum fault_kind kind, const struct arguments *a, int place)
{
    struct fault fault = { .kind = kind, .rank = rank_given(L, "from", &a->at[0]),
                           .peer = rank_given(L, "to", &a->at[1]), .at = number_given(L, "message", &a->at[place]) };
    if (fault.rank == fault.peer)
        raise_error(L, "ValueError", "rank %d sends itself no messages", fault.rank);
    return fault;
}

static int
expect_message(lua_State *L, enum fault_kind kind)
{
    struct arguments a;
    take_arguments(L, &a);
    struct fault fault = message_fault(L, kind, &a, 2);
    return expect(L, &fault);
}

static int
l_lose(lua_State *L)
{
    return expect_message(L, FAULT_LOSE);
}

static int
l_double(lua_State *L)
{
    return expect_message(L, FAULT_DOUBLE);
}

static int
l_cut(lua_State *L)
{
    return expect_message(L, FAULT_CUT);
}

static int
l_delay(lua_State *L)
{
    struct arguments a;
    take_arguments(L, &a);
    struct fault fault = message_fault(L, FAULT_DELAY, &a, 3);
    fault.ps = time_given(L, &a.at[2]);
    return expect(L, &fault);
}

static int
expect_request(lua_State *L, enum fault_kind kind)
{
    struct arguments a;
    take_arguments(L, &a);
    struct fault fault = { .kind = kind, .rank = -1, .peer = -1, .at = number_given(L, "at", &a.at[0]) };
    return expect(L, &fault);
}

static int
l_allocation(lua_State *L)
{
    return expect_request(L, FAULT_ALLOCATION);
}

static int
l_write(lua_State *L)
{
    return expect_request(L, FAULT_WRITE);
}

/* Lua's lock is let go meanwhile. */
static int
l_sleep(lua_State *L)
{
    struct task     *me = script_task(L);
    struct arguments a;
    take_arguments(L, &a);
    uint64_t    ps   = time_given(L, &a.at[0]);
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_done(&call, sched_sleep(me, ps));
}

static const struct lua_entry faults[] = {
    { "late", l_late, "rs.faults.late(int rank, float us, *, int? at=None) -> any",
      "a fault on purpose: the rank stands still for so long, at its first point, or at point number `at`" },
    { "kill", l_kill, "rs.faults.kill(int rank, *, int? at=None) -> any",
      "a fault on purpose: the rank is gone, without a word, as a killed process. Called in a rank: at once, unless "
      "`at` is given, and pcall does not catch it; before a spawn: at the rank's first point" },
    { "lose", l_lose, "rs.faults.lose(int from, int to, *, int? message=None) -> any",
      "a fault on purpose: a message between two ranks never arrives, the first one from here on, or number `message`. "
      "Behind it the later ones of the same group's collectives pile up" },
    { "delay", l_delay, "rs.faults.delay(int from, int to, float us, *, int? message=None) -> any",
      "a fault on purpose: a message arrives so much later" },
    { "double", l_double, "rs.faults.double(int from, int to, *, int? message=None) -> any",
      "a fault on purpose: a message is there again after it was taken. The next hop of that link takes it, and each "
      "later one takes what was meant for the hop before; of a send: a second one stands in line" },
    { "cut", l_cut, "rs.faults.cut(int from, int to, *, int? message=None) -> any",
      "a fault on purpose: the link is dead from a message on, for all groups, until the next spawn" },
    { "allocation", l_allocation, "rs.faults.allocation(*, int? at=None) -> any",
      "a fault on purpose: a request for memory is refused, the next one or number `at` from here on" },
    { "write", l_write, "rs.faults.write(*, int? at=None) -> any",
      "a fault on purpose: a write to a file finds a full disk, the next one or number `at` from here on: of a "
      "FileStore, rs.save, what the lesson prints, a chunk of the trace" },
};

static const struct lua_entry entries[] = {
    { "sleep", l_sleep, "rs.sleep(float us) -> any",
      "lets so many microseconds pass: of virtual time in stepped, of real time in free" },
};

void
lua_open_faults(lua_State *L)
{
    fill_namespace(L, "faults", faults, countof(faults));
    fill_namespace(L, "", entries, countof(entries));
}
