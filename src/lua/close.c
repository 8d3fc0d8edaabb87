/* Compares what a lesson got with what it expected. Integers are compared exactly unless a tolerance says otherwise,
 * nan equals nan; a tensor meets a tensor element by element, or a table in the shape that tolist() gives.
 *
 * Interface: values_close. As torch.testing.assert_close. */
#include "lua/close.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/str.h"
#include "lua/internal.h"
#include "tensor/tensor.h"

enum { CLOSE_DEPTH = 100, TOLD_BYTES = 200, TOLD_DEPTH = 4, SORT_STEPS = 20 };

static bool close_values(lua_State *L, int got, int expected, struct closeness *c, int depth);

/* ---- what is told of a difference ---- */

/* A value as a lesson would write it, cut where the text is full. */
struct told { char text[TOLD_BYTES]; size_t used; };

static void
tell_text(struct told *told, const char *text)
{
    size_t length = strlen(text), room = sizeof told->text - 1 - told->used;
    length        = length < room ? length : room;
    memcpy(told->text + told->used, text, length);
    told->used += length;
    told->text[told->used] = '\0';
}

static void tell_value(lua_State *L, int index, struct told *told, int depth);

/* What stands in order without a name, then the rest by name. */
static void
tell_table(lua_State *L, int index, struct told *told, int depth)
{
    int         count = push_sorted_keys(L, index), keys = lua_gettop(L);
    lua_Integer next  = 1;
    tell_text(told, "{");
    for (int i = 1; i <= count && told->used < sizeof told->text - 1; i++) {
        tell_text(told, i > 1 ? ", " : "");
        lua_rawgeti(L, keys, i);
        if (lua_isinteger(L, -1) && lua_tointeger(L, -1) == next) {
            next++;
        } else {
            push_text(L, lua_gettop(L));
            bool name = lua_type(L, -2) == LUA_TSTRING;
            tell_text(told, name ? "" : "[");
            tell_text(told, lua_tostring(L, -1));
            tell_text(told, name ? " = " : "] = ");
            lua_pop(L, 1);
        }
        lua_rawget(L, index);
        tell_value(L, lua_gettop(L), told, depth + 1);
        lua_pop(L, 1);
    }
    tell_text(told, "}");
    lua_pop(L, 1);
}

/* `index` is absolute. */
static void
tell_value(lua_State *L, int index, struct told *told, int depth)
{
    bool quoted = lua_type(L, index) == LUA_TSTRING;
    luaL_checkstack(L, 8, "nested too deeply");
    if (lua_type(L, index) == LUA_TTABLE && luaL_getmetafield(L, index, "__tostring") != LUA_TNIL) {
        lua_pop(L, 1); /* it has words of its own */
    } else if (lua_type(L, index) == LUA_TTABLE && depth < TOLD_DEPTH) {
        tell_table(L, index, told, depth);
        return;
    }
    push_text(L, index);
    tell_text(told, quoted ? "\"" : "");
    tell_text(told, lua_tostring(L, -1));
    tell_text(told, quoted ? "\"" : "");
    lua_pop(L, 1);
}

static void
mark_cut(struct told *told)
{
    if (told->used == sizeof told->text - 1)
        memcpy(told->text + told->used - 3, "...", 3);
}

static const char *
type_told(lua_State *L, int index)
{
    if (test_tensor(L, index) != NULL)
        return "a tensor";
    switch (lua_type(L, index)) {
    case LUA_TNIL: return "nothing";
    case LUA_TBOOLEAN: return "true or false";
    case LUA_TNUMBER: return "a number";
    case LUA_TSTRING: return "a text";
    case LUA_TTABLE: return "a table";
    case LUA_TFUNCTION: return "a function";
    }
    return "something else";
}

/* In which direction a number is wrong. */
static const char *
number_told(lua_State *L, int got, int expected)
{
    if (isnan(lua_tonumber(L, got)))
        return "nan";
    if (isnan(lua_tonumber(L, expected)))
        return "a number where there is none";
    return lua_compare(L, got, expected, LUA_OPLT) ? "too small" : "too large";
}

