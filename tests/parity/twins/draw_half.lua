local rs = require "ringside"
rs.lesson { title = "Twin of draw_half.py", devices = 1, prefix = "" }

local function written(name, t, format)
  local words = { name .. "=" }
  for _, value in ipairs(t:flatten():tolist()) do words[#words + 1] = format:format(value) end
  return table.concat(words, " ")
end
local function show(name, t) print(written(name, t, "%.9g") .. " " .. ("%.9g"):format(rs.rand({ 1 }):item())) end

for _, dtype in ipairs { "float16", "bfloat16" } do
  local o = { dtype = dtype }
  for _, n in ipairs { 3, 15, 16, 17, 37 } do
    rs.manual_seed(n)
    show("rand", rs.rand({ n }, o))
    show("randn", rs.randn({ n }, o))
    show("uniform_", rs.empty({ n }, o):uniform_(-0.7, 2.3))
    show("normal_", rs.empty({ n }, o):normal_(0.3, 1.7))
    show("bernoulli", rs.bernoulli(rs.rand({ n }):to(dtype)))
    show("exponential_", rs.empty({ n }, o):exponential_(0.4))
  end
  show("transposed", rs.empty({ 5, 4 }, o):t():normal_())
  show("narrow", rs.empty({ 50 }, o):uniform_(1, 1.01))
  local weights = rs.tensor({ { 0.5, 0.125, 2, 0 }, { 1, 3, 0.25, 1.5 } }, o)
  for _, case in ipairs { { 1, true }, { 1, false }, { 3, true }, { 3, false } } do
    show("multinomial", rs.multinomial(weights, case[1], case[2]))
  end
end
for _, n in ipairs { 3, 15 } do
  rs.manual_seed(n)
  print(written("double", rs.randn({ n }, { dtype = "float64" }), "%.17g"))
  print(written("double", rs.empty({ n }, { dtype = "float64" }):exponential_(2.5), "%.17g"))
end
