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
    "local kind, batch = case:match('^(%a+)(%d+)')\n"
    "batch = math.tointeger(batch)\n"
    "rs.manual_seed(0)\n"
    "local build, x, y = {}, nil, nil\n"
    "function build.embed()\n"
    "  local model = nn.Sequential(nn.Embedding(1000, 10), nn.Linear(10, 10))\n"
    "  x = rs.randint(0, 1000, { batch })\n"
    "  return model\n"
    "end\n"
    "function build.mlp()\n"
    "  local model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),\n"
    "    nn.Linear(512, 10))\n"
    "  x, y = rs.randn { batch, 784 }, rs.randint(0, 10, { batch })\n"
    "  return model\n"
    "end\n"
    "function build.cnn()\n"
    "  local model = nn.Sequential(nn.Conv2d(1, 16, 3, { padding = 1 }), nn.ReLU(), nn.MaxPool2d(2),\n"
    "    nn.Conv2d(16, 32, 3, { padding = 1 }), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 7 * 7, 10))\n"
    "  x, y = rs.randn { batch, 1, 28, 28 }, rs.randint(0, 10, { batch })\n"
    "  return model\n"
    "end\n"
    "local Block = nn.Module 'Block'\n"
    "function Block:init()\n"
    "  self.ln1, self.ln2 = nn.LayerNorm(128), nn.LayerNorm(128)\n"
    "  self.qkv, self.proj = nn.Linear(128, 384), nn.Linear(128, 128)\n"
    "  self.up, self.down = nn.Linear(128, 512), nn.Linear(512, 128)\n"
    "  self:register_buffer('mask', rs.full({ 64, 64 }, -math.huge):triu(1))\n"
    "end\n"
    "function Block:forward(x)\n"
    "  local B, T, D = x:size(0), x:size(1), x:size(2)\n"
    "  local qkv = self.qkv(self.ln1(x)):view { B, T, 3, 4, D // 4 }\n"
    "  local q, k, v = table.unpack(qkv:permute(2, 0, 3, 1, 4):unbind(0))\n"
    "  local a = nn.functional.softmax(q:matmul(k:transpose(-2, -1)) * (D // 4) ^ -0.5 + self.mask, -1)\n"
    "  x = x + self.proj(a:matmul(v):transpose(1, 2):reshape { B, T, D })\n"
    "  return x + self.down(nn.functional.gelu(self.up(self.ln2(x))))\n"
    "end\n"
    "function build.tfm()\n"
    "  local model = Block()\n"
    "  x, y = rs.randn { batch, 64, 128 }, rs.randn { batch, 64, 128 }\n"
    "  return model\n"
    "end\n"
    "local L = nn.Module 'L'\n"
    "function L:init()\n"
    "  self.lstm, self.fc = nn.LSTM(128, 128), nn.Linear(128, 10)\n"
    "end\n"
    "function L:forward(x)\n"
    "  return self.fc((self.lstm(x))[-1])\n"
    "end\n"
    "function build.lstm()\n"
    "  local model = L()\n"
    "  x, y = rs.randn { 32, batch, 128 }, rs.randint(0, 10, { batch })\n"
    "  return model\n"
    "end\n"
    "local model = build[kind]()\n"
    "local criterion = kind == 'tfm' and nn.MSELoss() or nn.CrossEntropyLoss()\n"
    "local function loss_of(output)\n"
    "  if y then return criterion(output, y) end\n"
    "  return output:sum()\n"
    "end\n"
    "local options = kind == 'embed' and { lr = 1e-6 } or { lr = 0.01, momentum = 0.9 }\n"
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
take_figures(struct train *train, const char *text)
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
    ok = ok && text != NULL && (take_figures(train, text) || failed(me, E_RUNTIME, "the lesson did not measure"));
    free(text);
    return ok;
}
