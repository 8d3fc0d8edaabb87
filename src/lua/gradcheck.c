/* rs.gradcheck(f, inputs, options): do the gradients of f agree with differences? In order of use: the arguments, the
 * results of one call of f, differences (x moved by eps either way, in place and put back), backward one element of an
 * output at a time, the comparison. PyTorch: torch.autograd.gradcheck. Counts inputs, outputs and elements from 0. */
#include "lua/internal.h"
#include <math.h>
#include <string.h>
#include "autograd/engine.h"
#include "autograd/node.h"
#include "base/vec.h"
#include "sched/task.h"
#include "tensor/tensor.h"

/* Stack: 1 f, 2 the list of inputs, 3 options, 4 the list of f's results as recorded. */
enum { FUNCTION = 1, INPUTS, OPTIONS, OUTPUTS };

struct gradcheck {
    lua_State   *L;
    struct task *me;
    double       eps, atol, rtol;
    int          inputs, outputs;
    int64_t      elements;       /* of all outputs */
};
/* One input: its elements, and how each of them moves each element of the outputs. */
struct moved_input { struct tensor *x; int64_t count; double *elements, *slopes; };

/* ---- arguments ---- */

static struct tensor *
input_at(lua_State *L, int i)
{
    lua_rawgeti(L, INPUTS, i + 1);
    struct tensor *tensor = test_tensor(L, -1);
    lua_pop(L, 1); /* the list holds it */
    return tensor;
}

static struct tensor *
output_at(lua_State *L, int i)
{
    lua_rawgeti(L, OUTPUTS, i + 1);
    struct tensor *tensor = test_tensor(L, -1);
    lua_pop(L, 1);
    return tensor;
}

static void
check_float64(lua_State *L, const struct tensor *tensor, const char *what, int i)
{
    if (tensor->dtype != DTYPE_F64)
        raise_error(L, "ValueError", "gradcheck compares with small differences, which need float64: %s %d is %s", what,
                    i, dtype_name(tensor->dtype));
}

static struct gradcheck
check_gradcheck(lua_State *L)
{
    struct gradcheck check = { .L = L, .me = script_task(L) };
    lua_settop(L, 3);
    /* A Function is a table that can be called, a module a box. */
    if (!lua_istable(L, FUNCTION) && !lua_isfunction(L, FUNCTION) && test_module(L, FUNCTION) == NULL)
        arg_error(L, FUNCTION, "a function");
    if (test_tensor(L, INPUTS) != NULL) {
        lua_createtable(L, 1, 0);
        lua_pushvalue(L, INPUTS);
        lua_rawseti(L, -2, 1);
        lua_replace(L, INPUTS);
    }
    if (!is_plain_table(L, INPUTS))
        arg_error(L, INPUTS, "Tensor or a list of inputs");
    int table = option_table(L, OPTIONS);
    option_known(L, table, "eps atol rtol raise_exception");
    check.eps    = option_number(L, table, "eps", 1e-6);
    check.atol   = option_number(L, table, "atol", 1e-5);
    check.rtol   = option_number(L, table, "rtol", 1e-3);
    check.inputs = (int)lua_rawlen(L, INPUTS);
    bool wanted  = false;
    for (int i = 0; i < check.inputs; i++) {
        struct tensor *x = input_at(L, i);
        if (x == NULL || !x->requires_grad)
            continue;
        check_float64(L, x, "input", i);
        wanted = true;
    }
    if (!wanted)
        raise_error(L, "ValueError", "gradcheck expects at least one input tensor to require gradient, "
                                     "but none of them has requires_grad = true");
    return check;
}

/* ---- calling f ---- */

/* Pushes the list of f's results. f records always: it may ask for gradients itself, so that a gradient's gradient can
 * be checked. The grad mode is as before, whatever f does. false: the error is pushed instead. */
