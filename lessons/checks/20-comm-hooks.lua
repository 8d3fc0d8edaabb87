-- Checks of exercise 20. One backward by hand, with gradients that are told; then 20 steps beside DDP without a hook.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

local world, k = rs.vary(2, { 3, 4 }), rs.vary(2, { 1, 3 })
local width, seed = rs.vary(24, { 18, 30, 36 }), rs.vary(5, { 6, 7, 8, 9 })
rs.lesson { title = "Exercise: the largest k", hardware = "classroom", costs = { host = 0, kernel = 0 }, seed = 20 }

local text = {
  checks = {
    runs = "%d ranks come to the end",
    mean = "backward %d: the gradient is the mean of each rank's %d largest",
    kept = "backward %d: memory[0] is what this rank has not sent",
    lost = "nothing is lost: what was sent and what is kept make all gradients so far",
    bytes = "a rank gives at most %d numbers and %d places to its collectives",
    loss = "20 steps: the loss is within 5 % of that without a hook",
    equal = "and all ranks have the same weights",
  },
  hints = {
    runs = {
      "The hook answers a Future: rs.futures.Future(), then set_result.",
      "dist.all_gather(list, tensor): a list of one tensor for each rank, of the shape and dtype of yours.",
    },
    mean = {
      "Furthest from 0: t:abs():topk(k) answers values and places; take the numbers themselves by gather.",
      "zeros:scatter_add_(0, places, numbers) puts a rank's numbers where they belong; several ranks' add up.",
      "Divide by the ranks, also where only one of them has sent something.",
    },
    kept = {
      "It is the bucket with 0 at the places that were sent.",
      "Keep a tensor of your own: the bucket's memory is used again.",
    },
    lost = { "Add memory[0] to the bucket before you choose: choose among both." },
    bytes = { "k numbers of 4 bytes and k places of 8: all_gather both, no all-reduce of the bucket." },
    loss = { "Without the memory small gradients would never be sent: error feedback adds them up until they are large." },
    equal = { "The mean must be the same tensor on all ranks: add up all ranks' numbers, your own as well." },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()

-- The k largest of a list of numbers by what they are without a sign, as a list with 0 elsewhere.
local function largest(numbers)
  local order, out = {}, {}
  for i = 1, #numbers do order[i], out[i] = i, 0 end
  table.sort(order, function(a, b) return math.abs(numbers[a]) > math.abs(numbers[b]) end)
  for i = 1, k do out[order[i]] = numbers[order[i]] end
  return out
end

local function told(rank, step)
  rs.manual_seed(100 * seed + 10 * step + rank)
  return rs.randn(1, width)
end

-- Two backwards of w . x, whose gradient is x. Of each: the gradient and what is kept.
local function by_hand(rank, many)
  local ddp, memory, out = nn.parallel.DistributedDataParallel(nn.Linear(width, 1, { bias = false })), {}, {}
  ddp:register_comm_hook(nil, function(_, bucket) return student.hook(many, memory, bucket) end)
  for step = 1, 2 do
    ddp:zero_grad()
    ddp(told(rank, step)):sum():backward()
    local kept = memory[0]
    out[step] = { grad = ddp.module.weight.grad:flatten():tolist(), kept = kept and kept:flatten():tolist() or {} }
  end
  return out
end

local seq = rs.trace:seq()
local worked, got = pcall(dist.spawn, by_hand, { world = world, args = { k } })
rs.check(checks.runs:format(world), worked, { hints = hints.runs })
local rest, given = {}, {}
for step = 1, 2 do
  local mean, kept = {}, true
  for i = 1, width do mean[i] = 0 end
  for rank = 0, world - 1 do
    local wanted = told(rank, step):flatten():tolist()
    for i = 1, width do wanted[i] = wanted[i] + (rest[rank] and rest[rank][i] or 0) end
    local sent, left = largest(wanted), {}
    for i = 1, width do
      mean[i], left[i] = mean[i] + sent[i] / world, wanted[i] - sent[i]
    end
    rest[rank] = left
    kept = kept and worked and rs.allclose(rs.tensor(left), rs.tensor(#got[rank][step].kept == width and got[rank][step].kept or mean),
      { atol = 1e-5 })
  end
  given[step] = mean
  local right = worked
  for rank = 0, world - 1 do
    right = right and rs.allclose(rs.tensor(mean), rs.tensor(got[rank][step].grad), { atol = 1e-5 })
  end
  rs.check(checks.mean:format(step, k), right, { hints = hints.mean })
  rs.check(checks.kept:format(step), kept, { hints = hints.kept })
end

-- Over both backwards: the means, times the ranks, and what the ranks keep are all that they had.
local whole = worked
for i = 1, width do
  local had, has = 0, 0
  for rank = 0, world - 1 do
    for step = 1, 2 do had = had + told(rank, step):flatten():tolist()[i] end
    has = has + (worked and (got[rank][2].kept[i] or math.huge) or 0)
  end
  for step = 1, 2 do has = has + (worked and got[0][step].grad[i] * world or 0) end
  whole = whole and math.abs(had - has) < 1e-4
end
rs.check(checks.lost, whole, { hints = hints.lost })

-- The buckets' collectives: those that were issued inside of a hook.
local small = worked
for rank = 0, world - 1 do
  local ends = rs.trace:events { kind = "ddp.comm_hook", rank = rank, phase = "end" }
  for i, begin in ipairs(rs.trace:events { kind = "ddp.comm_hook", rank = rank }) do
    local window = ("c10d.issue and rank %d and seq > %d and seq < %d"):format(rank, math.max(begin.seq, seq), ends[i].seq)
    local bytes = 0
    for _, issue in ipairs(rs.trace:events(window)) do bytes = bytes + issue.args.bytes end
    small = small and bytes > 0 and bytes <= 12 * k
  end
end
rs.check(checks.bytes:format(k, k), small, { hints = hints.bytes })

-- A regression whose targets are not quite linear: after 20 steps both losses are near what cannot be learnt.
local function train(rank, hooked)
  rs.manual_seed(seed)
  local net = nn.Linear(width, 1)
  local truth, ddp, memory = rs.randn(width, 1), nn.parallel.DistributedDataParallel(net), {}
  if hooked then ddp:register_comm_hook(nil, function(_, bucket) return student.hook(width // 4, memory, bucket) end) end
  local optimizer = rs.optim.SGD(net:parameters(), { lr = 0.1 })
  rs.manual_seed(1000 * seed + rank)
  local x = rs.randn(64, width)
  local y, loss = x:mm(truth) * 0.5 + rs.randn(64, 1), nil
  for _ = 1, 20 do
    optimizer:zero_grad()
    loss = nn.functional.mse_loss(ddp(x), y)
    loss:backward()
    optimizer:step()
  end
  return { loss = nn.functional.mse_loss(net(x), y):item(), weights = net.weight:detach():flatten():tolist() }
end
local trained, hooked = pcall(dist.spawn, train, { world = world, args = { true } })
local plain = dist.spawn(train, { world = world, args = { false } })
local near, equal, with, without = trained, trained, 0, 0
for rank = 0, world - 1 do
  with, without = with + (trained and hooked[rank].loss or 0), without + plain[rank].loss
  equal = equal and rs.equal(rs.tensor(hooked[rank].weights), rs.tensor(hooked[0].weights))
end
near = near and math.abs(with - without) <= 0.05 * without
rs.check(checks.loss, near, { hints = hints.loss })
rs.check(checks.equal, equal, { hints = hints.equal })
