/* The one door through which a script calls the catalogue's functions: reads arguments by their signature, asks for
 * room, calls, hands over the results. */
#include "lua/dispatch.h"
#include <stdio.h>
#include <string.h>
#include "base/vec.h"
#include "device/device.h"
#include "lua/mistakes.h"
#include "lua/shelf.h"
#include "sched/task.h"

/* ---- reading ---- */

struct call_reading {
    lua_State              *L;
    const struct signature *signature;
    const char             *title;
    int                     given;      /* arguments by place */
    int                     table;      /* of those by name; 0: none */
    int                     run;        /* so many integers from the last place on are one list; 0: they are not */
    const struct parameter *parameter;  /* what is being read */
    int                     place;      /* its argument; 0: it is given by name */
};

static const char *const expected_words[] = {
    [ARG_TENSOR] = "Tensor", [ARG_TENSORS] = "a list of tensors", [ARG_OPERAND] = "Tensor or a number",
    [ARG_SCALAR] = "a number", [ARG_INT] = "an integer", [ARG_FLOAT] = "a number", [ARG_BOOL] = "true or false",
    [ARG_TEXT] = "a string", [ARG_SIZES] = "an integer or a list of integers",
    [ARG_LENGTHS] = "an integer or a list of integers",
    [ARG_FLAG_OR_DIMS] = "an integer", [ARG_TENSOR_OR_DIM] = "an integer or Tensor",
    [ARG_DIM_LISTS] = "a number, or two lists of dimensions such as {{1}, {0}}",
    [ARG_PAIR] = "an integer or {height, width}", [ARG_PAIR_OR_NONE] = "an integer or {height, width}",
    [ARG_PADDING] = "an integer or {height, width}",
    [ARG_DTYPE] = "a dtype such as \"float32\"", [ARG_DEVICE] = "a device such as \"cpu\" or \"device:1\"",
    [ARG_GENERATOR] = "Generator", [ARG_TABLE] = "a table", [ARG_FUNCTION] = "a function", [ARG_ANY] = "a value",
};

/* The value at `index` is none of its parameter's type. */
static int
wrong_argument(const struct call_reading *r, int index, const char *expected)
{
    lua_State *L = r->L;
    if (r->title != NULL && r->place != 0 && r->place > r->given)
        return raise_error(L, "TypeError", "%s: missing the argument '%s'", r->title, r->parameter->name);
    if (r->title != NULL) {
        bool hint = mistake_in_argument(L, index, expected);
        return raise_error(L, "TypeError", "%s: argument '%s' must be %s, got %s%s%s", r->title, r->parameter->name,
                           expected, luaL_typename(L, index), hint ? "; " : "", hint ? lua_tostring(L, -1) : "");
    }
    if (r->place != 0)
        return arg_error(L, r->place, expected);
    return raise_error(L, "TypeError", "option %s: expected %s, got %s", r->parameter->name, expected,
                       luaL_typename(L, index));
}

static const char *
expected_of(const struct parameter *p)
{
    if (p->dimension && p->type != ARG_TENSOR_OR_DIM)
        return "an integer";
    if (p->type == ARG_SIZES && (strcmp(p->name, "size") == 0 || strcmp(p->name, "shape") == 0))
        return "a shape such as {2, 3}";
    return expected_words[p->type];
}

static bool
is_none_given(lua_State *L, int index)
{
    return luaL_testudata(L, index, "ringside.none") != NULL;
}

