-- Checks of exercise 04. All that is expected is worked out from the sizes: with --variant they are others.
local rs = require "ringside"
local scatter = rs.nn.parallel.scatter

rs.lesson { title = "Exercise: the chunk rule", devices = 8, hardware = "classroom", seed = 4 }

local text = {
  checks = {
    pieces = "part 1: the columns are cut by the chunk rule",
    rows = "part 1: each piece has all the rows",
    values = "part 1: the pieces side by side are x",
    square = "part 2: x is [n, n]",
    wrong = "part 2: at least one replica gets a wrong mask",
    same = "part 3: each replica gets its rows of x",
    right = "part 3: each replica's mask is right",
  },
  hints = {
    pieces = {
      "scatter takes the dimension after the devices. Rows are dim 0.",
      "Columns are dim 1.",
      "scatter(x, devices, 1)",
    },
    wrong = {
      "Write down 4 x 4 numbers, and read them once by rows and once by columns.",
      "If x[i][j] and x[j][i] have the same sign everywhere, both readings agree.",
      "All ones but for one corner: x[0][n - 1] = -1.",
    },
    right = {
      "The mask is right if you read it by columns. scatter cuts rows.",
      "Turn it before it is cut: the transpose of lesson 02.",
      "return x, mask:t()",
    },
  },
}

local rows, columns = rs.vary(3, { 2, 5 }), rs.vary(10, { 7, 9, 11, 13, 5 })
local side = rs.vary(4, { 5, 6, 7, 9 })
local devices = {}
for r = 1, rs.vary(4, { 2, 3, 5 }) do devices[r] = r - 1 end

local student = rs.exercise()

-- What a function of the student's answers; nothing if it fails. The lesson says why.
local function answer(name, ...)
  local ok, first, second = pcall(student[name], ...)
  if not ok then rs.say(tostring(first)) end
  return ok and first or nil, ok and second or nil
end

-- Part 1.
local x = rs.arange(rows * columns, { dtype = "float32", device = "device:0" }):view { rows, columns }
local pieces = answer("columns", x:clone(), { table.unpack(devices) }) -- whatever is done to them
local widths, heights, joined, left = {}, {}, {}, columns
local longest = math.ceil(columns / #devices)
local expected, all_rows = {}, {}
while left > 0 do
  expected[#expected + 1] = math.min(longest, left)
  all_rows[#expected] = rows
  left = left - longest
end
for r, piece in ipairs(type(pieces) == "table" and pieces or {}) do
  widths[r], heights[r], joined[r] = piece:size(1), piece:size(0), piece:to("device:0")
end
rs.close(text.checks.pieces, widths, expected, { hints = text.hints.pieces })
rs.close(text.checks.rows, heights, all_rows, { hints = text.hints.pieces })
local whole, same = pcall(function() return rs.equal(rs.cat(joined, 1), x) end)
rs.check(text.checks.values, whole and same, { hints = text.hints.pieces })

-- For how many replicas the mask is not the one of its rows; nothing if they cannot be compared.
local function wrong_masks(input)
  local ok, count = pcall(function()
    local wrong = 0
    for _, replica in ipairs(scatter(input, devices)) do
      if not rs.equal(replica[1]:gt(0), replica[2]) then wrong = wrong + 1 end
    end
    return wrong
  end)
  return ok and count or nil
end

-- Part 2.
local bad = answer("wrong", side)
local square = pcall(function() assert(bad:size(0) == side and bad:size(1) == side and bad:dim() == 2) end)
rs.check(text.checks.square, square, { hints = text.hints.wrong })
local wrong = square and wrong_masks { bad, bad:gt(0):t() }
rs.check(text.checks.wrong, wrong and wrong > 0, { hints = text.hints.wrong })

-- Part 3: signs that no reading by columns gets right.
local batch = rs.ones { side, side }:triu() - 0.5
local mended, mask = answer("repair", batch:clone(), batch:gt(0):t())
local kept = pcall(function() assert(rs.equal(mended, batch)) end)
rs.check(text.checks.same, kept, { hints = text.hints.right })
rs.check(text.checks.right, kept and wrong_masks { mended, mask } == 0, { hints = text.hints.right })
