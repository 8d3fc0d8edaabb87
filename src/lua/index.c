/* t[0], t[-1], t[{1, 0}], t[{rs.slice(1, 3), 0}], t["..."], t[mask], t[indices], t[{rows, columns}]: reading and
 * writing. Indices count from 0 and, negative, from the end, as in PyTorch. Integers and slices make views; masks
 * and index tensors copy rows: several of them are broadcast and go together. */
#include "lua/internal.h"
#include <string.h>
#include "autograd/call.h"
#include "base/vec.h"
#include "device/cells.h"
#include "device/device.h"
#include "sched/account.h"
#include "sched/task.h"

enum { INDEX_PARTS = 2 * TENSOR_DIMS };
static const char SLICE[] = "ringside.slice";
enum part_kind { PART_SELECT, PART_SLICE, PART_NEW, PART_TENSOR };
struct part { enum part_kind kind; int64_t start, length, step; struct tensor *tensor; };
struct parts { struct part part[INDEX_PARTS]; int count; };

static int64_t
check_element(lua_State *L, int64_t index, const struct tensor *tensor, int dim)
{
    if (tensor->dims == 0)
        raise_error(L, "IndexError", "a 0-dim tensor has no elements to index: use t:item()");
    int64_t count = tensor_size(tensor, dim);
    if (index < -count || index >= count)
        raise_error(L, "IndexError", "index %lld is out of bounds for dimension %d with size %lld: indices count from "
                    "0, or from the end with -1 for the last", (long long)index, dim, (long long)count);
    return index < 0 ? index + count : index;
}

/* rs.slice(start, stop, step): any may be nil. */
static int
index_slice(lua_State *L)
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

/* Bytes are masks as bools are. */
static bool
is_mask(const struct tensor *tensor)
{
    return tensor->dtype == DTYPE_BOOL || tensor->dtype == DTYPE_U8;
}

