-- Lesson 20: your bytes, your rules.
--
-- What becomes of a bucket on its way is up to you: a communication hook gets it undivided, sends what it likes, and owes
-- DDP a Future of the averaged gradients. The library's hooks halve the bytes; what that costs is in the last digits.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
local hooks = dist.algorithms.ddp_comm_hooks.default_hooks

rs.lesson {
  title = "Your bytes, your rules",
  devices = 2,
  hardware = "classroom",
  seed = 20,
  minutes = 25,
  needs = "15",
}

local text = {
  welcome = "Linear(1, 1) without a bias on two ranks: rank r has x = r + 1, so its gradient is r + 1. DDP's mean is 1.5.",
  divide = {
    question = "A hook all-reduces the bucket and answers what came. What is the gradient?",
    choices = { "0.75", "1.5", "3" },
    answer = "3",
    why = "With a hook DDP divides nothing: 1 + 2 is the sum, and the mean is the hook's business.",
    wrong = {
      ["0.75"] = "Nobody divides twice: with a hook DDP does not even divide once.",
      ["1.5"] = "That is DDP's own way: each rank divides by 2, then they add up. A hook gets its bucket undivided.",
    },
    hides = { "ddp", "autograd", "c10d" },
  },
  half = {
    question = "Now both gradients are 2049, and fp16_compress_hook averages them. What comes out?",
    choices = { "2048", "2049", "2050" },
    answer = "2048",
    why = "float16 has 11 binary digits: from 2048 to 4096 only even numbers. 2049, in the middle, goes to 2048.",
    wrong = {
      ["2049"] = "It would, if the bucket were sent as it is: float32 has 24 binary digits.",
      ["2050"] = "As near as 2048; ties go to the one whose last binary digit is 0, and 2048 is that.",
    },
    hides = { "ddp", "autograd", "c10d", "kernel" },
  },
  bytes = {
    question = "Linear(1000, 1000) without a bias: 4 000 000 bytes of gradients. How many does the fp16 hook send?",
    choices = { "1 000 000", "2 000 000", "4 000 000" },
    answer = "2 000 000",
    why = "Two bytes for each of a million numbers. All else stays: the weights, the optimizer and .grad are float32.",
    wrong = {
      ["1 000 000"] = "That would be one byte each: the quantization hooks do so, with two all-gathers.",
      ["4 000 000"] = "So it is without a hook: four bytes for each of a million numbers.",
    },
    hides = { "ddp", "autograd", "c10d", "comm" },
  },
  got = "With %s the gradient is %s.",
  sent = "Without a hook %d bytes travel, with fp16_compress_hook %d.",
  told = "A second hook is refused: %s",
  finish = "Undivided in, a Future of the mean out: what lies between is yours, in the same order on every rank.",
  checks = {
    divided = "rank %d: without a division the gradient is %s",
    mean = "rank %d: with allreduce_hook it is %s",
    half = "rank %d: 2049 and 2049 make %s in float16",
    inside = "rank %d: the all-reduce is issued inside ddp.comm_hook",
    casts = "rank %d: one kernel casts to float16 before the all-reduce, one casts back after it",
    bytes = "rank %d: %d bytes without a hook, %d with fp16_compress_hook",
    lands = "rank %d: the hook's result lands before finalize_backward ends",
    second = "rank %d: a second hook is a RuntimeError",
  },
  teacher = [[
Time: 6 minutes for the questions, 9 in the viewer, 10 for the exercise.
Let the class play the hook: a student gets a slip with numbers, may do to it what he likes, and owes the mean on the board.
The first group will forget to divide: that is the first question.
Expected wrong answers: "1.5" (DDP is thought to divide in any case), "2049" (halves are thought of as "a bit less exact",
not as a grid), "1 000 000". Below 30 % right on 2048: write down the float16 numbers from 2044 to 2056 first. Between 30
and 70 %: pairs round 2049, 2050 and 2051, ask again. Above: go on, and ask for 4099.
In the viewer: break ddp.comm_hook rank 0, then c. In the third run step from there to the kernels copy, div_scalar and the
all-reduce; break ddp.comm_hook_result shows the way back.
One new command: break ddp.comm_hook_result, the second half of a hook, which waits.
Next question: why does the library's hook divide before it sends, not after? (The sum of many ranks' halves may be too
large for a half.)
Two-minute fallback: ringside run, and read the four lines with gradients and bytes aloud.]],
}
local checks, expected = text.checks, { divided = 3, mean = 1.5, half = 2048, bytes = { 4000000, 2000000 } }

