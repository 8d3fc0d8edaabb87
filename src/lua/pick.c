/* Elements by index and other arrangements, as methods and functions of rs: t:gather(dim, index), t:flip({0}),
 * t:permute(1, 0), t:tril(). t[i] is in index.c. PyTorch: torch.gather, torch.index_select and their like. */
#include "functional/functional.h"
#include "lua/internal.h"
#include <string.h>
#include <stdlib.h>
#include <string.h>
#include "autograd/call.h"
#include "base/vec.h"
#include "device/device.h"
#include "sched/task.h"

/* ---- by index ---- */

/* Upvalue 1: gather or index_select. t:gather(dim, index) */
static int
picked(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1), *index = check_tensor(L, 3);
    int            dim    = check_dim(L, 2, tensor->dims);
    enum op        op     = (enum op)lua_tointeger(L, lua_upvalueindex(1));
    if (op == OP_index_select && index->dims > 1)
        raise_error(L, "IndexError", "index_select takes indices of one dimension, these have %d", index->dims);
    double rows = tensor->dims > 0 && tensor_size(tensor, dim) > 0 ? (double)tensor_size(tensor, dim) : 1;
    script_reserve(L, me, 8 * (double)tensor_count(index) * ((double)tensor_count(tensor) / rows + 1));
    struct call call = call_open(L, me, CALL_PLAIN);
    if (op == OP_index_select)
        index = whole_indices(me, index);
    return call_tensor(&call, tensor_index_select(me, op, tensor, dim, index));
}

/* A number as the source stands at every index. */
static struct tensor *
source_tensor(struct task *me, struct operand source, const struct tensor *into, const struct tensor *index)
{
    if (source.tensor != NULL)
        return source.tensor;
    struct tensor *one = tensor_number(me, into->dtype, tensor_device(into), source.number);
    return tensor_expand(me, one, index->dims, index->size);
}

/* Upvalue 1: scatter, scatter_add, index_add, index_put (as index_copy); plus OP_COUNT in place. */
static int
put(lua_State *L)
{
    struct task   *me    = script_task(L);
    struct op_args args  = { .in = { check_tensor(L, 1), check_tensor(L, 3) } };
    int            which = (int)lua_tointeger(L, lua_upvalueindex(1));
    struct operand from  = check_operand(L, 4);
    int            table = option_table(L, lua_istable(L, 5) ? 5 : 0);
    option_known(L, table, "alpha");
    args.dim   = check_dim(L, 2, args.in[0]->dims);
    args.alpha = option_number(L, table, "alpha", 1);
    script_reserve(L, me, 8 * (double)tensor_count(args.in[0]));
    struct call call = call_open(L, me, CALL_PLAIN);
    args.in[2] = source_tensor(me, from, args.in[0], args.in[1]);
    if (which % OP_COUNT == OP_index_add)
        args.in[1] = whole_indices(me, args.in[1]);
    if (which >= OP_COUNT)
        return call_self(&call, tensor_in_place(me, (enum op)(which % OP_COUNT), &args) != NULL);
    return call_tensor(&call, args.in[1] != NULL && args.in[2] != NULL ? op_call(me, (enum op)which, &args) : NULL);
}

/* ---- where something is not 0 ---- */

struct tensor *
tensor_nonzero(struct task *me, struct tensor *tensor)
{
    struct tensor *zero  = tensor_number(me, DTYPE_BOOL, DEVICE_CPU, 0);
    struct tensor *truth = tensor_detach(me, op_on(me, OP_ne, tensor_detach(me, tensor), zero, 1));
    int64_t        count = tensor_count(tensor), found = 0, rows = 0;
    if (truth == NULL)
        return NULL;
    unsigned char *bytes  = malloc((size_t)count + 1);
    int64_t       *places = NULL;
    bool           ok = (bytes != NULL || failed(me, E_MEMORY, "out of memory")) && tensor_read(me, truth, bytes);
    for (int64_t i = 0; ok && i < count; i++)
        rows += bytes[i] != 0;
    if (ok)
        places = malloc((size_t)(rows * tensor->dims + 1) * sizeof *places);
    ok = ok && (places != NULL || failed(me, E_MEMORY, "out of memory"));
    for (int64_t i = 0; ok && i < count; i++) {
        int64_t rest = i;
        for (int d = tensor->dims; bytes[i] && d-- > 0;) {
            places[found * tensor->dims + d] = rest % tensor->size[d];
            rest /= tensor->size[d];
        }
        found += bytes[i] != 0;
    }
    struct tensor *result = ok ? tensor_from(me, DTYPE_I64, 2, (const int64_t[]){ rows, tensor->dims }, places) : NULL;
    free(bytes);
    free(places);
    return result != NULL ? tensor_to(me, result, tensor_device(tensor), DTYPE_I64) : NULL;
}