/* How the two differ, and nothing of what is expected but its type. */
static bool
differ_veiled(lua_State *L, struct closeness *c, int got, int expected)
{
    const char *colon = c->path[0] != '\0' ? ": " : "", *at = c->path[0] != '\0' ? "at " : "";
    if (lua_type(L, got) == LUA_TNUMBER && lua_type(L, expected) == LUA_TNUMBER)
        snprintf(c->why, sizeof c->why, "%s%s%s%s", at, c->path, colon, number_told(L, got, expected));
    else if (lua_type(L, got) != lua_type(L, expected))
        snprintf(c->why, sizeof c->why, "%s%s%sanother type: %s instead of %s%s", at, c->path, colon, type_told(L, got),
                 type_told(L, expected), lua_type(L, expected) == LUA_TNUMBER && test_tensor(L, got) != NULL
                                             ? ": t:item() makes one" : "");
    else
        snprintf(c->why, sizeof c->why, "%s%s%sanother value", at, c->path, colon);
    return false;
}

static bool
differ(lua_State *L, struct closeness *c, int got, int expected)
{
    if (c->veiled)
        return differ_veiled(L, c, got, expected);
    struct told a = { .used = 0 }, b = { .used = 0 };
    tell_value(L, got, &a, 0);
    tell_value(L, expected, &b, 0);
    mark_cut(&a);
    mark_cut(&b);
    snprintf(c->why, sizeof c->why, "%s%s%sgot %s, expected %s", c->path[0] != '\0' ? "at " : "", c->path,
             c->path[0] != '\0' ? ": " : "", a.text, b.text);
    return false;
}

/* ---- comparing ---- */

static bool
near(const struct closeness *c, double got, double expected)
{
    if (got == expected || (isnan(got) && isnan(expected)))
        return true;
    return fabs(got - expected) <= c->absolute + c->relative * fabs(expected);
}

static bool
close_numbers(lua_State *L, int got, int expected, struct closeness *c)
{
    if (lua_isinteger(L, got) && lua_isinteger(L, expected) && lua_tointeger(L, got) == lua_tointeger(L, expected))
        return true;
    return near(c, lua_tonumber(L, got), lua_tonumber(L, expected)) || differ(L, c, got, expected);
}

static double
close_element(const struct tensor *tensor, const void *elements, int64_t i)
{
    return dtype_fraction(tensor->dtype, (const char *)elements + i * (int64_t)dtype_size(tensor->dtype));
}

/* All elements on the host, in memory that Lua frees; pushed. */
static void *
read_close_elements(lua_State *L, struct tensor *tensor)
{
    struct task *me   = script_task(L);
    void        *into = lua_newuserdatauv(L, (size_t)tensor_bytes(tensor) + 1, 0);
    struct call  call = call_open(L, me, CALL_PLAIN);
    bool         ok   = tensor_read(me, tensor, into);
    call_done(&call, ok);
    return into;
}

static bool
differ_in_shape(const struct tensor *got, const struct tensor *expected, struct closeness *c)
{
    struct str a = { 0 }, b = { 0 };
    shape_print(got->dims, got->size, &a);
    shape_print(expected->dims, expected->size, &b);
    if (c->veiled)
        snprintf(c->why, sizeof c->why, "another shape: yours is %s", str_text(&a));
    else
        snprintf(c->why, sizeof c->why, "got a tensor of shape %s, expected %s", str_text(&a), str_text(&b));
    str_free(&a);
    str_free(&b);
    return false;
}

static int
by_number(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return isnan(x) || isnan(y) ? isnan(x) - isnan(y) : (x > y) - (x < y);
}

/* Whether the two, in order, are the same numbers. Sorts both. */
static bool
same_in_order(const struct closeness *c, double *got, double *expected, size_t count)
{
    qsort(got, count, sizeof *got, by_number);
    qsort(expected, count, sizeof *expected, by_number);
    for (size_t i = 0; i < count; i++)
        if (!near(c, got[i], expected[i]))
            return false;
    return true;
}

