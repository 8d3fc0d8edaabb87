/* t[0], t[-1], t[{1, 0}], t[{rs.slice(1, 3), 0}], t["..."], t[mask], t[indices]: reading and writing. Indices count
 * from 0
 * and, negative, from the end, as in PyTorch. Integers and slices make views; masks and index tensors copy rows. */
#include "lua/internal.h"
#include <stdlib.h>
#include <string.h>
#include "autograd/call.h"
#include "base/vec.h"
#include "device/device.h"
#include "sched/task.h"

enum { INDEX_PARTS = 2 * TENSOR_DIMS };
static const char SLICE[] = "ringside.slice";
enum part_kind { PART_SELECT, PART_SLICE, PART_NEW };
struct part { enum part_kind kind; int64_t start, length, step; };
struct parts { struct part part[INDEX_PARTS]; int count; };

int64_t
check_element(lua_State *L, int64_t index, const struct tensor *tensor, int dim)
{
    if (tensor->dims == 0)
        raise_error(L, "IndexError", "a 0-dim tensor has no elements to index: use t:item()");
    int64_t count = tensor_size(tensor, dim);
    if (index < -count || index >= count)
        raise_error(L, "IndexError", "index %lld is out of range for dimension %d of size %lld", (long long)index, dim,
                    (long long)count);
    return index < 0 ? index + count : index;
}

/* rs.slice(start, stop, step): any may be nil. */
static int
slice(lua_State *L)
{
    lua_settop(L, 3);
    int64_t step = opt_integer(L, 3, 1);
    if (step < 1)
        raise_error(L, "ValueError", "a slice's step must be 1 or more, not %lld", (long long)step);
    lua_createtable(L, 3, 0);
    for (int i = 1; i <= 3; i++) {
        if (lua_isnoneornil(L, i))
            continue;
        lua_pushinteger(L, check_integer(L, i));
        lua_rawseti(L, -2, i);
    }
    luaL_setmetatable(L, SLICE);
    return 1;
}

static bool
is_slice(lua_State *L, int index)
{
    if (lua_type(L, index) != LUA_TTABLE || !lua_getmetatable(L, index))
        return false;
    luaL_getmetatable(L, SLICE);
    bool same = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return same;
}

static int64_t
slice_field(lua_State *L, int index, int field, int64_t otherwise)
{
    int64_t value = lua_rawgeti(L, index, field) == LUA_TNIL ? otherwise : lua_tointeger(L, -1);
    lua_pop(L, 1);
    return value;
}

static int64_t
clamp(int64_t value, int64_t size)
{
    if (value < 0)
        value += size;
    return value < 0 ? 0 : value > size ? size : value;
}

static struct part
check_slice(lua_State *L, int index, const struct tensor *tensor, int dim)
{
    int64_t     size = tensor_size(tensor, dim);
    struct part part = { .kind = PART_SLICE, .start = clamp(slice_field(L, index, 1, 0), size) };
    int64_t     stop = clamp(slice_field(L, index, 2, size), size);
    part.step        = slice_field(L, index, 3, 1);
    part.length      = stop > part.start ? stop - part.start : 0;
    return part;
}

/* How many dimensions the other entries of an index use up, so that "..." takes the rest. */
static int
dims_used(lua_State *L, int table, int count)
{
    int used = 0;
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(L, table, i);
        used += lua_isinteger(L, -1) || is_slice(L, lua_gettop(L));
        lua_pop(L, 1);
    }
    return used;
}

static void
add_part(lua_State *L, struct parts *parts, struct part part)
{
    if (parts->count == INDEX_PARTS)
        raise_error(L, "IndexError", "an index of more than %d parts", INDEX_PARTS);
    parts->part[parts->count++] = part;
}