/* The list at `index`; answers how many. */
static int
read_integers(const struct call_reading *r, int index, int64_t *out)
{
    lua_State         *L      = r->L;
    enum argument_type type   = r->parameter->type;
    bool               pair   = type == ARG_PAIR || type == ARG_PAIR_OR_NONE || type == ARG_PADDING;
    int64_t            length = (int64_t)lua_rawlen(L, index);
    if (pair && (length < 1 || length > 2))
        wrong_argument(r, index, expected_of(r->parameter));
    list_only(L, index);
    if (length > TENSOR_DIMS)
        raise_error(L, "ValueError", "a shape of %lld dimensions: at most %d are possible", (long long)length,
                    TENSOR_DIMS);
    for (int64_t i = 0; i < length; i++) {
        lua_rawgeti(L, index, i + 1);
        bool none = type == ARG_PAIR_OR_NONE && is_none_given(L, -1);
        if (!lua_isinteger(L, -1) && !none && pair)
            wrong_argument(r, -1, "a list of integers");
        if (!lua_isinteger(L, -1) && !none) {
            push_text(L, -1);
            raise_error(L, "TypeError", "%s %lld of the %s is %s, not an integer",
                        r->parameter->dimension ? "element" : "size", (long long)i,
                        r->parameter->dimension ? "list" : "shape",
                        lua_type(L, -2) == LUA_TNUMBER ? lua_tostring(L, -1) : luaL_typename(L, -2));
        }
        out[i] = none ? -1 : lua_tointeger(L, -1);
        lua_pop(L, 1);
    }
    return (int)length;
}

/* A list of integers, or one. */
static bool
read_list(const struct call_reading *r, int index, struct argument *out)
{
    lua_State *L = r->L;
    for (int i = 0; i < r->run && r->place == r->signature->positional; i++)
        out->integer[out->count++] = lua_tointeger(L, index + i);
    if (out->count > 0)
        return true;
    if (lua_isinteger(L, index)) {
        out->integer[0] = out->integer[1] = lua_tointeger(L, index);
        out->count      = out->whole = 1;
        return true;
    }
    if (!is_plain_table(L, index)) {
        bool number = lua_type(L, index) == LUA_TNUMBER && r->parameter->type == ARG_SIZES;
        wrong_argument(r, index, number ? "an integer" : expected_of(r->parameter));
    }
    out->count = read_integers(r, index, out->integer);
    if (out->count == 1)
        out->integer[1] = out->integer[0];
    return true;
}

/* Two lists of one length; their integers stay on the stack. */
static bool
read_dim_lists(const struct call_reading *r, int index, struct argument *out)
{
    lua_State *L     = r->L;
    int64_t   *lists = lua_newuserdatauv(L, 2 * TENSOR_DIMS * sizeof *lists, 0);
    if (!is_plain_table(L, index) || lua_rawlen(L, index) != 2)
        wrong_argument(r, index, expected_of(r->parameter));
    for (int i = 0; i < 2; i++) {
        if (lua_rawgeti(L, index, i + 1) != LUA_TTABLE)
            wrong_argument(r, index, expected_of(r->parameter));
        int length = read_integers(r, lua_gettop(L), lists + i * TENSOR_DIMS);
        if (i > 0 && length != out->count)
            raise_error(L, "RuntimeError", "both dimension lists should have same length");
        out->count = length;
        lua_pop(L, 1);
    }
    out->integers = lists;
    return true;
}

/* Lists longer than any shape. The integers stay on the stack. */
static bool
read_lengths(const struct call_reading *r, int index, struct argument *out)
{
    lua_State *L = r->L;
    if (lua_isinteger(L, index)) {
        out->integer[0] = lua_tointeger(L, index);
        return true;
    }
    if (!is_plain_table(L, index))
        wrong_argument(r, index, lua_type(L, index) == LUA_TNUMBER ? "an integer" : expected_of(r->parameter));
    size_t length = lua_rawlen(L, index);
    if (length > 1 << 20)
        raise_error(L, "ValueError", "a list of %zu integers is too long", length);
    int64_t *integers = lua_newuserdatauv(L, (length + 1) * sizeof *integers, 0);
    for (size_t i = 0; i < length; i++) {
        lua_rawgeti(L, index, (lua_Integer)i + 1);
        if (!lua_isinteger(L, -1)) {
            push_text(L, -1);
            raise_error(L, "TypeError", "element %zu of %s is %s, not an integer", i, r->parameter->name,
                        lua_type(L, -2) == LUA_TNUMBER ? lua_tostring(L, -1) : luaL_typename(L, -2));
        }
        integers[i] = lua_tointeger(L, -1);
        lua_pop(L, 1);
    }
    out->integers = integers;
    out->count    = (int)length;
    return true;
}

