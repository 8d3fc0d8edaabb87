/* rs.cuda's questions about a device's memory: what is allocated and reserved, the counts of its allocator, its
 * segments with their blocks; and its limits.
 *
 * Interface: lua_open_memory. In PyTorch: torch/cuda/memory.py. */
#include <stdio.h>
#include <string.h>
#include "base/vec.h"
#include "device/caching.h"
#include "device/device.h"
#include "device/real.h"
#include "device/storage.h"
#include "lua/internal.h"
#include "sched/task.h"
#include "tensor/tensor.h"

/* The cache of the device that argument `index` names, else of the current one; raises. */
static struct cache *
check_cache(lua_State *L, int index, int *device)
{
    struct task *me = script_task(L);
    *device = lua_isnoneornil(L, index) ? opt_device(L, index) : check_device(L, index);
    struct call   call  = call_open(L, me, CALL_PLAIN);
    struct cache *cache = device_cache(me, *device);
    call_end(&call, cache != NULL);
    call_leave(&call, 0);
    return cache;
}

static struct cache_count
count_of(lua_State *L, enum cache_stat stat)
{
    int device;
    return cache_stats(check_cache(L, 1, &device)).of[stat][CACHE_POOLS];
}

/* What the host holds may be asked for too: in bytes that were asked for, since its blocks have no such rules. */
static bool
is_host(lua_State *L)
{
    return !lua_isnoneornil(L, 1) && check_device(L, 1) == DEVICE_CPU;
}

static int
memory_allocated(lua_State *L)
{
    if (is_host(L))
        lua_pushinteger(L, (lua_Integer)device_memory(script_task(L), DEVICE_CPU).allocated);
    else
        lua_pushinteger(L, (lua_Integer)count_of(L, STAT_ALLOCATED_BYTES).current);
    return 1;
}

static int
max_memory_allocated(lua_State *L)
{
    if (is_host(L))
        lua_pushinteger(L, (lua_Integer)device_memory(script_task(L), DEVICE_CPU).peak);
    else
        lua_pushinteger(L, (lua_Integer)count_of(L, STAT_ALLOCATED_BYTES).peak);
    return 1;
}

static int
memory_reserved(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)count_of(L, STAT_RESERVED_BYTES).current);
    return 1;
}

static int
max_memory_reserved(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)count_of(L, STAT_RESERVED_BYTES).peak);
    return 1;
}

static const char *const stat_names[CACHE_STATS] = {
    [STAT_ALLOCATION] = "allocation", [STAT_SEGMENT] = "segment", [STAT_ACTIVE] = "active",
    [STAT_INACTIVE_SPLIT] = "inactive_split", [STAT_ALLOCATED_BYTES] = "allocated_bytes",
    [STAT_RESERVED_BYTES] = "reserved_bytes", [STAT_ACTIVE_BYTES] = "active_bytes",
    [STAT_INACTIVE_SPLIT_BYTES] = "inactive_split_bytes", [STAT_REQUESTED_BYTES] = "requested_bytes",
};
static const char *const pool_names[] = { "small_pool", "large_pool", "all" };

static void
set_count(lua_State *L, int stat, int pool, const struct cache_count *count)
{
    const struct { const char *name; uint64_t value; } parts[] = {
        { "current", count->current }, { "peak", count->peak }, { "allocated", count->allocated },
        { "freed", count->freed },
    };
    char key[64];
    for (size_t i = 0; i < countof(parts); i++) {
        snprintf(key, sizeof key, "%s.%s.%s", stat_names[stat], pool_names[pool], parts[i].name);
        set_integer(L, -1, key, (int64_t)parts[i].value);
    }
}

static int
memory_stats(lua_State *L)
{
    enum { STATS_STEPS = 200 };
    int device;
    struct cache_stats stats = cache_stats(check_cache(L, 1, &device));
    script_charge(L, STATS_STEPS);
    lua_createtable(L, 0, CACHE_STATS * (int)countof(pool_names) * 4 + 2);
    for (int stat = 0; stat < CACHE_STATS; stat++) {
        for (int pool = 0; pool <= CACHE_POOLS; pool++)
            set_count(L, stat, pool, &stats.of[stat][pool]);
    }
    set_integer(L, -1, "num_alloc_retries", (int64_t)stats.retries);
    set_integer(L, -1, "num_ooms", (int64_t)stats.ooms);
    return 1;
}

/* ---- the summary ---- */

/* "12.00 KiB", or the number itself where it counts. */
static void
amount_text(uint64_t amount, bool bytes, char *out, size_t size)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    double value = (double)amount;
    size_t unit  = 0;
    for (; value >= 1024 && unit + 1 < countof(units); unit++)
        value /= 1024;
    if (!bytes || unit == 0)
        snprintf(out, size, "%llu%s", (unsigned long long)amount, bytes ? " B" : "");
    else
        snprintf(out, size, "%.2f %s", value, units[unit]);
}

