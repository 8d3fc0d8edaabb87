/* rs.utils.data: data sets. A data set of the lesson's own is a class with two functions:
 *
 *     local Squares = data.Dataset("Squares")
 *     function Squares:init(n) self.n = n end
 *     function Squares:len() return self.n end
 *     function Squares:getitem(i) return { rs.tensor(i), rs.tensor(i * i) } end   -- i from 0; or return x, y
 *
 * squares[3] and #squares then work as ds[3] and len(ds). TensorDataset and Subset are such classes, too. A stream is
 * a class made by data.IterableDataset with one function:
 *
 *     function Lines:iter() local i = 0; return function() i = i + 1; return self.text[i] end end */
#include "base/vec.h"
#include "lua/data.h"
#include "lua/dispatch.h"
#include "sched/task.h"
#include "tensor/tensor.h"

static const char CLASS[] = "ringside.dataset_class", OBJECT[] = "ringside.dataset";
enum { SPLIT_PARTS = 1000, SUBSET_MOST = 1 << 26 };

/* ---- what a data set is asked ---- */

int64_t
dataset_length(lua_State *L, int index)
{
    struct tensor *tensor = test_tensor(L, index);
    if (tensor != NULL && tensor->dims > 0)
        return tensor->size[0];
    if (!lua_istable(L, index) && !luaL_getmetafield(L, index, "__len"))
        arg_error(L, index, "a data set, a tensor or a list");
    int64_t length = luaL_len(L, index);
    if (length < 0 || length > SUBSET_MOST)
        raise_error(L, "ValueError", "the data set says that it has %lld samples", (long long)length);
    return length;
}

void
dataset_item(lua_State *L, int index, int64_t item)
{
    if (is_plain_table(L, index))
        lua_rawgeti(L, index, item + 1);
    else
        lua_geti(L, index, item);
}

/* ---- classes ---- */

static int
dataset_class_call(lua_State *L)
{
    lua_newtable(L);
    luaL_setmetatable(L, OBJECT);
    lua_pushliteral(L, "__class");
    lua_pushvalue(L, 1);
    lua_rawset(L, -3);
    lua_insert(L, 2); /* class, object, arguments */
    return init_object(L);
}

/* data.Dataset("Name"), data.Dataset("Name", Base) */
static int
dataset(lua_State *L)
{
    return declare_class(L, CLASS, "a class made by data.Dataset");
}

/* data.IterableDataset("Name"): its iter(self) answers a function that gives one sample after the other. */
static int
iterable_dataset(lua_State *L)
{
    dataset(L);
    lua_pushliteral(L, "__iterable");
    lua_pushboolean(L, true);
    lua_rawset(L, -3);
    return 1;
}

/* ---- objects ---- */

void
refuse_without(lua_State *L, int object, const char *name)
{
    lua_pushfstring(L, "__%s", name);
    lua_pushliteral(L, "__class");
    lua_rawget(L, object);
    lua_pushvalue(L, -2);
    bool python = lua_gettable(L, -2) != LUA_TNIL;
    raise_error(L, "NotImplementedError", "this data set's class has no function \"%s\"%s", name,
                python ? "; it is called so, without __" : "");
}

static void
push_method(lua_State *L, int object, const char *name)
{
    lua_pushliteral(L, "__class");
    lua_rawget(L, object);
    lua_getfield(L, -1, name);
    lua_remove(L, -2);
    if (lua_isnil(L, -1))
        refuse_without(L, object, name);
}

static int
object_index(lua_State *L)
{
    if (lua_isinteger(L, 2)) {
        push_method(L, 1, "getitem");
        int first = lua_gettop(L);
        lua_pushvalue(L, 1);
        lua_pushvalue(L, 2);
        lua_call(L, 2, LUA_MULTRET);
        if (lua_gettop(L) > first) /* return x, y is meant as return { x, y } */
            gather_values(L, first);
        lua_settop(L, first);
        return 1;
    }
    lua_pushliteral(L, "__class");
    if (lua_rawget(L, 1) != LUA_TTABLE)
        return 0;
    lua_pushvalue(L, 2);
    lua_gettable(L, -2);
    return 1;
}

static int
object_length(lua_State *L)
{
    push_method(L, 1, "len");
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
    if (!lua_isinteger(L, -1))
        raise_error(L, "TypeError", "a data set's len answers an integer, not %s", luaL_typename(L, -1));
    return 1;
}

/* ---- TensorDataset ---- */

