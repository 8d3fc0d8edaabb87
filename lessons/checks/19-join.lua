-- Checks of exercise 19. What each rank trains on, the shortest list gives; how many buckets it sent, the record has.
local rs = require "ringside"
local nn, optim, dist = rs.nn, rs.optim, rs.distributed

local world, shortest = rs.vary(2, { 3, 4 }), rs.vary(3, { 1, 2, 5 })
local longer, late = rs.vary(2, { 1, 4 }), rs.vary(0, { 1 })
rs.lesson { title = "Exercise: when data runs out", hardware = "classroom", seed = 19 }

local text = {
  checks = {
    runs = "%d ranks, lists of %s inputs: all come to the end",
    steps = "lists of %s inputs: rank %d makes %d steps",
    weight = "lists of %s inputs: rank %d ends with the weight that these steps give",
    again = "the next call, lists of %s inputs: rank %d ends with the weight that both calls give",
    none = "a rank without inputs: rank %d makes no step",
  },
  hints = {
    runs = {
      "What was told stands above: who waits for whom?",
      "Each rank knows the length of its own list alone. Which collective tells all of them the shortest?",
      "dist.all_reduce(length, dist.ReduceOp.MIN), before the first step.",
    },
    steps = {
      "As many steps as the shortest list has inputs, on every rank.",
      "Count from 1 to the shortest length, in the place of ipairs.",
    },
    weight = { "Each step with the next input: inputs[i], from the first one on." },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()

-- Rank r's i-th input is r + i; rank `late` has the shortest list.
local function length(rank, least, more) return rank == late % world and least or least + more * (1 + rank % 2) end
local function lengths(least, more)
  local list = {}
  for rank = 0, world - 1 do list[rank + 1] = length(rank, least, more) end
  return table.concat(list, ", ")
end

local function train(rank, calls)
  local net, told = nn.Linear(1, 1, { bias = false }), {}
  nn.init.zeros_(net.weight)
  local ddp = nn.parallel.DistributedDataParallel(net)
  local sgd = optim.SGD(ddp:parameters(), { lr = 0.25 })
  for call, how in ipairs(calls) do
    local inputs, seq = {}, rs.trace:seq()
    for i = 1, length(rank, how[1], how[2]) do inputs[i] = rs.full({ 1, 1 }, rank + i + 0.0) end
    student.train(ddp, sgd, inputs)
    local sent = ("optim.step and rank %d and seq >= %d"):format(rank, seq)
    told[call] = { steps = rs.trace:count(sent), w = net.weight:item() }
  end
  return told
end

local function run(calls)
  local worked, told = pcall(dist.spawn, train, { world = world, args = { calls } })
  if not worked then rs.say(tostring(told):match "[^\n]*") end
  return worked, worked and told or {}
end

-- What steps 1 to n take from w: a quarter of the mean of r + i over the ranks.
local function moved(n)
  local sum = 0
  for i = 1, n do sum = sum + (world - 1) / 2 + i end
  return -0.25 * sum
end

local first, second = { shortest, longer }, { 2, 1 }
local worked, told = run { first, second }
local these, those = lengths(first[1], first[2]), lengths(second[1], second[2])
rs.check(checks.runs:format(world, these), worked, { hints = hints.runs })
for _, rank in ipairs { 0, world - 1 } do
  local one, two = (told[rank] or {})[1] or {}, (told[rank] or {})[2] or {}
  rs.close(checks.steps:format(these, rank, shortest), one.steps or -1, shortest, { hints = hints.steps })
  rs.close(checks.weight:format(these, rank), one.w or 1, moved(shortest), 1e-4, { hints = hints.weight })
  rs.close(checks.again:format(those, rank), two.w or 1, moved(shortest) + moved(2), 1e-4, { hints = hints.weight })
end
worked, told = run { { 0, 2 } }
for _, rank in ipairs { 0, world - 1 } do
  rs.close(checks.none:format(rank), (told[rank] and told[rank][1] or {}).steps or -1, 0, { hints = hints.steps })
end
