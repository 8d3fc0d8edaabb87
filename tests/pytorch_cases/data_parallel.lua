-- What PyTorch's own tests ask of DataParallel and of the copies under it (test/distributed/test_data_parallel.py and the
-- comm tests of test/test_cuda_multigpu.py), as checks on virtual devices. T: rows of the common list; D: further tests of
-- those files; S12: what the page on DataParallel promises. Numbers are worked out here or by the module on one device.
local rs = require "ringside"
local nn = rs.nn
local dp, comm = nn.parallel, nn.parallel.comm

rs.lesson { title = "PyTorch cases: DataParallel", devices = 4, seed = 1, prefix = "" }

-- ---- words for checks ----

local function near(a, b, tolerance) return rs.allclose(a:detach():to("cpu"), b:detach():to("cpu"), { atol = tolerance or 1e-5 }) end
local function same(a, b) return rs.equal(a:detach():to("cpu"), b:detach():to("cpu")) end
local function on(t, device) return t.device == (device == "cpu" and "cpu" or "device:" .. device) end
local function sizes(t, ...) return table.concat(t.shape, " ") == table.concat({ ... }, " ") end

-- An error of this kind whose words have all of these in them.
local function refused(kind, words, f, ...)
  local ok, e = pcall(f, ...)
  if ok or type(e) ~= "table" or e.kind ~= kind then return false end
  for _, word in ipairs(words) do
    if not e.message:find(word, 1, true) then return false end
  end
  return true
end

