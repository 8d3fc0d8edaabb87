-- The GPU's clock, as scripts/gpu-check reports it: its steps, and how well one line fits it to the host's.
-- `ringside run --trust clock.lua -- BARE.SO`
local rs = require "ringside"
local bare = package.loadlib(rs.args[1], "luaopen_bare")()
local ticks = bare.ticks()
print(string.format("globaltimer moves in steps of %d ns", ticks))
rs.check("globaltimer moves", ticks > 0 and ticks < 1e7)

-- Of each fifty readings the one with the tightest bracket; a line through them.
local points = {}
for _ = 1, 20 do
  local best
  for _, r in ipairs(bare.clock(50)) do
    local width = r[3] - r[1]
    if best == nil or width < best.width then best = { width = width, host = (r[1] + r[3]) / 2, gpu = r[2] } end
  end
  points[#points + 1] = best
end
local n, mx, my, widest = #points, 0, 0, 0
local x0, y0 = points[1].host, points[1].gpu
for _, p in ipairs(points) do
  p.x, p.y = p.host - x0, p.gpu - y0
  mx, my, widest = mx + p.x / n, my + p.y / n, math.max(widest, p.width)
end
local xy, xx = 0, 0
for _, p in ipairs(points) do xy, xx = xy + (p.x - mx) * (p.y - my), xx + (p.x - mx) ^ 2 end
local slope, worst = xy / xx, 0
for _, p in ipairs(points) do worst = math.max(worst, math.abs(p.y - my - slope * (p.x - mx))) end
print(string.format("brackets of %.1f us at most; the clocks drift %.3f ppm apart; no point is %.2f us off the line",
  widest / 1e3, (slope - 1) * 1e6, worst / 1e3))
rs.check("the clocks drift less than 1000 ppm apart", math.abs(slope - 1) < 1e-3)
rs.check("no reading is further from the line than its bracket and a step of the clock", worst <= widest + ticks)
