-- Three groups overlap in a circle; which of its two rank 1 serves first is decided by whose message comes first.
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "Overlapping groups" }

dist.spawn(function(rank)
  local a, b, c = dist.new_group { 0, 1 }, dist.new_group { 1, 2 }, dist.new_group { 0, 2 }
  local t, token = rs.ones(1), rs.tensor { rank }
  local first, second = a, c
  if rank == 1 then
    first, second = a, b
    if dist.recv(token) == 2 then first, second = b, a end
    dist.recv(token)
  else
    dist.send(token, 1)
    if rank == 2 then first, second = c, b end
  end
  dist.all_reduce(t, { group = first })
  dist.all_reduce(t, { group = second })
end, { world = 3 })