-- What comes of a rank's own gradient `own` with that hook, on the rank's device; and the event with which that began.
local function average(rank, own, hook)
  local device, seq = "device:" .. rank, rs.trace:seq()
  local ddp = nn.parallel.DistributedDataParallel(nn.Linear(1, 1, { bias = false }):to(device))
  ddp:register_comm_hook(nil, hook)
  ddp(rs.full({ 1, 1 }, own, { device = device })):sum():backward()
  local refused, why = pcall(ddp.register_comm_hook, ddp, nil, hook)
  return { grad = ddp.module.weight.grad:item(), seq = seq, second = not refused and why.kind, why = why.message }
end

-- A hook of one's own, which forgets to divide: a Future of the sum.
local function only_sum(_, bucket)
  local work = dist.all_reduce(bucket:buffer(), { async_op = true })
  return work:get_future():then_(function(future) return future:value()[1] end)
end

local function run_sum(rank) return average(rank, rank + 1.0, only_sum) end
local function run_mean(rank) return average(rank, rank + 1.0, hooks.allreduce_hook) end
local function run_half(rank) return average(rank, 2049.0, hooks.fp16_compress_hook) end

-- The bytes of the one all-reduce of a backward, without a hook and with the fp16 hook.
local function payload(rank)
  local sent = {}
  for i = 1, 2 do
    local ddp = nn.parallel.DistributedDataParallel(nn.Linear(1000, 1000, { bias = false }))
    if i == 2 then ddp:register_comm_hook(nil, hooks.fp16_compress_hook) end
    ddp(rs.ones(1, 1000)):sum():backward()
    sent[i] = rs.trace:last { kind = "c10d.allreduce", rank = rank }.args.bytes
  end
  return sent
end

rs.say(text.welcome)
rs.ask(text.divide)
local summed = dist.spawn(run_sum, { world = 2 })
rs.say(text.got:format("a sum alone", summed[0].grad))
local mean = dist.spawn(run_mean, { world = 2 })
rs.say(text.got:format("allreduce_hook", mean[0].grad))
rs.say(text.told:format(summed[0].why))
rs.ask(text.half)
local half = dist.spawn(run_half, { world = 2 })
rs.say(text.got:format("fp16_compress_hook", half[0].grad))
local over = rs.trace:seq()
rs.ask(text.bytes)
local sent = dist.spawn(payload, { world = 2 })
rs.say(text.sent:format(sent[0][1], sent[0][2]))

for rank = 0, 1 do
  rs.close(checks.divided:format(rank, expected.divided), summed[rank].grad, expected.divided, 0)
  rs.close(checks.mean:format(rank, expected.mean), mean[rank].grad, expected.mean, 0)
  rs.close(checks.half:format(rank, expected.half), half[rank].grad, expected.half, 0)

  local window = ("rank %d and seq > %d and seq < %d"):format(rank, half[rank].seq, over)
  local function seq_of(what, phase)
    for _, event in ipairs(rs.trace:events { kind = what, rank = rank, phase = phase }) do
      if event.seq > half[rank].seq then return event.seq end
    end
  end
  local issue = rs.trace:first("c10d.issue and " .. window .. " and seq > " .. seq_of("ddp.comm_hook")).seq
  rs.check(checks.inside:format(rank), issue < seq_of("ddp.comm_hook", "end"))
  local to_half = rs.trace:events("kernel and op = copy and bytes = 2 and " .. window)
  local back = rs.trace:first("kernel and op = copy and bytes = 4 and " .. window .. " and seq > " .. seq_of "c10d.allreduce")
  rs.check(checks.casts:format(rank), #to_half == 1 and back ~= nil)
  rs.close(checks.bytes:format(rank, table.unpack(expected.bytes)), sent[rank], expected.bytes)
  rs.check(checks.lands:format(rank),
    seq_of("ddp.comm_hook_result", "end") < seq_of("ddp.finalize_backward", "end"))
  rs.check(checks.second:format(rank), summed[rank].second == "RuntimeError")
end

rs.say(text.finish)
rs.teacher(text.teacher)
