-- Waits that are left out make wrong values, if what should be waited for takes long: products of large matrices are
-- put in front of it. With the wait the values are right. In `free`, where nobody looks for races.
-- `ringside run --trust --executor free --device cuda faults.lua -- SIZE PRODUCTS TIMES`
local rs = require "ringside"
local cuda, dist = rs.cuda, rs.distributed
local size, products, times = math.tointeger(rs.args[1]), math.tointeger(rs.args[2]), math.tointeger(rs.args[3])
rs.lesson { title = "waits left out", devices = 2, world = 2 }

local N = 4096
local heavy = {}
for device = 0, 1 do heavy[device] = rs.randn { size, size }:to("device:" .. device) end
local function delay(device)
  local out
  for _ = 1, products do out = heavy[device]:mm(heavy[device]) end
  return out
end
local function on(device) return { device = "device:" .. device, dtype = "float32" } end
local function all(t, value) return rs.equal(t:cpu(), rs.full({ N }, value, { dtype = "float32" })) end
-- Memory of its own, of known contents, and nothing queued.
local function fresh(value, device)
  local t = rs.full({ N }, value, on(device or 0))
  cuda.synchronize()
  return t
end

local fault = {}
fault["a stream that does not wait for what it reads"] = function(right)
  local compute, comm = cuda.current_stream(0), cuda.Stream(0)
  local grad, y = fresh(1)
  local kept = delay(0)
  grad:fill_(3)
  if right then comm:wait_stream(compute) end
  cuda.stream(comm, function() y = grad * 0.5 end)
  comm:synchronize()
  local ok
  cuda.stream(comm, function() ok = all(y, 1.5) end)
  return ok, kept
end
fault["a stream that goes on before the other has written"] = function(right)
  local compute, comm = cuda.current_stream(0), cuda.Stream(0)
  local grad, kept = fresh(3)
  comm:wait_stream(compute)
  cuda.stream(comm, function()
    kept = delay(0)
    grad:mul_(0.5)
  end)
  if right then compute:wait_stream(comm) end
  return all(grad + 1, 2.5), kept
end
fault["an event that is recorded before the work"] = function(right)
  local one, two, event = cuda.Stream(0), cuda.Stream(0), cuda.Event()
  local x, y, ok, kept = fresh(1)
  if not right then event:record(one) end
  cuda.stream(one, function()
    kept = delay(0)
    x:fill_(5)
  end)
  if right then event:record(one) end
  two:wait_event(event)
  cuda.stream(two, function() y = x + 1 end)
  two:synchronize()
  cuda.stream(two, function() ok = all(y, 6) end)
  return ok, kept
end
fault["a chunk that is freed while another stream reads it"] = function(right)
  local compute, copy = cuda.current_stream(0), cuda.Stream(0)
  local chunk, y, z, kept
  cuda.stream(copy, function() chunk = rs.full({ N }, 1, on(0)) end)
  copy:synchronize()
  compute:wait_stream(copy)
  kept = delay(0)
  y = chunk * 2
  if right then chunk:record_stream(compute) end
  chunk = nil
  collectgarbage()
  cuda.stream(copy, function() z = rs.full({ N }, 9, on(0)) end)
  copy:synchronize()
  return all(y, 2), kept, z
end
fault["a bucket that is reduced before the gradient is in it"] = function(right)
  local sides = dist.spawn(function(rank)
    local current, copy = cuda.current_stream(rank), cuda.Stream(rank)
    local grad, bucket, kept = fresh(4, rank), fresh(0, rank)
    copy:wait_stream(current)
    cuda.stream(copy, function()
      kept = delay(rank)
      bucket:copy_(grad * 0.5)
    end)
    if right then current:wait_stream(copy) end
    local sum = dist.all_reduce(bucket)
    local ok = all(bucket, 4)
    copy:synchronize()
    return ok
  end, { world = 2 })
  return sides[0] and sides[1]
end

for device = 0, 1 do delay(device) end
cuda.synchronize()

local names = {}
for name in pairs(fault) do names[#names + 1] = name end
table.sort(names)
for _, name in ipairs(names) do
  local wrong, right = 0, 0
  for _ = 1, times do
    if not fault[name](false) then wrong = wrong + 1 end
    cuda.synchronize()
    if fault[name](true) then right = right + 1 end
    cuda.synchronize()
  end
  print(name .. ": wrong values " .. wrong .. " of " .. times .. " times")
  rs.check(name .. ": values are wrong", wrong == times)
  rs.check(name .. ": with the wait they are right, each time", right == times)
end
