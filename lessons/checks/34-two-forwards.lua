-- Checks of exercise 34. The weight, the samples and how many ranks there are vary; what follows from them is worked out
-- on paper, and the record says how often gradients travelled.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

local world, w, forwards = rs.vary(2, { 3, 4 }), rs.vary(2, { 3, 0.5 }), rs.vary(2, { 3, 5 })
local first = { [0] = rs.vary(1, { 2, 5 }), rs.vary(2, { 3, 4 }), 6, 8 }
local second = { [0] = rs.vary(10, { 7, 20 }), rs.vary(20, { 30, 9 }), 1, 40 }
for rank = world, 3 do first[rank], second[rank] = nil, nil end
rs.lesson { title = "Exercise: two forwards", hardware = "classroom", seed = 34 }

local text = {
  checks = {
    mean = "train: all ranks have the mean",
    single = "and the gradients have travelled once",
    again = "and once more in a second call",
    penalty = "penalty: all ranks have the gradient of G * G",
    apart = "apart: each rank's gradient",
    ran = "the run agrees",
  },
  hints = {
    mean = {
      "The first backward uses up what the forwards armed.",
      "Add the outputs' sums, and call backward once.",
    },
    penalty = {
      "Square G, not g. G is known only after an all-reduce of the ranks' g.",
      "dist.all_reduce(mean, { op = \"avg\" }) of a detached copy of g. It is a number to the graph: nothing flows through it.",
      "d(G * G) = 2 G dG, and dG is the mean of the ranks' dg. DDP averages: backward of 2 * mean * g.",
    },
    apart = {
      "The first backward averages the first samples' gradients: the sample itself is the gradient.",
      "The second adds the rank's own.",
    },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()

-- f(ddp, w, rank) on all ranks: the gradient in w afterwards, rank 0's first. What is missing is a number that none is.
local function grads_after(f)
  local worked, told = pcall(dist.spawn, function(rank)
    local layer = nn.Linear(1, 1, { bias = false })
    nn.init.constant_(layer.weight, w)
    f(nn.parallel.DistributedDataParallel(layer), layer.weight, rank)
    return layer.weight.grad and layer.weight.grad:item() or -1
  end, { world = world })
  local list = {}
  for rank = 0, world - 1 do list[rank + 1] = worked and told[rank] or -1 end
  return list
end
local function sample(number) return rs.full({ 1, 1 }, number + 0.0) end
local function all(number)
  local list = {}
  for rank = 1, world do list[rank] = number end
  return list
end

local sum, squares = 0, 0
for rank = 0, world - 1 do
  sum, squares = sum + first[rank], squares + first[rank] ^ 2
end
local function samples(rank)
  local list = {}
  for i = 1, forwards do list[i] = sample(i * first[rank]) end
  return list
end
local mean = forwards * (forwards + 1) / 2 * sum / world
local train, penalty = student.train, student.penalty
local seq = rs.trace:seq()
local function sent()
  local count = 0
  for _, event in ipairs(rs.trace:events { kind = "ddp.all_reduce_bucket", rank = 0 }) do
    count = count + (event.seq > seq and 1 or 0)
  end
  return count
end
rs.close(checks.mean, grads_after(function(ddp, _, rank) train(ddp, samples(rank)) end), all(mean), 1e-6 * mean, { hints = hints.mean })
rs.close(checks.single, sent(), 1, { hints = hints.mean })
rs.close(checks.again, grads_after(function(ddp, _, rank)
  train(ddp, samples(rank))
  train(ddp, samples(rank))
end), all(2 * mean), 1e-6 * mean, { hints = hints.mean })

-- g = w x^2, so G = w m and G * G = w^2 m^2 with m the mean of the squares.
local m = squares / world
rs.close(checks.penalty, grads_after(function(ddp, weight, rank) penalty(ddp, weight, sample(first[rank])) end),
  all(2 * w * m * m), 1e-6 * w * m * m, { hints = hints.penalty })

local guess, expected, told = student.apart(first, second), {}, {}
for rank = 0, world - 1 do
  expected[rank + 1] = sum / world + second[rank]
  told[rank + 1]     = type(guess) == "table" and guess[rank] or -1
end
rs.close(checks.apart, told, expected, { hints = hints.apart })
rs.close(checks.ran, told, grads_after(function(ddp, _, rank)
  local a, b = ddp(sample(first[rank])), ddp(sample(second[rank]))
  a:sum():backward()
  b:sum():backward()
end), 1e-4, { hints = hints.apart })
