/* The Lua API as lessons use it, in both executors: operators, indices, modules, DataParallel over modules of the
 * lesson's own, hooks, errors, the sandbox and its budgets. The claims are asserted in Lua. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <string.h>

#include "device/device.h"
#include "hw/cost.h"
#include "lua/script.h"
#include "sched/sched.h"
#include "sched/stage.h"
#include "trace/writer.h"

enum { DEVICES = 4 };

struct rig {
    const char           *text;
    struct script_options options;
    size_t   memory_limit;     /* of the run */
    uint64_t work_limit;
    struct observer       observer;   /* first of what note() is given */
    _Atomic int           holds;      /* lock.hold spans */
    uint64_t              left;       /* bytes on the CPU when the script is gone */
};

static void
note(struct observer *self, struct task *me, const struct trace_event *event, uint64_t seq)
{
    struct rig *rig = (struct rig *)((char *)self - offsetof(struct rig, observer));
    (void)me;
    (void)seq;
    rig->holds += event->kind == KIND_lock_hold && event->phase == PHASE_BEGIN;
}

static bool
run_rig(struct task *me, void *argument)
{
    static const char head[] = "local rs = require 'ringside' local nn, optim = rs.nn, rs.optim ";
    struct rig       *rig    = argument;
    char              text[8192];
    snprintf(text, sizeof text, "%s%s", head, rig->text);
    if (!devices_ready(me, DEVICES))
        return false;
    struct script *script = script_new(me, &rig->options);
    if (script == NULL)
        return false;
    bool ok = script_run_text(me, script, "folder/test.lua", text, strlen(text));
    script_free(me, script);
    rig->left = device_memory(me, DEVICE_CPU).allocated;
    return ok;
}

/* Runs the text; the error is of no kind if it held. */
static struct error
run_in(enum executor_kind executor, struct rig *rig)
{
    char              why[256] = "";
    struct error      error    = { .kind = E_NONE };
    struct cost_model cost;
    assert_true(cost_preset(&cost, "classroom"));
    const struct trace_options traced = {
        .clock = executor == EXECUTOR_STEPPED ? CLOCK_VIRTUAL_PS : CLOCK_MONOTONIC_NS
    };
    struct trace_writer       *writer = trace_create(&traced, why, sizeof why);
    assert_non_null(writer);
    rig->observer.event = note;
    const struct sched_options options = { .executor = executor, .writer = writer, .cost = &cost,
                                           .observer = &rig->observer, .memory_limit = rig->memory_limit,
                                           .work_limit = rig->work_limit };
    struct sched              *sched   = sched_new(&options, why, sizeof why);
    assert_non_null(sched);
    sched_run(sched, run_rig, rig, &error);
    devices_free(sched);
    sched_free(sched);
    trace_close(writer);
    return error;
}

static void
holds(const char *text)
{
    for (int executor = EXECUTOR_STEPPED; executor <= EXECUTOR_FREE; executor++) {
        struct rig   rig   = { .text = text };
        struct error error = run_in((enum executor_kind)executor, &rig);
        if (error.kind != E_NONE)
            print_error("%s:%u: %s\n", error_name(error.kind), (unsigned)error.lesson_line, error.message);
        assert_int_equal(error.kind, E_NONE);
        assert_int_equal(rig.left, 0);
    }
}

static void
operators_follow_pytorch(void **state)
{
    (void)state;
    holds("local a = rs.tensor{{1, 2}, {3, 4}} "
          "assert(a.dtype == 'int64' and (a + 1).dtype == 'int64' and (a / 2).dtype == 'float32') "
          "assert((a * 2.5).dtype == 'float32' and rs.tensor{1, 2.5}.dtype == 'float32') "
          "assert(rs.equal(10 - a, rs.tensor{{9, 8}, {7, 6}}) and rs.equal(-a, rs.tensor{{-1, -2}, {-3, -4}})) "
          "assert(a == a and a ~= a:clone() and rs.equal(a, a:clone())) "
          "assert(a:sum():item() == 10 and rs.equal(a:sum(0), rs.tensor{4, 6})) "
          "assert(#a == 2 and a.shape == rs.zeros{2, 2}.shape and tostring(a.shape) == '[2, 2]') "
          "assert(rs.equal(a:t(), rs.tensor{{1, 3}, {2, 4}}) and a:t():stride(0) == 1) "
          "assert(a:t():storage_id() == a:storage_id() and a:clone():storage_id() ~= a:storage_id()) "
          "assert(rs.equal(rs.cat({a, a}, 1):narrow(1, 2, 2), a) and rs.stack{a, a}:dim() == 3)");
}