static bool
read_tensor_list(const struct call_reading *r, int index, struct argument *out)
{
    if (!is_plain_table(r->L, index))
        wrong_argument(r, index, expected_of(r->parameter));
    out->tensors = check_tensors(r->L, index, &out->count);
    for (int i = 0; i < out->count; i++)
        known_tensor(r->L, out->tensors[i]);
    return true;
}

static bool
read_scalar(lua_State *L, int index, struct argument *out)
{
    if (lua_type(L, index) != LUA_TNUMBER)
        return false;
    out->number = lua_tonumber(L, index);
    out->whole  = lua_isinteger(L, index);
    out->dtype  = out->whole ? DTYPE_I64 : DTYPE_F32;
    if (out->whole)
        out->integer[0] = lua_tointeger(L, index);
    return true;
}

static bool
read_flag(lua_State *L, int index, struct argument *out)
{
    if (!lua_isboolean(L, index))
        return false;
    out->number = (double)(out->integer[0] = lua_toboolean(L, index));
    out->whole  = true;
    out->dtype  = DTYPE_BOOL;
    return true;
}

static bool
read_whole(lua_State *L, int index, struct argument *out)
{
    out->count = 1;
    return read_scalar(L, index, out) && out->whole;
}

static bool
read_text(lua_State *L, int index, struct argument *out)
{
    out->text = lua_type(L, index) == LUA_TSTRING ? lua_tostring(L, index) : NULL;
    return out->text != NULL;
}

/* false: it is none. What is wrong in itself (an unknown dtype, a list with a text in it) is raised. */
static bool
read_typed(const struct call_reading *r, int index, struct argument *out)
{
    lua_State *L = r->L;
    switch (r->parameter->type) {
    case ARG_TENSOR:  return false; /* read_value has looked */
    case ARG_OPERAND: return read_scalar(L, index, out);
    case ARG_TENSORS: return read_tensor_list(r, index, out);
    case ARG_SCALAR:  return read_scalar(L, index, out) || read_flag(L, index, out);
    case ARG_FLOAT:   return read_scalar(L, index, out);
    case ARG_BOOL:    return read_flag(L, index, out);
    case ARG_INT:     return read_whole(L, index, out);
    case ARG_TEXT:    return read_text(L, index, out);
    case ARG_SIZES:
    case ARG_PAIR:
    case ARG_PAIR_OR_NONE:  return read_list(r, index, out);
    case ARG_PADDING:       return read_text(L, index, out) || read_list(r, index, out);
    case ARG_FLAG_OR_DIMS:  return read_flag(L, index, out) || read_list(r, index, out);
    case ARG_TENSOR_OR_DIM: return (out->tensor = test_tensor(L, index)) != NULL || read_whole(L, index, out);
    case ARG_DIM_LISTS:
        return lua_type(L, index) == LUA_TNUMBER ? read_whole(L, index, out) : read_dim_lists(r, index, out);
    case ARG_LENGTHS: return read_lengths(r, index, out);
    case ARG_DTYPE:
        out->dtype = lua_type(L, index) == LUA_TSTRING ? check_dtype(L, index) : DTYPE_COUNT;
        return out->dtype != DTYPE_COUNT;
    case ARG_DEVICE:
        if (lua_type(L, index) != LUA_TSTRING && !lua_isinteger(L, index))
            return false;
        out->integer[0] = check_device(L, index);
        return true;
    case ARG_GENERATOR:
        out->integer[0] = index;
        return (out->generator = box_check(L, index, BOX_GENERATOR)) != NULL;
    case ARG_TABLE:     return (out->integer[0] = index) != 0 && lua_istable(L, index);
    case ARG_FUNCTION:  return (out->integer[0] = index) != 0 && lua_isfunction(L, index);
    case ARG_ANY:       return (out->integer[0] = index) != 0 && !lua_isnone(L, index);
    }
    return false;
}

