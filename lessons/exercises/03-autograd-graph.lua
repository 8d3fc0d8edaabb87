-- Exercise 03: a node of your own.
-- Change only what lies between the lines. Run it with: ringside run --tap lessons/exercises/03-autograd-graph.lua
local rs = require "ringside"

rs.lesson { title = "Exercise: which gradient is first?", hardware = "classroom", seed = 3 }

---------------------------------------------------------------------------------------------------------------
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
---------------------------------------------------------------------------------------------------------------

-- The value and the gradient of f at x; nil where it could not be computed.
local function at(f, x)
  local leaf = rs.tensor(x, { dtype = "float64", requires_grad = true })
  local ok, out = pcall(f, leaf)
  if not ok then return nil, nil, out end
  local done, why = pcall(out.backward, out)
  return out:item(), done and leaf.grad and leaf.grad:item() or nil, why
end

local value, slope, why = at(Cube.apply, 2.0)
if why then rs.say("Cube says: " .. tostring(why)) end
rs.close("Cube(2) is 8", value or "nothing", 8)
rs.close("its gradient at 2 is 12", slope or "nothing", 12)
rs.close("at -0.5 it is 0.75", select(2, at(Cube.apply, -0.5)) or "nothing", 0.75)
local function five(leaf) return 5 * Cube.apply(leaf) end
local function twice(leaf) return Cube.apply(Cube.apply(leaf)) end
rs.close("5 Cube(x) has five times the gradient", select(2, at(five, 2.0)) or "nothing", 60)
rs.close("Cube of Cube at 2: 9 x to the 8th", select(2, at(twice, 2.0)) or "nothing", 2304)

local x = rs.tensor({ 2, -1, 0.5 }, { dtype = "float64", requires_grad = true })
local ok, answer = pcall(rs.gradcheck, Cube.apply, { x })
if not ok then rs.say(tostring(answer)) end
rs.check("gradcheck agrees: differences give the same gradients", ok and answer == true)

local before = rs.trace:seq()
pcall(function() Cube.apply(x):sum():backward() end)
local ran = {}
for _, event in ipairs(rs.trace:events { kind = "autograd.node" }) do
  if event.seq >= before then ran[#ran + 1] = event.args.node end
end
rs.close("the graph has one node for it", ran, { "SumBackward0", "CubeBackward", "torch::autograd::AccumulateGrad" })

rs.hint "The derivative of x cubed is 3 x x. At 2 that is 12."
rs.hint "backward answers the chain rule's product: the grad that comes in, times the derivative at the saved x."
rs.hint "If gradcheck alone fails, compare the two numbers in its message: yours and the one by differences."
