-- Lesson 32: DDP in 60 lines.
--
-- You have seen every part of it: hooks, buckets, asynchronous all-reduces, the wait at the end. The exercise is an empty class:
-- your own DistributedDataParallel, compared with the built-in one to the bit. Here lie the pieces, one by one, and two traps.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

rs.lesson {
  title = "DDP in 60 lines",
  hardware = "classroom",
  costs = { host = 0, kernel = 0, Linear_backward = 100 },   -- each layer's backward takes 100 us
  seed = 32,
  minutes = 90,
  needs = "13 to 18, 21, 29", story = { ["c10d.rendezvous"] = false, ["ddp.verify_params"] = false },
}

local hidden = { "autograd", "ddp", "c10d", "comm" } -- kept back while a question is open
local text = {
  welcome = "The model: Linear(4, 8), ReLU, Linear(8, 2). The pieces that you are given, and what each does:",
  hook = "A hook: p:register_post_accumulate_grad_hook(f) calls f when p.grad is complete. They came in this order: %s.",
  flat = "A bucket: one flat tensor, rs.zeros(18), and a view for each parameter in it. Writing through the views: %s.",
  work = "A work: dist.all_reduce(flat, { async_op = true }) was back after %g us; its wait ended after %g us.",
  place = {
    question = "The means have to be in .grad when backward() returns. Where do you wait for the works?",
    choices = { "in the hook that sends", "in a callback after the last node", "in optimizer:step" },
    answer = "in a callback after the last node",
    why = "rs.autograd.queue_callback, called in a hook: its function runs when all gradients are there, before backward returns.",
    wrong = {
      ["in the hook that sends"] = "Then the backward stands still while the wire works: no overlap.",
      ["in optimizer:step"] = "It comes too late: gradients may be clipped or printed before.",
    },
    hides = hidden,
  },
  callback = "A callback: first the hooks, then %s, then %s.",
  turn = {
    question = "On rank 1 bucket 1 is full before bucket 0. Send it at once?",
    choices = { "yes, the earlier the better", "no, bucket 0 first" },
    answer = "no, bucket 0 first",
    why = "Calls meet by their number, and rank 0 sends bucket 0 first. One order on all ranks, or gradients get mixed.",
    wrong = {
      ["yes, the earlier the better"] = "Then its first all-reduce meets rank 0's first, which carries bucket 0.",
    },
    hides = hidden,
  },
  mixed = "y = a b x with a = 3 and b = 2; one rank is ready with b first, one with a. Sent at once, a's gradient is %g and b's %g: not 2 and 3.",
  quiet = "As many bytes, the same call: no error, no hang, wrong numbers.",
  two = {
    question = "Two ranks, three steps. Your buckets are others than the built-in's. Must all weights agree to the bit?",
    choices = { "yes", "only nearly" },
    answer = "yes",
    why = "a + b is b + a to the bit, and halving is exact. With two ranks no order of adding is left to choose.",
    wrong = { ["only nearly"] = "Where should the difference come from? Each sum has two terms only." },
    hides = hidden,
  },
  four = {
    question = "And with four ranks?",
    choices = { "yes", "only with one order of adding", "never" },
    answer = "only with one order of adding",
    why = "(a + b) + c need not be a + (b + c) in floats. In another bucket a number lies in another chunk, whose ring begins elsewhere.",
    wrong = {
      yes = "Four terms can be added in many orders, and floats round after each.",
      never = "If both add in one order, every bit is the same: lesson 29 did that.",
    },
    hides = hidden,
  },
  orders = "2^24, 1, 1 and -2^24 on four ranks: added in the ranks' order they give %g, in pairs of pairs %g. Exactly, it is 2.",
  near = "A hook a parameter, against DDP's one bucket, three steps: largest difference with two ranks %g, with four %.2g.",
  task = "Your task: ringside exercise 32. A class of three functions, init, forward, no_sync. 60 lines are enough.",
  asked = "You will be asked for: rank 0's weights, buckets in order, overlap, the mean in .grad, no_sync, a branch that is not used.",
  finish = "Take away any part of it, and a check tells which. That is what each part is for.",
  checks = {
    order = "hooks fire last layer first, the bias before the weight",
    flat = "the views write into the flat tensor",
    async = "all_reduce is back at once, the wait takes 20 us",
    callback = "the callback runs behind all hooks, and before backward returns",
    mixed = "sent in different orders, both gradients are 2.5 on both ranks",
    orders = "2^24, 1, 1, -2^24: one order gives 0, another one 1",
    two = "two ranks: the difference is 0",
    four = "four ranks: it is at most 1e-6",
  },
  teacher = [[
Time: 25 minutes here, 65 for the exercise; in pairs, one writes, one reads lesson 40's attach and lesson 15's order.
Expected wrong answers: "in optimizer:step" (lesson 40 waited behind the backward), "yes, the earlier the better" (a third and
more: it looks like overlap), "only nearly" with two ranks, "never" with four.
Order of work that goes well: broadcast, hooks that all-reduce alone (lesson 40), the callback, then buckets, then the turn,
no_sync, the error. Each makes a check more hold: ringside exercise 32 tells the next one.
In the viewer: break c10d.issue rank 0 if operation = all_reduce, c: in the runs of three steps the hooks make four stops a
step, the built-in DDP one. One new key: * goes to the next event of the kind at the cursor: bucket by bucket on the finished exercise.
Next question: what would gradient_as_bucket_view save in yours? (finish copies back; .grad could be the view.)
Golf for the fast ones: the cap for which the last wait ends first, with Linear_backward = 100 and latency 10 us.
Two-minute fallback: read the solution aloud, function by function, and ask which lesson each line is from.]],
}
local checks = text.checks