-- Events since `from` that fit.
local function since(from, filter)
  local out = {}
  for _, event in ipairs(rs.trace:events(filter)) do
    if event.seq >= from then out[#out + 1] = event end
  end
  return out
end
local function begins(from, kind) return since(from, { kind = kind, phase = "begin" }) end
local function points(from, kind) return since(from, { kind = kind }) end

local function class(forward, init)
  local made = nn.Module "Net"
  made.forward = forward
  if init then made.init = init end
  return made
end

local function gradients(module)
  local out = {}
  for name, parameter in module:named_parameters() do
    out[name] = parameter.grad and parameter.grad:to("cpu"):clone()
  end
  return out
end

-- First and second derivatives against differences. f answers one tensor, inputs are float64.
local function both_orders(f, ...)
  local inputs = { ... }
  if not rs.gradcheck(f, inputs) then return false end
  local weights
  return rs.gradcheck(function(...)
    local out = f(...)
    weights = weights or (rs.arange(out:numel(), { dtype = "float64" }):reshape(out.shape) / 7 - 0.5):to(out.device)
    local loss = (out * out * weights):sum()
    local list = { rs.autograd.grad({ loss }, { ... }, { create_graph = true }) }
    for i, g in ipairs(list) do list[i] = g:to("cpu"):reshape { -1 } end
    return rs.cat(list)
  end, inputs)
end

local function doubles(...) return rs.randn({ ... }, { dtype = "float64" }) end
local function leaf(...) return doubles(...):requires_grad_() end

-- The gradient of an embedding: a sparse tensor of `rows` x 3 on `device` with these entries.
local function sparse(rows, ids, device, dtype)
  local table_ = nn.Embedding(rows, 3, { sparse = true }):to(dtype or "float32"):to(device)
  local n = #ids
  local weights = rs.arange(n * 3, { dtype = dtype or "float32", device = device }):reshape { n, 3 } + 1
  local out = table_(rs.tensor(ids):to(device)) * weights
  out:sum():backward()
  return table_.weight.grad
end
local function dense(t) return t.is_sparse and t:to_dense() or t end

-- What stands under one row's id; an error in it fails that row and leaves the others.
local function row(id, f)
  local ok, e = pcall(f)
  if not ok then rs.check(id .. " runs to its end: " .. tostring(e), false) end
end

-- ---- modules ----

row("T001", function()
  local linear, x = nn.Linear(10, 5):to(1), rs.randn({ 20, 10 }, { device = 1 })
  local expected = linear(x)
  expected:sum():backward()
  local wanted, ok, grads = gradients(linear), true, true
  for _, ids in ipairs { { 0, 1 }, { 1, 0 } } do
    linear:to(ids[1]):zero_grad()
    local out = dp.data_parallel(linear, x, { device_ids = ids })
    out:sum():backward()
    ok = ok and on(out, ids[1]) and near(out, expected)
    for name, grad in pairs(gradients(linear)) do grads = grads and near(grad, wanted[name]) end
    grads = grads and linear.weight.grad ~= nil
  end
  rs.check("T001 out is the module's, on the first of the devices, whichever that is", ok)
  rs.check("T001 gradients are those of the unwrapped module", grads)
  linear:to(0)
  local from = rs.trace:seq()
  rs.check("D01 without device_ids all devices take part", near(dp.data_parallel(linear, x), expected)
    and #begins(from, "dp.worker") == 4)
  local given = {}
  for _, dtype in ipairs { "float32", "float64" } do
    local l, i = nn.Linear(10, 5):to(dtype):to(0), rs.randn({ 20, 10 }, { dtype = dtype, device = 0 })
    local out = nn.DataParallel(l)(i)
    given[#given + 1] = near(out, l(i)) and on(out, 0) and out.dtype == dtype
  end
  rs.check("D02 a wrapped module of each type gives its output on device 0", given[1] and given[2])
  local l = nn.Linear(10, 5):to(0)
  local i = rs.randn({ 20, 10 }, { device = 0 }):requires_grad_()
  local named = dp.data_parallel(l, i, { device_ids = { "device:0", "cuda:1" }, output_device = "device:0" })
  rs.check("D03 devices are numbers or names, output_device too", near(named, l(i))
    and near(dp.data_parallel(l, i, { device_ids = { 0, 1 }, output_device = 0 }), l(i))
    and on(dp.data_parallel(l, i, { device_ids = { 0, 1 }, output_device = 1 }), 1))
end)

row("T003", function()
  local linear = nn.Linear(10, 5):to(0)
  local x = rs.randn({ 20, 10 }, { device = 0 })
  local expected = linear(x)
  local Net = class(function(self, kw) return self.l(kw.input) end, function(self) self.l = linear end)
  local out = nn.DataParallel(Net())(rs.kw { input = x })
  rs.check("T003 an input given only as a keyword is scattered", near(out, expected) and on(out, 0))
  local Inner = class(function(self, kw) return self.l(kw.input.data) end, function(self) self.l = linear end)
  for _, pair in ipairs { { "list", {} }, { "tuple", rs.tuple {} }, { "text", "" } } do
    local name, empty, from = pair[1], pair[2], rs.trace:seq()
    local got = nn.DataParallel(Inner())(rs.kw { input = { data = x, unused = empty } })
    rs.check(("D04 beside an empty %s in the same keyword"):format(name), near(got, expected) and on(got, 0)
      and #begins(from, "dp.worker") == 4)
  end
end)

row("T006", function()
  local Net = class(function(_, a, b, number, kw)
    local c = kw and kw.c
    return c and number * (a * b + c) or number * (a * b)
  end)
  local a, b, c = rs.randn(5, 5):requires_grad_(), rs.randn(5, 5):requires_grad_(), rs.randn(5, 5)
  local number = 0.75
  local function expect(with)
    a.grad, b.grad = nil, nil
    local out = Net()(a, b, number, with and rs.kw { c = c } or nil)
    out:sum():backward()
    return { out, a.grad:clone(), b.grad:clone() }
  end
  local function holds(expected, f)
    a.grad, b.grad = nil, nil
    local out = f()
    out:sum():backward()
    return near(out, expected[1]) and near(a.grad, expected[2]) and near(b.grad, expected[3])
  end
  local bare, with, ok = expect(false), expect(true), true
  for _, ids in ipairs { { 0, 1 }, { 1, 0 }, { 0 } } do
    ok = ok and holds(bare, function() return dp.data_parallel(Net(), rs.tuple { a, b, number }, { device_ids = ids }) end)
    ok = ok and holds(with, function()
      return dp.data_parallel(Net(), rs.tuple { a, b, number }, { device_ids = ids, module_kwargs = { c = c } })
    end)
  end
  rs.check("T006 tensors are scattered, the number goes to each: values and gradients of both inputs", ok)
  ok = holds(with, function() return nn.DataParallel(Net())(a, b, number, rs.kw { c = c }) end)
    and holds(with, function() return nn.DataParallel(Net(), { device_ids = { 0 } })(a, b, number, rs.kw { c = c }) end)
  rs.check("T006 so it is through the class, on all devices and on one", ok)
end)

row("T008", function()
  local x = rs.randn(2, 2)
  local function both(module, input, ids, first)
    local function run(f)
      if first then return refused("RuntimeError", { "device_ids[0]", "device:" .. first }, f) end
      return pcall(f)
    end
    return run(function() return nn.DataParallel(module, ids and { device_ids = ids } or nil)(input) end)
      and run(function() return dp.data_parallel(module, input, ids and { device_ids = ids } or nil) end)
  end
  local linear = nn.Linear(2, 2)
  local ok = both(linear, x, nil, 0) and both(linear:to(1), x:to(1), nil, 0) and both(linear:to(0), x:to(0), { 1, 0 }, 1)
  rs.check("T008 a module elsewhere than on device_ids[0] is refused at forward, by class and function alike", ok)
  rs.check("T008 on device 1 with {0, 1} too", both(linear:to(1), x, { 0, 1 }, 0))
  rs.check("T008 where it lies on the first it runs", both(linear:to(0), x, nil) and both(linear:to(1), x, { 1, 0 }))
  rs.check("T008 a wrapper that was moved there runs",
    pcall(nn.DataParallel(linear:to("cpu"), { device_ids = { 1, 0 } }):to(1), x) and linear.weight.device == "device:1")
  local function pair(one, two) return nn.Sequential { nn.Linear(2, 2):to(one), nn.Linear(2, 2):to(two) } end
  ok = true
  for _, module in ipairs { pair("cpu", "cpu"), pair("cpu", 0), pair(0, 1) } do
    ok = ok and both(module, x, nil, 0) and both(module, x, { 0, 1 }, 0) and both(module, x, { 1, 0 }, 1)
  end
  rs.check("D05 one layer elsewhere is enough, on the host or on another device", ok)
  local two = pair(0, 0)
  rs.check("D05 both on the first device run, moved they need the other order", both(two, x, nil) and both(two, x, { 0, 1 })
    and both(two, x, { 1, 0 }, 1) and both(two:to("cpu"), x, { 1, 0 }, 1) and both(two:to(1), x, { 1, 0 }))
  local norm = nn.BatchNorm1d(2):to(0)
  norm.running_mean = norm.running_mean:to(1)
  rs.check("D05 a buffer elsewhere is found", refused("RuntimeError", { "device:0", "device:1" }, nn.DataParallel(norm), x))
end)

row("T011", function()
  local b, c, x = leaf(6), doubles(6), doubles(2, 6)
  local Net = class(function(self, input) return input * self.b + self.c end, function(self)
    self:register_buffer("b", b)
    self:register_buffer("c", c:clone())
  end)
  local net = Net():to(0)
  local wrapped = nn.DataParallel(net, { device_ids = { 0, 1 } })
  rs.check("T011 gradients of a buffer that wants one agree with differences", rs.gradcheck(function(t)
    net.b = t:to(0)
    return wrapped(x)
  end, { leaf(6) }))
  net.b = b:detach():to(0):requires_grad_()
  wrapped(x):sum():backward()
  rs.check("T011 its gradient is the sum over the rows of x, the other buffer has none",
    near(net.b.grad, x:sum(0)) and net.c.grad == nil and #net:parameters() == 0)
end)

row("T013", function()
  local l1, l2 = nn.Linear(10, 5):to(0), nn.Linear(10, 5):to(1)
  local x1, x2 = rs.randn({ 2, 10 }, { device = 0 }), rs.randn({ 2, 10 }, { device = 1 })
  local ok = true
  for _, inputs in ipairs { { { x1 }, { x2 } }, { x1, x2 }, { rs.tuple { x1 }, rs.tuple { x2 } } } do
    local out = dp.parallel_apply({ l1, l2 }, inputs)
    ok = ok and #out == 2 and near(out[1], l1(x1)) and near(out[2], l2(x2)) and on(out[1], 0) and on(out[2], 1)
  end
  rs.check("T013 inputs in tuples, in lists or bare give each module's own output where it lies", ok)
  local Bad = class(function() rs.error("KeyError", "wonderful") end)
  local bad = Bad()
  rs.check("D06 an error keeps its kind and words, and tells replica and device",
    refused("KeyError", { "Caught KeyError in replica 0", "on device 0", "wonderful" }, dp.parallel_apply, { bad, bad },
      { rs.tuple {}, rs.tuple {} }, { devices = { 0, 0 } }))
  local Only = class(function(_, x) return rs.zeros(x:size(0), 3) + rs.ones(4) end)
  rs.check("D07 so does one of the engine's own", refused("RuntimeError", { "replica 0", "on device 0" },
    nn.DataParallel(Only():to(0)), rs.ones(4, 1)))
end)

row("T016", function()
  local embedding, ids = nn.Embedding(10, 5, { sparse = true }):to(1), rs.randint(0, 10, { 20, 5 }):to(1)
  local expected = embedding(ids)
  expected:sum():backward()
  local wanted, ok, kept = embedding.weight.grad:to_dense():to("cpu"), true, true
  for _, order in ipairs { { 0, 1 }, { 1, 0 } } do
    embedding:to(order[1]):zero_grad()
    local out = dp.data_parallel(embedding, ids, { device_ids = order })
    out:sum():backward()
    ok = ok and same(out, expected) and on(out, order[1])
    kept = kept and embedding.weight.grad.is_sparse and near(embedding.weight.grad:to_dense(), wanted)
  end
  rs.check("T016 an embedding's output is the plain one", ok)
  rs.check("T016 its gradient is sparse and adds up to the plain one", kept)
  embedding:to(0)
  rs.check("D08 on all devices as well", same(dp.data_parallel(embedding, ids), expected))
  rs.check("D40 a module moves with its sparse gradient", on(embedding.weight.grad, 0) and embedding:to(2).weight.grad.is_sparse
    and on(embedding.weight.grad, 2) and near(embedding.weight.grad:to_dense(), wanted))
end)

row("T018", function()
  local Pick = class(function(_, _, pair, _) return pair[1] end)
  local x = rs.randn({ 20, 3 }, { device = 1 })
  local out = dp.data_parallel(Pick(), rs.tuple { x:cos(), rs.tuple { x:sin(), x }, x:sin() }, { device_ids = { 0, 1, 2, 3 } })
  rs.check("T018 nested inputs keep their form: sin x of 20 rows", near(out, x:sin()) and sizes(out, 20, 3))
  local function nest(t) return { t, rs.tuple { t:sin(), t:cos(), { t + 1 } }, t, { a = t, b = { t:sin() } } } end
  local Nest = class(function(_, t) return nest(t) end)
  local y = rs.randn({ 2, 2 }, { device = 1 })
  local got, want = dp.data_parallel(Nest(), y, { device_ids = { 0, 1, 2, 3 } }), nest(y)
  local ok = getmetatable(got) ~= "tuple" and #got == 4 and getmetatable(got[2]) == "tuple" and #got[2] == 3
    and getmetatable(got[2][3]) ~= "tuple" and #got[2][3] == 1 and got[4].b[2] == nil
  rs.check("D09 a nested output comes back in the same form: list, tuple, dict", ok)
  rs.check("D09 with the same values", same(got[1], y) and near(got[2][1], want[2][1]) and near(got[2][2], want[2][2])
    and near(got[2][3][1], want[2][3][1]) and same(got[3], y) and same(got[4].a, y) and near(got[4].b[1], want[4].b[1]))
  local Three = class(function(_, t) return t, t * 2, { t * 3 } end)
  local a, b, c = nn.DataParallel(Three())(y)
  rs.check("D10 several results come back as several results", same(a, y) and same(b, y * 2) and same(c[1], y * 3))
end)

row("T021", function()
  for _, which in ipairs { { "T021", "cpu" }, { "D11", 0 } } do
    local name, device = which[1], which[2]
    local x = doubles(4, 4):to(device):requires_grad_()
    local pieces = dp.scatter(x, { 0, 1 })
    rs.check(name .. " rows 0, 1 and 2, 3 go to devices 0 and 1", #pieces == 2 and same(pieces[1], x[rs.slice(0, 2)])
      and same(pieces[2], x[rs.slice(2, 4)]) and on(pieces[1], 0) and on(pieces[2], 1))
    pieces[1]:backward(rs.full_like(pieces[1]:detach(), 2))
    rs.check(name .. " a gradient of piece 0 alone: 2 in its rows, 0 in the others, where x lies",
      same(x.grad[rs.slice(0, 2)], rs.full({ 2, 4 }, 2, { dtype = "float64" })) and x.grad[rs.slice(2, 4)]:ne(0):sum():item() == 0
      and on(x.grad, device))
    rs.check(name .. " first and second derivatives agree with differences", both_orders(function(t)
      local cut = dp.scatter(t:to(device), { 0, 1 })
      return rs.cat { cut[1]:to("cpu"), cut[2]:to("cpu") }
    end, leaf(4, 4)))
  end
end)

row("T023", function()
  for _, which in ipairs { { "T023", -1 }, { "D12", 0 } } do
    local name, target = which[1], which[2]
    local place = target == -1 and "cpu" or 0
    local a, b = doubles(2, 4):to(0):requires_grad_(), doubles(2, 4):to(1):requires_grad_()
    local out = dp.gather({ a, b }, target)
    rs.check(name .. " two of 2x4 make 4x4 in order", sizes(out, 4, 4) and on(out, place) and same(out[rs.slice(0, 2)], a)
      and same(out[rs.slice(2, 4)], b))
    local g = doubles(4, 4):to(place)
    out:backward(g)
    rs.check(name .. " backward hands each its rows, on its device", same(a.grad, g[rs.slice(0, 2)])
      and same(b.grad, g[rs.slice(2, 4)]) and on(a.grad, 0) and on(b.grad, 1))
    rs.check(name .. " first and second derivatives agree with differences", both_orders(function(x, y)
      return dp.gather({ x:to(0), y:to(1) }, target)
    end, leaf(2, 4), leaf(2, 4)))
    local from = rs.trace:seq()
    local s, t = doubles():to(0):requires_grad_(), doubles():to(1):requires_grad_()
    local vector = dp.gather({ s, t }, target)
    rs.check(name .. " two 0-dim tensors make a vector of 2, with one warning", sizes(vector, 2) and on(vector, place)
      and vector[0]:item() == s:item() and vector[1]:item() == t:item() and #points(from, "dp.gather.unsqueeze") == 1)
    vector:backward(rs.tensor({ 3.0, 5.0 }, { dtype = "float64" }):to(place))
    rs.check(name .. " and each gets its 0-dim gradient", s.grad:dim() == 0 and s.grad:item() == 3 and t.grad:item() == 5)
    rs.check(name .. " whose derivatives agree with differences, too", both_orders(function(x, y)
      return dp.gather({ x:to(0), y:to(1) }, target)
    end, leaf(), leaf()))
  end
  local one, two = rs.randn({ 1, 2 }, { device = 0 }), rs.randn({ 1, 2 }, { device = 1 })
  rs.check("D13 dicts of unequal length do not gather", refused("ValueError", { "same number of keys" }, dp.gather,
    { { a = one }, { a = two, b = two } }, 0))
  rs.check("D13 nor do lists or tuples of unequal length", refused("ValueError", {}, dp.gather, { { one }, { two, two } }, 0)
    and refused("ValueError", {}, dp.gather, { rs.tuple { one }, rs.tuple { two, two } }, 0))
end)

row("T026", function()
  local linear, x = nn.Linear(10, 5):to(0), rs.randn({ 2, 10 }, { device = 0 })
  local replicas, ok = dp.replicate(linear, { 0, 1 }), true
  for i, replica in ipairs(replicas) do
    ok = ok and on(replica.weight, i - 1) and on(replica.bias, i - 1) and near(replica(x:to(i - 1)), linear(x))
  end
  rs.check("T026 replica i's parameters are on device i, its output is the module's", ok and #replicas == 2)
  rs.check("D14 a replica has no leaf parameters", #replicas[1]:parameters() == 0 and #replicas[2]:parameters() == 0
    and not replicas[2].weight.is_leaf and replicas[2].weight.requires_grad)
  local Norm = class(function() end, function(self) self.bn = nn.BatchNorm2d(10) end)
  local net = Norm():to(0)
  ok = true
  for i, replica in ipairs(dp.replicate(net, { 0, 1 })) do
    for _, name in ipairs { "running_mean", "running_var", "num_batches_tracked" } do ok = ok and on(replica.bn[name], i - 1) end
  end
  rs.check("D15 buffers of a replica lie on its device", ok)
  local plain = rs.no_grad(function() return dp.replicate(linear, { 0, 1 }) end)
  rs.check("D16 replicas made under no_grad keep nothing of a graph", plain[2].weight.is_leaf
    and not plain[2].weight.requires_grad and plain[1].weight:storage_id() == linear.weight:storage_id())
  local many = class(function(self, input)
    for _, p in ipairs { self.list[0], self.list[1] } do input = input * p end
    return input
  end, function(self) self.list = nn.ParameterList { nn.Parameter(rs.tensor { 2.0 }), nn.Parameter(rs.tensor { 3.0 }) } end)
  local lists = many():to(0)
  local six = nn.DataParallel(lists)(rs.ones(4, 1))
  six:sum():backward()
  rs.check("D17 a ParameterList is there in each replica and gets its gradients", same(six, rs.full({ 4, 1 }, 6))
    and lists.list[0].grad:item() == 12 and lists.list[1].grad:item() == 8)
  local replicas = 0
  local named = class(function(self, input)
    if self._is_replica then replicas = replicas + 1 end
    return input * self.by.two * self.by.three
  end, function(self) self.by = nn.ParameterDict { two = nn.Parameter(rs.tensor { 2.0 }), three = nn.Parameter(rs.tensor { 3.0 }) } end)
  local dicts = named():to(0)
  six = nn.DataParallel(dicts)(rs.ones(4, 1))
  six:sum():backward()
  rs.check("D41 so is a ParameterDict, and a replica knows that it is one", same(six, rs.full({ 4, 1 }, 6)) and replicas == 4
    and not dicts._is_replica and dicts.by.two.grad:item() == 12 and dicts.by.three.grad:item() == 8)
end)

row("T028", function()
  local cleared
  local Net = class(function(self, x)
    self:zero_grad()
    cleared = true
    return x * self.w
  end, function(self) self.w = nn.Parameter(rs.ones(1)) end)
  local net = Net():to(0)
  net.w.grad = rs.full({ 1 }, 7.0):to(0)
  local from = rs.trace:seq()
  nn.DataParallel(net)(rs.rand(4, 3))
  local warned = since(from, { kind = "lesson.warning" })
  rs.check("T028 zero_grad in a replica warns once that it has no effect", cleared and #warned == 1
    and tostring(warned[1].args.text):find("no effect", 1, true) ~= nil)
  rs.check("T028 and has none: the module's gradient is still there", net.w.grad:item() == 7)
end)

row("D18", function() -- small tests of the same file
  local linear, x = nn.Linear(10, 5):to(0), rs.randn({ 20, 10 }, { device = 0 })
  rs.check("D18 a batch on the first device gives the module's output", near(dp.data_parallel(linear, x, { device_ids = { 0, 1 } }), linear(x)))
  local seen = {}
  local Ask = class(function(_, input)
    local enabled = rs.is_grad_enabled()
    seen[#seen + 1] = enabled
    return input
  end)
  rs.no_grad(function() dp.data_parallel(Ask(), x, { device_ids = { 0, 1 } }) end)
  dp.data_parallel(Ask(), x, { device_ids = { 0, 1 } })
  rs.check("D19 replicas run in the caller's grad mode", #seen == 4 and not seen[1] and not seen[2] and seen[3] and seen[4])
  local One = class(function(self, input) return self.linear(input) end, function(self) self.linear = nn.Linear(1, 1) end)
  local wrapped, data = nn.DataParallel(One():to(0)), rs.randn({ 1 }, { device = 0 })
  local function left()
    wrapped(data)
    rs.cuda.synchronize(0)
    rs.cuda.synchronize(1)
    for _ = 1, 2 do
      collectgarbage()
      wrapped:zero_grad()
    end
    return rs.cuda.memory_allocated(0), rs.cuda.memory_allocated(1)
  end
  local zero, one = left()
  local again, more = left()
  rs.check("D20 a forward leaves nothing behind", again == zero and more == one)
  local net = nn.Linear(4, 1):to(0)
  local penalised, ones = nn.DataParallel(net, { device_ids = { 0, 1 } }), rs.ones({ 2, 4 }, { requires_grad = true })
  local input = ones:to(0)
  local out = penalised(input)
  local first = rs.autograd.grad({ out }, { input }, { grad_outputs = { rs.ones_like(out) }, create_graph = true })
  if type(first) == "table" then first = first[1] end
  first:mean():backward()
  rs.check("D21 a gradient penalty: 1/4 for each weight, 0 for the bias", near(net.weight.grad, rs.full({ 1, 4 }, 0.25))
    and near(net.bias.grad, rs.zeros(1)))
  rs.check("S12 double backward through DataParallel agrees with differences", both_orders(function(w, t)
    local cut = dp.scatter(t:to(0), { 0, 1 })
    local copies = { w:to(0), w:to(1) }
    return dp.gather({ cut[1]:matmul(copies[1]), cut[2]:matmul(copies[2]) }, "cpu")
  end, leaf(3, 2), leaf(4, 3)))
end)

row("D22", function() -- LSTM, once without gradients
  local Lstm = class(function(self, x) return self.rnn(x) end, function(self)
    self.rnn = nn.LSTM(6, 5, 1, { batch_first = true, bidirectional = true })
  end)
  local function learnt(wrap)
    rs.manual_seed(3)
    local model = Lstm():to(0)
    local trained = wrap and nn.DataParallel(model) or model
    rs.no_grad(function() trained(rs.rand({ 4, 4, 6 }, { device = 0 })) end)
    local opt = rs.optim.SGD(model:parameters(), { lr = 10 })
    local out = trained(rs.ones({ 8, 4, 6 }, { device = 0 }))
    nn.functional.mse_loss(out, rs.zeros_like(out)):backward()
    opt:step()
    return model
  end
  local bare, ok = {}, true
  for name, p in learnt(false):named_parameters() do bare[name] = p end
  for name, p in learnt(true):named_parameters() do ok = ok and near(p, bare[name]) end
  rs.check("D22 an LSTM learns the same through DataParallel, after a forward without gradients", ok and bare["rnn.weight_hh_l0_reverse"] ~= nil)
end)

row("D23", function() -- gradients of a chain of convolutions, zeroed and made again
  local function chain()
    rs.manual_seed(5)
    return nn.Sequential { nn.Conv2d(3, 4, 2), nn.Conv2d(4, 6, 2), nn.Conv2d(6, 4, 2), nn.Conv2d(4, 3, 2) }:to(0)
  end
  local bare, model = chain(), chain()
  local wrapped = nn.DataParallel(model)
  local a, b = rs.optim.SGD(bare:parameters(), { lr = 0.1 }), rs.optim.SGD(wrapped:parameters(), { lr = 0.1 })
  local x, y, ok = rs.randn({ 8, 3, 6, 6 }, { device = 0 }), rs.randn({ 8, 3, 2, 2 }, { device = 0 }), true
  for _ = 1, 2 do
    nn.functional.mse_loss(bare(x), y):backward()
    nn.functional.mse_loss(wrapped(x), y):backward()
    local want = gradients(bare)
    for name, grad in pairs(gradients(model)) do ok = ok and near(grad, want[name]) end
    for _, p in ipairs(model:parameters()) do ok = ok and p.grad:is_contiguous() end
    for _, opt in ipairs { a, b } do
      opt:step()
      opt:zero_grad()
    end
  end
  rs.check("D23 convolutions: contiguous gradients, equal to the unwrapped, in two iterations", ok)
  local state = wrapped:state_dict()
  rs.check("D24 names in the wrapper's state gain 'module.'", state["module.0.weight"] ~= nil and state["0.weight"] == nil)
  local saved = dp.replicate(model, { 0, 1 })[2]
  rs.check("D25 a replica can be asked for its state", type(saved:state_dict()) == "table")
end)

-- ---- copies ----

local KINDS = { "int64", "float32", "float64", "int32" }

-- Dense and sparse tensors of several types on `device`, twelve in all.
local function mixed(device, dense_only)
  local out = {}
  for k = 1, 12 do
    local dtype = KINDS[k % 4 + 1]
    if k % 3 == 1 and not dense_only then
      out[k] = sparse(4, k % 2 == 0 and { 1, 3, 1 } or { 2 }, device, k % 2 == 0 and "float64" or "float32")
    else
      out[k] = (rs.arange(5 + k % 2 * 5) * (k + 1)):to(dtype):to(device)
    end
  end
  return out
end

row("T031", function()
  for _, place in ipairs { "cpu", 0 } do
    local x = rs.randn(5, 5):to(place)
    local out = comm.broadcast(x, { 0, 1 })
    rs.check(("D26 broadcast from %s reaches both devices"):format(place), #out == 2 and on(out[1], 0) and on(out[2], 1)
      and same(out[1], x) and same(out[2], x))
    if place == 0 then rs.check("D26 without a copy where it lies", out[1]:storage_id() == x:storage_id()) end
    local into = { rs.zeros({ 5, 5 }, { device = 0 }), rs.zeros({ 5, 5 }, { device = 1 }) }
    local given = comm.broadcast(x, { out = into })
    rs.check(("D27 broadcast from %s into given tensors answers those"):format(place), rs.equal(given[1], into[1])
      and given[2]:storage_id() == into[2]:storage_id() and same(into[1], x) and same(into[2], x))
  end
  local x = rs.randn({ 5, 5 }, { device = 0 })
  local into = { rs.zeros({ 5, 5 }, { device = 0 }), rs.zeros({ 5, 5 }, { device = 1 }) }
  rs.check("T031 devices and out both given, or neither", refused("RuntimeError", { "devices", "out" }, comm.broadcast, x, { 0, 1 }, { out = into })
    and refused("RuntimeError", { "devices", "out" }, comm.broadcast, x))
  rs.check("T031 an out on the host is named: index 1", refused("RuntimeError", { "index 1" }, comm.broadcast, x,
    { out = { into[1], rs.zeros(5, 5) } }))
  rs.check("T031 an out of another shape is named: index 1", refused("RuntimeError", { "index 1" }, comm.broadcast, x,
    { out = { into[1], into[2]:unsqueeze(0) } }))
end)

local function holds_broadcast(tensors, limit)
  local out, ok, own = comm.broadcast_coalesced(tensors, { 0, 1 }, { buffer_size = limit }), true, true
  for k, t in ipairs(tensors) do
    local first, second = out[1][k], out[2][k]
    ok = ok and first == t and on(second, 1) and second.dtype == t.dtype and second.is_sparse == t.is_sparse
      and same(dense(second), dense(t))
    if not t.is_sparse then
      local version = second._version
      second:zero_()
      own = own and second._version == version + 1
      for j = k + 1, #tensors do own = own and (tensors[j].is_sparse or same(out[2][j], tensors[j])) end
    end
  end
  return ok and #out == 2 and #out[1] == #tensors and #out[2] == #tensors, own
end

row("T033", function()
  local ok, own = holds_broadcast(mixed(0), 100)
  rs.check("T033 dense and sparse tensors mixed, 100 bytes at most: as single broadcasts, in order, kinds kept", ok)
  rs.check("T033 each copy has a version of its own", own)
  ok, own = holds_broadcast(mixed(0, true), 100)
  rs.check("D28 dense ones alone as well", ok and own)
  local from = rs.trace:seq()
  ok, own = holds_broadcast({ rs.zeros({ 0 }, { dtype = "uint8", device = 0 }), rs.randn({ 5 }, { device = 0 }),
    rs.randn({ 5 }, { dtype = "float64", device = 0 }) }, 256)
  rs.check("D29 an empty tensor between others", ok and own and #begins(from, "dp.broadcast_coalesced") == 1)
end)

row("T036", function()
  local function holds(dense_only)
    local here, there, ok, own = mixed(0, dense_only), mixed(1, dense_only), true, true
    local out = comm.reduce_add_coalesced({ here, there }, 0, { buffer_size = 100 })
    for k, t in ipairs(here) do
      ok = ok and on(out[k], 0) and out[k].dtype == t.dtype and out[k].is_sparse == t.is_sparse
        and same(dense(out[k]), dense(t) * 2) and same(dense(there[k]), dense(t))
      if not t.is_sparse then
        local version = out[k]._version
        out[k]:zero_()
        own = own and out[k]._version == version + 1
      end
    end
    return ok and #out == 12, own
  end
  local ok, own = holds(false)
  rs.check("T036 twelve tensors, dense and sparse, twice: each sum is 2t, kinds kept, inputs untouched", ok)
  rs.check("T036 each sum has a version of its own", own)
  ok, own = holds(true)
  rs.check("D30 dense ones alone as well", ok and own)
end)

row("D31", function()
  local x, y, z = rs.randn(5, 5), rs.randn(5, 5), rs.randn(5, 5)
  local a, b, c = x:to(0), y:to(1), z:to(2)
  local sum = comm.reduce_add({ a, b }, 0)
  rs.check("D31 reduce_add of two devices", on(sum, 0) and same(sum, x + y) and same(a, x) and same(b, y))
  sum = comm.reduce_add({ a, b, c }, 1)
  rs.check("D31 the destination's own comes first, then the others in order", on(sum, 1) and same(sum, y + x + z))
  rs.check("D31 one input is its own sum", comm.reduce_add({ b }, 1) == b)
  rs.check("D32 sizes must agree: input, got, expected", refused("ValueError", { "1", "3x5", "5x5" }, comm.reduce_add,
    { a, rs.zeros({ 3, 5 }, { device = 1 }) }, 0))
  rs.check("D32 one of them lies on the destination", refused("RuntimeError", { "destination" }, comm.reduce_add, { a, b }, 2))
end)

row("T038", function()
  local function holds(x, chunks, dim)
    local options = { chunk_sizes = chunks, dim = dim }
    local out = comm.scatter(x, { 0, 1 }, options)
    local along, half = dim % 2, x:size(dim) // 2
    local cut = chunks and chunks[1] or half
    local want = { x:narrow(along, 0, cut), x:narrow(along, cut, x:size(dim) - cut) }
    local ok = #out == 2 and same(out[1], want[1]) and same(out[2], want[2]) and on(out[1], 0) and on(out[2], 1)
    ok = ok and (x.device == "cpu" or out[1]:storage_id() == x:storage_id()) and out[2]:storage_id() ~= x:storage_id()
    local into = { rs.zeros_like(out[1]), rs.zeros_like(out[2]) }
    local given = comm.scatter(x, { dim = dim, out = into })
    return ok and #given == 2 and given[1]:storage_id() == into[1]:storage_id() and same(into[1], want[1]) and same(into[2], want[2])
  end
  local x, tall = rs.randn(4, 4), rs.randn(6, 4)
  rs.check("T038 4x4 on the host goes in rows 2 + 2, into new tensors or given ones", holds(x, nil, 0))
  rs.check("T038 from device 0, where piece 0 is a view", holds(x:to(0), nil, 0))
  rs.check("D33 along dim 1 and dim -2", holds(x, nil, 1) and holds(x:to(0), nil, 1) and holds(x, nil, -2) and holds(x:to(0), nil, -2))
  rs.check("D34 in pieces of 2 and 4 rows", holds(tall, { 2, 4 }, 0) and holds(tall:to(0), { 2, 4 }, 0))
end)

row("T041", function()
  local x = rs.randn(6, 4)
  local function no(words, ...) return refused("RuntimeError", words, comm.scatter, x, ...) end
  local into = { rs.zeros({ 2, 4 }, { device = 0 }), rs.zeros({ 4, 4 }, { device = 1 }) }
  rs.check("T041 as many sizes as devices", no({ "devices", "chunk_sizes" }, { 0, 0, 0 }, { chunk_sizes = { 2, 4 } }))
  rs.check("T041 no device", no({ "device" }, {}))
  rs.check("T041 an empty out", no({ "output" }, { out = {} }))
  rs.check("T041 rows of out that are not as many as x's", no({ "dim" }, { out = { into[1], into[2][rs.slice(1, 4)] } }))
  rs.check("D35 devices and out both", no({ "devices", "out" }, { 0, 1 }, { out = into }))
  rs.check("D35 an out on the host: index 0", no({ "index 0" }, { out = { rs.zeros(2, 4), into[2] } }))
  rs.check("D35 an out with more dimensions: index 0", no({ "index 0" }, { out = { into[1]:unsqueeze(0), into[2] } }))
  rs.check("D35 sizes that do not add up", no({ "6" }, { 0, 1 }, { chunk_sizes = { 2, 3 } }))
end)

row("T043", function()
  local x, y = rs.randn({ 2, 5 }, { device = 0 }), rs.randn({ 2, 5 }, { device = 1 })
  local ok = true
  for _, dim in ipairs { 0, 1, -1 } do
    for _, place in ipairs { 0, 1, 2, "cpu" } do
      local want = rs.cat({ x:to("cpu"), y:to("cpu") }, { dim = dim })
      local out = comm.gather({ x, y }, dim, place)
      local into = rs.zeros(want.shape, { device = place })
      local given = comm.gather({ x, y }, dim, { out = into })
      ok = ok and same(out, want) and on(out, place) and same(into, want) and given:storage_id() == into:storage_id()
    end
  end
  rs.check("D36 gather along each dim, to each device and the host, new or into a given tensor", ok)
  local function no(words, ...) return refused("RuntimeError", words, comm.gather, ...) end
  rs.check("T043 nothing to gather", no({ "at least one" }, {}))
  rs.check("T043 unequal numbers of dimensions", no({ "dimensions" }, { x, y:unsqueeze(0) }))
  rs.check("T043 index 1 has a wrong other size", no({ "index 1" }, { x, y[{ rs.slice(0, 2), rs.slice(1, 5) }] })
    and no({ "index 1" }, { x, y[rs.slice(1, 2)] }, 1))
  rs.check("D37 destination and out both; a tensor of the host", no({ "destination", "out" }, { x, y }, 0, "cpu", { out = rs.zeros(4, 5) })
    and no({}, { x:to("cpu"), y }))
end)

row("D38", function()
  local Point = rs.namedtuple("Point", { "a", "b" })
  local a, b = rs.rand({ 8 }, { device = 0 }), rs.rand({ 8 }, { device = 0 })
  local ok, out = true, dp.scatter(Point(a, b), { 0, 1, 2, 3 })
  for i, piece in ipairs(out) do
    local rows = rs.slice(2 * i - 2, 2 * i)
    ok = ok and getmetatable(piece) == getmetatable(Point(a, b)) and same(piece.a, a[rows]) and same(piece.b, b[rows])
      and on(piece.a, i - 1) and on(piece.b, i - 1)
  end
  rs.check("D38 a named tuple scatters into named tuples", ok and #out == 4)
  for _, place in ipairs { "cpu", 0 } do
    local got = dp.gather({ Point(a:to(0), a:to(1)), Point(b:to(1), b:to(0)) }, place)
    rs.check(("D39 and gathers into one on %s"):format(place), getmetatable(got) == getmetatable(Point(a, b)) and on(got.a, place)
      and on(got.b, place) and same(got.a, rs.cat { a, b }) and same(got.b, rs.cat { a, b }))
  end
end)

row("T046", function()
  local n = 4096
  local function product(f)
    local a, b = rs.ones({ n }, { dtype = "float64", device = 1 }):requires_grad_(), rs.ones({ n }, { dtype = "float64", device = 1 }):requires_grad_()
    f(a * b)
    return a.grad:sum():item(), b.grad:sum():item()
  end
  local function once(t) t:to(0):sum():backward() end
  local function twice(t)
    local s, r = t:to(0):sum() * 2, t:to(0):sum() * 2
    s:backward { retain_graph = true }
    r:backward()
  end
  local function holds()
    local a, b = product(once)
    local c, d = product(twice)
    return a == n and b == n, c == 4 * n and d == 4 * n
  end
  local one, two = holds()
  local own_one, own_two
  rs.cuda.stream(rs.cuda.Stream(0), function()
    rs.cuda.stream(rs.cuda.Stream(1), function() own_one, own_two = holds() end)
  end)
  rs.check("T046 a product used once on another device: gradients sum to n, also on streams of one's own", one and own_one)
  rs.check("T046 used by two losses, each doubled: 4n, also on streams of one's own", two and own_two)
end)