static void
indices_count_from_zero_and_from_the_end(void **state)
{
    (void)state;
    holds("local t = rs.arange(24):reshape(2, 3, 4) "
          "assert(t[0][1][2]:item() == 6 and t[{-1, -1, -1}]:item() == 23) "
          "assert(rs.equal(t[{1, rs.slice(1, 3), 0}], rs.tensor{16, 20})) "
          "assert(rs.equal(t[{'...', 0}], t:select(2, 0)) and t[{rs.none, 0}].shape[1] == 1) "
          "local m = rs.arange(6):reshape(2, 3) "
          "m[{0, rs.slice(1)}] = 9 m[m:gt(4)] = -1 m[0] = rs.tensor{7, 8, 9} "
          "assert(rs.equal(m, rs.tensor{{7, 8, 9}, {3, 4, -1}}) and rs.equal(m[m:lt(0)], rs.tensor{-1})) "
          "assert(rs.equal(m[rs.tensor{1, 0, 1}][2], m[1])) "
          "local ok, e = pcall(function() return t[{0, 7}] end) "
          "assert(not ok and e.kind == 'IndexError' and e.message:find('index 7 .* dimension 1 with size 3'))");
}

static void
an_error_is_a_table_with_kind_message_and_line(void **state)
{
    (void)state;
    holds("local ok, e = pcall(function()\nreturn rs.ones{2} + rs.ones{3} end) "
          "assert(e.kind == 'RuntimeError' and e.line == 2 and tostring(e):find('^test.lua:2: RuntimeError: add')) "
          "ok, e = pcall(rs.add, 1, 2) assert(e.kind == 'TypeError') "
          "ok, e = pcall(rs.error, 'ValueError', 'no') assert(e.kind == 'ValueError' and e.message == 'no') "
          "ok, e = pcall(error, 'plain', 0) assert(e == 'plain') "
          "local M = nn.Module 'M' local mine = { code = 7 } "
          "function M:forward() error(mine) end "
          "ok, e = pcall(M(), rs.ones{1}) assert(e == mine, 'the very object comes back')");
    struct rig   rig   = { .text = "\n\nlocal x = nil\nreturn x.y" };
    struct error error = run_in(EXECUTOR_STEPPED, &rig);
    assert_int_equal(error.kind, E_SCRIPT);
    assert_int_equal(error.lesson_line, 4);
    assert_non_null(strstr(error.message, "attempt to index a nil value"));
}

static void
a_lesson_cannot_reach_files_processes_or_bytecode(void **state)
{
    (void)state;
    holds("assert(io == nil and package == nil and dofile == nil and loadfile == nil and string.dump == nil) "
          "assert(os.execute == nil and os.time == nil and os.getenv == nil and debug.getregistry == nil) "
          "assert(load('\\27Lua') == nil and load('return 2')() == 2) "
          "assert(not pcall(require, 'os') and require 'ringside' == rs) "
          "assert(not pcall(setmetatable, {}, {__gc = print}) and getmetatable(rs.ones{1}) == 'Tensor') "
          "assert(not pcall(collectgarbage, 'stop') and collectgarbage 'count' > 0)");
    struct rig rig = { .text = "assert(io and os.execute and string.dump)", .options = { .trusted = true } };
    assert_int_equal(run_in(EXECUTOR_STEPPED, &rig).kind, E_NONE);
}

static void
what_would_differ_from_run_to_run_is_replaced(void **state)
{
    (void)state;
    holds("local keys = {} for k in pairs{b = 1, a = 2, 30, 20, [2.5] = 3} do keys[#keys + 1] = tostring(k) end "
          "assert(table.concat(keys, ' ') == '1 2 2.5 a b') "
          "assert(next{z = 1, y = 2} == 'y' and next({z = 1, y = 2}, 'y') == 'z' and next{} == nil) "
          "local t, u = {}, {} assert(tostring(t) == 'table: 1' and tostring(u) == 'table: 2' and "
          "tostring(t) == 'table: 1') "
          "assert(('%s %p %5.1f'):format(u, t, 1.5) == 'table: 2 table: 1   1.5') "
          "assert(not pcall(function() for k in pairs{[{}] = 1, [{}] = 2} do end end)) "
          "math.randomseed(7) local a = math.random(1000) math.randomseed(7) assert(a == math.random(1000)) "
          "local s = {} for i = 1, 300 do s[i] = math.random(50) end table.sort(s, function(x, y) return x > y end) "
          "for i = 2, 300 do assert(s[i - 1] >= s[i]) end");
}

