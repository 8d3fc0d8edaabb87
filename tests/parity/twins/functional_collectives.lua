-- Collectives with a backward, of torch.distributed.nn.functional and of _functional_collectives: results and gradients on
-- each rank of worlds of 2 and 3, a contrastive loss over all ranks, and a gradient of a gradient.
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "functional collectives", devices = 0 }

local function work(rank, world)
  local nn, fc = dist.nn, dist.functional
  local function filled(size, value)
    local count, values = 1, {}
    for _, n in ipairs(size) do count = count * n end
    for i = 0, count - 1 do values[i + 1] = value(i) end
    return rs.tensor(values):reshape(size)
  end
  local function leaf(r, ...)
    return filled({ ... }, function(i) return ((7 * i + 5 * r) % 11 - 4) / 3 end):requires_grad_()
  end
  local function weighed(y)
    return (filled(y.shape, function(i) return ((3 * i + 2 * rank) % 7 - 2) / 4 end) * y):sum()
  end
  local function several(x)
    local list = {}
    for i = 1, world do list[i] = x * i end
    return list
  end
  local function zeros(...)
    local list = {}
    for i = 1, world do list[i] = rs.zeros { ... } end
    return list
  end

  local lines = {}
  local function line(name, tensors)
    local words = { string.format("world%d-rank%d-%s", world, rank, name) }
    for _, t in ipairs(tensors) do
      for _, v in ipairs(t:detach():reshape(-1):tolist()) do words[#words + 1] = string.format("%.9g", v) end
    end
    lines[#lines + 1] = table.concat(words, " ")
  end
  local function case(name, f, ...)
    local x = leaf(rank, ...)
    local y = f(x)
    local outputs = type(y) == "table" and y or { y }
    local loss = weighed(outputs[1])
    for i = 2, #outputs do loss = loss + weighed(outputs[i]) end
    loss:backward()
    line(name, outputs)
    line(name .. "-grad", { x.grad })
  end

  local sizes, mine, total = {}, {}, 0
  for r = 1, world do sizes[r], mine[r], total = r, rank + 1, total + r end
  for _, op in ipairs { "SUM", "AVG", "MAX", "MIN", "PRODUCT" } do
    case("nn-all_reduce-" .. op, function(x) return nn.all_reduce(x, dist.ReduceOp[op]) end, 5)
    if op ~= "PRODUCT" then
      case("fc-all_reduce-" .. op, function(x) return fc.all_reduce(x, op:lower()) end, 5)
    end
  end
  case("fc-all_reduce-ties", function(x) return fc.all_reduce(x:round(), "max") end, 6)
  case("nn-broadcast", function(x) return nn.broadcast(x, 1) end, 2, 3)
  case("fc-broadcast", function(x) return fc.broadcast(x, 1) end, 2, 3)
  case("nn-reduce", function(x) return nn.reduce(x, 1) * (rank == 1 and 1 or 0) + 0 end, 4)
  case("nn-reduce-max", function(x) return nn.reduce(x, 0, dist.ReduceOp.MAX) * (rank == 0 and 1 or 0) + 0 end, 4)
  case("nn-gather", function(x) return nn.gather(x, 1) end, 3)
  case("nn-scatter", function(x) return nn.scatter(several(x), 1) end, 3)
  case("nn-reduce_scatter", function(x) return nn.reduce_scatter(rs.zeros { 3 }, several(x)) end, 3)
  case("nn-all_gather", function(x) return nn.all_gather(x) end, 2, 2)
  case("nn-all_to_all", function(x) return nn.all_to_all(zeros(2), several(x)) end, 2)
  case("nn-all_to_all_single", function(x) return nn.all_to_all_single(rs.zeros { 2 * world, 2 }, x) end, 2 * world, 2)
  case("nn-all_to_all_single-splits", function(x)
    return nn.all_to_all_single(rs.zeros { total }, x, sizes, mine)
  end, (rank + 1) * world)
  for _, dim in ipairs { 0, 1, -1 } do
    case("fc-all_gather_tensor-" .. dim, function(x) return fc.all_gather_tensor(x, dim) end, 2, 3, 2)
  end
  case("fc-all_gather_single_autograd", function(x) return fc.all_gather_single_autograd(x, 0) end, 3)
  for dim = 0, 1 do
    case("fc-reduce_scatter_tensor-" .. dim, function(x) return fc.reduce_scatter_tensor(x, "sum", dim) end, 2 * world, world)
  end
  case("fc-all_to_all_single", function(x) return fc.all_to_all_single(x) end, world, 3)
  case("fc-all_to_all_single-splits", function(x)
    return dist._functional_collectives.all_to_all_single(x, sizes, mine)
  end, (rank + 1) * world, 2)

  local a, b = leaf(rank, 2, 4), leaf(rank + 3, 2, 4)
  local loss = rs.nn.functional.cross_entropy(a:matmul(rs.cat(nn.all_gather(b)):t()), rs.arange(2) + 2 * rank)
  loss:backward()
  line("contrastive-loss", { loss })
  line("contrastive-a", { a.grad })
  line("contrastive-b", { b.grad })
  local x = leaf(rank, 4)
  local grad = rs.autograd.grad((nn.functional.all_reduce(x) ^ 3):sum(), { x }, { create_graph = true })
  line("curvature", { (rs.autograd.grad((grad * leaf(rank + 1, 4):detach()):sum(), { x })) })
  return lines
end

for world = 2, 3 do
  local ranks = dist.spawn(work, { world = world, args = { world } })
  for rank = 0, world - 1 do
    for _, text in ipairs(ranks[rank]) do print(text) end
  end
end
