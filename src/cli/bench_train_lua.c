/* bench train_step from Lua: the lesson below in this process, with every stage recorded. It prints its
 * measurements. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/vec.h"
#include "cli/bench_train.h"
#include "lua/script.h"
#include "sched/task.h"

static const char lesson[] =
    "local rs = require 'ringside'\n"
    "local nn = rs.nn\n"
    "local case, window, samples, phases = arg[1], tonumber(arg[2]), tonumber(arg[3]), tonumber(arg[4])\n"
    "local kind, batch = case:match('^(%a+)(%d+)$')\n"
    "batch = math.tointeger(batch)\n"
    "rs.manual_seed(0)\n"
    "local model, x, loss_of, options\n"
    "if kind == 'embed' then\n"
    "  model = nn.Sequential(nn.Embedding(1000, 10), nn.Linear(10, 10))\n"
    "  x = rs.randint(0, 1000, { batch })\n"
    "  loss_of = function(output) return output:sum() end\n"
    "  options = { lr = 1e-6 }\n"
    "else\n"
    "  model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))\n"
    "  x = rs.randn({ batch, 784 })\n"
    "  local y, criterion = rs.randint(0, 10, { batch }), nn.CrossEntropyLoss()\n"
    "  loss_of = function(output) return criterion(output, y) end\n"
    "  options = { lr = 0.01, momentum = 0.9 }\n"
    "end\n"
    "local opt = rs.optim.SGD(model:parameters(), options)\n"
    "local now = os.clock\n"
    "local function step()\n"
    "  opt:zero_grad(true)\n"
    "  local loss = loss_of(model(x))\n"
    "  loss:backward()\n"
    "  opt:step()\n"
    "  return loss\n"
    "end\n"
    "local function run(steps)\n"
    "  local begin = now()\n"
    "  for _ = 1, steps do step() end\n"
    "  return (now() - begin) / steps * 1e6\n"
    "end\n"
    "print('first', step():item())\n"
    "local begin, us = now(), run(3)\n"
    "repeat us = run(3) until now() - begin > 0.08\n"
    "local steps = math.max(1, window * 1e6 // us)\n"
    "print('steps', steps)\n"
    "for _ = 1, samples do print('sample', run(steps)) end\n"
    "local forward, backward, update = 0, 0, 0\n"
    "for _ = 1, phases do\n"
    "  local a = now()\n"
    "  opt:zero_grad(true)\n"
    "  local loss = loss_of(model(x))\n"
    "  local b = now()\n"
    "  loss:backward()\n"
    "  local c = now()\n"
    "  opt:step()\n"
    "  local d = now()\n"
    "  forward, backward, update = forward + b - a, backward + c - b, update + d - c\n"
    "end\n"
    "print('forward', forward / phases * 1e6)\n"
    "print('backward', backward / phases * 1e6)\n"
    "print('update', update / phases * 1e6)\n"
    "print('last', step():item())\n";

/* What the lesson printed: a word and a number a line. */
static bool
take(struct train *train, const char *text)
{
    int  samples = 0, length = 0;
    char word[16];
    for (double value; sscanf(text, "%15s %lf%n", word, &value, &length) == 2; text += length) {
        if (strcmp(word, "sample") == 0 && samples < BENCH_SAMPLES)
            train->samples[samples++] = value;
        else if (strcmp(word, "forward") == 0)
            train->phase_us[0] = value;
        else if (strcmp(word, "backward") == 0)
            train->phase_us[1] = value;
        else if (strcmp(word, "update") == 0)
            train->phase_us[2] = value;
        else if (strcmp(word, "first") == 0)
            train->first_loss = value;
        else if (strcmp(word, "last") == 0)
            train->last_loss = value;
    }
    return samples == BENCH_SAMPLES;
}

static bool
run_lesson(struct task *me, struct train *train, FILE *out)
{
    char                  window[32], samples[16], phases[16];
    char                 *args[] = { (char *)(uintptr_t)train->name, window, samples, phases };
    struct script_options options = { .trusted = true, .out = out, .arg_count = countof(args), .args = args };
    snprintf(window, sizeof window, "%g", train_window(train->options));
    snprintf(samples, sizeof samples, "%d", BENCH_SAMPLES);
    snprintf(phases, sizeof phases, "%d", TRAIN_PHASES);
    struct script *script = script_new(me, &options);
    if (script == NULL)
        return false;
    bool ok = script_run_text(me, script, "train_step.lua", lesson, strlen(lesson));
    script_free(me, script);
    return ok;
}

bool
train_measure_lesson(struct task *me, void *argument)
{
    struct train *train = argument;
    char         *text = NULL;
    size_t        size = 0;
    FILE         *out  = open_memstream(&text, &size);
    if (out == NULL)
        return failed(me, E_MEMORY, "out of memory");
    bool ok = run_lesson(me, train, out);
    fclose(out);
    ok = ok && text != NULL && (take(train, text) || failed(me, E_RUNTIME, "the lesson did not measure"));
    free(text);
    return ok;
}
