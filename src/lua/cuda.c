/* Streams and events: rs.cuda.Stream(device), rs.cuda.stream(s, f), s:wait_event(e). They look and behave like
 * torch.cuda's on virtual devices too: a missing wait is a race that the run reports. */
#include "lua/internal.h"
#include "base/vec.h"
#include "device/device.h"
#include "device/stream.h"
#include "sched/task.h"

/* Streams live as long as the devices: their boxes only borrow them. */
static void
push_cuda_stream(lua_State *L, struct stream *stream)
{
    box_push(L, BOX_STREAM, 0);
    box_fill(L, stream, NULL, true);
}

static int
stream_made(lua_State *L)
{
    struct task *me     = script_task(L);
    int          device = opt_device(L, 1);
    struct call  call   = call_open(L, me, CALL_PLAIN);
    struct stream *stream = device_check(me, device) ? stream_new(me, device, NULL) : NULL;
    call_end(&call, stream != NULL);
    push_cuda_stream(L, stream);
    return call_leave(&call, 1);
}

static int
current_stream(lua_State *L)
{
    struct task   *me     = script_task(L);
    int            device = opt_device(L, 1);
    struct call    call   = call_open(L, me, CALL_PLAIN);
    struct stream *stream = device_check(me, device) ? stream_current(me, device) : NULL;
    call_end(&call, stream != NULL);
    push_cuda_stream(L, stream);
    return call_leave(&call, 1);
}

static bool
make_current(lua_State *L, struct task *me, struct stream *stream)
{
    struct call call = call_open(L, me, CALL_PLAIN);
    bool        ok   = stream_make_current(me, stream);
    call_close(&call);
    scope_release(me, call.mark);
    return ok;
}

/* rs.cuda.stream(s, f, ...): work of f on s's device goes to s. */
static int
with_stream(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct stream *stream = box_check(L, 1, BOX_STREAM);
    check_function(L, 2);
    struct call    call   = call_open(L, me, CALL_PLAIN);
    struct stream *before = stream_current(me, stream_device(stream));
    call_done(&call, before != NULL && stream_make_current(me, stream));
    bool ok = lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 0) == LUA_OK;
    bool back = make_current(L, me, before);
    if (!ok)
        return lua_error(L);
    return back ? lua_gettop(L) - 1 : raise(L, me);
}

/* rs.cuda.synchronize(device): the host waits for all its streams; without a device for all devices. */
static int
synchronize(lua_State *L)
{
    struct task *me    = script_task(L);
    bool         all   = lua_isnoneornil(L, 1);
    int          first = all ? 0 : check_device(L, 1), last = all ? device_count(me) - 1 : first;
    bool         ok    = true;
    struct call  call  = call_open(L, me, CALL_PLAIN);
    for (int device = first; device <= last && ok; device++)
        ok = device < 0 || (device_check(me, device) && device_synchronize(me, device));
    return call_done(&call, ok);
}

static int
count_devices(lua_State *L)
{
    lua_pushinteger(L, device_count(script_task(L)));
    return 1;
}

static void
drop_event(struct task *me, void *event)
{
    event_free(me, event);
}

static int
event_made(lua_State *L)
{
    struct task *me = script_task(L);
    box_push(L, BOX_EVENT, 0);
    struct call   call  = call_open(L, me, CALL_PLAIN);
    struct event *event = event_new(me);
    call_end(&call, event != NULL);
    box_fill(L, event, drop_event, false);
    return call_leave(&call, 1);
}

/* ---- methods ---- */

static int
stream_waits_event(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct stream *stream = box_check(L, 1, BOX_STREAM);
    struct event  *event  = box_check(L, 2, BOX_EVENT);
    struct call    call   = call_open(L, me, CALL_PLAIN);
    return call_done(&call, stream_wait_event(me, stream, event));
}

/* s:wait_stream(other): for all that is in it now. */
static int
stream_waits_stream(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct stream *stream = box_check(L, 1, BOX_STREAM), *other = box_check(L, 2, BOX_STREAM);
    struct call    call   = call_open(L, me, CALL_PLAIN);
    return call_done(&call, stream_wait_stream(me, stream, other));
}

