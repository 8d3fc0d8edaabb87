-- What a device's memory can be asked for, on two devices of 64 MiB: steps of DataParallel, a stream that is recorded, a
-- device that is full. Every allocation of it may fail.
local rs = require "ringside"
local nn, cuda = rs.nn, rs.cuda
rs.lesson { title = "Devices", devices = 2, device_memory = 64 * 1024 * 1024 }
local steps = tonumber(arg[1] or 2)
rs.manual_seed(0)
local net = nn.Sequential { nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4) }:to "device:0"
local dp, opt = nn.DataParallel(net, { device_ids = { 0, 1 } }), rs.optim.Adam(net:parameters())
local x, other = rs.randn({ 12, 8 }, { device = "device:0" }), cuda.Stream(0)

-- What the host's task does, without workers.
local function on_two_streams(y)
  local event = cuda.current_stream(0):record_event()
  other:wait_event(event)
  local twice = cuda.stream(other, function() return y + y end)
  y:record_stream(other)
  cuda.current_stream(0):wait_stream(other)
  return twice:sum()
end
local function step()
  opt:zero_grad()
  on_two_streams(dp(x)):backward()
  opt:step()
end
local function look()
  opt:zero_grad()
  rs.no_grad(function() on_two_streams(net(x)) end)
  cuda.synchronize() -- else the queue grows: the host is faster
end
for _ = 1, steps do (arg[1] and look or step)() end
if arg[1] then return end -- a test counts what more steps take from the system

local ok, err = pcall(function() return rs.zeros({ 30 * 1024 * 1024 }, { device = "device:1" }) end)
rs.check("a full device says so", not ok and err.kind == "OutOfMemoryError")
cuda.synchronize()
rs.check("segments have blocks", #cuda.memory_snapshot()[1].blocks > 0)
rs.check("the summary tells", #cuda.memory_summary(0) > 100)
rs.check("the trace tells", rs.trace:memory(0).parameters > 0)
cuda.empty_cache()
