-- Lesson 22: ten samples, three ranks.
--
-- Every rank of DistributedDataParallel has the same data set. DistributedSampler tells each which part is its own, with
-- as many samples for everybody: so some are drawn twice, or left out. And without set_epoch each epoch is the first one.
local rs = require "ringside"
local data, dist = rs.utils.data, rs.distributed

rs.lesson {
  title = "Ten samples, three ranks",
  devices = 0,
  seed = 22,
  minutes = 20,
  needs = "12", story = { "data.index" },
}

local text = {
  welcome = "Ten samples, 0 to 9, and three ranks. DistributedSampler deals them out like cards: rank r takes each third.",
  watch = "In the viewer: type :break data.index, and c goes from one batch to the next, on all ranks.",
  draws = {
    question = "No shuffling yet. How many samples do the three ranks draw in one epoch?",
    choices = { "9", "10", "12" },
    answer = "12",
    why = "Each rank has to make as many steps as the others: 10 is no multiple of 3, so 4 each.",
    wrong = {
      ["9"] = "With drop_last = true. Usually nothing is left out.",
      ["10"] = "Then one rank would have a step more than the others, and wait in its all-reduce for ever.",
    },
    hides = { "data" },
  },
  twice = {
    question = "Which ranks draw sample 0?",
    choices = { "rank 0", "ranks 0 and 1", "ranks 0 and 2" },
    answer = "ranks 0 and 1",
    why = "Two cards are missing: the deck begins again. Place 10 is sample 0, and it is rank 1's turn; place 11 is sample 1.",
    wrong = {
      ["rank 0"] = "Once. But where do the two samples come from that make 12 of 10?",
      ["ranks 0 and 2"] = "Places 0, 1, 2 belong to ranks 0, 1, 2. Whose is place 10?",
    },
    hides = { "data" },
  },
  epoch = {
    question = "Now shuffled, by seed 0. Two epochs, and nobody calls set_epoch. The second epoch's order?",
    choices = { "another one", "the same" },
    answer = "the same",
    why = "The order is drawn from a generator seeded with seed + epoch, and epoch stays 0 unless it is told.",
    wrong = { ["another one"] = "All ranks must shuffle alike without talking: so they all seed with what they know alike." },
    hides = { "data" },
  },
  few = {
    question = "Two samples on four ranks. What does rank 3 draw?",
    choices = { "nothing", "sample 1", "an error" },
    answer = "sample 1",
    why = "The deck is repeated as often as needed: 0 1 0 1. With drop_last nobody draws anything.",
    wrong = {
      ["nothing"] = "Then it would be missing in the all-reduce of the others. Only drop_last leaves out, and then all.",
      ["an error"] = "Fewer samples than ranks is allowed; each is drawn more than once.",
    },
    hides = { "data" },
  },
  drawn = "%s: rank 0: %s; rank 1: %s; rank 2: %s.",
  pass = "Pass %d over the samples, epoch %d.",
  small = "Two samples on four ranks: %s.",
  finish = "Call set_epoch before each epoch; and do not trust an accuracy in which samples 0 and 1 count twice.",
  names = { plain = "Not shuffled", dropped = "drop_last", first = "Epoch 0", second = "Epoch 0 again", third = "Epoch 1" },
  checks = {
    share = "rank %d draws %s",
    drop = "drop_last: rank %d draws %s",
    draws = "12 draws, and all ten samples among them",
    twice = "samples 0 and 1 are drawn twice",
    told = "rank %d: each batch is one data.index with its samples",
    same = "rank %d: epoch 0 twice is twice the same",
    other = "rank %d: epoch 1 is another order",
    union = "%s: the three shares cover all ten samples",
    few = "two samples, four ranks: rank %d draws %d",
    none = "with drop_last nobody draws anything",
  },
  teacher = [[
Time: 6 minutes for the questions, 6 in the viewer, 8 for the exercise.
Deal ten numbered cards to three students, twelve places on the table: who gets the eleventh and the twelfth card?
Expected wrong answers: "10" (nothing seems to be missing), "another one" (shuffle is on, after all). Below 30 % right on
the second epoch: ask how three ranks can shuffle alike without sending anything. Above 70 %: go on to drop_last.
In the viewer: break data.index rank 1, then c: four stops a pass, and the last one has sample 0.
One new key: / finds. At the end of the run /data.index Enter, then < to the last of them and the one before.
Outside: ringside run --trace 22.trace 22, then ringside events 22.trace 'data.index and rank 1': epoch 0 is there twice.
Next question: may ranks have batches of different sizes? (Yes. The mean of means is then not the mean: lesson 23.)
Two-minute fallback: ringside run, and compare the lines "Epoch 0" and "Epoch 0 again".]],
}
local checks = text.checks

