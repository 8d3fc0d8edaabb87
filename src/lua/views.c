/* Tensors from tensors: the same elements in another shape (views, recorded as PyTorch records them) and copies of them
 * elsewhere or in another dtype. */
#include "lua/internal.h"
#include <stdio.h>
#include "autograd/call.h"
#include "base/vec.h"
#include "device/device.h"
#include "sched/task.h"

static int
t(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    struct call    call   = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_t(me, tensor));
}

static int
transpose(lua_State *L)
{
    struct task   *me     = script_task(L);
    option_spread(L, 2, "dim0 dim1");
    arg_most(L, 3);
    struct tensor *tensor = check_tensor(L, 1);
    int            a = check_dim(L, 2, tensor->dims), b = check_dim(L, 3, tensor->dims);
    struct call    call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_transpose(me, tensor, a, b));
}

static void
bad_shape(lua_State *L, int dims, const int64_t *sizes, int64_t count)
{
    char text[24 * TENSOR_DIMS + 2] = "";
    int  used = 0;
    for (int i = 0; i < dims; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%lld", i > 0 ? ", " : "", (long long)sizes[i]);
    raise_error(L, "RuntimeError", "shape '[%s]' is invalid for input of size %lld", text, (long long)count);
}

/* One size may be -1: whatever is left. */
static int
check_new_shape(lua_State *L, const struct tensor *tensor, int64_t *sizes)
{
    int     dims = check_shape(L, 2, sizes), unknown = -1;
    int64_t known = 1, count = tensor_count(tensor);
    for (int i = 0; i < dims; i++) {
        if (sizes[i] < -1 || (sizes[i] == -1 && unknown >= 0))
            raise_error(L, "RuntimeError", "a shape has sizes of 0 or more, and -1 at most once");
        if (sizes[i] == -1)
            unknown = i;
        else if (__builtin_mul_overflow(known, sizes[i], &known))
            raise_error(L, "RuntimeError", "the shape is too large");
    }
    if (unknown >= 0 ? known == 0 || count % known != 0 : known != count)
        bad_shape(L, dims, sizes, count);
    if (unknown >= 0)
        sizes[unknown] = count / known;
    return dims;
}

static int
reshape(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    int64_t        sizes[TENSOR_DIMS];
    int            dims = check_new_shape(L, tensor, sizes);
    struct call    call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_reshape(me, tensor, dims, sizes));
}

static int
view(lua_State *L)
{
    struct task   *me   = script_task(L);
    struct op_args args = { .in = { check_tensor(L, 1) } };
    args.dims           = check_new_shape(L, args.in[0], args.sizes);
    struct call call    = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, op_call(me, OP_view, &args));
}

static int
view_as(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1), *like = check_tensor(L, 2);
    struct call    call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_reshape(me, tensor, like->dims, like->size));
}

static int
flatten(lua_State *L)
{
    struct task   *me     = script_task(L);
    option_spread(L, 2, "start_dim end_dim");
    arg_most(L, 3);
    struct tensor *tensor = check_tensor(L, 1);
    int            first  = lua_isnoneornil(L, 2) ? 0 : check_dim(L, 2, tensor->dims), dims = 0;
    int            last   = lua_isnoneornil(L, 3) ? tensor->dims - 1 : check_dim(L, 3, tensor->dims);
    int64_t        sizes[TENSOR_DIMS + 1] = { 1 };
    if (first > last && tensor->dims > 0)
        raise_error(L, "RuntimeError", "flatten: start_dim %d cannot come after end_dim %d", first, last);
    for (int i = 0; i < tensor->dims; i++) {
        if (i > first && i <= last)
            sizes[dims - 1] *= tensor->size[i];
        else
            sizes[dims++] = tensor->size[i];
    }
    dims += tensor->dims == 0;
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_reshape(me, tensor, dims, sizes));
}

