-- Lesson 06: threads, errors, a vector of losses.
--
-- parallel_apply runs each replica in a thread of its own and waits for all of them, gather joins their outputs. Two
-- things surprise here: one number a replica becomes a vector, and one replica's error stops nobody else.
local rs = require "ringside"
local nn = rs.nn

rs.lesson {
  title = "Threads, errors, a vector of losses",
  devices = 4,
  hardware = "classroom",
  seed = 6,
  minutes = 20,
  needs = "05",
}

local text = {
  welcome = "y = 2x for x = 1 to 10. Forward returns its rows' mean.",
  shape = {
    question = "One mean from each of four. Shape of out?",
    choices = { "[]", "[4]", "[10]" },
    answer = "[4]",
    why = "gather joins along dim 0. Each number becomes a row of one.",
    wrong = {
      ["[]"] = "gather only joins. It never adds or averages.",
      ["[10]"] = "The ten rows are gone: each replica returned one number.",
    },
    hides = "dp.gather",
  },
  vector = "Four means: %g, %g, %g, %g. gather made them a vector.",
  backward = {
    question = "Now out:backward():",
    choices = { "an error", "it uses the mean", "it uses the sum" },
    answer = "an error",
    why = "backward starts from one number: out:mean() or out:sum().",
    wrong = {
      ["it uses the mean"] = "Nobody chose the mean. Sum or mean is your decision.",
      ["it uses the sum"] = "gather only joined them. Sum or mean is your decision.",
    },
  },
  refused = "It says: %s",
  finish_two = {
    question = "Replica 1 will raise an error. Does replica 2 finish?",
    choices = { "yes", "no" },
    answer = "yes",
    why = "A failed thread stores its error. The others go on.",
    wrong = { ["no"] = "Nothing is cancelled: all threads are joined first." },
    hides = { "dp.worker", "task" },
  },
  caught = "After all four joins you get: %s",
  order = {
    question = "Replica 3 fails, then 1. Whose error comes?",
    choices = { "3's", "1's", "both" },
    answer = "1's",
    why = "After all joins the results are read in the order of the devices.",
    wrong = {
      ["3's"] = "Time plays no part: results are read after the last join.",
      ["both"] = "One error is raised. The other is dropped, silently.",
    },
    hides = { "dp.worker", "fault.error" },
  },
  finish = "All threads run to their end. Results are read in the order of the devices.",
  returns = "Replica %d returns its mean.",
  raises = "Replica %d raises an error.",
  trouble = "enough",
  checks = {
    values = "the output is 4, 10, 16 and 20",
    home = "gather puts it on device 0",
    unsqueeze = "gather unsqueezed 4 single numbers, and warned",
    workers = "four workers start, four are joined",
    lock = "each stores its result under one lock",
    refused = "backward refuses a vector",
    joined = "replica 1 fails: 4 joins come before the error is raised",
    finished = "the three others ended well",
    kind = "the error's kind stays ValueError",
    names = "its message names replica 1 on device 1",
    first = "replica 3 was the first to fail",
    lowest = "and replica 1's error was raised",
  },
  teacher = [[
Time: 4 minutes for the first two questions, 6 to step, 4 for the errors, 6 for the exercise.
Let four students be the replicas: each writes its number on a slip and lays it down in order of devices. Then let one
tear the slip: the others still lay theirs down, and only then you complain.
Expected wrong answers: "[]" (DataParallel is thought to average losses), "it uses the mean" (the same), "no"
for replica 2 (as if an exception reached other threads), "3's" (it was first). If fewer than 30 % have the
shape right, show gather of four rows of ten first; between 30 and 70 % let pairs discuss and ask again; above 70 % go
on.
In the viewer: n to dp.parallel_apply's end: four lanes were open, one a thread. /dp.gather.unsqueeze has the warning in
its Event pane. /fault.error finds backward's refusal first, > goes on to the replicas' errors, where they were raised.
One new command: :info locks, at a lock.hold: who holds `lua state` or `results`, and how many wait.
Next question for the fast ones: a batch of one row on four devices: is the output a number or a vector? (A vector of
one: a single replica runs in the caller's thread, but gather still runs. With one device_id it is a number.)
Two-minute fallback: ringside run, and the question about replica 3 by show of hands.]],
}

-- A replica in `trouble` raises an error after so many microseconds.
local trouble = {}

local Mean = nn.Module("Mean")
function Mean:init()
  self.fc = nn.Linear(1, 1)
  rs.no_grad(function() self.fc.weight:fill_(2) self.fc.bias:zero_() end)
end
function Mean:forward(x)
  local replica, mean = tonumber(x.device:match("%d+")), self.fc(x):mean()
  if trouble[replica] then
    rs.advance(trouble[replica])
    rs.say(text.raises:format(replica))
    rs.error("ValueError", text.trouble)
  end
  rs.say(text.returns:format(replica))
  return mean
end

rs.say(text.welcome)
local dp = nn.DataParallel(Mean():to("device:0"))
local x = rs.arange(1, 11, { dtype = "float32", device = "device:0" }):view { 10, 1 }

rs.ask(text.shape)
local out = dp(x)
local gathered = rs.trace:seq()
rs.say(text.vector:format(table.unpack(out:tolist())))

rs.ask(text.backward)
local went, refusal = pcall(out.backward, out)
rs.say(text.refused:format(refusal.message))

rs.ask(text.finish_two)
local before = rs.trace:seq()
trouble = { [1] = 0 }
local _, one = pcall(dp, x)
rs.say(text.caught:format(one.message))

rs.ask(text.order)
local between = rs.trace:seq()
trouble = { [1] = 100, [3] = 0 }
local _, two = pcall(dp, x)
rs.say(text.caught:format(two.message))

-- What the timeline shows, as numbers.
local function events(query, from, to)
  local list = {}
  for _, event in ipairs(rs.trace:events(query)) do
    if event.seq >= from and event.seq < to then list[#list + 1] = event end
  end
  return list
end

local checks = text.checks
rs.close(checks.values, out:tolist(), { 4, 10, 16, 20 })
rs.check(checks.home, out.device == "device:0" and events({ kind = "dp.gather" }, 0, gathered)[1].args.device == 0)
local unsqueezed = events({ kind = "dp.gather.unsqueeze" }, 0, gathered)[1].args
rs.check(checks.unsqueeze, unsqueezed.replicas == 4 and unsqueezed.warning:find("unsqueeze", 1, true) ~= nil)
rs.check(checks.workers, #events({ kind = "dp.worker" }, 0, gathered) == 4
  and #events({ kind = "task.join", phase = "end" }, 0, gathered) == 4)
rs.check(checks.lock, #events({ kind = "lock.hold", lock = "results" }, 0, gathered) == 4)
rs.check(checks.refused, not went and refusal.kind == "RuntimeError")

local raised = events({ kind = "dp.parallel_apply", phase = "end" }, before, between)[1].seq
rs.check(checks.joined, #events({ kind = "task.join", phase = "end" }, before, raised) == 4)
local well = 0
for _, event in ipairs(events({ kind = "task.end" }, before, between)) do
  if not event.args.failed then well = well + 1 end
end
rs.close(checks.finished, well, 3)
rs.check(checks.kind, one.kind == "ValueError")
rs.check(checks.names, one.message:find("replica 1 on device 1", 1, true) ~= nil)
local faults = events({ kind = "fault.error" }, between, math.huge)
rs.check(checks.first, faults[1].device == 3 and faults[2].device == 1, { virtual = true })
rs.check(checks.lowest, two.message:find("replica 1 on device 1", 1, true) ~= nil)

rs.say(text.finish)

rs.teacher(text.teacher)
