local rs = require "ringside"
rs.lesson { title = "Twin of draw_ranges.py", devices = 1, prefix = "" }

local function show(name, t)
  local words = { name .. "=" }
  for _, value in ipairs(t:double():flatten():tolist()) do words[#words + 1] = ("%.0f"):format(value) end
  print(table.concat(words, " ") .. " " .. ("%.9g"):format(rs.rand({ 1 }):item()))
end
local function empty(size, dtype) return rs.empty(size, { dtype = dtype }) end

for i, range in ipairs { { 0, 2^28 - 1 }, { 0, 2^28 }, { -7, 2^28 - 8 }, { -7, 2^28 - 7 }, { 5, 2^31 }, { 0, 2^32 - 1 }, { 0, 2^32 },
  { -2^40, 2^40 } } do
  local low, high = math.tointeger(range[1]), math.tointeger(range[2])
  rs.manual_seed(i - 1)
  show("randint", rs.randint(low, high, { 6 }))
  if high <= 2^31 - 1 then show("int32", empty({ 2, 3 }, "int32"):random_(low, high)) end
  show("double", empty({ 5 }, "float64"):random_(low, high))
end
for _, high in ipairs { 100, (1 << 24) + 3, (1 << 28) - 16, 1 << 28, 1 << 30 } do
  rs.manual_seed(high)
  show("float", rs.empty({ 5 }):random_(high))
  show("bfloat16", empty({ 5 }, "bfloat16"):random_(-3, high))
end
for _, high in ipairs { 100, 2049, 3000, 65504 } do show("half", empty({ 7 }, "float16"):random_(0, high)) end
for _, dtype in ipairs { "int64", "int32", "uint8", "bool", "float32", "float16", "bfloat16" } do
  show("random_", empty({ 4 }, dtype):random_())
end
