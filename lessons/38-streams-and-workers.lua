-- Lesson 38: a stream that is read twice.
--
-- A data set without indices, an IterableDataset, is a stream: nobody can deal it out from outside. Every rank and every
-- worker of its DataLoader has a copy and reads it all, unless the stream itself asks who it is.
local rs = require "ringside"
local data, dist = rs.utils.data, rs.distributed

rs.lesson {
  title = "A stream that is read twice",
  devices = 0,
  hardware = "classroom",
  seed = 38,
  minutes = 25,
  needs = "22", story = { "data.index" },
}

local text = {
  welcome = "A stream of twelve items, three ranks. To read an item takes 10 us, a training step with it 10 us, too.",
  watch = "In the viewer workers are lanes of their own: data.load where they read, data.wait where a rank waits for them.",
  ranks = {
    question = "Each rank loops over a DataLoader of the stream, without workers. How often is each item read?",
    choices = { "1", "3", "12" },
    answer = "3",
    why = "A stream has no indices, so there is no sampler: nobody deals it out. Each rank reads all of it.",
    wrong = {
      ["1"] = "DistributedSampler would do that, with a data set that has indices. A DataLoader of a stream takes none.",
      ["12"] = "An item is read once by each who reads the stream. How many are that?",
    },
    hides = { "data" },
  },
  workers = {
    question = "Now two workers for each rank, num_workers = 2. How often is each item read?",
    choices = { "3", "6", "9" },
    answer = "6",
    why = "Each worker has a copy of the data set, and its copy begins at the beginning: 3 ranks, 2 workers each.",
    wrong = {
      ["3"] = "Of a data set with indices workers get different batches. A copy of a stream knows nothing of the other.",
      ["9"] = "Ranks times workers: the rank's own task reads nothing any more.",
    },
    hides = { "data" },
  },
  split = {
    question = "The stream asks get_worker_info() and takes every second item; rank is left out. How often now?",
    choices = { "1", "2", "3" },
    answer = "3",
    why = "The workers of one rank share. But ranks do not know of each other: one third of the way is missing.",
    wrong = {
      ["1"] = "That needs the rank, too: reader number rank * workers + worker of all.",
      ["2"] = "The two workers of a rank take different items now.",
    },
    hides = { "data" },
  },
  ahead = {
    question = "One rank, 12 items, 10 us to read one and 10 us to train: 240 us without workers. With one worker?",
    choices = { "120 us", "130 us", "240 us" },
    answer = "130 us",
    why = "While the rank trains the worker reads the next one. Only for the first item nobody could be ahead.",
    wrong = {
      ["120 us"] = "So it would be if the first item were there at the start.",
      ["240 us"] = "The worker is a task of its own: both work at the same time.",
    },
    hides = { "data", "task" },
  },
  read = "%s: item 0 is read %d times, %d items in all.",
  lasted = "No worker: %g us; one worker: %g us.",
  finish = "Whoever reads a stream has to know which of how many readers he is: rank * workers + worker, of ranks * workers.",
  names = { alone = "Ranks alone", workers = "Two workers each", worker = "Split by worker", both = "Split by both" },
  checks = {
    times = "%s: each item is read %d times",
    all = "%s: %d items come to the ranks",
    worker = "%s: %d readers",
    own = "what a worker counts in its copy, its rank does not see",
    info = "there is no worker info outside of workers",
    serial = "without workers 12 items take 240 us",
    overlap = "with one worker 130 us",
    waits = "of those the rank has waited 10 us for its worker",
  },
  teacher = [[
Time: 8 minutes for the questions, 9 in the viewer, 8 for the exercise.
Give three students the same newspaper and ask each to read the headlines aloud: that is a stream on three ranks.
Expected wrong answers: "1" (that a DataLoader deals out is learnt with samplers), "3" for the workers (with indices it
is right). Below 30 % right on the workers: open the viewer and count the lanes with data.load first.
In the viewer: break data.load, then c: each stop is a worker about to read. One new key: /, at the end of the run:
/data.wait Enter, then < from the last to the one before: where a rank had to wait for its workers.
Next question: what if one worker's part ends before the other's? (It ends; the other goes on alone. Ranks that get
different numbers of batches hang in their all-reduce: lesson 19.)
Two-minute fallback: ringside run, and read the four lines "item 0 is read" aloud.]],
}
local checks = text.checks
local ITEMS, RANKS, READ_US, TRAIN_US = 12, 3, 10, 10

