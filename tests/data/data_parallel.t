#!/usr/bin/perl
# DataParallel as a lesson uses it, in both executors: the copies of nn.parallel.comm and what they refuse, arguments
# of all kinds, outputs of all kinds, what is warned of, streams that copy, classes of one's own.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

my $head = <<'END';
local rs = require "ringside"
local nn, comm = rs.nn, rs.nn.parallel.comm
local function grid(rows, columns) return rs.arange(rows * columns):view({ rows, columns }):to("float32") end
local function fails(kind, words, f, ...)
  local ok, e = pcall(f, ...)
  local told = not ok and e.kind == kind
  for _, word in ipairs(words) do told = told and tostring(e.message):find(word, 1, true) ~= nil end
  if not told then print(ok, e) end
  return told
end
local function module(forward, init)
  local Class = nn.Module("Probe")
  Class.init = init
  Class.forward = forward
  return Class
end
END

# Runs a lesson that must hold in both executors. `more`: what else it declares.
sub holds_with {
    my ($more, $name, $text, @options) = @_;
    my $file = lesson($name, $head . qq{rs.lesson { title = "$name", devices = 4, seed = 0$more }\n$text});
    for my $executor ('stepped', 'free') {
        my $run = ringside('run', '--tap', '--executor', $executor, @options, $file);
        ok($run->{status} == 0 && $run->{out} =~ /^ok 1 /m, "$name, $executor") or diag($run->{out}, $run->{err});
    }
}

sub holds { return holds_with('', @_) }

