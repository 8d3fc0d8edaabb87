#!/usr/bin/perl
# Lua's one lock among the replicas of DataParallel, as the trace shows it: what is written in Lua takes turns, what is
# built in runs side by side, also where Lua has called it. By virtual time in stepped; in free by the wall's, where no
# test waits for a length of time: a pair of ops at the same time is looked for until there is one.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

# What all lessons here begin with: spans of the replicas' threads, and who met whom.
my $head = <<'END_LESSON';
local rs = require "ringside"
local nn = rs.nn
local F = nn.functional
rs.lesson { title = "Who may run?", devices = DEVICES, hardware = "classroom", seed = 4,
  costs = { host = 40, kernel = 30, latency = 0 } }

-- { from, to, lane } of a kind's events on the threads of one pass of DataParallel.
local function spans(pass, filter)
  local list = {}
  for _, event in ipairs(rs.trace:events(filter)) do
    local us = rs.trace:duration(event)
    if pass.first <= event.seq and event.seq < pass.last and pass.lanes[event.lane] and us then
      list[#list + 1] = { from = event.t, to = event.t + 1000 * us, lane = event.lane, us = us }
    end
  end
  return list
end

-- Do two of different threads share a moment?
local function meet(a, b)
  for _, one in ipairs(a) do
    for _, other in ipairs(b) do
      if one.lane ~= other.lane and one.from < other.to - 0.5 and other.from < one.to - 0.5 then return true end
    end
  end
  return false
end

local function pass(model, x)
  local first, lanes = rs.trace:seq(), {}
  nn.DataParallel(model)(x)
  local one = { first = first, last = rs.trace:seq(), lanes = lanes }
  for _, event in ipairs(rs.trace:events { kind = "dp.worker" }) do
    if event.seq >= first then lanes[event.lane] = true end
  end
  one.holds = spans(one, { kind = "lock.hold", lock = "lua state" })
  one.waits = spans(one, { kind = "lock.wait", lock = "lua state" })
  one.ops = spans(one, { kind = "op" })
  one.workers = spans(one, { kind = "dp.worker" })
  return one
end

-- Stages that a thread began while it held the lock.
local function begun_inside(one)
  local open, list, all = {}, {}, {}
  for _, phase in ipairs { "begin", "end" } do
    for _, event in ipairs(rs.trace:events { phase = phase }) do
      if event.seq >= one.first and one.lanes[event.lane] then all[#all + 1] = event end
    end
  end
  table.sort(all, function(a, b) return a.seq < b.seq end)
  for _, event in ipairs(all) do
    if event.kind == "lock.hold" and event.args.lock == "lua state" then
      open[event.lane] = event.phase == "begin" or nil
    elseif event.phase == "begin" and open[event.lane] then
      list[#list + 1] = event.kind .. " " .. tostring(event.args.op or event.args.node or "")
    end
  end
  return list
end

local function sum(list)
  local us = 0
  for _, span in ipairs(list) do us = us + span.us end
  return us
end
local devices = DEVICES
local x = rs.randn({ 2 * devices, 64 }):to("device:0")
local virtual = { virtual = true }
END_LESSON

my %lessons = (
    'a module written in Lua' => <<'END_LESSON',
local Busy = nn.Module("Busy")
function Busy:forward(x)
  local sum = 0
  for i = 1, 2000 do sum = sum + i % 7 end
  rs.advance(500, { lock = true })
  return x
end
local one = pass(Busy():to("device:0"), x)
rs.check("every thread held the lock", #one.holds >= devices)
rs.check("no two threads held it at the same time", not meet(one.holds, one.holds))
rs.close("each held it for its 500 us", sum(one.holds), 500 * devices, virtual)
rs.close("so all of them together took as long as one after another",
  rs.trace:duration { kind = "dp.parallel_apply" }, 500 * devices, virtual)
rs.close("the others waited meanwhile", sum(one.waits), 500 * devices * (devices - 1) / 2, virtual)
END_LESSON

    'a built-in module' => <<'END_LESSON',
local net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64))
local one = pass(net:to("device:0"), x)
rs.check("nobody held the lock", #one.holds == 0 and #one.waits == 0)
rs.check("there are ops of every thread", #one.ops >= 5 * devices)
rs.check("ops of different threads overlap", meet(one.ops, one.ops), virtual)
rs.close("all of them together took as long as one", rs.trace:duration { kind = "dp.parallel_apply" },
  one.workers[1].us, virtual)
END_LESSON

    'Lua that calls what is built in' => <<'END_LESSON',
local Model = nn.Module("Model")
function Model:init()
  self.linear = nn.Linear(64, 64)
  self.net = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
end
function Model:forward(x)
  for _ = 1, 3 do
    rs.advance(25, { lock = true })
    x = self.net(self.linear(x))
    rs.advance(25, { lock = true })
    x = F.gelu(x) * 2
  end
  return x
end
local one = pass(Model():to("device:0"), x)
rs.check("no two threads held the lock at the same time", not meet(one.holds, one.holds))
rs.check("no op or other stage began under it", #begun_inside(one) == 0)
rs.check("ops of different threads overlap", meet(one.ops, one.ops), virtual)
rs.check("an op of one runs while another runs Lua", meet(one.ops, one.holds), virtual)
rs.close("Lua's part is 150 us a thread", sum(one.holds), 150 * devices, virtual)
rs.check("somebody had to wait", #one.waits > 0, virtual)
END_LESSON

    'time that is not Lua\'s own' => <<'END_LESSON',
local Idle = nn.Module("Idle")
function Idle:forward(x)
  rs.advance(500)
  return x
end
local one = pass(Idle():to("device:0"), x)
rs.check("no two threads held the lock at the same time", not meet(one.holds, one.holds))
rs.close("nobody held it for any time", sum(one.holds), 0, virtual)
rs.close("all of them together took as long as one", rs.trace:duration { kind = "dp.parallel_apply" }, 500, virtual)
END_LESSON

    'every way from Lua into the engine' => <<'END_LESSON',
local ways = {
  module = function(self, x) return self.linear(x) end,
  ["module without gradients"] = function(self, x) return rs.no_grad(function() return self.linear(x) end) end,
  ["function"] = function(_, x) return F.softmax(x, 1) end,
  operator = function(_, x) return x + 1 end,
  method = function(_, x) return x:mul(2) end,
  ["in place"] = function(_, x) return x:detach():clone():add_(1) end,
  item = function(_, x) return x * x:sum():item() end,
  tolist = function(_, x) x:tolist() return x end,
  tostring = function(_, x) tostring(x) return x end,
  ["copy to the host"] = function(_, x) x:cpu() return x end,
  synchronize = function(_, x) rs.cuda.synchronize(x.device) return x end,
  backward = function(self, x) self.linear(x):sum():backward() return x end,
  ["list of tensors"] = function(_, x) return rs.cat({ x, x }, 1) end,
  mask = function(_, x) return x[x:gt(0)] end,
  assignment = function(_, x) local y = x:clone() y[{ 0 }] = x[{ 0 }] return y end,
  ["new tensor"] = function(_, x) rs.tensor({ 1, 2, 3 }, { device = x.device }) return x end,
  draw = function(_, x) return x + rs.randn({ 64 }, { device = x.device }) end,
  ["new module"] = function(_, x) return nn.Linear(64, 4):to(x.device)(x) end,
  ["Function of the lesson's own"] = function(self, x) return self.Square.apply(x) end,
}
local Square = rs.autograd.Function("Square")
function Square.forward(_, x) return x * x end
function Square.backward(_, grad) return grad end
local Model = nn.Module("Model")
function Model:init()
  self.linear = nn.Linear(64, 64)
end
function Model:forward(x) return self:way(x) end
local names = {}
for name in pairs(ways) do names[#names + 1] = name end
table.sort(names)
for _, name in ipairs(names) do
  local model = Model():to("device:0")
  model.way, model.Square = ways[name], Square
  local one = pass(model, x)
  rs.close(name .. ": nothing begins under the lock", table.concat(begun_inside(one), ", "), "")
  rs.check(name .. ": no two threads held it at the same time", not meet(one.holds, one.holds))
end
END_LESSON
);

my @policies = ([], [ '--policy', 'round-robin' ], map { [ '--policy', 'random', '--seed', $_ ] } 1 .. 2);
for my $name (sort keys %lessons) {
    for my $devices (2, 5) {
        (my $text = "$head$lessons{$name}") =~ s/DEVICES/$devices/g;
        my $file = lesson("devices$devices", $text);
        for my $way ((map { [ 'stepped', @$_ ] } @policies), ['free']) {
            my $run = ringside('run', '--tap', '--executor', @$way, $file);
            my @bad = grep { /^not ok/ } split /\n/, $run->{out};
            is("$run->{status} $run->{err}@bad", '0 ', "$name, $devices devices, @$way: holds")
                or diag($run->{out});
            my @skipped = $run->{out} =~ /# SKIP/g;
            is(scalar @skipped, 0, "$name, $devices devices, @$way: nothing is skipped") if $way->[0] eq 'stepped';
        }
    }
}

# In free the ops of two threads do overlap: the first pair is enough. With a lock around them there could be none.
my $overlap = <<'END_LESSON';
local Model = nn.Module("Model")
function Model:init()
  self.net = nn.Sequential()
  for i = 1, 12 do self.net:append(nn.Linear(256, 256)) end
end
function Model:forward(x)
  return IN_LUA and F.gelu(self.net(x)) or self.net(x)
end
local model = Model():to("device:0")
local net = IN_LUA and model or model.net
local x, seen, one = rs.randn({ 512, 256 }):to("device:0"), false, nil
for _ = 1, 200 do
  one = pass(net, x)
  seen = meet(one.ops, one.ops)
  if seen then break end
end
rs.check("ops of the two threads overlap", seen)
rs.check("Lua's lock is held as it should be", #one.holds > 0 == IN_LUA and not meet(one.holds, one.holds))
END_LESSON
for my $in_lua ('true', 'false') {
    (my $text = "$head$overlap") =~ s/DEVICES/2/g;
    $text =~ s/IN_LUA/$in_lua/g;
    my $run = ringside('run', '--tap', '--executor', 'free', lesson('overlap', $text));
    is("$run->{status} $run->{err}", '0 ', 'free: built-in ops run side by side' . ($in_lua eq 'true' ? ', called by Lua, too' : ''))
        or diag($run->{out});
}
done_testing();
