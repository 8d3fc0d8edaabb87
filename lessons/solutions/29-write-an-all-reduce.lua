-- Solution of exercise 29: the two halves of a ring, and an all-reduce that has a gradient.
--
-- Ranks send to the right, (rank + 1) % world, and receive from the left. `piece` is a table of `world` views of one
-- tensor, piece[0] to piece[world - 1]; all have elements. Begin with piece[rank].
--     ringside exercise 29
local rs = require "ringside"
local dist = rs.distributed

-- One step: piece[out] goes to the right, what comes from the left is for piece[into].
local function step(piece, out, into, rank, world)
  local got  = rs.empty_like(piece[into])
  local work = dist.isend(piece[out], (rank + 1) % world)
  dist.recv(got, (rank - 1) % world)
  work:wait()
  return got
end

return {
  -- world - 1 steps of isend and recv, after which one piece on each rank is everybody's sum. Answers its number.
  reduce_scatter = function(piece, rank, world)
    for s = 0, world - 2 do
      local into = (rank - s - 1) % world
      local got  = step(piece, (rank - s) % world, into, rank, world)
      piece[into]:add_(got)
    end
    return (rank + 1) % world
  end,

  -- world - 1 steps more: piece[mine] is right when it begins, all pieces when it ends.
  all_gather = function(piece, mine, rank, world)
    for s = 0, world - 2 do
      local into = (mine - s - 1) % world
      local got  = step(piece, (mine - s) % world, into, rank, world)
      piece[into]:copy_(got)
    end
  end,

  -- Makes an autograd Function: forward answers the sum of all ranks' x (x stays as it is), backward what the gradient of
  -- x is. Every rank's loss depends on every rank's x.
  make = function()
    local AllReduce = rs.autograd.Function("AllReduce")
    function AllReduce.forward(ctx, x)
      local sum = x:clone()
      dist.all_reduce(sum)
      return sum
    end
    function AllReduce.backward(ctx, gradient)
      local sum = gradient:clone()
      dist.all_reduce(sum)
      return sum
    end
    return AllReduce
  end,
}
