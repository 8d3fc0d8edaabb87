-- The replicas' threads share what lies outside of the module: the last one to write wins.
local rs = require "ringside"
local nn = rs.nn
rs.lesson { title = "Shared by replicas", devices = 2 }

local last
local Noting = nn.Module("Noting")
function Noting:init()
  self.linear = nn.Linear(2, 2)
end
function Noting:forward(x)
  local y = self.linear(x)
  last = x.device
  return y
end

local parallel = nn.DataParallel(Noting():to("device:0"))
parallel(rs.ones { 4, 2 }:to("device:0"))
print("written last by", last)
