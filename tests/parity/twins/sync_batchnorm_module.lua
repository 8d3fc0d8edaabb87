-- nn.SyncBatchNorm as a module, under DistributedDataParallel and converted: its node, versions, gradients of gradients,
-- ranks without rows, groups. The twin is PyTorch's own, on CPU tensors and with kernels by formula.
local rs = require "ringside"
local nn, dist, SyncBatchNorm = rs.nn, rs.distributed, rs.nn.SyncBatchNorm
rs.lesson { title = "SyncBatchNorm, the module", devices = 2 }

local function numbers(shape, seed)
  local count, list = 1, {}
  for _, size in ipairs(shape) do count = count * size end
  for i = 0, count - 1 do list[i + 1] = ((i * 37 + seed * 11) % 101) / 32 - 1.5 end
  return rs.tensor(list, { dtype = "float32" }):reshape(shape)
end

local function flat(t) return t and t:numel() > 0 and t:detach():to("cpu"):reshape { -1 }:tolist() or {} end
local function raised(f)
  local ok, err = pcall(f)
  return ok and "nothing" or err.kind
end
local function py(value) return value and "True" or "False" end
local function kind(module) return tostring(module):match "^%w+" end
local function int(value) return value and 1 or 0 end

local function on_rank(rank)
  local device, lines = "device:" .. rank, {}
  local function line(name, ...)
    local parts = { ("rank%d-%s"):format(rank, name) }
    for _, item in ipairs { ... } do
      for _, value in ipairs(type(item) == "table" and item or { item }) do
        parts[#parts + 1] = math.type(value) == "float" and ("%.9g"):format(value) or tostring(value)
      end
    end
    lines[#lines + 1] = table.concat(parts, " ")
  end
  local function here(t) return t:to(device) end

  local function module()
    local norm = here(SyncBatchNorm(2))
    local x = here(numbers({ 2 + rank, 2 }, rank)):requires_grad_()
    local y, keys = norm(x), {}
    for key in pairs(norm:state_dict()) do keys[#keys + 1] = key end
    table.sort(keys)
    line("node=", y.grad_fn:name(), #y.grad_fn.next_functions)
    line("versions=", norm.running_mean._version, norm.num_batches_tracked._version)
    line("prints=", tostring(norm))
    line("keys=", keys)
    local bare, left = SyncBatchNorm(2, { affine = false, track_running_stats = false }), 0
    for _ in pairs(bare:state_dict()) do left = left + 1 end
    line("bare=", tostring(bare), #bare(x).grad_fn.next_functions, left)
    local grad = rs.autograd.grad((y ^ 3):sum(), x, { create_graph = true })
    line("grad", flat(grad))
    line("second=", raised(function() grad:sum():backward() end))
    local frozen = here(SyncBatchNorm(2):requires_grad_(false))
    local plain = frozen(here(numbers({ 2, 2 }, 7)))
    line("frozen=", py(plain.requires_grad), py(frozen(x).requires_grad))
  end

  local function empty()
    local lower, upper, layer = here(SyncBatchNorm(2)), here(SyncBatchNorm(2)), nn.Linear(2, 2)
    rs.no_grad(function()
      layer.weight:copy_(numbers({ 2, 2 }, 3))
      layer.bias:copy_(numbers({ 2 }, 4))
    end)
    layer:to(device)
    local x = here(numbers({ 3 * rank, 2 }, rank)):requires_grad_()
    upper(layer(lower(x))):pow(3):sum():backward()
    for _, what in ipairs { { "x", x.grad }, { "weight", upper.weight.grad }, { "layer", layer.weight.grad },
      { "lower", lower.bias.grad }, { "mean", upper.running_mean }, { "var", upper.running_var } } do
      line("empty-" .. what[1], flat(what[2]))
    end
    line("empty-none=", int(not x.grad), int(not upper.weight.grad), int(not layer.weight.grad), int(not lower.bias.grad))
  end

  local function net()
    local made = nn.Sequential { nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Linear(3, 2),
      nn.BatchNorm1d(2, { momentum = rs.none }) }
    rs.no_grad(function()
      for i, p in ipairs(made:parameters()) do p:copy_(numbers(p.shape, i - 1) + (p:dim() == 1 and 1.75 or 0)) end
    end)
    return made
  end

  local function trained(rows)
    local ddp = nn.parallel.DistributedDataParallel(SyncBatchNorm.convert_sync_batchnorm(net()):to(device))
    local optimizer = rs.optim.SGD(ddp:parameters(), { lr = 0.05 })
    for step = 0, 2 do
      optimizer:zero_grad()
      local x = here(numbers({ rows[(rank + step) % #rows + 1], 2 }, rank + 10 * step))
      ddp(x):pow(3):sum():backward()
      optimizer:step()
    end
    for i = 0, 4 do
      local layer = ddp.module[i]
      local names = i ~= 2 and { "weight", "bias" } or {}
      if i == 1 or i == 4 then names = { "weight", "bias", "running_mean", "running_var", "num_batches_tracked" } end
      for _, name in ipairs(names) do
        line(("trained-%s-%d.%s"):format(table.concat(rows, "-"), i, name), flat(layer[name]))
      end
    end
  end

  local function conversion()
    local shared = nn.BatchNorm1d(2)
    local top = nn.Sequential { shared, nn.Sequential { shared }, shared }:eval()
    local answer = SyncBatchNorm.convert_sync_batchnorm(top)
    line("converted=", int(answer == top), kind(top[0]), kind(top[1][0]), kind(top[2]), int(top[0] == top[1][0]),
      int(top[0].weight == top[1][0].weight), int(top[0].training), int(top[0].running_var == shared.running_var))
  end

  local function groups()
    local one = dist.new_group { 0 }
    local function numbers_here() return rs.tensor({ { 0.0 + rank }, { 2.0 + 4 * rank } }, { device = device }) end
    local norm = here(SyncBatchNorm(1, { process_group = one, momentum = 1.0 }))
    norm(numbers_here())
    line("group-of-one", flat(norm.running_mean))
    norm = here(SyncBatchNorm(1, { momentum = 1.0 }))
    norm(numbers_here())
    line("group-of-all", flat(norm.running_mean), flat(norm.running_var))
    local kinds = {}
    for i, shape in ipairs { { 3 }, { 2, 0 }, { 2, 3 } } do
      kinds[i] = raised(function() norm(rs.zeros(shape, { device = device })) end)
    end
    line("refusals=", kinds)
    norm:eval()
    line("eval", flat(norm(rs.ones({ 1, 1 }, { device = device }))))
  end

  module()
  empty()
  trained { 2, 3 }
  trained { 0, 4 }
  conversion()
  groups()
  return lines
end

local ranks = dist.spawn(on_rank, { world = 2 })
for rank = 0, 1 do
  for _, text in ipairs(ranks[rank]) do print(text) end
end