/* Tensors are looked for first: they are what most arguments are. */
static void
read_value(struct call_reading *r, int index, struct argument *out)
{
    enum argument_type type = r->parameter->type;
    *out = (struct argument){ .given = true };
    if ((type == ARG_TENSOR || type == ARG_OPERAND) &&
        (out->tensor = known_tensor(r->L, test_tensor(r->L, index))) != NULL)
        return;
    if (is_none_given(r->L, index)) {
        if (!r->parameter->optional)
            wrong_argument(r, index, r->title != NULL ? "given" : expected_of(r->parameter));
        out->none = true;
    } else if (!read_typed(r, index, out)) {
        wrong_argument(r, index, expected_of(r->parameter));
    }
}

/* By its place, else by its name, else its default. */
static void
read_parameter(struct call_reading *r, int i, struct argument *out)
{
    lua_State *L = r->L;
    r->parameter = &r->signature->parameters[i];
    r->place     = i + 1;
    bool by_place = i < r->signature->positional && i < r->given && !lua_isnil(L, i + 1);
    bool by_name  = r->table != 0 && option_push(L, r->table, r->parameter->name);
    if (by_place && by_name)
        raise_error(L, "TypeError", "argument '%s' is given twice, by its place and by its name", r->parameter->name);
    if (by_place)
        read_value(r, i + 1, out);
    else if (by_name) {
        r->place = 0;
        read_value(r, lua_gettop(L), out);
    } else if (r->parameter->needed)
        wrong_argument(r, i + 1, expected_of(r->parameter));
    else
        argument_default(r->parameter, out);
}

static bool
takes_list(enum argument_type type)
{
    return type == ARG_SIZES || type == ARG_TENSORS || type == ARG_LENGTHS;
}

/* Has the table at `index` a name that is none of the parameters'? */
static bool
has_other_names(const struct call_reading *r, int index)
{
    lua_State *L     = r->L;
    bool       other = false;
    lua_pushnil(L);
    while (!other && lua_next(L, index) != 0) {
        lua_pop(L, 1);
        other = true;
        for (int i = 0; other && i < r->signature->count && lua_type(L, -1) == LUA_TSTRING; i++)
            other = strcmp(r->signature->parameters[i].name, lua_tostring(L, -1)) != 0;
    }
    lua_settop(L, r->given);
    return other;
}

/* The last argument, if it is a table of options: plain, and no list. An empty one is a list where one is expected, and
 * where any table is, it is that; so is one in the last place of all, if it has names of its own. */
static int
find_options(const struct call_reading *r)
{
    lua_State *L = r->L;
    if (r->given == 0 || !is_plain_table(L, r->given) || lua_rawlen(L, r->given) > 0)
        return 0;
    const struct parameter *at = r->given <= r->signature->positional ? &r->signature->parameters[r->given - 1] : NULL;
    if (at != NULL && at->needed && (at->type == ARG_TABLE || at->type == ARG_ANY)) {
        bool by_name = at->type == ARG_TABLE && option_push(L, r->given, at->name);
        lua_settop(L, r->given);
        return by_name ? r->given : 0;
    }
    if (at != NULL && r->given == r->signature->positional && (at->type == ARG_TABLE || at->type == ARG_ANY) &&
        has_other_names(r, r->given))
        return 0;
    lua_pushnil(L);
    if (lua_next(L, r->given) == 0)
        return at != NULL && takes_list(at->type) ? 0 : r->given;
    lua_pop(L, 2);
    return r->given;
}

static void
check_names(const struct call_reading *r)
{
    char   known[600];
    size_t used = 0;
    known[0]    = '\0';
    for (int i = 0; i < r->signature->count && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? " " : "",
                                 r->signature->parameters[i].name);
    option_known(r->L, r->table, known);
}

