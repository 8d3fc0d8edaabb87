-- Checks of exercise 02. Elements, strides and bytes are worked out from the shape.
local rs = require "ringside"

local rows, columns = rs.vary(4, { 3, 5, 6, 7 }), rs.vary(3, { 2, 4, 5 })
rs.lesson { title = "Exercise: who owns these bytes?", devices = 2, hardware = "classroom", seed = 2 }

local text = {
  checks = {
    once = "part 1: one allocation, of the piece's bytes",
    contiguous = "part 1: dense is contiguous",
    place = "part 1: and where the piece was",
    own = "part 1: it does not share the piece's storage",
    elements = "part 1: its elements are those of the piece",
    strides = "part 2: its strides",
    offset = "part 2: its offset",
    again = "part 2: what a second contiguous() allocates",
    itself = "part 2: that answers dense itself",
  },
  hints = {
    dense = {
      "A kernel that wants its elements in one piece asks for them with a method of the tensor that says just that.",
      "is_contiguous() asks. The method without is_ does it, and answers the tensor itself if there is nothing to do.",
    },
    strides = {
      "Without gaps the next element of a row is the next of the storage.",
      "The next row begins after all columns of this one.",
    },
    offset = { "A new storage holds these elements and no others.", "So the first one lies at its beginning." },
    again = { "What is there to be copied, if there are no gaps?" },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()

-- The bytes of all allocations while f runs, and what it answers; nothing if it fails.
local function allocated(f, ...)
  local before, list = rs.trace:seq(), {}
  local ok, answer = pcall(f, ...)
  if not ok then rs.say(tostring(answer)) end
  for _, event in ipairs(rs.trace:events { kind = "memory.alloc" }) do
    if event.seq >= before then list[#list + 1] = event.args.bytes end
  end
  return list, ok and answer or nil
end

local x = rs.arange(rows * 2 * columns, { dtype = "float32", device = "device:1" }):view { rows, 2 * columns }
local piece = x:chunk(2, 1)[2]
local bytes, dense = allocated(student.dense, piece)
local function holds(f)
  local ok, answer = pcall(f)
  return ok and answer == true
end

local expected = {}
for row = 1, rows do
  expected[row] = {}
  for column = 1, columns do expected[row][column] = (row - 1) * 2 * columns + columns + column - 1 end
end
rs.close(checks.once, bytes, { rows * columns * 4 }, { hints = hints.dense })
rs.check(checks.contiguous, holds(function() return dense:is_contiguous() end), { hints = hints.dense })
rs.check(checks.place, holds(function() return dense.device == piece.device end), { hints = hints.dense })
rs.check(checks.own, holds(function() return dense:storage_id() ~= x:storage_id() end), { hints = hints.dense })
rs.close(checks.elements, dense, rs.tensor(expected), { hints = hints.dense })

rs.close(checks.strides, student.strides(rows, columns), { columns, 1 }, { hints = hints.strides })
rs.close(checks.offset, student.offset, 0, { hints = hints.offset })
local more, same = allocated(function() return dense:contiguous() end)
local sum = 0
for _, each in ipairs(more) do sum = sum + each end
rs.close(checks.again, student.again, sum, { hints = hints.again })
rs.check(checks.itself, holds(function()
  return same:storage_id() == dense:storage_id() and dense:storage_id() ~= x:storage_id()
end), { hints = hints.dense })
