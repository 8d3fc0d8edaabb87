-- One rank alone validates with ddp(x), while the others go on to the barrier: ranks, and who is wrong.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

rs.lesson { title = "One validates alone", hardware = "classroom", costs = { host = 0, kernel = 0 }, seed = 24 }

local world, wrong = tonumber(... or 2), tonumber(select(2, ...) or 0)
dist.spawn(function(rank)
  local net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
  local ddp = nn.parallel.DistributedDataParallel(net)
  ddp(rs.randn(4, 2)):sum():backward()
  ddp:eval()
  if rank == wrong then
    ddp(rs.randn(4, 2)) -- the cause
  end
  dist.barrier()
end, { world = world })
