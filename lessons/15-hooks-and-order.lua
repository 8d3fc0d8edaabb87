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
  seed = 15,
  minutes = 30,
  needs = "03, 14",
}

local text = {
  welcome = "Two ranks, two layers: a is defined first, but the forward is a(b(x)). "
    .. "Parameters: 0 a.weight, 1 a.bias, 2 b.weight, 3 b.bias.",
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
  spawned = "Two ranks find each other. Then DDP's constructor compares and sends the parameters: f ends what you stand in.",
  built = "DDP stands: one bucket, cut by definition. Next: zero_grad, and the forward through b, then a.",
  backward = "Iteration %d, backward: n goes from hook to hook on both ranks; f in autograd.backward goes to its end.",
  stepped = "Iteration %d: all waits are over, the gradients are averaged. The optimizer has stepped.",
  finish = "Hook, ready, launch, finalize: four words, and the whole of DDP's backward. "
    .. "Only iteration 0 runs with the first cut, and overlaps nothing.",
  checks = {
    same = "both ranks end with the same gradient",
    ready = "rank %d: four parameters are ready in each of two iterations",
    first = "rank %d: a.bias is ready first",
    order = "rank %d: the order is a.bias, a.weight, b.bias, b.weight",
    buckets = "rank %d: one bucket at first, two after the rebuild",
    bytes = "rank %d: in iteration 0 it has 2101248 bytes",
    two = "rank %d: then two of 1050624",
    indices = "rank %d: the first holds 1 0, the second 3 2",
    starts = "rank %d: three all-reduces carry gradients",
    overlap = "rank %d: each iteration's first starts before its backward ends",
    waits = "rank %d: every wait for a gradient lies inside finalize_backward",
    launched = "rank %d: buckets start in index order",
  },
  teacher = [[
Time: 10 minutes to run and predict, 15 in the viewer, 5 for the exercise.
In the viewer: break ddp.mark_bucket_ready, then c. Three times: iteration 0 stops once per rank, iteration 1 twice.
Expected wrong answer: "b, then a" after the rebuild (they think of definition order reversed, which is the initial list).
Let them say why iteration 0 has no overlap at all: one bucket is full only when the last gradient came.
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
  if rank == 0 then rs.say(text.built) end
  local optimizer = rs.optim.SGD(net:parameters(), { lr = 0.01 })
  for iteration = 0, 1 do
    optimizer:zero_grad()
    local loss = ddp(rs.randn(4, 512)):sum()
    if rank == 0 then rs.say(text.backward:format(iteration)) end
    loss:backward()
    optimizer:step()
    if rank == 0 then rs.say(text.stepped:format(iteration)) end
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

for rank = 0, 1 do
  local ready = rs.trace:events { kind = "ddp.mark_variable_ready", rank = rank }
  rs.check(checks.ready:format(rank), #ready == 8)
  rs.check(checks.first:format(rank), ready[1].args.name == "a.bias" and ready[5].args.name == "a.bias")
  local order = {}
  for i = 1, 4 do order[i] = ready[i].args.param end
  rs.close(checks.order:format(rank), order, { 1, 0, 3, 2 })

  local buckets = rs.trace:events { kind = "ddp.bucket", rank = rank }
  rs.check(checks.buckets:format(rank), #buckets == 3)
  rs.close(checks.bytes:format(rank), buckets[1].args.bytes, 2101248)
  rs.close(checks.two:format(rank), { buckets[2].args.bytes, buckets[3].args.bytes }, { 1050624, 1050624 })
  rs.check(checks.indices:format(rank),
    buckets[2].args.indices == "1 0" and buckets[3].args.indices == "3 2")

  local starts = rs.trace:events { kind = "c10d.allreduce", rank = rank }
  local ends = rs.trace:events { kind = "autograd.backward", rank = rank, phase = "end" }
  rs.check(checks.starts:format(rank), #starts == 3)
  rs.check(checks.overlap:format(rank),
    starts[1].t < ends[1].t and starts[2].t < ends[2].t)

  -- Nobody waits for a gradient before the backward's last callback.
  local begins = rs.trace:events { kind = "ddp.finalize_backward", rank = rank }
  local finals = rs.trace:events { kind = "ddp.finalize_backward", rank = rank, phase = "end" }
  local inside = true
  for _, wait in ipairs(rs.trace:events { kind = "c10d.wait", rank = rank, operation = "all_reduce" }) do
    local within = false
    for i = 1, #begins do within = within or (begins[i].seq < wait.seq and wait.seq < finals[i].seq) end
    inside = inside and within
  end
  rs.check(checks.waits:format(rank), inside)

  local launched = rs.trace:events { kind = "ddp.all_reduce_bucket", rank = rank }
  rs.close(checks.launched:format(rank), { launched[1].args.bucket, launched[2].args.bucket,
    launched[3].args.bucket }, { 0, 0, 1 })
end

rs.say(text.finish)

rs.teacher(text.teacher)
