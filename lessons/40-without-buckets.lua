-- Lesson 40: DDP without buckets.
--
-- The smallest DistributedDataParallel: send the weights once, hang a hook on each parameter, all-reduce each gradient as
-- soon as it is there, wait at the end. What buckets are for shows when they are missing; what the wait is for, too.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

rs.lesson {
  title = "Without buckets",
  hardware = "classroom",
  costs = { host = 0, kernel = 0, Linear_backward = 100 },   -- each layer's backward takes 100 us
  seed = 40,
  minutes = 25,
  needs = "12, 15",
}

local text = {
  welcome = "Two ranks, two Linears, four parameters of 232 bytes in all. A hook on each sends its gradient, and that is all.",
  count = {
    question = "How many all-reduces does one backward start?",
    choices = { "1", "2", "4" },
    answer = "4",
    why = "One a parameter. Nobody gathers them: that is what a bucket would do.",
    wrong = {
      ["1"] = "That is DDP, whose one bucket holds all four.",
      ["2"] = "A layer has two parameters, and each has a hook of its own.",
    },
    hides = { "c10d", "autograd", "comm" },
  },
  equal = "Every gradient is DDP's, bit by bit. Forgotten division, forgotten broadcast: try it, and it is not.",
  sooner = {
    question = "DDP sends the same 232 bytes in one all-reduce, after the last gradient. Who is through first?",
    choices = { "the hooks, they start sooner", "DDP", "both alike" },
    answer = "DDP",
    why = "The hooks hide two all-reduces behind the next layer. The last two, 20 us each, stand alone. DDP's one is 20 us.",
    wrong = {
      ["the hooks, they start sooner"] = "They do. But the last gradients come last for both, and two calls take twice as long.",
      ["both alike"] = "The bytes are alike. Each call has 20 us of latency besides.",
    },
    hides = { "c10d", "ddp", "comm" },
  },
  times = "From the backward's begin: hooks %.2f us, DDP %.2f us. Overlap was not lost. Latency was paid four times.",
  manual = {
    question = "DDP, x = r + 1, finalization by hand: backward is over and all have sent. Rank 1's gradient now?",
    choices = { "1.5", "2", "none" },
    answer = "2",
    why = "The average lies in the bucket. finalize_backward waits for it and writes it into .grad: until then .grad is local.",
    wrong = {
      ["1.5"] = "So it is after finalize_backward, which DDP calls itself unless you take that over.",
      none = "Its own backward has put a gradient there.",
    },
    hides = { "ddp", "c10d" },
  },
  moment = "After backward %g and %g. After ddp:finalize_backward() %g and %g.",
  forgotten = "Whoever forgets it is told in the next backward: %s",
  finish = "Hooks make it right, buckets make it fast, and the wait at the end makes it true.",
  checks = {
    calls = "four parameters, four all-reduces",
    one = "DDP makes one, of 232 bytes",
    equal = "rank %d: its gradients are DDP's, bit by bit",
    first = "the hooks' first begins after 100 us, DDP's after 200",
    hooks = "the hooks are through after 240 us",
    ddp = "DDP is through after 220 us",
    own = "after backward each rank has its own gradient: 1 and 2",
    mean = "after finalize_backward both have 1.5",
    forgotten = "a second backward without it is refused",
  },
  teacher = [[
Time: 5 minutes for the hooks, 10 for the times on paper, 10 for the exercise.
Expected wrong answers: 2 ("one a layer"), "the hooks" (they count the start, not the end), 1.5 (they trust backward).
Let them draw both timelines: 100, 200, and bars of 20 us; four bars against one.
In the viewer: break c10d.allreduce, c: in the first run four stops a rank, in the second one.
One new key: v measures. From autograd.backward to the last all-reduce's end: 240 us, and 220 in the second run.
Next question: 300 parameters of 4 bytes? (6 ms of latency.) And one of 400 MB? (Buckets change nothing.)
Two-minute fallback: read the ten lines of `attach` together: broadcast, hook, divide, all_reduce, wait.]],
}
local checks = text.checks

