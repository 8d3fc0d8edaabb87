-- Point to point and object lists in little, for runs in which an allocation fails: whoever fails, nobody waits for ever.
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "Point to point" }

local words = { ... }
if words[1] == "nothing" then return end

local met = dist.spawn(function(rank)
  local next, previous = (rank + 1) % 3, (rank + 2) % 3
  local pair = dist.new_group { 0, 2 }
  local here, there, mine, last = rs.full({ 4 }, rank + 0.0), rs.zeros(4), rs.zeros(4), rs.zeros(4)
  local work = dist.isend(here, next, { tag = 1 })
  dist.recv(there, { tag = 1 })
  work:wait()
  local ops = { dist.P2POp(dist.isend, here, rank), dist.P2POp(dist.irecv, mine, rank),
                dist.P2POp(dist.isend, here, next), dist.P2POp(dist.irecv, there, previous) }
  for _, one in ipairs(dist.batch_isend_irecv(ops)) do one:wait() end
  if rank == 0 then dist.send(here, 2, pair) elseif rank == 2 then dist.recv(there, { group = pair, group_src = 0 }) end
  dist.isend(here, next, { tag = 9 })
  dist.irecv(last, previous, { tag = 9 })
  local all, part, list = {}, {}, { { rank }, "text" }
  dist.all_gather_object(all, { rank = rank, t = here })
  dist.scatter_object_list(part, rank == 0 and all or nil)
  dist.gather_object(part[1], rank == 0 and {} or nil)
  dist.broadcast_object_list(list, 1)
  if rank == 0 then dist.send_object_list(list, 1) elseif rank == 1 then dist.recv_object_list(list, 0) end
  return list[1][1]
end, { world = 3 })
rs.check("all ranks have rank 1's list", met[0] == 1 and met[1] == 1 and met[2] == 1)
