-- Composed functions at the edge: numbers too large, dimensions named twice, tables of options that are used twice.
local rs = require "ringside"
rs.lesson { title = "Composed functions at the edge" }

local row, options = rs.tensor { 1, 2, 3, 4, 5, 6.5 }, { interpolation = "lower" }
local function raises(words, f, ...)
  local ok, message = pcall(f, ...)
  return not ok and tostring(message):find(words, 1, true) ~= nil
end

rs.check("repeat_interleave says when there is no memory for so many", raises("memory", row.repeat_interleave, row, 1 << 62) and
  raises("memory", row.repeat_interleave, row, rs.tensor({ 1 << 62, 1 << 62, 1 << 62, 1 << 62, 1, 1 }, { dtype = "int64" })))
local twice = { { 0, 0, 0, 0, 0, 0, 0, 0 }, { 0, 0, 0, 0, 0, 0, 0, 0 } }
rs.check("tensordot refuses a dimension named twice", raises("multiple times", rs.tensordot, row, row, twice))
rs.check("tensordot refuses 2^32 dimensions", raises("tensordot", rs.tensordot, row, row, 1 << 32))
rs.check("unfold with one window takes any step", tostring(row:unfold(0, 6, 1 << 62)) == tostring(row:view(1, 6)))
rs.check("quantile leaves its options to the lesson", row:quantile(0.5, options):item() == 3 and
  row:quantile(0.5, options):item() == 3 and options.interpolation == "lower")
local biased = { unbiased = false }
rs.check("var_mean leaves its options to the lesson", rs.var_mean(row, biased):item() == rs.var_mean(row, biased):item())
local two = { base = 2 }
rs.check("logspace leaves its options to the lesson", tostring(rs.logspace(0, 3, 4, two)) == tostring(rs.logspace(0, 3, 4, two)))
local like = { requires_grad = true }
rs.check("new_zeros leaves its options to the lesson", row:new_zeros({ 2 }, like).requires_grad and like.device == nil)
rs.check("diff of nothing is at once there", rs.zeros { 0, 1 << 33 }:diff(1 << 62):size(1) == 0 and row:diff(6):numel() == 0)
local same = row:diff(0)
same:add_(1)
rs.check("diff without a time is a copy", row:sum():item() == 21.5)

local square = rs.tensor { { 1., 2. }, { 3., 5. } }
rs.check("a flag in the place of the dimensions is unbiased", square:var(false):item() == square:var { unbiased = false }:item() and
  square:var(0, false):sum():item() == square:var(0, { correction = 0 }):sum():item())
rs.check("max beside a tensor is the larger of two, beside a dimension two results", square:max(rs.tensor(2.5)):sum():item() == 13 and
  select("#", square:max { dim = 1 }) == 2 and select("#", square:max()) == 1 and raises("Tensor", square.max, square, "x"))
rs.check("einsum takes its operands one by one or in a list",
  rs.einsum("ij,jk->", square, square):item() == rs.einsum("ij,jk->", { square, square }):item())
rs.check("tensordot's two lists are of one length", raises("same length", rs.tensordot, square, square, { { 0 }, { 0, 1 } }))
