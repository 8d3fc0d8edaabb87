-- Checks of exercise 17. What each rank accumulates, its micro-batches give; what it sent, the record has.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

local world, width = rs.vary(2, { 3, 4 }), rs.vary(4, { 1, 3, 6 })
local many, first = rs.vary(8, { 3, 5, 12 }), rs.vary(0, { 1, -2 })
rs.lesson { title = "Exercise: accumulate, then send once", hardware = "classroom", seed = 17 }

local text = {
  checks = {
    runs = "%d ranks come to the end",
    grad = "%d micro-batches: on rank %d the gradients are the mean over all ranks' micro-batches",
    bytes = "%d micro-batches: rank %d all-reduces as few bytes as can be",
    again = "the next step, after zero_grad: rank %d has the mean",
    less = "the next step: rank %d all-reduces as few bytes as can be",
    one = "a single micro-batch: rank %d has the mean",
    sent = "a single micro-batch: rank %d sends it",
  },
  hints = {
    runs = { "What was told stands above. Every rank has to call ddp equally often, in the same ways." },
    grad = {
      "Sent once at the end, grad is the sum over the micro-batches; DDP divides by the ranks, you by the micro-batches.",
      "Divide each loss by #batches before its backward.",
    },
    bytes = {
      "How many all-reduces does your loop make? The gradients have to travel once.",
      "ddp:no_sync(function() ... end) around all but the last.",
      "Around forward and backward: lesson 17 tells which of the two decides.",
    },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()

-- Rank r's micro-batch i is filled with first + r * count + i.
local function value(rank, i, count) return first + rank * count + i end

local function mean(count)
  local sum = 0
  for rank = 0, world - 1 do
    for i = 0, count - 1 do sum = sum + value(rank, i, count) end
  end
  return sum / (count * world)
end

-- Two steps of so many micro-batches. Of each: the gradients, and what this rank has all-reduced.
local function train(rank, count)
  local ddp, told = nn.parallel.DistributedDataParallel(nn.Linear(width, 2)), {}
  for step = 1, 2 do
    ddp:zero_grad()
    local batches, since = {}, rs.trace:seq()
    for i = 0, count - 1 do batches[i + 1] = rs.full({ 1, width }, value(rank, i, count) * 1.0) end
    student.accumulate(ddp, batches)
    local bytes = 0
    for _, sent in ipairs(rs.trace:events(("c10d.allreduce and rank %d and seq >= %d"):format(rank, since))) do
      bytes = bytes + sent.args.bytes
    end
    local weight, bias = ddp.module.weight.grad, ddp.module.bias.grad
    told[step] = { bytes = bytes, weight = weight and weight:tolist(), bias = bias and bias:tolist() }
  end
  return told
end

local function run(count)
  local worked, told = pcall(dist.spawn, train, { world = world, args = { count } })
  if not worked then rs.say(tostring(told)) end
  return worked, worked and told or {}
end

local function expected(count)
  local row = {}
  for i = 1, width do row[i] = mean(count) end
  return { { row, row }, { 1, 1 } }
end
local function gradients(told, rank, step)
  local one = told[rank] and told[rank][step] or {}
  return { one.weight or {}, one.bias or {} }, one.bytes
end

local least = 4 * (2 * width + 2)
local worked, told = run(many)
rs.check(checks.runs:format(world), worked, { hints = hints.runs })
for _, rank in ipairs { 0, world - 1 } do
  local grads, bytes = gradients(told, rank, 1)
  rs.close(checks.grad:format(many, rank), grads, expected(many), 1e-4, { hints = hints.grad })
  rs.close(checks.bytes:format(many, rank), bytes, least, { hints = hints.bytes })
  grads, bytes = gradients(told, rank, 2)
  rs.close(checks.again:format(rank), grads, expected(many), 1e-4, { hints = hints.grad })
  rs.close(checks.less:format(rank), bytes, least, { hints = hints.bytes })
end
worked, told = run(1)
for _, rank in ipairs { 0, world - 1 } do
  local grads, bytes = gradients(told, rank, 1)
  rs.close(checks.one:format(rank), grads, expected(1), 1e-4, { hints = hints.grad })
  rs.close(checks.sent:format(rank), bytes, least, { hints = hints.bytes })
end
