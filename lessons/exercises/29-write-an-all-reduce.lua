-- Exercise 29: the two halves of a ring, and an all-reduce that has a gradient.
--
-- Ranks send to the right, (rank + 1) % world, and receive from the left. `piece` is a table of `world` views of one
-- tensor, piece[0] to piece[world - 1]; all have elements. Begin with piece[rank].
--     ringside exercise 29
local rs = require "ringside"
local dist = rs.distributed

return {
  -- world - 1 steps of isend and recv, after which one piece on each rank is everybody's sum. Answers its number.
  reduce_scatter = function(piece, rank, world)
    return 0
  end,

  -- world - 1 steps more: piece[mine] is right when it begins, all pieces when it ends.
  all_gather = function(piece, mine, rank, world)
  end,

  -- Makes an autograd Function: forward answers the sum of all ranks' x (x stays as it is), backward what the gradient of
  -- x is. Every rank's loss depends on every rank's x.
  make = function()
    local AllReduce = rs.autograd.Function("AllReduce")
    function AllReduce.forward(ctx, x)
      return x:clone()
    end
    function AllReduce.backward(ctx, gradient)
      return gradient
    end
    return AllReduce
  end,
}
