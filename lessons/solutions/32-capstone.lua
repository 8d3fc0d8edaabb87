-- Solution of exercise 32: your own DistributedDataParallel, in 60 lines.
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
  self.module, self.params, self.buckets = module, {}, {}
  for _, list in ipairs { module:parameters(), module:buffers() } do
    for _, t in ipairs(list) do rs.no_grad(function() dist.broadcast(t, 0) end) end
  end
  for name, p in module:named_parameters() do table.insert(self.params, 1, { name = name, tensor = p }) end
  local bucket = nil
  for _, one in ipairs(self.params) do
    if bucket == nil or bucket.count * 4 >= cap then
      bucket = { count = 0 }
      table.insert(self.buckets, bucket)
    end
    one.bucket, one.from = bucket, bucket.count
    bucket.count = bucket.count + one.tensor:numel()
    one.tensor:register_post_accumulate_grad_hook(function() self:ready(one) end)
  end
end

-- A gradient is there: into its bucket, divided. Every bucket whose turn has come, and that is full, leaves.
function DDP:ready(one)
  if not self.armed then return end
  self.begun, one.missing = true, false
  one.place:copy_(one.tensor.grad / dist.get_world_size())
  one.bucket.left = one.bucket.left - one.tensor:numel()
  while self.next <= #self.buckets and self.buckets[self.next].left == 0 do
    local bucket = self.buckets[self.next]
    bucket.work = dist.all_reduce(bucket.flat, { async_op = true })
    self.next = self.next + 1
    if self.next > #self.buckets then rs.autograd.queue_callback(function() self:finish() end) end
  end
end

function DDP:finish()
  self.armed = false
  for _, bucket in ipairs(self.buckets) do bucket.work:wait() end
  for _, one in ipairs(self.params) do one.tensor.grad:copy_(one.place) end
end

-- What the module answers. A forward without gradients changes nothing of the above. If the backward before it left parameters
-- without a gradient, their bucket was not sent: that is an error, which names them.
function DDP:forward(...)
  local missing = {}
  for _, one in ipairs(self.params) do if self.begun and one.missing then table.insert(missing, one.name) end end
  if #missing > 0 then rs.error("RuntimeError", "the last backward gave no gradient to " .. table.concat(missing, ", ")) end
  if rs.is_grad_enabled() and not self.held then
    self.armed, self.begun, self.next = true, false, 1
    for _, bucket in ipairs(self.buckets) do bucket.flat, bucket.left = rs.zeros(bucket.count), bucket.count end
    for _, one in ipairs(self.params) do
      one.place = one.bucket.flat:narrow(0, one.from, one.tensor:numel()):view(one.tensor.shape)
      one.missing = true
    end
  end
  return self.module(...)
end

-- Runs f and answers what f answers. What goes forward and backward in it sends nothing; its gradients stay in the .grad and
-- are sent with the next ones outside.
function DDP:no_sync(f)
  self.held = true
  local answer = f()
  self.held = false
  return answer
end

return {
  wrap = function(module, cap) return DDP(module, cap) end,
}
