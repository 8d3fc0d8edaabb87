-- Lesson 30: the same lesson on metal.
--
-- A GPU does what it is given in its own time, stream by stream; the host only writes down what is to be done. The same
-- training as on virtual devices, with what that changes: who waits for whom, and what can happen at the same time.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

rs.lesson {
  title = "Streams, events, NCCL",
  devices = 2,
  hardware = "dgx-h200",
  costs = { host = 8, kernel = 40 },    -- kernels of large layers, so that the device is what everybody waits for
  seed = 30,
  minutes = 40,
  needs = "20", story = { "stream.wait" },
}

local text = {
  welcome = "Four layers in two buckets, two ranks, a device each. To launch a kernel costs the host 8 us; it runs for 40.",
  how = "--device cuda: GPUs compute the same values in virtual time; with --executor free in their own, by their own clocks.",
  recorded = "No trace of a real machine is shipped. Where your school has one: ringside view lessons/data/30-on-a-gpu.trace.",
  metal = "This run: %d ranks on %s, back-end %s. Times are that machine's; they are compared with each other only.",
  launch = {
    question = "The host launches a kernel of 40 us. Is it told when the kernel is done?",
    choices = { "yes, the call comes back then", "no, the call comes back at once" },
    answer = "no, the call comes back at once",
    why = "A launch puts the kernel into a stream. The host is through with the backward while most of it is still to come.",
    wrong = {
      ["yes, the call comes back then"] = "So it is on the CPU. On a device only who asks for a value, or synchronizes, waits.",
    },
    hides = { "kernel", "autograd", "stream" },
  },
  wait = {
    question = "With NCCL DDP calls work:wait() for each bucket. What waits until the all-reduce is done?",
    choices = { "the host", "the stream that computes", "nothing" },
    answer = "the stream that computes",
    why = "wait() puts the event behind the all-reduce into the stream, and the host goes on. With gloo, and local, it waits.",
    wrong = {
      ["the host"] = "With gloo, and here with local. NCCL's all-reduce is a kernel itself: streams can wait for kernels.",
      nothing = "Then the optimizer would read gradients that are not there yet.",
    },
    hides = { "c10d", "stream", "comm" },
  },
  overlap = {
    question = "Can a bucket be all-reduced while the same GPU computes the gradients of the next one?",
    choices = { "no, a GPU does one thing after the other", "yes, from another stream" },
    answer = "yes, from another stream",
    why = "Only work of one stream is in order. An event says from when on the bucket may be read; the rest is free.",
    wrong = {
      ["no, a GPU does one thing after the other"] = "One stream does. Communication has one of its own.",
    },
    hides = { "c10d", "kernel", "comm", "stream" },
  },
  ahead = "rank %d: backward is launched at %.1f us, its last kernel ends at %.1f us.",
  shared = "rank %d: all-reduces take %.1f us, %.1f us of them beside kernels.",
  finish = "A launch is a promise, an event is how others hear that it was kept. Who asks for a number waits for all of them.",
  no_gpu = "no GPU here: --device cuda --executor free, on a machine that has one",
  stepped = "times are virtual in stepped: with a GPU, --device cuda --executor free",
  no_nccl = "the back-end is %s: only with --backend nccl the stream waits",
  untold = "NCCL's profiler told nothing of this iteration",
  checks = {
    behind = "rank %d: each kernel ends after its launch has come back",
    ahead = "rank %d: when all of the backward is launched, kernels of it are still to come",
    order = "rank %d: each all-reduce begins after the last kernel that writes its bucket",
    event = "rank %d: an event is recorded behind each bucket, before its all-reduce is issued",
    host = "rank %d: with local work:wait() lasts until the all-reduce is through",
    overlap = "rank %d: all-reduces run beside kernels of the same device",
    close = "the gradients are those of one CPU run with the whole batch",
    free_run = "rank %d: no iteration waits for the device: nothing is synchronized between them",
    metal_behind = "on the GPU: most kernels end after their launch has come back",
    metal_ahead = "on the GPU: when all of the backward is launched, kernels of it are still to come",
    metal_overlap = "on the GPU: communication runs beside kernels",
    metal_wait = "on the GPU: work:wait() comes back before the all-reduce is through",
  },
  teacher = [[
Time: 10 minutes for the questions, 15 in the viewer, 15 for the exercise.
With a GPU: lessons/README.md says what to try the day before. Run it twice, stepped and free, and show both timelines: what
virtual time claims, and what the machine does. Without one: all but the checks "on the GPU" hold on virtual devices.
Expected wrong answers: "yes, the call comes back then" (half a class, from print and item), "the host" (true of gloo).
Below 30 % right on the launch: a student hands out slips with sums and goes on to the next table before the first is
solved. Between 30 and 70 %: pairs say who of the two knows when a sum is solved; ask again. Above: go on.
In the viewer: put the lane of rank 0 above device:0 compute. Everything on the first is over before the second is half
through. break ddp.all_reduce_bucket rank 0, c, then > along stream.record, c10d.issue, c10d.allreduce: the bucket's event.
One new command: /stream.synchronize, at the end of the run: who waits for a device, and where.
Next question: why is the loss printed every hundred steps and not every step? (The exercise.)
Two-minute fallback: ringside run, and read the two lines with "is launched at" aloud: how far the host is ahead.]],
}
local checks = text.checks