static void
a_budget_cannot_be_caught(void **state)
{
    (void)state;
    struct rig   rig   = { .text = "while true do pcall(function() while true do end end) end",
                           .work_limit = 1000000 };
    struct error error = run_in(EXECUTOR_STEPPED, &rig);
    assert_int_equal(error.kind, E_BUDGET);
    assert_non_null(strstr(error.message, "the 1e+06 steps of work"));
    rig.text = "local t = {} while true do local ok, e = pcall(coroutine.wrap(function() while true do end end)) end";
    assert_int_equal(run_in(EXECUTOR_STEPPED, &rig).kind, E_BUDGET);
    rig.text    = "local kept = {} for i = 1, 1000 do kept[i] = rs.zeros{1024, 256} end";
    rig.work_limit   = 0;
    rig.memory_limit = 64 << 20;
    assert_int_equal(run_in(EXECUTOR_STEPPED, &rig).kind, E_BUDGET);
    rig.text = "for i = 1, 1000 do local gone = rs.zeros{1024, 256} end";
    assert_int_equal(run_in(EXECUTOR_STEPPED, &rig).kind, E_NONE);
    rig.text = "local s = {} for i = 1, 1e6 do s[i] = ('x'):rep(1000) .. i end";
    assert_int_equal(run_in(EXECUTOR_STEPPED, &rig).kind, E_BUDGET);
    rig.text = "return rs.ones{100000, 1}:expand{100000, 100000}:contiguous()";
    assert_int_equal(run_in(EXECUTOR_STEPPED, &rig).kind, E_BUDGET);
}

static void
what_a_class_assigns_is_registered(void **state)
{
    (void)state;
    holds("local Base = nn.Module 'Base' function Base:scale() return 3 end "
          "local M = nn.Module('M', Base) "
          "function M:init(n) self.fc = nn.Linear(2, n) self.w = nn.Parameter(rs.ones{n}) self.k = {} "
          "  self:register_buffer('steps', rs.zeros{1}) end "
          "function M:forward(x, o) self.seen = o return self.fc(x) * self.w * self:scale(), o end "
          "local m = M(4) local names = {} for n, p in m:named_parameters() do names[#names + 1] = n end "
          "assert(table.concat(names, ' ') == 'w fc.weight fc.bias') "
          "assert(m.fc == m.fc and rawequal(m.fc, m.fc) and m.w == m.w and m.steps:numel() == 1 and m.nothing == nil) "
          "local given = {1} local y, back = m(rs.ones{3, 2}, given) assert(back == given and m.seen == given) "
          "y:sum():backward() assert(m.w.grad ~= nil and m.fc.weight.grad.shape[1] == 4) "
          "m:zero_grad{set_to_none = true} assert(m.w.grad == nil) "
          "m.w = nil assert(m.w == nil and #m:parameters() == 2) "
          "assert(not pcall(function() m.fc = 5 end) and not pcall(function() nn.Linear(1, 1).tag = 1 end)) "
          "local seq = nn.Sequential{nn.Linear(2, 2), nn.ReLU()} assert(#seq == 2 and seq[0].in_features == 2) "
          "assert(tostring(m):find('^M%(\\n  %(fc%): Linear%(in_features=2, out_features=4, bias=True%)')) "
          "local s = m:state_dict() m:load_state_dict(s) assert(not pcall(m.load_state_dict, m, {}))");
}

