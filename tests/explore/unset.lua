-- A setting is read without waiting until somebody has set it.
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "Read before it is set" }

dist.spawn(function(rank)
  local width = 8
  if rank == 0 then
    dist.store:set("width", "8")
  else
    rs.advance(50)
    width = dist.store:check { "width" } and tonumber(dist.store:get("width")) or 4
  end
  dist.all_reduce(rs.ones(width))
end, { world = 3 })
