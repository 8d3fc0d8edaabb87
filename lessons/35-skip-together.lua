-- Lesson 35: skip together, or not at all.
--
-- A rank that sees NaN and skips its backward makes one all-reduce less than the others. From there on each step is
-- averaged with another one, in silence, until somebody waits in vain. Who skips must be agreed upon.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

rs.lesson {
  title = "Skip together",
  hardware = "classroom",
  seed = 35,
  minutes = 25,
  needs = "17, 19",
}

local text = {
  welcome = "One weight, so the gradient is the sample. Rank 0 has 1, 2, 3, 4. Rank 1 has 10, nan, 30, 40. Then all count.",
  nobody = {
    question = "Nobody skips. What is rank 0's gradient in step 2, where its own sample is 2?",
    choices = { "2", "1", "nan" },
    answer = "nan",
    why = "The mean of 2 and nan is nan, on every rank. One optimizer step later so are all weights.",
    wrong = {
      ["2"] = "DDP averages with rank 1's gradient, and that is nan.",
      ["1"] = "That would be the mean of 2 and 0. nan is not 0: it stays in every sum.",
    },
    hides = { "ddp", "autograd", "c10d", "comm" },
  },
  alone = {
    question = "Now rank 1 skips its nan: no backward. In step 2 rank 0's 2 is averaged with",
    choices = { "nothing: it waits", "rank 1's 30", "rank 1's 10" },
    answer = "rank 1's 30",
    why = "An all-reduce knows no steps. Rank 1's next one is that of step 3: same size, same type. 16 on both, and no error.",
    wrong = {
      ["nothing: it waits"] = "It waits a moment. Then rank 1 comes with an all-reduce of the same size, of step 3.",
      ["rank 1's 10"] = "That was step 1's, and it is over.",
    },
    hides = { "ddp", "autograd", "c10d", "comm", "fault" },
  },
  ends = {
    question = "Rank 0 comes to its fourth backward when rank 1 has no sample left and counts. What happens?",
    choices = { "a named mismatch", "it works", "rank 1 waits for ever" },
    answer = "a named mismatch",
    why = "The fourth all-reduce of a gradient meets that of the count. Only here, steps after the skip, it shows.",
    wrong = {
      ["it works"] = "It would if both were the same collective on the same type. A gradient is no count.",
      ["rank 1 waits for ever"] = "So it may be elsewhere. Here the two calls are compared before anything moves.",
    },
    hides = { "ddp", "autograd", "c10d", "comm", "fault" },
  },
  together = {
    question = "All decide: before each backward one all-reduce of a flag, 1 is good, with op = \"min\". Step 3's gradient?",
    choices = { "3", "16.5", "21.5" },
    answer = "16.5",
    why = "Both skip step 2, so both have made the same calls: step 3 meets step 3, (3 + 30) / 2. It costs 4 bytes a step.",
    wrong = {
      ["3"] = "Nobody skips step 3: both ranks' flags are 1.",
      ["21.5"] = "(3 + 40) / 2, one step apart: so it was when rank 1 skipped alone.",
    },
    hides = { "ddp", "autograd", "c10d", "comm" },
  },
  scaler = {
    question = "float16 ends at 65504. Loss times 32768, samples 0.5 and 4: only rank 1's gradient overflows. Who skips?",
    choices = { "rank 1", "both", "nobody" },
    answer = "both",
    why = "The mean of anything and inf is inf: both see it after the all-reduce, and no flag is needed. Both halve the scale.",
    wrong = {
      ["rank 1"] = "It would if it looked before the all-reduce. After it rank 0 has inf, too.",
      nobody = "4 times 32768 is 131072, more than float16 has: inf.",
    },
    hides = { "ddp", "autograd", "c10d", "comm" },
  },
  has = "My gradients in steps 1 to 4: %s.",
  told = "Rank 0 was told: %s (:explain tells all.)",
  scales = "Scaled gradients on both ranks: %g, %g, %g. The scale ends at %d, the gradient is %g / %d = %g.",
  finish = "A rank may decide what it likes, but not alone whether it calls a collective.",
  never = "nobody skips",
  one = "one skips",
  all = "all decide",
  skipped = "skipped",
  checks = {
    grads = "%s: rank %d's gradients are %s",
    count = "%s: %d backwards in all",
    refused = "one skips: rank %d's next collective is refused as a mismatch",
    named = "and it is named: rank 1 left out an all_reduce",
    flags = "all decide: rank 0 makes 7 all-reduces of 4 bytes, three gradients and four flags",
    overflow = "rank %d overflows with scale 32768 and 16384, though only rank 1's own gradient does",
    scale = "rank %d's scale ends at 8192",
    mean = "rank %d's gradient is 2.25, the mean of 0.5 and 4",
  },
  teacher = [[
Time: 8 minutes for the first three questions, 8 in the viewer, 9 for the exercise.
Expected wrong answers: "it waits" (each step is thought to have a name: it has not), 1 (nan taken as 0), "rank 1" for the
scaler. Below 30 % right on the second: let two students deal cards, one rank leaves one out, and pair them as they lie.
In the viewer: break c10d.allreduce rank 1, c: in the second run it is there once less before the count. Then
:break fault.mismatch and c.
One new key: = tells all of an event. At an all-reduce its bytes: 4 for a gradient, 4 for a flag, 8 for the count.
Next question: may each rank skip opt:step() by itself? (Only by what is equal on all: the averaged gradient.) And an empty
batch? (The same: all decide, or Join.)
Two-minute fallback: the second question, and 16 on both ranks.]],
}
local checks = text.checks

