/* More shapes of the same elements, and tensors joined and cut: compositions of views, cat and index_select, as
 * PyTorch's own CompositeImplicit functions are. Methods and functions of rs alike: t:unflatten(1, {2, 3}),
 * rs.vstack{a, b}. */
#include <stdlib.h>
#include <string.h>
#include "autograd/call.h"
#include "base/vec.h"
#include "device/device.h"
#include "lua/internal.h"
#include "sched/task.h"

/* ---- one tensor in another shape ---- */

/* t:unflatten(dim, {sizes}): one dimension becomes several; one -1 is inferred. */
static int
unflatten(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    int            dim    = check_dim(L, 2, tensor->dims), dims = 0;
    int64_t        parts[TENSOR_DIMS], sizes[2 * TENSOR_DIMS], known = 1;
    int            count = check_shape(L, 3, parts), unknown = -1;
    for (int i = 0; i < count; i++) {
        if (parts[i] < 0)
            unknown = unknown < 0 && parts[i] == -1 ? i : TENSOR_DIMS;
        else if (__builtin_mul_overflow(known, parts[i], &known))
            known = 0;
    }
    int64_t all = tensor->dims > 0 ? tensor->size[dim] : 0;
    if (unknown >= 0 && unknown < count && known > 0)
        known *= parts[unknown] = all / known;
    if (known != all || unknown >= TENSOR_DIMS || tensor->dims == 0 || tensor->dims + count - 1 > TENSOR_DIMS)
        raise_error(L, "RuntimeError", "unflatten: the sizes do not make up dimension %d, which has %lld", dim,
                    (long long)all);
    for (int i = 0; i < tensor->dims; i++) {
        if (i != dim)
            sizes[dims++] = tensor->size[i];
        for (int j = 0; i == dim && j < count; j++)
            sizes[dims++] = parts[j];
    }
    struct call    call = call_open(L, me, CALL_PLAIN);
    struct op_args args = { .in = { tensor }, .dims = dims };
    memcpy(args.sizes, sizes, (size_t)dims * sizeof *sizes);
    return call_tensor(&call, op_call(me, OP_view, &args));
}

static int
ravel(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    struct call    call   = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_reshape(me, tensor, 1, (const int64_t[]){ tensor_count(tensor) }));
}

/* Upvalue 1: 0 reshape_as, 1 expand_as */
static int
shaped_as(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1), *like = check_tensor(L, 2);
    bool           expand = lua_tointeger(L, lua_upvalueindex(1)) == 1;
    struct call    call   = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, (expand ? tensor_expand : tensor_reshape)(me, tensor, like->dims, like->size));
}

static int
broadcast_to(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    int64_t        sizes[TENSOR_DIMS];
    int            dims = check_shape(L, 2, sizes);
    for (int i = 0; i < dims; i++) {
        int own = i - (dims - tensor->dims);
        if (sizes[i] == -1 && own >= 0)
            sizes[i] = tensor->size[own];
    }
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_expand(me, tensor, dims, sizes));
}

/* Dimensions of size 1 are put in until there are enough: a vector becomes a row, in three dimensions (1, n, 1). */
static struct tensor *
at_least(struct task *me, struct tensor *tensor, int dims)
{
    if (tensor == NULL || tensor->dims >= dims)
        return tensor;
    if (dims == 3 && tensor->dims == 2)
        return tensor_unsqueeze(me, tensor, 2);
    if (dims == 3 && tensor->dims == 1)
        return tensor_unsqueeze(me, tensor_unsqueeze(me, tensor, 0), 2);
    while (tensor != NULL && tensor->dims < dims)
        tensor = tensor_unsqueeze(me, tensor, 0);
    return tensor;
}

/* Upvalue 1: how many dimensions */
static int
atleast(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    int            dims   = (int)lua_tointeger(L, lua_upvalueindex(1));
    struct call    call   = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, at_least(me, tensor, dims));
}

