-- Exercise 34: several forwards, and a penalty that all ranks share.
--
-- `ddp` is a DistributedDataParallel around a one-weight Linear, `w` that weight. rs.autograd.grad and dist.all_reduce are
-- yours to use.
--     ringside exercise 34
local rs = require "ringside"
local dist = rs.distributed

return {
  -- w.grad shall be the mean over the ranks of the gradient of all outputs' sum, and one all-reduce shall do.
  train = function(ddp, samples)
    local outputs = {}
    for i, x in ipairs(samples) do outputs[i] = ddp(x) end
    for _, output in ipairs(outputs) do output:sum():backward() end
  end,

  -- Each rank's loss is half the square of ddp(x); g is its gradient. w.grad shall be the gradient of G * G, where G is
  -- the mean of all ranks' g: d(G * G) = 2 G dG.
  penalty = function(ddp, w, x)
    local loss = ddp(x):pow(2):sum() / 2
    local g = rs.autograd.grad(loss, w, { create_graph = true })
    g:pow(2):sum():backward()
  end,

  -- The same weight, two forwards, then a backward of each: what is in w.grad on each rank? The ranks' samples of the
  -- first and of the second forward are in `first` and `second`, which count from 0. Answer a table, rank -> number.
  apart = function(first, second)
    local grads = {}
    for rank = 0, #first do grads[rank] = 0 end
    return grads
  end,
}