-- A stream that takes each `step`-th item from `first` on, as `split` says: nothing, "worker" or "both".
local Stream = data.IterableDataset("Stream")
function Stream:init(rank, ranks, split) self.rank, self.ranks, self.split, self.count = rank, ranks, split, 0 end
function Stream:iter()
  local info = data.get_worker_info()
  local worker, workers = info and info.id or 0, info and info.num_workers or 1
  local first, step = 0, 1
  if self.split == "worker" then first, step = worker, workers end
  if self.split == "both" then first, step = self.rank * workers + worker, self.ranks * workers end
  local i = first - step
  return function()
    i = i + step
    if i >= ITEMS then return nil end
    rs.advance(READ_US)
    self.count = self.count + 1
    return { i, worker, self.count }
  end
end

-- Per item how often all ranks got it; how many there were in all, how many readers, and what the ranks' own copies count.
local function read(workers, split)
  local told = dist.spawn(function(rank, num_workers, how)
    local stream, mine = Stream(rank, RANKS, how), {}
    for items, worker in data.DataLoader(stream, { num_workers = num_workers }) do
      mine[#mine + 1] = { items:item(), worker:item() }
    end
    return { items = mine, count = stream.count }
  end, { world = RANKS, args = { workers, split } })
  local times, all, readers, count, own = {}, 0, {}, 0, 0
  for rank = 0, RANKS - 1 do
    own = own + told[rank].count
    for _, item in ipairs(told[rank].items) do
      times[item[1]], all = (times[item[1]] or 0) + 1, all + 1
      local reader = rank .. "/" .. item[2]
      if not readers[reader] then readers[reader], count = true, count + 1 end
    end
  end
  return { times = times, all = all, readers = count, own = own }
end

local function compare(name, told, times, readers)
  local same = true
  for i = 0, ITEMS - 1 do same = same and told.times[i] == times end
  rs.say(text.read:format(name, told.times[0], told.all))
  rs.check(checks.times:format(name, times), same)
  rs.check(checks.all:format(name, times * ITEMS), told.all == times * ITEMS)
  rs.check(checks.worker:format(name, readers), told.readers == readers)
end

rs.say(text.welcome)
rs.say(text.watch)
rs.ask(text.ranks)
compare(text.names.alone, read(0), 3, 3)
rs.ask(text.workers)
local twice = read(2)
compare(text.names.workers, twice, 6, 6)
rs.check(checks.own, twice.own == 0)
rs.check(checks.info, data.get_worker_info() == nil)
rs.ask(text.split)
compare(text.names.worker, read(2, "worker"), 3, 6)
compare(text.names.both, read(2, "both"), 1, 6)

-- How long it takes one rank to train with all items: from its task's first event to its last.
local function train(workers)
  local since = rs.trace:seq()
  dist.spawn(function(_, num_workers)
    for _ in data.DataLoader(Stream(0, 1), { num_workers = num_workers }) do rs.advance(TRAIN_US) end
  end, { world = 1, args = { workers } })
  local began = rs.trace:events("task.start and rank 0 and seq >= " .. since)[1]
  for _, ended in ipairs(rs.trace:events("task.end and rank 0 and seq >= " .. since)) do
    if ended.lane == began.lane then return (ended.t - began.t) / 1000 end
  end
end

rs.ask(text.ahead)
local since = rs.trace:seq()
local alone, ahead = train(0), train(1)
rs.say(text.lasted:format(alone, ahead))
rs.close(checks.serial, alone, 240, 0.01, { virtual = true })
rs.close(checks.overlap, ahead, 130, 0.01, { virtual = true })
local waited = 0
for _, event in ipairs(rs.trace:events("kind = data.wait and seq >= " .. since)) do
  waited = waited + (event.phase == "begin" and -event.t or event.t)
end
rs.close(checks.waits, waited / 1000, 10, 0.01, { virtual = true })

rs.say(text.finish)
rs.teacher(text.teacher)