/* view(2, 3) is view({2, 3}): integers from the last place on, if a list of them is expected there, are one. */
static void
gather_integers(struct call_reading *r)
{
    lua_State *L    = r->L;
    int        last = r->signature->positional, count = 0;
    if (last == 0 || r->signature->parameters[last - 1].type != ARG_SIZES || lua_type(L, last) != LUA_TNUMBER)
        return;
    while (last + count <= r->given && lua_type(L, last + count) == LUA_TNUMBER)
        count++;
    if (count == 1 && r->given == last)
        return;
    if (count > TENSOR_DIMS)
        raise_error(L, "ValueError", "a shape of more than %d dimensions", TENSOR_DIMS);
    for (int i = 0; i < count; i++)
        check_integer(L, last + i);
    for (int i = last + count; i <= r->given; i++)
        if (!lua_isnil(L, i))
            arg_most(L, last + count - 1);
    r->run   = count;
    r->given = last;
}

/* broadcast_tensors(a, b) is broadcast_tensors({a, b}). */
static void
gather_spread(struct call_reading *r)
{
    lua_State *L    = r->L;
    int        last = r->signature->positional;
    if (last == 0 || !r->signature->parameters[last - 1].spread || r->given < last || test_tensor(L, last) == NULL)
        return;
    lua_createtable(L, r->given - last + 1, 0);
    for (int i = last; i <= r->given; i++) {
        lua_pushvalue(L, i);
        lua_rawseti(L, -2, i - last + 1);
    }
    lua_replace(L, last);
    r->given = last;
}

static int
too_many_given(const struct call_reading *r)
{
    if (r->title != NULL)
        return raise_error(r->L, "TypeError", "%s takes %d arguments, but %d were given", r->title,
                           r->signature->positional, r->given);
    if (r->signature->parameters[0].type == ARG_TENSORS && test_tensor(r->L, 1) != NULL)
        return arg_error(r->L, 1, expected_words[ARG_TENSORS]);
    if (r->signature->count > r->signature->positional)
        return arg_error(r->L, r->signature->positional + 1, "a table of options");
    return arg_most(r->L, r->signature->positional);
}

void
read_arguments(lua_State *L, const struct signature *signature, const char *title, struct arguments *out)
{
    struct call_reading r = { .L = L, .signature = signature, .title = title, .given = lua_gettop(L) };
    stack_room(L, 2 * signature->count + 10);
    while (r.given > 0 && lua_isnil(L, r.given))
        r.given--; /* nil at the end is what was not given */
    r.table = find_options(&r);
    if (r.table != 0) {
        check_names(&r);
        r.given--;
    }
    gather_integers(&r);
    gather_spread(&r);
    if (r.given > signature->positional)
        too_many_given(&r);
    for (int i = 0; i < signature->count; i++)
        read_parameter(&r, i, &out->at[i]);
}

const struct signature *
take_arguments(lua_State *L, struct arguments *out)
{
    const struct signature *signature = entry_signature(L, lua_touserdata(L, lua_upvalueindex(1)));
    read_arguments(L, signature, NULL, out);
    return signature;
}

void
set_arguments(lua_State *L, int table, const struct arguments *a, int first)
{
    const struct signature *signature = entry_signature(L, lua_touserdata(L, lua_upvalueindex(1)));
    for (int i = first; i < signature->count; i++) {
        const struct parameter *p = &signature->parameters[i];
        if (a->at[i].none)
            continue;
        switch (p->type) {
        case ARG_INT: set_integer(L, table, p->name, a->at[i].integer[0]); break;
        case ARG_FLOAT: set_number(L, table, p->name, a->at[i].number); break;
        case ARG_BOOL: set_flag(L, table, p->name, a->at[i].integer[0] != 0); break;
        default:
            lua_pushvalue(L, (int)a->at[i].integer[0]);
            lua_setfield(L, table, p->name);
        }
    }
}

/* ---- calling ---- */