static void
data_parallel_runs_a_lessons_module_under_one_lock(void **state)
{
    static const char text[] =
        "local M = nn.Module 'M' "
        "function M:init() self.fc = nn.Linear(3, 2) self.count = 0 self.log = {} end "
        "function M:forward(x, kw) self.count = self.count + 1 self.log[#self.log + 1] = x.device "
        "  return {y = self.fc(x) * (kw and kw.k or 1)} end "
        "local m = M():to 'device:0' local dp = nn.DataParallel(m) "
        "local x = rs.randn({10, 3}, {requires_grad = true}) "
        "local out = dp(x) assert(out.y.shape[1] == 10 and out.y.device == 'device:0') "
        "assert(m.count == 0 and #m.log == 4, 'plain values are copied, tables shared') "
        "out.y:sum():backward() "
        "local one = x.grad:clone() x.grad = nil local w = m.fc.weight.grad:clone() m:zero_grad() "
        "m(x:to 'device:0').y:sum():backward() "
        "local function close(a, b) return (a - b):abs():max():item() < 1e-5 end "
        "assert(close(one, x.grad) and close(w, m.fc.weight.grad)) "
        "assert(close(dp(x, rs.kw{k = 2}).y, out.y * 2)) "
        "local B = nn.Module 'B' function B:forward(x) if x.device ~= 'device:0' then "
        "rs.error('KeyError', 'boom') end return x end "
        "local ok, e = pcall(nn.DataParallel(B():to 'device:0'), rs.ones{8}) "
        "assert(not ok and e.kind == 'KeyError' and e.message:find('replica 1 on device 1') and e.message:find 'boom') "
        "local r = nn.parallel.replicate(m, {0, 1}) assert(#r == 2 and #r[1]:parameters() == 0 and "
        "not r[2].fc.weight.is_leaf) "
        "local parts = nn.parallel.scatter(rs.arange(5), {0, 1}) assert(#parts == 2 and #parts[1] == 3) "
        "assert(rs.equal(nn.parallel.gather(parts, 'cpu'), rs.arange(5))) ";
    (void)state;
    holds(text);
    struct rig rig = { .text = text };
    assert_int_equal(run_in(EXECUTOR_STEPPED, &rig).kind, E_NONE);
    assert_true(rig.holds >= 4 * 3);
    rig = (struct rig){ .text = "local x = rs.ones({2}, {requires_grad = true}); (x * x):sum():backward()" };
    assert_int_equal(run_in(EXECUTOR_STEPPED, &rig).kind, E_NONE);
    assert_int_equal(rig.holds, 0); /* alone, the main task needs no lock */
}

/* What the module was called with its hooks lies in the module; collections come with zero_grad. */
static void
a_replica_outlives_its_module(void **state)
{
    (void)state;
    holds("local function made() local m = nn.Sequential { nn.Linear(2, 2), nn.ReLU() } m:to 'device:0' "
          "  m:register_forward_hook(function(_, _, out) return out * 0 + 7 end) "
          "  return nn.parallel.replicate(m, {0, 1}) end "
          "local reps, other, kept = made(), nn.Linear(3, 3), {} "
          "for i = 1, 300 do kept[i] = nn.Linear(1, 1) if i % 100 == 0 then "
          "  other(rs.ones {1, 3}):sum():backward() other:zero_grad() end end "
          "for i = 1, 2 do local out = reps[i](rs.ones({1, 2}, {device = i - 1})) "
          "  assert(out.device == 'device:' .. i - 1 and out:min():item() == 7 and out:max():item() == 7) end "
          "local again = nn.parallel.replicate(reps[1], {0}) reps = nil other:zero_grad() "
          "assert(again[1](rs.ones({1, 2}, {device = 0})):max():item() == 7) ");
}

/* What is left when the script is gone is looked at by holds(), and by the sanitizer. */
static void
a_module_and_its_replica_may_have_each_other(void **state)
{
    (void)state;
    holds("local m = nn.Sequential { nn.Linear(2, 2) } m:to 'device:0' local r = nn.parallel.replicate(m, {0})[1] "
          "m:register_forward_hook(function() return r end) m[0]:register_forward_hook(function() return m end) "
          "m:add_module('r', r) m[0]:add_module('r', r) local copy = nn.parallel.replicate(m, {0, 1}) "
          "local other = nn.Sequential { r, copy[1] } m, r, copy = nil assert(#other == 2)");
}

static void
hooks_run_in_whatever_task_the_gradient_comes(void **state)
{
    (void)state;
    holds("local x = rs.ones({4, 2}, {requires_grad = true}) local seen = {} "
          "local y = x:to 'device:1' * 2 "
          "y:register_hook(function(g) seen[#seen + 1] = g.device return g * 10 end) "
          "local h = x:register_hook(function(g) seen[#seen + 1] = g.device end) "
          "y:sum():backward() "
          "assert(seen[1] == 'device:1' and seen[2] == 'cpu' and x.grad[0][0]:item() == 20) "
          "h:remove(); (x * 1):sum():backward() assert(#seen == 2) "
          "local z = x * 3 z:retain_grad() z:sum():backward() assert(z.grad:sum():item() == 8) "
          "local bad = x * 1 bad:register_hook(function() rs.error('ValueError', 'hook') end) "
          "local ok, e = pcall(function() bad:sum():backward() end) assert(e.kind == 'ValueError') "
          "bad = (x:to 'device:2') * 1 bad:register_hook(function() rs.error('ValueError', 'hook') end) "
          "ok, e = pcall(function() bad:sum():backward() end) assert(not ok and e.kind == 'ValueError')");
}

