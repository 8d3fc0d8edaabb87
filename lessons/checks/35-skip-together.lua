-- Checks of exercise 35. Samples, scale and how many ranks there are vary; what follows from them is worked out on paper,
-- and the record says how many all-reduces it took.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

local world, scale = rs.vary(2, { 3, 4 }), rs.vary(4096, { 64, 512 })
local lost = rs.vary(2, { 1, 3 })
local samples = { [0] = { 1, 2, 3, 4 }, { 10, 20, 30, 40 }, { 5, rs.vary(7, { 9, 11 }), 1, 2 }, { 8, 8, 6, 4 } }
for rank = world, 3 do samples[rank] = nil end
samples[1][lost] = 0 / 0
rs.lesson { title = "Exercise: skip together", hardware = "classroom", seed = 35 }

local text = {
  checks = {
    good = "decide: all losses finite, all go on",
    bad = "one is nan: nobody goes on",
    inf = "one is infinite: nobody goes on",
    single = "each decision takes one all-reduce",
    skips = "update: an infinite gradient makes no step",
    half = "and halves the scale",
    steps = "finite ones are divided by the scale, and the step is made",
    keeps = "and the scale stays",
    second = "one bad gradient among good ones is enough, wherever it is",
    alone = "alone: the steps that were averaged with one another",
  },
  hints = {
    decide = {
      "A rank alone cannot know. Make 1 or 0 of isfinite, and ask all.",
      "flag = loss:isfinite():to(\"float32\"); dist.all_reduce(flag, { op = \"min\" }).",
    },
    single = { "The rank whose loss is bad has to call it, too." },
    update = {
      "Look at p.grad:isfinite():all() of every parameter before anything else.",
      "p.grad:div_(scale) on each, then opt:step().",
    },
    alone = {
      "Leave out each rank's nan first. Then the n-th of one meets the n-th of the others.",
      "The shortest list ends it.",
    },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()
local decide, update = student.decide, student.update

-- What decide says on each rank when rank 1's loss is `odd`; how many all-reduces rank 0 made.
local function decisions(odd)
  local seq = rs.trace:seq()
  local worked, told = pcall(dist.spawn, function(rank)
    return { decide(rs.tensor(rank == 1 and odd or rank + 1.0)) }
  end, { world = world })
  local list = {}
  for rank = 0, world - 1 do list[rank + 1] = worked and told[rank][1] end
  local all = ("kind = c10d.allreduce and phase = begin and rank 0 and seq >= %d"):format(seq)
  return list, rs.trace:count(all)
end
local function all(answer)
  local list = {}
  for rank = 1, world do list[rank] = answer end
  return list
end
local told, calls = decisions(5.0)
rs.close(checks.good, told, all(true), { hints = hints.decide })
local bad, more = decisions(0 / 0)
rs.close(checks.bad, bad, all(false), { hints = hints.decide })
rs.close(checks.inf, (decisions(math.huge)), all(false), { hints = hints.decide })
rs.close(checks.single, { calls, more }, { 1, 1 }, { hints = hints.single })

-- Two parameters of 1 with these gradients, rate 0.5: what they are afterwards, and the scale.
local function after(first, second)
  local params = { nn.Parameter(rs.ones { 2 }), nn.Parameter(rs.ones { 1 }) }
  params[1].grad, params[2].grad = rs.tensor(first), rs.tensor(second)
  local answer = update(rs.optim.SGD(params, { lr = 0.5 }), params, scale)
  return { params[1][0]:item(), params[1][1]:item(), params[2]:item() }, answer
end
local weights, next_scale = after({ math.huge, 1.0 }, { 1.0 })
rs.close(checks.skips, weights, { 1, 1, 1 }, { hints = hints.update })
rs.close(checks.half, next_scale, scale / 2, { hints = hints.update })
weights, next_scale = after({ 1.0 * scale, -2.0 * scale }, { 4.0 * scale })
rs.close(checks.steps, weights, { 0.5, 2, -1 }, 1e-6, { hints = hints.update })
rs.close(checks.keeps, next_scale, scale, { hints = hints.update })
weights, next_scale = after({ 1.0, 0 / 0 }, { 1.0 })
local late, half = after({ 1.0, 1.0 }, { -math.huge })
rs.close(checks.second, { weights, late, next_scale, half }, { { 1, 1, 1 }, { 1, 1, 1 }, scale / 2, scale / 2 }, { hints = hints.update })

local kept, shortest, expected = {}, 4, {}
for rank = 0, world - 1 do
  kept[rank] = {}
  for _, sample in ipairs(samples[rank]) do
    if sample == sample then table.insert(kept[rank], sample) end
  end
  shortest = math.min(shortest, #kept[rank])
end
for step = 1, shortest do
  local sum = 0
  for rank = 0, world - 1 do sum = sum + kept[rank][step] end
  expected[step] = sum / world
end
rs.close(checks.alone, student.alone(samples), expected, 1e-6, { hints = hints.alone })