static int
push_answer_list(struct call *call, const struct arguments *a)
{
    lua_createtable(call->L, a->results, 0);
    for (int i = 0; i < a->results; i++) {
        push_tensor(call->L, a->list[i]);
        lua_rawseti(call->L, -2, i + 1);
    }
    return call_leave(call, 1);
}

static int
push_answer(struct call *call, const struct arguments *a, struct tensor *first)
{
    enum result_type type = a->function->signature.result;
    if (type == RESULT_TENSOR)
        return a->in_place ? call_self(call, first != NULL) : call_tensor(call, first);
    bool ok = type == RESULT_TENSORS ? first != NULL : !task_failed(call->me);
    call_end(call, ok);
    switch (type) {
    case RESULT_TENSORS: push_tensor(call->L, first); break;
    case RESULT_LIST: return push_answer_list(call, a);
    case RESULT_BOOL: lua_pushboolean(call->L, a->number != 0); return call_leave(call, 1);
    case RESULT_INT: lua_pushinteger(call->L, (lua_Integer)a->number); return call_leave(call, 1);
    case RESULT_FLOAT: lua_pushnumber(call->L, a->number); return call_leave(call, 1);
    case RESULT_DTYPE: lua_pushstring(call->L, dtype_name(a->dtype)); return call_leave(call, 1);
    default: return call_leave(call, 0);
    }
    int more = a->results - 1;
    for (int i = 0; i < more; i++)
        push_tensor(call->L, a->more[i]);
    return call_leave(call, 1 + more);
}

static int
dispatch_call(lua_State *L, bool in_place)
{
    const struct function *function = lua_touserdata(L, lua_upvalueindex(1));
    bool                   question = (function->row->forms & FORM_QUESTION) != 0;
    struct task           *me       = question ? script_of(L)->holder : script_task(L); /* no event needs the line */
    struct arguments       a;
    a.function = function;
    a.in_place = in_place;
    a.results  = 1;
    a.number   = 0;
    a.dtype    = default_dtype(me);
    read_arguments(L, &function->signature, NULL, &a);
    struct call call = call_open(L, me, question ? CALL_KEEP : CALL_PLAIN);
    return push_answer(&call, &a, arguments_settle(me, &a) ? function->row->body(me, &a) : NULL);
}

static int
call_plain(lua_State *L)
{
    return dispatch_call(L, false);
}

static int
call_in_place(lua_State *L)
{
    return dispatch_call(L, true);
}

/* Lua gives an operator of one operand its operand twice. */
static int
call_unary_operator(lua_State *L)
{
    lua_settop(L, 1);
    return dispatch_call(L, false);
}

/* ---- usage ---- */

static void
add_default(luaL_Buffer *buffer, lua_State *L, const struct parameter *p)
{
    if (p->needed || p->none)
        return;
    if (p->text != NULL)
        lua_pushfstring(L, " = \"%s\"", p->text);
    else if (p->type == ARG_BOOL)
        lua_pushstring(L, p->number != 0 ? " = true" : " = false");
    else if (p->number == (double)(lua_Integer)p->number)
        lua_pushfstring(L, " = %I", (lua_Integer)p->number);
    else
        lua_pushfstring(L, " = %f", p->number);
    luaL_addvalue(buffer);
}

const char *
push_usage(lua_State *L, const struct signature *signature, const char *before)
{
    luaL_Buffer buffer;
    bool        method = strcmp(before, "t:") == 0, in_braces = false;
    luaL_buffinit(L, &buffer);
    luaL_addstring(&buffer, before);
    luaL_addstring(&buffer, signature->name);
    luaL_addchar(&buffer, '(');
    for (int i = method ? 1 : 0; i < signature->count; i++) {
        const struct parameter *p = &signature->parameters[i];
        bool first = i == 0 && strcmp(p->name, "input") == 0 && strcmp(before, "rs.") == 0;
        luaL_addstring(&buffer, i > (method ? 1 : 0) ? ", " : "");
        if ((!p->needed || p->by_name) && !in_braces)
            luaL_addchar(&buffer, '{');
        in_braces = in_braces || !p->needed || p->by_name;
        luaL_addstring(&buffer, first ? "t" : p->name);
        add_default(&buffer, L, p);
    }
    luaL_addstring(&buffer, in_braces ? "})" : ")");
    luaL_pushresult(&buffer);
    return lua_tostring(L, -1);
}

