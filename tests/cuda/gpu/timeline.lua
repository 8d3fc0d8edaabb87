-- When kernels ran: each launch has a begin and an end on its stream's lane, between the host's launch and the end of
-- its wait, in the order of the launches, one after the other. `ringside run --trust --executor free --device cuda
-- timeline.lua -- LAUNCHES [fake]`; fake: on the tests' runtime, whose clock is not the host's. Prints
-- what a long kernel and a short one took, for other runs to compare with.
local rs = require "ringside"
rs.lesson { title = "when kernels ran", devices = 1 }
local launches = math.tointeger(rs.args[1])
local x = rs.randn { 1 << 16 }:to("device:0")
local side, y = rs.cuda.Stream(0), nil
rs.cuda.synchronize()

-- Where the host stands in the trace, ns. A narrated line is an event of its own.
local function now()
  rs.say("it is now")
  return rs.trace:last("kind = lesson.say").t
end

local begin = now()
for i = 1, launches do
  if i % 4 == 0 then
    rs.cuda.stream(side, function() y = x - 1 end)
  else
    x = x + 1
  end
  if i % 1000 == 0 then rs.cuda.synchronize() end
end
rs.cuda.synchronize()
local till = now()

-- By lane, in the order of time.
local function spans(filter)
  local lanes, count = {}, 0
  for _, event in ipairs(rs.trace:events("kind = kernel and device = 0" .. filter)) do
    local lane = lanes[event.lane] or {}
    lanes[event.lane] = lane
    if event.phase == "begin" then
      lane[#lane + 1] = { begin = event.t, op = event.args.op }
      count = count + 1
    elseif #lane > 0 then
      lane[#lane].finish = event.t
    end
  end
  return lanes, count
end

local lanes, count = spans " and bytes < 1e6"
local whole, inside, ordered, resolution = 0, 0, 0, math.huge
for _, lane in pairs(lanes) do
  local last = 0
  for _, span in ipairs(lane) do
    whole = whole + (span.finish ~= nil and 1 or 0)
    local finish = span.finish or 0
    inside = inside + (span.begin >= begin and finish <= till and span.begin <= finish and 1 or 0)
    ordered = ordered + (span.begin >= last and 1 or 0)
    last = finish
    if finish > span.begin then resolution = math.min(resolution, finish - span.begin) end
  end
end
local names = 0
for _ in pairs(lanes) do names = names + 1 end
print(string.format("%d launches, %d kernels on %d lanes, %d of them inside the host's brackets", launches, count,
  names, inside))
rs.check("each launch has one kernel on a lane", count == launches)
rs.check("on two lanes, one a stream", names == 2)
rs.check("each has begun and ended", whole == count)
if rs.args[2] == "fake" then
  rs.skip("all lie between the host's launches and the end of its waits", "the tests' runtime has a clock of its own")
else
  rs.check("all lie between the host's launches and the end of its waits", inside == count)
end
rs.check("a stream's kernels come one after the other", ordered == count)
print(string.format("the shortest kernel took %.0f ns", resolution))

-- The same work for every way to measure. Medians, in ns.
local long = rs.randn { 1 << 24 }:to("device:0")
for _ = 1, 20 do long = long * 1.5 end
rs.cuda.synchronize()
local took = {}
for _, lane in pairs((spans " and bytes > 1e6")) do
  for _, span in ipairs(lane) do took[#took + 1] = (span.finish or span.begin) - span.begin end
end
table.sort(took)
print(string.format("a kernel of 64 MiB takes %.0f ns", took[(#took + 1) // 2] or -1))
