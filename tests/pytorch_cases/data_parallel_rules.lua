-- The rules of DataParallel that its documentation leaves out, row by row of the page on it (S12): chunks, structures, what
-- replicas share, which error wins, in which order things happen. Values follow from the rule, worked out here.
local rs = require "ringside"
local nn = rs.nn
local dp = nn.parallel

rs.lesson { title = "PyTorch cases: the rules of DataParallel", devices = 8, seed = 4, prefix = "" }

local function same(a, b) return rs.equal(a:detach():to("cpu"), b:detach():to("cpu")) end
local function near(a, b, tolerance) return rs.allclose(a:detach():to("cpu"), b:detach():to("cpu"), { atol = tolerance or 1e-6 }) end
local function refused(kind, words, f, ...)
  local ok, e = pcall(f, ...)
  if ok or type(e) ~= "table" or e.kind ~= kind then return false end
  for _, word in ipairs(words) do
    if not e.message:find(word, 1, true) then return false end
  end
  return true
end
local function since(from, filter)
  local out = {}
  for _, event in ipairs(rs.trace:events(filter)) do
    if event.seq >= from then out[#out + 1] = event end
  end
  return out
end
local function begins(from, kind) return since(from, { kind = kind, phase = "begin" }) end
local function class(forward, init)
  local made = nn.Module "Net"
  made.forward = forward
  if init then made.init = init end
  return made
end
local function row(id, f)
  local ok, e = pcall(f)
  if not ok then rs.check(id .. " runs to its end: " .. tostring(e), false) end
end
local function first(n)
  local ids = {}
  for i = 1, n do ids[i] = i - 1 end
  return ids
end

-- ---- chunks ----

row("S12 chunk rule", function()
  local ok, wrong = true, ""
  for rows = 1, 13 do
    for n = 1, 8 do
      local each = math.ceil(rows / n)
      local pieces = dp.scatter(rs.arange(rows), first(n))
      local good, at = #pieces == math.ceil(rows / each), 0
      for i, piece in ipairs(pieces) do
        local size = math.min(each, rows - at)
        good = good and piece:size(0) == size and piece.device == "device:" .. i - 1 and same(piece, rs.arange(at, at + size))
        at = at + size
      end
      if not good then ok, wrong = false, wrong .. (" %d/%d"):format(rows, n) end
    end
  end
  rs.check("S12 chunk rule: ceil(rows / devices) each, often fewer pieces than devices" .. wrong, ok)
  local empty = dp.scatter(rs.zeros(0, 3), first(4))
  rs.check("S12 chunk rule: no rows make as many empty pieces as devices", #empty == 4 and empty[4]:size(0) == 0 and empty[4]:size(1) == 3)
  rs.check("S12 chunk rule: a 0-dim tensor cannot be cut", refused("RuntimeError", { "at least a 1-dimensional" }, dp.scatter, rs.tensor(1.0), { 0, 1 }))
  local wide = dp.scatter(rs.arange(12):reshape { 2, 6 }, { 0, 1, 2, 3 }, 1)
  rs.check("S12 chunk rule: along dim 1", #wide == 3 and same(wide[3], rs.tensor { { 4, 5 }, { 10, 11 } }))
end)

row("S12 same result for any n", function()
  local worst = 0
  for _, kind in ipairs { "seed", "mlp" } do
    for n = 1, 8 do
      rs.manual_seed(2)
      local model = kind == "seed" and nn.Sequential { nn.Embedding(1000, 10), nn.Linear(10, 10) }
        or nn.Sequential { nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3) }
      local x = kind == "seed" and rs.randint(0, 1000, { 10 }) or rs.randn(10, 6)
      model(x):pow(2):mean():backward()
      local want = {}
      for i, p in ipairs(model:parameters()) do want[i] = p.grad:clone() end
      model:zero_grad()
      model:to(0)
      nn.DataParallel(model, { device_ids = first(n) })(x):pow(2):mean():backward()
      for i, p in ipairs(model:parameters()) do worst = math.max(worst, (p.grad:to("cpu") - want[i]):abs():max():item()) end
    end
  end
  rs.check("S12 gradients are those of one device on 1 to 8 devices", worst < 2e-7)
end)

row("S12 order of copies", function()
  local model = nn.Sequential { nn.Embedding(1000, 10), nn.Linear(10, 10) }:to(0)
  local wrapped, from = nn.DataParallel(model, { device_ids = first(8) }), rs.trace:seq()
  local out = wrapped(rs.arange(10))
  local forward, order = {}, { "dp.check", "dp.scatter", "dp.replicate", "dp.parallel_apply", "dp.gather" }
  for _, kind in ipairs(order) do
    for _, event in ipairs(begins(from, kind)) do forward[#forward + 1] = event end
  end
  local ordered = #forward == 5
  for i = 2, #forward do ordered = ordered and forward[i].seq > forward[i - 1].seq end
  rs.check("S12 order of a forward: check, scatter, replicate, apply, gather, once each", ordered)
  local chunks, casts, workers = since(from, { kind = "dp.scatter.chunk" }), begins(from, "dp.broadcast_coalesced"), begins(from, "dp.worker")
  rs.check("S12 order of copies: 10 rows make five replicas on 8 devices, with 2 rows each", #chunks == 5 and #workers == 5
    and chunks[5].args.rows == 2)
  rs.check("S12 order of copies: three parameters of 40440 bytes go to four more devices, then no buffers", #casts == 2
    and casts[1].args.tensors == 3 and casts[1].args.bytes == 4 * 40440 and casts[2].args.tensors == 0)
  local back = rs.trace:seq()
  out:sum():backward()
  local reduces, cut = begins(back, "dp.reduce_add_coalesced"), begins(back, "dp.gather.backward")
  rs.check("S12 order of a backward: the gradient is scattered, then one reduce of three; indices need no gather", #reduces == 1
    and #cut == 1 and reduces[1].args.tensors == 3 and cut[1].seq < reduces[1].seq and #begins(back, "dp.gather") == 0)
  local last = 0
  for _, event in ipairs(since(back, { kind = "autograd.node", phase = "end" })) do
    if event.device and event.device > 0 and event.seq > last then last = event.seq end
  end
  rs.check("S12 no overlap: the one reduce begins after the last node of every replica", last > 0 and reduces[1].seq > last)
end)

row("S12 recorded graph", function()
  local wrapped = nn.DataParallel(nn.Linear(3, 2):to(0), { device_ids = first(3) })
  local out = wrapped(rs.ones({ 6, 3 }, { requires_grad = true }))
  local gather, ok, broadcast, scatter = out.grad_fn, true, nil, nil
  for r, edge in ipairs(gather.next_functions) do
    local node, names = edge[1], {}
    for i, input in ipairs(node.next_functions) do names[i] = input[1] ~= rs.none and input[1]:name() or "none" end
    broadcast, scatter = node.next_functions[1][1], node.next_functions[2][1]
    ok = ok and node:name() == "AddmmBackward0" and names[1] == "BroadcastBackward" and names[2] == "ScatterBackward"
      and node.next_functions[2][2] == r - 1 and names[3] == "TBackward0"
  end
  rs.check("S12 recorded graph: Gather over three Addmm, each over the one Broadcast and its output of the one Scatter",
    gather:name() == "GatherBackward" and #gather.next_functions == 3 and ok)
  rs.check("S12 recorded graph: Broadcast leads to the two parameters, Scatter to the input", #broadcast.next_functions == 2
    and #scatter.next_functions == 1 and broadcast.next_functions[1][1]:name() == "torch::autograd::AccumulateGrad")
  local back, numbers = rs.trace:seq(), {}
  local from_zero = true
  out:sum():backward()
  for _, event in ipairs(begins(back, "autograd.node")) do
    if event.device and event.device >= 0 and event.args.node == "TBackward0" then numbers[#numbers + 1] = event.args.sequence_nr end
  end
  for _, number in ipairs(numbers) do from_zero = from_zero and number == 0 end
  rs.check("S12 sequence numbers: each replica's thread counts its nodes from 0", #numbers == 3 and from_zero)
end)

-- ---- structures ----

-- What each replica was given, as a list of { device, values ... }, in replica order.
local function given_to(n, args, kwargs)
  local seen = {}
  local Net = class(function(self, ...)
    local t -- where it lies tells which replica this is: they run in any order
    for _, value in ipairs { ... } do t = rs.is_tensor(value) and value or t end
    seen[t and tonumber(t.device:match "%d+") + 1 or 1] = { ... }
    return t or rs.zeros({ 1 }, { device = 0 })
  end)
  local out = nn.parallel.data_parallel(Net(), rs.tuple(args), { device_ids = first(n), module_kwargs = kwargs })
  return seen, out
end

row("S12 structures", function()
  local seen, out = given_to(4, { rs.arange(8), rs.arange(2) })
  rs.check("S12 truncation: 8 and 2 rows on 4 devices call two replicas; rows 4 to 7 are dropped in silence", #seen == 2
    and same(seen[2][1], rs.tensor { 2, 3 }) and same(seen[2][2], rs.tensor { 1 }) and same(out, rs.tensor { 0, 1 }))
  seen = given_to(4, { rs.arange(2), "word" })
  rs.check("S12 2 rows and a plain positional value: two replicas", #seen == 2 and seen[2][2] == "word")
  rs.check("S12 padding: 2 rows and a plain keyword on 4 devices: two replicas lack their argument",
    refused("LuaError", { "replica 2", "on device 2" }, function()
      local Net = class(function(_, x, kw) return x * kw.k end)
      nn.DataParallel(Net(), { device_ids = first(4) })(rs.arange(2), rs.kw { k = 2 })
    end))
  seen = given_to(4, {})
  rs.check("S12 no argument at all: one call", #seen == 1 and #seen[1] == 0)
  local lengths, object = { 5, 6, 7 }, setmetatable({ t = rs.arange(4) }, { __index = {} })
  seen = given_to(2, { rs.arange(4), lengths, 7, rs.none, "text", true, {}, object })
  local ok = #seen == 2
  for _, got in ipairs(seen) do
    ok = ok and #got[2] == 3 and got[2][3] == 7 and got[3] == 7 and got[5] == "text" and got[6] == true and next(got[7]) == nil
    ok = ok and got[8] == object
  end
  rs.check("S12 what is no tensor goes to each replica whole: lists of numbers, texts, empty tables, objects", ok)
  seen = given_to(2, { rs.tensor { true, false, true, false }, { a = rs.arange(4), b = { rs.arange(4), 9 } } })
  rs.check("S12 tensors of bool and integers are cut; dicts and lists keep their form", same(seen[2][1], rs.tensor { true, false })
    and same(seen[2][2].a, rs.tensor { 2, 3 }) and same(seen[2][2].b[1], rs.tensor { 2, 3 }) and seen[2][2].b[2] == 9)
end)

row("S12 gather", function()
  local function at(device, ...) return rs.full({ ... }, device + 1.0, { device = device }) end
  rs.check("S12 gather: None from replica 0 is None", dp.gather({ rs.none, at(1, 2) }, 0) == rs.none or dp.gather({ rs.none, at(1, 2) }, 0) == nil)
  rs.check("S12 gather: numbers and booleans do not gather", refused("TypeError", {}, dp.gather, { 1, 2 }, 0)
    and refused("TypeError", {}, dp.gather, { true, true }, 0))
  rs.check("S12 gather: a key that one replica lacks", refused("KeyError", {}, dp.gather, { { a = at(0, 1) }, { b = at(1, 1) } }, 0))
  rs.check("S12 gather: 0-dim along dim 1, and mixed with others", not pcall(dp.gather, { at(0), at(1) }, 0, 1)
    and not pcall(dp.gather, { at(0), at(1, 1) }, 0))
  rs.check("S12 gather: other sizes must agree, the index is told", refused("RuntimeError", { "index 1" }, dp.gather, { at(0, 2, 3), at(1, 2, 4) }, 0))
  local joined = dp.gather({ at(0, 2, 1), at(1, 2, 2) }, 0, 1)
  rs.check("S12 gather: along dim 1", same(joined, rs.tensor { { 1.0, 2, 2 }, { 1, 2, 2 } }))
end)

row("S12 scalar losses", function()
  local Loss = class(function(_, x, y) return (x - y):pow(2):mean() end)
  local x, y = rs.randn(10, 2), rs.randn(10, 2)
  local full = (x - y):pow(2):mean():item()
  local function mean_of(n) return nn.DataParallel(Loss():to(0), { device_ids = first(n) })(x, y) end
  local four, sum, at = mean_of(4), 0, 0
  for _, rows in ipairs { 3, 3, 3, 1 } do
    sum = sum + (x[rs.slice(at, at + rows)] - y[rs.slice(at, at + rows)]):pow(2):mean():item() / 4
    at = at + rows
  end
  rs.check("S12 mean of means: chunks 3, 3, 3, 1 weigh alike and miss the batch's loss", four:size(0) == 4
    and math.abs(four:mean():item() - sum) < 1e-6 and math.abs(sum - full) > 1e-6)
  rs.check("S12 mean of means: equal chunks meet it", math.abs(mean_of(5):mean():item() - full) < 1e-6)
  rs.check("S12 one device: a 0-dim output stays so; one row on several: a vector of 1", mean_of(1):dim() == 0
    and dp.data_parallel(Loss(), rs.tuple { x[rs.slice(0, 1)], y[rs.slice(0, 1)] }, { device_ids = first(4) }):size(0) == 1)
end)

-- ---- replicas ----

row("S12 aliasing", function()
  local Net = class(function() end, function(self)
    self.a, self.b, self.frozen = nn.Linear(2, 2), nn.Linear(2, 2), nn.Parameter(rs.ones(2))
    self.b.weight = self.a.weight
    self.frozen:requires_grad_(false)
    self:register_buffer("count", rs.zeros(1))
    self.number, self.list = 1, { 1 }
  end)
  local net = Net():to(0)
  local zero, one = table.unpack(dp.replicate(net, { 0, 1 }))
  local weight = net.a.weight
  rs.check("S12 aliasing: replica 0's parameter is a view of the module's, with its version", zero.a.weight:storage_id() == weight:storage_id()
    and zero.a.weight._version == weight._version and not zero.a.weight.is_leaf)
  rs.check("S12 aliasing: replica 1's is a copy", one.a.weight:storage_id() ~= weight:storage_id() and one.a.weight.device == "device:1")
  rs.check("S12 aliasing: tied parameters stay tied", one.a.weight == one.b.weight and zero.a.weight == zero.b.weight)
  rs.check("S12 aliasing: a frozen one wants no gradient on any replica", not zero.frozen.requires_grad and not one.frozen.requires_grad)
  rs.check("S12 aliasing: replica 0 has the module's own buffer, replica 1 a copy", zero.count:storage_id() == net.count:storage_id()
    and one.count:storage_id() ~= net.count:storage_id())
  zero.number = 5
  rs.check("S12 aliasing: plain attributes are copied, tables in them shared", net.number == 1 and one.number == 1 and one.list == net.list)
end)

row("S12 forward writes", function()
  local Net = class(function(self, x)
    self.number = self.number + 1
    local rows, list = x:size(0), self.list
    list[#list + 1] = rows
    self.kept:add_(1)
    self.lost = self.lost + 1
    return x * self.w
  end, function(self)
    self.w, self.unused, self.frozen = nn.Parameter(rs.ones(1)), nn.Parameter(rs.ones(3)), nn.Parameter(rs.ones(1))
    self.frozen:requires_grad_(false)
    self.number, self.list = 0, {}
    self:register_buffer("kept", rs.zeros(1))
    self:register_buffer("lost", rs.zeros(1))
  end)
  local function run(n, rows)
    local net = Net():to(0)
    nn.DataParallel(net, { device_ids = first(n) })(rs.ones(rows, 1)):sum():backward()
    return net
  end
  local many, one, small = run(4, 8), run(1, 8), run(4, 1)
  rs.check("S12 lost updates: an attribute counted in forward, a buffer made anew", many.number == 0 and many.lost:item() == 0)
  rs.check("S12 kept: what replica 0 adds in place to a buffer, once; a shared list grows by each", many.kept:item() == 1 and #many.list == 4)
  rs.check("S12 one device: everything persists", one.number == 1 and one.lost:item() == 1 and one.kept:item() == 1)
  rs.check("S12 one row on four devices: a replica after all", small.number == 0 and #small.list == 1)
  rs.check("S12 an unused parameter gets zeros from several devices, none from one; a frozen one none", many.unused.grad ~= nil
    and many.unused.grad:ne(0):sum():item() == 0 and one.unused.grad == nil and many.frozen.grad == nil and small.unused.grad ~= nil)
  local Write = class(function(self, x)
    self.w:mul_(2)
    return x * self.w
  end, function(self) self.w = nn.Parameter(rs.ones(1)) end)
  rs.check("S12 a parameter changed in place in forward is refused", refused("RuntimeError", { "replica 0" },
    nn.DataParallel(Write():to(0), { device_ids = { 0, 1 } }), rs.ones(2, 1)))
end)

row("S12 BatchNorm", function()
  local norm = nn.BatchNorm1d(2):to(0)
  local x = rs.randn(8, 2)
  nn.DataParallel(norm, { device_ids = first(4) })(x)
  local part = x[rs.slice(0, 2)]
  rs.check("S12 BatchNorm: each its own chunk's numbers, replica 0's are kept, one batch is counted", norm.num_batches_tracked:item() == 1
    and near(norm.running_mean, part:mean(0) * 0.1) and near(norm.running_var, part:var(0) * 0.1 + 0.9))
  rs.check("S12 BatchNorm: a last chunk of one row", refused("ValueError", { "more than 1 value per channel" },
    nn.DataParallel(norm, { device_ids = first(2) }), x[rs.slice(0, 3)]))
end)

row("S12 exceptions", function()
  local ended = 0
  local Net = class(function(_, x)
    local r = math.tointeger(x[{ 0, 0 }]:item())
    if r == 1 then
      for _ = 1, 50 do x = x + 1 end
      rs.error("ValueError", "one")
    elseif r == 2 then
      rs.error("KeyError", "two")
    end
    ended = ended + 1
    return x
  end)
  local ok, e = pcall(nn.DataParallel(Net():to(0), { device_ids = first(4) }), rs.tensor { { 0.0 }, { 1 }, { 2 }, { 3 } })
  rs.check("S12 exceptions: the lowest replica's error is raised, of its kind, though another failed before", not ok
    and e.kind == "ValueError" and e.message:find("Caught ValueError in replica 1 on device 1", 1, true) ~= nil and e.message:find "one" ~= nil)
  rs.check("S12 exceptions: the others ran to their end", ended == 2)
  local types = {}
  local Kind = class(function(_, x)
    local dtype = rs.zeros(1).dtype
    types[#types + 1] = dtype
    return x
  end)
  rs.set_default_dtype "float64"
  nn.DataParallel(Kind():to(0), { device_ids = { 0, 1 } })(rs.ones(2))
  rs.set_default_dtype "float32"
  rs.check("S12 worker threads have the caller's default dtype", types[1] == "float64" and types[2] == "float64")
end)

-- ---- copies ----

row("S12 scatter from the host", function()
  local function wait()
    for device = 0, 1 do rs.cuda.synchronize(device) end
  end
  local function copies(x)
    wait()
    local from = rs.trace:seq()
    dp.scatter(x, { 0, 1 })
    wait()
    local count = {}
    for _, kind in ipairs { "stream.record", "stream.wait", "memory.record_stream", "memory.copy" } do
      count[#count + 1] = #since(from, { kind = kind, phase = kind == "memory.copy" and "begin" or nil })
    end
    return count, begins(from, "memory.copy")
  end
  local count, list = copies(rs.zeros(5, 2))
  local ok = #list == 2
  for _, event in ipairs(list) do
    local to = event.args.to
    ok = ok and event.args.from == -1 and event.lane == ("device:%d copy"):format(to) and event.args.bytes == 24 - 8 * to
  end
  rs.check("S12 scatter from the host: each chunk on its device's background stream", ok)
  rs.check("S12 scatter from the host: the current stream waits for each, and it is recorded there", count[1] == 2 and count[2] == 2 and count[3] == 2)
  count, list = copies(rs.zeros({ 5, 2 }, { device = 0 }))
  rs.check("S12 scatter from a device: only the current streams, one copy, one view", count[3] == 0 and #list == 1 and list[1].args.from == 0)
end)

row("S12 groupings", function()
  local counts, here, there = { 1, 40, 80, 120, 10, 100, 5 }, {}, {}
  for i, n in ipairs(counts) do
    here[i], there[i] = rs.full({ n }, i + 0.0, { device = 0 }), rs.full({ n }, 10.0 * i, { device = 1 })
  end
  rs.cuda.synchronize(0)
  rs.cuda.synchronize(1)
  local from = rs.trace:seq()
  local out = dp.comm.broadcast_coalesced(here, { 0, 1 }, { buffer_size = 400 })
  rs.cuda.synchronize(1)
  local ok, moved = true, {}
  for _, event in ipairs(begins(from, "memory.copy")) do moved[#moved + 1] = event.args.bytes // 4 end
  for i = 1, #counts do ok = ok and same(out[2][i], here[i]) end
  rs.check("S12 groupings: broadcast closes a group after the tensor that reaches the limit: 121, 120, 110, 5",
    ok and table.concat(moved, " ") == "121 120 110 5" and begins(from, "dp.broadcast_coalesced")[1].args.groups == 4)
  from, moved = rs.trace:seq(), {}
  out = dp.comm.reduce_add_coalesced({ here, there }, 0, { buffer_size = 400 })
  rs.cuda.synchronize(0)
  for _, event in ipairs(begins(from, "memory.copy")) do moved[#moved + 1] = event.args.bytes // 4 end
  for i = 1, #counts do ok = ok and same(out[i], here[i]:to("cpu") * 11) end
  rs.check("S12 groupings: reduce closes it before the one that would exceed it: 41, 80, 120, 10, 100, 5",
    ok and table.concat(moved, " ") == "41 80 120 10 100 5")
end)
