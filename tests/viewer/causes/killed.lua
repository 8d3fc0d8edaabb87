-- A rank is killed inside a backward (--fault): ranks.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

rs.lesson { title = "One is killed", hardware = "classroom", costs = { host = 0, kernel = 0 }, seed = 24 }

dist.spawn(function(rank)
  local ddp = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)))
  for _ = 1, 3 do
    local loss = ddp(rs.ones(1, 2)):sum()
    loss:backward() -- the cause
  end
end, { world = tonumber(... or 2) })
