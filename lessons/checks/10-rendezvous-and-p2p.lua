-- Checks of exercise 10. Both functions are run on worlds of several sizes; the record says what they called.
local rs = require "ringside"
local dist = rs.distributed

local world = rs.vary(3, { 4, 5, 6, 7 })
rs.lesson { title = "Exercise: repair the ring", hardware = "classroom", costs = { host = 0, kernel = 0 }, seed = 10 }

local text = {
  checks = {
    runs = "%s: %d ranks come to the end",
    right = "%s: each of %d ranks has its left neighbour's numbers",
    isend = "with_isend calls isend",
    plain = "by_turns calls neither isend nor irecv",
    once = "%s: one message a rank, no more",
  },
  hints = {
    runs = {
      "Who waits for whom? ringside step shows it: c, and then info tasks.",
      "A circle of ranks that all send has to be broken in one place at least.",
      "with_isend: a Work is waited for after the recv. by_turns: what if odd ranks receive first?",
    },
    right = { "The left neighbour of rank r is (r - 1) % world.", "theirs is filled by recv; mine stays as it is." },
    isend = { "dist.isend(mine, to) answers a Work at once; work:wait() comes after the recv." },
    plain = { "Nothing but dist.send and dist.recv here." },
    once = { "One send and one recv a rank are enough." },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()

-- How many isends or irecvs there were: each has a task of its own.
local function later(operation)
  local count = 0
  for _, start in ipairs(rs.trace:events { kind = "task.start" }) do
    count = count + (start.args.name:find(operation, 1, true) and 1 or 0)
  end
  return count
end

local function run(name, size)
  local move = student[name]
  local worked, got = pcall(dist.spawn, function(rank)
    local mine, theirs = rs.full({ 2 }, 10.0 + rank), rs.zeros(2)
    move(rank, dist.get_world_size(), mine, theirs)
    return { theirs[0]:item(), theirs[1]:item(), mine[0]:item() }
  end, { world = size })
  rs.check(checks.runs:format(name, size), worked, { hints = hints.runs })
  local right = worked
  for rank = 0, size - 1 do
    local left = 10 + (rank - 1) % size
    local row = worked and type(got) == "table" and got[rank]
    right = right and row and row[1] == left and row[2] == left and row[3] == 10 + rank
  end
  rs.check(checks.right:format(name, size), right, { hints = hints.right })
end

run("with_isend", world)
rs.check(checks.isend, later(" isend") >= world, { hints = hints.isend })
rs.check(checks.once:format("with_isend"), rs.trace:count { kind = "c10d.send" } == world, { hints = hints.once })

local isends, sends = later(" isend") + later(" irecv"), rs.trace:count { kind = "c10d.send" }
run("by_turns", world)
run("by_turns", 2)
rs.check(checks.plain, later(" isend") + later(" irecv") == isends, { hints = hints.plain })
rs.check(checks.once:format("by_turns"), rs.trace:count { kind = "c10d.send" } - sends == world + 2, { hints = hints.once })
