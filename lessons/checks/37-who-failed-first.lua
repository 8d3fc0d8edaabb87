-- Checks of exercise 37. Jobs are run and stopped in several ways; what their records say follows from how they were stopped.
local rs = require "ringside"
local dist = rs.distributed

local world, steps = rs.vary(4, { 3, 5, 6 }), rs.vary(4, { 5, 7 })
local who, when = rs.vary(1, { 0, 2 }), rs.vary(2, { 1, 3 })
local late, delay = rs.vary(2, { 0, 1 }), rs.vary(500, { 120, 900 })
rs.lesson { title = "Exercise: read the flight recorder", hardware = "classroom", costs = { host = 0, kernel = 0 }, seed = 37 }

local text = {
  checks = {
    progress = "%s: what rank %d has enqueued and completed",
    behind = "%s: who is behind",
    cause = "%s: what held the job up",
    latest = "who came last to the first call, and how much later",
  },
  jobs = { raises = "a rank raises", killed = "a rank is killed", cut = "a link dies", late = "a rank comes late" },
  hints = {
    progress = {
      "Go through entries and count. Which of them are no collectives?",
      "call.is_p2p is true for a send or a receive; call.state is \"completed\" or not.",
    },
    behind = {
      "All ranks make the same calls. Whose list of collectives is shorter?",
      "Compare how many each has enqueued: the smallest is behind if another one has more.",
    },
    cause = {
      "If a rank is behind, it is that rank. If none is: has each rank completed what it enqueued?",
      "Nobody behind and something not completed: the wire. All completed: nothing.",
    },
    latest = {
      "Each rank's first entry that is no send and no receive has a time_created_ns.",
      "Largest minus smallest, in ns; a us has 1000 of them.",
    },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()

-- A token to the right first, so that not all calls are collectives.
local function job(rank, how)
  dist.set_timeout(1)                   -- in free the waits end by themselves
  local token, right, left = rs.ones(1), (rank + 1) % world, (rank - 1) % world
  local work = dist.isend(token, right)
  dist.recv(rs.zeros(1), left)
  work:wait()
  dist.barrier()
  if rank == late then rs.advance(delay) end
  for step = 0, steps - 1 do
    if step == when and rank == who and how == "raises" then error("the loss is not a number", 0) end
    if step == when and rank == who and how == "killed" then rs.faults.kill(rank) end
    if step == when and rank == 0 and how == "cut" then rs.faults.cut(0, world - 1) end
    dist.all_reduce(rs.ones(8), { algorithm = "ring" })
  end
end

local function record_of(how)
  pcall(dist.spawn, function(rank) job(rank, how) end, { world = world })
  local record = {}
  for rank, one in pairs(dist.flight_recorder()) do record[rank] = one.entries end
  return record
end

-- Of a copy: what a function does to its record is not what the next one gets.
local function copy(value)
  if type(value) ~= "table" then return value end
  local new = {}
  for key, one in pairs(value) do new[key] = copy(one) end
  return new
end

-- The barrier counts, too.
local function examine(how, enqueued, completed, missing, cause)
  local record, name = record_of(how), text.jobs[how]
  for _, rank in ipairs { who, (who + 1) % world } do
    rs.close(checks.progress:format(name, rank), student.progress(copy(record[rank])),
      { rank == missing and enqueued - 1 or enqueued, completed }, { hints = hints.progress })
  end
  local behind = student.behind(copy(record), world)
  rs.check(checks.behind:format(name), behind == missing, { hints = hints.behind })
  rs.check(checks.cause:format(name), student.cause(copy(record), world) == cause, { hints = hints.cause })
  return record
end

examine("raises", when + 2, when + 1, who, "a rank")
examine("killed", when + 2, when + 1, who, "a rank")
examine("cut", when + 2, when + 1, nil, "the wire")
local whole = examine("late", steps + 1, steps + 1, nil, "nothing")

-- Without its barrier: the delay lies behind that.
for rank = 0, world - 1 do
  for place, call in ipairs(whole[rank]) do
    if not call.is_p2p then
      table.remove(whole[rank], place)
      break
    end
  end
end
rs.close(checks.latest, student.latest(copy(whole), world), { late, delay }, 1e-3, { virtual = true, hints = hints.latest })