/* -1 keeps a dimension's size. */
static int
expand(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    int64_t        sizes[TENSOR_DIMS];
    int            dims = check_shape(L, 2, sizes);
    for (int i = 0; i < dims; i++) {
        int own = i - (dims - tensor->dims);
        if (sizes[i] == -1 && own >= 0)
            sizes[i] = tensor->size[own];
        if (sizes[i] < 0)
            raise_error(L, "RuntimeError", "size %d of the shape to expand to is negative", i);
    }
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_expand(me, tensor, dims, sizes));
}

static int
narrow(lua_State *L)
{
    struct task   *me     = script_task(L);
    option_spread(L, 2, "dim start length");
    arg_most(L, 4);
    struct tensor *tensor = check_tensor(L, 1);
    int            along  = check_dim(L, 2, tensor->dims);
    int64_t        start = check_integer(L, 3), count = check_integer(L, 4), all = tensor_size(tensor, along);
    if (tensor->dims == 0)
        raise_error(L, "RuntimeError", "narrow cannot be applied to a 0-dim tensor");
    if (start < 0 && start >= -all)
        start += all;
    if (start < 0 || start > all || count < 0 || count > all - start)
        raise_error(L, "RuntimeError", "start %lld and length %lld exceed the size %lld of dimension %d",
                    (long long)start, (long long)count, (long long)all, along);
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_narrow(me, tensor, along, start, count));
}

static int
select_(lua_State *L)
{
    struct task   *me     = script_task(L);
    option_spread(L, 2, "dim index");
    arg_most(L, 3);
    struct tensor *tensor = check_tensor(L, 1);
    int            along  = check_dim(L, 2, tensor->dims);
    int64_t        index  = check_element(L, check_integer(L, 3), tensor, along);
    struct call    call   = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_select(me, tensor, along, index));
}

static int
unsqueeze(lua_State *L)
{
    struct task   *me     = script_task(L);
    option_spread(L, 2, "dim");
    arg_most(L, 2);
    struct tensor *tensor = check_tensor(L, 1);
    int            along  = check_dim(L, 2, tensor->dims + 1);
    struct call    call   = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_unsqueeze(me, tensor, along));
}

/* Without a dimension: all of size 1. */
static int
squeeze(lua_State *L)
{
    struct task   *me     = script_task(L);
    option_spread(L, 2, "dim");
    arg_most(L, 2);
    struct tensor *tensor = check_tensor(L, 1);
    int            only   = lua_isnoneornil(L, 2) ? -1 : check_dim(L, 2, tensor->dims);
    struct call    call   = call_open(L, me, CALL_PLAIN);
    struct tensor *result = tensor;
    for (int i = tensor->dims - 1; i >= 0 && result != NULL; i--)
        if (tensor->size[i] == 1 && (only < 0 || only == i))
            result = tensor_squeeze(me, result, i);
    return call_tensor(&call, result);
}

/* t:as_strided({sizes}, {strides}, offset) */
static int
as_strided(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    struct strided at     = { 0 };
    lua_settop(L, 4);
    at.offset = opt_integer(L, 4, tensor->offset);
    lua_settop(L, 3);
    check_table(L, 2);
    check_table(L, 3);
    int count = check_shape(L, 3, at.stride);
    lua_settop(L, 2);
    at.dims = check_shape(L, 2, at.size);
    if (count != at.dims)
        raise_error(L, "RuntimeError", "as_strided: %d sizes but %d strides", at.dims, count);
    for (int i = 0; i < at.dims; i++)
        if (at.size[i] < 0 || at.stride[i] < 0)
            raise_error(L, "RuntimeError", "as_strided: negative sizes and strides are not possible");
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_as_strided(me, tensor, &at));
}

/* ---- copies ---- */

int
copied_to(lua_State *L, struct tensor *tensor, int device, enum dtype dtype)
{
    struct task *me = script_task(L);
    if (device != tensor_device(tensor) || dtype != tensor->dtype)
        script_reserve(L, me, (double)tensor_count(tensor) * (double)dtype_size(dtype));
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_copy_to(me, tensor, device, dtype));
}