static int
nonzero(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    script_reserve(L, me, 8 * (double)tensor_count(tensor) * (tensor->dims + 1));
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_nonzero(me, tensor));
}

/* t:masked_select(mask): in row-major order, after broadcasting. */
static struct tensor *
masked(struct task *me, struct tensor *tensor, struct tensor *mask)
{
    struct tensor *places = NULL;
    int64_t        one = -1;
    if (!tensor_same_shape(tensor, mask)) {
        struct tensor *wide = op_on(me, OP_logical_or, tensor_detach(me, tensor), mask, 1); /* for its shape */
        tensor = wide != NULL ? tensor_expand(me, tensor, wide->dims, wide->size) : NULL;
        mask   = wide != NULL ? tensor_expand(me, mask, wide->dims, wide->size) : NULL;
    }
    mask = tensor_reshape(me, mask, 1, &one);
    if (mask != NULL)
        places = tensor_nonzero(me, mask);
    places = tensor_select(me, places, 1, 0);
    return tensor_index_select(me, OP_index, tensor_reshape(me, tensor, 1, &one), 0, places);
}

static int
masked_select(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1), *mask = check_tensor(L, 2);
    if (mask->dtype != DTYPE_BOOL && mask->dtype != DTYPE_U8)
        raise_error(L, "RuntimeError", "masked_select: expected a mask of bool, got %s", dtype_name(mask->dtype));
    reserve_result(L, me, tensor, mask);
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, masked(me, tensor, mask));
}

/* ---- other orders ---- */

static int
permute(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    int64_t        order[TENSOR_DIMS];
    int            dims = check_shape(L, 2, order);
    struct call    call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_permute(me, tensor, dims, order));
}

/* A dimension or a list of them at `at`; answers how many. */
static int
check_moved(lua_State *L, int at, const struct tensor *tensor, int *dims)
{
    bool listed = lua_istable(L, at);
    int  count  = listed ? (int)lua_rawlen(L, at) : 1;
    if (count > (tensor->dims > 0 ? tensor->dims : 1))
        raise_error(L, "RuntimeError", "movedim: %d dimensions of a tensor that has %d", count, tensor->dims);
    for (int i = 0; i < count; i++) {
        if (listed)
            lua_rawgeti(L, at, i + 1);
        else
            lua_pushvalue(L, at);
        dims[i] = check_dim(L, -1, tensor->dims);
        for (int j = 0; j < i; j++)
            if (dims[j] == dims[i])
                raise_error(L, "RuntimeError", "movedim: repeated dim %d", dims[i]);
        lua_pop(L, 1);
    }
    return count;
}

/* Dimensions go to other places, the rest keep their order. t:movedim(0, 2), t:movedim({0, 1}, {1, 2}) */
static int
movedim(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    int            from[TENSOR_DIMS], to[TENSOR_DIMS], rest = 0;
    int64_t        order[TENSOR_DIMS];
    bool           moved[TENSOR_DIMS] = { false };
    int            count = check_moved(L, 2, tensor, from);
    if (check_moved(L, 3, tensor, to) != count)
        raise_error(L, "RuntimeError", "movedim: as many places as dimensions are needed");
    if (tensor->dims == 0)
        count = 0;
    memset(order, -1, sizeof order);
    for (int i = 0; i < count; i++) {
        order[to[i]]   = from[i];
        moved[from[i]] = true;
    }
    for (int i = 0; i < tensor->dims; i++) {
        while (order[i] < 0 && moved[rest])
            rest++;
        if (order[i] < 0)
            order[i] = rest++;
    }
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_permute(me, tensor, tensor->dims, order));
}

static int
flip(lua_State *L)
{
    struct task   *me   = script_task(L);
    struct op_args args = { .in = { check_tensor(L, 1) } };
    int64_t        dims[TENSOR_DIMS];
    int            count = check_shape(L, 2, dims);
    for (int i = 0; i < count; i++) {
        int64_t dim = dims[i] < 0 ? dims[i] + args.in[0]->dims : dims[i];
        if (dim < 0 || dim >= args.in[0]->dims)
            raise_error(L, "IndexError", "dimension %lld is out of range for a tensor of %d", (long long)dims[i],
                        args.in[0]->dims);
        if (args.start >> dim & 1)
            raise_error(L, "RuntimeError", "dim %lld appears multiple times in the list of dims", (long long)dim);
        args.start |= (int64_t)1 << dim;
    }
    script_reserve(L, me, (double)tensor_bytes(args.in[0]));
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, op_call(me, OP_flip, &args));
}

