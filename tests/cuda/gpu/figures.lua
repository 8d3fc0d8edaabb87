-- Figures beside each other: reads lines of JSON from bare.lua, `ringside bench device_step --json` and peer.py on its
-- standard input, and prints for each case what each has, and whether the aim is met. A missed aim fails nothing:
-- what is tested is that each case was measured, and right. `... | ringside run --trust --tap --quiet figures.lua`
local rs = require "ringside"

-- Case, the one that it is compared with, how many times its figure (of times at most, of rates at least).
local AIMS = {
  { "launch", "bare", 1.1 }, { "mlp64", "pytorch", 0.4 }, { "mlp64", "pytorch-graph", 1.1 },
  { "mm4096", "pytorch", 1 / 0.98 }, { "elementwise", "pytorch", 0.95 }, { "elementwise", "bare", 0.95 },
  { "copy", "bare", 0.9 },
}
local CASES = { "launch", "mlp64", "mm4096", "elementwise", "copy", "allreduce", "ddp" }

-- By case and who: the figure of each round.
local found, units, wrong = {}, {}, {}
for line in io.lines() do
  local case, who = line:match '"case": "([^"]*)"', line:match '"impl": "([^"]*)"'
  local median = tonumber(line:match '"median": ([-+.%deEinfa]+)')
  if case and who and median then
    found[case] = found[case] or {}
    found[case][who] = found[case][who] or {}
    table.insert(found[case][who], { median = median, p95 = tonumber(line:match '"p95": ([-+.%deE]+)') })
    units[case] = line:match '"unit": "([^"]*)"'
    wrong[case] = wrong[case] or line:find('"check": "FAIL"', 1, true) ~= nil
  elseif line ~= "" and not line:find('"environment"', 1, true) then
    print((line:gsub("^# ?", "")))
  end
end

-- Of the rounds the better one; others are the machine's moods.
local function figure(case, who)
  local best
  for _, one in ipairs(found[case] and found[case][who] or {}) do
    local better = best == nil or (units[case] == "GB/s" and one.median > best.median) or
                   (units[case] ~= "GB/s" and one.median < best.median)
    if better then best = one end
  end
  return best
end

for _, case in ipairs(CASES) do
  local names = {}
  for who in pairs(found[case] or {}) do names[#names + 1] = who end
  table.sort(names)
  for _, who in ipairs(names) do
    local one = figure(case, who)
    print(string.format("%-12s %-16s median %10.4g %-5s%s", case, who, one.median, units[case],
      one.p95 and string.format(" p95 %10.4g", one.p95) or ""))
  end
  rs.check(case .. " was measured, and was right", figure(case, "ringside") ~= nil and not wrong[case])
end
for _, aim in ipairs(AIMS) do
  local case, who, factor = table.unpack(aim)
  local own, other = figure(case, "ringside"), figure(case, who)
  if own and other then
    local rate = units[case] == "GB/s"
    local met  = rate and own.median >= factor * other.median or not rate and own.median <= factor * other.median
    print(string.format("aim: %s %s %.3g times %s's: %.3g times: %s", case, rate and "at least" or "at most", factor,
      who, own.median / other.median, met and "met" or "missed"))
  end
end
local reduce, rate = figure("allreduce", "ringside"), figure("elementwise", "bare")
if reduce and rate then
  -- Eight devices' 25 MB are read and written once at least.
  print(string.format("aim: allreduce of 8 devices at 80 %% of what the memory can: %.3g %%",
    100 * 2 * 8 * (25 << 20) / (reduce.median * 1e-6) * 1e-9 / rate.median))
end