static void
add_row(luaL_Buffer *out, const char *name, const struct cache_count *count, bool bytes)
{
    const uint64_t amounts[] = { count->current, count->peak, count->allocated, count->freed };
    char           text[32];
    snprintf(text, sizeof text, "%-24s", name);
    luaL_addstring(out, text);
    for (size_t i = 0; i < countof(amounts); i++) {
        char amount[32], padded[40];
        amount_text(amounts[i], bytes, amount, sizeof amount);
        snprintf(padded, sizeof padded, " %12s", amount);
        luaL_addstring(out, padded);
    }
    luaL_addchar(out, '\n');
}

static void
add_summary(luaL_Buffer *out, const struct cache_stats *stats, bool abbreviated)
{
    static const struct { enum cache_stat stat; const char *name; bool bytes; } rows[] = {
        { STAT_ALLOCATED_BYTES, "allocated", true }, { STAT_ACTIVE_BYTES, "active", true },
        { STAT_REQUESTED_BYTES, "requested", true }, { STAT_RESERVED_BYTES, "reserved", true },
        { STAT_INACTIVE_SPLIT_BYTES, "not releasable", true }, { STAT_ALLOCATION, "allocations", false },
        { STAT_ACTIVE, "active blocks", false }, { STAT_SEGMENT, "segments", false },
        { STAT_INACTIVE_SPLIT, "blocks not releasable", false },
    };
    char head[96];
    snprintf(head, sizeof head, "%-24s %12s %12s %12s %12s\n", "", "now", "peak", "taken", "given back");
    luaL_addstring(out, head);
    for (size_t i = 0; i < countof(rows); i++) {
        const struct cache_count *of = stats->of[rows[i].stat];
        add_row(out, rows[i].name, &of[CACHE_POOLS], rows[i].bytes);
        if (!abbreviated) {
            add_row(out, "  in large segments", &of[CACHE_LARGE], rows[i].bytes);
            add_row(out, "  in small segments", &of[CACHE_SMALL], rows[i].bytes);
        }
    }
}

static int
memory_summary(lua_State *L)
{
    enum { SUMMARY_STEPS = 1000 };
    int device;
    struct cache      *cache = check_cache(L, 1, &device);
    bool               abbreviated = opt_flag(L, 2, false);
    struct cache_stats stats = cache_stats(cache);
    luaL_Buffer        out;
    char               head[96];
    script_charge(L, SUMMARY_STEPS);
    luaL_buffinit(L, &out);
    snprintf(head, sizeof head, "memory of device:%d; out of memory %llu times, retries %llu\n", device,
             (unsigned long long)stats.ooms, (unsigned long long)stats.retries);
    luaL_addstring(&out, head);
    add_summary(&out, &stats, abbreviated);
    luaL_pushresult(&out);
    return 1;
}

/* ---- the snapshot ---- */

static void
push_block(lua_State *L, const struct cache_view *view)
{
    static const char *const states[] = {
        [BLOCK_FREE] = "inactive", [BLOCK_HELD] = "active_allocated", [BLOCK_WAITS] = "active_pending_free",
    };
    lua_createtable(L, 0, 6);
    set_integer(L, -1, "address", (int64_t)(view->address + view->offset));
    set_integer(L, -1, "size", (int64_t)view->bytes);
    set_integer(L, -1, "requested_size", (int64_t)view->requested);
    set_text(L, -1, "state", states[view->state]);
    if (view->state == BLOCK_FREE)
        return;
    set_integer(L, -1, "storage", view->holder.storage);
    set_integer(L, -1, "line", view->holder.line);
}

/* The segment that begins at views[0]; answers how many blocks it has. */
static size_t
push_segment(lua_State *L, int device, const struct cache_view *views, size_t count)
{
    int64_t allocated = 0, active = 0, requested = 0;
    size_t  blocks = 0;
    lua_createtable(L, 0, 9);
    lua_newtable(L);
    for (; blocks < count && views[blocks].segment == views[0].segment; blocks++) {
        const struct cache_view *view = &views[blocks];
        push_block(L, view);
        lua_rawseti(L, -2, (lua_Integer)blocks + 1);
        allocated += view->state == BLOCK_HELD ? (int64_t)view->bytes : 0;
        active    += view->state != BLOCK_FREE ? (int64_t)view->bytes : 0;
        requested += (int64_t)view->requested;
    }
    lua_setfield(L, -2, "blocks");
    set_integer(L, -1, "device", device);
    set_integer(L, -1, "address", (int64_t)views[0].address);
    set_integer(L, -1, "total_size", (int64_t)views[0].segment_bytes);
    set_integer(L, -1, "allocated_size", allocated);
    set_integer(L, -1, "active_size", active);
    set_integer(L, -1, "requested_size", requested);
    set_integer(L, -1, "stream", views[0].stream);
    set_text(L, -1, "segment_type", views[0].pool == CACHE_SMALL ? "small" : "large");
    return blocks;
}

