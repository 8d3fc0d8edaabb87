/* Operators of tensors as methods, functions of rs (t:add(u), rs.add(t, u)) and Lua operators (t + u). One function per
 * family takes its row of the table below as upvalue 1. PyTorch: torch.add and its like, python_arg_parser.cpp. */
#include "lua/internal.h"
#include <string.h>
#include "autograd/call.h"
#include "base/vec.h"
#include "device/device.h"
#include "sched/task.h"

struct operand
check_operand(lua_State *L, int index)
{
    struct operand operand = { .tensor = test_tensor(L, index) };
    if (operand.tensor != NULL)
        return operand;
    if (lua_type(L, index) != LUA_TNUMBER)
        arg_error(L, index, "Tensor or a number");
    operand.number  = lua_tonumber(L, index);
    operand.integer = lua_isinteger(L, index);
    return operand;
}

/* Bytes of the result if shapes broadcast; what does not fit is refused before anything is made. */
void
reserve_result(lua_State *L, struct task *me, const struct tensor *a, const struct tensor *b)
{
    double elements = 1;
    int    dims     = tensor_dims(a) > tensor_dims(b) ? tensor_dims(a) : tensor_dims(b);
    for (int i = 1; i <= dims; i++) {
        int64_t x = i <= tensor_dims(a) ? tensor_size(a, -i) : 1, y = i <= tensor_dims(b) ? tensor_size(b, -i) : 1;
        elements *= (double)(x > y ? x : y);
    }
    script_reserve(L, me, elements * 8);
}

struct tensor *
operand_tensor(struct task *me, struct operand operand, const struct tensor *beside)
{
    if (operand.tensor != NULL)
        return operand.tensor;
    enum dtype dtype = operand.integer ? DTYPE_I64 : default_dtype(me);
    if (beside != NULL)
        dtype = dtype_over(beside->dtype, dtype);
    if (dtype_holds(dtype, operand.number, true))
        return tensor_number(me, dtype, DEVICE_CPU, operand.number);
    double element = 0; /* wraps around, or becomes infinite */
    if (operand.integer)
        dtype_put_whole(dtype, &element, (int64_t)operand.number);
    else
        dtype_put_fraction(dtype, &element, operand.number);
    return tensor_from(me, dtype, 0, NULL, &element);
}

static int
mm(lua_State *L)
{
    struct task   *me = script_task(L);
    arg_most(L, 2);
    struct tensor *a  = check_tensor(L, 1), *b = check_tensor(L, 2);
    script_reserve(L, me, 8.0 * (double)tensor_size(a, 0) * (double)tensor_size(b, -1));
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_mm(me, a, b));
}

static int
matmul(lua_State *L)
{
    struct task   *me = script_task(L);
    arg_most(L, 2);
    struct tensor *a  = check_tensor(L, 1), *b = check_tensor(L, 2);
    if (tensor_dims(a) > 0 && tensor_dims(b) > 0)
        script_reserve(L, me, 8.0 * (double)tensor_size(a, 0) * (double)tensor_size(b, -1));
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_matmul(me, a, b));
}

static int
log_softmax(lua_State *L)
{
    struct task   *me   = script_task(L);
    struct op_args args = { .in = { check_tensor(L, 1) } };
    option_spread(L, 2, "dim");
    arg_most(L, 2);
    args.dim = check_dim(L, 2, tensor_dims(args.in[0]));
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, op_call(me, OP_log_softmax, &args));
}

/* cat and stack: rs.cat({a, b}, dim), rs.cat({a, b}, {dim = 1}). */
static int
joined(lua_State *L, bool stacked)
{
    struct task *me = script_task(L);
    option_spread(L, 2, "dim");
    arg_most(L, 2);
    lua_settop(L, 2);
    if (!lua_istable(L, 1))
        arg_error(L, 1, "a list of tensors");
    int             count   = 0;
    struct tensor **tensors = check_tensors(L, 1, &count);
    if (count == 0)
        raise_error(L, "RuntimeError", "%s: expected a list of at least one tensor", stacked ? "stack" : "cat");
    int    dims  = tensor_dims(tensors[0]) + stacked;
    int    dim   = lua_isnil(L, 2) ? 0 : check_dim(L, 2, dims);
    double bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += (double)tensor_bytes(tensors[i]);
    script_reserve(L, me, bytes);
    struct call    call = call_open(L, me, CALL_PLAIN);
    struct op_args args = { .list = tensors, .list_count = count, .dim = dim };
    return call_tensor(&call, stacked ? op_call(me, OP_stack, &args) : tensor_cat(me, tensors, count, dim));
}

static int
cat(lua_State *L)
{
    return joined(L, false);
}

static int
stack(lua_State *L)
{
    return joined(L, true);
}