/* TensorDataset(a, b, ...): tensors of equal first size. */
static int
tensors_init(lua_State *L)
{
    int count = lua_gettop(L) - 1;
    check_table(L, 1);
    if (count < 1)
        raise_error(L, "TypeError", "a TensorDataset needs tensors");
    lua_createtable(L, count, 0);
    for (int i = 1; i <= count; i++) {
        struct tensor *tensor = check_tensor(L, i + 1);
        if (tensor->dims == 0 || tensor->size[0] != check_tensor(L, 2)->size[0])
            raise_error(L, "AssertionError", "Size mismatch between tensors: expected %lld in dimension 0 of tensor "
                        "%d, got %s", (long long)tensor_size(check_tensor(L, 2), 0), i - 1, shape_text(tensor).text);
        lua_pushvalue(L, i + 1);
        lua_rawseti(L, -2, i);
    }
    lua_setfield(L, 1, "tensors");
    return 0;
}

static void
push_own_list(lua_State *L, const char *name)
{
    check_table(L, 1);
    lua_pushstring(L, name);
    if (lua_rawget(L, 1) != LUA_TTABLE)
        raise_error(L, "TypeError", "this data set's %s must stay a list", name);
}

static int
tensors_len(lua_State *L)
{
    push_own_list(L, "tensors");
    lua_rawgeti(L, -1, 1);
    lua_pushinteger(L, check_tensor(L, -1)->size[0]);
    return 1;
}

/* {a[i], b[i], ...} */
static int
tensors_getitem(lua_State *L)
{
    int64_t item = check_integer(L, 2);
    lua_settop(L, 2);
    push_own_list(L, "tensors");
    int count = (int)lua_rawlen(L, 3);
    lua_createtable(L, count, 0);
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(L, 3, i);
        lua_geti(L, -1, item);
        lua_rawseti(L, 4, i);
        lua_settop(L, 4);
    }
    return 1;
}

/* ---- Subset ---- */

/* Subset(dataset, {indices}) */
static int
subset_init(lua_State *L)
{
    check_table(L, 1);
    dataset_length(L, 2);
    check_table(L, 3);
    lua_settop(L, 3);
    lua_setfield(L, 1, "indices");
    lua_setfield(L, 1, "dataset");
    return 0;
}

static int
subset_len(lua_State *L)
{
    push_own_list(L, "indices");
    lua_pushinteger(L, (lua_Integer)lua_rawlen(L, -1));
    return 1;
}

static int
subset_getitem(lua_State *L)
{
    int64_t item = check_integer(L, 2);
    push_own_list(L, "indices");
    int64_t count = (int64_t)lua_rawlen(L, -1);
    if (item < -count || item >= count)
        raise_error(L, "IndexError", "index %lld is out of range: the subset has %lld samples", (long long)item,
                    (long long)count);
    lua_rawgeti(L, -1, (item < 0 ? item + count : item) + 1);
    int64_t below = check_integer(L, -1);
    lua_getfield(L, 1, "dataset");
    dataset_item(L, lua_gettop(L), below);
    return 1;
}

/* ---- random_split ---- */

/* Fractions are rounded down, what is left goes round. */
static void
lengths_of_fractions(int64_t *lengths, const double *fractions, int count, int64_t total)
{
    int64_t given = 0;
    for (int i = 0; i < count; i++) {
        lengths[i] = (int64_t)((double)total * fractions[i]);
        given += lengths[i];
    }
    for (int i = 0; given < total; i++, given++)
        lengths[i % count]++;
}

/* The list at `index` as lengths that sum up to `total`. */
static int
check_dataset_lengths(lua_State *L, int index, int64_t total, int64_t *lengths)
{
    double fractions[SPLIT_PARTS], sum = 0;
    int    count = (int)lua_rawlen(L, index);
    if (count < 1 || count > SPLIT_PARTS)
        raise_error(L, "ValueError", "random_split makes 1 to %d parts", (int)SPLIT_PARTS);
    for (int i = 0; i < count; i++) {
        lua_rawgeti(L, index, i + 1);
        if (lua_type(L, -1) != LUA_TNUMBER || !(lua_tonumber(L, -1) >= 0) || lua_tonumber(L, -1) > 0x1p40)
            raise_error(L, "TypeError", "lengths: expected numbers of 0 or more");
        fractions[i] = lua_tonumber(L, -1);
        lengths[i]   = (int64_t)fractions[i];
        sum += fractions[i];
        lua_pop(L, 1);
    }
    if (sum > 1 - 1e-9 && sum < 1 + 1e-9)
        lengths_of_fractions(lengths, fractions, count, total);
    int64_t whole = 0;
    for (int i = 0; i < count; i++)
        whole += lengths[i];
    if (whole != total)
        raise_error(L, "ValueError", "Sum of input lengths does not equal the length of the input dataset! They "
                    "make %lld of %lld", (long long)whole, (long long)total);
    return count;
}

