/* Elements by their place, beside pick.c: t:take(index), t:index_fill(dim, index, value), t:masked_scatter(mask,
 * source), t:repeat_interleave(2, dim). Made of index_select, scatter and where. */
#include <stdlib.h>
#include <string.h>
#include "autograd/call.h"
#include "base/vec.h"
#include "device/device.h"
#include "lua/internal.h"
#include "sched/task.h"

static struct tensor *
flat(struct task *me, struct tensor *tensor)
{
    return tensor != NULL ? tensor_reshape(me, tensor, 1, (const int64_t[]){ tensor_count(tensor) }) : NULL;
}

/* t:take(index): the elements of the tensor seen as a vector, in the shape of the index */
static int
take(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1), *index = check_tensor(L, 2);
    script_reserve(L, me, 8 * (double)tensor_count(index));
    struct call    call = call_open(L, me, CALL_PLAIN);
    struct tensor *from = flat(me, tensor), *places = flat(me, index);
    struct tensor *row  = from != NULL && places != NULL ? tensor_index_select(me, OP_index, from, 0, places) : NULL;
    return call_tensor(&call, row != NULL ? tensor_reshape(me, row, index->dims, index->size) : NULL);
}

static struct tensor *
index_filled(struct task *me, struct tensor *tensor, int dim, struct tensor *index, struct operand value)
{
    int64_t sizes[TENSOR_DIMS];
    memcpy(sizes, tensor->size, sizeof sizes);
    if (tensor->dims > 0)
        sizes[dim] = tensor_count(index);
    struct tensor *one = value.tensor;
    if (one == NULL)
        one = tensor_number(me, tensor->dtype, tensor_device(tensor), value.number);
    struct indexed_rows rows = { dim, index, tensor_expand(me, one, tensor->dims, sizes) };
    return tensor_index_put(me, OP_index_put, tensor, &rows);
}

/* t:index_fill(dim, index, value); upvalue 1: 1 in place */
static int
index_fill(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1), *index = check_tensor(L, 3);
    int            dim    = check_dim(L, 2, tensor->dims);
    struct operand value  = check_operand(L, 4);
    bool           in_place = lua_tointeger(L, lua_upvalueindex(1)) == 1;
    if (index->dims > 1 || (value.tensor != NULL && value.tensor->dims > 0))
        raise_error(L, "IndexError", "index_fill: expected an index of one dimension and one value");
    script_reserve(L, me, (double)tensor_bytes(tensor));
    struct call    call   = call_open(L, me, CALL_PLAIN);
    struct tensor *result = index_filled(me, tensor, dim, index, value);
    return in_place ? call_self(&call, tensor_copy_(me, tensor, result) != NULL) : call_tensor(&call, result);
}

/* Where the mask holds the elements of `source`, in their order. */
static struct tensor *
scattered(struct task *me, struct tensor *tensor, struct tensor *mask, struct tensor *source)
{
    int64_t wanted = 0;
    if (!tensor_same_shape(tensor, mask)) /* the mask is stretched, and may stretch the tensor */
        tensor = op_on(me, OP_masked_fill, tensor, op_on(me, OP_logical_xor, mask, mask, 1), 0);
    mask = tensor != NULL ? tensor_expand(me, mask, tensor->dims, tensor->size) : NULL;
    struct tensor *held    = flat(me, mask);
    struct op_args running = { .in = { held != NULL ? tensor_copy_to(me, held, tensor_device(held), DTYPE_I64)
                                       : NULL } };
    struct tensor *number  = running.in[0] != NULL ? op_call(me, OP_cumsum, &running) : NULL;
    if (number == NULL || tensor_count(mask) == 0)
        return number != NULL ? tensor_copied(me, tensor) : NULL;
    struct tensor *last = tensor_select(me, number, 0, tensor_count(number) - 1);
    if (last == NULL || !tensor_read(me, last, &wanted))
        return NULL;
    if (wanted > tensor_count(source))
        return failed_null(me, E_RUNTIME, "masked_scatter: the mask holds %lld times, but the source has %lld elements",
                           (long long)wanted, (long long)tensor_count(source));
    if (wanted == 0)
        return tensor_copied(me, tensor);
    /* Before the mask first holds the number is 0: any element of the source will do there. */
    struct tensor *least = tensor_from(me, DTYPE_I64, 0, NULL, &(int64_t){ 1 });
    struct tensor *place = tensor_add_number(me, op_on(me, OP_maximum, number, least, 1), -1);
    struct tensor *from  = flat(me, source);
    struct tensor *row   = place != NULL && from != NULL ? tensor_index_select(me, OP_index, from, 0, place) : NULL;
    struct op_args args  = { .in = { mask, row != NULL ? tensor_reshape(me, row, tensor->dims, tensor->size) : NULL,
                                     tensor } };
    return args.in[1] != NULL ? op_call(me, OP_where, &args) : NULL;
}

