/* Random tensors and their generators. The numbers are those that PyTorch draws after the same manual_seed. */
#include "lua/internal.h"
#include <stdlib.h>
#include "autograd/call.h"
#include "base/rng.h"
#include "base/vec.h"
#include "sched/sched.h"
#include "sched/task.h"

enum { RNG_STATE = 5056 };

/* ---- generators ---- */

static void
generator_drop(struct task *me, void *generator)
{
    (void)me;
    free(generator);
}

static int
generator_new(lua_State *L)
{
    box_push(L, BOX_GENERATOR, 0);
    struct generator *generator = calloc(1, sizeof *generator);
    if (generator == NULL)
        raise_error(L, "MemoryError", "out of memory");
    generator_seed(generator, 67280421310721u);
    box_fill(L, generator, generator_drop, false);
    return 1;
}

/* The generator at argument 1, or this rank's own; the argument after it is *next. Raises. */
static struct generator *
check_generator(lua_State *L, int *next)
{
    struct generator *generator = box_test(L, 1, BOX_GENERATOR);
    struct task      *me        = script_task(L);
    *next                       = generator != NULL ? 2 : 1;
    if (generator == NULL)
        generator = default_generator(me);
    if (generator == NULL)
        raise(L, me);
    return generator;
}

static int
manual_seed(lua_State *L)
{
    int               next      = 1;
    struct generator *generator = check_generator(L, &next);
    generator_seed(generator, (uint64_t)check_integer(L, next));
    lua_settop(L, next - 1);
    return next - 1;
}

static int
initial_seed(lua_State *L)
{
    int next = 1;
    lua_pushinteger(L, (lua_Integer)check_generator(L, &next)->seed);
    return 1;
}

/* As far as a run that must repeat can be: from the policy's generator. */
static int
seed(lua_State *L)
{
    int               next      = 1;
    struct generator *generator = check_generator(L, &next);
    uint64_t          drawn     = sched_random(script_of(L)->holder) >> 11;
    generator_seed(generator, drawn);
    lua_pushinteger(L, (lua_Integer)drawn);
    return 1;
}

static int
get_rng_state(lua_State *L)
{
    int           next = 1;
    unsigned char state[RNG_STATE];
    generator_state(check_generator(L, &next), state);
    lua_pushlstring(L, (const char *)state, sizeof state);
    return 1;
}

static int
set_rng_state(lua_State *L)
{
    int               next      = 1;
    struct generator *generator = check_generator(L, &next);
    size_t            length    = 0;
    check_text(L, next);
    const char *state = lua_tolstring(L, next, &length);
    if (length != RNG_STATE || !generator_set_state(generator, (const unsigned char *)state))
        raise_error(L, "RuntimeError", "this is not a state that get_rng_state gave");
    return 0;
}

static const struct lua_entry generator_methods[] = {
    { "manual_seed", manual_seed, "g:manual_seed(seed)", "starts the sequence of this seed" },
    { "initial_seed", initial_seed, "g:initial_seed()", "the seed it was started with" },
    { "seed", seed, "g:seed()", "starts from a seed drawn from the run's own seed, and answers it" },
    { "get_state", get_rng_state, "g:get_state()", "the 5056 bytes of torch.get_rng_state, as a string" },
    { "set_state", set_rng_state, "g:set_state(state)", "goes on from there" },
};

/* ---- tensors ---- */

enum draw { DRAW_UNIFORM, DRAW_NORMAL };

static int
drawn(lua_State *L, const struct making *making, enum draw draw, double a, double b)
{
    struct task      *me        = script_task(L);
    struct call       call      = call_open(L, me, CALL_PLAIN);
    struct generator *generator = making->generator != NULL ? making->generator : default_generator(me);
    struct tensor    *result    = NULL;
    bool              ok        = false;
    if (generator != NULL)
        result = tensor_empty(me, making->dtype, making->device, making->dims, making->sizes);
    if (result != NULL && draw == DRAW_UNIFORM)
        ok = tensor_uniform(me, result, a, b, generator);
    else if (result != NULL && draw == DRAW_NORMAL)
        ok = tensor_normal(me, result, a, b, generator);
    return call_made(&call, ok ? result : NULL, making);
}

static int
rand_(lua_State *L)
{
    struct making making = check_sized(L, 1, default_dtype(script_task(L)));
    return drawn(L, &making, DRAW_UNIFORM, 0, 1);
}

static int
randn(lua_State *L)
{
    struct making making = check_sized(L, 1, default_dtype(script_task(L)));
    return drawn(L, &making, DRAW_NORMAL, 0, 1);
}

