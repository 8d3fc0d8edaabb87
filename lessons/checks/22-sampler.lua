-- Checks of exercise 22. A sampler deals the samples out; which of them are right is known, so the exact part is, too.
local rs = require "ringside"
local data, dist = rs.utils.data, rs.distributed

local world, samples = rs.vary(3, { 2, 4, 5 }), rs.vary(10, { 7, 11, 13, 14 })
rs.lesson { title = "Exercise: an exact accuracy", devices = 0, seed = 22 }

local text = {
  checks = {
    padded = "%d samples on %d ranks: each counts once",
    even = "%d samples on %d ranks: nobody draws one twice",
    few = "%d samples on %d ranks: some ranks have only what others have, too",
  },
  hints = {
    padded = {
      "How many samples do all ranks draw together? Those beyond the data set's length were drawn before.",
      "Rank r's k-th sample, k from 0 on, lies at place r + k * ranks of the deck. Which places repeat?",
      "Place p is sample p % samples: from place `samples` on everything was there already.",
    },
    even = { "No sample is drawn twice here: the plain mean is right. Do you leave one out?" },
    few = { "Ranks from `samples` on have nothing new: their first place is behind the end already." },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()

-- A model that is right about the first two samples and some others.
local function is_right(i) return i < 2 or (i * 7 + 3) % 5 < 2 end

local function evaluate(_, count)
  local told, shuffle = {}, false
  for i in data.DistributedSampler(rs.arange(count), { shuffle = shuffle }) do told[#told + 1] = is_right(i) end
  return told
end

local function compare(name, count, ranks, hint)
  local told, right = dist.spawn(evaluate, { world = ranks, args = { count } }), 0
  for i = 0, count - 1 do right = right + (is_right(i) and 1 or 0) end
  local said = student.accuracy(told, ranks, count)
  rs.close(name:format(count, ranks), said, right / count, 1e-9, { hints = hint })
end

compare(checks.padded, samples, world, hints.padded)
compare(checks.padded, samples * world + 1, world, hints.padded)
compare(checks.even, 3 * world, world, hints.even)
compare(checks.few, 2, world + 3, hints.few)
