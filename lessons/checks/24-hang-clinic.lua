-- Checks of exercise 24. Each program runs on all ranks, to its end or to its report; what it shall leave is worked out from
-- the samples.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

local world, w = rs.vary(2, { 3, 4 }), rs.vary(1, { 2, 5 })
local counts = { [0] = rs.vary(3, { 1, 6 }), rs.vary(5, { 2, 4 }), 1, 4 }
local calls  = rs.vary(3, { 4, 5 })
rs.lesson { title = "Exercise: three hangs", hardware = "classroom", costs = { host = 0, kernel = 0 }, seed = 24 }

local text = {
  checks = {
    ends = "%s: all ranks come to the end",
    out = "validate: rank 0 has what the model makes of x in eval",
    nothing = "validate: the other ranks have nothing",
    quiet = "validate: the validation sends nothing",
    trains = "validate: the next training step is as ever",
    all = "share: rank %d has made all calls",
    met = "share: rank %d has everybody's sum in each",
    weight = "train: rank %d's weight, after all batches of all ranks",
    steps = "train: rank 0 has gone through all of its batches",
  },
  hints = {
    validate = {
      "What does ddp(x) do before the model runs, that rank 0 cannot do alone?",
      "ddp.module is the model inside.",
    },
    share = {
      "The calls meet by their number. All ranks need one order.",
      "table.sort(names)",
    },
    train = {
      "Who is through has to answer the collectives of the others.",
      "That is what Join is for, lesson 19: ddp:join(function() ... end) around the loop.",
    },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()

-- f on all ranks: what it answers, or why it failed. Of a report the first two lines are told.
local function run(name, hint, f)
  local worked, told = pcall(dist.spawn, f, { world = world })
  if not worked then
    local head = tostring(told):gsub("\n\n.*", "")
    rs.say(head)
  end
  rs.check(checks.ends:format(name), worked, { hints = hint })
  return function(rank, place) return worked and told[rank][place] or -1 end
end

-- BatchNorm with weight 1 in eval: x - mean over the square root of variance, after one training step on 0 and 2 (rank 0's).
local mean, variance = 0.1 * 1, 0.9 + 0.1 * 2
local told = run("validate", hints.validate, function(rank)
  local ddp = nn.parallel.DistributedDataParallel(nn.BatchNorm1d(1))
  local function step() return ddp(rs.tensor { { 0.0 }, { 2.0 } } + 4 * rank):sum():backward() end
  step()
  local began = rs.trace:seq()
  local out = student.validate(ddp, rank == 0 and rs.tensor { { w + 0.0 }, { -3.0 } } or nil, rank)
  local sent = rs.trace:count(("c10d.broadcast and rank %d and seq >= %d"):format(rank, began))
  step()
  return { out and out:tolist() or "nothing", sent, ddp.module.num_batches_tracked:item(), ddp.module.training }
end)
local function normalised(x) return { (x - mean) / math.sqrt(variance + 1e-5) } end
rs.close(checks.out, told(0, 1), { normalised(w), normalised(-3) }, 1e-4, { hints = hints.validate })
rs.check(checks.nothing, told(world - 1, 1) == "nothing", { hints = hints.validate })
rs.check(checks.quiet, told(0, 2) == 0 and told(world - 1, 2) == 0, { hints = hints.validate })
rs.check(checks.trains, told(0, 3) == 2 and told(world - 1, 3) == 2 and told(world - 1, 4) == true, { hints = hints.validate })

-- Rank r's names begin with number r.
told = run("share", hints.share, function(rank)
  local table_of, names, made, right = {}, {}, 0, 0
  for i = 0, calls - 1 do
    local place = (i + rank) % calls
    names[i + 1] = ("tensor %d"):format(place)
    table_of[names[i + 1]] = function()
      local t = rs.full({ place + 1 }, rank + 1.0)
      dist.all_reduce(t)
      made = made + 1
      if t[0]:item() == world * (world + 1) / 2 then right = right + 1 end
    end
  end
  student.share(table_of, names)
  return { made, right }
end)
for _, rank in ipairs { 0, world - 1 } do
  rs.close(checks.all:format(rank), told(rank, 1), calls, { hints = hints.share })
  rs.close(checks.met:format(rank), told(rank, 2), calls, { hints = hints.share })
end

-- A batch's gradient is its one number, so the order of the batches does not matter: each moves w by lr times it, over world.
local function batch(rank, i) return rank + i / 2 end
local sum = 0
for rank = 0, world - 1 do
  for i = 1, counts[rank] do sum = sum + batch(rank, i) end
end
local seq = rs.trace:seq()
told = run("train", hints.train, function(rank)
  local net = nn.Linear(1, 1, { bias = false })
  nn.init.constant_(net.weight, w)
  local ddp, batches = nn.parallel.DistributedDataParallel(net), {}
  for i = 1, counts[rank] do batches[i] = rs.full({ 1, 1 }, batch(rank, i)) end
  student.train(ddp, rs.optim.SGD(net:parameters(), { lr = 0.1 }), batches)
  return { net.weight:item() }
end)
for rank = 0, world - 1 do
  if rank == 0 or rank == world - 1 then
    rs.close(checks.weight:format(rank), told(rank, 1), w - 0.1 * sum / world, 1e-4, { hints = hints.train })
  end
end
local forwards = rs.trace:count("ddp.forward and rank 0 and seq >= " .. seq)
rs.check(checks.steps, forwards >= counts[0], { hints = hints.train })