/* The entry at the top of the stack. Answers how many dimensions of the tensor it uses. */
static int
check_part(lua_State *L, const struct tensor *tensor, int dim, int rest, struct parts *parts)
{
    int top = lua_gettop(L);
    if (luaL_testudata(L, top, "ringside.none") != NULL) {
        add_part(L, parts, (struct part){ .kind = PART_NEW });
        return 0;
    }
    if (lua_type(L, top) == LUA_TSTRING && strcmp(lua_tostring(L, top), "...") == 0) {
        for (int i = 0; i < rest; i++)
            add_part(L, parts, (struct part){ PART_SLICE, 0, tensor_size(tensor, dim + i), 1 });
        return rest > 0 ? rest : 0;
    }
    if (dim >= tensor->dims && (lua_isinteger(L, top) || is_slice(L, top)))
        raise_error(L, "IndexError", "too many indices for a tensor of dimension %d", tensor->dims);
    if (lua_isinteger(L, top)) {
        int64_t at = check_element(L, lua_tointeger(L, top), tensor, dim);
        add_part(L, parts, (struct part){ .kind = PART_SELECT, .start = at });
    } else if (is_slice(L, top)) {
        add_part(L, parts, check_slice(L, top, tensor, dim));
    } else {
        raise_error(L, "IndexError", "an index is made of integers, rs.slice(start, stop), rs.none and \"...\", not %s",
                    luaL_typename(L, top));
    }
    return 1;
}

static struct parts
check_parts(lua_State *L, int index, const struct tensor *tensor)
{
    struct parts parts = { .count = 0 };
    if (!is_plain_table(L, index)) {
        lua_pushvalue(L, index);
        check_part(L, tensor, 0, tensor->dims, &parts);
        lua_pop(L, 1);
        return parts;
    }
    int count = (int)lua_rawlen(L, index), dim = 0;
    int rest  = tensor->dims - dims_used(L, index, count);
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(L, index, i);
        dim += check_part(L, tensor, dim, rest, &parts);
        lua_pop(L, 1);
    }
    return parts;
}

/* ---- middle parts: no Lua from here ---- */

/* Every step-th index of a dimension: one view each, joined. */
static struct tensor *
strided_slice(struct task *me, struct tensor *tensor, int dim, const struct part *part)
{
    int64_t count = (part->length + part->step - 1) / part->step;
    if (count == 0)
        return tensor_narrow(me, tensor, dim, part->start, 0);
    struct tensor **rows = calloc((size_t)count, sizeof *rows);
    if (rows == NULL)
        return failed_null(me, E_MEMORY, "out of memory");
    bool ok = true;
    for (int64_t i = 0; i < count && ok; i++)
        ok = (rows[i] = tensor_narrow(me, tensor, dim, part->start + i * part->step, 1)) != NULL;
    struct tensor *result = ok ? tensor_cat(me, rows, (int)count, dim) : NULL;
    free(rows);
    return result;
}

static struct tensor *
apply_parts(struct task *me, struct tensor *tensor, const struct parts *parts)
{
    int dim = 0;
    for (int i = 0; i < parts->count && tensor != NULL; i++) {
        const struct part *part = &parts->part[i];
        bool all = part->kind == PART_SLICE && part->start == 0 && part->length == tensor_size(tensor, dim);
        if (part->kind == PART_SELECT)
            tensor = tensor_select(me, tensor, dim, part->start);
        else if (part->kind == PART_NEW)
            tensor = tensor_unsqueeze(me, tensor, dim++);
        else if (part->step > 1)
            tensor = strided_slice(me, tensor, dim++, part);
        else if (all)
            dim++;
        else
            tensor = tensor_narrow(me, tensor, dim++, part->start, part->length);
    }
    return tensor;
}

/* Rows of dimension 0 in runs: a mask gives runs of true, an index tensor one run per index. */
struct run { int64_t start, length; };
struct runs { struct run *run; int64_t count, rows; };