-- What has to come out.
local expected = {
  plain = { [0] = "0 3 6 9", "1 4 7 0", "2 5 8 1" },
  dropped = { [0] = "0 3 6", "1 4 7", "2 5 8" },
  few = { [0] = 0, 1, 0, 1 },
}

-- What each rank draws in each of the passes: {option..., epochs = {...}}; one line a pass.
local function draw(rank, samples, options, epochs)
  local sampler = data.DistributedSampler(rs.arange(samples), options)
  local loader, told = data.DataLoader(rs.arange(samples), { batch_size = 1, sampler = sampler }), {}
  for pass, epoch in ipairs(epochs) do
    if rank == 2 and #epochs > 1 then rs.say(text.pass:format(pass, epoch)) end -- rank 2 comes last
    if epoch > 0 then sampler:set_epoch(epoch) end
    local row = {}
    for x in loader do row[#row + 1] = x:item() end
    told[pass] = table.concat(row, " ")
  end
  return told
end
local function passes(world, samples, options, ...)
  return dist.spawn(draw, { world = world, args = { samples, options, { ... } } })
end
local function say(name, told, pass) rs.say(text.drawn:format(name, told[0][pass], told[1][pass], told[2][pass])) end

-- How often each sample was drawn in that pass.
local function times(told, pass)
  local count, all = {}, 0
  for rank = 0, 2 do
    for i in told[rank][pass]:gmatch("%d+") do count[tonumber(i)], all = (count[tonumber(i)] or 0) + 1, all + 1 end
  end
  local distinct = 0
  for _ in pairs(count) do distinct = distinct + 1 end
  return count, all, distinct
end

rs.say(text.welcome)
rs.say(text.watch)
rs.ask(text.draws)
rs.ask(text.twice)
local since = rs.trace:seq()
local plain = passes(3, 10, { shuffle = false }, 0)
say(text.names.plain, plain, 1)
local count, all, distinct = times(plain, 1)
rs.check(checks.draws, all == 12 and distinct == 10)
rs.check(checks.twice, count[0] == 2 and count[1] == 2 and count[2] == 1)
for rank = 0, 2 do
  rs.check(checks.share:format(rank, expected.plain[rank]), plain[rank][1] == expected.plain[rank])
  local told = {}
  for _, event in ipairs(rs.trace:events(("data.index and rank %d and seq >= %d"):format(rank, since))) do
    told[#told + 1] = event.args.indices
  end
  rs.check(checks.told:format(rank), table.concat(told, " ") == expected.plain[rank])
end
local dropped = passes(3, 10, { shuffle = false, drop_last = true }, 0)
say(text.names.dropped, dropped, 1)
for rank = 0, 2 do
  rs.check(checks.drop:format(rank, expected.dropped[rank]), dropped[rank][1] == expected.dropped[rank])
end

rs.ask(text.epoch)
local shuffled = passes(3, 10, { seed = 0 }, 0, 0, 1)
for pass, name in ipairs { text.names.first, text.names.second, text.names.third } do
  say(name, shuffled, pass)
  rs.check(checks.union:format(name), select(3, times(shuffled, pass)) == 10)
end
for rank = 0, 2 do
  rs.check(checks.same:format(rank), shuffled[rank][1] == shuffled[rank][2])
  rs.check(checks.other:format(rank), shuffled[rank][1] ~= shuffled[rank][3])
end

rs.ask(text.few)
local few, none = passes(4, 2, { shuffle = false }, 0), passes(4, 2, { drop_last = true }, 0)
rs.say(text.small:format(few[0][1] .. ", " .. few[1][1] .. ", " .. few[2][1] .. ", " .. few[3][1]))
for rank = 0, 3 do
  rs.check(checks.few:format(rank, expected.few[rank]), few[rank][1] == tostring(expected.few[rank]))
end
rs.check(checks.none, none[0][1] .. none[1][1] .. none[2][1] .. none[3][1] == "")

rs.say(text.finish)
rs.teacher(text.teacher)
