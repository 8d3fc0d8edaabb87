-- Lesson 15: who fires first?
--
-- DistributedDataParallel in one backward: a hook per parameter, gradients into buckets, buckets started in index
-- order while the backward still runs, everything waited for at its end. And why the second iteration is cut
-- differently from the first: buckets follow the order of use, not of definition.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

rs.lesson {
  title = "Hooks and order",
  devices = 2,
  hardware = "classroom",
  costs = { host = 0, kernel = 0, Linear_backward = 500 }, -- only the backward of a Linear costs, and the wire
  seed = 15,
  minutes = 30,
  needs = "03, 14", story = { ["c10d.rendezvous"] = false, ["ddp.verify_params"] = false },
}

local text = {
  welcome = "Two ranks with parameters 0 a.weight, 1 a.bias, 2 b.weight, 3 b.bias: a is defined first, but used last, a(b(x)).",
  first = {
    question = "Whose gradient is ready first?",
    choices = { "a.weight", "a.bias", "b.bias" },
    answer = "a.bias",
    why = "Backward starts at a, where forward ended. The weight's gradient still passes the transpose, the bias's does not.",
    wrong = {
      ["a.weight"] = "The layer is right. But the weight lies one node further on: the transpose of lesson 03.",
      ["b.bias"] = "b is defined last, but used first. Backward comes to it last.",
    },
    hides = { "ddp", "autograd", "c10d" },
  },
  rebuilt = {
    question = "Buckets (gradients that are sent together) are cut anew after iteration 0. In which order?",
    choices = { "a, then b", "b, then a" },
    answer = "a, then b",
    why = "They are cut in the order in which the gradients came: parameters 1 0, then 3 2.",
    wrong = { ["b, then a"] = "That is the definition reversed: how the first buckets were cut, before anything had run." },
    hides = { "ddp", "autograd", "c10d" },
  },
  start = {
    question = "If bucket 1 were full first, could it start before bucket 0?",
    choices = { "yes", "no" },
    answer = "no",
    why = "Ranks pair their collectives by the order of the calls and by nothing else: buckets start in index order.",
    wrong = { yes = "Then the other rank, where bucket 0 is full first, would add its bucket 0 to this bucket 1." },
    hides = { "ddp", "autograd", "c10d" },
  },
  spawned = "The ranks find each other, and DDP's constructor compares and sends the parameters.",
  built = "DDP stands with one bucket, cut by definition; next come zero_grad and the forward through b, then a.",
  backward = "Iteration %d, backward: n goes from bucket to bucket, m from hook to hook on both ranks.",
  stepped = "Iteration %d: all waits are over, the gradients are averaged, and the optimizer has stepped.",
  took = "Rank 0's backward took %.4f us in iteration 0, and %.4f us in iteration 1.",
  finish = "Hook, ready, launch, finalize: only iteration 0 runs with the first cut, and overlaps nothing.",
  checks = {
    same = "both ranks end with the same gradient",
    order = "rank %d: in each iteration a.bias, a.weight, b.bias, b.weight are ready in this order",
    buckets = "rank %d: one bucket of 2101248 bytes, after the rebuild two of 1050624",
    indices = "rank %d: the rebuilt ones hold parameters 1 0 and 3 2",
    launched = "rank %d: buckets start in index order",
    starts = "rank %d: three all-reduces, and the first of each iteration starts before its backward ends",
    overlap = "rank %d: in iteration 0 bucket 0 starts when all are ready, in iteration 1 before b.bias is",
    waits = "rank %d: every wait for a gradient lies inside finalize_backward",
    lasts = "rank %d: an all-reduce of 1050624 bytes lasts 125.0624 us",
    times = "rank %d: the backwards last 1000 + 230.1248 and 1000 + 125.0624 us",
  },
  teacher = [[
Time: 8 minutes to run and predict, 12 in the viewer, 10 for the exercise.
In the viewer: break ddp.mark_bucket_ready, then c. Three times: iteration 0 stops once per rank, iteration 1 twice.
Expected wrong answer: "b, then a" after the rebuild (they think of definition order reversed, which is the initial list).
Let them say why iteration 0 has no overlap at all: one bucket is full only when the last gradient came. Then compare the
two pictures: in iteration 1 bucket 0 travels under b's backward, and only the last bucket is waited for.
One new debugger command: delay. Stand before rank 1's first ddp.autograd_hook of iteration 1, delay 1 100, c.
Two-minute fallback: read the twelve lines of reducer_mark_bucket_ready in the source pane together.]],
}
local checks = text.checks

