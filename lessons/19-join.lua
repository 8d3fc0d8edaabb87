-- Lesson 19: when data runs out.
--
-- One weight, two ranks, three batches on one and five on the other. Alone DistributedDataParallel hangs at the fourth;
-- under Join the rank that has run out sends zeros for as long as the other goes on. By what is divided then?
local rs = require "ringside"
local nn, optim, dist = rs.nn, rs.optim, rs.distributed

rs.lesson {
  title = "When data runs out",
  devices = 2,
  hardware = "classroom",
  seed = 19,
  minutes = 20,
  needs = "16",
}

local hidden = { "ddp", "autograd", "c10d", "comm", "optim", "fault" } -- kept back while a question is open
local text = {
  welcome = "Two ranks, one weight w = 1, loss w * x, SGD with rate 0.1. Rank 0 has three batches with x = 1, rank 1 "
    .. "five with x = 3.",
  alone = {
    question = "Without Join: what becomes of rank 1's fourth backward?",
    choices = { "it is averaged with zeros", "it stays rank 1's own", "it waits in vain" },
    answer = "it waits in vain",
    why = "An all-reduce ends when every rank has called it. Rank 0 has returned and will call nothing more.",
    wrong = {
      ["it is averaged with zeros"] = "Somebody would have to send those zeros. Rank 0 is gone.",
      ["it stays rank 1's own"] = "DDP cannot know that rank 0 is gone: its hooks start the all-reduce as ever.",
    },
    hides = hidden,
  },
  told = "What was told: %s",
  joined = {
    question = "Now in ddp:join. Rank 0 sends zeros in the fourth iteration. What is rank 1's gradient?",
    choices = { "1.5", "2", "3" },
    answer = "1.5",
    why = "(0 + 3) / 2: DDP divides by all ranks, also by those that are done, so each batch counts alike.",
    wrong = {
      ["3"] = "That is what rank 1 puts in. DDP divides it by two, as ever.",
      ["2"] = "That was (1 + 3) / 2, as long as rank 0 had batches.",
    },
    hides = hidden,
  },
  live = {
    question = "And divided by the ranks that are left?",
    choices = { "1.5", "2", "3" },
    answer = "3",
    why = "Before each forward the ranks count who is left: one. 3 / 1.",
    wrong = {
      ["1.5"] = "That is division by the initial world. Now those that are left count.",
      ["2"] = "Rank 0 sends zeros: there is no 1 any more.",
    },
    hides = hidden,
  },
  final = {
    question = "Divided by all ranks, rank 0 made three steps, down to w = 0.4. What is its w behind the join?",
    choices = { "0.1", "0.4", "1" },
    answer = "0.1",
    why = "When all are done, the last to end gives its whole state to the others: rank 1 went on to 0.1.",
    wrong = {
      ["0.4"] = "So it is while rank 0 only sends zeros. But a join ends with one model on all ranks.",
      ["1"] = "That is where both began. Three gradients of 2 were stepped.",
    },
    hides = hidden,
  },
  ways = { [true] = "by all ranks", [false] = "by those left" },
  option = "That is ddp:join({ divide_by_initial_world_size = false }, f); true is the default.",
  begins = "Divided %s. In the viewer: break ddp.join.shadow rank 0, and you see what rank 0 does without batches.",
  ends = "Divided %s: rank 0's gradients %s, rank 1's %s; w = %.1f and %.1f.",
  cost = "The price: %d all-reduces of rank 1 in five iterations, %d of them so that others know where it is.",
  finish = "A rank that is done owes the others its part of every collective, until all are.",
  checks = {
    hangs = "without Join: a DeadlockError",
    named = "without Join: it says that rank 1 waits for rank 0, which has returned",
    event = "without Join: fault.deadlock is told of rank 1",
    grads = "divided %s: rank %d's gradients are %s",
    weight = "divided %s: w is %.1f on rank %d",
    shadows = "divided %s: rank 0 shadows two iterations, rank 1 none",
    buckets = "divided %s: both ranks all-reduce five buckets",
    final = "divided %s: the final state comes from rank 1",
  },
  teacher = [[
Time: 6 minutes for the questions, 8 in the viewer, 6 for the exercise.
Let two students clap together, one with three claps and one with five: what does the second do at clap four? Then let
the first go on with an empty hand.
Expected wrong answers: "3" for the first division (half: nobody else has data), "0.4" for rank 0's w. Below 30 % right
on the division: write (0 + 3) / 2 under (1 + 3) / 2. Between 30 and 70 %: let pairs argue, ask again. Above: go on.
In the viewer: break ddp.join.shadow rank 0, c, then m: rebuild, "will you reduce?", one bucket of zeros. The same
order as in rank 1's ddp.forward below it: that is all that Join does.
Next question: which division is right? (By all: every batch counts alike, the last steps are small. By those left:
each step is a mean, but rank 1's last batches weigh twice.)
Two-minute fallback: ringside run, and only the question about the division by show of hands.]],
}
local checks = text.checks

local batches = { [0] = { 1.0, 1.0, 1.0 }, { 3.0, 3.0, 3.0, 3.0, 3.0 } }

local function train(rank, join, initial)
  local net, grads = nn.Linear(1, 1, { bias = false }), {}
  nn.init.ones_(net.weight)
  local ddp = nn.parallel.DistributedDataParallel(net)
  local sgd = optim.SGD(ddp:parameters(), { lr = 0.1 })
  local function all_batches()
    for i, x in ipairs(batches[rank]) do
      sgd:zero_grad()
      ddp(rs.full({ 1, 1 }, x)):sum():backward()
      grads[i] = net.weight.grad:item()
      sgd:step()
    end
  end
  if join then ddp:join({ divide_by_initial_world_size = initial }, all_batches) else all_batches() end
  return { grads = grads, w = net.weight:item() }
end

local function words(numbers)
  local list = {}
  for i, number in ipairs(numbers) do list[i] = ("%g"):format(number) end
  return table.concat(list, " ")
end

rs.say(text.welcome)
rs.ask(text.alone)
local worked, why = pcall(dist.spawn, train, { world = 2, args = { false } })
rs.say(text.told:format(tostring(why):match("[^\n]*")))
rs.check(checks.hangs, not worked and why.kind == "DeadlockError")
rs.check(checks.named, why.message:find("rank 1", 1, true) ~= nil and why.message:find("rank 0", 1, true) ~= nil)
rs.check(checks.event, rs.trace:first { kind = "fault.deadlock" }.rank == 1)

local expected = {
  [true] = { { 2, 2, 2 }, { 2, 2, 2, 1.5, 1.5 }, 0.1 },
  [false] = { { 2, 2, 2 }, { 2, 2, 2, 3, 3 }, -0.2 },
}
for _, initial in ipairs { true, false } do
  local way, wanted, seq = text.ways[initial], expected[initial], rs.trace:seq()
  rs.ask(initial and text.joined or text.live)
  if initial then rs.ask(text.final) end
  if not initial then rs.say(text.option) end
  rs.say(text.begins:format(way))
  local ranks = dist.spawn(train, { world = 2, args = { true, initial } })
  local function count(kind, rank) return rs.trace:count(("%s and rank %d and seq >= %d"):format(kind, rank, seq)) end
  local shown = { words(ranks[0].grads), words(ranks[1].grads) }
  rs.say(text.ends:format(way, shown[1], shown[2], ranks[0].w, ranks[1].w))
  if initial then rs.say(text.cost:format(count("c10d.allreduce", 1), count("c10d.allreduce", 1) - 5)) end
  for rank = 0, 1 do
    rs.close(checks.grads:format(way, rank, words(wanted[rank + 1])), ranks[rank].grads, wanted[rank + 1])
    rs.close(checks.weight:format(way, wanted[3], rank), ranks[rank].w, wanted[3], 1e-6)
  end
  rs.close(checks.shadows:format(way), { count("ddp.join.shadow", 0), count("ddp.join.shadow", 1) }, { 2, 0 })
  local sent = { count("ddp.all_reduce_bucket", 0), count("ddp.all_reduce_bucket", 1) }
  rs.close(checks.buckets:format(way), sent, { 5, 5 })
  local ends = rs.trace:events(("ddp.join.final and seq >= %d"):format(seq))
  rs.close(checks.final:format(way), { #ends, ends[1].args.root, ends[2].args.root }, { 2, 1, 1 })
end

rs.say(text.finish)
rs.teacher(text.teacher)
