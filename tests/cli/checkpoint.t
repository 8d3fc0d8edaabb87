#!/usr/bin/perl
# rs.utils.checkpoint in lessons: what a viewer sees of it, modules and DataParallel, warnings, and that a steady step
# keeps nothing. Values, counts and kinds of errors are compared with PyTorch's in tests/parity/twins/checkpoint.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

my $lesson = lesson('checkpoint', <<'END_LESSON');
local rs = require "ringside"
local nn = rs.nn
rs.lesson { title = "Checkpoints", devices = 3, hardware = "classroom", seed = 5 }
local checkpoint = rs.utils.checkpoint.checkpoint
local function count(kind, from)
  local n = 0
  for _, event in ipairs(rs.trace:events { kind = kind }) do n = n + (event.seq >= from and 1 or 0) end
  return n
end

-- ---- what is seen ----
for _, reentrant in ipairs { true, false } do
  local way = reentrant and "reentrant" or "plain"
  local x, from = rs.ones(4, { requires_grad = true }), rs.trace:seq()
  local y = checkpoint(function(a) return (a * a):exp():sin() end, x, { use_reentrant = reentrant })
  local begun = rs.trace:events { kind = "autograd.checkpoint" }
  rs.check(way .. ": the forward is an autograd.checkpoint", count("autograd.checkpoint", from) == 1
    and begun[#begun].args.reentrant == reentrant)
  rs.check(way .. ": nothing is recomputed before the backward", count("autograd.recompute", from) == 0)
  y:sum():backward()
  local again = rs.trace:events { kind = "autograd.recompute" }
  rs.check(way .. ": the backward has one autograd.recompute", count("autograd.recompute", from) == 1)
  rs.check(way .. ": it names the checkpoint", again[#again].args.checkpoint == begun[#begun].args.checkpoint)
  rs.check(way .. ": one backward runs inside of the other",
    (count("autograd.backward", from) == 2) == reentrant)
  rs.check(way .. ": no event tells of an error", count("fault.error", 0) == 0)
end

-- ---- modules, devices, workers ----
local Net = nn.Module("Net")
function Net:init(reentrant)
  self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
  self.reentrant = reentrant
end
function Net:forward(x)
  local h = self.a(x)
  local function rest(h) return self.b(h):relu() end
  if self.reentrant == nil then return rest(h) end
  return checkpoint(rest, h, { use_reentrant = self.reentrant })
end
local expected
for _, way in ipairs { "bare", "reentrant", "plain" } do
  rs.manual_seed(3)
  local net = Net(({ reentrant = true, plain = false })[way]):to("device:0")
  nn.DataParallel(net, { 0, 1, 2 })(rs.ones(6, 4, { device = "device:0" })):sum():backward()
  local grads = { net.a.weight.grad:tolist(), net.b.weight.grad:tolist(), net.b.bias.grad:tolist() }
  expected = expected or grads
  rs.close(way .. ": the gradients under DataParallel", grads, expected, 1e-6)
end
local lstm = nn.LSTM(3, 4)
for _, reentrant in ipairs { true, false } do
  local x = rs.ones(2, 1, 3, { requires_grad = true })
  local out, state = checkpoint(lstm, x, { use_reentrant = reentrant })
  rs.check("a module's results are what it answers: " .. tostring(reentrant),
    out.requires_grad and #state == 2 and state[1].requires_grad == not reentrant)
end
local given = { 1, 2 }
rs.check("what is no tensor goes in and out as it is",
  checkpoint(function(_, t) return t end, rs.ones(1), given, { use_reentrant = false }) == given)
rs.check("the namespace itself may be called",
  rs.utils.checkpoint(function(a) return a + 1 end, rs.ones(1), { use_reentrant = false }):item() == 2)

local wrapped = checkpoint { use_reentrant = false } (function(a, b) return a * b, b end)
local product, two = wrapped(rs.ones(1, { requires_grad = true }), 2)
rs.check("options alone make a wrapper", product:item() == 2 and two == 2 and product.requires_grad)

-- ---- refused ----
local function refused(name, kind, pattern, ...)
  local ok, err = pcall(checkpoint, ...)
  rs.check(name, not ok and err.kind == kind and err.message:find(pattern) ~= nil)
  if ok or err.kind ~= kind or not err.message:find(pattern) then rs.say(tostring(ok) .. " " .. tostring(err)) end
end
refused("no function", "TypeError", "expected a function or a module", 3)
refused("an option that is none", "TypeError", "early_stopp", print, { use_reentrant = true, early_stopp = true })
refused("a flag that is none", "TypeError", "true or false", print, { use_reentrant = 1 })
refused("keyword arguments to a reentrant one", "ValueError", "positional", print, rs.kw { a = 1 }, { use_reentrant = true })
local calls = 0
local y = checkpoint(function(a)
  calls = calls + 1
  if calls > 1 then rs.error("KeyError", "my own") end
  return a:exp()
end, rs.ones(1, { requires_grad = true }), { use_reentrant = false })
local ok, err = pcall(y.backward, y)
rs.check("an error of f is f's error", not ok and err.kind == "KeyError" and err.message == "my own")
rs.check("and grad mode is what it was", rs.is_grad_enabled() and (rs.ones(1, { requires_grad = true }) * 1).requires_grad)

-- ---- what is kept ----
local w = nn.Linear(64, 64)
local function step(reentrant)
  local how = { use_reentrant = reentrant }
  local x = rs.ones(8, 64, { requires_grad = true })
  local y = checkpoint(function(a) return checkpoint(function(b) return w(b):relu() end, w(a), how) end, x, how)
  y:sum():backward()
  checkpoint(w, x, how)
  w:zero_grad()
end
local held
for i = 1, 30 do
  step(i % 2 == 0)
  collectgarbage()
  collectgarbage()
  if i == 10 then held = rs.cuda.memory_allocated("cpu") end
end
rs.check("a steady step keeps nothing", rs.cuda.memory_allocated("cpu") == held)
local function peak(f)
  local deep = {}
  for i = 1, 6 do deep[i] = nn.Linear(32, 32) end
  local net = nn.Sequential(table.unpack(deep))
  local x = rs.ones(256, 32, { requires_grad = true })
  collectgarbage()
  collectgarbage()
  local before = rs.cuda.memory_allocated("cpu")
  local y = f(net, x)
  collectgarbage()
  collectgarbage()
  local bytes = rs.cuda.memory_allocated("cpu") - before
  y:sum():backward()
  return bytes
end
local bare = peak(function(net, x) return net(x) end)
for _, reentrant in ipairs { true, false } do
  local spare = peak(function(net, x) return checkpoint(net, x, { use_reentrant = reentrant }) end)
  rs.check("six layers' tensors are not kept: " .. tostring(reentrant), spare * 5 <= bare)
end

-- ---- options ----
local function refusal(options)
  local ok, why = pcall(checkpoint, function(a, t) return a * (t and t.context or 1) end, rs.ones(1), options)
  return not ok and tostring(why) or ""
end
rs.check("a misspelt option is refused, and what was meant is told",
  refusal({ use_rentrant = true }):find("did you mean 'use_reentrant'? there are: use_reentrant ", 1, true) ~= nil)
rs.check("so is one that stands beside a right one",
  refusal({ use_reentrant = false, early_stpo = true }):find("did you mean 'early_stop'?", 1, true) ~= nil)
rs.check("a table of other names goes to the function", refusal({ context = 3 }) == "")

-- ---- warnings ----
rs.check("inputs without gradients are warned of",
  not checkpoint(function(a) return a end, rs.ones(1), { use_reentrant = true }).requires_grad)
checkpoint(function(a) return a end, rs.ones(1, { requires_grad = true }))
local told = {}
for _, event in ipairs(rs.trace:events { kind = "lesson.warning" }) do told[#told + 1] = event.args.text end
rs.check("none of the inputs", told[1]:find("None of the inputs have requires_grad=True", 1, true) ~= nil)
rs.check("and which way to go", told[2]:find("use_reentrant parameter should be passed explicitly", 1, true) ~= nil)
END_LESSON

for my $executor (qw(stepped free)) {
    my $run = ringside('run', '--tap', '--executor', $executor, $lesson);
    is("$run->{status} $run->{err}", '0 ', "$executor: ends with status 0 and an empty stderr");
    my @lines = split /\n/, $run->{out};
    is(join("\n", grep { /^not ok|^# / } @lines), join("\n", grep { /^# .*(?:warn|None of|use_reentrant)/i } @lines), "$executor: all holds");
    cmp_ok(scalar(grep { /^ok / } @lines), '==', 35, "$executor: that many checks");
}
my %hashes = map { (ringside('run', '--hash', $lesson)->{out} =~ /([0-9a-f]{6})\s*$/)[0] => 1 } 1 .. 2;
is(scalar keys %hashes, 1, 'stepped: a second run has the same trace');
done_testing();
