-- Lesson 17: accumulate, then send once.
--
-- Four micro-batches, one step. no_sync keeps DistributedDataParallel from sending each time; but what of it has to lie
-- in no_sync, the forward, the backward or both? Four ways on the same numbers, and a call that passes DDP by.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

rs.lesson {
  title = "Accumulate, then send once",
  devices = 2,
  hardware = "classroom",
  seed = 17,
  minutes = 20,
  needs = "15",
  story = { ["c10d.rendezvous"] = false, ["ddp.verify_params"] = false, ["ddp.ctor.broadcast"] = false,
    ["ddp.mark_bucket_ready"] = false, ["ddp.finalize_backward"] = false, ["ddp.rebuild_buckets"] = false },
}

local hidden = { "ddp", "autograd", "c10d", "comm" } -- kept back while a question is open
local text = {
  welcome = "Two ranks, one Linear(4, 2), four micro-batches each: rows filled with 0, 1, 2, 3 and with 4, 5, 6, 7.",
  watch = "To count them in the viewer: type :break c10d.allreduce rank 0, and c goes from one to the next.",
  plain = {
    question = "Each micro-batch: a forward, then its backward. How many all-reduces does a rank make?",
    choices = { "1", "4", "8" },
    answer = "4",
    why = "DDP does not know that you accumulate: every backward sends its bucket.",
    wrong = {
      ["1"] = "That is what you want. But nobody has told DDP that more is to come.",
      ["8"] = "The weight and the bias travel together: in one bucket of 40 bytes.",
    },
    hides = hidden,
  },
  both = {
    question = "Now the first three, forward and backward, run in no_sync. How many all-reduces?",
    choices = { "0", "1", "4" },
    answer = "1",
    why = "The fourth lies outside. Its gradient is added to what has come together, and all of it is sent.",
    wrong = {
      ["0"] = "Only three of the four are inside. The fourth is as ever.",
      ["4"] = "In no_sync the hooks fire, too, but they return at once.",
    },
    hides = hidden,
  },
  backward = {
    question = "The first three again, but only their backward lies in no_sync. How many?",
    choices = { "1", "4" },
    answer = "4",
    why = "The forward prepares for the backward: from then on the hooks wait for gradients, wherever backward is called.",
    wrong = { ["1"] = "So it looks, as the backward sends. But the forward decided before, outside of no_sync." },
    hides = hidden,
  },
  forward = {
    question = "And only their forward in no_sync, the backward outside?",
    choices = { "1", "4" },
    answer = "1",
    why = "No forward prepared, so no hook expects anything. The forward decides, alone.",
    wrong = { ["4"] = "The backward is outside. But it asks what its forward has prepared: nothing." },
    hides = hidden,
  },
  gradient = {
    question = "With four all-reduces weight.grad[0, 0] came to 14, the mean of 6 and 22. And with one?",
    choices = { "3.5", "5", "14" },
    answer = "14",
    why = "grad holds all that was added since zero_grad, and grad is what the fourth backward sends.",
    wrong = {
      ["5"] = "That is the fourth gradient alone, 3 and 7. But the three before are in grad, and travel with it.",
      ["3.5"] = "DDP divides by the ranks. By the micro-batches you divide, in your loss.",
    },
    hides = hidden,
  },
  module = {
    question = "One call left: ddp.module(x), the model inside. x is 1 on rank 0, 2 on rank 1. Which gradients?",
    choices = { "1.5 and 1.5", "1 and 2", "3 and 3" },
    answer = "1 and 2",
    why = "The hooks hang at the parameters and fire. But no DDP forward prepared: each rank keeps its own.",
    wrong = {
      ["1.5 and 1.5"] = "That is the mean: what ddp(x) gives. Here nothing is sent.",
      ["3 and 3"] = "DDP divides by the ranks; and here it does not even send.",
    },
    hides = hidden,
  },
  ways = {
    plain = "without no_sync",
    both = "no_sync around both",
    backward = "no_sync around the backward",
    forward = "no_sync around the forward",
  },
  begins = "Four micro-batches, %s: first DDP is made.",
  batch = "Micro-batch %d, %s.",
  ends = "%s: all-reduces of 40 bytes: %d; weight.grad[0, 0]: %g.",
  inner = "ddp.module(x): gradients %g and %g, and not one message.",
  finish = "Wrap both, forward and backward: it is the forward that decides.",
  checks = {
    count = "%s: rank %d's all-reduces are %d",
    bytes = "%s: rank %d sends 40 bytes in each",
    prepared = "%s: rank %d's forwards that prepare a backward are %d",
    grad = "%s: rank %d's weight.grad[0, 0] is 14",
    inner = "ddp.module(x): the gradients are 1 and 2",
    silent = "ddp.module(x): no rank has sent anything",
  },
  teacher = [[
Time: 6 minutes for the questions, 8 in the viewer, 6 for the exercise.
Draw four boxes "forward, backward" and let the class put a bracket "no_sync" around parts of them; count arrows below.
Expected wrong answers: "1" for the backward alone (half and more: that the backward sends is right, and misleads),
"4" for the forward alone, "with 1 all-reduce" (an average of averages is feared). Below 30 % right on the backward
alone: step one iteration of each way side by side. Between 30 and 70 %: let pairs argue, ask again. Above: go on.
In the viewer: break c10d.allreduce rank 0, c: count the stops of each way. Then break ddp.prepare_for_backward rank 0:
the same number. That is the whole proof.
One new command: runtil (until, backwards). From a c10d.allreduce of rank 0, :runtil ddp.prepare_for_backward and rank 0
stands in the forward that ordered it.
Next question: four micro-batches, should the learning rate change? (The gradient is a sum of four: divide the loss.)
Two-minute fallback: ringside run, and only the question about the backward by show of hands.]],
}
local checks = text.checks

