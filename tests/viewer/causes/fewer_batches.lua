-- One rank has fewer batches than the others: ranks, and who is wrong.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

rs.lesson { title = "Fewer batches", hardware = "classroom", costs = { host = 0, kernel = 0 }, seed = 24 }

local world, wrong = tonumber(... or 2), tonumber(select(2, ...) or 0)
dist.spawn(function(rank)
  local ddp = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
  for _ = 1, rank == wrong and 3 or 5 do -- the cause
    ddp(rs.ones(1, 2)):sum():backward()
  end
end, { world = world })
