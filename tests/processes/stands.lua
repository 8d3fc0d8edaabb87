-- What makes a job stand still, by name; see stands.t.
local rs = require "ringside"
local dist = rs.distributed
local plan = ...
rs.lesson { title = "standing still" }

local ways = {}
function ways.order(rank)
  if rank == 0 then dist.barrier() else dist.broadcast(rs.ones(3), 0) end
end
function ways.crossed(rank)
  local t = rs.zeros(100000)
  dist.recv(t, 1 - rank)
  dist.send(t, 1 - rank)
end
function ways.sizes(rank)
  dist.all_reduce(rs.zeros(2 + rank))
end
function ways.group(rank)
  if rank == 0 then dist.new_group { 0, 1 } else dist.barrier() end
end
function ways.skipped(rank)
  if rank == 0 then dist.new_group { 0 } end
  dist.barrier()
  dist.new_group()
end
function ways.monitored(rank)
  if rank == 0 then dist.monitored_barrier { timeout = 0.5 } else dist.recv(rs.zeros(1), 0) end
end

-- A spawn that fails may be caught, on all processes alike; the next one is as good as new.
if plan == "caught" then
  local ok, why = pcall(dist.spawn, function(rank)
    local dist = require "ringside".distributed
    dist.all_reduce(require "ringside".ones(2))
    if rank == 0 then dist.barrier() else dist.broadcast(require "ringside".ones(3), 0) end
  end, { world = 2 })
  rs.check("a job that stood still is told", not ok and why.kind == "MismatchError" and
    why.message:find("rank 1 in broadcast #1, rank 0 in barrier #1", 1, true) ~= nil)
  local sums = dist.spawn(function(rank)
    local rs = require "ringside"
    local t = rs.full({ 1 }, rank + 1.0)
    rs.distributed.all_reduce(t)
    return t:item()
  end, { world = 2 })
  rs.check("the next spawn works", sums[0] == 3 and sums[1] == 3)
  return
end

dist.init_process_group()
dist.all_reduce(rs.ones(2))
ways[plan](dist.get_rank())
