-- Checks of exercise 33. The numbers are worked out from the weight, the inputs and the uses; then the same layer runs
-- under DDP, and has the last word.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

local world, uses, w = rs.vary(2, { 3, 4 }), rs.vary(2, { 3, 4 }), rs.vary(2, { 3, 0.5 })
local xs = { [0] = rs.vary(1, { 2, 5 }), rs.vary(4, { 3, 7 }), 6, 8 }
for rank = world, 3 do xs[rank] = nil end
rs.lesson { title = "Exercise: a checkpointed layer", hardware = "classroom", seed = 33 }

local text = {
  checks = {
    predicted = "each rank's gradient, re-entrant",
    ran = "the run agrees",
    once = "one use below a layer",
    often = "%d uses below a layer",
    raised = "the run agrees: DDP raises an error or not",
    right = "your forward: all ranks have the mean of all uses",
    kept = "and keeps nothing of the layer: it runs again in the backward",
  },
  hints = {
    predicted = {
      "Each use has a backward of its own. After the first one the bucket is full.",
      "The first use is averaged over the ranks, and DDP is through.",
      "The other uses - 1 gradients are added where they are: mean + (uses - 1) * own.",
    },
    raises = {
      "The layer in front comes last, so the bucket is open until then.",
      "Ready once is well, ready twice is an error. How often is it ready?",
    },
    right = {
      "One backward would meet all uses before the parameter.",
      "Which option leaves the graph as it is, and recomputes only what was saved?",
      "rs.utils.checkpoint(layer, x, { use_reentrant = false })",
    },
    kept = { "A bare layer(x) is right, too, but is no checkpoint." },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()

local Net = nn.Module("Net")
function Net:init(forward, count, below)
  self.forward_of, self.count = forward, count
  if below then self.below = nn.Linear(1, 1, { bias = false }) end
  self.layer = nn.Linear(1, 1, { bias = false })
  for p in self:parameters() do nn.init.constant_(p, w) end
end
function Net:forward(x)
  if self.below then x = self.below(x) end
  return self.forward_of(self.layer, x, self.count)
end
local function reentrant(layer, x, count)
  for _ = 1, count do x = rs.utils.checkpoint(layer, x, { use_reentrant = true }) end
  return x
end
local function run(forward, count, below)
  return pcall(dist.spawn, function(rank)
    local net = Net(forward, count, below)
    local ddp = nn.parallel.DistributedDataParallel(net)
    ddp(rs.full({ 1, 1 }, xs[rank] + 0.0, { requires_grad = true })):sum():backward()
    return net.layer.weight.grad:item()
  end, { world = world })
end

local factor, sum = w ^ (uses - 1), 0
for rank = 0, world - 1 do sum = sum + factor * xs[rank] end
local guess = student.reentrant_grads(w, xs, uses)
-- Rank 0's first; what is missing is a number that no gradient is.
local function in_order(worked, grads)
  local list = {}
  for rank = 0, world - 1 do list[rank + 1] = worked and type(grads) == "table" and grads[rank] or -1 end
  return list
end
local expected, mean = {}, {}
for rank = 0, world - 1 do
  expected[rank + 1], mean[rank + 1] = sum / world + (uses - 1) * factor * xs[rank], uses * sum / world
end
rs.close(checks.predicted, in_order(true, guess), expected, { hints = hints.predicted })
rs.close(checks.ran, in_order(true, guess), in_order(run(reentrant, uses)), 1e-4, { hints = hints.predicted })

rs.check(checks.once, student.raises_below_a_layer(1) == false, { hints = hints.raises })
rs.check(checks.often:format(uses), student.raises_below_a_layer(uses) == true, { hints = hints.raises })
local one, many = run(reentrant, 1, true), run(reentrant, uses, true)
rs.check(checks.raised, student.raises_below_a_layer(1) == not one and student.raises_below_a_layer(uses) == not many)

local seq = rs.trace:seq()
rs.close(checks.right, in_order(run(student.forward, uses)), mean, 1e-4, { hints = hints.right })
local again = 0
for _, event in ipairs(rs.trace:events { kind = "autograd.recompute", rank = 0 }) do
  again = again + (event.seq > seq and 1 or 0)
end
rs.check(checks.kept, again == uses, { hints = hints.kept })
