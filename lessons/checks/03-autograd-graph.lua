-- Checks of exercise 03. Values and gradients are those of x cubed, at points that --variant moves.
local rs = require "ringside"

local first, second = rs.vary(2.0, { 1.5, 3.0, -2.0, 2.5 }), rs.vary(-0.5, { 0.25, -1.0, 0.75 })
local factor = rs.vary(5, { 2, 3, 7 })
rs.lesson { title = "Exercise: which gradient is first?", hardware = "classroom", seed = 3 }

local text = {
  complaint = "Cube says: %s",
  checks = {
    value = "Cube(%g) is the cube of %g",
    slope = "its gradient at %g",
    other = "its gradient at %g, too",
    times = "%d Cube(x) has %d times the gradient",
    twice = "Cube of Cube has the gradient of x to the 9th",
    gradcheck = "gradcheck agrees: differences give the same gradients",
    node = "the graph has one node for it",
  },
  hints = {
    value = { "forward answers x three times multiplied with itself.", "return x * x * x" },
    slope = {
      "The derivative of x cubed is 3 x x.",
      "backward answers the chain rule's product: the grad that comes in, times the derivative at the saved x.",
      "return grad * 3 * x * x, with x = ctx.saved_tensors[1]",
    },
    times = { "backward answers the chain rule's product: the grad that comes in is not always 1." },
    gradcheck = { "If gradcheck alone fails, compare the two numbers in its message: yours and the one by differences." },
    node = { "The node appears where Cube.apply is called: forward answers a tensor that it has made of x." },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()
local Cube = student.Cube

-- The value and the gradient of f at x; nil where it could not be computed.
local function at(f, x)
  local leaf = rs.tensor(x, { dtype = "float64", requires_grad = true })
  local ok, out = pcall(f, leaf)
  if not ok then return nil, nil, out end
  local done, why = pcall(function() out:backward() end)
  local told, value = pcall(function() return out:item() end)
  return told and value or nil, done and leaf.grad and leaf.grad:item() or nil, not done and why or nil
end
local function gradient(f, x)
  local _, slope = at(f, x)
  return slope
end
local function cube(leaf) return Cube.apply(leaf) end

local value, slope, why = at(cube, first)
if why then rs.say(text.complaint:format(tostring(why))) end
rs.close(checks.value:format(first, first), value, first ^ 3, { hints = hints.value })
rs.close(checks.slope:format(first), slope, 3 * first ^ 2, { hints = hints.slope })
rs.close(checks.other:format(second), gradient(cube, second), 3 * second ^ 2, { hints = hints.slope })
rs.close(checks.times:format(factor, factor), gradient(function(leaf) return factor * cube(leaf) end, first),
  factor * 3 * first ^ 2, { hints = hints.times })
rs.close(checks.twice, gradient(function(leaf) return cube(cube(leaf)) end, first), 9 * first ^ 8, { hints = hints.times })

local x = rs.tensor({ first, second, 0.5 }, { dtype = "float64", requires_grad = true })
local ok, answer = pcall(function() return rs.gradcheck(Cube.apply, { x }) end)
if not ok then rs.say(text.complaint:format(tostring(answer))) end
rs.check(checks.gradcheck, ok and answer == true, { hints = hints.gradcheck })

local before = rs.trace:seq()
pcall(function() Cube.apply(x):sum():backward() end)
local ran = {}
for _, event in ipairs(rs.trace:events { kind = "autograd.node" }) do
  if event.seq >= before then ran[#ran + 1] = event.args.node end
end
rs.close(checks.node, ran, { "SumBackward0", "CubeBackward", "torch::autograd::AccumulateGrad" }, { hints = hints.node })
