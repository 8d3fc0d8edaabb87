-- Solution of exercise 35: who skips, and how all get to know.
--
-- rs.distributed's collectives are yours to use; a loss is a tensor of one number.
--     ringside exercise 35
local rs = require "ringside"
local dist = rs.distributed

return {
  -- true on all ranks if the loss is finite on all ranks, else false on all ranks. One all-reduce, whatever the loss is.
  decide = function(loss)
    local flag = loss:isfinite():to("float32")
    dist.all_reduce(flag, { op = "min" })
    return flag:item() == 1
  end,

  -- The gradients of `params` are means over the ranks of a loss times `scale`. If one of them is not finite, no step is
  -- made and half the scale is answered. Else they are divided by the scale, the optimizer makes its step, and the scale
  -- stays.
  update = function(opt, params, scale)
    for _, p in ipairs(params) do
      if not p.grad:isfinite():all():item() then return scale / 2 end
    end
    for _, p in ipairs(params) do p.grad:div_(scale) end
    opt:step()
    return scale
  end,

  -- Each rank r goes through samples[r] and skips its nan by itself; samples are gradients. Answers rank 0's averaged
  -- gradients in the order in which it makes them, as many as there are before somebody is left alone.
  alone = function(samples)
    local made, grads = {}, {}
    for rank = 0, #samples do
      made[rank] = {}
      for _, sample in ipairs(samples[rank]) do
        if sample == sample then table.insert(made[rank], sample) end
      end
    end
    for step = 1, #made[0] do
      local sum = 0
      for rank = 0, #samples do sum = sum + (made[rank][step] or 0 / 0) end
      if sum ~= sum then break end
      grads[step] = sum / (#samples + 1)
    end
    return grads
  end,
}