/* `many` elements differ, `far` is the first of them. */
static void
tell_elements(lua_State *L, struct closeness *c, double *got, double *expected, int64_t count, int64_t many,
              int64_t far)
{
    const char *how = isnan(got[far]) ? "nan" : isnan(expected[far]) ? "a number where there is none"
                      : got[far] < expected[far] ? "too small" : "too large";
    script_charge(L, (uint64_t)count * SORT_STEPS);
    if (many > 1 && same_in_order(c, got, expected, (size_t)count))
        snprintf(c->why, sizeof c->why, "another order: the elements are right");
    else
        snprintf(c->why, sizeof c->why, "%lld of %lld elements differ; element %lld is %s", (long long)many,
                 (long long)count, (long long)far, how);
}

static double *
push_doubles(lua_State *L, const struct tensor *tensor, const void *elements, int64_t count)
{
    double *out = lua_newuserdatauv(L, (size_t)count * sizeof *out + 1, 0);
    for (int64_t i = 0; i < count; i++)
        out[i] = close_element(tensor, elements, i);
    return out;
}

static bool
compare_tensors(lua_State *L, struct tensor *got, struct tensor *expected, struct closeness *c)
{
    if (!tensor_same_shape(got, expected))
        return differ_in_shape(got, expected, c);
    const void *a = read_close_elements(L, got), *b = read_close_elements(L, expected);
    int64_t     count = tensor_count(got), far = -1, many = 0;
    for (int64_t i = 0; i < count; i++) {
        if (near(c, close_element(got, a, i), close_element(expected, b, i)))
            continue;
        far = many++ == 0 ? i : far;
    }
    if (many > 0 && c->veiled) {
        double *x = push_doubles(L, got, a, count), *y = push_doubles(L, expected, b, count);
        tell_elements(L, c, x, y, count, many, far);
        lua_pop(L, 2);
    } else if (many > 0)
        snprintf(c->why, sizeof c->why, "%lld of %lld elements differ; element %lld: got %.9g, expected %.9g",
                 (long long)many, (long long)count, (long long)far, close_element(got, a, far),
                     close_element(expected, b, far));
    lua_pop(L, 2);
    return many == 0;
}

/* Replaces the tensor at `index` by nested tables of its elements, pushed. */
static int
push_close_list(lua_State *L, int index)
{
    lua_getfield(L, index, "tolist");
    lua_pushvalue(L, index);
    lua_call(L, 1, 1);
    return lua_gettop(L);
}

/* One entry of the two tables; the key is at the top of the stack and stays there. */
static bool
compare_entry(lua_State *L, int got, int expected, struct closeness *c, int depth)
{
    size_t used = strlen(c->path);
    int    key  = lua_gettop(L);
    push_text(L, key);
    snprintf(c->path + used, sizeof c->path - used, "[%.32s]", lua_tostring(L, -1));
    lua_pop(L, 1);
    lua_pushvalue(L, key);
    lua_rawget(L, got);
    lua_pushvalue(L, key);
    lua_rawget(L, expected);
    bool ok = close_values(L, key + 1, key + 2, c, depth + 1);
    lua_pop(L, 2);
    c->path[used] = '\0';
    return ok;
}

/* The numbers of a list of numbers alone, pushed; NULL: it is another kind of table (nothing is pushed). */
static double *
push_list_numbers(lua_State *L, int table, lua_Integer count)
{
    double *out = lua_newuserdatauv(L, (size_t)count * sizeof *out + 1, 0);
    for (lua_Integer i = 0; i < count; i++) {
        bool number = lua_rawgeti(L, table, i + 1) == LUA_TNUMBER;
        out[i]      = lua_tonumber(L, -1);
        lua_pop(L, 1);
        if (!number) {
            lua_pop(L, 1);
            return NULL;
        }
    }
    return out;
}

