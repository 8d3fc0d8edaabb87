-- arg[2] training steps of DataParallel on arg[1] devices: a test counts what more steps take from the system.
local rs = require "ringside"
local nn, devices = rs.nn, math.tointeger(arg[1])
rs.lesson { title = "Steady steps on devices", devices = devices }
rs.manual_seed(0)
local net = nn.Sequential { nn.Linear(10, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3) }:to "device:0"
local dp, criterion = nn.DataParallel(net), nn.CrossEntropyLoss()
local opt = rs.optim.SGD(net:parameters(), { lr = 0.01, momentum = 0.9 })
local x = rs.randn({ 12, 10 }, { device = "device:0" })
local y = rs.randint(0, 3, { 12 }):to "device:0"

for _ = 1, math.tointeger(arg[2]) do
  opt:zero_grad()
  local loss = criterion(dp(x), y)
  loss:backward()
  opt:step()
  loss:item() -- waits: else the queues grow, for the host is faster
end