/* random_split(dataset, lengths, {generator}): a list of Subsets; one permutation is drawn. */
static int
random_split(lua_State *L)
{
    struct task     *me = script_task(L);
    struct arguments a;
    take_arguments(L, &a);
    int     whole = (int)a.at[0].integer[0];
    int64_t total = dataset_length(L, whole), lengths[SPLIT_PARTS], at = 0;
    int     count = check_dataset_lengths(L, (int)a.at[1].integer[0], total, lengths);
    struct generator *generator = a.at[2].none ? default_generator(me) : a.at[2].generator;
    if (generator == NULL)
        raise(L, me);
    int64_t *order = lua_newuserdatauv(L, (size_t)(total + 1) * sizeof *order, 0);
    fill_randperm(generator, order, (size_t)total);
    lua_createtable(L, count, 0);
    int parts = lua_gettop(L);
    for (int i = 0; i < count; i++) {
        luaL_getmetatable(L, "ringside.Subset");
        lua_pushvalue(L, whole);
        lua_createtable(L, (int)lengths[i], 0);
        for (int64_t j = 0; j < lengths[i]; j++) {
            lua_pushinteger(L, order[at++]);
            lua_rawseti(L, -2, j + 1);
        }
        lua_call(L, 2, 1);
        lua_rawseti(L, parts, i + 1);
    }
    return 1;
}

/* ---- the short ways of the loader ---- */

/* Is the object's getitem this C function? */
static bool
gets_by(lua_State *L, int index, lua_CFunction function)
{
    if (!has_class(L, index, OBJECT))
        return false;
    lua_getfield(L, index, "getitem");
    bool same = lua_tocfunction(L, -1) == function;
    lua_pop(L, 1);
    return same;
}

bool
dataset_tensors(lua_State *L, int index)
{
    return gets_by(L, index, tensors_getitem) && lua_getfield(L, index, "tensors") == LUA_TTABLE;
}

bool
dataset_subset(lua_State *L, int index)
{
    if (!gets_by(L, index, subset_getitem))
        return false;
    lua_getfield(L, index, "dataset");
    lua_getfield(L, index, "indices");
    check_table(L, -1);
    return true;
}

bool
dataset_is_stream(lua_State *L, int index)
{
    if (!has_class(L, index, OBJECT))
        return false;
    lua_getfield(L, index, "__iterable");
    bool stream = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return stream;
}

static const luaL_Reg object_metamethods[] = {
    { "__index", object_index }, { "__len", object_length }, { NULL, NULL },
};
static const luaL_Reg tensors_methods[] = {
    { "init", tensors_init }, { "len", tensors_len }, { "getitem", tensors_getitem }, { NULL, NULL },
};
static const luaL_Reg subset_methods[] = {
    { "init", subset_init }, { "len", subset_len }, { "getitem", subset_getitem }, { NULL, NULL },
};
static const struct lua_entry entries[] = {
    { "Dataset", dataset, "utils.data.Dataset(name, base)", "a class: give it len(self) and getitem(self, i)" },
    { "IterableDataset", iterable_dataset, "utils.data.IterableDataset(name, base)",
      "a class of streams: give it iter(self), which answers a function that gives the next sample, nil at the end" },
    { "random_split", random_split, "utils.data.random_split(any dataset, table lengths, *, Generator? generator=None) "
      "-> any", "a list of Subsets, drawn at random" },
};

/* A class of our own in the namespace at the top, known in the registry too. */
static void
add_class(lua_State *L, const char *name, const luaL_Reg *functions, const char *signature, const char *help)
{
    push_class(L, CLASS, name);
    luaL_setfuncs(L, functions, 0);
    note_help(L, signature, help);
    lua_pushfstring(L, "ringside.%s", name);
    lua_pushvalue(L, -2);
    lua_rawset(L, LUA_REGISTRYINDEX);
    lua_setfield(L, -2, name);
}

void
lua_open_dataset(lua_State *L)
{
    open_class_family(L, CLASS, dataset_class_call);
    luaL_newmetatable(L, OBJECT);
    luaL_setfuncs(L, object_metamethods, 0);
    lua_pop(L, 1);
    open_namespace(L, "utils.data", entries, countof(entries));
    add_class(L, "TensorDataset", tensors_methods, "utils.data.TensorDataset(a, b, ...)",
              "samples {a[i], b[i], ...} of tensors of equal length");
    add_class(L, "Subset", subset_methods, "utils.data.Subset(dataset, {indices})", "some samples of a data set");
    lua_pop(L, 1);
}
