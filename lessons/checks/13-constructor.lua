-- Checks of exercise 13. The student's build runs on all ranks, without DDP; what it should lead to is then seen in a
-- training: weights that began apart stay apart, and masks that are drawn alike are one rank's.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

local world, rows = rs.vary(2, { 3, 4, 5 }), rs.vary(4, { 2, 3, 6 })
local seed, steps = rs.vary(7, { 1, 30, 1000 }), rs.vary(3, { 2, 5 })
local lr, gap = rs.vary(0.1, { 0.5, 0.25 }), rs.vary(1, { 2, 0.5 })
rs.lesson { title = "Exercise: equal weights, dropout of its own", hardware = "classroom", seed = 13 }

local WIDTH = 64
local text = {
  checks = {
    equal = "%d ranks begin with the same weights",
    drawn = "and with another seed with other ones",
    own = "each rank drops other elements",
    again = "and the same ones when the job is started again",
    gap = "how far apart the weights are at the end",
    ran = "the record agrees",
    alike = "in how many ways, with the same dropout on all ranks",
    each = "and with one of their own",
  },
  hints = {
    equal = {
      "make() draws from the rank's generator. What must all ranks do before they call it?",
      "rs.manual_seed(seed) before make() gives all ranks the same weights: seed without the rank.",
    },
    own = {
      "The weights are drawn when make() is through. What comes after that may differ.",
      "Seed again after make(), with a number that contains the rank.",
    },
    again = { "Seed with seed and rank, with nothing that changes from run to run." },
    gap = {
      "Both subtract the same from their weights, whatever that is.",
      "(a - g) - (b - g) is a - b: nobody comes nearer.",
    },
    ways = {
      "If all drop alike, row 1 of rank 0 and row 1 of rank 1 lose the same elements.",
      "Alike: as many as one rank has rows. Else as many as all have together.",
    },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()

local function make() return nn.Linear(WIDTH, WIDTH) end
local dropout = nn.Dropout(0.5)

-- The weights that each rank has after build, and its mask for every row; nil where build answers no model.
local function run(of_seed)
  local build = student.build
  local worked, ranks = pcall(dist.spawn, function(rank)
    local net = build(rank, of_seed, make)
    return { weights = net.weight:view(-1):tolist(), masks = dropout(rs.ones(rows, WIDTH)):tolist() }
  end, { world = world })
  if worked then return ranks end
  rs.say(tostring(ranks))
  return nil
end

local function same(a, b) return rs.equal(rs.tensor(a), rs.tensor(b)) end
local function all_equal(ranks)
  local equal = ranks ~= nil
  for rank = 1, world - 1 do equal = equal and same(ranks[rank].weights, ranks[0].weights) end
  return equal
end

-- How many different masks some ranks' rows have.
local function different(ranks)
  local seen, count = {}, 0
  for rank = 0, world - 1 do
    for _, mask in ipairs(ranks[rank].masks) do
      local key = table.concat(mask, " ")
      count, seen[key] = count + (seen[key] and 0 or 1), true
    end
  end
  return count
end

local ranks, again, other = run(seed), run(seed), run(seed + 100)
rs.check(checks.equal:format(world), all_equal(ranks), { hints = hints.equal })
local changed = ranks ~= nil and all_equal(other) and not same(other[0].weights, ranks[0].weights)
rs.check(checks.drawn, changed, { hints = hints.equal })
rs.check(checks.own, ranks ~= nil and different(ranks) == world * rows, { hints = hints.own })
local repeats = ranks ~= nil and again ~= nil
for rank = 0, world - 1 do repeats = repeats and same(ranks[rank].masks, again[rank].masks) end
rs.check(checks.again, repeats, { hints = hints.again })

-- init_sync = false: nobody makes the ranks equal.
local ends = dist.spawn(function(rank)
  local net = nn.Linear(1, 1, { bias = false })
  net.weight.data:fill_(1 + rank * gap)
  local ddp = nn.parallel.DistributedDataParallel(net, { init_sync = false })
  local optimizer = rs.optim.SGD(net:parameters(), { lr = lr })
  for _ = 1, steps do
    optimizer:zero_grad()
    ddp(rs.ones(1, 1) * (rank + 1)):sum():backward()
    optimizer:step()
  end
  return net.weight:item()
end, { world = 2 })
local guess = student.gap_after(gap, lr, steps)
rs.close(checks.gap, guess, gap, { hints = hints.gap })
rs.close(checks.ran, guess, ends[1] - ends[0], 1e-5, { hints = hints.gap })

local alike = dist.spawn(function()
  rs.manual_seed(seed)
  return { masks = dropout(rs.ones(rows, WIDTH)):tolist() }
end, { world = world })
rs.close(checks.alike, student.ways(world, rows, true), different(alike), { hints = hints.ways })
rs.close(checks.each, student.ways(world, rows, false), world * rows, { hints = hints.ways })