-- What the first three micro-batches do, in the four ways. The fourth always does what "plain" does.
local ways = {
  plain = function(ddp, x) ddp(x):sum():backward() end,
  both = function(ddp, x) ddp:no_sync(function() ddp(x):sum():backward() end) end,
  backward = function(ddp, x)
    local loss = ddp(x):sum()
    ddp:no_sync(function() loss:backward() end)
  end,
  forward = function(ddp, x) ddp:no_sync(function() return ddp(x):sum() end):backward() end,
}

local function train(rank, way)
  local ddp = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
  for i = 0, 3 do
    local now = i < 3 and way or "plain"
    if rank == 1 then rs.say(text.batch:format(i, text.ways[now])) end
    ways[now](ddp, rs.full({ 1, 4 }, 4.0 * rank + i))
  end
  return ddp.module.weight.grad[{ 0, 0 }]:item()
end

rs.say(text.welcome)
rs.say(text.watch)
for _, way in ipairs { "plain", "both", "backward", "forward" } do
  rs.ask(text[way])
  if way == "both" then rs.ask(text.gradient) end
  local seq, name, count = rs.trace:seq(), text.ways[way], tonumber(text[way].answer)
  rs.say(text.begins:format(name))
  local grads = dist.spawn(train, { world = 2, args = { way } })
  for rank = 0, 1 do
    local of_rank, bytes = (" and rank %d and seq >= %d"):format(rank, seq), {}
    for i, sent in ipairs(rs.trace:events("c10d.allreduce" .. of_rank)) do bytes[i] = sent.args.bytes end
    if rank == 0 then rs.say(text.ends:format(name, #bytes, grads[rank])) end
    rs.close(checks.count:format(name, rank, count), #bytes, count)
    rs.close(checks.bytes:format(name, rank), bytes, count == 1 and { 40 } or { 40, 40, 40, 40 })
    rs.close(checks.prepared:format(name, rank, count), rs.trace:count("ddp.prepare_for_backward" .. of_rank), count)
    rs.close(checks.grad:format(name, rank), grads[rank], 14)
  end
end

rs.ask(text.module)
local grads = dist.spawn(function(rank)
  local ddp = nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
  local made = rs.trace:seq()
  ddp.module(rs.full({ 1, 1 }, rank + 1.0)):sum():backward()
  return { ddp.module.weight.grad:item(), rs.trace:count("c10d and seq >= " .. made .. " and rank " .. rank) }
end, { world = 2 })
rs.say(text.inner:format(grads[0][1], grads[1][1]))
rs.close(checks.inner, { grads[0][1], grads[1][1] }, { 1, 2 })
rs.close(checks.silent, { grads[0][2], grads[1][2] }, { 0, 0 })

rs.say(text.finish)
rs.teacher(text.teacher)
