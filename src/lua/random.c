/* Generators and their seeds. What is drawn from them is in the catalogue. */
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

static const struct lua_entry entries[] = {
    { "manual_seed", manual_seed, "rs.manual_seed(seed)",
      "seeds this rank's generator: the numbers that follow are PyTorch's" },
    { "initial_seed", initial_seed, "rs.initial_seed()", "the seed in use" },
    { "seed", seed, "rs.seed()", "seeds from the run's own seed, and answers it" },
    { "get_rng_state", get_rng_state, "rs.get_rng_state()", "where the generator stands, as a string" },
    { "set_rng_state", set_rng_state, "rs.set_rng_state(state)", "goes on from there" },
    { "Generator", generator_new, "rs.Generator()", "a generator of one's own, for the option generator" },
};

void
lua_open_random(lua_State *L)
{
    box_class(L, BOX_GENERATOR, generator_methods, countof(generator_methods));
    lua_pop(L, 1);
    fill_namespace(L, "", entries, countof(entries));
}