/* t:unfold(dim, size, step): windows of a dimension, as a view with one more dimension at the end. */
static int
unfold(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    int            dim    = check_dim(L, 2, tensor->dims), dims = tensor->dims;
    int64_t        size = check_integer(L, 3), step = check_integer(L, 4), all = dims > 0 ? tensor->size[dim] : 1;
    struct strided at = { .dims = dims + 1, .offset = tensor->offset };
    if (step <= 0 || size < 0 || size > all)
        raise_error(L, "RuntimeError", "unfold: windows of %lld, %lld apart, do not fit dimension %d of size %lld",
                    (long long)size, (long long)step, dim, (long long)all);
    if (dims == TENSOR_DIMS)
        raise_error(L, "RuntimeError", "unfold: the result would have more than %d dimensions", TENSOR_DIMS);
    memcpy(at.size, tensor->size, (size_t)dims * sizeof *at.size);
    memcpy(at.stride, tensor->stride, (size_t)dims * sizeof *at.stride);
    at.size[dims]   = size;
    at.stride[dims] = dims > 0 ? at.stride[dim] : 1;
    if (dims > 0) {
        at.size[dim] = (all - size) / step + 1;
        if (at.size[dim] > 1) /* with one window it is not used, and may not fit */
            at.stride[dim] *= step;
    }
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_as_strided(me, tensor, &at));
}

/* ---- turned ---- */

static struct tensor *
flipped(struct task *me, struct tensor *tensor, int dim)
{
    struct op_args args = { .in = { tensor }, .start = (int64_t)1 << dim };
    return tensor != NULL ? op_call(me, OP_flip, &args) : NULL;
}

/* Upvalue 1: the dimension: 0 flipud, 1 fliplr */
static int
flip_one(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    int            dim    = (int)lua_tointeger(L, lua_upvalueindex(1));
    if (tensor->dims <= dim)
        raise_error(L, "RuntimeError", "%s: input must be >= %d-d, this one has %d dimensions",
                    dim == 0 ? "flipud" : "fliplr", dim + 1, tensor->dims);
    script_reserve(L, me, (double)tensor_bytes(tensor));
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, flipped(me, tensor, dim));
}

/* t:rot90(k, {a, b}): k quarter turns from dimension a towards b. */
static int
rot90(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    int64_t        turns  = ((opt_integer(L, 2, 1) % 4) + 4) % 4, dims[TENSOR_DIMS] = { 0, 1 };
    int            count  = lua_isnoneornil(L, 3) ? 2 : check_shape(L, 3, dims);
    for (int i = 0; i < count && i < 2; i++) {
        dims[i] += dims[i] < 0 ? tensor->dims : 0;
        if (dims[i] < 0 || dims[i] >= tensor->dims)
            raise_error(L, "RuntimeError", "rot90: the tensor has %d dimensions", tensor->dims);
    }
    if (count != 2 || dims[0] == dims[1])
        raise_error(L, "RuntimeError", "rot90 turns in the plane of two different dimensions");
    script_reserve(L, me, 2 * (double)tensor_bytes(tensor));
    struct call    call   = call_open(L, me, CALL_PLAIN);
    int            a = (int)dims[0], b = (int)dims[1];
    struct tensor *result = tensor;
    if (turns == 0)
        result = tensor_copied(me, tensor);
    else if (turns == 1)
        result = tensor_transpose(me, flipped(me, tensor, b), a, b);
    else if (turns == 2)
        result = flipped(me, flipped(me, tensor, a), b);
    else
        result = flipped(me, tensor_transpose(me, tensor, a, b), b);
    return call_tensor(&call, result);
}

/* ---- diagonals ---- */

static struct tensor *
diagonal_of(struct task *me, struct tensor *tensor, int64_t offset)
{
    struct op_args args = { .in = { tensor }, .dim = tensor != NULL ? tensor->dims - 2 : 0, .length = offset };
    args.start = args.dim + 1;
    return tensor != NULL ? op_call(me, OP_diagonal, &args) : NULL;
}

/* The last dimension on a diagonal of new matrices. */
static struct tensor *
embedded(struct task *me, struct tensor *tensor, int64_t offset)
{
    int64_t sizes[TENSOR_DIMS + 1], side = tensor_size(tensor, -1) + llabs(offset);
    if (tensor->dims + 1 > TENSOR_DIMS)
        return failed_null(me, E_RUNTIME, "diag_embed: the result would have more than %d dimensions", TENSOR_DIMS);
    memcpy(sizes, tensor->size, sizeof tensor->size);
    sizes[tensor->dims - 1] = sizes[tensor->dims] = side;
    struct tensor *result = tensor_zeros(me, tensor->dtype, tensor_device(tensor), tensor->dims + 1, sizes);
    return tensor_copy_(me, diagonal_of(me, result, offset), tensor) != NULL ? result : NULL;
}

