-- Checks of exercise 39. Each rank's rows are drawn; what the list must hold follows from them.
local rs = require "ringside"
local dist = rs.distributed

local world, width = rs.vary(3, { 2, 4, 5 }), rs.vary(3, { 1, 2, 7 })
local rows = { [0] = rs.vary(2, { 0, 1, 6 }), rs.vary(5, { 3, 4, 9 }), rs.vary(4, { 0, 2, 8 }), 1, 3 }
rs.lesson { title = "Exercise: lengths differ", hardware = "classroom", costs = { host = 0, kernel = 0 }, seed = 39 }

local text = {
  checks = {
    runs = "%d ranks come to the end",
    right = "each of them has every rank's rows",
    empty = "and if rank 0 has none",
    wasted = "what the padding costs",
  },
  hints = {
    runs = {
      "All ranks must call all_gather with tensors of one shape. Which number of rows can all agree on?",
      "One all_gather of the lengths, a tensor of one int64, comes first.",
      "Then a room of [longest, width] with `mine` in its first rows: room[{ rs.slice(0, n) }] = mine.",
    },
    right = {
      "Cut each tensor to its length again: list[i][{ rs.slice(0, length) }].",
      "List entry i is rank i - 1's.",
    },
    wasted = {
      "Zeros a rank adds: longest - rows[rank], times width.",
      "A float32 has 4 bytes, and each tensor makes world - 1 hops.",
    },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()

local function mine_of(rank, count) return rs.arange(count * width, { dtype = "float32" }):view(count, width) + 100 * rank end

-- Whether all ranks have every rank's rows.
local function run(counts)
  local gather = student.gather_rows
  local worked, got = pcall(dist.spawn, function(rank)
    local list = gather(mine_of(rank, counts[rank]))
    local right = type(list) == "table" and #list == dist.get_world_size()
    for from = 0, dist.get_world_size() - 1 do
      right = right and rs.equal(list[from + 1], mine_of(from, counts[from]))
    end
    return right
  end, { world = world })
  local right = worked
  for rank = 0, world - 1 do right = right and got[rank] end
  return worked, right
end

local worked, right = run(rows)
rs.check(checks.runs:format(world), worked, { hints = hints.runs })
rs.check(checks.right, right, { hints = hints.right })
local empty = { [0] = 0 }
for rank = 1, world - 1 do empty[rank] = rows[rank] + 1 end
worked, right = run(empty)
rs.check(checks.empty, right, { hints = hints.right })

local longest, zeros = 0, 0
for rank = 0, world - 1 do longest = math.max(longest, rows[rank]) end
for rank = 0, world - 1 do zeros = zeros + longest - rows[rank] end
rs.close(checks.wasted, student.padding_bytes(rows, width, world), zeros * width * 4 * (world - 1), { hints = hints.wasted })
