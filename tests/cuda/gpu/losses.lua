-- Two files of losses, line by line: nearly the same numbers. `ringside run --trust losses.lua -- ONE OTHER TOLERANCE`
local rs = require "ringside"
local one, other, tolerance = rs.args[1], rs.args[2], tonumber(rs.args[3])
local function lines_of(path)
  local list = {}
  for line in io.lines(path) do
    local what, number = line:match "^(.* step %d+) (%S+)$"
    if what then list[#list + 1] = { what, tonumber(number) } end
  end
  return list
end
local a, b = lines_of(one), lines_of(other)
local worst = 0
for i = 1, math.min(#a, #b) do
  local far = math.abs(a[i][2] - b[i][2]) / math.max(math.abs(b[i][2]), 1e-3)
  if not (far <= worst) then worst = far end
  if not (far <= tolerance) then print(string.format("%s: %.9g, and %.9g", a[i][1], a[i][2], b[i][2])) end
end
print(string.format("%d losses, %.2g apart at most", #a, worst))
rs.check("as many losses, and all within " .. rs.args[3], #a > 0 and #a == #b and worst <= tolerance)