/* t:diag(offset): a vector on the diagonal of a matrix; a matrix's diagonal as a vector. Upvalue 1: 1 diag_embed */
static int
diag(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    int64_t        offset = opt_integer(L, 2, 0);
    bool           batch  = lua_tointeger(L, lua_upvalueindex(1)) == 1;
    if (batch ? tensor->dims < 1 : tensor->dims != 1 && tensor->dims != 2)
        raise_error(L, "RuntimeError", "%s: expected a %s, got a tensor of %d dimensions", batch ? "diag_embed"
                    : "diag",
                    batch ? "vector or more" : "vector or a matrix", tensor->dims);
    if (offset > 1 << 24 || offset < -(1 << 24))
        raise_error(L, "RuntimeError", "diag: offset %lld is not possible", (long long)offset);
    double side = (double)tensor_size(tensor, -1) + (double)llabs(offset);
    if (batch || tensor->dims == 1)
        script_reserve(L, me, 8 * side * ((double)tensor_count(tensor) + side));
    struct call call = call_open(L, me, CALL_PLAIN);
    if (batch || tensor->dims == 1)
        return call_tensor(&call, embedded(me, tensor, offset));
    return call_tensor(&call, tensor_copied(me, diagonal_of(me, tensor, offset)));
}

static int
trace(lua_State *L)
{
    struct task   *me     = script_task(L);
    struct tensor *tensor = check_tensor(L, 1);
    if (tensor->dims != 2)
        raise_error(L, "RuntimeError", "trace: expected a matrix, but got tensor with dim %d", tensor->dims);
    struct call call = call_open(L, me, CALL_PLAIN);
    return call_tensor(&call, tensor_sum(me, diagonal_of(me, tensor, 0)));
}

/* ---- several tensors ---- */

/* Upvalue 1: 0 vstack, 1 hstack, 2 dstack, 3 column_stack. rs.vstack{a, b} */
static int
stacked(lua_State *L)
{
    static const int least[] = { 2, 1, 3, 2 }, along[] = { 0, 1, 2, 1 };
    struct task     *me = script_task(L);
    int              which = (int)lua_tointeger(L, lua_upvalueindex(1)), count = 0;
    struct tensor  **tensors = check_tensors(L, 1, &count);
    double           bytes   = 0;
    if (count == 0)
        raise_error(L, "RuntimeError", "expected a list of at least one tensor");
    for (int i = 0; i < count; i++)
        bytes += (double)tensor_bytes(tensors[i]);
    script_reserve(L, me, bytes);
    struct call call = call_open(L, me, CALL_PLAIN);
    for (int i = 0; i < count; i++) {
        if (which == 3 && tensors[i]->dims < 2) /* a column each */
            tensors[i] = tensor_reshape(me, tensors[i], 2, (const int64_t[]){ tensor_count(tensors[i]), 1 });
        else
            tensors[i] = at_least(me, tensors[i], least[which]);
        if (tensors[i] == NULL)
            return call_tensor(&call, NULL);
    }
    return call_tensor(&call, tensor_cat(me, tensors, count, which == 1 && tensors[0]->dims == 1 ? 0 : along[which]));
}