static void
functions_of_the_lessons_own_take_part_in_backward(void **state)
{
    (void)state;
    holds("local F = rs.autograd.Function 'Square' "
          "function F.forward(ctx, x, n) ctx:save_for_backward(x) ctx.n = n assert(not "
          "rs.is_grad_enabled()) return x * x * n end "
          "function F.backward(ctx, g) return g * ctx.saved_tensors[1] * (2 * ctx.n) end "
          "local x = rs.tensor({3.0}, {requires_grad = true}) local y = F.apply(x, 5) "
          "assert(y.grad_fn:name() == 'SquareBackward' and y:item() == 45) "
          "local ok, e = pcall(function() y:sum():backward() end) "
          "assert(not ok and e.message:find 'expected 2, got 1', 'n is an argument too') "
          "F.backward = function(ctx, g) return g * ctx.saved_tensors[1] * (2 * ctx.n), nil end "
          "F(x, 5):sum():backward() assert(x.grad:item() == 30) "
          "local gx, gy = rs.autograd.grad(F(x, 1):sum(), {x, rs.ones({1}, {requires_grad = "
          "true})}, {allow_unused = true}) "
          "assert(gx:item() == 6 and gy == nil) "
          "assert(rs.no_grad(function() return F(x, 1).requires_grad end) == false and rs.is_grad_enabled())");
}

static void
streams_and_training_work_from_lua(void **state)
{
    (void)state;
    holds("local s, e = rs.cuda.Stream(1), rs.cuda.Event() local q "
          "rs.cuda.stream(s, function() q = rs.ones({4}, {device = 'device:1'}) * 3 e:record(s) end) "
          "rs.cuda.current_stream(1):wait_event(e) e:synchronize() assert(e:query() and (q + 1):sum():item() == 16) "
          "rs.manual_seed(0) assert(string.format('%.4f', rs.rand{1}:item()) == '0.4963') "
          "local g = rs.Generator() g:manual_seed(0) assert(rs.equal(rs.rand({2}, {generator = g}), "
          "  (function() rs.manual_seed(0) return rs.rand{2} end)())) "
          "local m = nn.Linear(2, 1) local opt = optim.SGD(m:parameters(), {lr = 0.1}) local first, last "
          "for i = 1, 20 do opt:zero_grad() "
          "  local loss = nn.functional.mse_loss(m(rs.ones{5, 2}), rs.zeros{5, 1}) loss:backward() opt:step() "
          "  first = first or loss:item() last = loss:item() end "
          "assert(last < first / 100) opt.param_groups[1].lr = 0 local w = m.weight:clone() opt:step() "
          "assert(rs.equal(w, m.weight)) opt.param_groups[1].lr = 'x' assert(not pcall(opt.step, opt))");
}

static void
coroutines_and_errors_cross_the_doors(void **state)
{
    (void)state;
    holds("local co = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(rs.ones{i}:sum():item()) end end) "
          "assert(co() == 1 and co() == 2) "
          "local M = nn.Module 'M' function M:forward(x) local c = coroutine.wrap(function() return "
          "x * 2 end) return c() end "
          "assert(nn.DataParallel(M():to 'device:0')(rs.ones{4}):sum():item() == 8) "
          "local N = nn.Module 'N' function N:forward(x) pcall(function() return x + rs.ones{77} end) return x end "
          "assert(nn.DataParallel(N():to 'device:0')(rs.ones{4}):sum():item() == 4) "
          "local D = nn.Module 'D' function D:forward(x) return D.inner(x) end "
          "D.inner = nn.DataParallel(N():to 'device:0') "
          "assert(D()(rs.ones{4}):sum():item() == 4, 'a wrapper inside a forward') "
          "local ok, e = pcall(function() return nn.Module 'Empty'()(1) end) assert(e.kind == 'NotImplementedError')");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_follow_pytorch),
        cmocka_unit_test(indices_count_from_zero_and_from_the_end),
        cmocka_unit_test(an_error_is_a_table_with_kind_message_and_line),
        cmocka_unit_test(a_lesson_cannot_reach_files_processes_or_bytecode),
        cmocka_unit_test(what_would_differ_from_run_to_run_is_replaced),
        cmocka_unit_test(a_budget_cannot_be_caught),
        cmocka_unit_test(what_a_class_assigns_is_registered),
        cmocka_unit_test(data_parallel_runs_a_lessons_module_under_one_lock),
        cmocka_unit_test(a_replica_outlives_its_module),
        cmocka_unit_test(a_module_and_its_replica_may_have_each_other),
        cmocka_unit_test(hooks_run_in_whatever_task_the_gradient_comes),
        cmocka_unit_test(functions_of_the_lessons_own_take_part_in_backward),
        cmocka_unit_test(streams_and_training_work_from_lua),
        cmocka_unit_test(coroutines_and_errors_cross_the_doors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
