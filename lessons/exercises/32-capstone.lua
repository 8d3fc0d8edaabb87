-- Exercise 32: your own DistributedDataParallel, in 60 lines.
--
-- Given: hooks on parameters, tensors and their views, dist.broadcast, dist.all_reduce with async_op, rs.autograd.queue_callback.
-- Not given: nn.parallel. What it shall do stands at each function; the checks compare it with the built-in one.
--     ringside exercise 32
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

local DDP = nn.Module("DDP")

-- All ranks start with rank 0's parameters and buffers. The parameters' gradients travel in buckets: from the last parameter
-- to the first, a bucket is closed as soon as it has `cap` bytes or more. Each parameter gets a hook; when a bucket's last
-- gradient is there, its mean over the ranks is on its way, without stopping the backward. Buckets leave in their order on all
-- ranks, also where a later one is full first. When backward returns, all means are in the .grad.
function DDP:init(module, cap)
  self.module = module
end

-- What the module answers. A forward without gradients changes nothing of the above. If the backward before it left parameters
-- without a gradient, their bucket was not sent: that is an error, which names them.
function DDP:forward(...)
  return self.module(...)
end

-- Runs f and answers what f answers. What goes forward and backward in it sends nothing; its gradients stay in the .grad and
-- are sent with the next ones outside.
function DDP:no_sync(f)
  return f()
end

return {
  wrap = function(module, cap) return DDP(module, cap) end,
}