holds('comm.broadcast', <<'END');
local t = grid(3, 2):to("device:1")
local all = comm.broadcast(t, { 0, 1, 2 })
rs.check("where it lies it is itself", #all == 3 and all[2] == t and all[1].device == "device:0")
rs.check("elsewhere a copy", rs.equal(all[3]:to("cpu"), t:to("cpu")) and all[3]:data_ptr() ~= t:data_ptr())
local out = { rs.zeros { 3, 2 }:to(0), rs.zeros { 3, 2 }:to(3) }
local answered = comm.broadcast(t, { out = out })
rs.check("out is filled and answered", answered[1] == out[1] and rs.equal(out[2]:to("cpu"), t:to("cpu")))
rs.check("neither", fails("RuntimeError", { "Exactly one", "neither" }, comm.broadcast, t))
rs.check("both", fails("RuntimeError", { "Exactly one", "both" }, comm.broadcast, t, { 0, 1 }, { out = out }))
rs.check("an out on the cpu is told by its index", fails("RuntimeError", { "index 1", "cpu" }, comm.broadcast, t,
  { out = { rs.zeros { 3, 2 }:to(0), rs.zeros { 3, 2 } } }))
rs.check("an out of another shape too", fails("RuntimeError", { "index 1", "[2, 3]", "[3, 2]" }, comm.broadcast, t,
  { out = { rs.zeros { 3, 2 }:to(0), rs.zeros { 2, 3 }:to(1) } }))
END

holds('comm.scatter', <<'END');
local x = grid(5, 2)
local two = comm.scatter(x, { 0, 1 }, { 1, 4 })
rs.check("sizes as given", two[1]:size(0) == 1 and two[2]:size(0) == 4 and two[2].device == "device:1")
local three = comm.scatter(x, { 2, 0, 1 })
rs.check("the chunk rule otherwise", three[1]:size(0) == 2 and three[3]:size(0) == 1)
rs.check("in the order of the rows", rs.equal(three[2]:to("cpu"), x[{ rs.slice(2, 4) }]))
local y = grid(4, 4):to(0)
local views = comm.scatter(y, { 0, 1 }, { dim = 1 })
views[1]:fill_(7)
rs.check("where it lies already a chunk is a view", y[{ 3, 1 }]:item() == 7 and y[{ 3, 2 }]:item() == 14)
rs.check("dim may count from the end", comm.scatter(y, { 0, 1 }, { dim = -1 })[2]:size(1) == 2)
local out = { rs.zeros { 3, 2 }:to(1), rs.zeros { 2, 2 }:to(2) }
comm.scatter(x, { out = out })
rs.check("out takes its rows", rs.equal(out[2]:to("cpu"), x[{ rs.slice(3, 5) }]))
rs.check("as many sizes as devices", fails("RuntimeError", { "len(devices) = 2", "len(chunk_sizes) = 3" },
  comm.scatter, x, { 0, 1 }, { 1, 2, 2 }))
rs.check("they add up", fails("RuntimeError", { "5", "4" }, comm.scatter, x, { 0, 1 }, { 2, 2 }))
rs.check("no device", fails("RuntimeError", { "at least one device" }, comm.scatter, x, {}))
rs.check("no out", fails("RuntimeError", { "at least one output" }, comm.scatter, x, { out = {} }))
rs.check("devices beside out", fails("RuntimeError", { "'devices'" }, comm.scatter, x, { 0, 1 }, { out = out }))
rs.check("chunk_sizes beside out", fails("RuntimeError", { "'chunk_sizes'" }, comm.scatter, x,
  { chunk_sizes = { 3, 2 }, out = out }))
rs.check("rows of out add up", fails("RuntimeError", { "5", "6" }, comm.scatter, x,
  { out = { rs.zeros { 3, 2 }:to(1), rs.zeros { 3, 2 }:to(2) } }))
rs.check("other sizes are told by their index", fails("RuntimeError", { "index 1", "[2, 3]" }, comm.scatter, x,
  { out = { rs.zeros { 3, 2 }:to(1), rs.zeros { 2, 3 }:to(2) } }))
rs.check("a stream belongs to its device", fails("RuntimeError", { "stream at index 1" }, comm.scatter, x, { 0, 1 },
  { streams = { rs.none, rs.cuda.Stream(0) } }))
local s = rs.cuda.Stream(1)
local got = comm.scatter(x, { 0, 1 }, { streams = { rs.none, s } })
s:synchronize()
rs.cuda.current_stream(1):wait_stream(s)
rs.check("a stream of one's own copies", rs.equal(got[2]:to("cpu"), x[{ rs.slice(3, 5) }]))
END

holds('comm.gather', <<'END');
local a, b = grid(2, 3):to(0), grid(1, 3):to(1)
rs.check("rows in order", rs.equal(comm.gather({ a, b }, 0, "cpu"), rs.cat({ grid(2, 3), grid(1, 3) }, 0)))
rs.check("the first device unless told", comm.gather({ b, a }).device == "device:0")
rs.check("along the columns", comm.gather({ a, a }, { dim = 1, destination = "device:3" }):size(1) == 6)
local out = rs.zeros { 3, 3 }:to(2)
rs.check("out is answered", comm.gather({ a, b }, { out = out }) == out and out[{ 2, 2 }]:item() == 2)
rs.check("nothing to gather", fails("RuntimeError", { "at least one tensor" }, comm.gather, {}))
rs.check("unequal rank", fails("RuntimeError", { "index 1" }, comm.gather, { a, rs.ones { 3 }:to(1) }))
rs.check("other sizes", fails("RuntimeError", { "index 1", "[2, 4]" }, comm.gather, { a, grid(2, 4):to(1) }))
rs.check("out of another shape", fails("RuntimeError", { "[3, 3]", "[2, 3]" }, comm.gather, { a, b },
  { out = rs.zeros { 2, 3 } }))
rs.check("out and destination", fails("RuntimeError", { "'destination'" }, comm.gather, { a, b }, 0, 1, { out = out }))
rs.check("a tensor of the host", fails("RuntimeError", { "index 1", "cpu" }, comm.gather, { a, rs.ones { 2, 3 } }))
END

# ---- dense and sparse ones ----

my $sparse = <<'END';
local function sparse(device, ids, width)
  local rows = nn.Embedding(10, width or 3, { sparse = true }):to(device)
  rs.mul(rows(rs.tensor(ids):to(device)), 2):sum():backward()
  return rows.weight.grad
end
END

holds('coalesced copies of dense and sparse tensors', $sparse . <<'END');
local function tensors(device)
  return { grid(2, 3):to(device), sparse(device, { 1, 4, 1 }), rs.tensor({ 1, 2, 3 }):to(device), grid(30, 1):to(device),
           sparse(device, { 0 }, 2), grid(1, 1):to(device) }
end
local given = tensors(0)
for _, bytes in ipairs { 1, 100, 10485760 } do
  local got = comm.broadcast_coalesced(given, { 0, 1, 3 }, bytes)
  local same = #got == 3
  for d = 1, 3 do
    for i = 1, #given do
      local t = got[d][i]
      same = same and t.device == ({ "device:0", "device:1", "device:3" })[d] and t.layout == given[i].layout and
        t.dtype == given[i].dtype and rs.equal(t:to_dense():to("cpu"), given[i]:to_dense():to("cpu"))
    end
  end
  rs.check("broadcast_coalesced in groups of " .. bytes .. " bytes", same and got[1][1] == given[1])
  local sums = comm.reduce_add_coalesced({ tensors(0), tensors(1) }, 0, bytes)
  local twice = #sums == #given
  for i = 1, #given do
    twice = twice and sums[i].layout == given[i].layout and sums[i].device == "device:0" and
      rs.equal(sums[i]:to_dense():to("cpu"), (given[i]:to_dense() * 2):to("cpu"))
  end
  rs.check("reduce_add_coalesced in groups of " .. bytes .. " bytes", twice)
end
local mixed = comm.reduce_add_coalesced({ { sparse(0, { 1 }) }, { rs.ones({ 10, 3 }):to(1) } }, 1)[1]
rs.check("sparse on one device only: dense", mixed.layout == "strided" and mixed.device == "device:1" and
  mixed[{ 1, 0 }]:item() == 3 and mixed[{ 2, 0 }]:item() == 1)
rs.check("broadcast_coalesced: all on the first device", fails("RuntimeError", { "device:1", "tensor 1", "device:2" },
  comm.broadcast_coalesced, { grid(1, 1):to(1), grid(1, 1):to(2) }, { 1, 2 }))
local a, b = rs.ones { 2 }:to(0), rs.ones { 2 }:to(1)
rs.check("reduce_add", comm.reduce_add({ a, b, b }, 1)[1]:item() == 3 and comm.reduce_add({ a, b }).device == "device:0")
rs.check("one alone is itself", comm.reduce_add({ b }, 1) == b)
rs.check("other sizes", fails("ValueError", { "input 1", "2x3", "2" }, comm.reduce_add, { a, grid(2, 3):to(1) }, 0))
rs.check("none on the destination", fails("RuntimeError", { "device:2" }, comm.reduce_add, { a, b }, 2))
END

# ---- scatter_kwargs, by name ----

holds('arguments and keyword arguments', <<'END');
local P = nn.parallel
local inputs, words = P.scatter_kwargs(rs.tuple(grid(2, 1), 7), { flag = true, m = grid(2, 1) }, { 0, 1, 2, 3 })
rs.check("the shortest decides", #inputs == 2 and #words == 2 and inputs[2][2] == 7 and words[2].flag == true)
inputs, words = P.scatter_kwargs(rs.tuple(grid(2, 1)), { flag = true }, { 0, 1, 2, 3 })
rs.check("fewer inputs: padded with empty tuples", #inputs == 4 and #inputs[3] == 0 and words[4].flag == true)
inputs, words = P.scatter_kwargs(rs.tuple(7), { m = grid(2, 1) }, { 0, 1, 2, 3 })
rs.check("fewer words: padded with empty tables", #inputs == 4 and words[2].m ~= nil and next(words[4]) == nil)
inputs, words = P.scatter_kwargs(nil, nil, { 0, 1 })
rs.check("nothing at all", #inputs == 0 and #words == 0)
rs.check("dim by its name", P.scatter(grid(2, 4), { 0, 1 }, { dim = 1 })[2]:size(1) == 2 and
  P.gather(P.scatter(grid(2, 4), { 0, 1 }, { dim = 1 }), "cpu", { dim = 1 }):size(1) == 4)
END

# ---- outputs ----

holds('what forward returns comes back', <<'END');
local x = grid(4, 2)
local function run(forward, devices, ...)
  return nn.DataParallel(module(forward)(), devices or { 0, 1 })(x, ...)
end
local t = run(function(self, a) return rs.tuple(a, a * 2) end)
rs.check("a tuple comes back as a tuple", type(t) == "table" and #t == 2 and rs.equal(t[2]:to("cpu"), x * 2))
local a, b = run(function(self, a) return a, a * 2 end)
rs.check("two results come back as two", rs.equal(a:to("cpu"), x) and rs.equal(b:to("cpu"), x * 2))
local list, more = run(function(self, a) return { a, { deep = a + 1 } } end)
rs.check("a list with a table", more == nil and rs.equal(list[2].deep:to("cpu"), x + 1))
local Pair = rs.namedtuple("Pair", { "x", "y" })
local pair = run(function(self, a) return Pair { x = a, y = rs.tuple(a) } end)
rs.check("a namedtuple with a tuple", rs.equal(pair.x:to("cpu"), x) and #pair.y == 1 and getmetatable(pair) == "Pair")
for _, devices in ipairs { { 1 }, { 0, 1, 2 } } do
  local one = run(function(self, a) return rs.tuple(a) end, devices)
  rs.check("a tuple of one, " .. #devices .. " devices", type(one) == "table" and #one == 1 and one[1]:size(0) == 4)
  rs.check("nothing, " .. #devices .. " devices", select("#", run(function() end, devices)) <= 1 and
    run(function() end, devices) == nil)
end
local plain = module(function(self, a) return rs.tuple(a, 3) end)()
local answer = plain(x)
rs.check("without DataParallel too", type(answer) == "table" and answer[1] == x and answer[2] == 3)
local function refused(kind, words, forward) return fails(kind, words, run, forward) end
rs.check("a number cannot be gathered", refused("TypeError", { "'int' object is not iterable: the output of replica 0 is a number" },
  function() return 3 end))
rs.check("it is told where it lies", refused("TypeError", { "'float' object is not iterable", "outputs[2].scale of replica 0 is a number" },
  function(self, a) return a, { a = a, scale = 0.5 } end))
rs.check("however deep", refused("TypeError", { "outputs.u[1][2] of replica 0 is a text" },
  function(self, a) return { u = { { a, "b" } } } end))
rs.check("and what an object is", refused("TypeError", { "'Linear' object is not iterable: the output of replica 0 is of type Linear" },
  function() return nn.Linear(1, 1) end) and refused("TypeError", { "'function' object", "is of type function" },
  function() return print end))
rs.check("nor lists of unequal length", refused("ValueError", { "2", "1" },
  function(self, a) return a.device == "device:0" and { a, a } or { a } end))
rs.check("nor dicts of unequal size", refused("ValueError", { "number of keys" },
  function(self, a) return a.device == "device:0" and { u = a, v = a } or { u = a } end))
rs.check("nor with other keys", refused("KeyError", { "'u'" },
  function(self, a) return a.device == "device:0" and { u = a } or { v = a } end))
rs.check("None of replica 0 is None", run(function(self, a) if a.device ~= "device:0" then return a end end) == nil)
END

holds('what a replica is', <<'END');
local said = {}
local Net = module(function(self, x)
  local names = {}
  for name in pairs(self._former_parameters) do names[#names + 1] = name end
  table.sort(names)
  said[x.device] = table.concat(names, " ") .. " " .. #self:parameters() .. " " .. tostring(self.gain.is_leaf)
  self:zero_grad()
  self:zero_grad()
  return x * self.gain
end, function(self)
  self.gain = nn.Parameter(rs.ones { 1 })
  self.other = nn.Parameter(rs.ones { 2 })
end)
local net = Net():to(0)
local dp = nn.DataParallel(net, { 0, 1, 2 })
local out = dp(grid(6, 1))
out:sum():backward()
rs.check("parameters are former ones, no leaves", said["device:0"] == "gain other 0 false" and
  said["device:2"] == "gain other 0 false")
rs.check("zero_grad warns once and changes nothing", rs.trace:count { kind = "lesson.warning" } == 1 and
  net.gain.grad:item() == 15)
rs.check("what is not used gets zeros", net.other.grad ~= nil and net.other.grad:sum():item() == 0)
rs.check("the module itself has none", not pcall(function() return nn.Linear(1, 1)._former_parameters end))
rs.check("a wrapper tells its options", #dp.device_ids == 3 and dp.device_ids[3] == 2 and dp.output_device == 0 and
  dp.dim == 0 and dp.module == net)
END

holds('where the output lies', <<'END');
local x, net = grid(4, 2), nn.Linear(2, 1):to(1)
local function lies(options) return nn.DataParallel(net, options)(x).device end
rs.check("on the first device", lies { device_ids = { 1, 0 } } == "device:1")
rs.check("on another one", lies { device_ids = { 1, 0 }, output_device = 3 } == "device:3" and
  lies { device_ids = { 1, 0 }, output_device = "device:2" } == "device:2")
rs.check("on the host, without a word", lies { device_ids = { 1, 0 }, output_device = "cpu" } == "cpu" and
  rs.trace:count { kind = "lesson.warning" } == 0)
rs.check("-1 is an older word for it", lies { device_ids = { 1, 0 }, output_device = -1 } == "cpu" and
  lies { device_ids = { 1, 0 }, output_device = -1 } == "cpu" and rs.trace:count { kind = "lesson.warning" } == 1)
local Span = module(function(self, a) return self.b(self.a(a:to(0)):to(1)) end, function(self)
  self.a, self.b = nn.Linear(2, 2):to(0), nn.Linear(2, 1):to(1)
end)
local span = Span()
rs.check("an empty list of devices: the module itself is called, whatever devices it spans",
  nn.DataParallel(span, { device_ids = {} })(x).device == "device:1")
rs.check("with devices a module that spans some is refused at forward", fails("RuntimeError",
  { "device_ids[0]", "device:1" }, nn.DataParallel(span, { 0, 1 }), x))
nn.DataParallel(span, { 0 })
rs.check("with one it is moved there", span.b.weight.device == "device:0")
END

my $sizes = sub { return sprintf ', device_memory = { %s }', join(', ', map { $_ << 20 } @_) };
my $balance = <<'END';
local before = rs.trace:count { kind = "lesson.warning" }
nn.DataParallel(nn.Linear(1, 1), { 0, 1, 2 })
nn.DataParallel(nn.Linear(1, 1), { 0, 1, 2 })
local told = rs.trace:first { kind = "lesson.warning" }
END
holds_with($sizes->(100, 75, 80, 1), 'three quarters are balanced', $balance . 'rs.check("none is told", before == 0 and told == nil)');
holds_with($sizes->(90, 74, 100, 1), 'less is not', $balance . <<'END');
rs.check("once, with both devices", rs.trace:count { kind = "lesson.warning" } == 1 and
  told.args.text:find("device:1 has less than 75% of the memory of device:2", 1, true) ~= nil)
END

# ---- classes of one's own ----

holds('a class that inherits from DataParallel', <<'END');
local Net = nn.Module("Net")
function Net:init(width) self.fc, self.width = nn.Linear(width, 1), width end
function Net:forward(x, words) self.seen = x.shape if words and words.double then x = x * 2 end return self.fc(x), x end
function Net:describe() return "width " .. self.width .. " of " .. self.fc.out_features end

local Through = nn.Module("Through", nn.DataParallel)
function Through:__getattr__(name) return self.module[name] end
local net = Net(3):to(0)
local dp, plain = Through(net, { device_ids = { 0, 1, 2 }, output_device = 1 }), nn.DataParallel(net, { 0, 1, 2 }, 1)
local x = grid(5, 3)
local y, chunks = dp(x, rs.kw { double = true })
local z = plain(x, rs.kw { double = true })
rs.check("it does what DataParallel does", rs.equal(y, z) and y.device == "device:1" and rs.equal(chunks:to("cpu"), x * 2))
rs.check("attributes are the module's", dp.width == 3 and dp.fc == net.fc and dp:describe() == "width 3 of 1" and
  dp.nowhere == nil)
rs.check("its own come first", #dp.device_ids == 3 and dp.output_device == 1 and dp.module == net and dp.training == true)
y:sum():backward()
rs.check("gradients arrive", net.fc.weight.grad ~= nil and dp:state_dict()["module.fc.weight"] ~= nil)
rs.check("it prints as a module", tostring(dp):find("Through(\n  (module): Net(", 1, true) == 1)

local Named = nn.Module("Named", nn.DataParallel)
function Named:init(name, module)
  Named.super.init(self, module, { 0, 3 })
  self.name = name
end
function Named:forward(x)
  self.calls = (self.calls or 0) + 1
  return (Named.super.forward(self, x))
end
local named = Named("mine", net)
named(x)
rs.check("init and forward of the base are called by super", named(x):size(0) == 5 and named.calls == 2 and
  named.name == "mine" and named.device_ids[2] == 3)
local Lua = nn.Module("Lua", nn.DataParallel)
function Lua:__index(name) return self.module[name] end
rs.check("Lua's own word for __getattr__ does the same", Lua(net, { 0, 1 }).width == 3)
local Careless = nn.Module("Careless", nn.DataParallel)
function Careless:init() end
rs.check("an init that forgets it is told", fails("AttributeError", { "Careless.super.init" }, Careless(), x))
local A = nn.Module("A")
function A:init(n) self.n = n end
local B = nn.Module("B", A)
function B:init(n) B.super.init(self, n + 1) end
rs.check("any class has its super", B(2).n == 3 and A.super == nil)
END

holds('the steps of DataParallel as methods', <<'END');
local Net = module(function(self, x, words) return self.fc(x) * (words and words.factor or 1), x end, function(self)
  self.fc = nn.Linear(2, 1)
end)
local net, x = Net():to(0), grid(6, 2)
local dp = nn.DataParallel(net, { 0, 1, 2 })
local inputs, kwargs = dp:scatter({ x }, { factor = 2 }, { 0, 1, 2 })
rs.check("scatter: arguments and keyword arguments", #inputs == 3 and #kwargs == 3 and inputs[3][1]:size(0) == 2 and
  kwargs[2].factor == 2)
local replicas = dp:replicate(net, { 0, 1, 2 })
rs.check("replicate", #replicas == 3 and replicas[2].fc.weight.device == "device:1")
local outputs = dp:parallel_apply(replicas, inputs, kwargs)
rs.check("parallel_apply", #outputs == 3 and outputs[2][1].device == "device:1")
local all = dp:gather(outputs, "cpu")
rs.check("gather", rs.allclose(all[1], net(x:to(0), rs.kw { factor = 2 }):to("cpu")) and rs.equal(all[2], x))
rs.check("fewer replicas than devices", #dp:parallel_apply(dp:replicate(net, { 0, 1 }), { { x:to(0) }, { x:to(1) } }, { {}, {} }) == 2)

-- Uneven chunks: the first device gets one row, the last the rest.
local Uneven = nn.Module("Uneven", nn.DataParallel)
function Uneven:scatter(given, words, devices)
  local chunks, all = {}, comm.scatter(given[1], devices, { 1, 2, 3 })
  for r, chunk in ipairs(all) do chunks[r] = rs.tuple(chunk) end
  return chunks, { words, words, words }
end
local uneven = Uneven(net, { 0, 1, 2 })
local y, rows = uneven(x, rs.kw { factor = 3 })
local z = dp(x, rs.kw { factor = 3 })
rs.check("a scatter of one's own is used", rs.equal(y, z) and rs.equal(rows:to("cpu"), x))
net:zero_grad()
y:sum():backward()
local grad = net.fc.weight.grad:clone()
net:zero_grad()
z:sum():backward()
rs.check("and its gradients are the same", rs.allclose(net.fc.weight.grad, grad))

local told = {}
local Telling = nn.Module("Telling", nn.DataParallel)
for _, name in ipairs { "scatter", "replicate", "parallel_apply", "gather" } do
  Telling[name] = function(self, ...)
    local got = {}
    for i, value in ipairs { ... } do got[i] = type(value) == "table" and #value or value end
    told[#told + 1] = name .. " " .. #{ ... }
    return Telling.super[name](self, ...)
  end
end
local telling = Telling(net, { device_ids = { 0, 1, 2 }, output_device = 1 })
local w = telling(x)
rs.check("each step is asked in its turn", table.concat(told, ", ") == "scatter 3, replicate 2, parallel_apply 3, gather 2")
rs.check("and its super does what DataParallel does", w.device == "device:1" and rs.equal(w:to(0), (dp(x))))
told = {}
rs.check("on one device nothing is copied or gathered", (Telling(net, { 0 })(x)):size(0) == 6 and table.concat(told, ", ") == "scatter 3")
told = {}
rs.check("on none the module is called", (Telling(net, { device_ids = {} })(x:to(0))):size(0) == 6 and #told == 0)
told = {}
telling(grid(2, 2))
rs.check("a small batch takes as many replicas as it has rows", told[2] == "replicate 2" and #telling:replicate(net, { 0, 1 }) == 2)
local None = nn.Module("None", nn.DataParallel)
function None:scatter() return {}, {} end
local calls = module(function(self, ...) return rs.full({ 1 }, select("#", ...)):to(0) end)()
rs.check("nothing to scatter: one call without arguments", None(calls, { 0, 1 })(x):item() == 0)
local Bad = nn.Module("Bad", nn.DataParallel)
function Bad:scatter() return 3 end
rs.check("a scatter that gives no lists is told", fails("TypeError", { "Bad", "scatter" }, Bad(net, { 0, 1 }), x))
rs.check("the module's place is checked all the same", fails("RuntimeError", { "device_ids[0]" }, Uneven(Net(), { 0, 1, 2 }), x))
END

holds('one block of a larger model', <<'END');
local Net = module(function(self, x) return self.last(self.block(self.first(x))) end, function(self)
  self.first = nn.Linear(3, 4)
  self.block = nn.Sequential { nn.Linear(4, 4), nn.Tanh() }
  self.last = nn.Linear(4, 1)
end)
local x = grid(6, 3) / 10
local function grads(wrap)
  rs.manual_seed(3)
  local net = Net():to(0)
  if wrap then net.block = nn.DataParallel(net.block, { 0, 1, 2 }) end
  net(x:to(0)):sum():backward()
  local all = {}
  for i, p in ipairs(net:parameters()) do all[i] = p.grad:to("cpu") end
  return all
end
local one, three = grads(false), grads(true)
local same = #one == #three
for i = 1, #one do same = same and rs.allclose(one[i], three[i]) end
rs.check("its gradients are those of one device", same)
rs.check("the rows that go out come back: Scatter's backward is a gather", rs.trace:count { kind = "dp.scatter.backward" } == 1 and
  rs.trace:first { kind = "dp.scatter.backward" }.args.sizes == "2 2 2")
END

holds('twice through Scatter and Gather', <<'END');
local net = nn.Sequential { nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1) }:to(0)
local function penalty(f)
  local x = (grid(5, 2) / 10):to(0)
  x.requires_grad = true
  local h = x * x                                   -- what is scattered is no leaf
  local g = rs.autograd.grad(f(h):sum(), { x }, { create_graph = true })[1]
  net:zero_grad()
  x.grad = nil
  ;(g * g):sum():backward()
  local all = { x.grad:to("cpu") }
  for _, p in ipairs(net:parameters()) do if p.grad then all[#all + 1] = p.grad:to("cpu") end end
  return all
end
local one, four = penalty(net), penalty(nn.DataParallel(net, { 0, 1, 2, 3 }))
local same = #one >= 4
for i = 1, #one do same = same and rs.allclose(one[i], four[i], { rtol = 1e-4, atol = 1e-6 }) end
rs.check("a gradient of a gradient is that of one device", same)
END

# ---- errors, modes, memory ----

holds('what goes wrong in a replica', <<'END');
local ran = {}
local function failing(kind, message)
  return nn.DataParallel(module(function(self, x)
    ran[x.device] = true
    if x.device == "device:1" then for _ = 1, 50 do x = x + 1 end end
    if x.device ~= "device:0" then rs.error(kind, message .. " " .. x.device) end
    return x
  end)(), { 0, 1, 2, 3 })
end
for _, kind in ipairs { "ValueError", "KeyError", "IndexError", "RuntimeError", "TypeError", "LuaError" } do
  ran = {}
  rs.check(kind .. " of the lowest replica keeps its kind", fails(kind, { "Caught " .. kind .. " in replica 1 on device 1.",
    "boom device:1" }, failing(kind, "boom"), grid(4, 1)))
  rs.check("the others finished, " .. kind, ran["device:2"] and ran["device:3"])
end
rs.check("Lua's own error has its words", fails("LuaError", { "in replica 1 on device 1.", "attempt to" },
  nn.DataParallel(module(function(self, x) return x.device == "device:1" and x.nothing() or x end)(), { 0, 1 }), grid(2, 1))
  or fails("AttributeError", { "in replica 1 on device 1." },
  nn.DataParallel(module(function(self, x) return x.device == "device:1" and x.nothing() or x end)(), { 0, 1 }), grid(2, 1)))
rs.check("with one module there is no thread, but the same words", fails("ValueError", { "in replica 0 on device 2." },
  nn.parallel.parallel_apply, { module(function() rs.error("ValueError", "no") end)() }, { rs.ones { 1 }:to(2) }))
rs.check("with one device the module itself raises", fails("ValueError", { "no" },
  nn.DataParallel(module(function() rs.error("ValueError", "no") end)(), { 2 }), rs.ones { 1 }))
END

holds('modes of the workers', <<'END');
local seen = {}
local dp = nn.DataParallel(module(function(self, x)
  seen[x.device] = (seen[x.device] or "") .. tostring(rs.is_grad_enabled()) .. " " .. rs.ones { 1 }.dtype .. ","
  return x
end)(), { 0, 1 })
dp(grid(2, 1))
rs.set_default_dtype("float64")
rs.no_grad(function() dp(grid(2, 1)) end)
rs.set_default_dtype("float32")
rs.check("grad mode is the caller's, the default dtype everybody's", seen["device:0"] ==
  "true float32,false float64," and seen["device:1"] == seen["device:0"])
END

holds('a small batch, no batch', <<'END');
local dp = nn.DataParallel(module(function(self, x) return x and x:sum() or rs.tensor(3.):to(0) end)(), { 0, 1, 2 })
local one = dp(grid(1, 2))
rs.check("one replica: a scalar becomes a vector of one", one:dim() == 1 and #one == 1 and one:item() == 1)
rs.check("no arguments at all: one call on the first device", dp():size(0) == 1 and dp():item() == 3)
local all = nn.parallel.data_parallel(module(function(self, x, words) return x * words.by + words.add end)(), grid(4, 1),
  { 0, 1 }, "cpu", 0, { by = 2, add = grid(4, 1) })
rs.check("module_kwargs are scattered", all.device == "cpu" and rs.equal(all, grid(4, 1) * 3))
local alone = module(function(self, ...) return rs.full({ 1 }, select("#", ...), { device = 0 }) end)()
rs.check("inputs that are None are no inputs", nn.parallel.data_parallel(alone, rs.none, { 0, 1 }):item() == 0)
rs.check("a list of inputs is one input, a tuple of them several", nn.parallel.data_parallel(alone,
  { grid(2, 1), grid(2, 1) }, { 0, 1 }):tolist()[1] == 1 and nn.parallel.data_parallel(alone,
  rs.tuple { grid(2, 1), grid(2, 1) }, { 0, 1 }):tolist()[1] == 2)
rs.check("a table with names that stands last is the input, too", nn.parallel.data_parallel(
  module(function(self, given) return given.rows * 2 end)(), { rows = grid(8, 1) }):size(0) == 8)
for _, odd in ipairs { { [0] = grid(2, 1), [1] = grid(2, 1) }, { [5] = grid(2, 1) }, { [true] = grid(2, 1) } } do
  rs.check("a table that is neither a list nor has names is refused, not cut short", fails("TypeError",
    { "a list from 1 on or has names" }, nn.parallel.scatter, odd, { 0, 1 }))
end
rs.check("as many tables of names as modules", fails("AssertionError", { "modules 1", "kwargs_tup 2" },
  nn.parallel.parallel_apply, { nn.ReLU() }, { grid(2, 1) }, { {}, {} }))
rs.check("the functional form needs a device", fails("IndexError", { "device_ids" }, nn.parallel.data_parallel,
  nn.ReLU(), grid(2, 1), { device_ids = {} }))
END

holds('replicas live for one forward', <<'END');
local net = nn.Sequential { nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64) }:to(0)
local dp, x = nn.DataParallel(net, { 0, 1, 2 }), rs.ones { 6, 64 }
local function held() collectgarbage() return rs.cuda.memory_allocated(1) + rs.cuda.memory_allocated(2) end
rs.no_grad(function() dp(x) end)
rs.cuda.synchronize()
rs.check("without gradients nothing of them is left", held() == 0)
local y = dp(x)
rs.check("with gradients the graph has their weights", held() > 0)
y:sum():backward()
y = nil
rs.cuda.synchronize()
rs.check("until the backward is done", held() == 0)
END

holds('sparse gradients', <<'END');
local function grads(wrap, ids)
  rs.manual_seed(1)
  local net = nn.Embedding(10, 2, { sparse = true }):to(0)
  local model = wrap and nn.DataParallel(net, wrap) or net
  model(wrap and ids or ids:to(0)):sum():backward()
  return net.weight.grad
end
local ids = rs.tensor { { 1, 2 }, { 1, 9 }, { 3, 1 }, { 0, 0 }, { 2, 2 } }
local one, two = grads(nil, ids), grads({ 0, 1 }, ids)
rs.check("they stay sparse, and equal", two.layout == "sparse_coo" and rs.equal(one:to_dense():to("cpu"),
  two:to_dense():to("cpu")))
END

for my $executor ('stepped', 'free') {
    my $text = qq{$head rs.lesson { title = "scalars", devices = 2 }\n} . <<'END';
local dp = nn.DataParallel(module(function(self, x) return x:sum() end)(), { 0, 1 })
for _ = 1, 3 do dp(grid(4, 1)) end
nn.parallel.gather({ rs.tensor(1.):to(0), rs.tensor(2.):to(1) }, 0)
rs.check("each time is an event", rs.trace:count { kind = "dp.gather.unsqueeze" } == 4)
rs.check("the warning is one", rs.trace:count { kind = "lesson.warning" } == 1)
END
    my $run = ringside('run', '--executor', $executor, lesson('scalars', $text));
    my @told = $run->{out} =~ /^(\[warning\].*)/mg;
    ok($run->{status} == 0 && @told == 1 && $told[0] =~ /gather along dimension 0/, "scalars are warned of once, $executor")
        or diag($run->{out}, $run->{err});
}

holds('gather on the host has a backward', <<'END');
local a, b = rs.ones({ 2, 4 }):to(0), rs.ones({ 2, 4 }):to(1)
a.requires_grad, b.requires_grad = true, true
local all = nn.parallel.gather({ a, b }, "cpu")
;(all * grid(4, 4)):sum():backward()
rs.check("each gets its rows back", all.device == "cpu" and rs.equal(b.grad:to("cpu"), grid(4, 4)[{ rs.slice(2, 4) }]) and
  a.grad.device == "device:0")
local s, t = rs.tensor(2.):to(0), rs.tensor(3.):to(1)
s.requires_grad, t.requires_grad = true, true
local two = nn.parallel.gather({ s, t }, -1)
;(two * rs.tensor { 5., 7. }):sum():backward()
rs.check("scalars too", two:size(0) == 2 and t.grad:dim() == 0 and t.grad:item() == 7)
END

holds('nothing to copy, one device twice', <<'END');
local empty = comm.broadcast_coalesced({ rs.zeros({ 0 }, { dtype = "uint8" }):to(0), rs.ones { 5 }:to(0) }, { 0, 1 })
rs.check("empty tensors travel too", #empty[2][1] == 0 and empty[2][1].device == "device:1" and empty[2][1].dtype == "uint8")
local none = comm.broadcast_coalesced({}, { 0, 1 })
rs.check("so does an empty list", #none == 2 and #none[2] == 0)
local sums = comm.reduce_add_coalesced({ { rs.zeros { 0 }:to(0), rs.ones { 2 }:to(0) },
  { rs.zeros { 0 }:to(1), rs.ones { 2 }:to(1) } }, 1)
rs.check("and is summed", #sums[1] == 0 and sums[2][1]:item() == 2)
local net = nn.Linear(2, 1, { bias = false }):to(0)
nn.DataParallel(net, { 0, 0, 1 })(rs.ones { 6, 2 }):sum():backward()
rs.check("a device may be listed twice", net.weight.grad[{ 0, 0 }]:item() == 6)
local copies = comm.broadcast_coalesced({ rs.ones { 2 }:to(0) }, { 0, 0 })
copies[2][1]:fill_(5)
rs.check("its second copy is one of its own", copies[1][1][0]:item() == 1)
rs.check("no devices: no replicas", #nn.parallel.replicate(net, {}) == 0)
rs.check("nothing to scatter to", fails("RuntimeError", { "at least one device" }, nn.parallel.scatter, grid(2, 1), {}))
rs.check("nothing to gather", fails("IndexError", { "at least one output" }, nn.parallel.gather, {}, 0))
rs.check("Gather wants tensors of devices", fails("AssertionError", { "Gather", "replica 1" }, nn.parallel.gather,
  { rs.ones { 1 }:to(0), rs.ones { 1 } }, 0))
rs.check("Broadcast too", fails("AssertionError", { "Broadcast", "tensor 0" }, nn.parallel.replicate, nn.Linear(1, 1), { 0, 1 }))
local once = nn.DataParallel(net, { device_ids = {} })
rs.check("a wrapper without devices", #once.device_ids == 0 and not pcall(function() return once.output_device end))
END

holds('deep and odd arguments', <<'END');
local Point = setmetatable({}, { __index = { where = "here" } })
local seen = {}
local Net = module(function(self, a, words)
  seen[a.rows.device] = a.rows:size(0) .. " " .. #a.more[1] .. " " .. a.more[2][1]:size(0) .. " " .. tostring(a.text) ..
    " " .. #a.none .. " " .. tostring(words.point == Point) .. " " .. words.point.where .. " " .. words.list[2] ..
    " " .. tostring(a.more[3] == rs.none)
  return { sum = rs.tuple(a.rows:sum(1)), [ "k" ] = { words.list[1] } }
end)
local out = nn.DataParallel(Net(), { 0, 1, 2 })({ rows = grid(5, 2), more = rs.tuple({ }, { grid(5, 1) }, rs.none), text = "t",
  none = {} }, rs.kw { point = Point, list = { grid(5, 3), 7 } })
rs.check("containers are cut, all else is shared by reference", seen["device:0"] == "2 0 2 t 0 true here 7 true" and
  seen["device:2"] == "1 0 1 t 0 true here 7 true")
rs.check("and put together again", #out.sum == 1 and rs.equal(out.sum[1]:to("cpu"), grid(5, 2):sum(1)) and
  rs.equal(out.k[1]:to("cpu"), grid(5, 3)))
local inner = nn.DataParallel(nn.Linear(2, 2):to(0), { 0 })
rs.check("one in another", nn.DataParallel(nn.Sequential { inner }, { 0 })(grid(4, 2)):size(0) == 4)
local lists = nn.ParameterList { nn.Parameter(rs.ones { 1 }), nn.Parameter(rs.ones { 1 } * 2) }
local Both = module(function(self, x)
  local y = x
  for i = 0, #self.list - 1 do y = y * self.list[i] end
  return y
end, function(self) self.list = lists end)
local both = Both():to(0)
nn.DataParallel(both, { 0, 1 })(grid(4, 1)):sum():backward()
rs.check("lists of parameters", both.list[1].grad:item() == 6 and both.list[0].grad:item() == 12)
local tied = nn.Sequential { nn.Linear(2, 2), nn.Linear(2, 2) }:to(0)
tied[1].weight = tied[0].weight
nn.DataParallel(tied, { 0, 1, 2 })(grid(3, 2)):sum():backward()
local alone = nn.Sequential { tied[0], tied[1] }
local got = tied[0].weight.grad:clone()
alone:zero_grad()
alone(grid(3, 2):to(0)):sum():backward()
rs.check("tied parameters have one gradient, of both uses", rs.allclose(got, tied[0].weight.grad))
local norm = nn.BatchNorm1d(2):to(0)
nn.DataParallel(norm, { 0, 1 })(grid(4, 2))
rs.check("BatchNorm keeps what replica 0 saw", norm.num_batches_tracked:item() == 1 and
  rs.allclose(norm.running_mean:to("cpu"), rs.tensor { 0.1, 0.2 }))
rs.check("a last chunk of one row is refused", fails("ValueError", { "in replica 1", "more than 1 value per channel" },
  nn.DataParallel(norm, { 0, 1 }), grid(3, 2)))
END

# ---- streams ----

holds('copies from the host', <<'END');
local net = nn.Linear(2, 1):to(0)
local dp = nn.DataParallel(net, { 0, 1, 2 })
dp(grid(6, 2))
local waits, notes = rs.trace:count { kind = "stream.wait" }, rs.trace:count { kind = "memory.record_stream" }
rs.check("each chunk is waited for and recorded", waits >= 3 and notes == 3)
local lanes = {}
for _, event in ipairs(rs.trace:events { kind = "memory.copy" }) do lanes[event.lane] = true end
rs.check("copied by a stream of its own", lanes["device:1 copy"] and lanes["device:2 copy"])
dp(grid(6, 2))
rs.check("the streams are kept", rs.cuda.Stream(0) ~= nil and rs.trace:count { kind = "memory.record_stream" } == 6)
dp(grid(6, 2):to(0))
rs.check("between devices the current streams copy", rs.trace:count { kind = "memory.record_stream" } == 6)
END

done_testing();
