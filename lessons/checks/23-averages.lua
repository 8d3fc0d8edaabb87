-- Checks of exercise 23. The gradient of the mean over all tokens is that of one process which has them all; what ranks sent
-- the record has.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

local world, w = rs.vary(2, { 3, 4 }), rs.vary(2, { 1, 3 })
local lengths = { [0] = rs.vary(5, { 4, 7 }), rs.vary(3, { 1, 2 }), 6, 1 }
local many = rs.vary(2, { 3, 4 })
rs.lesson { title = "Exercise: every token counts alike", hardware = "classroom", seed = 23 }

local text = {
  checks = {
    loss = "loss: rank %d has the gradient of the mean over all tokens",
    value = "loss: the ranks' losses have that mean as their mean",
    once = "loss: DDP's hooks sent the gradient, once",
    accumulate = "accumulate: rank %d has the gradient of the mean over all tokens",
    equal = "accumulate: with sequences of one length, too",
    log = "log: rank %d has the mean over all tokens",
  },
  hints = {
    loss = {
      "DDP divides by the ranks. What has to stand before your sum of losses, so that each token counts 1 / (all tokens)?",
      "world / total, with the total of all ranks' tokens: an all_reduce of a count.",
    },
    value = { "Multiply your rank's sum by world / total, and answer that." },
    once = { "loss answers what ddp's outputs became: backward is called by who asked for it." },
    accumulate = {
      "The mean of each sequence's mean is no mean over tokens.",
      "Count the tokens of all your sequences first, and all-reduce that. Each sequence's sum counts world / total.",
    },
    equal = { "Gradients of several backwards add up. Nobody divides by the number of sequences, unless you do." },
    log = { "All-reduce the sum of losses and their number; then divide." },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()

-- Rank r's sequence i: so many tokens, each of another value.
local function sequence(rank, i, length)
  return rs.arange(length, { dtype = "float32" }):view { length, 1 } * 0.25 + (rank + 1.0) / (i + 1)
end
local function length_of(rank, i) return 1 + (lengths[rank] + 3 * i) % 8 end
local function layer()
  local net = nn.Linear(1, 1, { bias = false })
  nn.init.constant_(net.weight, w)
  return net
end

-- What one process gets from all tokens: the gradient, the mean.
local function alone(sequences)
  local net  = layer()
  local mean = net(rs.cat(sequences)):pow(2):mean()
  mean:backward()
  return net.weight.grad:item(), mean:item()
end
-- f(ddp, rank) on all ranks: what each answers, or -1, and its gradient.
local function run(f)
  local worked, told = pcall(dist.spawn, function(rank)
    local ddp = nn.parallel.DistributedDataParallel(layer())
    local answer = f(ddp, rank)
    return { type(answer) == "number" and answer or -1, ddp.module.weight.grad and ddp.module.weight.grad:item() or -1 }
  end, { world = world })
  if not worked then rs.say(tostring(told)) end
  return function(rank, place) return worked and told[rank][place] or -1 end
end
local function near(expected) return 1e-5 * math.abs(expected) end

local all, seq = {}, rs.trace:seq()
for rank = 0, world - 1 do all[rank + 1] = sequence(rank, 0, lengths[rank]) end
local gradient, mean = alone(all)
local told = run(function(ddp, rank)
  local loss = student.loss(ddp, sequence(rank, 0, lengths[rank]))
  loss:backward()
  return loss:item()
end)
local sum, buckets = 0, rs.trace:count(("ddp.all_reduce_bucket and rank 0 and seq >= %d"):format(seq))
for rank = 0, world - 1 do sum = sum + told(rank, 1) end
for _, rank in ipairs { 0, world - 1 } do
  rs.close(checks.loss:format(rank), told(rank, 2), gradient, near(gradient), { hints = hints.loss })
end
rs.close(checks.value, sum / world, mean, near(mean), { hints = hints.value })
rs.close(checks.once, buckets, 1, { hints = hints.once })

local function accumulates(name, length, ranks)
  local every = {}
  for rank = 0, world - 1 do
    for i = 1, many do every[#every + 1] = sequence(rank, i, length(rank, i)) end
  end
  local expected = alone(every)
  local got = run(function(ddp, rank)
    local mine = {}
    for i = 1, many do mine[i] = sequence(rank, i, length(rank, i)) end
    student.accumulate(ddp, mine)
  end)
  for _, rank in ipairs(ranks) do
    rs.close(name:format(rank), got(rank, 2), expected, near(expected), { hints = name == checks.equal and hints.equal or hints.accumulate })
  end
end
accumulates(checks.accumulate, length_of, { 0, world - 1 })
accumulates(checks.equal, function() return 3 end, { 0 })

told = run(function(ddp, rank) return student.log(ddp(sequence(rank, 0, lengths[rank])):pow(2):detach()) end)
for _, rank in ipairs { 0, world - 1 } do
  rs.close(checks.log:format(rank), told(rank, 1), mean, near(mean), { hints = hints.log })
end
