-- What PyTorch's own tests ask of DistributedDataParallel as a whole. T: rows of the common list; D: further tests of
-- the same files and the same rows with other options, worlds and sizes. Numbers are worked out here, or by the
-- module in one process.
--
-- Left out, with the reason: channels_last layouts of gradients and inputs (gradients follow contiguous parameters);
-- autocast; pickling and saving a whole DDP object (its state_dict is tested); PackedSequence as an input;
-- torch.compile; the stateless functional_call; GPU streams that are not the default one.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
local F, DDP = nn.functional, nn.parallel.DistributedDataParallel

rs.lesson { title = "PyTorch cases: DistributedDataParallel", devices = 4, seed = 1, prefix = "" }

-- ---- words for checks ----

-- f(rank, check) on each rank; what ranks check under one name is one check here. An error fails the row, not the
-- file.
local function row(id, world, f)
  local ok, by_rank = pcall(dist.spawn, function(rank)
    local checks = {}
    f(rank, function(name, held) checks[#checks + 1] = { name, held and true or false } end)
    return checks
  end, { world = world })
  if not ok then
    rs.check(id .. " runs to its end: " .. tostring(by_rank):match("[^\n]*"), false)
    return
  end
  local names, held = {}, {}
  for rank = 0, world - 1 do
    for _, check in ipairs(by_rank[rank]) do
      if held[check[1]] == nil then names[#names + 1] = check[1] end
      held[check[1]] = held[check[1]] ~= false and check[2]
    end
  end
  for _, name in ipairs(names) do rs.check(name, held[name]) end
end

local function near(a, b, tolerance)
  return rs.allclose(a:detach():to("cpu"), b:detach():to("cpu"), { atol = tolerance or 1e-5, rtol = 1e-5 })
end

-- An error of this kind whose words have all of these in them.
local function refused(kind, words, f, ...)
  local ok, e = pcall(f, ...)
  if ok or type(e) ~= "table" or e.kind ~= kind then return false end
  for _, word in ipairs(words) do
    if not e.message:find(word, 1, true) then return false end
  end
  return true
end

-- Every table with one value of each list: crossed({ "a", { 1, 2 } }, { "b", { 3 } }) is { { a = 1, b = 3 }, { a = 2,
-- b = 3 } }.
local function crossed(...)
  local out = { {} }
  for _, choice in ipairs { ... } do
    local more = {}
    for _, options in ipairs(out) do
      for _, value in ipairs(choice[2]) do
        local copy = { [choice[1]] = value }
        for key, given in pairs(options) do copy[key] = given end
        more[#more + 1] = copy
      end
    end
    out = more
  end
  return out
end
local BOTH = { false, true }
local VIEW, STATIC, FIND = { "gradient_as_bucket_view", BOTH }, { "static_graph", BOTH },
  { "find_unused_parameters", BOTH }

-- A module made twice with one seed is made twice alike.
local function seeded(seed, make, ...)
  rs.manual_seed(seed)
  return make(...)
end

local function same_grads(a, b, tolerance)
  local list, ok = b:parameters(), true
  for i, p in ipairs(a:parameters()) do
    local grad = list[i].grad
    ok = ok and (p.grad == nil) == (grad == nil) and (grad == nil or near(p.grad, grad, tolerance))
  end
  return ok
end

local function same_parameters(a, b, tolerance)
  local list, ok = b:parameters(), true
  for i, p in ipairs(a:parameters()) do ok = ok and near(p, list[i], tolerance) end
  return ok
end

local function same_on_all(t)
  local list = dist.all_gather({}, t:detach():to("cpu"):contiguous())
  for i = 2, #list do
    if not rs.equal(list[1], list[i]) then return false end
  end
  return true
end

local function grads_agree(model)
  local ok = true
  for _, p in ipairs(model:parameters()) do
    if p.requires_grad then ok = p.grad and same_on_all(p.grad) and ok end
  end
  return ok
end

-- p + grad, then the gradients go: to nil, or to zeros.
local function step(model, zeros)
  rs.no_grad(function()
    for _, p in ipairs(model:parameters()) do
      if p.grad then p:add_(p.grad) end
    end
  end)
  model:zero_grad { set_to_none = not zeros }
end

local function rows(t, from, count) return t[rs.slice(from, from + count)] end

-- 2-10-50-4 without biases but for a frozen one, and a frozen parameter of whole numbers.
local Net = nn.Module "Net"
function Net:init()
  self.fc1 = nn.Linear(2, 10, { bias = false })
  self.fc2 = nn.Linear(10, 50)
  self.fc2.bias:requires_grad_(false)
  self.fc3 = nn.Linear(50, 4, { bias = false })
  self.no_grad_param = nn.Parameter(rs.tensor({ 2, 2 }, { dtype = "int64" }), { requires_grad = false })
end
function Net:forward(x)
  return F.softmax(self.fc3(F.relu(self.fc2(F.relu(self.fc1(x))))), 1)
end

-- `steps` steps of DDP on a share of the rows and of one process on all of them: whether parameters are equal after
-- each.
local function trains_alike(plain, ddp, rank, per_rank, options)
  local batch = per_rank * dist.get_world_size()
  local x, y = seeded(3, rs.randn, batch, 2), rs.randn(batch, 4)
  if options.device then x, y = x:to(options.device), y:to(options.device) end
  local ok = true
  for _ = 1, options.steps or 5 do
    F.mse_loss(plain(x), y):backward()
    F.mse_loss(ddp(rows(x, rank * per_rank, per_rank)), rows(y, rank * per_rank, per_rank)):backward()
    step(plain, options.zeros)
    step(ddp, options.zeros)
    ok = ok and same_parameters(plain, ddp.module, options.tolerance)
    x = x[rs.randperm(batch):to(x.device)]
  end
  return ok
end

-- ---- training is as in one process ----

for _, world in ipairs { 3, 2, 4 } do
  row("T182", world, function(rank, check)
    local ok, viewed, static = true, true, true
    for _, zeros in ipairs { true, false } do
      ok = trains_alike(seeded(5, Net), DDP(seeded(5, Net)), rank, 2, { zeros = zeros }) and ok
      viewed = trains_alike(seeded(5, Net), DDP(seeded(5, Net), { gradient_as_bucket_view = true }), rank, 2,
        { zeros = zeros }) and viewed
      static = trains_alike(seeded(5, Net), DDP(seeded(5, Net), { static_graph = true }), rank, 2, { zeros = zeros })
        and static
    end
    check(("T182 five steps of %d ranks are those of one process on all rows"):format(world), ok)
    check(("D182 so they are with gradients as views, on %d ranks"):format(world), viewed)
    check(("D182 and with a static graph, on %d ranks"):format(world), static)
  end)
end

row("D182", 2, function(rank, check)
  local ok = true
  for _, options in ipairs(crossed(VIEW, FIND, STATIC, { "bucket_cap_mb", { 0.0001, 0.001, 1 } })) do
    ok = trains_alike(seeded(5, Net), DDP(seeded(5, Net), options), rank, 3, { zeros = true }) and ok
  end
  check("D182 nor do caps, views, a static graph or a search for unused ones change it", ok)
  ok = true
  for _, options in ipairs(crossed({ "batched_grad_copy", { true } }, VIEW, { "lazy_bucket_allocation", BOTH })) do
    ok = trains_alike(seeded(5, Net), DDP(seeded(5, Net), options), rank, 2, {}) and ok
  end
  check("D182 nor do copies in batches and buckets that are allocated late", ok)
end)

for _, view in ipairs(BOTH) do
  row("T187", 2, function(rank, check)
    local ok = trains_alike(seeded(7, Net),
      DDP(seeded(7, Net), { bucket_cap_mb = 0.001, gradient_as_bucket_view = view }),
      rank, 1, { steps = 2, tolerance = 5e-5 })
    check((view and "D187" or "T187") .. " buckets of .001 MiB, one row a rank, two iterations: as one process"
      .. (view and ", with views" or ""), ok)
  end)
end

row("T184", 1, function(_, check)
  check("T184 a module without parameters is refused",
    refused("RuntimeError", { "gradient" }, DDP, nn.Module "Empty"()))
  check("T184 so is one whose parameters are all frozen",
    refused("RuntimeError", { "gradient" }, DDP, nn.Linear(2, 2):requires_grad_(false)))
  check("D184 one parameter that is not frozen is enough", pcall(DDP, (function()
    local net = nn.Linear(2, 2)
    net.bias:requires_grad_(false)
    return net
  end)()))
  check("D184 a layer without outputs is no fault", pcall(DDP, nn.Sequential { nn.Linear(10, 10), nn.Linear(10, 0) }))
end)

-- ---- devices ----

local function pair(one, two)
  return nn.Sequential { nn.Linear(4, 4):to(one), nn.Linear(4, 4):to(two) }
end

row("T189", 2, function(rank, check)
  check("T189 two device_ids are refused",
    refused("ValueError", { "device_ids" }, DDP, nn.Linear(2, 2):to(0), { device_ids = { 0, 1 } }))
  check("D189 so are more",
    refused("ValueError", { "device_ids" }, DDP, nn.Linear(2, 2):to(0), { device_ids = { 0, 1, 2, 3 } }))
  local net = seeded(2, nn.Linear, 2, 4):to(rank)
  local ok = true
  for _, ids in ipairs { "none", {}, { rank }, { "device:" .. rank } } do
    local ddp = DDP(seeded(2, nn.Linear, 2, 4):to(rank), { device_ids = ids ~= "none" and ids or nil })
    ok = trains_alike(seeded(2, nn.Linear, 2, 4):to(rank), ddp, rank, 2, { device = rank }) and ok
  end
  check("D189 no device_ids, none in the list, or the module's own one: as one process", ok)
  local ddp = DDP(net, { device_ids = { rank } })
  local x = rs.ones(3, 2)
  check("D189 an input elsewhere is moved to the module's device", near(ddp(x), net(x:to(rank)))
    and ddp(x).device == "device:" .. rank)
end)

row("D190", 2, function(rank, check)
  local Box = rs.namedtuple("Box", { "a", "b" })
  local class = nn.Module "Placed"
  function class:init() self.lin = nn.Linear(2, 2) end
  function class:forward(x, where)
    self.seen = where(x)
    return self.lin(self.seen)
  end
  local ddp = DDP(class():to(rank), { device_ids = { rank } })
  local t = rs.ones(2, 2)
  for name, case in pairs {
    ["a list"] = { { t, { t } }, function(x) return x[2][1] end },
    ["a tuple"] = { rs.tuple { t, rs.tuple { t } }, function(x) return x[2][1] end },
    ["a map"] = { { deep = { t = t } }, function(x) return x.deep.t end },
    ["a named tuple"] = { Box(t, t), function(x) return x.b end },
  } do
    local out = ddp(case[1], case[2])
    check("D190 tensors in " .. name .. " are moved to the device, too", out.device == "device:" .. rank
      and ddp.module.seen.device == "device:" .. rank and t.device == "cpu")
  end
end)

row("T192", 2, function(rank, check)
  local one, two = rank * 2, rank * 2 + 1
  check("T192 a module on two devices takes no output_device",
    refused("ValueError", { "output_device" }, DDP, pair(one, two), { output_device = two }))
  check("T192 and no device_ids",
    refused("ValueError", { "device_ids" }, DDP, pair(one, two), { device_ids = { one } }))
  check("T192 nor both, and one on the host none either", refused("ValueError", {}, DDP, pair(one, two),
      { device_ids = { one, two }, output_device = two })
    and refused("ValueError", { "device_ids" }, DDP, pair("cpu", "cpu"), { device_ids = { one } })
    and refused("ValueError", { "output_device" }, DDP, pair("cpu", "cpu"), { output_device = two }))
  check("T192 parameters on the host and on a device are refused",
    refused("ValueError", { "device" }, DDP, pair("cpu", one)))
  local class = nn.Module "TwoDevices"
  function class:init()
    self.net1 = seeded(4, nn.Linear, 2, 10, { bias = false }):to(one)
    self.net2 = nn.Linear(10, 4):to(two)
  end
  function class:forward(x) return self.net2(F.relu(self.net1(x:to(one))):to(two)):to(one) end
  for _, view in ipairs(BOTH) do
    local ddp = DDP(class(), { gradient_as_bucket_view = view })
    check("D192 a module on two devices trains as one process" .. (view and ", with views" or ""),
      trains_alike(class(), ddp, rank, 2, { device = one }))
    check("D192 it is known as such", ddp:_get_ddp_logging_data().is_multi_device_module == 1)
  end
end)

row("T194", 2, function(rank, check)
  for _, view in ipairs(BOTH) do
    local net = nn.Linear(1, 1, { bias = false }):to(rank):half()
    rs.no_grad(function() net.weight:fill_(1) end)
    local ddp = DDP(net, { device_ids = { rank }, bucket_cap_mb = 1, gradient_as_bucket_view = view })
    ddp(rs.tensor({ { 2.0 ^ 15 } }, { dtype = "float16", device = rank })):sum():backward()
    check((view and "D194" or "T194") .. " half gradients are divided before they are summed: 32768 and not inf"
      .. (view and ", with views" or ""), net.weight.grad:item() == 32768 and net.weight.grad.dtype == "float16")
    ddp(rs.tensor({ { -2.0 ^ 14 } }, { dtype = "float16", device = rank })):sum():backward()
    check("D194 they add up in half", net.weight.grad:item() == 16384)
  end
end)

-- ---- several outputs, backwards, forwards ----

local Halves = nn.Module "Halves"
function Halves:init()
  local function half() return nn.Sequential { nn.Linear(2, 10, { bias = false }), nn.ReLU(),
    nn.Linear(10, 4, { bias = false }) } end
  self.module0 = half()
  self.module1 = half()
end
function Halves:forward(x) return F.softmax(self.module0(x), 1), F.softmax(self.module1(x), 1) end

for _, world in ipairs { 2, 3 } do
  row("T197", world, function(rank, check)
    local y = rs.tensor({ 0, 1, 2 }, { dtype = "int64" })[rs.slice(0, world)]
    local x = seeded(6, rs.randn, world, 2)
    for _, view in ipairs(BOTH) do
      local plain, ddp = seeded(9, Halves), DDP(seeded(9, Halves), { gradient_as_bucket_view = view })
      local alike, agree = true, true
      for _ = 1, 3 do
        local a, b = plain(x)
        F.cross_entropy(a, y):backward()
        F.cross_entropy(b, y):backward()
        local c, d = ddp(rows(x, rank, 1))
        F.cross_entropy(c, rows(y, rank, 1)):backward()
        F.cross_entropy(d, rows(y, rank, 1)):backward()
        alike, agree = alike and same_grads(plain, ddp), grads_agree(ddp) and agree
        step(plain)
        step(ddp)
      end
      local id = view and "D197" or "T197"
      check(("%s two outputs, two backwards, %d ranks: no error, and the ranks agree"):format(id, world), agree)
      check(("D197 their gradients are those of one process%s"):format(view and ", with views" or ""), alike)
    end
  end)
end

row("T199", 2, function(rank, check)
  for _, options in ipairs(crossed(VIEW, FIND)) do
    local plain, ddp = seeded(9, Net), DDP(seeded(9, Net), options)
    local x, y = seeded(1, rs.randn, 4, 2), rs.randn(4, 4)
    for _ = 1, 4 do ddp(rows(x, rank * 2, 2)) end
    local ok = true
    for _ = 1, 4 do
      F.mse_loss(plain(x), y):backward()
      F.mse_loss(ddp(rows(x, rank * 2, 2)), rows(y, rank * 2, 2)):backward()
      ok = ok and same_grads(plain, ddp)
      step(plain)
      step(ddp)
    end
    check(options.find_unused_parameters and "D199 nor with a search for unused parameters"
      or "T199 four forwards whose outputs nobody wants harm no iteration after them", ok)
  end
end)

row("D200", 2, function(rank, check)
  local ddp, plain = DDP(seeded(9, Net)), seeded(9, Net)
  local x = seeded(1, rs.randn, 4, 2)
  local mine = rows(x, rank * 2, 2)
  local out = rs.no_grad(function() return ddp(mine) end)
  check("D200 a forward under no_grad has no graph, and is the module's", not out.requires_grad
    and near(out, plain(mine)))
  local ok = true
  for _ = 1, 3 do
    rs.no_grad(function() ddp(mine) end)
    plain(x):pow(2):mean():backward()
    ddp(mine):pow(2):mean():backward()
    ok = ok and same_grads(plain, ddp)
    rs.no_grad(function() ddp(mine) end)
  end
  check("D200 forwards under no_grad between iterations harm none", ok)
end)

row("D201", 2, function(_, check)
  local class = nn.Module "Power"
  function class:init() self.p = nn.Parameter(rs.tensor(1.0)) end
  function class:forward() return self.p:pow(2) end
  local ddp, ok = DDP(class()), true
  for _ = 1, 6 do
    ddp():backward(nil, { create_graph = true })
    ok = ok and ddp.module.p.requires_grad and ddp.module.p.grad ~= nil
  end
  check("D201 six backwards that record their own graph raise nothing", ok)
end)

-- ---- only some ranks, or none ----

row("T207", 2, function(rank, check)
  local ddp, plain = DDP(seeded(4, Net)), seeded(4, Net)
  local norm, plain_norm = DDP(nn.BatchNorm1d(2, { track_running_stats = false })),
    nn.BatchNorm1d(2, { track_running_stats = false })
  local x, ok = seeded(1, rs.randn, 10, 2), true
  if rank == 0 then
    for _, two in ipairs { { ddp, plain }, { norm, plain_norm } } do
      two[1]:eval()
      two[2]:eval()
      for _ = 1, 6 do ok = ok and rs.equal(two[1](x), two[2](x)) end
    end
  end
  dist.barrier()
  check("T207 one rank alone may infer, without buffers", ok)
end)

row("T207", 3, function(rank, check)
  local ddp, plain = DDP(seeded(4, Net)), seeded(4, Net)
  local x, ok = seeded(1, rs.randn, 10, 2), true
  if rank == 2 then
    ddp:eval()
    for _ = 1, 6 do ok = ok and rs.equal(rs.no_grad(function() return ddp(x) end), plain(x)) end
  end
  dist.barrier()
  ddp:train()
  ddp(x):sum():backward()
  check("D207 the last of three ranks may, and training goes on", ok and grads_agree(ddp))
end)

-- ---- lives and deaths ----

local Fails = rs.autograd.Function "Fails"
function Fails.forward(_, x) return x:clone() end
function Fails.backward() rs.error("RuntimeError", "simulated") end

row("T217", 2, function(rank, check)
  local class = nn.Module "MayFail"
  function class:init() self.fc1 = nn.Linear(10, 10) end
  function class:forward(x, fails) return self.fc1(fails and Fails.apply(x) or x) end
  local x = seeded(2 + rank, rs.rand, 10, 10):requires_grad_()
  for _, options in ipairs(crossed(VIEW, FIND)) do
    local net = seeded(1, class)
    local old = DDP(net, options)
    local raised = refused("RuntimeError", { "simulated" }, function() old(x, true):sum():backward() end)
    net:zero_grad()
    old:_remove_autograd_hooks()
    local new = DDP(net, options)
    new(x, false):sum():backward()
    check("T217 after a backward that failed midway a new wrapper of the same module works", raised
      and grads_agree(new))
  end
end)

row("T202", 2, function(rank, check)
  for _, view in ipairs(BOTH) do
    local plain, net = seeded(11, Net), seeded(11, Net)
    local ok = trains_alike(plain, DDP(net, { gradient_as_bucket_view = view }), rank, 1, { steps = 6 })
    collectgarbage()
    dist.destroy_process_group()
    dist.init_process_group()
    net:zero_grad()
    plain:zero_grad()
    ok = trains_alike(plain, DDP(net, { gradient_as_bucket_view = view }), rank, 1, { steps = 6 }) and ok
    check((view and "D202" or "T202") .. " six iterations, wrapper and group made anew, six more: as one process"
      .. (view and ", with views" or ""), ok)
  end
end)

row("D202", 3, function(rank, check)
  local plain, net = seeded(11, Net), seeded(11, Net)
  local ok = trains_alike(plain, DDP(net, { process_group = dist.new_group { 0, 1, 2 } }), rank, 1, { steps = 3 })
  check("D202 a group of one's own that has all ranks gives the same", ok)
  local part = dist.new_group { 0, 2 }
  if rank ~= 1 then
    local ddp = DDP(seeded(2, nn.Linear, 1, 1, { bias = false }), { process_group = part })
    ddp(rs.full({ 1, 1 }, rank + 1.0)):sum():backward()
    check("D202 a group of two of three averages over these two", ddp.module.weight.grad:item() == 2)
    check("D202 it is the wrapper's group", ddp:_get_ddp_logging_data().world_size == 2)
  end
end)

row("T204", 2, function(rank, check)
  for src = 0, 1 do
    local ddp = DDP(seeded(rank, nn.Linear, 2, 2, { bias = false }), { bucket_cap_mb = 1 })
    check("D204 construction makes all as rank 0",
      near(ddp.module.weight, seeded(0, nn.Linear, 2, 2, { bias = false }).weight))
    local new = seeded(20 + rank, nn.BatchNorm1d, 2)
    rs.no_grad(function() new.weight:fill_(rank + 3.0) end)
    new.running_mean:fill_(rank + 5.0)
    local differ = not same_on_all(new.weight) and not same_on_all(new.running_mean)
    dist._sync_module_states(new, dist.group.WORLD, 250 * 1024 * 1024, src)
    check("T204 modules that differ are as rank src's after their states are synced", differ
      and new.weight[0]:item() == src + 3
      and new.running_mean[1]:item() == src + 5 and same_on_all(new.weight) and same_on_all(new.running_mean))
  end
end)

row("D205", 2, function(rank, check)
  local ddp, plain = DDP(seeded(3, Net)), seeded(3, Net)
  local dict = ddp:state_dict()
  local ok = dict["module.fc1.weight"] ~= nil and dict["fc1.weight"] == nil
  check("D205 names in the state gain the prefix module", ok)
  for _, into in ipairs { "wrapped", "bare" } do
    local other = seeded(40, Net)
    if into == "wrapped" then
      other = DDP(other)
      other:load_state_dict(dict)
      other = other.module
    else
      other:load_state_dict(ddp.module:state_dict())
    end
    check("D205 what one wrapper saved another loads, or a bare module", same_parameters(plain, other))
  end
  check("D205 training goes on from what was loaded", (function()
    local net = seeded(41, Net)
    net:load_state_dict(plain:state_dict())
    return trains_alike(plain, DDP(net), rank, 2, { steps = 3 })
  end)())
end)

-- ---- shares ----

row("T219", 2, function(rank, check)
  for _, view in ipairs(BOTH) do
    local plain, ddp = seeded(9, Net), DDP(seeded(9, Net), { gradient_as_bucket_view = view })
    local x, y = seeded(5, rs.randn, 2, 2), rs.randn(2, 4)
    local mine, target = rows(x, rank, 1), rows(y, rank, 1)
    local function both(wrapped)
      F.mse_loss(plain(x), y):backward()
      F.mse_loss((wrapped and ddp or ddp.module)(mine), target):backward()
    end
    both(true)
    local first = same_grads(plain, ddp)
    local from = rs.trace:count { kind = "ddp.all_reduce_bucket", rank = rank }
    both(false)
    local bare = not same_grads(plain, ddp) and rs.trace:count { kind = "ddp.all_reduce_bucket", rank = rank } == from
    -- the sums so far differ by rank, so the average of the accumulated is that of one process
    both(true)
    local id = view and "D219" or "T219"
    check(id .. " calling ddp.module reduces nothing", first and bare)
    check(id .. " the next call of the wrapper reduces what was accumulated", same_grads(plain, ddp))
  end
end)

row("D220", 2, function(rank, check)
  local class = nn.Module "Shared"
  function class:init()
    self.a = nn.Linear(4, 4, { bias = false })
    self.b = nn.Linear(4, 4, { bias = false })
    self.b.weight = self.a.weight
  end
  function class:forward(x) return self.b(F.relu(self.a(x))) end
  for _, options in ipairs(crossed(VIEW, STATIC, FIND)) do
    local plain, ddp = seeded(2, class), DDP(seeded(2, class), options)
    local x, ok = seeded(3, rs.randn, 4, 4), true
    for _ = 1, 4 do
      plain(x):pow(2):mean():backward()
      ddp(rows(x, 2 * rank, 2)):pow(2):mean():backward()
      ok = ok and same_grads(plain, ddp)
      plain:zero_grad()
      ddp:zero_grad()
    end
    check("D220 a weight that two layers share counts once and gets both gradients", ok
      and ddp:_get_ddp_logging_data().num_parameter_tensors == 1)
  end
end)

row("D221", 2, function(rank, check)
  local class = nn.Module "Partly"
  function class:init()
    self.fc1 = nn.Linear(1, 1, { bias = false })
    self.fc2 = rank == 0 and nn.Linear(1, 10, { bias = false }) or nn.Linear(10, 10, { bias = false })
    self.fc2:register_buffer("ignored", rs.zeros(5 + rank))
  end
  function class:forward(x) return self.fc2(self.fc1(x)) end
  for _, options in ipairs(crossed(FIND, STATIC, { "broadcast_buffers", BOTH })) do
    local net = seeded(2, class)
    local proxy = net.fc2.weight
    DDP._set_params_and_buffers_to_ignore_for_model(net, { "fc2.weight", "fc2.ignored" })
    local ddp = DDP(net, options)
    net.fc2 = seeded(3, nn.Linear, 1, 1, { bias = false })
    local local_net = nn.Sequential { nn.Linear(1, 1, { bias = false }), seeded(3, nn.Linear, 1, 1, { bias = false }) }
    rs.no_grad(function() local_net[0].weight:copy_(net.fc1.weight) end)
    local x, ok = rs.full({ 1, 1 }, rank + 1.0), true
    for _ = 1, 6 do
      ddp(x):sum():backward()
      local_net(x):sum():backward()
      ok = ok and near(net.fc2.weight.grad, local_net[1].weight.grad)
        and not near(net.fc1.weight.grad, local_net[0].weight.grad)
        and proxy.grad == nil
    end
    check("D221 ignored parameters keep their shapes, values and gradients a rank", ok)
  end
end)

row("D223", 2, function(rank, check)
  local class = nn.Module "Two"
  function class:init()
    self.fc1 = nn.Linear(10, 10)
    self.fc2 = nn.Linear(10, 10)
    self.fc3 = nn.Linear(10, 10)
  end
  function class:forward(x, fails)
    if fails then return self.fc3(self.fc2(self.fc1(Fails.apply(x)))) end
    return self.fc2(self.fc1(x))
  end
  local x = seeded(rank, rs.rand, 10, 10):requires_grad_()
  local ddp = DDP(seeded(1, class), { find_unused_parameters = true, bucket_cap_mb = 1 })
  local raised = not pcall(function() ddp(x, true):sum():backward() end)
  ddp:_update_process_group(dist.group.WORLD)
  ddp:zero_grad()
  ddp(x, false):sum():backward()
  check("D223 after a failed backward a group given anew begins afresh", raised
    and same_on_all(ddp.module.fc1.weight.grad)
    and same_on_all(ddp.module.fc2.bias.grad))
  check("D223 without a search for unused ones too", pcall(function()
    local plain = DDP(nn.Linear(10, 10))
    plain:_update_process_group(dist.group.WORLD)
    plain(x):sum():backward()
  end))
end)

row("D224", 4, function(rank, check)
  local ddp = DDP(seeded(1, nn.Linear, 1, 1, { bias = false }), { find_unused_parameters = true })
  local function mean(members)
    local inside, sum = false, 0
    for _, member in ipairs(members) do inside, sum = inside or member == rank, sum + member + 1 end
    if not inside then return true end
    ddp:zero_grad()
    ddp(rs.full({ 1, 1 }, rank + 1.0)):sum():backward()
    return near(ddp.module.weight.grad, rs.full({ 1, 1 }, sum / #members))
  end
  local ok = mean { 0, 1, 2, 3 }
  for _, members in ipairs { { 0, 1 }, { 1, 2, 3 } } do
    local group = dist.new_group(members)
    if group ~= dist.GroupMember.NON_GROUP_MEMBER then ddp:_update_process_group(group) end
    ok = mean(members) and ok
  end
  ddp:_update_process_group(dist.group.WORLD)
  ok = mean { 0, 1, 2, 3 } and ok
  check("D224 a smaller group, another, and all again: the mean is over who takes part", ok)
end)
