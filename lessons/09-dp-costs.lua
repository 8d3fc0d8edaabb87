-- Lesson 09: why four are slower than one.
--
-- DataParallel runs its replicas in threads of one process, and a thread that runs Lua (or Python) holds the
-- interpreter's one lock meanwhile. Many small ops are mostly interpreter: four threads then take turns, and four
-- devices wait for them. And what the replicas return, device 0 has to hold for all.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

rs.lesson {
  title = "Why four are slower than one",
  devices = 4, hardware = "classroom", seed = 9, minutes = 25, needs = "06", story = { "dp.worker" },
  costs = { host = 0, kernel = 20 },    -- a kernel takes 20 us; what the host costs stands in the module: 50 us of Lua
}

local text = {
  welcome = "100 ops. Each: 50 us of Lua, then a kernel on the device.",
  kernels = "A kernel takes 20 us for 250 rows. The batch has 1000.",
  times = "Questions count by the classroom's prices. In free, what is measured is wall time of this machine.",
  apply = {
    question = "Four devices, four threads, 250 rows each. How long does parallel_apply take?",
    choices = { "2050 us", "5020 us", "20020 us" },
    answer = "20020 us",
    why = "4 x 100 turns of 50 us, one after another: 20000. The last kernel adds 20.",
    wrong = {
      ["2050 us"] = "That is the kernels' time. They can only run once Lua has launched them.",
      ["5020 us"] = "That lets four threads run Lua at once. There is one lock, as in Python: the GIL.",
    },
    hides = { "dp.parallel_apply", "dp.worker", "lock" },
  },
  turns = "One thread runs Lua, three wait for the lock. In the viewer: - zooms out.",
  over = "Four hundred turns, one after another: %.0f us.",
  single = {
    question = "One device, all 1000 rows: an op is 50 us of Lua and 80 us of kernels. How long?",
    choices = { "5080 us", "8050 us", "13000 us" },
    answer = "8050 us",
    why = "The first launch comes after 50 us. Then the device is never idle: 100 x 80 us.",
    wrong = {
      ["5080 us"] = "Lua is through after 5000 us, but by then the kernels queue up: 80 us is more than 50.",
      ["13000 us"] = "That waits for each kernel. A launch returns at once, and Lua prepares the next op.",
    },
  },
  slower = "Four devices: %.0f us. One device: %.0f us.",
  ranks = {
    question = "Four processes instead of four threads, 250 rows each. How long does each take?",
    choices = { "2050 us", "5020 us", "20020 us" },
    answer = "5020 us",
    why = "Each process has an interpreter and a lock of its own: 100 x 50 us, and the last kernel.",
    wrong = {
      ["2050 us"] = "The devices are faster than that, but 100 x 50 us of Lua is still to be run.",
      ["20020 us"] = "That is for threads of one process. No lock is shared between processes.",
    },
  },
  own = "A process has its own lock: %.0f us. Hence DistributedDataParallel.",
  big = "Now memory. Linear(1000, 1000), a batch of 1000, 250 rows a device.",
  peak = {
    question = "Which device needs the most memory?",
    choices = { "all the same", "device 0", "device 3" },
    answer = "device 0",
    why = "gather puts all 1000 rows of the output there: 4 MB. Batch and loss are there, too.",
    wrong = {
      ["all the same"] = "The replicas are alike, but the outputs, the loss and its gradient live on device 0 only.",
      ["device 3"] = "It computes last, but it keeps no more than its own 250 rows.",
    },
  },
  peaks = "Peaks in MB: %.1f on device 0, %.1f on each other.",
  closing = "One lock for all threads, one device for all outputs.",
  checks = {
    results = "four devices and one compute the same",
    apply = "parallel_apply lasts 20020 us",
    lock = "Lua's lock is held for 20000 us of them",
    apart = "never by two at a time",
    waits = "a thread works 5000 us and waits three times as long",
    kernels = "each device runs 100 kernels",
    busy = "they take 2000 us on each: it is idle nine tenths of the time",
    single = "one device is through after 8050 us",
    ranks = "four ranks take 5020 us each",
    gather = "gather allocates 4000000 bytes on device 0, nothing on the others",
    peak = "device 0 needs more than the output above the others, which are alike",
  },
  teacher = [[
Time: 8 minutes on paper, 7 in the viewer, 10 for the exercise.
On paper first: four rows of boxes of 50 us, and the rule that only one box may stand above another. Then the kernels.
Expected wrong answers: "5020" for four threads (most people who know Python's threads from waiting for files),
"2050" (devices only), "13000" for one device (kernels are waited for), "all the same" for the peak.
Below 30 % right on the first: play it. Four students write tallies with one pen. Then with a pen each: four processes.
30 to 70 %: ask the pairs who holds the lock at 75 us, then ask again. Above: go on to one device.
In the viewer: the stop in the middle of parallel_apply (the line about one thread) is the picture: three worker lanes
wait in stripes, Lua runs in one, the compute lanes are nearly empty. - widens it, /lock.wait and > travel from wait to
wait; the one new command, :show locks, lets s stop at each wait and hold. Then /dp.gather and Tab to the pane Memory:
4 MB on device 0.
Here Lua's part of an op is all of its price. In Python about half of a small op runs outside the lock, in C++, so real
DataParallel is a little better than this, and PyTorch's advice is the same: processes, not threads.
Next question for the fast ones: what if kernels took 50 us for 250 rows? (20050 both: that is the exercise.)
Two-minute fallback: ringside run, the first question by show of hands, and the line with both times.]],
}

-- One op is Lua's own work, with the lock, then a kernel for every 250 rows: launched, not waited for.
local Busy = nn.Module("Busy")
function Busy:forward(x)
  local pieces = x:split(250)
  for op = 1, 100 do
    if self.told and op == 4 and x.device == "device:0" then rs.say(text.turns) end
    rs.advance(50, { lock = true })
    for _, piece in ipairs(pieces) do piece:add_(1) end
  end
  rs.cuda.synchronize(x.device)       -- the clock shall count the last kernel, too
  return x
end

-- How long all events of a kind last together, in us; and whether each begins after the one before it has ended.
local function lasts(query)
  local us, apart, upto = 0, true, 0
  for _, event in ipairs(rs.trace:events(query)) do
    local length = rs.trace:duration(event) or 0
    apart = apart and event.t > upto - 0.5
    us, upto = us + length, event.t + 1000 * length
  end
  return us, apart
end

local function zeros(rows, device)
  rs.cuda.synchronize()               -- what was queued before is no part of the time that is measured
  return rs.zeros({ rows, 1 }, { device = device })
end
local virtual, lock = { virtual = true }, "lua state"

rs.say(text.welcome)
rs.say(text.kernels)
rs.say(text.times)
rs.ask(text.apply)
local dp = nn.DataParallel(Busy():to("device:0"))
dp.module.told = true
local many = dp(zeros(1000, "device:0"))
local apply = rs.trace:duration { kind = "dp.parallel_apply" }
local held, apart = lasts { kind = "lock.hold", lock = lock }
local count, busy, waited, ranks = {}, {}, {}, {}
for device = 0, 3 do
  count[device] = rs.trace:count { kind = "kernel", op = "add", device = device }
  busy[device] = lasts { kind = "kernel", op = "add", device = device }
  waited[device] = lasts { kind = "lock.wait", lock = lock, device = device }
end
rs.say(text.over:format(apply))
rs.close(text.checks.apply, apply, 20020, virtual)
rs.close(text.checks.lock, held, 20000, virtual)
rs.check(text.checks.apart, apart)
rs.close(text.checks.waits, waited, { [0] = 15000, 15000, 15000, 15000 }, { virtual = true, atol = 50 })
rs.close(text.checks.kernels, count, { [0] = 100, 100, 100, 100 })
rs.close(text.checks.busy, busy, { [0] = 2000, 2000, 2000, 2000 }, virtual)

rs.ask(text.single)
local one = Busy()(zeros(1000, "device:0"))
local single = rs.trace:duration(rs.trace:last { kind = "module.forward" })
rs.say(text.slower:format(apply, single))
rs.check(text.checks.results, many:eq(100):all():item() and one:eq(100):all():item())
rs.close(text.checks.single, single, 8050, virtual)

rs.ask(text.ranks)
dist.spawn(function(rank) Busy()(zeros(250, rank)) end, { world = 4 })
for rank = 0, 3 do ranks[rank] = rs.trace:duration { kind = "module.forward", rank = rank } end
rs.say(text.own:format(ranks[0]))
rs.close(text.checks.ranks, ranks, { [0] = 5020, 5020, 5020, 5020 }, virtual)

rs.say(text.big)
rs.ask(text.peak)
local net = nn.DataParallel(nn.Linear(1000, 1000):to("device:0"))
net(rs.ones({ 1000, 1000 }, { device = "device:0" })):mean()
local from, to = rs.trace:last { kind = "dp.gather" }, rs.trace:last { kind = "dp.gather", phase = "end" }
local gathered, peak = {}, {}
for device = 0, 3 do
  gathered[device], peak[device] = 0, rs.cuda.max_memory_allocated(device) / 1e6
  for _, alloc in ipairs(rs.trace:events { kind = "memory.alloc", device = device }) do
    if from.seq < alloc.seq and alloc.seq < to.seq then gathered[device] = gathered[device] + alloc.args.bytes end
  end
end
rs.say(text.peaks:format(peak[0], peak[1]))
rs.close(text.checks.gather, gathered, { [0] = 4000000, 0, 0, 0 })
rs.check(text.checks.peak, peak[0] > peak[1] + 4 and peak[1] == peak[2] and peak[2] == peak[3])
rs.say(text.closing)
rs.teacher(text.teacher)
