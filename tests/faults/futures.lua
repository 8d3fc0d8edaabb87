-- Futures, a lesson's all-reduce, a comm hook and collectives with a backward. Whoever runs this under a failing allocator
-- must fail or be right.
local rs = require "ringside"
local dist, nn = rs.distributed, rs.nn

rs.lesson { title = "Futures" }
if arg[1] == "nothing" then return end -- so that a test knows what was allocated before

dist.register_algorithm("swap", function(t)
  local mine, theirs, peer = t:clone(), rs.empty_like(t), 1 - dist.get_rank()
  local work = dist.isend(mine, peer)
  dist.recv(theirs, peer)
  work:wait()
  t:add_(theirs)
end)

local answers = dist.spawn(function(rank)
  local t = rs.full({ 2 }, rank + 1.0)
  local work = dist.all_reduce(t, { async_op = true, algorithm = "swap" })
  local sum = work:get_future():then_(function(f) return f:value()[1]:sum():item() end)
  local all = rs.futures.collect_all { sum, work:get_future() }
  local net = nn.Linear(1, 1, { bias = false })
  local ddp = nn.parallel.DistributedDataParallel(net)
  ddp:register_comm_hook(nil, function(_, bucket)
    return dist.all_reduce(bucket:buffer(), { async_op = true }):get_future():then_(function(f) return f:value()[1] / 2 end)
  end)
  ddp(rs.full({ 1, 1 }, rank + 1.0)):sum():backward()
  local x = rs.full({ 2 }, rank + 1.0):requires_grad_()
  rs.cat(dist.nn.all_gather(x)):pow(2):sum():backward()
  return { all:wait()[1]:value(), net.weight.grad:item(), x.grad[{ 0 }]:item() }
end, { world = 2 })
for rank = 0, 1 do
  rs.check("rank " .. rank .. " has the sum", answers[rank][1] == 6)
  rs.check("rank " .. rank .. " has the mean", answers[rank][2] == 1.5)
  rs.check("rank " .. rank .. " has both ranks' gradients", answers[rank][3] == 4 * (rank + 1))
end