/* Upvalue 1: 1 in place */
static int
masked_scatter(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1), *mask = check_tensor(L, 2), *source = check_tensor(L, 3);
    bool           in_place = lua_tointeger(L, lua_upvalueindex(1)) == 1;
    if (mask->dtype != DTYPE_BOOL || source->dtype != tensor->dtype)
        raise_error(L, "RuntimeError", "masked_scatter: expected a mask of bool and a source of %s, got %s and %s",
                    dtype_name(tensor->dtype), dtype_name(mask->dtype), dtype_name(source->dtype));
    reserve_result(L, me, tensor, mask);
    struct call    call   = call_open(L, me, CALL_PLAIN);
    struct tensor *result = scattered(me, tensor, mask, source);
    return in_place ? call_self(&call, tensor_copy_(me, tensor, result) != NULL) : call_tensor(&call, result);
}

/* The numbers 0, 1 ..., each as often as `times` says (or all `each` times). */
static struct tensor *
interleaved(struct task *me, int64_t size, int64_t each, const int64_t *times)
{
    int64_t count = 0, at = 0;
    for (int64_t i = 0; i < size; i++)
        count += times != NULL ? times[i] : each;
    int64_t *places = malloc(((size_t)count + 1) * sizeof *places);
    if (places == NULL)
        return failed_null(me, E_MEMORY, "out of memory: repeat_interleave of %lld rows", (long long)count);
    for (int64_t i = 0; i < size; i++)
        for (int64_t j = times != NULL ? times[i] : each; j > 0; j--)
            places[at++] = i;
    struct tensor *result = tensor_from(me, DTYPE_I64, 1, &count, places);
    free(places);
    return result;
}

/* t:repeat_interleave(times, dim): each element so often; times a number, or a vector with one for each. Without a
 * dimension of the tensor seen as a vector. */
static int
repeat_interleave(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1), *each = test_tensor(L, 2);
    int64_t        times  = each == NULL ? check_integer(L, 2) : 0;
    int            table  = option_table(L, lua_istable(L, 3) ? 3 : 0);
    option_known(L, table, "dim");
    bool    along = table != 0 ? option_push(L, table, "dim") : !lua_isnoneornil(L, 3);
    int     dim   = along ? check_dim(L, table != 0 ? lua_gettop(L) : 3, tensor->dims) : 0;
    int64_t size  = along && tensor->dims > 0 ? tensor->size[dim] : tensor_count(tensor), count = each != NULL
        ? tensor_count(each) : 0;
    if (each != NULL && (each->dtype != DTYPE_I64 || each->dims > 1 || (count != size && count != 1)))
        raise_error(L, "RuntimeError",
                    "repeat_interleave: expected a vector of %lld int64 numbers, one for each, got %s with %lld",
                    (long long)size, dtype_name(each->dtype), (long long)count);
    int64_t *list = lua_newuserdatauv(L, ((size_t)size + (size_t)count + 1) * sizeof *list, 0);
    struct call call = call_open(L, me, CALL_PLAIN);
    call_end(&call, each == NULL || tensor_read(me, each, list));
    call_leave(&call, 0);
    if (each != NULL && count == 1)
        times = list[0];
    double total = (double)times * (double)size;
    for (int64_t i = 0; each != NULL && count == size && i < size; i++) {
        if (list[i] < 0)
            times = -1;
        total += (double)list[i];
    }
    if (times < 0)
        raise_error(L, "RuntimeError", "repeat_interleave: repeats can not be negative");
    if (total > 0x1p48)
        raise_error(L, "MemoryError", "out of memory: repeat_interleave of %.3g rows", total);
    script_reserve(L, me, 8 * total + total / (double)(size > 0 ? size : 1) * (double)tensor_bytes(tensor));
    call = call_open(L, me, CALL_PLAIN);
    tensor = along ? tensor : flat(me, tensor);
    struct tensor *index = interleaved(me, size, times, each != NULL && count == size ? list : NULL);
    if (index != NULL && tensor != NULL)
        index = tensor_to(me, index, tensor_device(tensor), DTYPE_I64);
    return call_tensor(&call, index != NULL && tensor != NULL ? tensor_index_select(me, OP_index_select, tensor, dim,
                                                                                    index)
                                                              : NULL);
}

static const struct op_row rows[] = {
    { "take", take, 0, "take(t, index)", "elements of t seen as a vector, in the shape of the index" },
    { "index_fill", index_fill, 0, "index_fill(t, dim, index, value)", "a copy with the value at these indices" },
    { "masked_scatter", masked_scatter, 0, "masked_scatter(t, mask, source)",
      "a copy with the source's elements, in order, where the mask holds" },
    { "repeat_interleave", repeat_interleave, 0, "repeat_interleave(t, times, dim)", "each element so often in a row" },
};
static const struct op_row rows_in_place[] = {
    { "index_fill_", index_fill, 1, "t:index_fill_(dim, index, value)", "in place" },
    { "masked_scatter_", masked_scatter, 1, "t:masked_scatter_(mask, source)", "in place" },
};

void
lua_open_take(lua_State *L)
{
    push_ringside(L);
    add_ops(L, rows, countof(rows));
    lua_pop(L, 1);
    luaL_getmetatable(L, box_metatable(BOX_TENSOR));
    lua_getfield(L, -1, "methods");
    add_ops(L, rows, countof(rows));
    add_ops(L, rows_in_place, countof(rows_in_place));
    lua_pop(L, 2);
}