static bool
call_checked(lua_State *L, const struct gradcheck *check)
{
    int  base   = lua_gettop(L);
    bool before = grad_enabled(check->me);
    luaL_checkstack(L, check->inputs + 8, "too many inputs");
    lua_pushvalue(L, FUNCTION);
    for (int i = 0; i < check->inputs; i++)
        lua_rawgeti(L, INPUTS, i + 1);
    grad_set_enabled(check->me, true);
    bool ok = lua_pcall(L, check->inputs, LUA_MULTRET, 0) == LUA_OK;
    grad_set_enabled(check->me, before);
    if (!ok)
        return false;
    gather_values(L, base + 1);
    return true;
}

static void
read_gradient(lua_State *L, struct task *me, struct tensor *tensor, double *out)
{
    struct call call = call_open(L, me, CALL_PLAIN);
    call_done(&call, tensor_read(me, tensor, out));
}

/* A write that no saved tensor notices: it is undone before anybody looks. */
static void
write_elements(lua_State *L, struct task *me, struct tensor *tensor, const double *in)
{
    struct call call = call_open(L, me, CALL_PLAIN);
    call_done(&call, tensor_write(me, tensor_own_version(me, tensor), in));
}

/* The recorded call; its results are the list at OUTPUTS. */
static void
call_recorded(lua_State *L, struct gradcheck *check)
{
    if (!call_checked(L, check))
        lua_error(L);
    check->outputs = (int)lua_rawlen(L, OUTPUTS);
    for (int i = 0; i < check->outputs; i++) {
        struct tensor *out = output_at(L, i);
        if (out == NULL)
            raise_error(L, "ValueError", "gradcheck expects f to return tensors, result %d is none", i);
        check_float64(L, out, "output", i);
        check->elements += tensor_count(out);
    }
    if (check->elements == 0)
        raise_error(L, "ValueError", "gradcheck expects f to return tensors with elements");
}

/* ---- differences ---- */

/* All elements of f's outputs, one after the other, with element j of x at `value`; x is put back. */
static void
outputs_with(const struct gradcheck *check, const struct moved_input *moved, int64_t j, double value, double *out)
{
    lua_State *L = check->L;
    double before = moved->elements[j];
    moved->elements[j] = value;
    write_elements(L, check->me, moved->x, moved->elements);
    bool ok = call_checked(L, check);
    moved->elements[j] = before;
    int results = lua_gettop(L);
    if (ok)
        for (int i = 0; i < check->outputs; i++) {
            lua_rawgeti(L, results, i + 1);
            struct tensor *result = test_tensor(L, -1);
            if (result == NULL || !tensor_same_shape(result, output_at(L, i)) || result->dtype != DTYPE_F64) {
                write_elements(L, check->me, moved->x, moved->elements);
                raise_error(L, "RuntimeError", "gradcheck calls f again and again: result %d is not what it was", i);
            }
            read_gradient(L, check->me, result, out);
            out += tensor_count(result);
            lua_pop(L, 1);
        }
    write_elements(L, check->me, moved->x, moved->elements);
    if (!ok)
        lua_error(L);
    lua_pop(L, 1);
}

/* Pushes a userdata that holds the arrays. slopes[j * elements + e]: what output element e gains a unit of x[j]. */
static struct moved_input
move_input(lua_State *L, const struct gradcheck *check, struct tensor *x)
{
    struct moved_input moved = { .x = x, .count = tensor_count(x) };
    double       wide  = (double)check->elements;
    double       bytes = sizeof(double) * ((double)moved.count * (wide + 1) + wide);
    if (bytes > 1e9)
        raise_error(L, "ValueError", "gradcheck of %lld by %lld elements is too large", (long long)moved.count,
                    (long long)check->elements);
    moved.elements = lua_newuserdatauv(L, (size_t)bytes + 1, 0);
    moved.slopes   = moved.elements + moved.count;
    double *less   = moved.slopes + moved.count * check->elements;
    read_gradient(L, check->me, x, moved.elements);
    for (int64_t j = 0; j < moved.count; j++) {
        double *slope = moved.slopes + j * check->elements;
        double  at    = moved.elements[j];
        outputs_with(check, &moved, j, at + check->eps, slope);
        outputs_with(check, &moved, j, at - check->eps, less);
        for (int64_t e = 0; e < check->elements; e++)
            slope[e] = (slope[e] - less[e]) / (2 * check->eps);
    }
    return moved;
}