-- All of it: answers the function that waits.
local function attach(net)
  local works = {}
  for _, p in ipairs(net:parameters()) do
    rs.no_grad(function() dist.broadcast(p, 0) end)
    p:register_post_accumulate_grad_hook(function()
      p.grad:div_(dist.get_world_size())
      works[#works + 1] = dist.all_reduce(p.grad, { async_op = true })
    end)
  end
  return function()
    for _, work in ipairs(works) do work:wait() end
  end
end

local seq = 0
local function seen(kind, rank, phase)
  local found = {}
  for _, event in ipairs(rs.trace:events { kind = kind, rank = rank, phase = phase }) do
    if event.seq >= seq then found[#found + 1] = event end
  end
  return found
end
-- Answers all gradients by rank, and rank 0's all-reduces: how many, the first one's bytes; when the first began and the
-- last ended, in us from the backward's begin.
local function train(with_hooks)
  seq = rs.trace:seq()
  local grads = dist.spawn(function(rank)
    rs.manual_seed(rank)                                     -- other weights on each rank
    local net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    local wait = with_hooks and attach(net)
    local ddp = with_hooks and net or nn.parallel.DistributedDataParallel(net)
    dist.barrier()
    ddp(rs.full({ 3, 4 }, rank + 1.0)):sum():backward()
    if wait then wait() end
    local all = {}
    for i, p in ipairs(net:parameters()) do all[i] = p.grad:tolist() end
    return all
  end, { world = 2 })
  local starts, ends = seen("c10d.allreduce", 0), seen("c10d.allreduce", 0, "end")
  local zero = seen("autograd.backward", 0)[1].t
  return grads, { count = #starts, bytes = starts[1].args.bytes, first = (starts[1].t - zero) / 1000,
    last = (ends[#ends].t - zero) / 1000 }
end

rs.say(text.welcome)
rs.ask(text.count)
local ours, hooks = train(true)
local theirs, ddps = train(false)
rs.close(checks.calls, hooks.count, 4)
rs.close(checks.one, { ddps.count, ddps.bytes }, { 1, 232 })
for rank = 0, 1 do rs.close(checks.equal:format(rank), ours[rank], theirs[rank], 0) end
rs.say(text.equal)

rs.ask(text.sooner)
rs.close(checks.first, { hooks.first, ddps.first }, { 100, 200 }, 0.1, { virtual = true })
rs.close(checks.hooks, hooks.last, 240, 0.1, { virtual = true })
rs.close(checks.ddp, ddps.last, 220, 0.1, { virtual = true })
rs.say(text.times:format(hooks.last, ddps.last))

rs.ask(text.manual)
local by_hand = dist.spawn(function(rank)
  local ddp = nn.parallel.DistributedDataParallel(nn.Linear(1, 1, { bias = false }))
  ddp.require_manual_backward_finalization = true
  local function backward() ddp(rs.full({ 1, 1 }, rank + 1.0)):sum():backward() end
  backward()
  local own = ddp.module.weight.grad:item()
  ddp:finalize_backward()
  local mean = ddp.module.weight.grad:item()
  backward()                                                 -- and nobody finalizes this one
  local worked, why = pcall(backward)
  return { own, mean, not worked and why.message }
end, { world = 2 })
local a, b = by_hand[0], by_hand[1]
rs.say(text.moment:format(a[1], b[1], a[2], b[2]))
rs.close(checks.own, { a[1], b[1] }, { 1, 2 })
rs.close(checks.mean, { a[2], b[2] }, { 1.5, 1.5 })
rs.check(checks.forgotten, a[3] and b[3] and a[3]:find("call finalize_backward", 1, true) ~= nil)
rs.say(text.forgotten:format(a[3]))

rs.say(text.finish)
rs.teacher(text.teacher)
