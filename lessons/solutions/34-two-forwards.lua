-- Solution of exercise 34: several forwards, and a penalty that all ranks share.
--
-- `ddp` is a DistributedDataParallel around a one-weight Linear, `w` that weight. rs.autograd.grad and dist.all_reduce are
-- yours to use.
--     ringside exercise 34
local rs = require "ringside"
local dist = rs.distributed

return {
  -- w.grad shall be the mean over the ranks of the gradient of all outputs' sum, and one all-reduce shall do.
  train = function(ddp, samples)
    local loss = 0
    for _, x in ipairs(samples) do loss = loss + ddp(x):sum() end
    loss:backward()
  end,

  -- Each rank's loss is half the square of ddp(x); g is its gradient. w.grad shall be the gradient of G * G, where G is
  -- the mean of all ranks' g: d(G * G) = 2 G dG.
  penalty = function(ddp, w, x)
    local loss = ddp(x):pow(2):sum() / 2
    local g = rs.autograd.grad(loss, w, { create_graph = true })
    local mean = g:detach():clone()
    dist.all_reduce(mean, { op = "avg" })
    local share = (2 * mean * g):sum() -- dG is the mean of all ranks' dg, and that DDP makes
    share:backward()
  end,

  -- The same weight, two forwards, then a backward of each: what is in w.grad on each rank? The ranks' samples of the
  -- first and of the second forward are in `first` and `second`, which count from 0. Answer a table, rank -> number.
  apart = function(first, second)
    local sum, grads = 0, {}
    for rank = 0, #first do sum = sum + first[rank] end
    for rank = 0, #first do grads[rank] = sum / (#first + 1) + second[rank] end
    return grads
  end,
}