/* ---- backward ---- */

/* The gradient of element e of `out` by x into grads; zeros where there is none. */
static void
grads_of(const struct gradcheck *check, struct tensor *out, int64_t e, struct tensor *x, double *grads)
{
    lua_State   *L  = check->L;
    struct task *me = check->me;
    memset(grads, 0, (size_t)tensor_count(x) * sizeof *grads);
    if (!out->requires_grad)
        return;
    size_t  bytes = (size_t)tensor_count(out) * sizeof(double);
    double *one   = lua_newuserdatauv(L, bytes, 0);
    memset(one, 0, bytes);
    one[e] = 1;
    struct call    call = call_open(L, me, CALL_BACK);
    struct tensor *grad = tensor_empty(me, DTYPE_F64, tensor_device(out), out->dims, out->size), *result = NULL;
    struct backward_options options = { .keep_graph = true, .allow_unused = true, .inputs = &x, .input_count = 1,
                                        .results = &result };
    bool ok = grad != NULL && tensor_write(me, grad, one) && autograd_backward(me, &out, &grad, 1, &options);
    if (ok && result != NULL)
        ok = tensor_read(me, result, grads);
    call_done(&call, ok);
    lua_pop(L, 1);
}

/* ---- the comparison ---- */

/* true: they agree. Else the message is pushed. */
static bool
compare_gradients(lua_State *L, const struct gradcheck *check, int input, const struct moved_input *moved)
{
    double  *grads = lua_newuserdatauv(L, (size_t)moved->count * sizeof *grads + 1, 0);
    int64_t  first = 0; /* of this output among all elements */
    for (int i = 0; i < check->outputs; i++) {
        struct tensor *out = output_at(L, i);
        for (int64_t e = 0; e < tensor_count(out); e++) {
            grads_of(check, out, e, moved->x, grads);
            for (int64_t j = 0; j < moved->count; j++) {
                double numerical = moved->slopes[j * check->elements + first + e];
                if (fabs(grads[j] - numerical) <= check->atol + check->rtol * fabs(numerical))
                    continue;
                char text[200];
                snprintf(text, sizeof text, "Jacobian mismatch for output %d with respect to input %d: d out[%lld] / "
                         "d in[%lld] is %.6g by differences, %.6g by backward", i, input, (long long)e, (long long)j,
                         numerical, grads[j]);
                lua_pushstring(L, text);
                return false;
            }
        }
        first += tensor_count(out);
    }
    lua_pop(L, 1);
    return true;
}

static int
gradcheck(lua_State *L)
{
    struct gradcheck check = check_gradcheck(L);
    call_recorded(L, &check);
    for (int i = 0; i < check.inputs; i++) {
        struct tensor *x = input_at(L, i);
        if (x == NULL || !x->requires_grad)
            continue;
        struct moved_input moved = move_input(L, &check, x);
        if (compare_gradients(L, &check, i, &moved)) {
            lua_settop(L, OUTPUTS);
            continue;
        }
        if (option_bool(L, option_table(L, OPTIONS), "raise_exception", true))
            return raise_error(L, "RuntimeError", "%s", lua_tostring(L, -1));
        lua_pushboolean(L, false);
        return 1;
    }
    lua_pushboolean(L, true);
    return 1;
}

static const struct lua_entry entries[] = {
    { "gradcheck", gradcheck, "rs.gradcheck(f, inputs, {eps = 1e-6, atol = 1e-5, rtol = 1e-3, raise_exception = true})",
      "true if the gradients of f agree with differences; float64 inputs" },
};

void
lua_open_gradcheck(lua_State *L)
{
    fill_namespace(L, "", entries, countof(entries));
    open_namespace(L, "autograd", entries, countof(entries));
    note_name(L, "rs.autograd.gradcheck(f, inputs, {eps = 1e-6, atol = 1e-5, rtol = 1e-3, raise_exception = true})",
              entries[0].help);
    lua_pop(L, 1);
}
