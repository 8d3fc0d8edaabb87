/* nn.parallel.comm in Lua: the copies that DataParallel is made of, one by one and without gradients:
 * broadcast, broadcast_coalesced, reduce_add, reduce_add_coalesced, scatter, gather. */
#include "lua/dispatch.h"
#include <string.h>
#include "autograd/call.h"
#include "autograd/node.h"
#include "base/number.h"
#include "base/vec.h"
#include "device/cells.h"
#include "device/stream.h"
#include "lua/lesson.h"
#include "lua/parallel.h"
#include "parallel/comm.h"
#include "sched/task.h"
#include "tensor/op.h"

static void
push_tensors(lua_State *L, struct tensor *const *tensors, int count)
{
    lua_createtable(L, count, 0);
    for (int i = 0; i < count; i++) {
        push_tensor(L, tensors[i]);
        lua_rawseti(L, -2, i + 1);
    }
}

/* Memory for a call's results, on the stack until the call ends. */
static struct tensor **
push_tensor_room(lua_State *L, size_t count)
{
    struct tensor **room = lua_newuserdatauv(L, (count + 1) * sizeof *room, 0);
    memset(room, 0, (count + 1) * sizeof *room);
    return room;
}

static int
given_index(const struct argument *argument)
{
    return argument->none ? 0 : (int)argument->integer[0];
}

/* comm.broadcast(tensor, devices), comm.broadcast(tensor, {out = tensors}) */
static int
comm_lua_broadcast(lua_State *L)
{
    struct task     *me = script_task(L);
    struct arguments a;
    take_arguments(L, &a);
    const bool into = !a.at[2].none;
    if (a.at[1].none != into)
        raise_error(L, "RuntimeError", "Exactly one of 'devices' and 'out' must be specified, but got %s",
                    into ? "both" : "neither");
    struct tensor     *tensor  = a.at[0].tensor;
    struct device_list to      = { NULL, a.at[2].count };
    struct tensor    **results = a.at[2].tensors;
    if (!into) {
        to      = check_devices(L, (int)a.at[1].integer[0]);
        results = push_tensor_room(L, (size_t)to.count);
    }
    struct call call = call_open(L, me, CALL_PLAIN);
    call_end(&call, into ? comm_broadcast_into(me, tensor, results, to.count)
                         : comm_broadcast(me, tensor, to, results));
    push_tensors(L, results, to.count);
    return call_leave(&call, 1);
}

static size_t
check_buffer_size(lua_State *L, const struct argument *given)
{
    if (given->integer[0] < 1)
        raise_error(L, "ValueError", "buffer_size is a number of bytes, 1 or more");
    return (size_t)given->integer[0];
}

/* comm.broadcast_coalesced(tensors, devices, buffer_size): a list of tensors for each device */
static int
comm_lua_broadcast_coalesced(lua_State *L)
{
    struct task     *me = script_task(L);
    struct arguments a;
    take_arguments(L, &a);
    struct coalesced given = { .buffer_bytes = check_buffer_size(L, &a.at[2]) };
    given.tensors = a.at[0].tensors;
    given.count   = a.at[0].count;
    given.devices = check_devices(L, (int)a.at[1].integer[0]);
    if (given.devices.count < 1)
        raise_error(L, "RuntimeError", "Expected at least one device to broadcast to");
    struct tensor **out = push_tensor_room(L, (size_t)given.count * (size_t)given.devices.count);
    struct call     call = call_open(L, me, CALL_PLAIN);
    call_end(&call, comm_broadcast_coalesced(me, &given, out));
    lua_createtable(L, given.devices.count, 0);
    for (int d = 0; d < given.devices.count; d++) {
        push_tensors(L, out + (size_t)d * (size_t)given.count, given.count);
        lua_rawseti(L, -2, d + 1);
    }
    return call_leave(&call, 1);
}

/* PyTorch's default is the current device; a task that works on none means the first. */
static int
destination_of(struct task *me, const struct argument *given)
{
    if (!given->none)
        return (int)given->integer[0];
    return me->device < 0 ? 0 : me->device;
}

/* comm.reduce_add(tensors, destination) */
static int
comm_lua_reduce_add(lua_State *L)
{
    struct task     *me = script_task(L);
    struct arguments a;
    take_arguments(L, &a);
    struct call call     = call_open(L, me, CALL_PLAIN);
    bool        recorded = grad_enabled(me);
    grad_set_enabled(me, false);
    struct tensor *sum = comm_reduce_add(me, a.at[0].tensors, a.at[0].count, destination_of(me, &a.at[1]));
    grad_set_enabled(me, recorded);
    return call_tensor(&call, sum);
}

