-- Checks of exercise 25. A DDP step runs with a delay in one rank's backward; its record gives the bars.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

local world, slow = rs.vary(4, { 3, 5, 6, 8 }), rs.vary(2, { 0, 1 })
local delay = rs.vary(300, { 40, 90, 700, 1250 })
rs.lesson { title = "Exercise: stragglers", hardware = "classroom", costs = { host = 0, kernel = 0 }, seed = 25 }

local text = {
  checks = {
    equal = "all backwards last equally long",
    culprit = "who came last, of %d ranks",
    wait = "how long the others waited at most",
    share = "which share of all ranks' time that was",
    other = "a step in which another rank is last",
    straggler = "over five steps: who is late in more than half of them",
    nobody = "and nobody is, where it is another one each time",
  },
  hints = {
    culprit = {
      "Who comes last finds everybody there. Is its bar long or short?",
      "The smallest of bars[0] ... bars[world - 1].",
    },
    wait = { "The last one's bar is transfer alone.", "The longest bar minus the shortest." },
    share = {
      "Add up what each rank waited: its bar minus the shortest one.",
      "All ranks' time is world * step_us.",
    },
    straggler = { "Count in how many steps each rank came last.", "More than half of #steps: count * 2 > #steps." },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()

-- One DDP step, in which some ranks' backwards are slower: the bars, the length of a step, whether backwards were equal.
local function step(late)
  local seq = rs.trace:seq()
  dist.spawn(function(rank)
    local ddp = nn.parallel.DistributedDataParallel(nn.Linear(world * 4, 8))
    local out = ddp(rs.ones(2, world * 4))
    out:register_hook(function() rs.advance(500 + (late[rank] or 0)) end)
    dist.barrier()                      -- all backwards begin together
    out:sum():backward()
  end, { world = world })
  local bars, longest, backward, equal = {}, 0, nil, true
  for _, event in ipairs(rs.trace:events { kind = "c10d.allreduce" }) do
    if event.seq > seq then bars[event.rank] = rs.trace:duration(event) end
  end
  for _, event in ipairs(rs.trace:events { kind = "autograd.backward" }) do
    if event.seq > seq then
      local us = rs.trace:duration(event)
      equal = equal and math.abs(us - (backward or us)) < 0.1
      backward, longest = backward or us, math.max(longest, us)
    end
  end
  return bars, longest, equal
end

local bars, step_us, equal = step { [slow] = delay }
local shortest, waited, most = math.huge, 0, 0
for rank = 0, world - 1 do shortest = math.min(shortest, bars[rank]) end
for rank = 0, world - 1 do
  waited, most = waited + bars[rank] - shortest, math.max(most, bars[rank] - shortest)
end
rs.check(checks.equal, equal, { virtual = true })
rs.close(checks.culprit:format(world), student.culprit(bars, world), slow, { virtual = true, hints = hints.culprit })
rs.close(checks.wait, student.longest_wait(bars, world), most, { virtual = true, hints = hints.wait })
rs.close(checks.share, student.lost_share(bars, world, step_us), waited / (world * step_us),
  { virtual = true, hints = hints.share })

local other = (slow + 1) % world
local others = step { [other] = 2 * delay, [slow] = delay }
rs.close(checks.other, student.culprit(others, world), other, { virtual = true, hints = hints.culprit })

rs.close(checks.straggler, student.straggler({ bars, others, bars, others, bars }, world), slow,
  { virtual = true, hints = hints.straggler })
local third = step { [(slow + 2) % world] = delay }
rs.check(checks.nobody, student.straggler({ bars, others, third }, world) == nil, { virtual = true, hints = hints.straggler })
