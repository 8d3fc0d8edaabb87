-- Lesson 37: who failed first?
--
-- A launcher shows one error: of the rank that complained first. Others may have been in trouble long before, and wait in
-- silence. What each rank has begun and ended stands in the flight recorder: read it, and the first cause in time.
local rs = require "ringside"
local dist = rs.distributed

rs.lesson {
  title = "Who failed first?",
  hardware = "classroom",
  costs = { host = 0, kernel = 0 },     -- only the wire costs, and what the ranks compute
  seed = 37,
  minutes = 30,
  needs = "10, 11, 25",
}

local text = {
  welcome = "Four ranks, four steps of an all-reduce each. Today rank 2 is late, a link is dead, and rank 1 raises an error.",
  launcher = "The launcher says: ChildFailedError, first failure: %s",
  first = {
    question = "That is all you get. Which of the three stopped the job?",
    choices = { "rank 1, it says so", "rank 2, it was late", "nobody can know yet" },
    answer = "nobody can know yet",
    why = "An error is shown by who complains first. A rank that waits complains late or never.",
    wrong = {
      ["rank 1, it says so"] = "It says that it failed. The others may have stood still by then.",
      ["rank 2, it was late"] = "They waited for it. Did they go on afterwards? That has to be looked up.",
    },
    hides = { "fault", "c10d", "comm" },
  },
  recorder = "The flight recorder of each rank: its last calls, and how far they came.",
  row = "rank %d: last enqueued %d, last started %d, last completed %d",
  states = {
    question = "All four have enqueued the same last call, and none has completed it. Where do you look?",
    choices = { "at rank 1's program", "at the wire", "at rank 2's clock" },
    answer = "at the wire",
    why = "Who does not come is behind in 'last enqueued'. Here all came: what all began and nobody ends, the wire holds up.",
    wrong = {
      ["at rank 1's program"] = "It had made its call before it raised: no other rank misses a call of it.",
      ["at rank 2's clock"] = "It came late, and the call after which it came was completed by all four.",
    },
    hides = { "fault" },
  },
  late = "Rank 2 made call %d %.0f us after the others. All have completed it: late is not lost.",
  times = "In time: the link died after %.0f us, rank 1 raised after %.0f us.",
  mend = {
    question = "Now rank 1's error is mended, and rank 2 comes in time. Does the job come to its end?",
    choices = { "yes", "no" },
    answer = "no",
    why = "The link is still dead. What was shown first was not what happened first.",
    wrong = { yes = "Then the error was the first cause. Compare the two times above." },
    hides = { "fault", "c10d", "comm" },
  },
  told = "%s alone: %s",
  causes = { late = "The late rank", cut = "The dead link", raises = "The error" },
  well = "the job comes to its end",
  behind = {
    question = "And with the error alone: how does the recorder show that it is rank 1's?",
    choices = { "it has enqueued less", "it has completed more", "not at all" },
    answer = "it has enqueued less",
    why = "The others have gone on to the next call and wait there. Rank 1 never came to it.",
    wrong = {
      ["it has completed more"] = "Nobody completes a call that a rank has not made.",
      ["not at all"] = "Read the rows: one of them differs from the other three.",
    },
    hides = { "fault" },
  },
  finish = "One rank behind: its program. All alike and nothing completed: the wire. And in time the first cause wins.",
  checks = {
    shown = "what is shown first is rank 1's error",
    enqueued = "rank %d has enqueued as many calls as rank 0",
    started = "rank %d has not completed the last of them",
    late = "rank 2 was 500 us late in a call that all completed",
    order = "the link died before rank 1 raised",
    still = "with the dead link alone nobody can go on",
    behind = "with a whole link rank 1 is one call behind rank %d",
    fine = "with the late rank alone the job comes to its end",
  },
  teacher = [[
Time: 10 minutes to the rows, 10 for the three repairs, 10 for the exercise.
Let the class vote on the first question before anything is printed: most follow the error that is shown.
Expected wrong answers: "rank 1, it says so" (half and more); "rank 1's program" (they read the error, not the rows).
In the viewer: break fault, c, and again c: the link, the late rank, the error, in the order in which they happened.
With real jobs: TORCH_FR_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1 write these rows; ringside hang reads them.
Next question: a rank is killed and says nothing. What do its rows look like? (As rank 1's: one call behind.)
Two-minute fallback: ringside run, and read the rows of the first and of the last job aloud.]],
}
local checks = text.checks

-- Each step's all-reduce runs while the rank computes on, as in DDP.
local function job(rank, today)
  dist.set_timeout(1)                   -- in free the waits end by themselves
  for step = 0, 3 do
    if today.late and rank == 2 and step == 1 then rs.advance(500) end
    if today.cut and rank == 0 and step == 2 then rs.faults.cut(0, 3) end     -- the ring goes 0 -> 3 -> 2 -> 1 -> 0
    local work = dist.all_reduce(rs.ones(4), { async_op = true, algorithm = "ring" })
    rs.advance(100)
    if today.raises and rank == 1 and step == 2 then error("the loss is not a number", 0) end
    work:wait()
  end
end

-- Answers what was told, each rank's row, and its calls.
local function run(today)
  local worked, why = pcall(dist.spawn, function(rank) job(rank, today) end, { world = 4 })
  local rows, calls = {}, {}
  for rank, record in pairs(dist.flight_recorder()) do
    calls[rank] = record.entries
    rows[rank] = record.pg_status[record.entries[1].process_group[1]]
  end
  return worked and text.well or tostring(why), rows, calls
end
local function tell(rank, row)
  rs.say(text.row:format(rank, row.last_enqueued_collective, row.last_started_collective, row.last_completed_collective))
end

rs.say(text.welcome)
local shown, rows, calls = run { late = true, cut = true, raises = true }
rs.say(text.launcher:format(shown:match("[^\n]*")))
rs.check(checks.shown, shown:find("rank 1: the loss is not a number", 1, true) ~= nil)
rs.ask(text.first)
rs.say(text.recorder)
for rank = 0, 3 do
  local row = rows[rank]
  tell(rank, row)
  rs.check(checks.enqueued:format(rank), row.last_enqueued_collective == rows[0].last_enqueued_collective)
  rs.check(checks.started:format(rank), row.last_completed_collective == row.last_enqueued_collective - 1)
end
rs.ask(text.states)

local late_ns = calls[2][2].time_created_ns - calls[0][2].time_created_ns
rs.say(text.late:format(calls[2][2].collective_seq_id, late_ns / 1000))
rs.close(checks.late, late_ns / 1000, 500, 1e-3, { virtual = true })
local died = rs.trace:first { kind = "fault.injected" }.t / 1000
local raised = rs.trace:first { kind = "fault.error", rank = 1 }.t / 1000
rs.say(text.times:format(died, raised))
rs.check(checks.order, died < raised, { virtual = true })

rs.ask(text.mend)
shown, rows = run { cut = true }
rs.say(text.told:format(text.causes.cut, shown:match("[^\n]*\n?[^\n]*")))
rs.check(checks.still, shown:find("DeadlockError", 1, true) ~= nil, { virtual = true })
rs.ask(text.behind)
shown, rows = run { raises = true }
rs.say(text.told:format(text.causes.raises, shown:match("[^\n]*")))
for rank = 0, 3 do
  tell(rank, rows[rank])
  local ahead = rows[rank].last_enqueued_collective - rows[1].last_enqueued_collective
  if rank ~= 1 then rs.check(checks.behind:format(rank), ahead == 1) end
end
shown = run { late = true }
rs.say(text.told:format(text.causes.late, shown))
rs.check(checks.fine, shown == text.well)

rs.say(text.finish)
rs.teacher(text.teacher)