/* The lists in the list at `index`, one after the other: tensors[d * count + i], on the stack. */
static struct tensor **
check_tensor_lists(lua_State *L, int index, int *lists, int *count)
{
    size_t          length = lua_rawlen(L, index);
    struct tensor **all    = NULL;
    if (!is_plain_table(L, index) || length < 1 || length > DEVICE_MAX)
        raise_error(L, "ValueError", "reduce_add_coalesced expects a list of tensors for each device");
    for (size_t d = 0; d < length; d++) {
        int own;
        if (lua_rawgeti(L, index, (lua_Integer)d + 1) != LUA_TTABLE)
            raise_error(L, "TypeError", "element %d is %s, not a list of tensors", (int)d, luaL_typename(L, -1));
        struct tensor **tensors = check_tensors(L, lua_gettop(L), &own);
        if (d == 0)
            all = push_tensor_room(L, (size_t)own * length);
        if (d > 0 && own != *count)
            raise_error(L, "ValueError", "device %d has %d tensors, but the first one %d", (int)d, own, *count);
        *count = own;
        memcpy(all + d * (size_t)own, tensors, (size_t)own * sizeof *all);
        luaL_checkstack(L, 8, "too many devices");
    }
    *lists = (int)length;
    return all;
}

/* comm.reduce_add_coalesced(lists, destination, buffer_size): the sums */
static int
comm_lua_reduce_add_coalesced(lua_State *L)
{
    struct task     *me = script_task(L);
    struct arguments a;
    take_arguments(L, &a);
    struct coalesced given = { .buffer_bytes = check_buffer_size(L, &a.at[2]) };
    given.tensors = check_tensor_lists(L, (int)a.at[0].integer[0], &given.devices.count, &given.count);
    int *ids = lua_newuserdatauv(L, (size_t)given.devices.count * sizeof *ids, 0);
    for (int d = 0; d < given.devices.count; d++)
        ids[d] = given.count > 0 ? tensor_device(given.tensors[d * given.count]) : d;
    given.devices.ids   = ids;
    struct tensor **out = push_tensor_room(L, (size_t)given.count);
    struct call     call = call_open(L, me, CALL_PLAIN);
    call_end(&call, comm_reduce_add_coalesced(me, &given, destination_of(me, &a.at[1]), out));
    push_tensors(L, out, given.count);
    return call_leave(&call, 1);
}

/* A list of `count` streams, of which some may be rs.none, on the stack; NULL: none was given. */
static struct stream **
opt_streams(lua_State *L, int index, int count)
{
    if (index == 0)
        return NULL;
    struct stream **streams = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *streams, 0);
    for (int i = 0; i < count; i++) {
        streams[i] = NULL;
        if (lua_rawgeti(L, index, i + 1) != LUA_TNIL && luaL_testudata(L, -1, "ringside.none") == NULL)
            streams[i] = box_check(L, -1, BOX_STREAM);
        lua_pop(L, 1);
    }
    return streams;
}

static int
scatter_into(lua_State *L, struct task *me, const struct arguments *a)
{
    int             count   = a->at[5].count;
    struct tensor **tensors = a->at[5].tensors;
    if (!a->at[1].none)
        raise_error(L, "RuntimeError", "'devices' must not be specified when 'out' is specified");
    if (!a->at[2].none)
        raise_error(L, "RuntimeError", "'chunk_sizes' must not be specified when 'out' is specified");
    struct stream **streams = opt_streams(L, given_index(&a->at[4]), count);
    int             dim     = int_of_int64(a->at[3].integer[0]);
    struct call     call    = call_open(L, me, CALL_PLAIN);
    call_end(&call, comm_scatter_into(me, a->at[0].tensor, dim, tensors, count, streams));
    push_tensors(L, tensors, count);
    return call_leave(&call, 1);
}

/* What each device gets: `sizes` if given, else the chunk rule. Answers how many get something; 0: failed. */
static int
scatter_pieces(struct task *me, struct tensor *tensor, int dim, const struct argument *sizes,
               struct device_list devices, struct comm_piece *pieces)
{
    int64_t *lengths = scratch_new(me, (size_t)devices.count, sizeof *lengths), sum = 0;
    int      count   = lengths == NULL ? 0 : devices.count;
    if (sizes->none && count > 0)
        count = chunk_lengths(me, tensor, devices.count, dim, lengths);
    for (int i = 0; i < count; i++) {
        int64_t length = sizes->none ? lengths[i] : sizes->integers[i];
        if (length < 0)
            return failed(me, E_RUNTIME, "chunk_sizes[%d] is negative: %lld", i, (long long)length), 0;
        sum += length;
        pieces[i].length = length;
        pieces[i].device = devices.ids[i];
        if (pieces[i].device == DEVICE_CPU)
            return failed(me, E_RUNTIME, "Expected non-negative device index, but devices[%d] is the cpu", i), 0;
    }
    if (count > 0 && sum != tensor_size(tensor, dim))
        return failed(me, E_RUNTIME, "split_with_sizes expects chunk_sizes to sum exactly to %lld (the tensor's size "
                      "at dimension %d), but they sum to %lld", (long long)tensor_size(tensor, dim), dim,
                      (long long)sum), 0;
    return count;
}

