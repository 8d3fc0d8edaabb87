-- Lesson 12: three all-reduces.
--
-- The same sum of eight ranks' tensors by a ring, a tree and by halving and doubling: once of 1 KiB, once of 64 MiB.
-- A hop costs 10 us to get going and then a microsecond for every 10 000 bytes: who counts hops, who counts bytes?
-- Then NCCL's two trees, which send pieces.
local rs = require "ringside"
local dist = rs.distributed

rs.lesson {
  title = "Three all-reduces",
  hardware = "classroom",
  costs = { host = 0, kernel = 0 },     -- only the wire costs: 10 us a hop, and 10 000 bytes a microsecond
  seed = 12,
  minutes = 30,
  needs = "11", story = { ["comm.hop"] = false }, -- lesson 11 has told the steps
}

local text = {
  welcome = "Eight ranks, one tensor each, all shall have the sum. Latency: 10 us a hop. Bandwidth: 10 000 bytes per us.",
  roads = "Ring: a chunk to the neighbour. Tree: whole tensors up to rank 0, pairs first, and down again. "
    .. "Halving-doubling: partner at distance 1, 2, 4, half of the range each time, then back.",
  hops = {
    question = "Which of them has the most hops?",
    choices = { "ring", "tree", "halving-doubling" },
    answer = "ring",
    why = "Ring: 8 ranks x 14 steps = 112. Halving-doubling: 8 x 6 = 48. Tree: 7 up and 7 down = 14.",
    wrong = {
      tree = "Each rank but rank 0 sends once up, and is sent to once down: 14 in all.",
      ["halving-doubling"] = "Three steps there, three back, for each of the 8 ranks: 48.",
    },
    hides = { "comm", "c10d" },
  },
  bytes = {
    question = "And which of them moves the most bytes in all?",
    choices = { "ring", "tree", "all the same" },
    answer = "all the same",
    why = "14 n each: the ring in 112 pieces of n/8, the tree in 14 of n. What differs is how much goes at the same time.",
    wrong = {
      ring = "112 hops, but each carries only an eighth: 14 n.",
      tree = "14 hops of the whole tensor: 14 n. The ring's 112 are an eighth each.",
    },
    hides = { "comm", "c10d" },
  },
  small = {
    question = "Of 1 KiB: which one is through first?",
    choices = { "ring", "tree", "halving-doubling" },
    answer = "halving-doubling",
    why = "6 hops one after the other, as in the tree, but of less and less: 60.1792 us against 60.6144. The ring: 140.1792.",
    wrong = {
      ring = "14 hops one after the other, 10 us each before a byte has moved.",
      tree = "As few hops in a row, 6. But each carries the whole tensor.",
    },
    hides = { "comm", "c10d" },
  },
  large = {
    question = "Of 64 MiB, where 10 us are nothing: which one is far behind?",
    choices = { "ring", "tree", "halving-doubling" },
    answer = "tree",
    why = "6 times the whole tensor in a row: 40325 us. The other two move 2 x 7/8 of it: 11884 and 11804 us. "
      .. "It is the whole tensor that makes it slow, not the tree.",
    wrong = {
      ring = "All its links work all the time: each rank sends 2 x 7/8 of the tensor. Nobody can do with less.",
      ["halving-doubling"] = "A half, a quarter, an eighth, and back: 2 x 7/8 of the tensor, as the ring.",
    },
    hides = { "comm", "c10d" },
  },
  watch = "n tells each call as a whole. From hop to hop: u comm.hop (until).",
  took = "%-16s %9d bytes: %3d hops, %11.4f us",
  equal = "Ring and tree take the same time where 14 (10 + n / 80000) = 6 (10 + n / 10000): at n = 188235 bytes.",
  pieces = "NCCL's trees, \"double_tree\": two of them, each for half of the tensor, in pieces. While the first piece comes "
    .. "down the others still go up: 10 steps in a row, of n/10 each. No rank sends more than 2 n, and the ring's "
    .. "2 (N-1)/N n is hardly less in a large world: such pipelined trees are bandwidth-optimal, and their steps grow "
    .. "with log2(N), the ring's with N.",
  links = "It is even ahead of the ring: a rank sends to several others at once, and here each pair of ranks has a link "
    .. "of its own. Where one network card carries all that a rank sends, the ring is ahead again.",
  finish = "Small: count the hops in a row. Large: count the bytes of the busiest rank. Libraries choose by size, and so "
    .. "does algorithm = \"auto\".",
  checks = {
    sum = "%s: all ranks have the sum",
    hops = "%s: %d hops",
    bytes = "%s: 14 times the tensor in all",
    small = "%s of 1 KiB: %.4f us",
    large = "%s of 64 MiB: %.4f us",
    pieces = "double_tree: no rank sends more than twice the tensor",
    equal = "at 188235 bytes ring and tree differ by less than a hundredth of a microsecond",
  },
  teacher = [[
Time: 10 minutes on paper, 10 in the viewer, 10 for the exercise.
Write two columns on the board, hops in a row and bytes of the busiest rank, and fill them for the three before running.
Expected wrong answers: "the ring moves most bytes" (112 arrows look like a lot), "the tree is best when it is small".
In the viewer: put the three all-reduces of 1 KiB side by side and count the columns of hops: 14, 6, 6.
Expected wrong conclusion: "trees are for small tensors". NCCL takes trees over many nodes; what it never does is send
the whole tensor at once. Draw two pieces on one way: the second is a step behind the first.
Next question: and with 6 ranks? (Halving-doubling wants powers of two: two ranks hand theirs to a partner first.)
Two-minute fallback: ringside run, and read the seven lines of times aloud.]],
}
local checks = text.checks