static int
drawn_like(lua_State *L, enum draw draw)
{
    struct tensor *like   = check_tensor(L, 1);
    struct making  making = check_making(L, option_table(L, 2), like->dtype);
    making.device         = option_device(L, option_table(L, 2), tensor_device(like));
    making.dims           = like->dims;
    for (int i = 0; i < like->dims; i++)
        making.sizes[i] = like->size[i];
    script_reserve(L, script_of(L)->holder, (double)tensor_bytes(like));
    return drawn(L, &making, draw, 0, 1);
}

static int
rand_like(lua_State *L)
{
    return drawn_like(L, DRAW_UNIFORM);
}

static int
randn_like(lua_State *L)
{
    return drawn_like(L, DRAW_NORMAL);
}

/* rs.normal(mean, std, {sizes}, options) */
static int
normal(lua_State *L)
{
    double mean = check_number(L, 1), std = check_number(L, 2);
    if (std < 0)
        raise_error(L, "RuntimeError", "normal expects a standard deviation of 0 or more, got %g", std);
    struct making making = check_sized(L, 3, default_dtype(script_task(L)));
    return drawn(L, &making, DRAW_NORMAL, mean, std);
}

/* rs.randint(high, {sizes}) or rs.randint(low, high, {sizes}) */
static int
randint(lua_State *L)
{
    bool    two = lua_isinteger(L, 2);
    int64_t low = two ? check_integer(L, 1) : 0, high = check_integer(L, two ? 2 : 1);
    if (low >= high)
        raise_error(L, "RuntimeError", "randint expects low < high, got %lld and %lld",
                    (long long)low, (long long)high);
    struct making making = check_sized(L, two ? 3 : 2, DTYPE_I64);
    struct task  *me     = script_task(L);
    struct call   call   = call_open(L, me, CALL_PLAIN);
    struct generator *generator = making.generator != NULL ? making.generator : default_generator(me);
    struct tensor    *result    = NULL;
    if (generator != NULL)
        result = tensor_empty(me, making.dtype, making.device, making.dims, making.sizes);
    bool ok = result != NULL && tensor_random(me, result, (struct whole_range){ low, high, false }, generator);
    return call_made(&call, ok ? result : NULL, &making);
}

static int
randperm(lua_State *L)
{
    struct task *me    = script_task(L);
    int64_t      count = check_integer(L, 1);
    if (count < 0 || count > 1 << 30)
        raise_error(L, "RuntimeError", "randperm expects a count of 0 or more, and not too large a one: got %lld",
                    (long long)count);
    struct making making = check_making(L, option_table(L, 2), DTYPE_I64);
    script_reserve(L, me, (double)count * 8);
    struct call       call      = call_open(L, me, CALL_PLAIN);
    struct generator *generator = making.generator != NULL ? making.generator : default_generator(me);
    struct tensor    *result    = NULL;
    if (generator != NULL)
        result = tensor_empty(me, making.dtype, making.device, 1, &count);
    bool ok = result != NULL && tensor_randperm(me, result, generator);
    return call_made(&call, ok ? result : NULL, &making);
}

static const struct lua_entry entries[] = {
    { "manual_seed", manual_seed, "rs.manual_seed(seed)",
      "seeds this rank's generator: the numbers that follow are PyTorch's" },
    { "initial_seed", initial_seed, "rs.initial_seed()", "the seed in use" },
    { "seed", seed, "rs.seed()", "seeds from the run's own seed, and answers it" },
    { "get_rng_state", get_rng_state, "rs.get_rng_state()", "where the generator stands, as a string" },
    { "set_rng_state", set_rng_state, "rs.set_rng_state(state)", "goes on from there" },
    { "Generator", generator_new, "rs.Generator()", "a generator of one's own, for the option generator" },
    { "rand", rand_, "rs.rand({sizes}, options)", "fractions drawn evenly from [0, 1)" },
    { "randn", randn, "rs.randn({sizes}, options)", "drawn from the normal distribution" },
    { "rand_like", rand_like, "rs.rand_like(t, options)", "rand of t's shape, dtype and device" },
    { "randn_like", randn_like, "rs.randn_like(t, options)", "randn of t's shape, dtype and device" },
    { "normal", normal, "rs.normal(mean, std, {sizes}, options)", "drawn from a normal distribution" },
    { "randint", randint, "rs.randint(low, high, {sizes}, options)", "whole numbers drawn evenly, high excluded" },
    { "randperm", randperm, "rs.randperm(n, options)", "0 to n - 1 in random order" },
};

void
lua_open_random(lua_State *L)
{
    box_class(L, BOX_GENERATOR, generator_methods, countof(generator_methods));
    lua_pop(L, 1);
    open_namespace(L, "", entries, countof(entries));
    lua_pop(L, 1);
}
