-- Exercise 03: a node of your own.
--
-- Change forward and backward. They are checked at other numbers, too.
--     ringside exercise 03
local rs = require "ringside"

-- Cube(x) = x * x * x, with a backward of its own. forward runs without recording: the graph gets one node, and
-- that node calls backward with the gradient of what forward answered. It answers the gradient of x.
-- What backward needs of forward goes through ctx: ctx:save_for_backward(x), and there ctx.saved_tensors[1].
local Cube = rs.autograd.Function("Cube")
function Cube.forward(ctx, x)
  return x * 1
end
function Cube.backward(ctx, grad)
  return grad * 0
end

return { Cube = Cube }