/* How many dimensions the other entries of an index use up, so that "..." takes the rest. */
static int
dims_used(lua_State *L, int table, int count)
{
    int used = 0;
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(L, table, i);
        const struct tensor *tensor = test_tensor(L, -1);
        used += lua_isinteger(L, -1) || has_class(L, lua_gettop(L), SLICE);
        used += tensor == NULL ? 0 : is_mask(tensor) ? tensor->dims : 1;
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
            add_part(L, parts, (struct part){ PART_SLICE, 0, tensor_size(tensor, dim + i), 1, NULL });
        return rest > 0 ? rest : 0;
    }
    struct tensor *selector = test_tensor(L, top);
    int            takes = selector != NULL && is_mask(selector) ? selector->dims : 1;
    if (dim + takes > tensor->dims && (lua_isinteger(L, top) || has_class(L, top, SLICE) || selector != NULL))
        raise_error(L, "IndexError", "too many indices for a tensor of dimension %d", tensor->dims);
    if (selector != NULL && !is_mask(selector) && selector->dtype != DTYPE_I64)
        raise_error(L, "IndexError", "tensors used as indices must be long, byte or bool tensors, this one is %s",
                    dtype_name(selector->dtype));
    if (selector != NULL) {
        add_part(L, parts, (struct part){ .kind = PART_TENSOR, .step = 1, .tensor = selector });
        return takes;
    }
    if (lua_isinteger(L, top)) {
        int64_t at = check_element(L, lua_tointeger(L, top), tensor, dim);
        add_part(L, parts, (struct part){ .kind = PART_SELECT, .start = at });
    } else if (has_class(L, top, SLICE)) {
        add_part(L, parts, check_slice(L, top, tensor, dim));
    } else if (lua_type(L, top) == LUA_TNUMBER) {
        push_text(L, top);
        raise_error(L, "IndexError", "an index is made of integers, not the number %s; instead of x[n / 2] write "
                    "x[n // 2]",
                    lua_tostring(L, -1));
    } else {
        raise_error(L, "IndexError",
                    "an index is made of integers, rs.slice(start, stop), tensors, rs.none and \"...\", not %s%s",
                    luaL_typename(L, top),
                    lua_isboolean(L, top) ? "; instead of x[x == 1] = 0 write x:masked_fill_(x:eq(1), 0), instead of "
                                            "x[x == 1] write x[x:eq(1)]" : "");
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

/* What the index tensors stand at once integers and slices are taken: `dim` of the view, one or more dimensions
 * each. */
struct index_selection { struct tensor *tensor; int dim; };
struct selected { struct index_selection list[TENSOR_DIMS]; int count; };

static struct tensor *
stepped_slice(struct task *me, struct tensor *tensor, int dim, const struct part *part)
{
    struct op_args args = { .in = { tensor }, .dim = dim, .start = part->start, .step = part->step,
                            .length = part->length > 0 ? (part->length - 1) / part->step + 1 : 0 };
    return op_call(me, OP_narrow, &args);
}

static struct tensor *
apply_parts(struct task *me, struct tensor *tensor, const struct parts *parts, struct selected *selected)
{
    int dim = 0;
    for (int i = 0; i < parts->count && tensor != NULL; i++) {
        const struct part *part = &parts->part[i];
        bool all = part->kind == PART_SLICE && part->start == 0 && part->length == tensor_size(tensor, dim);
        if (part->kind == PART_SELECT) {
            tensor = tensor_select(me, tensor, dim, part->start);
        } else if (part->kind == PART_NEW) {
            tensor = tensor_unsqueeze(me, tensor, dim++);
        } else if (part->kind == PART_TENSOR) {
            selected->list[selected->count++] = (struct index_selection){ part->tensor, dim };
            dim += is_mask(part->tensor) ? part->tensor->dims : 1;
        } else if (part->step > 1) {
            tensor = stepped_slice(me, tensor, dim++, part);
        } else if (all) {
            dim++;
        } else {
            tensor = tensor_narrow(me, tensor, dim++, part->start, part->length);
        }
    }
    return tensor;
}

/* ---- index tensors: `rows` with all indexed dimensions as one, `places` in it ---- */
struct lookup { struct tensor *rows, *places; int dim; };

/* A mask's true places, one list of indices a dimension: as many rows as it has dimensions. */
static int64_t *
places_of_mask(struct task *me, struct tensor *mask, int64_t *count)
{
    int64_t        all = tensor_count(mask), found = 0;
    unsigned char *bytes = task_work(me, (uint64_t)all) ? scratch_new(me, (size_t)all + 1, 1) : NULL;
    *count = 0;
    if (bytes == NULL || !tensor_read(me, mask, bytes))
        return NULL;
    for (int64_t i = 0; i < all; i++)
        *count += bytes[i] != 0;
    int64_t *places = scratch_new(me, (size_t)*count * (size_t)mask->dims + 1, sizeof *places);
    for (int64_t i = 0; places != NULL && i < all; i++) {
        int64_t rest = i;
        for (int d = mask->dims; bytes[i] && d-- > 0; rest /= mask->size[d])
            places[d * *count + found] = rest % mask->size[d];
        found += bytes[i] != 0;
    }
    return places;
}

/* Masks become index tensors, one a dimension. */
static bool
spread_masks(struct task *me, const struct tensor *view, const struct selected *from, struct selected *to)
{
    for (int i = 0; i < from->count; i++) {
        struct tensor *tensor = from->list[i].tensor;
        int            dim    = from->list[i].dim;
        if (!is_mask(tensor)) {
            to->list[to->count++] = from->list[i];
            continue;
        }
        for (int d = 0; d < tensor->dims; d++)
            if (tensor->size[d] != view->size[dim + d])
                return failed(me, E_INDEX,
                              "the mask's dimension %d of size %lld does not fit the tensor's, of size %lld", d,
                              (long long)tensor->size[d], (long long)view->size[dim + d]);
        int64_t  count  = 0;
        int64_t *places = places_of_mask(me, tensor, &count);
        for (int d = 0; places != NULL && d < tensor->dims; d++)
            to->list[to->count++] = (struct index_selection){ tensor_from(me, DTYPE_I64, 1, &count, places + d * count),
                                                        dim + d };
        if (task_failed(me))
            return false;
    }
    return true;
}

/* Places in the dimensions taken together, and room for one index tensor. */
struct joint { int64_t *list, *scratch, count; };

/* Adds one index tensor's share to the places in the dimensions taken together. */
static bool
add_places(struct task *me, const struct tensor *view, int dim, struct tensor *index, struct joint *joint)
{
    int64_t size = view->size[dim], *scratch = joint->scratch;
    if (!tensor_read(me, index, scratch))
        return false;
    for (int64_t i = 0; i < joint->count; i++) {
        int64_t at = scratch[i] < 0 ? scratch[i] + size : scratch[i];
        if (at < 0 || at >= size)
            return failed(me, E_INDEX, "index %lld is out of bounds for dimension %d with size %lld",
                          (long long)scratch[i], dim, (long long)size);
        joint->list[i] = joint->list[i] * size + at;
    }
    return true;
}

static struct tensor *
joint_places(struct task *me, const struct tensor *view, const struct selected *selected)
{
    int     dims = 0;
    int64_t sizes[TENSOR_DIMS], count = 1;
    for (int i = 0; i < selected->count; i++)
        dims = selected->list[i].tensor->dims > dims ? selected->list[i].tensor->dims : dims;
    for (int d = 0; d < dims; d++) {
        sizes[d] = 1;
        for (int i = 0; i < selected->count; i++) {
            const struct tensor *index = selected->list[i].tensor;
            int                  own   = d - (dims - index->dims);
            if (own < 0 || index->size[own] == 1 || index->size[own] == sizes[d])
                continue;
            if (sizes[d] != 1)
                return failed_null(me, E_INDEX, "shape mismatch: the index tensors cannot be broadcast together: "
                                   "index %d has the shape %s where the ones before make %lld", i,
                                   shape_text(index).text, (long long)sizes[d]);
            sizes[d] = index->size[own];
        }
        count *= sizes[d];
    }
    struct joint joint = { .count = count };
    if (!task_work(me, (uint64_t)count * (uint64_t)selected->count))
        return NULL;
    joint.list    = scratch_new(me, (size_t)count + 1, sizeof *joint.list);
    joint.scratch = scratch_new(me, (size_t)count + 1, sizeof *joint.scratch);
    bool ok       = joint.list != NULL && joint.scratch != NULL;
    for (int i = 0; ok && i < selected->count; i++) {
        struct tensor *index = tensor_expand(me, selected->list[i].tensor, dims, sizes);
        ok = index != NULL && add_places(me, view, selected->list[i].dim, index, &joint);
    }
    struct tensor *places = ok ? tensor_from(me, DTYPE_I64, dims, sizes, joint.list) : NULL;
    return places != NULL ? tensor_to(me, places, tensor_device(view), DTYPE_I64) : NULL;
}

/* Indexed dimensions that do not stand side by side go to the front, as in PyTorch; then they become one. */
static struct tensor *
gathered_dims(struct task *me, struct tensor *view, const struct selected *selected, int *first)
{
    int     dims = 0, count = selected->count;
    int64_t order[TENSOR_DIMS], sizes[TENSOR_DIMS], joint = 1;
    bool    apart = false, taken[TENSOR_DIMS] = { false };
    *first = selected->list[0].dim;
    for (int i = 0; i < count; i++) {
        apart = apart || selected->list[i].dim != *first + i;
        taken[selected->list[i].dim] = true;
        joint *= view->size[selected->list[i].dim];
        order[dims++] = selected->list[i].dim;
    }
    for (int d = 0; apart && d < view->dims; d++)
        if (!taken[d])
            order[dims++] = d;
    if (apart) {
        *first = 0;
        view = tensor_permute(me, view, dims, order);
    }
    if (view == NULL || count == 1)
        return view;
    dims = 0;
    for (int d = 0; d < view->dims; d++) {
        if (d == *first)
            sizes[dims++] = joint;
        else if (d < *first || d >= *first + count)
            sizes[dims++] = view->size[d];
    }
    return tensor_reshape(me, view, dims, sizes);
}

static bool
look_up(struct task *me, struct tensor *view, const struct selected *selected, struct lookup *lookup)
{
    struct selected plain = { .count = 0 };
    if (!spread_masks(me, view, selected, &plain))
        return false;
    if (plain.count == 0)
        return failed(me, E_INDEX, "a mask of no dimensions is not understood");
    bool direct = selected->count == 1 && plain.list[0].tensor == selected->list[0].tensor;
    lookup->rows   = gathered_dims(me, view, &plain, &lookup->dim);
    lookup->places = direct ? tensor_to(me, plain.list[0].tensor, tensor_device(view), DTYPE_I64)
                            : joint_places(me, view, &plain);
    return lookup->rows != NULL && lookup->places != NULL;
}

/* A mask over everything that is indexed, and one number: no places are needed. */
static bool
fill_masked(struct task *me, struct tensor *view, const struct index_selection *selection, double number)
{
    struct tensor *mask = selection->tensor;
    int            rest = view->dims - selection->dim - mask->dims;
    for (int i = 0; i < rest; i++)
        mask = tensor_unsqueeze(me, mask, -1);
    struct op_args args = { .in = { view, mask }, .alpha = number };
    for (int d = 0; d < selection->tensor->dims; d++)
        if (selection->tensor->size[d] != view->size[selection->dim + d])
            return failed(me, E_INDEX, "the mask's dimension %d of size %lld does not fit the tensor's, of size %lld",
                          d, (long long)selection->tensor->size[d], (long long)view->size[selection->dim + d]);
    return tensor_in_place(me, OP_masked_fill, &args) != NULL;
}

static bool
write_rows(struct task *me, struct tensor *view, const struct selected *selected, struct tensor *value, double number)
{
    struct lookup lookup = { NULL, NULL, 0 };
    int64_t       sizes[2 * TENSOR_DIMS];
    int           dims = 0;
    if (!look_up(me, view, selected, &lookup))
        return false;
    if (lookup.rows->storage != view->storage) { /* the rows do not lie one after another: in a copy they do */
        struct tensor *whole = tensor_copied(me, view);
        return whole != NULL && write_rows(me, whole, selected, value, number) && tensor_copy_(me, view, whole) != NULL;
    }
    for (int d = 0; d < lookup.dim; d++)
        sizes[dims++] = lookup.rows->size[d];
    for (int d = 0; d < lookup.places->dims; d++)
        sizes[dims++] = lookup.places->size[d];
    for (int d = lookup.dim + 1; d < lookup.rows->dims; d++)
        sizes[dims++] = lookup.rows->size[d];
    if (dims > TENSOR_DIMS)
        return failed(me, E_INDEX, "the result would have more than %d dimensions", TENSOR_DIMS);
    if (value == NULL)
        value = tensor_number(me, view->dtype, tensor_device(view), number);
    while (value != NULL && value->dims > dims && value->size[0] == 1)
        value = tensor_squeeze(me, value, 0);
    struct op_args args = { .in = { lookup.rows, lookup.places, tensor_expand(me, value, dims, sizes) },
                            .dim = lookup.dim };
    return tensor_in_place(me, OP_index_put, &args) != NULL;
}

/* ---- the two doors ---- */

static struct tensor *
read_parts(struct task *me, struct tensor *tensor, const struct parts *parts)
{
    struct selected selected = { .count = 0 };
    struct lookup   lookup   = { NULL, NULL, 0 };
    struct tensor  *view     = apply_parts(me, tensor, parts, &selected);
    if (view == NULL || selected.count == 0)
        return view;
    return look_up(me, view, &selected, &lookup)
               ? tensor_index_select(me, OP_index, lookup.rows, lookup.dim, lookup.places) : NULL;
}

static bool
write_parts(struct task *me, struct tensor *tensor, const struct parts *parts, struct tensor *value, double number)
{
    struct selected selected = { .count = 0 };
    struct tensor  *view     = apply_parts(me, tensor, parts, &selected);
    if (view == NULL)
        return false;
    if (selected.count == 1 && is_mask(selected.list[0].tensor) && value == NULL)
        return fill_masked(me, view, &selected.list[0], number);
    if (selected.count == 1 && is_mask(selected.list[0].tensor) && tensor_count(value) == 1)
        value = tensor_copied(me, value); /* one element may be the target's own: PyTorch fills then */
    if (selected.count > 0)
        return write_rows(me, view, &selected, value, number);
    if (value == NULL)
        return tensor_fill_(me, view, number) != NULL;
    if (!tensor_same_shape(view, value) && tensor_stretches_to(value, view))
        value = tensor_expand(me, value, view->dims, view->size);
    return tensor_copy_(me, view, value) != NULL;
}

int
index_read(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    struct parts   parts  = check_parts(L, 2, tensor);
    struct call    call   = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, read_parts(me, tensor, &parts));
}

int
index_write(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1), *value = test_tensor(L, 3);
    double         number = value != NULL ? 0 : lua_isboolean(L, 3) ? lua_toboolean(L, 3) : check_number(L, 3);
    if (tensor_is_sparse(tensor))
        raise_error(L, "NotImplementedError", "rows of a sparse tensor are not written one by one: use t:to_dense()");
    struct parts   parts  = check_parts(L, 2, tensor);
    struct call    call   = call_open(L, me, CALL_PLAIN);
    return call_done(&call, write_parts(me, tensor, &parts, value, number));
}

static const struct lua_entry entries[] = {
    { "slice", index_slice, "rs.slice(start, stop, step)",
      "a range of indices, stop excluded: t[{rs.slice(1, 3), 0}]" },
};

void
lua_open_index(lua_State *L)
{
    luaL_newmetatable(L, SLICE);
    set_text(L, -1, "__name", "slice");
    lua_pop(L, 1);
    fill_namespace(L, "", entries, countof(entries));
}
