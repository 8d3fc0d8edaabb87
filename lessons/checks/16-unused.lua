-- Checks of exercise 16. A model of several layers is trained with the student's loss; bytes and weights are compared with two
-- runs, one with that loss and one with find_unused_parameters.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

local world, idle = rs.vary(2, { 3, 4 }), rs.vary(1, { 2, 3 })
local layers = world + idle
local width, shift = rs.vary(2, { 3, 5 }), rs.vary(0, { 1, 2 })
local lr, decay = rs.vary(0.5, { 0.1, 0.25 }), rs.vary(0.1, { 0.5, 0.2 })
rs.lesson { title = "Exercise: the branch not taken", hardware = "classroom", seed = 16 }

local text = {
  checks = {
    runs = "three iterations come to their end, with a layer each for %d ranks",
    value = "the loss is still out:sum()",
    grads = "each layer that was used has the mean over the ranks",
    zeros = "a layer that nobody used has a gradient of zeros",
    bytes = "bytes of an iteration with your loss",
    flag = "and with find_unused_parameters",
    moved = "an unused weight after a step with your loss",
    still = "and with find_unused_parameters",
  },
  hints = {
    runs = {
      "Which parameters does the graph of out:sum() reach? Those of one layer.",
      "Add something of each parameter that is 0: 0 times its sum.",
      "loss = loss + 0 * p:sum() for each p of net:parameters().",
    },
    value = { "What you add has to be 0. And the sum of out stays a sum." },
    grads = { "The other layers' part of the loss is 0 times something: its gradient is 0, and the mean takes it in." },
    bytes = {
      "All gradients are in buckets, zeros as well: 4 bytes an element.",
      "With the flag it is the same, and the map: one int32 for each parameter.",
    },
    after = {
      "A gradient of zeros is a gradient: weight decay adds to it. Without a gradient the optimizer passes by.",
      "With your loss: w - lr * (0 + decay * w).",
    },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()

local Net = nn.Module("Net")
function Net:init()
  for i = 1, layers do self["layer" .. i] = nn.Linear(width, width) end
end
function Net:forward(x, i) return self["layer" .. i](x) end
local function layer_of(rank) return (rank + shift) % layers + 1 end
local unused = layer_of(world)

-- Three iterations, a step in the first one alone; rank r fills x with r + 1. Answers what each rank has at the end, and the
-- bytes of an iteration; nothing if it fails.
local function train(flag)
  local loss_of, seq = student.loss, rs.trace:seq()
  local worked, ranks = pcall(dist.spawn, function(rank)
    local net, got = Net(), { kept = true, grads = {} }
    for _, p in ipairs(net:parameters()) do p.data:fill_(1) end
    local ddp = nn.parallel.DistributedDataParallel(net, { find_unused_parameters = flag })
    local optimizer = rs.optim.SGD(net:parameters(), { lr = lr, weight_decay = decay })
    for iteration = 0, 2 do
      optimizer:zero_grad()
      local out = ddp(rs.full({ 1, width }, rank + 1.0), layer_of(rank))
      local loss = flag and out:sum() or loss_of(net, out)
      got.kept = got.kept and loss:item() == out:sum():item()
      loss:backward()
      if iteration == 0 then optimizer:step() end
    end
    for i = 1, layers do
      local grad = net["layer" .. i].weight.grad
      got.grads[i] = grad and grad[{ 0, 0 }]:item() or "none"
    end
    got.unused = net["layer" .. unused].weight[{ 0, 0 }]:item()
    return got
  end, { world = world })
  if not worked then
    rs.say(tostring(ranks))
    return nil, 0
  end
  local bytes = 0
  for _, sum in ipairs(rs.trace:events { kind = "c10d.allreduce", rank = 0 }) do
    if sum.seq > seq then bytes = bytes + sum.args.bytes end
  end
  return ranks, bytes / 3
end

local function field(of, name) return type(of) == "table" and of[name] or nil end
local function every(ranks, holds)
  local all = ranks ~= nil
  for rank = 0, world - 1 do all = all and holds(ranks[rank]) end
  return all
end

local ranks = train(false)
rs.check(checks.runs:format(world), ranks ~= nil, { hints = hints.runs })
rs.check(checks.value, every(ranks, function(got) return got.kept end), { hints = hints.value })
rs.check(checks.grads, every(ranks, function(got)
  local right = true
  for rank = 0, world - 1 do
    local grad = got.grads[layer_of(rank)]
    right = right and type(grad) == "number" and math.abs(grad - (rank + 1) / world) < 1e-6
  end
  return right
end), { hints = hints.grads })
rs.check(checks.zeros, every(ranks, function(got) return got.grads[unused] == 0 end), { hints = hints.grads })

-- What the flag does is seen in a run; what a loss that reaches everything does follows from the rule.
local elements = layers * (width * width + width)
local flagged, bytes = train(true)
local guess, after = student.bytes(2 * layers, elements), student.unused_after(1, lr, decay)
rs.close(checks.bytes, field(guess, "loss"), 4 * elements, 0, { hints = hints.bytes })
rs.close(checks.flag, field(guess, "flag"), bytes, 0, { hints = hints.bytes })
rs.close(checks.moved, field(after, "loss"), 1 - lr * decay, 1e-6, { hints = hints.after })
rs.close(checks.still, field(after, "flag"), flagged[0].unused, 1e-6, { hints = hints.after })