static bool
runs_of_mask(struct task *me, struct tensor *mask, struct runs *runs)
{
    int64_t        count = tensor_count(mask);
    unsigned char *bytes = malloc((size_t)count + 1);
    runs->run            = calloc((size_t)count + 1, sizeof *runs->run);
    bool ok = (bytes != NULL && runs->run != NULL) || failed(me, E_MEMORY, "out of memory");
    ok      = ok && tensor_read(me, mask, bytes);
    for (int64_t i = 0; i < count && ok; i++) {
        if (!bytes[i])
            continue;
        if (i == 0 || !bytes[i - 1])
            runs->run[runs->count++].start = i;
        runs->run[runs->count - 1].length++;
        runs->rows++;
    }
    free(bytes);
    return ok;
}

static bool
runs_of_indices(struct task *me, struct tensor *indices, int64_t size, struct runs *runs)
{
    int64_t  count = tensor_count(indices);
    int64_t *list  = calloc((size_t)count + 1, sizeof *list);
    runs->run      = calloc((size_t)count + 1, sizeof *runs->run);
    runs->count = runs->rows = count;
    bool ok = (list != NULL && runs->run != NULL) || failed(me, E_MEMORY, "out of memory");
    ok      = ok && tensor_read(me, indices, list);
    for (int64_t i = 0; i < count && ok; i++) {
        int64_t at = list[i] < 0 ? list[i] + size : list[i];
        if (at < 0 || at >= size)
            ok = failed(me, E_INDEX, "index %lld is out of range for dimension 0 of size %lld", (long long)list[i],
                        (long long)size);
        runs->run[i] = (struct run){ at, 1 };
    }
    free(list);
    return ok;
}

/* The tensor with as many leading dimensions made one as the mask has. */
static struct tensor *
flattened_for(struct task *me, struct tensor *tensor, const struct tensor *mask)
{
    int64_t sizes[TENSOR_DIMS] = { tensor_count(mask) };
    int     dims               = 1;
    for (int i = 0; i < mask->dims; i++)
        if (i >= tensor->dims || mask->size[i] != tensor->size[i])
            return failed_null(me, E_INDEX, "the mask's dimension %d of size %lld does not fit the tensor's", i,
                               (long long)mask->size[i]);
    for (int i = mask->dims; i < tensor->dims; i++)
        sizes[dims++] = tensor->size[i];
    return mask->dims == 1 ? tensor : tensor_reshape(me, tensor, dims, sizes);
}

static struct tensor *
read_runs(struct task *me, struct tensor *rows, const struct runs *runs)
{
    if (runs->count == 0)
        return tensor_narrow(me, rows, 0, 0, 0);
    struct tensor **pieces = calloc((size_t)runs->count, sizeof *pieces);
    if (pieces == NULL)
        return failed_null(me, E_MEMORY, "out of memory");
    bool ok = true;
    for (int64_t i = 0; i < runs->count && ok; i++)
        ok = (pieces[i] = tensor_narrow(me, rows, 0, runs->run[i].start, runs->run[i].length)) != NULL;
    struct tensor *result = ok ? tensor_cat(me, pieces, (int)runs->count, 0) : NULL;
    free(pieces);
    return result;
}

/* `value` NULL: `number` instead. One row of value per selected row, or one value for all. */
static bool
write_runs(struct task *me, struct tensor *rows, const struct runs *runs, struct tensor *value, double number)
{
    int64_t done = 0;
    bool    each = value != NULL && value->dims == rows->dims && tensor_size(value, 0) == runs->rows;
    for (int64_t i = 0; i < runs->count; i++) {
        const struct run *run  = &runs->run[i];
        struct tensor    *into = tensor_narrow(me, rows, 0, run->start, run->length);
        struct tensor    *from = each ? tensor_narrow(me, value, 0, done, run->length) : value;
        done += run->length;
        bool ok = value == NULL ? tensor_fill_(me, into, number) != NULL : tensor_copy_(me, into, from) != NULL;
        if (!ok)
            return false;
    }
    return true;
}

