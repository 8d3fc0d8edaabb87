-- One rank calls in another order than the others: ranks, and who is wrong.
local rs = require "ringside"
local dist = rs.distributed

rs.lesson { title = "Another order", hardware = "classroom", costs = { host = 0, kernel = 0 }, seed = 24 }

local world, wrong = tonumber(... or 2), tonumber(select(2, ...) or 1)
dist.spawn(function(rank)
  if rank == wrong then
    dist.broadcast(rs.ones(4), 0) -- the cause
    dist.all_reduce(rs.ones(1))
  else
    dist.all_reduce(rs.ones(1))
    dist.broadcast(rs.ones(4), 0)
  end
end, { world = world })
