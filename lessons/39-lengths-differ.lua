-- Lesson 39: when lengths differ.
--
-- Three ranks found 2, 5 and 4 things and want to share them. all_gather wants tensors of one shape: elsewhere the job
-- hangs here, or gathers rubbish. Gather the lengths first, then pad, gather, and cut.
local rs = require "ringside"
local dist = rs.distributed

rs.lesson {
  title = "Lengths differ",
  hardware = "classroom",
  costs = { host = 0, kernel = 0 },     -- only the wire costs
  seed = 39,
  minutes = 20,
  needs = "10, 11",
}

local text = {
  welcome = "Each rank validates its share of the data and keeps what it found: rank 0 has 2 numbers, rank 1 has 5, rank 2 has 4.",
  naive = {
    question = "Each rank makes a list of three tensors like its own, and calls all_gather. What happens?",
    choices = { "short ones are padded", "it is a mismatch", "it works" },
    answer = "it is a mismatch",
    why = "Ranks pair their calls by number and trust that shapes agree. Elsewhere that is a hang, or somebody else's bytes.",
    wrong = {
      ["short ones are padded"] = "Nobody pads: no rank knows the others' lengths.",
      ["it works"] = "Rank 0 holds room for 3 x 2 numbers. Rank 1's five do not fit.",
    },
    hides = { "c10d", "comm", "fault" },
  },
  told = "What was told: %s",
  lengths = "So first the lengths: one int64 a rank, the same shape everywhere. They are %s.",
  padded = {
    question = "Now all pad to the longest, 5, and gather. How many of the numbers on the wire are padding?",
    choices = { "none", "4 of 15", "8 of 30" },
    answer = "8 of 30",
    why = "3 + 0 + 1 = 4 zeros were added, and each tensor makes two hops round a ring of three: 8 of 2 x 15.",
    wrong = {
      none = "Zeros travel like any other number.",
      ["4 of 15"] = "So many were added. But every tensor makes N - 1 = 2 hops until all have it.",
    },
    hides = { "c10d", "comm" },
  },
  cut = "rank %d: %s",
  unequal = "Who knows all lengths can do without padding: give all_gather a list of tensors of just those lengths.",
  finish = "Same call, same shape, on all ranks. Where lengths differ, send the lengths first.",
  checks = {
    refused = "the plain gather is refused as a mismatch",
    named = "it names two ranks and their shapes",
    lengths = "rank %d knows the lengths 2, 5, 4",
    gathered = "rank %d has 0 1, 10 11 12 13 14, 20 21 22 23",
    bytes = "the padded gather moves 120 bytes",
    wasted = "of them 32 are padding",
    exact = "with a list of the right lengths it is 88 bytes",
    same = "and all ranks have the same",
  },
  teacher = [[
Time: 5 minutes to predict, 10 to watch, 5 for the exercise.
Expected wrong answers: "they are padded" (half of a class), "4 of 15" (they count what was added, not what travels).
Ask where lengths differ in practice: texts, detections, the last batch of an epoch, samples that were filtered out.
In the viewer: break fault.mismatch, c, and read both calls with their lines.
Next question: one rank found nothing. Does the recipe hold for length 0? (Yes, unless all are 0: then nothing travels.)
Two-minute fallback: ringside run, and read the line "What was told" aloud.]],
}
local checks = text.checks

local counts = { [0] = 2, 5, 4 }
local function found(rank) return rs.arange(counts[rank], { dtype = "float32" }) + 10 * rank end

rs.say(text.welcome)
rs.ask(text.naive)
local function plain(rank)
  local mine, list = found(rank), {}
  for i = 1, 3 do list[i] = rs.zeros_like(mine) end
  dist.all_gather(list, mine)
end
local worked, why = pcall(dist.spawn, plain, { world = 3 })
rs.check(checks.refused, not worked and why.kind == "MismatchError")
local named = 0
for _, shape in ipairs { "[2]", "[5]", "[4]" } do named = named + (why.message:find(shape, 1, true) and 1 or 0) end
rs.check(checks.named, named >= 2)
rs.say(text.told:format(why.message))

-- The lengths: one number a rank.
local function gather_lengths(mine)
  local list = {}
  dist.all_gather(list, rs.tensor({ mine:size(0) }))
  local lengths = {}
  for i, length in ipairs(list) do lengths[i] = length:item() end
  return lengths
end
local known = dist.spawn(function(rank) return gather_lengths(found(rank)) end, { world = 3 })
rs.say(text.lengths:format(table.concat(known[0], ", ")))
for rank = 0, 2 do rs.close(checks.lengths:format(rank), known[rank], { 2, 5, 4 }) end

rs.ask(text.padded)
local function padded(rank)
  local mine = found(rank)
  local lengths, longest = gather_lengths(mine), 0
  for _, length in ipairs(lengths) do longest = math.max(longest, length) end
  local room, list = rs.zeros(longest), {}
  room[{ rs.slice(0, mine:size(0)) }] = mine
  dist.all_gather(list, room)
  for i, length in ipairs(lengths) do list[i] = list[i][{ rs.slice(0, length) }]:tolist() end
  return list
end
local function moved_since(seq)
  local bytes = 0
  for _, hop in ipairs(rs.trace:events { kind = "comm.hop" }) do
    if hop.seq > seq then bytes = bytes + hop.args.bytes end
  end
  return bytes
end
local seq = rs.trace:seq()
local all = dist.spawn(padded, { world = 3 })
local moved = moved_since(seq) - 6 * 8                   -- without the lengths: six hops of one int64
for rank = 0, 2 do
  rs.say(text.cut:format(rank, table.concat(all[rank][1], " ") .. " | " .. table.concat(all[rank][2], " ") .. " | "
    .. table.concat(all[rank][3], " ")))
  rs.close(checks.gathered:format(rank), all[rank], { { 0, 1 }, { 10, 11, 12, 13, 14 }, { 20, 21, 22, 23 } })
end
rs.close(checks.bytes, moved, 120)

rs.say(text.unequal)
seq = rs.trace:seq()
local exact = dist.spawn(function(rank)
  local list = { rs.zeros(2), rs.zeros(5), rs.zeros(4) }
  dist.all_gather(list, found(rank))
  return { list[1]:tolist(), list[2]:tolist(), list[3]:tolist() }
end, { world = 3 })
local least = moved_since(seq)
rs.close(checks.exact, least, 88)
rs.close(checks.wasted, moved - least, 32)
rs.close(checks.same, { exact[0], exact[1], exact[2] }, { all[0], all[1], all[2] })

rs.say(text.finish)
rs.teacher(text.teacher)