local KIB, MIB = 1024, 1024 * 1024
local roads = {
  { name = "ring", hops = 112, small = 140.1792, large = 11884.0512 },
  { name = "tree", hops = 14, small = 60.6144, large = 40325.3184 },
  { name = "halving_doubling", hops = 48, small = 60.1792, large = 11804.0512 },
}

-- Sums a tensor of so many bytes. Answers what the record says: hops, their bytes, how long the slowest rank took.
local function measure(road, bytes)
  local hops, sent = rs.trace:count { kind = "comm.hop" }, rs.trace:sum { kind = "comm.hop", arg = "bytes" }
  local seq = rs.trace:seq()
  local right = dist.spawn(function(rank)
    local t = rs.full({ bytes // 4 }, rank + 1.0)
    dist.all_reduce(t, { algorithm = road })
    return t[0]:item() == 36 and t[bytes // 4 - 1]:item() == 36
  end, { world = 8 })
  local all = true
  for rank = 0, 7 do all = all and right[rank] end
  local us = 0
  for _, event in ipairs(rs.trace:events { kind = "c10d.allreduce" }) do
    if event.seq > seq then us = math.max(us, rs.trace:duration(event)) end
  end
  return all, rs.trace:count { kind = "comm.hop" } - hops, rs.trace:sum { kind = "comm.hop", arg = "bytes" } - sent, us
end

rs.say(text.welcome)
rs.say(text.roads)
rs.ask(text.hops)
rs.ask(text.bytes)
rs.ask(text.small)
rs.say(text.watch)
for _, road in ipairs(roads) do
  local sum, hops, bytes, us = measure(road.name, KIB)
  rs.say(text.took:format(road.name, KIB, hops, us))
  rs.check(checks.sum:format(road.name), sum)
  rs.close(checks.hops:format(road.name, road.hops), hops, road.hops)
  rs.close(checks.bytes:format(road.name), bytes, 14 * KIB)
  rs.close(checks.small:format(road.name, road.small), us, road.small, 1e-6, { virtual = true })
end

rs.ask(text.large)
for _, road in ipairs(roads) do
  local sum, hops, bytes, us = measure(road.name, 64 * MIB)
  rs.say(text.took:format(road.name, 64 * MIB, hops, us))
  rs.check(checks.sum:format(road.name), sum and hops == road.hops and bytes == 14 * 64 * MIB)
  rs.close(checks.large:format(road.name, road.large), us, road.large, 1e-6, { virtual = true })
end

rs.say(text.pieces)
local seq = rs.trace:seq()
local sum, hops, bytes, us = measure("double_tree", 64 * MIB)
local sent = {}
for _, hop in ipairs(rs.trace:events { kind = "comm.hop" }) do
  if hop.seq > seq then sent[hop.rank] = (sent[hop.rank] or 0) + hop.args.bytes end
end
rs.say(text.took:format("double_tree", 64 * MIB, hops, us))
rs.check(checks.sum:format("double_tree"), sum and hops == 140 and bytes == 14 * 64 * MIB)
rs.check(checks.pieces, math.max(table.unpack(sent, 0, 7)) <= 2.0001 * 64 * MIB)
rs.close(checks.large:format("double_tree", 6810.8872), us, 6810.8872, 1e-6, { virtual = true })
rs.say(text.links)

rs.say(text.equal)
local times = {}
for _, road in ipairs { "ring", "tree" } do
  local sum, hops, bytes, us = measure(road, 188236)
  times[#times + 1] = us
end
rs.check(checks.equal, math.abs(times[1] - times[2]) < 0.01, { virtual = true })
rs.say(text.finish)
rs.teacher(text.teacher)
