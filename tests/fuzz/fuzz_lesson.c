/* What lessons say to functions: arguments in their places and by name, tables of options, lists, of every kind and
 * size. Each line of an input is Lua that runs on its own, with tensors, modules and the namespaces at hand; whatever
 * it asks for is done or is an error that `pcall` catches, or the end of a budget. */
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "fuzz.h"
#include "run.h"
#include "tokens.h"

enum { LINES_MOST = 2000, STEPS = 300000, MEMORY = 24 << 20 };

static const char lesson[] =
    "local rs = require 'ringside'\n"
    "rs.manual_seed(1)\n"
    "local nn, F, optim, dist = rs.nn, rs.nn.functional, rs.optim, rs.distributed\n"
    "local env = { rs = rs, nn = nn, F = F, optim = optim, dist = dist, data = rs.utils and rs.utils.data,\n"
    "  t = rs.randn({2, 3}, { requires_grad = true }), u = rs.arange(6):reshape(2, 3), v = rs.ones { 3 },\n"
    "  i = rs.tensor { 0, 2, 1 }, b = rs.tensor { true, false, true }, h = rs.zeros({ 2, 3 }, { dtype = 'float16' }),\n"
    "  e = rs.zeros { 0, 3 }, z = rs.tensor(1.5), x = rs.randn { 1, 2, 5, 5 }, w = rs.randn { 2, 2, 2, 2 },\n"
    "  d = rs.ones({ 4 }, { device = 'device:1' }), m = nn.Linear(3, 2), f = function(...) return ... end }\n"
    "setmetatable(env, { __index = _G })\n"
    "for line in arg[1]:gmatch '[^\\n]+' do\n"
    "  local run = load('return ' .. line, '=line', 't', env) or load(line, '=line', 't', env)\n"
    "  if run then\n"
    "    local results = { pcall(run) }\n"
    "    for k = 1, #results do pcall(tostring, results[k]) end\n"
    "  end\n"
    "end\n";

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *lines = malloc(size + 1);
    fuzz_assert(lines != NULL, "there is memory for the lines");
    memcpy(lines, data, size);
    lines[size] = '\0';
    if (size <= LINES_MOST)
        fuzz_run_lesson(&(struct fuzz_lesson){ .text = lesson, .argument = lines, .steps = STEPS, .memory = MEMORY });
    free(lines);
    return 0;
}

/* ---- changes ---- */

static const char *const words[] = {
    "rs", "nn", "F", "optim", "dist", "t", "u", "v", "i", "b", "h", "e", "z", "x", "w", "d", "m", "f", "nil", "true",
    "false", "rs.none", "rs.kw", "rs.slice", "dim", "keepdim", "dtype", "device", "requires_grad", "size", "input",
    "other", "weight", "bias", "p", "eps", "reduction", "out", "generator", "alpha", "value", "stride", "padding",
    "dilation", "groups", "largest", "sorted", "descending", "inplace", "lr", "momentum", "betas", "world", "args",
    "async_op", "tag", "math.huge", "math.mininteger", "math.maxinteger", "-math.huge", "{}", "{0}", "{-1}",
    "{ [0] = 1 }", "{1, 2, 3, 4, 5, 6, 7, 8, 9}", "{{}}", "{ dim = 0 }", "'float32'", "'int64'", "'int8'", "'bool'",
    "'float16'", "'device:1'", "'cpu'", "'cuda:9'", "'mean'", "'none'", "'sum'", "''", "'x'", "\"a,b->c\"", "(", ")", "{",
    "}", ",", "=", ".", ":", "[", "]", "-", "#", "..", "+", "*", "/", "//", "%", "^", "<", "~=",
};
static const struct token_list list = { words, countof(words) };

TOKENS_MUTATOR(list)
TOKENS_CROSSOVER(list)
