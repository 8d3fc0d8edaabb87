-- SyncBatchNorm on a device a rank, where the twin normalises all ranks' rows as one batch.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
rs.lesson { title = "SyncBatchNorm", devices = 4 }

local CASES = { { "rows", { 2, 2 }, 3, {}, 0.1, 1e-5 }, { "uneven", { 1, 4, 2 }, 2, { 3 }, 0.1, 1e-5 },
  { "planes", { 2, 3 }, 2, { 2, 3 }, 0.37, 1e-3 }, { "volumes", { 1, 1 }, 3, { 2, 1, 2 }, 1.0, 1e-5 },
  { "empty", { 0, 3 }, 2, {}, 0.1, 1e-5 }, { "alone", { 0, 0, 4, 0 }, 1, { 2 }, 0.1, 0.5 },
  { "kept", { 3, 2 }, 2, {}, 0.0, 1e-5 }, { "cumulative", { 2, 1, 3 }, 2, { 2 }, rs.none, 1e-5 },
  { "single", { 1, 1, 1, 1 }, 2, {}, 0.5, 1e-5 } }

local function numbers(shape, seed)
  local count, list = 1, {}
  for _, size in ipairs(shape) do count = count * size end
  for i = 0, count - 1 do list[i + 1] = ((i * 37 + seed * 11) % 101) / 32 - 1.5 end
  return rs.tensor(list, { dtype = "float32" }):reshape(shape)
end

local function line(name, tensor)
  local parts = { name }
  for _, value in ipairs(tensor:numel() > 0 and tensor:detach():to("cpu"):reshape { -1 }:tolist() or {}) do
    parts[#parts + 1] = ("%.9g"):format(value)
  end
  return table.concat(parts, " ")
end

-- A rank without rows hands on no gradient, which stands for zeros.
local function grad_of(tensor) return tensor.grad or rs.zeros_like(tensor) end

local function on_rank(rank, case)
  local name, rows, channels, places, momentum, eps = table.unpack(case)
  local device, shape = "device:" .. rank, { rows[rank + 1], channels, table.unpack(places) }
  local norm = nn.SyncBatchNorm(channels, { momentum = momentum, eps = eps })
  norm.weight = nn.Parameter(numbers({ channels }, 40) + 2)
  norm.bias = nn.Parameter(numbers({ channels }, 50))
  norm:to(device)
  local x = numbers(shape, 2 * rank + 1):to(device):requires_grad_()
  norm(x)
  local out = norm(x)
  out:backward(numbers(shape, 2 * rank + 2):to(device))
  local lines, head = {}, ("%s-rank%d-"):format(name, rank)
  for i, what in ipairs { { "out", out }, { "x.grad", grad_of(x) }, { "weight.grad", grad_of(norm.weight) },
    { "bias.grad", grad_of(norm.bias) } } do
    lines[i] = line(head .. what[1], what[2])
  end
  return { lines = lines, mean = line(name .. "-mean", norm.running_mean), var = line(name .. "-var", norm.running_var) }
end

for _, case in ipairs(CASES) do
  local ranks = dist.spawn(on_rank, { world = #case[2], args = { case } })
  for rank = 0, #case[2] - 1 do
    for _, text in ipairs(ranks[rank].lines) do print(text) end
    assert(ranks[rank].mean == ranks[0].mean and ranks[rank].var == ranks[0].var, "the ranks' statistics differ")
  end
  print(ranks[0].mean)
  print(ranks[0].var)
end