/* Of two tables that differ: is it their length, or the order of what is in them? Then `why` says that. */
static void
tell_lists(lua_State *L, int got, int expected, struct closeness *c)
{
    int         top   = lua_gettop(L);
    lua_Integer mine  = (lua_Integer)lua_rawlen(L, got), count = (lua_Integer)lua_rawlen(L, expected);
    double     *a = NULL, *b = NULL;
    const char *said  = mine > count ? "another shape: too many elements" : "another shape: too few elements";
    script_charge(L, (uint64_t)count * SORT_STEPS);
    if (mine == count && count > 0 && (a = push_list_numbers(L, got, count)) != NULL)
        b = push_list_numbers(L, expected, count);
    if (b != NULL && same_in_order(c, a, b, (size_t)count))
        said = "another order: the elements are right";
    else if (mine == count || mine == 0 || count == 0)
        said = NULL;
    if (said != NULL)
        snprintf(c->why, sizeof c->why, "%s%s%s%s", c->path[0] != '\0' ? "at " : "", c->path,
                 c->path[0] != '\0' ? ": " : "", said);
    lua_settop(L, top);
}

/* Numbers first, in order, so that the first difference is the one that is told. */
static bool
compare_entries(lua_State *L, int got, int expected, struct closeness *c, int depth)
{
    lua_Integer length = (lua_Integer)lua_rawlen(L, expected);
    if ((lua_Integer)lua_rawlen(L, got) > length)
        length = (lua_Integer)lua_rawlen(L, got);
    for (lua_Integer i = 1; i <= length; i++) {
        lua_pushinteger(L, i);
        bool ok = compare_entry(L, got, expected, c, depth);
        lua_pop(L, 1);
        if (!ok)
            return false;
    }
    for (int side = 0; side < 2; side++) {
        lua_pushnil(L);
        while (lua_next(L, side == 0 ? expected : got) != 0) {
            lua_pop(L, 1);
            if (!compare_entry(L, got, expected, c, depth)) {
                lua_pop(L, 1);
                return false;
            }
        }
    }
    return true;
}

static bool
compare_tables(lua_State *L, int got, int expected, struct closeness *c, int depth)
{
    if (compare_entries(L, got, expected, c, depth))
        return true;
    if (c->veiled)
        tell_lists(L, got, expected, c);
    return false;
}

static bool
close_values(lua_State *L, int got, int expected, struct closeness *c, int depth)
{
    if (depth > CLOSE_DEPTH) {
        snprintf(c->why, sizeof c->why, "nested deeper than %d tables", CLOSE_DEPTH);
        return false;
    }
    luaL_checkstack(L, 12, "nested too deeply");
    struct tensor *a = test_tensor(L, got), *b = test_tensor(L, expected);
    if (a != NULL && b != NULL)
        return compare_tensors(L, a, b, c);
    const struct tensor *one  = a != NULL ? a : b;
    const int            type = lua_type(L, a != NULL ? expected : got);
    if (one != NULL && type != LUA_TTABLE && one->dims > 0)
        return differ(L, c, got, expected); /* a list would be told as a table */
    if (one != NULL) {
        int  list = push_close_list(L, a != NULL ? got : expected);
        bool ok   = a != NULL ? close_values(L, list, expected, c, depth + 1) : close_values(L, got, list, c,
                                                                                             depth + 1);
        lua_pop(L, 1);
        return ok;
    }
    if (lua_type(L, got) == LUA_TNUMBER && lua_type(L, expected) == LUA_TNUMBER)
        return close_numbers(L, got, expected, c);
    if (lua_type(L, got) == LUA_TTABLE && lua_type(L, expected) == LUA_TTABLE)
        return compare_tables(L, got, expected, c, depth);
    return lua_rawequal(L, got, expected) || differ(L, c, got, expected);
}

bool
values_close(lua_State *L, int got, int expected, struct closeness *c)
{
    c->path[0] = c->why[0] = '\0';
    return close_values(L, got, expected, c, 0);
}