-- `a` is defined first and used last.
local Model = nn.Module("Model")
function Model:init()
  self.a = nn.Linear(512, 512)
  self.b = nn.Linear(512, 512)
end
function Model:forward(x)
  return self.a(self.b(x))
end

local function train(rank)
  local net = Model()
  local ddp = nn.parallel.DistributedDataParallel(net, { bucket_cap_mb = 1 })
  if rank == 1 then rs.say(text.built) end -- rank 1 comes last
  local optimizer = rs.optim.SGD(net:parameters(), { lr = 0.01 })
  for iteration = 0, 1 do
    optimizer:zero_grad()
    local loss = ddp(rs.randn(4, 512)):sum()
    if rank == 1 then rs.say(text.backward:format(iteration)) end
    loss:backward()
    optimizer:step()
    if rank == 1 then rs.say(text.stepped:format(iteration)) end
  end
  return net.a.bias.grad[0]:item()
end

rs.say(text.welcome)
rs.ask(text.first)
rs.ask(text.rebuilt)
rs.ask(text.start)

rs.say(text.spawned)
local grads = dist.spawn(train, { world = 2 })
rs.check(checks.same, grads[0] == grads[1])

-- The begins (ends, if `phase` says so) of a kind on a rank, and what each of them has in an argument.
local function events(kind, rank, phase) return rs.trace:events { kind = kind, rank = rank, phase = phase } end
local function arguments(list, name)
  local values = {}
  for i, event in ipairs(list) do values[i] = event.args[name] end
  return values
end

for rank = 0, 1 do
  local ready, buckets = events("ddp.mark_variable_ready", rank), events("ddp.bucket", rank)
  local launches, sends = events("ddp.all_reduce_bucket", rank), events("c10d.allreduce", rank)
  local backwards, ends = events("autograd.backward", rank), events("autograd.backward", rank, "end")
  rs.close(checks.order:format(rank), arguments(ready, "param"), { 1, 0, 3, 2, 1, 0, 3, 2 })
  rs.close(checks.buckets:format(rank), arguments(buckets, "bytes"), { 2101248, 1050624, 1050624 })
  rs.check(checks.indices:format(rank), table.concat(arguments(buckets, "indices"), ", ", 2) == "1 0, 3 2")
  rs.close(checks.launched:format(rank), arguments(launches, "bucket"), { 0, 0, 1 })
  rs.check(checks.starts:format(rank), #sends == 3 and sends[1].t < ends[1].t and sends[2].t < ends[2].t)
  rs.check(checks.overlap:format(rank), launches[1].seq > ready[4].seq and launches[2].seq < ready[7].seq)

  local all = "c10d.wait and operation = all_reduce and rank " .. rank
  local stops, inside = events("ddp.finalize_backward", rank, "end"), 0
  for i, begin in ipairs(events("ddp.finalize_backward", rank)) do
    inside = inside + rs.trace:count(("%s and seq > %d and seq < %d"):format(all, begin.seq, stops[i].seq))
  end
  rs.check(checks.waits:format(rank), inside == 3 and rs.trace:count(all) == 3)
  rs.close(checks.lasts:format(rank), rs.trace:duration(sends[2]), 125.0624, 1e-6, { virtual = true })
  local us = { rs.trace:duration(backwards[1]), rs.trace:duration(backwards[2]) }
  if rank == 0 then rs.say(text.took:format(us[1], us[2])) end
  rs.close(checks.times:format(rank), us, { 1230.1248, 1125.0624 }, 1e-6, { virtual = true })
end

rs.say(text.finish)
rs.teacher(text.teacher)
