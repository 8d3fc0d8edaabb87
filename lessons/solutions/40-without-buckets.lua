-- Solution of exercise 40: your own DDP, without buckets.
--
-- Hooks on parameters, an all-reduce each; micro-batches that do not send; and when the last one is through.
--     ringside exercise 40
local rs = require "ringside"
local dist = rs.distributed

return {
  -- Makes the ranks' parameters rank 0's and hangs a hook on each. Answers a table: `sends` (a backward that runs while it
  -- is false sends nothing, its gradients stay in .grad and go with the next one) and `wait`, a function after which every
  -- .grad is the mean over the ranks of all that was added up. One all-reduce a parameter; it shall not stop the backward.
  attach = function(net)
    local state, works = { sends = true }, {}
    for _, p in ipairs(net:parameters()) do
      rs.no_grad(function() dist.broadcast(p, 0) end)
      p:register_post_accumulate_grad_hook(function()
        if not state.sends then return end
        p.grad:div_(dist.get_world_size())
        works[#works + 1] = dist.all_reduce(p.grad, { async_op = true })
      end)
    end
    function state.wait()
      for _, work in ipairs(works) do work:wait() end
      works = {}
    end
    return state
  end,

  -- Two ranks. layers[i] lists the bytes of a layer's parameters in the order in which their gradients come; a layer's
  -- backward takes `backward` us, then they are all there. An all-reduce is two hops of half its bytes, 10 us + bytes /
  -- (10 000 B/us) each, and a rank makes one at a time. When is the last one through, in us after backward began?
  through = function(layers, backward)
    local free = 0
    for i, layer in ipairs(layers) do
      for _, bytes in ipairs(layer) do free = math.max(free, i * backward) + 2 * (10 + bytes / 2 / 10000) end
    end
    return free
  end,
}
