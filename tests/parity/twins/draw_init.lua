local rs = require "ringside"
local init = rs.nn.init
rs.lesson { title = "Twin of draw_init.py", devices = 1, prefix = "" }

local function show(name, t)
  local words = { name }
  for _, value in ipairs(t:numel() == 0 and {} or t:flatten():tolist()) do words[#words + 1] = ("%.9g"):format(value) end
  print(table.concat(words, " ") .. " " .. ("%.9g"):format(rs.rand({ 1 }):item()))
end
local function refused(name, f, ...)
  local ok, err = pcall(f, ...)
  print(name .. " " .. (ok and "went well" or err.kind .. " " .. err.message))
end
local function seeded(seed)
  local generator = rs.Generator()
  generator:manual_seed(seed)
  return generator
end

rs.manual_seed(5)
for _, options in ipairs { {}, { std = 0.02 }, { mean = 1, std = 3, a = -1, b = 1.5 }, { mean = 2.5 }, { a = 1, b = 4 }, { a = 2, b = 3 },
  { mean = -4, std = 2, a = 0.5, b = 8 }, { std = -1 }, { a = -0.05, b = 0.1 } } do
  show("trunc_normal_=", init.trunc_normal_(rs.empty { 5 }, options))
  show("trunc_normal_=", init.trunc_normal_(rs.empty { 7, 8 }, options))
  show("transposed=", init.trunc_normal_(rs.empty({ 5, 4 }):t(), options))
  for _, dtype in ipairs { "float16", "bfloat16", "float64" } do
    show("trunc_normal_=", init.trunc_normal_(rs.empty({ 20 }, { dtype = dtype }), options))
  end
end
show("generator=", init.trunc_normal_(rs.empty { 4 }, { generator = seeded(9) }))
show("generator=", init.xavier_normal_(rs.empty { 4, 5 }, 2, seeded(9)))
for _, sizes in ipairs { { 1, 1 }, { 2, 2 }, { 3, 5 }, { 5, 3 }, { 6, 6 }, { 1, 4 }, { 4, 1 }, { 20, 12 }, { 2, 3, 4 }, { 5, 2, 1, 2 } } do
  show("orthogonal_", init.orthogonal_(rs.empty(sizes)))
  show("orthogonal_", init.orthogonal_(rs.empty(sizes, { dtype = "float64" }), { gain = 1.5 }))
end
show("transposed", init.orthogonal_(rs.empty({ 5, 4 }):t(), -0.5))
show("empty=", init.orthogonal_(rs.empty { 0, 3 }))
show("generator", init.orthogonal_(rs.empty { 3, 3 }, { generator = seeded(9) }))
refused("vector", init.orthogonal_, rs.empty { 3 })
refused("half", init.orthogonal_, rs.empty({ 3, 3 }, { dtype = "float16" }))
