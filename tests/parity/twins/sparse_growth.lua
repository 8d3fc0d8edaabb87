-- Sums of sparse tensors grow with each, but for a bound.
local rs = require "ringside"
rs.lesson { title = "sparse growth", devices = 0 }

local function table_of(rows, index, step)
  local values = rs.arange(#index * 4):to("float32"):reshape { #index, 4 }[{ rs.slice(0, #index), rs.slice(0, 4, step) }]
  return rs.sparse_coo_tensor(rs.tensor { index }, values, { rows, values:size(1) })
end

local function show(name, t)
  local words = { name }
  for _, row in ipairs(t:_indices():reshape(-1):tolist()) do words[#words + 1] = row end
  words[#words + 1] = t:is_coalesced() and "coalesced" or "apart"
  for _, value in ipairs(t:_values():reshape(-1):tolist()) do words[#words + 1] = string.format("%g", value) end
  print(table.concat(words, " "))
end

local few, many, one = table_of(3, { 0, 1 }, 2), table_of(3, { 0, 1, 0, 2 }, 2), table_of(1, { 0, 0 }, 2)
show("few", few + many)
show("many", many + many)
show("many and few", many + few + few)
show("one", one + one)