local samples = { [0] = { 1.0, 2.0, 3.0, 4.0 }, { 10.0, 0 / 0, 30.0, 40.0 } }

-- Answers the gradients by step, how many backwards all ranks made, and with what it ended if it did.
local function epoch(rank, good)
  local layer, told, count = nn.Linear(1, 1, { bias = false }), { grads = {} }, rs.tensor(0)
  nn.init.constant_(layer.weight, 1)
  local ddp = nn.parallel.DistributedDataParallel(layer)
  told.worked, told.why = pcall(function()
    for step, sample in ipairs(samples[rank]) do
      ddp:zero_grad()
      local loss = ddp(rs.full({ 1, 1 }, sample)):sum()
      local goes_on = good(loss)
      if goes_on then loss:backward() end
      local grad = goes_on and layer.weight.grad:item() or text.skipped
      told.grads[step] = grad == grad and grad or "nan"
      count:add_(goes_on and 1 or 0)
    end
    dist.all_reduce(count)
  end)
  rs.say(text.has:format(table.concat(told.grads, ", ")))
  told.count = count:item()
  return told
end

local function alone(loss) return loss:isfinite():item() end
local function together(loss)
  local flag = loss:isfinite():to("float32")
  dist.all_reduce(flag, { op = "min" })
  return flag:item() == 1
end

-- Four steps on two ranks; what has to come out is written as the ranks print it.
local function run(name, good, zero, one)
  local told = dist.spawn(epoch, { world = 2, args = { good } })
  for rank, wanted in pairs { [0] = zero, one } do
    rs.check(checks.grads:format(name, rank, wanted), table.concat(told[rank].grads, " ") == wanted)
  end
  return told
end

rs.say(text.welcome)
rs.ask(text.nobody)
local told = run(text.never, function() return true end, "5.5 nan 16.5 22.0", "5.5 nan 16.5 22.0")
rs.close(checks.count:format(text.never, 8), told[1].count, 8)

rs.ask(text.alone)
rs.ask(text.ends)
told = run(text.one, alone, "5.5 16.0 21.5", "5.5 " .. text.skipped .. " 16.0 21.5")
for rank = 0, 1 do
  rs.check(checks.refused:format(rank), not told[rank].worked and told[rank].why.kind == "MismatchError")
end
rs.check(checks.named, told[0].why.message:find("rank 1 left out all_reduce", 1, true) ~= nil)
rs.say(text.told:format(told[0].why.message:match("^[^\n]*\n[^\n]*")))

rs.ask(text.together)
local seq, wanted = rs.trace:seq(), "5.5 " .. text.skipped .. " 16.5 22.0"
told = run(text.all, together, wanted, wanted)
rs.close(checks.count:format(text.all, 6), told[0].count, 6)
local flags = "kind = c10d.allreduce and rank 0 and phase = begin and bytes = 4 and seq >= %d"
rs.close(checks.flags, rs.trace:count(flags:format(seq)), 7)

rs.ask(text.scaler)
-- The scaler: looks at the averaged gradient; halves its scale and skips, or divides it out.
local scaled = dist.spawn(function(rank)
  local layer, scale, seen = nn.Linear(1, 1, { bias = false }):to("float16"), 32768, {}
  nn.init.constant_(layer.weight, 1)
  local ddp = nn.parallel.DistributedDataParallel(layer)
  for try = 1, 3 do
    ddp:zero_grad()
    local loss = (ddp(rs.full({ 1, 1 }, rank == 0 and 0.5 or 4.0, { dtype = "float16" })) * scale):sum()
    loss:backward()
    seen[try] = layer.weight.grad:item()
    if math.abs(seen[try]) < math.huge then seen.grad = seen[try] / scale else scale = scale // 2 end
  end
  seen.scale = scale
  return seen
end, { world = 2 })
for rank = 0, 1 do
  rs.close(checks.overflow:format(rank), { scaled[rank][1], scaled[rank][2] }, { math.huge, math.huge })
  rs.close(checks.scale:format(rank), scaled[rank].scale, 8192)
  rs.close(checks.mean:format(rank), scaled[rank].grad, 2.25)
end
local last = scaled[0]
rs.say(text.scales:format(last[1], last[2], last[3], last.scale, last[3], last.scale, last.grad))

rs.say(text.finish)
rs.teacher(text.teacher)