static int
stream_records(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct stream *stream = box_check(L, 1, BOX_STREAM);
    if (lua_isnoneornil(L, 2)) {
        lua_settop(L, 1);
        event_made(L);
    }
    struct event *event = box_check(L, 2, BOX_EVENT);
    struct call   call  = call_open(L, me, CALL_PLAIN);
    call_end(&call, stream_record(me, stream, event));
    lua_settop(L, 2);
    return call_leave(&call, 1);
}

static int
stream_synchronizes(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct stream *stream = box_check(L, 1, BOX_STREAM);
    struct call    call   = call_open(L, me, CALL_PLAIN);
    return call_done(&call, stream_synchronize(me, stream));
}

static int
stream_tostring(lua_State *L)
{
    const struct stream *stream = box_check(L, 1, BOX_STREAM);
    lua_pushfstring(L, "<Stream %d of device:%d>", stream_number(stream), stream_device(stream));
    return 1;
}

/* e:record(stream), or on the current stream of device 0 */
static int
event_records(lua_State *L)
{
    struct task   *me    = script_task(L);
    struct event  *event = box_check(L, 1, BOX_EVENT);
    struct stream *given = lua_isnoneornil(L, 2) ? NULL : box_check(L, 2, BOX_STREAM);
    int            device = given == NULL ? opt_device(L, 2) : 0;
    struct call    call   = call_open(L, me, CALL_PLAIN);
    struct stream *stream = given != NULL ? given : device_check(me, device) ? stream_current(me, device) : NULL;
    return call_self(&call, stream != NULL && stream_record(me, stream, event));
}

static int
event_waits(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct event  *event  = box_check(L, 1, BOX_EVENT);
    struct stream *stream = box_check(L, 2, BOX_STREAM);
    struct call    call   = call_open(L, me, CALL_PLAIN);
    return call_done(&call, stream_wait_event(me, stream, event));
}

static int
event_synchronizes(lua_State *L)
{
    struct task  *me    = script_task(L);
    struct event *event = box_check(L, 1, BOX_EVENT);
    struct call   call  = call_open(L, me, CALL_PLAIN);
    return call_done(&call, event_synchronize(me, event));
}

static int
event_queries(lua_State *L)
{
    struct task  *me    = script_task(L);
    struct event *event = box_check(L, 1, BOX_EVENT);
    struct call   call  = call_open(L, me, CALL_PLAIN);
    bool          done  = event_query(me, event);
    call_end(&call, true);
    lua_pushboolean(L, done);
    return call_leave(&call, 1);
}

static const struct lua_entry stream_methods[] = {
    { "wait_event", stream_waits_event, "s:wait_event(e)", "what is queued after this waits for the event" },
    { "wait_stream", stream_waits_stream, "s:wait_stream(other)", "waits for all that is in the other stream now" },
    { "record_event", stream_records, "s:record_event(e)", "records e (or a new one) here; answers it" },
    { "synchronize", stream_synchronizes, "s:synchronize()", "the host waits for it" },
};
static const struct lua_entry event_methods[] = {
    { "record", event_records, "e:record(s)", "marks this place of a stream" },
    { "wait", event_waits, "e:wait(s)", "the stream waits for the event" },
    { "synchronize", event_synchronizes, "e:synchronize()", "the host waits for it" },
    { "query", event_queries, "e:query()", "has everything before it run?" },
};
static const struct lua_entry entries[] = {
    { "Stream", stream_made, "rs.cuda.Stream(device)", "a new stream" },
    { "Event", event_made, "rs.cuda.Event()", "a new event" },
    { "current_stream", current_stream, "rs.cuda.current_stream(device)",
      "where work of this task on that device goes" },
    { "stream", with_stream, "rs.cuda.stream(s, f, ...)", "calls f with s as the current stream of its device" },
    { "synchronize", synchronize, "rs.cuda.synchronize(device)", "the host waits for all streams" },
    { "device_count", count_devices, "rs.cuda.device_count()", "devices of this lesson" },
};

void
lua_open_cuda(lua_State *L)
{
    box_class(L, BOX_STREAM, stream_methods, countof(stream_methods));
    lua_pushcfunction(L, stream_tostring);
    lua_setfield(L, -2, "__tostring");
    lua_pop(L, 1);
    box_class(L, BOX_EVENT, event_methods, countof(event_methods));
    lua_pop(L, 1);
    fill_namespace(L, "cuda", entries, countof(entries));
}