static bool
find_runs(struct task *me, struct tensor **tensor, struct tensor *selector, struct runs *runs)
{
    if (selector->dtype == DTYPE_BOOL) {
        *tensor = flattened_for(me, *tensor, selector);
        return *tensor != NULL && runs_of_mask(me, selector, runs);
    }
    if (selector->dtype != DTYPE_I64)
        return failed(me, E_INDEX, "a tensor used as an index must be of int64 or bool, this one is %s",
                      dtype_name(selector->dtype));
    if ((*tensor)->dims == 0)
        return failed(me, E_INDEX, "a 0-dim tensor has no rows to index");
    return runs_of_indices(me, selector, tensor_size(*tensor, 0), runs);
}

static struct tensor *
read_selected(struct task *me, struct tensor *tensor, struct tensor *selector)
{
    struct runs    runs   = { NULL, 0, 0 };
    struct tensor *result = find_runs(me, &tensor, selector, &runs) ? read_runs(me, tensor, &runs) : NULL;
    free(runs.run);
    if (result == NULL || selector->dtype == DTYPE_BOOL || selector->dims == 1)
        return result;
    int64_t sizes[TENSOR_DIMS];
    int     dims = 0;
    if (selector->dims + tensor->dims - 1 > TENSOR_DIMS)
        return failed_null(me, E_INDEX, "the result would have more than %d dimensions", TENSOR_DIMS);
    for (int i = 0; i < selector->dims; i++)
        sizes[dims++] = selector->size[i];
    for (int i = 1; i < tensor->dims; i++)
        sizes[dims++] = tensor->size[i];
    return tensor_reshape(me, result, dims, sizes);
}

static bool
write_selected(struct task *me, struct tensor *tensor, struct tensor *selector, struct tensor *value, double number)
{
    struct runs     runs = { NULL, 0, 0 };
    struct tensor  *rows = tensor;
    struct storage *own  = tensor->storage;
    bool            ok   = find_runs(me, &rows, selector, &runs);
    if (ok && rows->storage != own)
        ok = failed(me, E_RUNTIME,
                    "cannot write through a mask into this tensor: its rows do not lie one after another");
    ok = ok && write_runs(me, rows, &runs, value, number);
    free(runs.run);
    return ok;
}

/* ---- the two doors ---- */

int
index_read(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1), *selector = test_tensor(L, 2);
    struct parts   parts  = { .count = 0 };
    if (selector == NULL)
        parts = check_parts(L, 2, tensor);
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, selector != NULL ? read_selected(me, tensor, selector) : apply_parts(me, tensor, &parts));
}

int
index_write(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1), *selector = test_tensor(L, 2), *value = test_tensor(L, 3);
    struct parts   parts  = { .count = 0 };
    double         number = value != NULL ? 0 : lua_isboolean(L, 3) ? lua_toboolean(L, 3) : check_number(L, 3);
    if (selector == NULL)
        parts = check_parts(L, 2, tensor);
    for (int i = 0; i < parts.count; i++)
        if (parts.part[i].step > 1)
            raise_error(L, "NotImplementedError", "writing through a slice with a step is not possible here");
    struct call call = call_open(L, me, CALL_PLAIN);
    if (selector != NULL)
        return call_done(&call, write_selected(me, tensor, selector, value, number));
    struct tensor *into = apply_parts(me, tensor, &parts);
    if (into == NULL || value == NULL)
        return call_done(&call, into != NULL && tensor_fill_(me, into, number) != NULL);
    return call_done(&call, tensor_copy_(me, into, value) != NULL);
}

static const struct lua_entry entries[] = {
    { "slice", slice, "rs.slice(start, stop, step)", "a range of indices, stop excluded: t[{rs.slice(1, 3), 0}]" },
};

void
lua_open_index(lua_State *L)
{
    luaL_newmetatable(L, SLICE);
    lua_pushliteral(L, "slice");
    lua_setfield(L, -2, "__name");
    lua_pop(L, 1);
    open_namespace(L, "", entries, countof(entries));
    lua_pop(L, 1);
}
