-- Whether there is a barrier is decided by looking whether the all-reduce has ended, not by waiting for it.
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "Polled instead of waited for" }

dist.spawn(function(rank)
  local t = rs.ones(4)
  local work = dist.all_reduce(t, { async_op = true })
  rs.advance(1000)
  local early = work:is_completed()
  work:wait()
  if early then dist.barrier() end
  dist.all_reduce(t)
end, { world = 2 })
