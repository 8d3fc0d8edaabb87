-- Checks of exercise 40. The gradients are compared with those of all ranks' samples on one, the times are worked out from
-- what a layer and a hop cost; then the hooks run, and the record has the last word.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

local backward, world = rs.vary(100, { 15, 30, 400 }), rs.vary(2, { 3, 4 })
local wide = rs.vary(8, { 4, 16, 64 })
rs.lesson {
  title = "Exercise: without buckets",
  hardware = "classroom",
  costs = { host = 0, kernel = 0, Linear_backward = backward }, -- only a Linear's backward costs, and the wire
  seed = 40,
}

local text = {
  checks = {
    same = "attach: all ranks start with rank 0's weights",
    mean = "one backward, then wait: every gradient is the mean",
    calls = "with as many all-reduces as parameters",
    early = "and none is waited for before backward is over",
    held = "two backwards that do not send make no all-reduce",
    added = "and the third sends the sum of all three",
    again = "a next iteration is right, too",
    through = "through: when the last all-reduce ends",
    ran = "the record agrees",
  },
  hints = {
    same = { "dist.broadcast(p, 0) for each parameter, inside rs.no_grad." },
    mean = {
      "all_reduce makes the sum. Who divides, and by what?",
      "p.grad:div_(dist.get_world_size()) before it is sent.",
    },
    calls = { "One hook a parameter, one dist.all_reduce a hook." },
    early = { "dist.all_reduce(p.grad, { async_op = true }) answers a work at once: keep it, state.wait waits for it." },
    held = { "The hook looks at state.sends each time that it runs." },
    added = {
      "Gradients add up in .grad while nobody sends. Divide when they are sent, not before.",
    },
    again = { "After the wait the list of works begins anew." },
    through = {
      "Layer i's gradients are there after i * backward.",
      "An all-reduce begins when its gradient is there and the one before is through.",
      "free = math.max(free, i * backward) + 2 * (10 + bytes / 2 / 10000), for each parameter.",
    },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()
local attach = student.attach

local function build(seed)
  rs.manual_seed(seed)
  return nn.Sequential(nn.Linear(4, wide), nn.ReLU(), nn.Linear(wide, 2))
end
local function batch(rank, step) return rs.full({ 3, 4 }, 1.0 + rank) * (step + 1) end
local function grads_of(net)
  local all = {}
  for i, p in ipairs(net:parameters()) do all[i] = p.grad and p.grad:tolist() or false end
  return all
end
-- What one process gets from all ranks' batches of these steps.
local function expected(steps)
  local net = build(0)
  for _, step in ipairs(steps) do
    for rank = 0, world - 1 do
      local loss = net(batch(rank, step)):sum() / world
      loss:backward()
    end
  end
  return grads_of(net)
end

local seq = rs.trace:seq()
local function seen(kind, rank, phase)
  local found = {}
  for _, event in ipairs(rs.trace:events { kind = kind, rank = rank, phase = phase }) do
    if event.seq >= seq then found[#found + 1] = event end
  end
  return found
end
-- f(net, state, run) on all ranks; what rank 0 and the last rank answer, or nothing.
local function train(f)
  seq = rs.trace:seq()
  local worked, told = pcall(dist.spawn, function(rank)
    local net   = build(rank)
    local state = attach(net)
    return f(net, state, function(step) net(batch(rank, step)):sum():backward() end)
  end, { world = world })
  if worked then return told[0], told[world - 1] end
end
local near = 1e-3

local first, last = train(function(net)
  local weights = {}
  for i, p in ipairs(net:parameters()) do weights[i] = p:tolist() end
  return weights
end)
rs.close(checks.same, last, first or {}, near, { hints = hints.same })

first, last = train(function(net, state, run)
  run(0)
  state.wait()
  return grads_of(net)
end)
rs.close(checks.mean, { first or 0, last or 0 }, { expected { 0 }, expected { 0 } }, near, { hints = hints.mean })
rs.close(checks.calls, #seen("c10d.allreduce", 0), 4, { hints = hints.calls })
local over, waits = seen("autograd.backward", 0, "end")[1], 0
for _, wait in ipairs(seen("c10d.wait", 0)) do
  waits = waits + (over and wait.args.operation == "all_reduce" and wait.seq < over.seq and 1 or 0)
end
rs.check(checks.early, over ~= nil and #seen("c10d.allreduce", 0) > 0 and waits == 0, { hints = hints.early })

train(function(_, state, run)
  state.sends = false
  run(0)
  run(1)
  return 0
end)
rs.close(checks.held, #seen("c10d.allreduce", 0) + #seen("c10d.allreduce", world - 1), 0, { hints = hints.held })

first, last = train(function(net, state, run)
  for step = 0, 2 do
    state.sends = step == 2
    run(step)
  end
  state.wait()
  local added = grads_of(net)
  net:zero_grad()
  run(3)
  state.wait()
  return { added, grads_of(net) }
end)
rs.close(checks.added, { first and first[1] or 0, last and last[1] or 0 }, { expected { 0, 1, 2 }, expected { 0, 1, 2 } }, near,
  { hints = hints.added })
rs.close(checks.again, { first and first[2] or 0, last and last[2] or 0 }, { expected { 3 }, expected { 3 } }, near,
  { hints = hints.again })

-- The last layer's bias and weight, then the first one's.
local layers, through = { { 8, 8 * wide }, { 4 * wide, 16 * wide } }, 0
for i, layer in ipairs(layers) do
  for _, bytes in ipairs(layer) do through = math.max(through, i * backward) + 2 * (10 + bytes / 2 / 10000) end
end
local guess = student.through(layers, backward)
rs.close(checks.through, guess, through, 1e-4, { hints = hints.through })
world = 2
train(function(_, state, run)
  dist.barrier()
  run(0)
  state.wait()
  return 0
end)
local begins, ends = seen("autograd.backward", 0), seen("c10d.allreduce", 0, "end")
local ran = #begins > 0 and #ends > 0 and (ends[#ends].t - begins[1].t) / 1000 or -1
rs.close(checks.ran, guess, ran, 0.01, { virtual = true, hints = hints.through })
