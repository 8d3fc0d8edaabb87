-- Lesson 25: blame the one who waits least.
--
-- Four ranks, one of them slower. A profile shows long all-reduces on the three fast ones, and it is the fourth that
-- costs the time: an all-reduce begins when a rank calls it and ends when all have.
local rs = require "ringside"
local dist = rs.distributed

rs.lesson {
  title = "Stragglers",
  hardware = "classroom",
  costs = { host = 0, kernel = 0 },     -- only the wire costs, and what the ranks compute
  seed = 25,
  minutes = 20,
  needs = "11",
}

local text = {
  welcome = "Four ranks compute 1000 us and sum 40 000 bytes. Today rank 2 takes 1300 us. Who is to blame, and how to see it?",
  pure = {
    question = "How long is the all-reduce if all come at the same time?",
    choices = { "11 us", "66 us", "366 us" },
    answer = "66 us",
    why = "6 steps of a ring of four, each 10 us + 10 000 bytes / (10 000 B/us): 6 x 11.",
    wrong = {
      ["11 us"] = "That is one step: a quarter of the bytes to the neighbour. There are 2 (N - 1) = 6.",
      ["366 us"] = "It takes as long today, for those who wait. The wire needs less.",
    },
    hides = { "c10d", "comm" },
  },
  shortest = {
    question = "On which rank is today's all-reduce the shortest bar of the timeline?",
    choices = { "rank 0", "rank 2", "all are alike" },
    answer = "rank 2",
    why = "Who comes last finds everybody there: its bar is transfer alone. The others' bars begin earlier and end at once.",
    wrong = {
      ["rank 0"] = "It waits for rank 2 like ranks 1 and 3.",
      ["all are alike"] = "They end alike. They began when each rank called.",
    },
    hides = { "c10d", "comm" },
  },
  efficiency = {
    question = "What share of its time does a step of 1366 us use well?",
    choices = { "78 %", "95 %", "100 %" },
    answer = "78 %",
    why = "Without the straggler it would last 1000 + 66 us: 1066 / 1366.",
    wrong = {
      ["95 %"] = "1300 / 1366 is the share that rank 2 computes. The other three stand still for 300 us.",
      ["100 %"] = "Rank 2 is never idle. The machine is four ranks.",
    },
    hides = { "c10d", "comm" },
  },
  parts = "rank %d: all-reduce %7.1f us = %5.1f us until all had come + %5.1f us of transfer",
  culprit = "The shortest bar is rank %d's: it came last. The longest wait is not the fault, it is the price.",
  backward = "Now the same with DDP, and the delay in rank 1's backward alone.",
  equal = {
    question = "Rank 1's backward is 200 us slower. How long does backward last on the others?",
    choices = { "200 us less", "as long as rank 1's" },
    answer = "as long as rank 1's",
    why = "Backward ends when the gradients are averaged, and the average waits for rank 1. Its own all-reduce is short.",
    wrong = { ["200 us less"] = "They compute 200 us less and wait 200 us longer, inside backward." },
    hides = { "c10d", "ddp", "comm" },
  },
  lasts = "rank %d: backward %7.1f us, of it all-reduce %7.1f us",
  finish = "Long all-reduces do not mean a slow network. Ask first who comes last: it is the rank that waits least.",
  checks = {
    steps = "rank %d: the step ends after 1366 us",
    short = "rank 2's all-reduce lasts no longer than the transfer, 66 us",
    long = "rank %d's lasts 300 us longer",
    efficiency = "1066 of 1366 us: 78 %",
    same = "all four backwards last equally long",
    found = "the shortest all-reduce is rank 1's",
  },
  teacher = [[
Time: 5 minutes to predict, 10 in the viewer, 5 for the exercise.
Show the timeline first and ask who is slow. Most point at the longest bars.
Expected wrong answers: "rank 0" or "the network" (the longest bars), "200 us less" (they forget that backward waits).
In the viewer: put the four c10d.allreduce under each other: they end together, and begin where each rank's compute ended.
Next question: and if another rank is late in every step? (Then no bar tells it in the mean: look step by step.)
Two-minute fallback: ringside run, and read the four lines of parts aloud.]],
}
local checks = text.checks

local function step(rank)
  rs.advance(rank == 2 and 1300 or 1000)
  dist.all_reduce(rs.zeros(10000), { algorithm = "ring" })
end

rs.say(text.welcome)
rs.ask(text.pure)
rs.ask(text.shortest)
dist.spawn(step, { world = 4 })

-- All have come when the last one calls; from there on it is transfer.
local begins = rs.trace:events { kind = "c10d.allreduce" }
local all_here = 0
for _, event in ipairs(begins) do all_here = math.max(all_here, event.t / 1000) end
local bar, first = {}, 0
for _, event in ipairs(begins) do
  bar[event.rank] = rs.trace:duration(event)
  local wait = all_here - event.t / 1000
  rs.say(text.parts:format(event.rank, bar[event.rank], wait, bar[event.rank] - wait))
  rs.close(checks.steps:format(event.rank), event.t / 1000 + bar[event.rank], 1366, 1e-6, { virtual = true })
  if bar[event.rank] < bar[first] then first = event.rank end
end
rs.check(checks.short, bar[2] <= 66, { virtual = true })
for _, rank in ipairs { 0, 1, 3 } do
  rs.check(checks.long:format(rank), bar[rank] - bar[2] >= 300, { virtual = true })
end
rs.say(text.culprit:format(first))
rs.ask(text.efficiency)
rs.close(checks.efficiency, math.floor(100 * (1000 + bar[2]) / (all_here + bar[2]) + 0.5), 78, 0, { virtual = true })

-- In DDP the all-reduce is called inside backward.
rs.say(text.backward)
rs.ask(text.equal)
local seq = rs.trace:seq()
dist.spawn(function(rank)
  local ddp = rs.nn.parallel.DistributedDataParallel(rs.nn.Linear(8, 8))
  local out = ddp(rs.ones(2, 8))
  out:register_hook(function() if rank == 1 then rs.advance(200) end end)
  out:sum():backward()
end, { world = 4 })
local backward, reduce = {}, {}
for _, event in ipairs(rs.trace:events { kind = "autograd.backward" }) do
  backward[event.rank] = rs.trace:duration(event)
end
for _, event in ipairs(rs.trace:events { kind = "c10d.allreduce" }) do
  if event.seq > seq then reduce[event.rank] = rs.trace:duration(event) end
end
local least = 0
for rank = 0, 3 do
  rs.say(text.lasts:format(rank, backward[rank], reduce[rank]))
  if reduce[rank] < reduce[least] then least = rank end
end
rs.close(checks.same, { backward[1], backward[2], backward[3] }, { backward[0], backward[0], backward[0] }, 1e-6,
  { virtual = true })
rs.check(checks.found, least == 1, { virtual = true })

rs.say(text.finish)
rs.teacher(text.teacher)
