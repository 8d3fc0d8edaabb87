-- Checks of exercise 12. Times are worked out by formula, and then the all-reduces run: the record has the last word.
local rs = require "ringside"
local dist = rs.distributed

local world, unit, even = rs.vary(6, { 5, 7, 12 }), rs.vary(6720, { 13440, 3360 }), rs.vary(8, { 4, 16 })
rs.lesson { title = "Exercise: choose by size", hardware = "classroom", costs = { host = 0, kernel = 0 }, seed = 12 }

local text = {
  checks = {
    ring = "how long the ring takes for %d bytes on %d ranks",
    tree = "how long the tree takes on %d ranks",
    halving = "how long halving-doubling takes",
    ran = "%s on %d ranks: so long it took",
    right = "the ten sums are right",
    beaten = "ten sizes by your choice are faster than all of them by %s",
  },
  hints = {
    ring = { "2 (N - 1) steps.", "Each carries an N-th of the bytes: 10 + bytes / N / 10000 us." },
    tree = { "Pairs first, then pairs of pairs: how many rounds until one has all? And the same down.", "Each round carries the whole tensor." },
    halving = {
      "Folding is one whole message at the beginning and one at the end, if the world is no power of two.",
      "Between: a half, a quarter, ... of the bytes, down to a P-th, and the same back.",
    },
    choose = {
      "Small: few steps in a row. Large: few bytes of the busiest rank.",
      "Compute the three times for these bytes and this world, and take the smallest.",
    },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()

local function hop(bytes) return 10 + bytes / 10000 end
local function ring_us(bytes) return 2 * (world - 1) * hop(bytes / world) end
local function tree_us(bytes) return 2 * math.floor(math.log(even, 2) + 0.5) * hop(bytes) end
local function halving_doubling_us(bytes)
  local power = 2 ^ math.floor(math.log(world, 2))
  return 2 * hop(bytes) + 2 * math.floor(math.log(world, 2)) * 10 + 2 * (power - 1) / power * bytes / 10000
end

-- All-reduces of these sizes, one after the other: how long they took together, and whether the sums are right.
local function run(sizes, choose, ranks)
  local world = ranks or world
  local seq, names = rs.trace:seq(), {}
  for i, bytes in ipairs(sizes) do names[i] = choose(bytes, world) end
  local right = dist.spawn(function(rank)
    local all = true
    for i, bytes in ipairs(sizes) do
      local t = rs.full({ bytes // 4 }, rank + 1.0)
      dist.all_reduce(t, { algorithm = names[i] })
      all = all and t[bytes // 4 - 1]:item() == world * (world + 1) / 2
    end
    return all
  end, { world = world })
  local us, good = 0, true
  for _, event in ipairs(rs.trace:events { kind = "c10d.allreduce", rank = 0 }) do
    if event.seq > seq then us = us + rs.trace:duration(event) end
  end
  for rank = 0, world - 1 do good = good and right[rank] end
  return us, good
end

local bytes = 20 * unit
rs.close(checks.ring:format(bytes, world), student.ring_us(bytes, world), ring_us(bytes), { hints = hints.ring })
rs.close(checks.tree:format(even), student.tree_us(bytes, even), tree_us(bytes), { hints = hints.tree })
rs.close(checks.halving, student.halving_doubling_us(bytes, world), halving_doubling_us(bytes), { hints = hints.halving })
for _, way in ipairs { { "ring", world, ring_us }, { "halving_doubling", world, halving_doubling_us }, { "tree", even, tree_us } } do
  local name, ranks, us = way[1], way[2], way[3]
  local took = run({ bytes }, function() return name end, ranks)
  rs.close(checks.ran:format(name, ranks), us(bytes), took, 0.01, { virtual = true })
end

local sizes = {}
for i, times in ipairs { 1, 2, 5, 10, 20, 40, 80, 160, 320, 600 } do sizes[i] = times * unit end
local mine, right = run(sizes, student.choose)
rs.check(checks.right, right, { hints = hints.choose })
for _, name in ipairs { "ring", "tree", "halving_doubling" } do
  rs.check(checks.beaten:format(name), mine < run(sizes, function() return name end), { virtual = true, hints = hints.choose })
end