static int
triangle(lua_State *L)
{
    struct task   *me   = script_task(L);
    option_spread(L, 2, "diagonal");
    arg_most(L, 2);
    struct op_args args = { .in = { check_tensor(L, 1) }, .start = opt_integer(L, 2, 0) };
    enum op        op   = (enum op)lua_tointeger(L, lua_upvalueindex(1));
    script_reserve(L, me, (double)tensor_bytes(args.in[0]));
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, op_call(me, op, &args));
}

static int
diagonal(lua_State *L)
{
    struct task   *me   = script_task(L);
    option_spread(L, 2, "offset dim1 dim2");
    arg_most(L, 4);
    struct op_args args = { .in = { check_tensor(L, 1) }, .length = opt_integer(L, 2, 0) };
    args.dim            = lua_isnoneornil(L, 3) ? 0 : check_dim(L, 3, args.in[0]->dims);
    args.start          = lua_isnoneornil(L, 4) ? 1 : check_dim(L, 4, args.in[0]->dims);
    struct call call    = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, op_call(me, OP_diagonal, &args));
}

/* A number or a list of them at `index`; how many there are. */
static int
check_numbers(lua_State *L, int index, int64_t *out)
{
    if (lua_istable(L, index))
        return check_shape(L, index, out);
    out[0] = check_integer(L, index);
    return 1;
}

/* t:roll(shift, dim), t:roll(shifts, dims); without a dimension over all elements. */
static int
roll(lua_State *L)
{
    struct task   *me   = script_task(L);
    struct op_args args = { .in = { check_tensor(L, 1) } };
    int64_t        shifts[TENSOR_DIMS], dims[TENSOR_DIMS] = { 0 };
    bool           flat   = lua_isnoneornil(L, 3) || args.in[0]->dims == 0;
    int            count  = check_numbers(L, 2, shifts);
    int            places = flat ? 1 : check_numbers(L, 3, dims);
    if (places != count)
        raise_error(L, "RuntimeError", "shifts and dimensions must align. shifts: %d, dims: %d", count, places);
    for (int i = 0; i < count && !flat; i++) {
        lua_pushinteger(L, dims[i]);
        args.sizes[check_dim(L, lua_gettop(L), args.in[0]->dims)] += shifts[i];
        lua_pop(L, 1);
    }
    if (flat)
        args.sizes[0] = shifts[0];
    args.alpha = flat;
    script_reserve(L, me, (double)tensor_bytes(args.in[0]));
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, op_call(me, OP_roll, &args));
}

static int
repeat(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    int64_t        given[TENSOR_DIMS], times[TENSOR_DIMS];
    int            count = check_shape(L, 2, given), dims = count > tensor->dims ? count : tensor->dims;
    double         bytes = (double)tensor_bytes(tensor);
    if (count < tensor->dims && lua_tointeger(L, lua_upvalueindex(1)) == 0)
        raise_error(L, "RuntimeError", "Number of dimensions of repeat dims can not be smaller than number of "
                                       "dimensions of tensor: got %d for %d", count, tensor->dims);
    for (int i = 0; i < dims; i++)
        times[i] = i < dims - count ? 1 : given[i - (dims - count)];
    for (int i = 0; i < dims; i++) {
        if (times[i] < 0 || times[i] > 1 << 24)
            raise_error(L, "RuntimeError", "repeat: %lld times is not possible", (long long)times[i]);
        bytes *= (double)times[i];
    }
    script_reserve(L, me, bytes);
    struct call call = call_open(L, me, CALL_PLAIN);
    struct op_args args = { .in = { tensor }, .dims = dims };
    memcpy(args.sizes, times, sizeof args.sizes);
    return call_tensor(&call, op_call(me, OP_repeat, &args));
}