local function model()
  return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
end
local function batch(rank, step) return (rs.arange(12, { dtype = "float32" }) * (step + 1) + rank):sin():view { 3, 4 } end

rs.say(text.welcome)
local fired, after = {}, {}
local net = model()
for name, p in net:named_parameters() do
  p:register_post_accumulate_grad_hook(function()
    if #fired == 0 then rs.autograd.queue_callback(function() after[1] = "the callback" end) end
    fired[#fired + 1] = name
    assert(#after == 0)
  end)
end
net(batch(0, 0)):sum():backward()
after[#after + 1] = "backward returns"
local order = table.concat(fired, ", ")
rs.say(text.hook:format(order))
rs.check(checks.order, order == "2.bias, 2.weight, 0.bias, 0.weight")

local flat = rs.zeros(18)
local bias, weight = flat:narrow(0, 0, 2), flat:narrow(0, 2, 16):view { 2, 8 }
rs.no_grad(function()
  bias:fill_(1)
  weight:fill_(2)
end)
rs.say(text.flat:format(("%g, %g, %g ... %g"):format(flat[0]:item(), flat[1]:item(), flat[2]:item(), flat[17]:item())))
rs.close(checks.flat, flat:sum():item(), 2 * 1 + 16 * 2)

local seq = rs.trace:seq()
dist.spawn(function()
  local work = dist.all_reduce(rs.ones(18), { async_op = true })
  work:wait()
end, { world = 2 })
local function one(kind) return rs.trace:first(("%s and rank 0 and seq >= %d"):format(kind, seq)) end
local issued, waited = one("c10d.issue and operation = all_reduce"), one("c10d.wait and operation = all_reduce")
local back = waited and (waited.t - issued.t) / 1000 or 0
local done = waited and back + rs.trace:duration(waited) or 0
rs.say(text.work:format(back, done))
rs.close(checks.async, { back, done }, { 0, 20 }, 0.1, { virtual = true })

rs.ask(text.place)
rs.say(text.callback:format(after[1], after[2]))
rs.check(checks.callback, #fired == 4 and after[1] == "the callback" and after[2] == "backward returns")

-- Two layers of one weight, sent in the order in which they are ready.
rs.ask(text.turn)
local got = dist.spawn(function(rank)
  local a, b = rs.tensor({ 3.0 }, { requires_grad = true }), rs.tensor({ 2.0 }, { requires_grad = true })
  for _, p in ipairs { a, b } do
    p:register_post_accumulate_grad_hook(function() dist.all_reduce(p.grad, { op = "avg" }) end)
  end
  local first, second = a, b
  if rank == 1 then first, second = b, a end
  local x = rs.ones(1) * first * second               -- `second` is ready first
  x:sum():backward()
  return { a.grad:item(), b.grad:item() }
end, { world = 2 })
rs.say(text.mixed:format(got[0][1], got[0][2]))
rs.say(text.quiet)
rs.close(checks.mixed, { got[0], got[1] }, { { 2.5, 2.5 }, { 2.5, 2.5 } })

-- Three steps with the built-in DDP, or with a hook a parameter that waits at once: all weights, rank 0's.
local function train(world, with_hooks)
  return dist.spawn(function(rank)
    rs.manual_seed(1)
    local inner = model()
    for _, p in ipairs(with_hooks and inner:parameters() or {}) do
      p:register_post_accumulate_grad_hook(function()
        p.grad:div_(dist.get_world_size())
        dist.all_reduce(p.grad)
      end)
    end
    local outer = with_hooks and inner or nn.parallel.DistributedDataParallel(inner)
    local optimizer = rs.optim.SGD(inner:parameters(), { lr = 0.1 })
    local flat_weights = {}
    for step = 0, 2 do
      optimizer:zero_grad()
      outer(batch(rank, step)):pow(2):sum():backward()
      optimizer:step()
    end
    for i, p in ipairs(inner:parameters()) do flat_weights[i] = p:detach():view { -1 } end
    return rs.cat(flat_weights):tolist()
  end, { world = world })[0]
end
local function difference(world)
  local most, theirs = 0, train(world, false)
  for i, ours in ipairs(train(world, true)) do most = math.max(most, math.abs(ours - theirs[i])) end
  return most
end

rs.ask(text.two)
local two = difference(2)
rs.check(checks.two, two == 0)
rs.ask(text.four)
local function sum_by(algorithm)
  local mine = { [0] = 2.0 ^ 24, 1.0, 1.0, -2.0 ^ 24 }
  return dist.spawn(function(rank)
    local t = rs.tensor { mine[rank] }
    dist.all_reduce(t, { algorithm = algorithm })
    return t:item()
  end, { world = 4 })[0]
end
local naive, halving = sum_by("naive"), sum_by("halving_doubling")
rs.say(text.orders:format(naive, halving))
rs.close(checks.orders, { naive, halving }, { 0, 1 }, 0)
local four = difference(4)
rs.check(checks.four, four <= 1e-6)
rs.say(text.near:format(two, four))

rs.say(text.task)
rs.say(text.asked)
rs.say(text.finish)
rs.teacher(text.teacher)
