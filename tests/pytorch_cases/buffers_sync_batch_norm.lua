-- What PyTorch's own tests ask of SyncBatchNorm, on a virtual device a rank. T: rows of the common list; D: further tests of
-- the same files, other worlds and shapes. Where a test compares with one process, a BatchNorm gets all ranks' rows.
--
-- Left out, with the reason: channels_last inputs (all tensors are laid out as rows here) and CUDA graphs.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
local F, DDP, SyncBatchNorm = nn.functional, nn.parallel.DistributedDataParallel, nn.SyncBatchNorm

rs.lesson { title = "PyTorch cases: SyncBatchNorm", seed = 1, devices = 4, prefix = "" }

-- ---- words for checks ----

-- f(rank, check, device) on each rank; what ranks check under one name is one check here. An error fails the row, not the
-- file.
local function row(id, world, f)
  local ok, by_rank = pcall(dist.spawn, function(rank)
    local checks = {}
    f(rank, function(name, held) checks[#checks + 1] = { name, held and true or false } end, "device:" .. rank)
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

local function cpu(t) return t:detach():to("cpu") end
local function near(a, b) return rs.allclose(cpu(a), cpu(b), { atol = 1e-5, rtol = 1e-5 }) end
local function seeded(seed, make, ...)
  rs.manual_seed(seed)
  return make(...)
end
local function rows(t, from, count) return t[rs.slice(from, from + count)] end
local function refused(kind, f, ...)
  local ok, e = pcall(f, ...)
  return not ok and type(e) == "table" and e.kind == kind
end
local function finite(t) return rs.isfinite(cpu(t)):all():item() end

local BatchNormNet = nn.Module "BatchNormNet"
function BatchNormNet:init(affine)
  self.fc1 = nn.Linear(2, 40, { bias = false })
  self.bn = nn.BatchNorm1d(4, { affine = affine })
  self.fc2 = nn.Linear(40, 4, { bias = false })
end
function BatchNormNet:forward(x)
  x = self.bn(self.fc1(x):reshape { -1, 4, 10 })
  return F.softmax(self.fc2(x:reshape { -1, 40 }), { dim = 1 })
end

-- counts[r + 1] rows for rank r; five steps with and without ranks. A rank's loss is a mean over its own rows, which counts
-- by how many they are.
local function as_one(rank, device, affine, counts, group)
  local world, total, first = #counts, 0, 0
  for r = 1, world do
    if r <= rank then first = first + counts[r] end
    total = total + counts[r]
  end
  local whole = seeded(1, BatchNormNet, affine)
  local shared = SyncBatchNorm.convert_sync_batchnorm(seeded(1, BatchNormNet, affine), group):to(device)
  local ddp, mine = DDP(shared, { device_ids = { rank } }), counts[rank + 1]
  local loss, equal = nn.MSELoss(), true
  local steps = { rs.optim.SGD(whole:parameters(), { lr = 0.1 }), rs.optim.SGD(shared:parameters(), { lr = 0.1 }) }
  for i = 1, 5 do
    local x, target = seeded(10 + i, rs.randn, total, 2), seeded(20 + i, rs.rand, total, 4)
    loss(whole(x), target):backward()
    local part = loss(ddp(rows(x, first, mine):to(device)), rows(target, first, mine):to(device))
    ;(part * (mine * world / total)):backward()
    for _, step in ipairs(steps) do
      step:step()
      step:zero_grad()
    end
    local parameters = shared:parameters()
    for j, p in ipairs(whole:parameters()) do equal = equal and near(p, parameters[j]) end
    equal = equal and near(whole.bn.running_mean, shared.bn.running_mean)
      and near(whole.bn.running_var, shared.bn.running_var)
  end
  return equal
end

-- ---- training as one process ----

for _, world in ipairs { 2, 3, 4 } do
  local counts, uneven, single = {}, {}, {}
  for r = 1, world do counts[r], uneven[r], single[r] = 2, r + 1, 1 end
  local id = world == 2 and "T" or "D"
  row("T280", world, function(rank, check, device)
    check(("%s280 %d ranks with 2 rows each, no affine: five steps are a BatchNorm's on all rows"):format(id, world),
      as_one(rank, device, false, counts))
    check(("D279 %d ranks with 2 rows each: five steps are a BatchNorm's on all rows"):format(world),
      as_one(rank, device, true, counts))
    check(("%s285 %d ranks, rank r has r + 2 rows: five steps are a BatchNorm's on all rows"):format(id, world),
      as_one(rank, device, true, uneven))
    check(("D282 %d ranks with one row each: five steps are a BatchNorm's on all rows"):format(world),
      as_one(rank, device, true, single))
  end)
end

row("D281", 3, function(rank, check, device)
  local group = dist.new_group { 0, 1, 2 }
  check("D281 with a group given to the conversion", as_one(rank, device, true, { 2, 2, 2 }, group))
end)

row("T283", 2, function(rank, check, device)
  local norm = SyncBatchNorm(2, { momentum = 0.99 }):to(device)
  local ddp, length = DDP(norm, { device_ids = { rank } }), math.tointeger(10 ^ (rank + 1))
  local x = rs.cat({ rs.full({ 2, 1, length }, 0.1 ^ (rank - 1)), rs.full({ 2, 1, length }, 0.3 ^ (rank - 1)) }, 1)
  for _ = 1, 100 do ddp(x:to(device)):mean():backward() end
  check("T283 rows of unequal length: the running mean is that of all values", near(norm.running_mean,
    rs.tensor { 1.8181818, 1.2121212 }))
  check("T283 and the running variance", rs.allclose(cpu(norm.running_var), rs.tensor { 6.7247821, 0.4520086 },
    { rtol = 1e-4, atol = 1e-5 }))
end)

-- ---- one layer ----

-- Rank r's part of an input of that shape is counts[r + 1] rows. Outputs, gradients and buffers are those of `plain`.
local function layer_as_one(rank, device, plain, shape, counts)
  local total, first, own = 0, 0, { table.unpack(shape) }
  for r = 1, #counts do
    if r <= rank then first = first + counts[r] end
    total = total + counts[r]
  end
  own[1] = total
  local x, weight = seeded(3, rs.randn, own), seeded(4, rs.randn, own)
  if plain.weight then rs.no_grad(function() plain.weight:copy_(seeded(5, rs.rand, shape[2])) end) end
  local copy = rs.tensor(plain.running_mean and plain.running_mean:tolist() or { 0.0 })
  local norm = SyncBatchNorm.convert_sync_batchnorm(plain)
  local shared = SyncBatchNorm(shape[2], { momentum = plain.momentum or rs.none, affine = plain.affine,
    track_running_stats = plain.track_running_stats }):to(device)
  shared:load_state_dict(norm:state_dict())
  local mine = rows(x, first, counts[rank + 1]):to(device):requires_grad_()
  local out = shared(mine)
  ;(out * rows(weight, first, counts[rank + 1]):to(device)):sum():backward()
  x:requires_grad_()
  local whole = plain(x)
  ;(whole * weight):sum():backward()
  local ok = near(out, rows(whole, first, counts[rank + 1]))
  if counts[rank + 1] > 0 then ok = ok and near(mine.grad, rows(x.grad, first, counts[rank + 1])) end
  for _, name in ipairs { "weight", "bias" } do
    if plain[name] then
      local grad = shared[name].grad or rs.zeros_like(shared[name])
      dist.all_reduce(grad)
      ok = ok and near(grad, plain[name].grad)
    end
  end
  for _, name in ipairs { "running_mean", "running_var" } do
    if plain[name] then ok = ok and near(plain[name], shared[name]) end
  end
  return ok and (not plain.running_mean or not near(plain.running_mean, copy) or plain.momentum == 0)
end

local LAYERS = {
  { "rows", nn.BatchNorm1d, { 0, 3 }, {} }, { "rows of lines", nn.BatchNorm1d, { 0, 2, 5 }, {} },
  { "planes", nn.BatchNorm2d, { 0, 4, 3, 2 }, {} }, { "volumes", nn.BatchNorm3d, { 0, 2, 2, 1, 3 }, {} },
  { "only one channel", nn.BatchNorm2d, { 0, 1, 2, 2 }, {} }, { "momentum 0", nn.BatchNorm1d, { 0, 3 }, { momentum = 0 } },
  { "momentum 1", nn.BatchNorm1d, { 0, 3 }, { momentum = 1 } },
  { "momentum None", nn.BatchNorm1d, { 0, 3 }, { momentum = rs.none } },
  { "no affine", nn.BatchNorm2d, { 0, 3, 2, 2 }, { affine = false } },
  { "no running statistics", nn.BatchNorm1d, { 0, 3 }, { track_running_stats = false } },
}
for _, counts in ipairs { { 2, 2 }, { 1, 4 }, { 3, 0 }, { 2, 1, 3 }, { 0, 2, 0, 3 } } do
  row("D284", #counts, function(rank, check, device)
    for _, layer in ipairs(LAYERS) do
      check(("D284 %s, %s rows by rank: a BatchNorm over all rows"):format(layer[1], table.concat(counts, " ")),
        layer_as_one(rank, device, layer[2](layer[3][2], layer[4]), layer[3], counts))
    end
  end)
end

row("D286", 2, function(rank, check, device)
  local norm = SyncBatchNorm(2, { momentum = rs.none }):to(device)
  for i = 1, 3 do norm(rs.full({ 2, 2 }, 3.0 * i + rank):to(device)) end
  check("D286 momentum None: a mean of all batches' means, 3.5, 6.5 and 9.5", near(norm.running_mean, rs.full({ 2 }, 6.5))
    and norm.num_batches_tracked:item() == 3)
  norm:eval()
  local before = dist.group.WORLD and rs.trace:count("c10d.allgather")
  local out = norm(rs.full({ 1, 2 }, 6.5):to(device))
  check("D286 in evaluation the running statistics serve, and nothing is sent", near(out, rs.zeros { 1, 2 })
    and rs.trace:count("c10d.allgather") == before and norm.num_batches_tracked:item() == 3)
end)

row("D287", 2, function(rank, check, device)
  local norm = SyncBatchNorm(2):to(device):half()
  local x = (rs.arange(12.0):reshape { 6, 2 } * 100 + rank):to(device, "float16"):requires_grad_()
  local out = norm(x)
  out:pow(2):mean():backward()
  check("D287 float16: output and gradients are float16, of the numbers that float32 has", out.dtype == "float16"
    and x.grad.dtype == "float16" and norm.weight.grad.dtype == "float16" and norm.running_mean.dtype == "float16"
    and rs.allclose(cpu(norm.running_mean):float(), rs.tensor { 50.05, 60.05 }, { rtol = 1e-3 }))
end)

-- ---- no rows ----

row("T288", 2, function(rank, check, device)
  local net = nn.Sequential { nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3), nn.ReLU() }
  local ddp = DDP(SyncBatchNorm.convert_sync_batchnorm(net):to(device), { device_ids = { rank } })
  local function clean(count)
    ddp:zero_grad()
    local x = rs.randn({ count, 2, 4, 4 }, { device = device }):requires_grad_()
    local out = ddp(x)
    out:sum():backward()
    local ok = finite(out) and finite(ddp.module[1].running_var) and (x.grad == nil or finite(x.grad))
    for p in ddp:parameters() do ok = ok and p.grad ~= nil and finite(p.grad) end
    return ok and out:size(0) == count
  end
  check("T288 rank 0 has no rows: no NaN in outputs, gradients and statistics", clean(rank == 0 and 0 or 2))
  check("T288 no rank has rows: no NaN either", clean(0))
  check("D288 and then both have some", clean(2))
end)

-- ---- groups ----

row("D289", 4, function(rank, check, device)
  local low, high = dist.new_group { 0, 1 }, dist.new_group { 2, 3 }
  local norm = SyncBatchNorm(1, { momentum = 1, process_group = rank < 2 and low or high }):to(device)
  norm(rs.tensor({ { 1.0 * rank }, { 1.0 * rank } }, { device = device }))
  check("D289 statistics are shared within a group: 0.5 and 2.5", near(norm.running_mean, rs.tensor { rank < 2 and 0.5 or 2.5 }))
  local outside = SyncBatchNorm(1, { momentum = 1, process_group = low }):to(device)
  outside(rs.tensor({ { 1.0 * rank }, { rank + 2.0 } }, { device = device }))
  check("D289 a rank that is no member keeps to itself", near(outside.running_mean,
    rs.tensor { rank < 2 and 1.5 or rank + 1.0 }))
  check("D289 the group can be read", norm.process_group:rank() == rank % 2 and norm.process_group:size() == 2
    and outside.process_group == (rank < 2 and low or "NON_GROUP_MEMBER") and SyncBatchNorm(1).process_group == nil)
end)

row("D292", 1, function(rank, check, device)
  local norm, plain = SyncBatchNorm(3):to(device), nn.BatchNorm1d(3)
  local x = seeded(6, rs.randn, 4, 3)
  check("D292 alone in the world it is a BatchNorm", near(norm(x:to(device)), plain(x))
    and norm(x:to(device)).grad_fn:name() ~= "SyncBatchNormBackward")
  check("D292 which refuses one value a channel", refused("ValueError", norm, rs.zeros({ 1, 3 }, { device = device })))
end)

-- ---- conversion ----

row("D293", 2, function(rank, check)
  local inner = nn.BatchNorm2d(4, { eps = 0.25, momentum = rs.none, affine = false })
  local net = nn.Sequential { nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4, { track_running_stats = false }),
    nn.Sequential { inner, nn.ReLU() }, nn.LayerNorm { 4 } }
  net:eval()
  local first, group = net[1], dist.new_group { 0, 1 }
  local weight, mean = first.weight, inner.running_mean
  local answer = SyncBatchNorm.convert_sync_batchnorm(net, group)
  local a, b = net[1], net[2][0]
  check("D293 the module is converted in place, at any depth, and answered", answer == net
    and tostring(a):find("^SyncBatchNorm%(4, eps=1e%-05, momentum=0.1, affine=True, bias=True, track_running_stats=False%)")
    and tostring(b):find("^SyncBatchNorm%(4, eps=0.25, momentum=None, affine=False"))
  check("D293 parameters and buffers are the same tensors", a.weight == weight and b.running_mean == mean
    and a.running_mean == nil and b.weight == nil)
  check("D293 mode and group are kept", not a.training and not b.training and a.process_group == group
    and b.process_group == group)
  local norm = nn.BatchNorm1d(2)
  local alone = SyncBatchNorm.convert_sync_batchnorm(norm)
  check("D293 a BatchNorm itself is answered as another module", alone ~= norm and alone.weight == norm.weight
    and alone.num_batches_tracked == norm.num_batches_tracked and tostring(alone):find("^SyncBatchNorm"))
  local again = SyncBatchNorm.convert_sync_batchnorm(alone, group)
  check("D293 a SyncBatchNorm is converted, too, to the group's", again ~= alone and again.process_group == group)
end)

row("T290", 2, function(rank, check, device)
  local function logged(net) return DDP(net:to(device), { device_ids = { rank } }):_get_ddp_logging_data().has_sync_bn end
  local plain = logged(seeded(1, BatchNormNet, true))
  local sync = logged(SyncBatchNorm.convert_sync_batchnorm(seeded(1, BatchNormNet, true)))
  check("T290 has_sync_bn is false, and true after the conversion", (plain == 0 or plain == false)
    and (sync == 1 or sync == true))
end)

-- ---- refusals ----

row("D294", 2, function(rank, check, device)
  local norm = SyncBatchNorm(3)
  check("D294 in training a tensor of the host is refused", refused("ValueError", norm, rs.zeros { 2, 3 }))
  check("D294 in evaluation it is not", norm:eval()(rs.ones { 2, 3 }):size(0) == 2)
  check("D294 DDP refuses a module of the host that has one", refused("ValueError", DDP, nn.Sequential { norm }))
  norm:train():to(device)
  check("D294 fewer than two dimensions", refused("ValueError", norm, rs.zeros({ 3 }, { device = device })))
  check("D294 no channels", refused("ValueError", norm, rs.zeros({ 2, 0 }, { device = device })))
  local x = rs.randn({ 2, 3 }, { device = device }):requires_grad_()
  local grad = rs.autograd.grad(norm(x):pow(3):sum(), x, { create_graph = true })
  check("D294 the gradient of its gradient is not there", refused("RuntimeError", function() grad:sum():backward() end))
end)