/* t:unbind(dim): a list of its slices. */
static int
unbind(lua_State *L)
{
    struct task   *me     = script_task(L);
    option_spread(L, 2, "dim");
    arg_most(L, 2);
    struct tensor *tensor = check_tensor(L, 1);
    int            dim    = lua_isnoneornil(L, 2) ? 0 : check_dim(L, 2, tensor->dims);
    int64_t        count  = tensor->dims > 0 ? tensor_size(tensor, dim) : 0;
    if (tensor->dims == 0)
        raise_error(L, "IndexError", "unbind: dimension 0 is given but the tensor has no dimensions");
    if (count > 1 << 20)
        raise_error(L, "RuntimeError", "unbind: a tensor of %d dimensions and %lld slices", tensor->dims,
                    (long long)count);
    struct tensor **out  = lua_newuserdatauv(L, (size_t)count * sizeof(struct tensor *) + 1, 0);
    struct call     call = call_open(L, me, CALL_PLAIN);
    call_end(&call, tensor_unbind(me, tensor, dim, out));
    lua_createtable(L, (int)count, 0);
    for (int64_t i = 0; i < count; i++) {
        push_tensor(L, out[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return call_leave(&call, 1);
}

/* ---- products ---- */

static int
product(lua_State *L)
{
    struct task   *me = script_task(L);
    struct tensor *a = check_tensor(L, 1), *b = check_tensor(L, 2);
    enum op        op = (enum op)lua_tointeger(L, lua_upvalueindex(1));
    if (a->dims > 0 && b->dims > 0)
        script_reserve(L, me, 8.0 * (double)tensor_count(a) / (double)(tensor_size(a, -1) + 1) *
                              (double)(op == OP_bmm ? tensor_size(b, -1) : 1));
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, op_on(me, op, a, b, 1));
}

static const struct op_row rows[] = {
    { "gather", picked, OP_gather, "gather(t, dim, index)", "out[i][j] = t[i][index[i][j]]" },
    { "index_select", picked, OP_index_select, "index_select(t, dim, index)", "rows of a dimension by index" },
    { "scatter", put, OP_scatter, "scatter(t, dim, index, source)", "a copy with out[i][index[i][j]] = source[i][j]" },
    { "scatter_add", put, OP_scatter_add, "scatter_add(t, dim, index, source)",
      "a copy with out[i][index[i][j]] += source[i][j]" },
    { "index_add", put, OP_index_add, "index_add(t, dim, index, rows, {alpha = 1})", "a copy with rows added" },
    { "index_copy", put, OP_index_put, "index_copy(t, dim, index, rows)", "a copy with rows put in" },
    { "nonzero", nonzero, 0, "nonzero(t)", "a row of places for each element that is not 0" },
    { "masked_select", masked_select, 0, "masked_select(t, mask)",
      "the elements where the mask holds, in one dimension" },
    { "permute", permute, 0, "permute(t, dims...)", "dimensions in another order, a view" },
    { "movedim", movedim, 0, "movedim(t, from, to)", "dimensions (numbers or lists) in other places, a view" },
    { "flip", flip, 0, "flip(t, {dims})", "dimensions turned round" },
    { "tril", triangle, OP_tril, "tril(t, {diagonal = 0})", "the lower triangle, 0 elsewhere" },
    { "triu", triangle, OP_triu, "triu(t, {diagonal = 0})", "the upper triangle, 0 elsewhere" },
    { "diagonal", diagonal, 0, "diagonal(t, {offset = 0, dim1 = 0, dim2 = 1})", "the diagonal, a view" },
    { "roll", roll, 0, "roll(t, shifts, dims)", "what leaves at the end comes in at the beginning" },
    { "unbind", unbind, 0, "unbind(t, {dim = 0})", "a list of the slices of a dimension" },
    { "bmm", product, OP_bmm, "bmm(a, b)", "products of two batches of matrices" },
    { "dot", product, OP_dot, "dot(a, b)", "product of two vectors" },
    { "mv", product, OP_mv, "mv(a, b)", "product of a matrix and a vector" },
};
static const struct op_row methods[] = {
    { "repeat", repeat, 0, "t['repeat'](t, {times})", "each dimension so many times; repeat is a word of Lua" },
    { "tile", repeat, 1, "t:tile{times}", "the same; times of the first dimensions may be left out" },
    { "scatter_", put, OP_scatter + OP_COUNT, "t:scatter_(dim, index, source)",
      "in place: t[i][index[i][j]] = source[i][j]" },
    { "scatter_add_", put, OP_scatter_add + OP_COUNT, "t:scatter_add_(dim, index, source)",
      "in place: t[i][index[i][j]] += source[i][j]" },
    { "index_add_", put, OP_index_add + OP_COUNT, "t:index_add_(dim, index, rows, {alpha = 1})",
      "in place: rows added, alpha times" },
    { "index_copy_", put, OP_index_put + OP_COUNT, "t:index_copy_(dim, index, rows)", "in place: rows put in" },
};

void
lua_open_pick(lua_State *L)
{
    push_ringside(L);
    add_ops(L, rows, countof(rows));
    lua_pop(L, 1);
    luaL_getmetatable(L, box_metatable(BOX_TENSOR));
    lua_getfield(L, -1, "methods");
    add_ops(L, rows, countof(rows));
    add_ops(L, methods, countof(methods));
    lua_pop(L, 2);
}