/* The segments of one device behind those that the table on top has. */
static void
push_segments(lua_State *L, int device)
{
    struct call   call  = call_open(L, script_task(L), CALL_PLAIN);
    struct cache *cache = device_cache(script_task(L), device);
    call_end(&call, cache != NULL);
    call_leave(&call, 0);
    size_t room = cache_look(cache, NULL, 0);
    script_charge(L, 16 + room * 8);
    struct cache_view *views = lua_newuserdatauv(L, (room + 1) * sizeof *views, 0);
    size_t count = cache_look(cache, views, room);
    count = count < room ? count : room;
    lua_Integer segments = (lua_Integer)lua_rawlen(L, -2);
    for (size_t at = 0; at < count;) {
        at += push_segment(L, device, views + at, count - at);
        lua_rawseti(L, -3, ++segments);
    }
    lua_pop(L, 1);
}

static int
memory_snapshot(lua_State *L)
{
    int devices = device_count(script_task(L));
    lua_newtable(L);
    for (int device = 0; device < devices; device++)
        push_segments(L, device);
    return 1;
}

/* ---- limits ---- */

/* Free and total: what no segment holds, as the driver sees it. */
static int
mem_get_info(lua_State *L)
{
    int           device;
    struct cache *cache = check_cache(L, 1, &device);
    uint64_t      total = device_total_memory(script_task(L), device), reserved = cache_reserved(cache);
    lua_pushinteger(L, (lua_Integer)(total > reserved ? total - reserved : 0));
    lua_pushinteger(L, (lua_Integer)total);
    return 2;
}

static int
empty_cache(lua_State *L)
{
    struct task *me   = script_task(L);
    struct call  call = call_open(L, me, CALL_PLAIN);
    return call_done(&call, device_empty_cache(me));
}

static int
reset_peak_memory_stats(lua_State *L)
{
    int device;
    cache_reset_peak(check_cache(L, 1, &device));
    return 0;
}

static int
set_per_process_memory_fraction(lua_State *L)
{
    struct task *me       = script_task(L);
    double       fraction = check_number(L, 1);
    int          device   = lua_isnoneornil(L, 2) ? opt_device(L, 2) : check_device(L, 2);
    struct call  call     = call_open(L, me, CALL_PLAIN);
    return call_done(&call, device_set_fraction(me, device, fraction));
}

static int
get_device_properties(lua_State *L)
{
    int  device;
    char name[96];
    check_cache(L, 1, &device);
    device_name(script_of(L)->sched, device, name, sizeof name);
    lua_createtable(L, 0, 2);
    lua_pushstring(L, name);
    lua_setfield(L, -2, "name");
    set_integer(L, -1, "total_memory", (int64_t)device_total_memory(script_task(L), device));
    return 1;
}

/* t:record_stream(s): PyTorch asks for it where a tensor of one stream is used on another. */
static int
record_stream(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    struct stream *stream = box_check(L, 2, BOX_STREAM);
    if (tensor_is_sparse(tensor))
        return raise_error(L, "NotImplementedError", "record_stream: a sparse tensor has no memory of its own");
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_done(&call, storage_record_stream(me, tensor->storage, stream));
}

static const struct lua_entry tensor_methods[] = {
    { "record_stream", record_stream, "t:record_stream(s)",
      "t's memory is not used again before s has done what it has been given when t goes" },
};
static const struct lua_entry entries[] = {
    { "memory_allocated", memory_allocated, "rs.cuda.memory_allocated(device)",
      "bytes of the blocks that tensors hold there, rounded up to 512 each; of the host (\"cpu\") as asked for" },
    { "max_memory_allocated", max_memory_allocated, "rs.cuda.max_memory_allocated(device)",
      "the most there ever were, or since reset_peak_memory_stats" },
    { "memory_reserved", memory_reserved, "rs.cuda.memory_reserved(device)",
      "bytes of its segments: 2 MiB for blocks up to 1 MiB, 20 MiB below 10 MiB, else steps of 2 MiB" },
    { "max_memory_reserved", max_memory_reserved, "rs.cuda.max_memory_reserved(device)", "the most there ever were" },
    { "memory_stats", memory_stats, "rs.cuda.memory_stats(device)",
      "the allocator's counts by name, as \"allocated_bytes.all.current\"" },
    { "memory_summary", memory_summary, "rs.cuda.memory_summary(device, abbreviated)",
      "memory_stats(device) as a text to print: a table of bytes and counts, now, at the peak and in all" },
    { "memory_snapshot", memory_snapshot, "rs.cuda.memory_snapshot()",
      "a list of all devices' segments, each with its blocks" },
    { "mem_get_info", mem_get_info, "rs.cuda.mem_get_info(device)", "free bytes and total bytes" },
    { "empty_cache", empty_cache, "rs.cuda.empty_cache()",
      "waits for all streams and gives segments back in which no tensor lies" },
    { "reset_peak_memory_stats", reset_peak_memory_stats, "rs.cuda.reset_peak_memory_stats(device)",
      "peaks begin again at what is held now" },
    { "set_per_process_memory_fraction", set_per_process_memory_fraction,
      "rs.cuda.set_per_process_memory_fraction(fraction, device)", "how much of a device's memory may be used" },
    { "get_device_properties", get_device_properties, "rs.cuda.get_device_properties(device)",
      "a table with name and total_memory in bytes" },
};

void
lua_open_memory(lua_State *L)
{
    fill_namespace(L, "cuda", entries, countof(entries));
    add_methods(L, BOX_TENSOR, tensor_methods, countof(tensor_methods));
}