-- Real times only where a GPU keeps them: not on virtual devices, not on the tests' fake one, not in virtual time.
local gpu = rs.cuda.get_device_properties(0).name
local wall = rs.trace:clock() == "wall"
local on_metal = wall and not gpu:find "^virtual" and not gpu:find "^Fake"
local untimed  = { virtual = not on_metal }       -- what compares times: in virtual time, and where a GPU keeps them
local WORLD, STEPS = 2, on_metal and 8 or 3
local WIDTH, ROWS = on_metal and 1024 or 16, on_metal and 512 or 4

local Net = nn.Module("Net")
function Net:init()
  for i = 1, 4 do self["fc" .. i] = nn.Linear(WIDTH, WIDTH, { bias = false }) end
end
function Net:forward(x) return self.fc4(self.fc3(self.fc2(self.fc1(x)))) end

-- What a rank is given; the same wherever it is asked for.
local function batch(rank)
  rs.manual_seed(100 + rank)
  return rs.randn(ROWS, WIDTH)
end

local function steps(model, x)
  local optimizer = rs.optim.SGD(model:parameters(), { lr = 0.1 })
  for _ = 1, STEPS do
    optimizer:zero_grad()
    model(x):pow(2):mean():backward()
    optimizer:step()
  end
end

-- How far gradients are from those of the whole batch on one CPU: the largest difference, by the largest gradient.
local function distance(model)
  local whole, most, far = {}, 0, 0
  for rank = 0, WORLD - 1 do whole[rank + 1] = batch(rank) end
  rs.manual_seed(30)
  local one = Net()
  steps(one, rs.cat(whole, 0))
  local theirs = model:parameters()
  for i, p in ipairs(one:parameters()) do
    most = math.max(most, p.grad:abs():max():item())
    far = math.max(far, (theirs[i].grad:to("cpu") - p.grad):abs():max():item())
  end
  return far / most
end

local function train(rank)
  local device = "device:" .. rank
  rs.manual_seed(30)
  local cap = 1.5 * WIDTH * WIDTH * 4 / (1024 * 1024)       -- closed by the second layer
  local ddp = nn.parallel.DistributedDataParallel(Net():to(device), { bucket_cap_mb = cap })
  local x = batch(rank):to(device)
  local from, since = rs.trace:seq(), rs.trace:last().t
  steps(ddp, x)
  local till, over = rs.trace:seq(), rs.trace:last().t
  rs.cuda.synchronize(device)
  if dist.get_backend() == "nccl" then dist.barrier() end   -- NCCL tells of a collective when the next one is there
  local far = rank == 0 and distance(ddp.module) or 0
  return { from = from, till = till, since = since, over = over, backend = dist.get_backend(), far = far }
end

rs.say(text.welcome)
rs.say(text.how)
rs.say(text.recorded)
rs.ask(text.launch)
rs.ask(text.wait)
rs.ask(text.overlap)
local told = dist.spawn(train, { world = WORLD })
rs.cuda.synchronize()
local backend = told[0].backend
if on_metal then rs.say(text.metal:format(WORLD, gpu, backend)) end

