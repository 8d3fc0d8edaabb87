-- Lesson 34: two forwards, one backward, and gradients that DDP never sees.
--
-- DDP is armed by a forward and fires once: in the next backward that fills its buckets. Whoever calls forward twice and
-- backward twice, or asks rs.autograd.grad, gets numbers that no other rank has, and no word about it.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

rs.lesson {
  title = "Two forwards",
  hardware = "classroom",
  seed = 34,
  minutes = 30,
  needs = "13, 15",
}

local text = {
  welcome = "Two ranks, one weight w = 2. Each has a near sample, r + 1, and a far one, 10 (r + 1).",
  once = "Two forwards, the losses added, one backward: %g and %g, the mean of both samples. Right.",
  twice = {
    question = "Two forwards, then a backward of each loss. Rank 0's w.grad in the end? (its near sample is 1, its far one 10)",
    choices = { "1.5", "11.5", "16.5" },
    answer = "11.5",
    why = "The first backward averages 1 and 2: 1.5. It has used up what the forwards armed. The second adds rank 0's own 10.",
    wrong = {
      ["16.5"] = "That is what it should be. But no forward stands between the two backwards to arm DDP again.",
      ["1.5"] = "The second backward does add its gradient. It only tells nobody.",
    },
    hides = { "ddp", "autograd", "c10d" },
  },
  apart = "After the first backward %g and %g, after the second %g and %g: from here on the replicas differ.",
  branches = "With find_unused_parameters the second forward marks what it does not use, the first one's branch: %s.",
  grad = {
    question = "Now rs.autograd.grad of the DDP's loss, for w alone. How many all-reduces carry gradients?",
    choices = { "one", "none" },
    answer = "none",
    why = "DDP's hooks sit where gradients are added to .grad. autograd.grad hands them out and adds nothing.",
    wrong = { one = "It is a backward, but it ends before the place where DDP waits." },
    hides = { "ddp", "autograd", "c10d" },
  },
  own = "So each rank has its own: %g and %g. w.grad is still nil.",
  penalty = {
    question = "A penalty: loss = g * g, with that g (2 and 8, their mean 5), then backward. Which gradient does w get?",
    choices = { "34, the mean of the ranks' penalties", "25, that of the mean gradient's" },
    answer = "34, the mean of the ranks' penalties",
    why = "Each rank squares its own g: 4 and 64 reach w, and that DDP averages. The mean of squares is no square of the mean.",
    wrong = {
      ["25, that of the mean gradient's"] = "For that g would have to be averaged before it is squared.",
    },
    hides = { "ddp", "autograd", "c10d" },
  },
  norm = "BatchNorm, two forwards: the second one's sync writes into running_mean that the first one used. It runs: weight.grad %g.",
  finish = "One forward, one backward. And what autograd.grad hands out is nobody's but yours.",
  checks = {
    once = "two forwards, one backward: 16.5 on both ranks, one all-reduce",
    twice = "two backwards: 11.5 and 21.5",
    single = "rank %d: both forwards arm, one backward finalizes",
    branches = "a branch for each forward, with find_unused_parameters: marked ready twice",
    grad = "autograd.grad gives 2 and 8",
    none = "and no gradient travels",
    penalty = "the penalty's gradient is 34 on both ranks",
    norm = "two forwards through BatchNorm: the backward runs, and the ranks agree",
  },
  teacher = [[
Time: 10 minutes for the two backwards, 10 for autograd.grad, 10 for the exercise.
Expected wrong answers: 16.5 (nearly all), "one" (a backward is a backward), 25 (they average in their heads).
Ask who calls forward twice: GANs (real and fake), contrastive losses, reinforcement learning. They add losses, or use no_sync.
In the viewer: break ddp.prepare_for_backward rank 0, c, c: the second stop resets what the first one armed.
One new debugger command: until kind = ddp.finalize_backward runs on to the place where DDP disarms.
Next question: and forward, forward, backward, with the first forward in no_sync? (As with one backward: both in one sum.)
Two-minute fallback: ringside run, and let the class explain 21.5 on rank 1.]],
}
local checks = text.checks

