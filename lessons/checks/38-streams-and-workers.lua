-- Checks of exercise 38. Ranks and workers read the parts; what arrives is counted.
local rs = require "ringside"
local data, dist = rs.utils.data, rs.distributed

local world, items = rs.vary(3, { 2, 4 }), rs.vary(14, { 11, 17, 23 })
rs.lesson { title = "Exercise: one stream, many readers", devices = 0, seed = 38 }

local text = {
  checks = {
    runs = "%d ranks with %d workers: all come to the end",
    once = "%d ranks with %d workers: each item comes once, but for the last that are left out",
    even = "%d ranks with %d workers: every rank gets as many",
  },
  hints = {
    once = {
      "How many readers are there? Each rank has info.num_workers of them, or is one itself where info is nil.",
      "A rank's share: every world-th item. Which of them does one worker take, so that the others have the rest?",
    },
    even = {
      "How many items can be dealt out so that every rank gets as many? The rest, at the end, is left out.",
      "items - items % world. It does not matter if the workers of one rank get different numbers.",
    },
    runs = { "What was told stands above: part answers a list of numbers." },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()

local Parts = data.IterableDataset("Parts")
function Parts:init(rank, ranks, count) self.rank, self.ranks, self.count = rank, ranks, count end
function Parts:iter()
  local list, i = student.part(self.rank, self.ranks, data.get_worker_info(), self.count), 0
  return function()
    i = i + 1
    return list[i]
  end
end

local function read(rank, ranks, workers, count)
  local got = {}
  for x in data.DataLoader(Parts(rank, ranks, count), { batch_size = rs.none, num_workers = workers }) do
    got[#got + 1] = x
  end
  return got
end

local function compare(ranks, workers, count)
  local place = { ranks, workers }
  local worked, told = pcall(dist.spawn, read, { world = ranks, args = { ranks, workers, count } })
  if not worked then rs.say(tostring(told)) end
  rs.check(checks.runs:format(table.unpack(place)), worked, { hints = hints.runs })
  local times, wanted, counts, each = {}, {}, {}, {}
  for i = 1, count do times[i], wanted[i] = 0, i <= count - count % ranks and 1 or 0 end
  for rank = 0, ranks - 1 do
    local got = worked and told[rank] or {}
    counts[rank + 1], each[rank + 1] = #got, count // ranks
    for _, i in ipairs(got) do
      if times[i + 1] then times[i + 1] = times[i + 1] + 1 end
    end
  end
  rs.close(checks.once:format(table.unpack(place)), times, wanted, { hints = hints.once })
  rs.close(checks.even:format(table.unpack(place)), counts, each, { hints = hints.even })
end

compare(world, 0, items)
compare(world, 2, items)
compare(world, 3, items + 1)
compare(1, 2, items)