-- Stages of the last iteration, as { from, to } in us and what else is said of them, in the order of their begin.
local function spans(filter, rank)
  local list = {}
  for _, event in ipairs(rs.trace:events(("%s and rank %d and seq > %d"):format(filter, rank, told[rank].from))) do
    local from = event.t / 1000
    list[#list + 1] = { from = from, to = from + rs.trace:duration(event), args = event.args, seq = event.seq }
  end
  table.sort(list, function(a, b) return a.from < b.from end)
  return list
end
local LAST = ("iter = %d"):format(STEPS - 1)
local REDUCE = "c10d.%s and operation = all_reduce and " .. LAST
local DIVIDE = ("kernel and op = mul_scalar and bytes = %d and %s"):format(WIDTH * WIDTH * 4, LAST)

-- How much of the spans `a` lies in one of `b`, which do not overlap each other.
local function beside(a, b)
  local us = 0
  for _, one in ipairs(a) do
    for _, other in ipairs(b) do us = us + math.max(0, math.min(one.to, other.to) - math.max(one.from, other.from)) end
  end
  return us
end

local function length(list)
  local us = 0
  for _, span in ipairs(list) do us = us + span.to - span.from end
  return us
end

-- The kernels of the products, each with the call that launched it: those that end behind it, and all.
local function late(rank)
  local launched, count, all = {}, 0, 0
  for _, op in ipairs(spans("op and op = mm and " .. LAST, rank)) do launched[op.args.out] = op.to end
  for _, kernel in ipairs(spans("kernel and op = mm and " .. LAST, rank)) do
    local back = launched[kernel.args.out]
    if back then count, all = count + (kernel.to > back and 1 or 0), all + 1 end
  end
  return count, all
end

-- When the host was through with launching the backward; when the last kernel of it ended that writes a bucket.
local function ahead(rank)
  local launched, ends = spans("ddp.finalize_backward and " .. LAST, rank)[1].from, 0
  for _, kernel in ipairs(spans(DIVIDE, rank)) do ends = math.max(ends, kernel.to) end
  return launched, ends
end

-- Gradients are divided on their way into their bucket: of each bucket, in the order in which they fill, the end of the
-- last kernel that writes it.
local function filled(rank)
  local ends, places = {}, {}
  for _, kernel in ipairs(spans(DIVIDE, rank)) do
    local place = places[kernel.args.out] or #ends + 1
    places[kernel.args.out], ends[place] = place, kernel.to
  end
  return ends
end

-- When the all-reduces of the last iteration ran: on ranks that share a GPU a kernel does it, else the host's stage.
local function reduced(rank)
  local kernels = spans("kernel and op = all_reduce and " .. LAST, rank)
  return #kernels > 0 and kernels or spans("c10d.allreduce and " .. LAST, rank)
end

local function in_order(rank)
  local ends, reduces = filled(rank), reduced(rank)
  return #ends == 2 and #reduces == 2 and reduces[1].from >= ends[1] and reduces[2].from >= ends[2]
end

local function has_events(rank)
  local records, issues = spans("stream.record and " .. LAST, rank), spans(REDUCE:format "issue", rank)
  return #records >= 2 and #issues == 2 and records[1].seq < issues[1].seq and records[2].seq < issues[2].seq
end

local function host_waits(rank)
  local waits, reduces = spans(REDUCE:format "wait", rank), spans("c10d.allreduce and " .. LAST, rank)
  return #waits == 2 and waits[1].to >= reduces[1].to and waits[2].to >= reduces[2].to
end

for rank = 0, WORLD - 1 do
  local launched, ends = ahead(rank)
  local reduces, kernels = reduced(rank), spans("kernel and op != all_reduce and " .. LAST, rank)
  local late_ones, all = late(rank)
  rs.say(text.ahead:format(rank, launched, ends))
  rs.say(text.shared:format(rank, length(reduces), beside(reduces, kernels)))
  rs.check(checks.behind:format(rank), all == 11 and late_ones == all, { virtual = true })
  rs.check(checks.ahead:format(rank), launched < ends, { virtual = true })
  rs.check(checks.event:format(rank), has_events(rank))
  rs.check(checks.order:format(rank), backend == "nccl" or in_order(rank), untimed)
  rs.check(checks.host:format(rank), host_waits(rank), { virtual = true })
  rs.check(checks.overlap:format(rank), beside(reduces, kernels) > 0, { virtual = true })
  local syncs, inside = 0, spans("c10d.allreduce", rank)
  for _, sync in ipairs(rs.trace:events { kind = "stream.synchronize", rank = rank }) do
    local within = sync.seq > told[rank].from and sync.seq < told[rank].till
    if wall then within = sync.t > told[rank].since and sync.t < told[rank].over end   -- devices tell late: numbers move
    for _, reduce in ipairs(inside) do        -- with local the host waits there, for the bucket alone
      if sync.t / 1000 >= reduce.from and sync.t / 1000 <= reduce.to then within = false end
    end
    if within then syncs = syncs + 1 end
  end
  rs.check(checks.free_run:format(rank), syncs == 0, untimed)
end
rs.check(checks.close, told[0].far <= 1e-5)

-- ---- on a GPU: its own times, compared with each other ----

local function metal(name, holds, why)
  if not on_metal then
    rs.skip(name, wall and text.no_gpu or text.stepped)
  elseif why then
    rs.skip(name, why)
  else
    rs.check(name, holds())
  end
end

-- With NCCL its channels tell when an all-reduce ran: those of the first two collectives since the backward began.
local function communication(rank)
  if backend ~= "nccl" then return reduced(rank) end
  local backward, list, seen, count = spans("autograd.backward and " .. LAST, rank)[1], {}, {}, 0
  for _, channel in ipairs(spans("comm.nccl.channel", rank)) do
    local sequence = channel.args.sequence
    if channel.from >= backward.from and not seen[sequence] then seen[sequence], count = true, count + 1 end
    if seen[sequence] and count <= 2 then list[#list + 1] = channel end
  end
  return list
end

local untold = on_metal and #communication(0) == 0 and text.untold or nil
metal(checks.metal_behind, function()
  local late_ones, all = late(0)
  return all > 0 and 2 * late_ones > all
end)
metal(checks.metal_ahead, function()
  local launched, ends = ahead(0)
  return launched < ends
end)
metal(checks.metal_overlap, function() 
  return beside(communication(0), spans("kernel and op != all_reduce and " .. LAST, 0)) > 0
end, untold)
metal(checks.metal_wait, function()
  local waits, done = spans(REDUCE:format "wait", 0), 0
  for _, span in ipairs(communication(0)) do done = math.max(done, span.to) end
  return waits[1].to < done
end, backend ~= "nccl" and text.no_nccl:format(backend) or untold)

rs.say(text.finish)
rs.teacher(text.teacher)
