local rs = require "ringside"
rs.lesson { title = "Twin of half_numbers.py", devices = 1, prefix = "" }

local function show(name, t)
  local words = { name }
  for _, value in ipairs(t:flatten():tolist()) do words[#words + 1] = ("%.9g"):format(value) end
  print(table.concat(words, " "))
end

for _, dtype in ipairs { "float16", "bfloat16" } do
  local x = (rs.arange(1, 9) / 7 - 0.6):to(dtype)
  for _, number in ipairs { 0.1, 3.3, 0.001 } do
    for _, beside in ipairs { number, rs.tensor(number), rs.tensor(number, { dtype = "float64" }) } do
      show("mul", x * beside)
      show("rmul", beside * x)
      show("div", x / beside)
      show("rdiv", beside / x)
      show("add", x + beside)
      show("sub", x - beside)
      show("rsub", beside - x)
    end
    local y = x:clone()
    y:mul_(number)
    show("mul_", y)
    y:div_(number)
    show("div_", y)
  end
end
