-- Exercise 35: who skips, and how all get to know.
--
-- rs.distributed's collectives are yours to use; a loss is a tensor of one number.
--     ringside exercise 35
local rs = require "ringside"
local dist = rs.distributed

return {
  -- true on all ranks if the loss is finite on all ranks, else false on all ranks. One all-reduce, whatever the loss is.
  decide = function(loss)
    return loss:isfinite():item()
  end,

  -- The gradients of `params` are means over the ranks of a loss times `scale`. If one of them is not finite, no step is
  -- made and half the scale is answered. Else they are divided by the scale, the optimizer makes its step, and the scale
  -- stays.
  update = function(opt, params, scale)
    opt:step()
    return scale
  end,

  -- Each rank r goes through samples[r] and skips its nan by itself; samples are gradients. Answers rank 0's averaged
  -- gradients in the order in which it makes them, as many as there are before somebody is left alone.
  alone = function(samples)
    local grads = {}
    for step, sample in ipairs(samples[0]) do
      local sum = 0
      for rank = 0, #samples do sum = sum + samples[rank][step] end
      grads[step] = sum / (#samples + 1)
    end
    return grads
  end,
}