/* comm.scatter(tensor, devices, chunk_sizes, dim, streams), comm.scatter(tensor, {out = tensors}) */
static int
comm_lua_scatter(lua_State *L)
{
    struct task     *me = script_task(L);
    struct arguments a;
    take_arguments(L, &a);
    if (!a.at[5].none)
        return scatter_into(L, me, &a);
    struct device_list devices = { NULL, 0 };
    if (!a.at[1].none)
        devices = check_devices(L, (int)a.at[1].integer[0]);
    if (devices.count == 0)
        raise_error(L, "RuntimeError", "Expected at least one device to scatter to");
    if (!a.at[2].none && a.at[2].integers == NULL)
        raise_error(L, "TypeError", "chunk_sizes is a list of integers, one a device");
    if (!a.at[2].none && a.at[2].count != devices.count)
        raise_error(L, "RuntimeError", "Expected devices and chunk_sizes to be of same length, but got len(devices) = "
                    "%d and len(chunk_sizes) = %d", devices.count, a.at[2].count);
    struct comm_piece *pieces  = lua_newuserdatauv(L, (size_t)devices.count * sizeof *pieces, 0);
    struct stream    **streams = opt_streams(L, given_index(&a.at[4]), devices.count);
    struct tensor    **out     = push_tensor_room(L, (size_t)devices.count);
    for (int i = 0; i < devices.count; i++)
        pieces[i] = (struct comm_piece){ .stream = streams != NULL ? streams[i] : NULL };
    struct call    call   = call_open(L, me, CALL_PLAIN);
    struct tensor *tensor = a.at[0].tensor;
    int            dim    = comm_dim(me, tensor, int_of_int64(a.at[3].integer[0]));
    int            count  = dim < 0 ? 0 : scatter_pieces(me, tensor, dim, &a.at[2], devices, pieces);
    call_end(&call, count > 0 && comm_scatter(me, tensor, dim, pieces, count, out));
    push_tensors(L, out, count);
    return call_leave(&call, 1);
}

/* comm.gather(tensors, dim, destination), comm.gather(tensors, {out = t}) */
static int
comm_lua_gather(lua_State *L)
{
    struct task     *me = script_task(L);
    struct arguments a;
    take_arguments(L, &a);
    struct tensor **tensors = a.at[0].tensors, *out = a.at[3].tensor;
    int count = a.at[0].count, dim = int_of_int64(a.at[1].integer[0]), destination = me->device < 0 ? 0 : me->device;
    if (!a.at[3].none && !a.at[2].none)
        raise_error(L, "RuntimeError", "'destination' must not be specified when 'out' is specified");
    if (!a.at[2].none)
        destination = check_output_device(L, (int)a.at[2].integer[0]);
    struct call call = call_open(L, me, CALL_PLAIN);
    for (int i = 0; i < count; i++)
        if (tensor_device(tensors[i]) == DEVICE_CPU) {
            failed(me, E_RUNTIME, "Expected all input tensors to be on devices, but the tensor at index %d is on the "
                   "cpu", i);
            break;
        }
    if (!a.at[3].none)
        out = comm_gather_into(me, tensors, count, out, dim);
    else
        out = comm_gather(me, tensors, count, destination, dim);
    return call_tensor(&call, out);
}

static const struct lua_entry entries[] = {
    { "broadcast", comm_lua_broadcast,
      "nn.parallel.comm.broadcast(Tensor tensor, table? devices=None, *, Tensor[]? out=None) -> any",
      "a list: the tensor on each device, itself where it lies" },
    { "broadcast_coalesced", comm_lua_broadcast_coalesced,
      "nn.parallel.comm.broadcast_coalesced(Tensor[] tensors, table devices, int buffer_size=10485760) -> any",
      "a list of lists: all tensors on each device; small ones share a transfer" },
    { "reduce_add", comm_lua_reduce_add,
      "nn.parallel.comm.reduce_add(Tensor[] inputs, device? destination=None) -> any",
      "the sum of tensors of several devices, on one of these" },
    { "reduce_add_coalesced", comm_lua_reduce_add_coalesced,
      "nn.parallel.comm.reduce_add_coalesced(table inputs, device? destination=None, int buffer_size=10485760) -> any",
      "the sums of several tensors of several devices: inputs has a list for each device" },
    { "scatter", comm_lua_scatter,
      "nn.parallel.comm.scatter(Tensor tensor, table? devices=None, int|int[]? chunk_sizes=None, int dim=0, "
      "table? streams=None, *, Tensor[]? out=None) -> any",
      "a list: chunks of the tensor, one a device; where it lies already a view" },
    { "gather", comm_lua_gather,
      "nn.parallel.comm.gather(Tensor[] tensors, int dim=0, any? destination=None, *, Tensor? out=None) -> any",
      "the tensors of several devices joined along dim" },
};

void
lua_open_comm(lua_State *L)
{
    fill_namespace(L, "nn.parallel.comm", entries, countof(entries));
}