/* The pieces in a list; `cuts` and lengths follow from a number of pieces or from a list of places. */
static int
cut(lua_State *L, struct tensor *tensor, int at, int dim)
{
    struct task *me     = script_task(L);
    bool         listed = lua_istable(L, at);
    int64_t      size = tensor_size(tensor, dim), start = 0;
    int64_t      count = listed ? (int64_t)lua_rawlen(L, at) + 1 : check_integer(L, at);
    if (count < 1 || count > 1 << 20)
        raise_error(L, "RuntimeError", "tensor_split: %lld sections are not possible", (long long)count);
    int64_t *ends = lua_newuserdatauv(L, (size_t)count * sizeof *ends, 0);
    for (int64_t i = 0, end = 0; i < count; i++) {
        end += size / count + (i < size % count);
        ends[i] = listed ? size : end;
        if (listed && i + 1 < count) {
            lua_rawgeti(L, at, i + 1);
            ends[i] = check_integer(L, -1);
            lua_pop(L, 1);
            ends[i] = ends[i] < -size ? 0 : ends[i] < 0 ? ends[i] + size : ends[i] > size ? size : ends[i];
        }
    }
    lua_createtable(L, (int)count, 0);
    for (int64_t i = 0; i < count; start = ends[i++]) {
        struct call call = call_open(L, me, CALL_PLAIN);
        call_tensor(&call, tensor_narrow(me, tensor, dim, start < ends[i] ? start : ends[i],
                                         start < ends[i] ? ends[i] - start : 0));
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* t:tensor_split(3, dim), t:tensor_split({1, 4}, dim) */
static int
tensor_split_(lua_State *L)
{
    struct tensor *tensor = check_tensor(L, 1);
    if (tensor->dims == 0)
        raise_error(L, "RuntimeError",
                    "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
    return cut(L, tensor, 2, lua_isnoneornil(L, 3) ? 0 : check_dim(L, 3, tensor->dims));
}

/* Upvalue 1: 0 vsplit, 1 hsplit. A number of sections must divide the size. */
static int
even_split(lua_State *L)
{
    struct tensor *tensor = check_tensor(L, 1);
    bool           across = lua_tointeger(L, lua_upvalueindex(1)) == 1;
    int            dim    = across && tensor->dims > 1 ? 1 : 0;
    if (tensor->dims < (across ? 1 : 2))
        raise_error(L, "RuntimeError", "%s requires a tensor with at least %d dimensions", across ? "hsplit" : "vsplit",
                    across ? 1 : 2);
    int64_t size = tensor_size(tensor, dim);
    if (!lua_istable(L, 2) && (check_integer(L, 2) < 1 || size % lua_tointeger(L, 2) != 0))
        raise_error(L, "RuntimeError", "%s: dimension %d of size %lld does not divide into %lld equal parts",
                    across ? "hsplit" : "vsplit", dim, (long long)size, (long long)lua_tointeger(L, 2));
    return cut(L, tensor, 2, dim);
}

/* A list of views of one shape. */
static int
push_expanded(lua_State *L, struct tensor *const *tensors, int count, int dims, const int64_t *sizes)
{
    struct task *me = script_task(L);
    lua_createtable(L, count, 0);
    for (int i = 0; i < count; i++) {
        struct call call = call_open(L, me, CALL_PLAIN);
        call_tensor(&call, tensor_expand(me, tensors[i], dims, sizes));
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* rs.broadcast_tensors(a, b, ...) or of a list */
static int
broadcast_tensors(lua_State *L)
{
    int64_t sizes[TENSOR_DIMS];
    int     dims = 0, count = 0;
    if (test_tensor(L, 1) != NULL) {
        int given = lua_gettop(L);
        lua_createtable(L, given, 0);
        lua_insert(L, 1);
        for (int i = given; i >= 1; i--)
            lua_rawseti(L, 1, i);
    }
    struct tensor **tensors = check_tensors(L, 1, &count);
    for (int i = 0; i < count; i++)
        dims = tensors[i]->dims > dims ? tensors[i]->dims : dims;
    for (int d = 1; d <= dims; d++) {
        int64_t *size = &sizes[dims - d];
        *size         = 1;
        for (int i = 0; i < count; i++) {
            int64_t own = d <= tensors[i]->dims ? tensor_size(tensors[i], -d) : 1;
            if (own != 1 && *size != 1 && own != *size)
                raise_error(L, "RuntimeError", "broadcast_tensors: sizes %lld and %lld do not match at dimension -%d",
                            (long long)*size, (long long)own, d);
            *size = own != 1 ? own : *size;
        }
    }
    return push_expanded(L, tensors, count, dims, sizes);
}

/* rs.meshgrid({a, b}, {indexing = "ij"}): vectors stretched over the grid that they span; "xy" turns the first two. */
static int
meshgrid(lua_State *L)
{
    struct task *me = script_task(L);
    int          count = 0, table;
    int64_t      sizes[TENSOR_DIMS];
    table = option_table(L, lua_istable(L, 2) ? 2 : 0);
    option_known(L, table, "indexing");
    const char     *indexing = option_text(L, table, "indexing", "ij");
    struct tensor **tensors  = check_tensors(L, 1, &count);
    bool            turned   = strcmp(indexing, "xy") == 0 && count > 1;
    if (strcmp(indexing, "ij") != 0 && strcmp(indexing, "xy") != 0)
        raise_error(L, "RuntimeError", "meshgrid: indexing must be \"ij\" or \"xy\", not \"%.20s\"", indexing);
    if (count < 1 || count > TENSOR_DIMS)
        raise_error(L, "RuntimeError", "meshgrid takes 1 to %d tensors, got %d", TENSOR_DIMS, count);
    for (int i = 0; i < count; i++) {
        if (tensors[i]->dims > 1)
            raise_error(L, "RuntimeError", "meshgrid: expected vectors, but tensor %d has %d dimensions", i,
                        tensors[i]->dims);
        sizes[turned && i < 2 ? 1 - i : i] = tensor_count(tensors[i]);
    }
    struct call call = call_open(L, me, CALL_PLAIN);
    for (int i = 0; i < count; i++) {
        int64_t shape[TENSOR_DIMS] = { 1, 1, 1, 1, 1, 1, 1, 1 };
        shape[turned && i < 2 ? 1 - i : i] = tensor_count(tensors[i]);
        tensors[i] = tensor_expand(me, tensor_reshape(me, tensors[i], count, shape), count, sizes);
    }
    call_end(&call, !task_failed(me));
    lua_createtable(L, count, 0);
    for (int i = 0; i < count; i++) {
        push_tensor(L, tensors[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return call_leave(&call, 1);
}

static const struct op_row rows[] = {
    { "unflatten", unflatten, 0, "unflatten(t, dim, {sizes})", "one dimension as several, a view" },
    { "ravel", ravel, 0, "ravel(t)", "all elements in one dimension" },
    { "reshape_as", shaped_as, 0, "reshape_as(t, other)", "the shape of another tensor" },
    { "expand_as", shaped_as, 1, "expand_as(t, other)", "stretched to the shape of another tensor" },
    { "broadcast_to", broadcast_to, 0, "broadcast_to(t, {sizes})", "stretched to a shape; nothing is copied" },
    { "atleast_1d", atleast, 1, "atleast_1d(t)", "a number becomes a vector" },
    { "atleast_2d", atleast, 2, "atleast_2d(t)", "a vector becomes a row" },
    { "atleast_3d", atleast, 3, "atleast_3d(t)", "a vector becomes (1, n, 1), a matrix (m, n, 1)" },
    { "unfold", unfold, 0, "unfold(t, dim, size, step)", "windows of a dimension, in one more dimension; a view" },
    { "flipud", flip_one, 0, "flipud(t)", "dimension 0 turned round" },
    { "fliplr", flip_one, 1, "fliplr(t)", "dimension 1 turned round" },
    { "rot90", rot90, 0, "rot90(t, k, {dim0, dim1})", "k quarter turns in the plane of two dimensions" },
    { "diag", diag, 0, "diag(t, offset)", "a matrix from its diagonal, or a matrix's diagonal" },
    { "diag_embed", diag, 1, "diag_embed(t, offset)", "the last dimension on the diagonals of matrices" },
    
    { "tensor_split", tensor_split_, 0, "tensor_split(t, sections or {places}, dim)", "views, as even as possible" },
    { "vsplit", even_split, 0, "vsplit(t, sections or {places})", "tensor_split along dimension 0" },
    { "hsplit", even_split, 1, "hsplit(t, sections or {places})", "tensor_split along dimension 1" },
};
/* As a method only: rs.trace is the run's own record. */
static const struct op_row methods[] = {
    { "trace", trace, 0, "t:trace()", "the sum of a matrix's diagonal" },
};
static const struct op_row functions[] = {
    { "vstack", stacked, 0, "rs.vstack{a, b, ...}", "rows on top of each other" },
    { "hstack", stacked, 1, "rs.hstack{a, b, ...}", "side by side" },
    { "dstack", stacked, 2, "rs.dstack{a, b, ...}", "behind each other, along dimension 2" },
    { "column_stack", stacked, 3, "rs.column_stack{a, b, ...}", "vectors as columns" },
    { "broadcast_tensors", broadcast_tensors, 0, "rs.broadcast_tensors(a, b, ...)", "a list of views of one shape" },
    { "meshgrid", meshgrid, 0, "rs.meshgrid({a, b, ...}, {indexing = \"ij\"})", "the grid that vectors span" },
};

void
lua_open_shapes(lua_State *L)
{
    push_ringside(L);
    add_ops(L, rows, countof(rows));
    add_ops(L, functions, countof(functions));
    lua_pop(L, 1);
    luaL_getmetatable(L, box_metatable(BOX_TENSOR));
    lua_getfield(L, -1, "methods");
    add_ops(L, rows, countof(rows));
    add_ops(L, methods, countof(methods));
    lua_pop(L, 2);
}
