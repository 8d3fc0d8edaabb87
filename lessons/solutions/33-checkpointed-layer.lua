-- Solution of exercise 33: a layer that is used several times, and checkpointed.
--
-- The layer is a one-weight Linear of weight w; rank r has xs[r] (xs counts from 0). It is used `uses` times, one after
-- the other, each use in a checkpoint of its own, under DDP. First say what re-entrant checkpoints do to it; then write
-- the forward so that it is right.
--     ringside exercise 33
local rs = require "ringside"

return {
  -- One use's gradient on rank r is w ^ (uses - 1) * xs[r]. What does the layer's .grad hold on each rank in the end?
  -- Answer a table, rank -> number.
  reentrant_grads = function(w, xs, uses)
    local factor, sum, grads = w ^ (uses - 1), 0, {}
    for rank = 0, #xs do sum = sum + factor * xs[rank] end
    local mean = sum / (#xs + 1) -- of the first use; the others stay where they are
    for rank = 0, #xs do grads[rank] = mean + (uses - 1) * factor * xs[rank] end
    return grads
  end,

  -- With a bare layer in front: does DDP raise an error?
  raises_below_a_layer = function(uses)
    return uses > 1
  end,

  -- `layer` used `uses` times, each time in a checkpoint; all ranks must end with the mean.
  forward = function(layer, x, uses)
    for _ = 1, uses do x = rs.utils.checkpoint(layer, x, { use_reentrant = false }) end
    return x
  end,
}