/* t:to("device:1"), t:to("float64"), t:to(other), t:to("device:0", "int64"), t:to{dtype = ..., device = ...} */
static int
to(lua_State *L)
{
    struct tensor *tensor = check_tensor(L, 1), *other = test_tensor(L, 2);
    int            device = tensor_device(tensor);
    enum dtype     dtype  = tensor->dtype;
    if (other != NULL)
        return copied_to(L, tensor, tensor_device(other), other->dtype);
    if (lua_istable(L, 2)) {
        option_known(L, 2, "dtype device");
        return copied_to(L, tensor, option_device(L, 2, device), option_dtype(L, 2, dtype));
    }
    arg_most(L, 3);
    if (lua_isnoneornil(L, 2))
        arg_error(L, 2, "a device, a dtype or a Tensor");
    for (int i = 2; i <= lua_gettop(L); i++)
        if (lua_type(L, i) != LUA_TSTRING || !dtype_parse(lua_tostring(L, i), &dtype))
            device = check_device(L, i);
    return copied_to(L, tensor, device, dtype);
}

static int
cpu(lua_State *L)
{
    struct tensor *tensor = check_tensor(L, 1);
    return copied_to(L, tensor, DEVICE_CPU, tensor->dtype);
}

static int
cuda(lua_State *L)
{
    struct tensor *tensor = check_tensor(L, 1);
    int            device = lua_isnoneornil(L, 2) ? script_of(L)->holder->device : check_device(L, 2);
    return copied_to(L, tensor, device < 0 ? 0 : device, tensor->dtype);
}

static int
clone_(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    script_reserve(L, me, (double)tensor_bytes(tensor));
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_copied(me, tensor));
}

static int
contiguous(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    script_reserve(L, me, (double)tensor_bytes(tensor));
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_is_contiguous(tensor) ? tensor : tensor_copied(me, tensor));
}

static int
detach(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    struct call    call   = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_detach(me, tensor));
}

static const struct lua_entry methods[] = {
    { "t", t, "t:t()", "a 2-D tensor with its dimensions swapped" },
    { "transpose", transpose, "t:transpose(dim0, dim1)", "two dimensions swapped" },
    { "reshape", reshape, "t:reshape{sizes}", "another shape; a view where strides allow, else a copy" },
    { "view", view, "t:view{sizes}", "another shape of the same elements; an error where strides do not allow it" },
    { "view_as", view_as, "t:view_as(other)", "the shape of another tensor" },
    { "flatten", flatten, "t:flatten(start_dim, end_dim)", "dimensions from start to end, both included, as one" },
    { "expand", expand, "t:expand{sizes}", "size-1 dimensions stretched; nothing is copied" },
    { "narrow", narrow, "t:narrow(dim, start, length)", "a range of one dimension, a view" },
    { "select", select_, "t:select(dim, index)", "one index of a dimension, a view" },
    { "unsqueeze", unsqueeze, "t:unsqueeze(dim)", "a dimension of size 1 put in" },
    { "squeeze", squeeze, "t:squeeze(dim)", "dimensions of size 1 taken out" },
    { "as_strided", as_strided, "t:as_strided({sizes}, {strides}, offset)", "any view of the storage" },
    { "to", to, "t:to(device or dtype or tensor)", "a copy there; the same tensor if nothing changes" },
    { "cpu", cpu, "t:cpu()", "a copy in host memory" },
    { "cuda", cuda, "t:cuda(index)", "a copy on a device: t:to(\"device:0\")" },
    { "clone", clone_, "t:clone()", "a contiguous copy, recorded" },
    { "contiguous", contiguous, "t:contiguous()", "itself if contiguous, else a copy" },
    { "detach", detach, "t:detach()", "the same elements without history" },
};

void
lua_open_views(lua_State *L)
{
    luaL_getmetatable(L, box_metatable(BOX_TENSOR));
    lua_getfield(L, -1, "methods");
    add_entries(L, -1, methods, countof(methods));
    lua_pop(L, 2);
}
