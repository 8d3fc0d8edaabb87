-- Lesson 11: all-reduce, hop by hop.
--
-- Four ranks in a ring, each with eight numbers. Every step each rank sends one chunk to its right neighbour and adds
-- (or keeps) what comes from the left. After 2 (N - 1) steps everybody has the sum. Rank r sends to r + 1.
local rs = require "ringside"
local dist = rs.distributed

rs.lesson {
  title = "All-reduce hop by hop",
  hardware = "classroom",
  costs = { host = 0, kernel = 0 },     -- only the wire costs: 10 us a hop, and 10 000 bytes a microsecond
  seed = 11,
  minutes = 30,
  needs = "10", story = { ["c10d.rendezvous"] = false },
}

local text = {
  welcome = "Four ranks, eight floats each: rank r holds 10r, 10r + 1, ... The ring cuts them into four chunks of two.",
  steps = {
    question = "How many steps until everybody has the sum?",
    choices = { "3", "4", "6", "12" },
    answer = "6",
    why = "N - 1 = 3 to add up (reduce-scatter), and 3 more to hand the sums round (all-gather).",
    wrong = {
      ["3"] = "After three steps each rank has one sum, of one chunk. The others lack it still.",
      ["4"] = "A chunk that is back where it began has made one step too many.",
      ["12"] = "All ranks send at once: a step is four hops side by side.",
    },
    hides = { "comm", "c10d" },
  },
  bytes = {
    question = "How many bytes does one hop carry?",
    choices = { "2", "8", "32" },
    answer = "8",
    why = "A chunk is a quarter of eight floats: two floats, eight bytes.",
    wrong = {
      ["2"] = "Two elements, and each is a float of four bytes.",
      ["32"] = "That is the whole tensor. A ring sends one chunk at a time, so that all links work at once.",
    },
    hides = { "comm", "c10d" },
  },
  complete = {
    question = "Which chunk is complete on rank 0 after step 3?",
    choices = { "chunk 0", "chunk 1", "chunk 3" },
    answer = "chunk 1",
    why = "Chunk c starts at rank c, goes once round, and arrives complete at rank c - 1: on rank 0 that is chunk 1, "
      .. "68 and 72.",
    wrong = {
      ["chunk 0"] = "Chunk 0 began here and has gone on to rank 3: three steps to the right.",
      ["chunk 3"] = "Chunk 3 was here after step 1, with two parts of four.",
    },
    hides = { "comm", "c10d" },
  },
  times = "Questions count by the classroom's prices. In free, what is measured is wall time of this machine.",
  watch = "n goes through the all-reduce step by step: a step is one hop of every rank. "
    .. "From hop to hop inside: u comm.hop (until).",
  holds = "I hold %d to %d. My right neighbour is rank %d.",
  has = "Every rank has the sum.",
  bandwidth = "32 bytes in %.4f us. Bus bandwidth: 2 (N-1)/N x 32 B / time = %.4f B/us; the wire could do 10 000.",
  twice = {
    question = "Twice the ranks, the same tensor: how many bytes does a rank send?",
    choices = { "24", "48", "56", "96" },
    answer = "56",
    why = "2 (N - 1) / N x 32 bytes: 14 steps of 4 bytes. It never reaches 64: that is why rings scale.",
    wrong = {
      ["24"] = "The chunks are half as long. But there are more than twice as many steps: 14.",
      ["48"] = "So it was with four ranks. Two more steps' worth is added: 14 of 4 bytes instead of 6 of 8.",
      ["96"] = "The steps grow, 6 to 14, but a chunk shrinks to one float.",
    },
    hides = { "comm", "c10d" },
  },
  finish = "Bytes hardly grow with the ranks; steps do. At 32 bytes the ring is all latency: trees exist for that.",
  checks = {
    sum = "rank %d has the sum",
    hops = "24 hops: 4 ranks, 6 steps",
    add = "12 of them add",
    copy = "12 of them copy",
    sends = "rank %d sends 48 bytes",
    third = "in step 3 rank 3 sends chunk 1 to rank 0",
    lasts = "the all-reduce lasts 6 hops of 10.0008 us",
    eight = "with 8 ranks each sends 56 bytes",
    steps = "in 14 steps, 112 hops in all",
  },
  teacher = [[
Time: 15 minutes by hand with paper rings of four students, 10 in the viewer, 5 for the exercise.
Before running, let four students stand in a circle, each with four slips of two numbers, and play the six steps.
Expected wrong answers: "3 steps" (they forget the all-gather), "chunk 0" (they think a chunk ends where it began).
In the viewer: stand on the first comm.hop and press ] again and again: you travel with one chunk round the ring.
Next question: what if one rank is 100 us late? (delay 1 100, then continue: everybody is.)
Two-minute fallback: ringside run, and read the busbw line aloud.]],
}
local checks = text.checks

-- Rank r holds 10 r + i. The same function runs in every rank, on tensors of its own.
local function ring(rank)
  local t = rs.arange(8, { dtype = "float32" }) + 10 * rank
  rs.say(text.holds:format(10 * rank, 10 * rank + 7, (rank + 1) % dist.get_world_size()))
  dist.all_reduce(t, { algorithm = "ring", direction = "forward" })
  return t:tolist()
end

rs.say(text.welcome)
rs.ask(text.steps)
rs.ask(text.bytes)
rs.ask(text.complete)

rs.say(text.watch)
local results = dist.spawn(ring, { world = 4 })

for rank = 0, 3 do
  rs.close(checks.sum:format(rank), results[rank], { 60, 64, 68, 72, 76, 80, 84, 88 })
end
rs.say(text.has)
rs.check(checks.hops, rs.trace:count { kind = "comm.hop" } == 24)
rs.check(checks.add, rs.trace:count { kind = "comm.hop", reduce = 1 } == 12)
rs.check(checks.copy, rs.trace:count { kind = "comm.hop", reduce = 0 } == 12)
for rank = 0, 3 do
  rs.close(checks.sends:format(rank), rs.trace:sum { kind = "comm.hop", rank = rank, arg = "bytes" }, 48)
end

-- After three steps the last thing rank 0 took in was chunk 1: the hop of rank 3 that carried it.
local third = rs.trace:events { kind = "comm.hop", rank = 3, reduce = 1 }[3]
rs.check(checks.third, third.args.chunk == 1 and third.args.peer == 0)

local us = rs.trace:duration { kind = "c10d.allreduce", rank = 0 }
rs.close(checks.lasts, us, 60.0048, 1e-6, { virtual = true })
rs.say(text.times)
rs.say(text.bandwidth:format(us, 1.5 * 32 / us))

rs.ask(text.twice)
local hops = rs.trace:count { kind = "comm.hop" }
local sent = rs.trace:sum { kind = "comm.hop", rank = 0, arg = "bytes" }
dist.spawn(ring, { world = 8 })
rs.close(checks.eight, rs.trace:sum { kind = "comm.hop", rank = 0, arg = "bytes" } - sent, 56)
rs.check(checks.steps, rs.trace:count { kind = "comm.hop" } - hops == 112)

rs.say(text.finish)

rs.teacher(text.teacher)