/* ---- registration ---- */

static void
push_function(lua_State *L, const struct function *function, lua_CFunction call)
{
    lua_pushlightuserdata(L, (void *)(uintptr_t)function);
    lua_pushcclosure(L, call, 1);
}

/* "absolute_" is "abs_". false: it is no second name. */
static bool
first_name(const char *name, unsigned forms, char *out, size_t size)
{
    const char *second, *of;
    size_t      length = strlen(name);
    bool        twin   = forms == FORM_IN_PLACE && length > 0 && name[length - 1] == '_';
    length -= twin;
    for (size_t i = 0; catalogue_alias(i, &second, &of); i++)
        if (strlen(second) == length && strncmp(second, name, length) == 0) {
            snprintf(out, size, "%s%s", of, twin ? "_" : "");
            return true;
        }
    return false;
}

bool
push_catalogue_function(lua_State *L, int table, const char *name, unsigned forms, const char *before)
{
    const struct function *function = catalogue_find(script_of(L)->catalogue, name, forms);
    char                   help[400];
    if (function == NULL)
        return false;
    if (first_name(name, forms, help, sizeof help)) {
        lua_pushstring(L, help);
        return shelf_get(L, table) != LUA_TNIL;
    }
    bool             in_place  = forms == FORM_IN_PLACE;
    struct signature signature = function->signature;
    bool             changes   = in_place || name[strlen(name) - 1] == '_';
    signature.name             = name;
    snprintf(help, sizeof help, "in place: %s", function->row->help);
    const char *usage = push_usage(L, &signature, before);
    push_function(L, function, changes ? call_in_place : call_plain);
    if (in_place)
        note_made_help(L, usage, help);
    else
        note_help(L, usage, function->row->help);
    lua_remove(L, -2);
    return true;
}

/* The metatable of tensors is at the top. */
static void
add_operators(lua_State *L, const struct catalogue *catalogue)
{
    static const struct { const char *event, *name; } operators[] = {
        { "__add", "add" }, { "__sub", "sub" }, { "__mul", "mul" }, { "__div", "div" }, { "__pow", "pow" },
        { "__mod", "remainder" }, { "__idiv", "floor_divide" }, { "__band", "bitwise_and" },
        { "__bor", "bitwise_or" }, { "__bxor", "bitwise_xor" }, { "__unm", "neg" }, { "__bnot", "bitwise_not" },
    };
    for (size_t i = 0; i < countof(operators); i++) {
        const struct function *function = catalogue_find(catalogue, operators[i].name, FORM_BOTH);
        bool                   unary    = function->signature.count == 1;
        push_function(L, function, unary ? call_unary_operator : call_plain);
        lua_setfield(L, -2, operators[i].event);
    }
}

void
lua_open_functions(lua_State *L)
{
    push_ringside(L);
    shelf_add_catalogue(L, -1, FORM_RS, "rs.");
    luaL_getmetatable(L, box_metatable(BOX_TENSOR));
    add_operators(L, script_of(L)->catalogue);
    lua_getfield(L, -1, "methods");
    shelf_add_catalogue(L, -1, FORM_METHOD, "t:");
    shelf_add_catalogue(L, -1, FORM_IN_PLACE, "t:");
    open_namespace(L, "nn", NULL, 0);
    shelf_add_catalogue(L, -1, FORM_NN, "nn.");
    open_namespace(L, "nn.functional", NULL, 0);
    shelf_add_catalogue(L, -1, FORM_FUNCTIONAL, "nn.functional.");
    open_namespace(L, "nn.init", NULL, 0);
    shelf_add_catalogue(L, -1, FORM_INIT, "nn.init.");
    lua_settop(L, 0);
}