local function sample(rank, times) return rs.full({ 1, 1 }, times * (rank + 1.0)) end
local function one()
  local layer = nn.Linear(1, 1, { bias = false })
  nn.init.constant_(layer.weight, 2)
  return layer
end
local seq = 0
local function seen(kind, rank)
  local count = 0
  for _, event in ipairs(rs.trace:events { kind = kind, rank = rank }) do count = count + (event.seq > seq and 1 or 0) end
  return count
end
-- What f(ddp, rank, w) answers, a list of numbers, on rank 0 and on rank 1.
local function train(make, options, f)
  seq = rs.trace:seq()
  local told = dist.spawn(function(rank)
    local net = make()
    return f(nn.parallel.DistributedDataParallel(net, options), rank, net.weight)
  end, { world = 2 })
  return told[0], told[1]
end
local function backward(loss, w)
  loss:sum():backward()
  return w and w.grad:item()
end

rs.say(text.welcome)
local a, b = train(one, {}, function(ddp, rank, w) return backward(ddp(sample(rank, 1)) + ddp(sample(rank, 10)), w) end)
rs.say(text.once:format(a, b))
rs.check(checks.once, a == 16.5 and b == 16.5 and seen("ddp.all_reduce_bucket", 0) == 1)

rs.ask(text.twice)
a, b = train(one, {}, function(ddp, rank, w)
  local first, second = ddp(sample(rank, 1)), ddp(sample(rank, 10))
  return { backward(first, w), backward(second, w) }
end)
rs.close(checks.twice, { a[2], b[2] }, { 11.5, 21.5 })
for rank = 0, 1 do
  rs.check(checks.single:format(rank), seen("ddp.prepare_for_backward", rank) == 2 and seen("ddp.finalize_backward", rank) == 1)
end
rs.say(text.apart:format(a[1], b[1], a[2], b[2]))

local Branches = nn.Module("Branches")
function Branches:init()
  self.a = nn.Linear(1, 1)
  self.b = nn.Linear(1, 1)
end
function Branches:forward(x, name) return self[name](x) end
local worked, why = pcall(train, Branches, { find_unused_parameters = true }, function(ddp, rank)
  backward(ddp(sample(rank, 1), "a") + ddp(sample(rank, 10), "b"))
end)
rs.say(text.branches:format(worked and "" or why.message:match("[^,\n]*")))
rs.check(checks.branches, not worked and why.message:find("ready twice", 1, true) ~= nil)

rs.ask(text.grad)
local function own_grad(ddp, rank, w)
  return rs.autograd.grad(ddp(sample(rank, 1)):pow(2):sum() / 2, w, { create_graph = true })
end
a, b = train(one, {}, function(ddp, rank, w) return { own_grad(ddp, rank, w):item(), w.grad == nil } end)
rs.say(text.own:format(a[1], b[1]))
rs.check(checks.grad, a[1] == 2 and b[1] == 8 and a[2] and b[2])
rs.check(checks.none, seen("ddp.all_reduce_bucket") == 0)

rs.ask(text.penalty)
a, b = train(one, {}, function(ddp, rank, w) return backward(own_grad(ddp, rank, w):pow(2), w) end)
rs.close(checks.penalty, { a, b }, { 34, 34 })

a, b = train(function() return nn.BatchNorm1d(1) end, {}, function(ddp, rank, w)
  local x = rs.tensor { { 0.0 }, { 2.0 } } + 4 * rank
  return backward(ddp(x) * rs.tensor { { 1.0 }, { 2.0 } } + ddp(x * 3):pow(2), w)
end)
rs.say(text.norm:format(a))
rs.close(checks.norm, { a, b }, { 4.99999, 4.99999 }, 1e-5)

rs.say(text.finish)
rs.teacher(text.teacher)