/* The pieces of dimension `dim` with the given lengths, as a list of views; room for them. */
static int
pieces(struct call *call, struct tensor *tensor, int dim, const int64_t *lengths, int count, struct tensor **out)
{
    lua_State *L = call->L;
    call_end(call, count > 0 && tensor_split(call->me, tensor, &(struct pieces){ dim, count, lengths }, out));
    lua_createtable(L, count, 0);
    for (int i = 0; i < count; i++) {
        push_tensor(L, out[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return call_leave(call, 1);
}

static int
chunk(lua_State *L)
{
    struct task   *me     = script_task(L);
    option_spread(L, 2, "chunks dim");
    arg_most(L, 3);
    struct tensor *tensor = check_tensor(L, 1);
    int64_t        chunks = check_integer(L, 2);
    int            dim    = lua_isnoneornil(L, 3) ? 0 : check_dim(L, 3, tensor_dims(tensor));
    if (chunks > 1 << 20)
        raise_error(L, "ValueError", "%lld chunks are too many", (long long)chunks);
    int64_t        *lengths = lua_newuserdatauv(L, (size_t)(chunks > 0 ? chunks : 1) * sizeof *lengths, 0);
    struct tensor **out = lua_newuserdatauv(L, (size_t)(chunks > 0 ? chunks : 1) * sizeof *out, 0);
    struct call     call = call_open(L, me, CALL_PLAIN);
    return pieces(&call, tensor, dim, lengths, chunk_lengths(me, tensor, chunks, dim, lengths), out);
}

/* t:split(2, dim): pieces of 2, the last one shorter; t:split({2, 3}, dim): of these lengths. */
static int
split(lua_State *L)
{
    struct task   *me     = script_task(L);
    option_spread(L, 3, "dim");
    arg_most(L, 3);
    struct tensor *tensor = check_tensor(L, 1);
    int            dim    = lua_isnoneornil(L, 3) ? 0 : check_dim(L, 3, tensor_dims(tensor));
    int64_t        size   = tensor_size(tensor, dim), piece = 0, total = 0;
    if (tensor_dims(tensor) == 0)
        raise_error(L, "RuntimeError", "split expects at least a 1-dimensional tensor");
    bool listed = lua_istable(L, 2);
    if (!listed && (piece = check_integer(L, 2)) <= 0)
        raise_error(L, "RuntimeError", "split expects a positive size, not %lld", (long long)piece);
    int64_t count = listed ? (int64_t)lua_rawlen(L, 2) : size == 0 ? 1 : (size - 1) / piece + 1;
    if (count > 1 << 20)
        raise_error(L, "ValueError", "%lld pieces are too many", (long long)count);
    int64_t *lengths = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *lengths, 0);
    for (int64_t i = 0; i < count; i++) {
        lengths[i] = size - i * piece < piece ? size - i * piece : piece;
        if (listed) {
            lua_rawgeti(L, 2, i + 1);
            lengths[i] = check_integer(L, -1);
            lua_pop(L, 1);
        }
        total += lengths[i];
        if (lengths[i] < 0 || total > size)
            break;
    }
    if (total != size)
        raise_error(L, "RuntimeError", "the lengths to split into must sum to %lld, the size of dimension %d",
                    (long long)size, dim);
    struct tensor **out  = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *out, 0);
    struct call     call = call_open(L, me, CALL_PLAIN);
    if (count == 0)
        failed(me, E_RUNTIME, "split expects at least one length");
    return pieces(&call, tensor, dim, lengths, (int)count, out);
}

/* ---- registration ---- */

static const struct op_row rows[] = {
    { "mm", mm, 0, "mm(a, b)", "matrix product of two 2-D tensors" },
    { "matmul", matmul, 0, "matmul(a, b)", "product of matrices and vectors" },
    { "log_softmax", log_softmax, 0, "log_softmax(t, dim)", "log of the softmax over a dimension" },
    { "chunk", chunk, 0, "chunk(t, chunks, {dim = 0})", "at most that many equal pieces, the last one shorter" },
    { "split", split, 0, "split(t, size, {dim = 0})", "pieces of a size, or of a list of sizes" },
};

static const struct op_row list_rows[] = {
    { "cat", cat, 0, "cat({a, b, ...}, {dim = 0})", "tensors joined along a dimension" },
    { "stack", stack, 0, "stack({a, b, ...}, {dim = 0})", "tensors of one shape joined along a new dimension" },
};

/* Whose table is at the top: the tensors' methods, or a namespace, whose name comes before its functions'. */
static const char *
space_of_table(lua_State *L)
{
    int table = lua_gettop(L);
    push_ringside(L);
    luaL_getmetatable(L, box_metatable(BOX_TENSOR));
    lua_getfield(L, -1, "methods");
    const char *space = lua_rawequal(L, table, -3) ? "rs." : lua_rawequal(L, table, -1) ? "t:" : "nn.functional.";
    lua_settop(L, table);
    return space;
}

/* "sum(t, dim)" is rs.sum(t, dim) in rs and t:sum(dim) among the methods. */
static const char *
push_usage(lua_State *L, const char *signature, const char *space)
{
    size_t      name = strcspn(signature, "({"), first;
    const char *rest = signature + name;
    if (memchr(signature, ':', name) != NULL || memchr(signature, '.', name) != NULL)
        return lua_pushstring(L, signature);
    if (strcmp(space, "t:") != 0 || rest[0] != '(')
        return lua_pushfstring(L, "%s%s", strcmp(space, "t:") != 0 ? space : "rs.", signature);
    first = strcspn(rest, ",)");
    rest += first + strspn(rest + first, ", ");
    lua_pushlstring(L, signature, name);
    lua_pushfstring(L, "t:%s(%s", lua_tostring(L, -1), rest);
    lua_remove(L, -2);
    return lua_tostring(L, -1);
}

void
add_ops(lua_State *L, const struct op_row *list, size_t count)
{
    const char *space = space_of_table(L);
    for (size_t i = 0; i < count; i++) {
        const char *usage = push_usage(L, list[i].signature, space);
        lua_pushinteger(L, list[i].which);
        lua_pushcclosure(L, list[i].function, 1);
        note_help(L, usage, list[i].help);
        lua_setfield(L, -3, list[i].name);
        lua_pop(L, 1);
    }
}

void
lua_open_ops(lua_State *L)
{
    push_ringside(L);
    add_ops(L, rows, countof(rows));
    add_ops(L, list_rows, countof(list_rows));
    lua_pop(L, 1);
    luaL_getmetatable(L, box_metatable(BOX_TENSOR));
    lua_getfield(L, -1, "methods");
    add_ops(L, rows, countof(rows));
    lua_pop(L, 2);
}
