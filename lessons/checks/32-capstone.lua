-- Checks of exercise 32. The built-in DDP trains the same model on the same batches; what was sent, when, and in which order, the
-- record says. Four more programs ask for what a training loop rarely shows: no_sync, ranks whose layers are ready in another
-- order, a layer that nobody used, a forward without gradients.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

local hidden, cap, lr = rs.vary(8, { 6, 12, 20 }), rs.vary(64, { 40, 72 }), rs.vary(0.1, { 0.05, 0.2 })
local a, b = rs.vary(3, { 5, 7 }), rs.vary(2, { 4, 1 })
rs.lesson {
  title = "Exercise: DDP in 60 lines",
  hardware = "classroom",
  costs = { host = 0, kernel = 0, Linear_backward = 100 },
  seed = 32,
}

local text = {
  checks = {
    runs = "%d ranks train three steps",
    begins = "all ranks begin with rank 0's parameters",
    buffers = "and with rank 0's buffers",
    two = "two ranks: every weight on both is the built-in's, to the bit",
    four = "four ranks: every weight on all is the built-in's, to 1e-6",
    buckets = "each step all-reduces these buckets, and nothing else",
    early = "the first all-reduce is on its way before the last gradient is there",
    waits = "and nobody waits for it before then",
    silent = "no_sync: nothing is all-reduced inside",
    added = "no_sync: the next backward sends the sum",
    later = "no_sync: the step after it is as ever",
    answers = "no_sync answers what f answers",
    order = "layers that are ready in another order on another rank: rank %d's gradients",
    plain = "a forward without gradients, in between, changes nothing",
    unused = "a layer that was not used: the next forward is an error on all ranks, not a hang",
    named = "it names that layer's weight, and not the other's",
  },
  hints = {
    runs = { "What was told stands above." },
    begins = { "dist.broadcast(p, 0) for each parameter, inside rs.no_grad, before anything else." },
    buffers = { "module:buffers() are sent in the same way." },
    equal = {
      "What has each gradient to be when backward returns? The sum over the ranks, divided by how many they are.",
      "The average lies in the bucket: who brings it back into .grad, and when? rs.autograd.queue_callback, from a hook.",
      "Wait for every bucket in the callback; copy each part back into its parameter's .grad.",
    },
    buckets = {
      "From the last parameter to the first: a bucket is closed once it has cap bytes or more. A float has 4 bytes.",
      "One flat tensor a bucket, with a view for each parameter: flat:narrow(0, from, count):view(p.shape).",
    },
    early = {
      "Send a bucket in the hook that fills it, not in the callback.",
      "dist.all_reduce(flat, { async_op = true }) answers a work at once. Its wait belongs into the callback.",
    },
    no_sync = {
      "The hooks fire in no_sync, too. A flag tells them to return at once.",
      "Who sets the flag? The forward: from it on the backward sends or does not, as in lesson 17.",
    },
    order = {
      "Ranks pair their calls up by number alone: bucket 1 must not leave before bucket 0, though it may be full.",
      "A number, next: while bucket `next` is full, send it and go on to the one behind it.",
    },
    plain = { "Under rs.no_grad nothing is expected of a backward: rs.is_grad_enabled() says so." },
    unused = {
      "At a forward: was a gradient of the last backward there, and another one not? rs.error(\"RuntimeError\", ...).",
      "Keep each parameter's name: module:named_parameters().",
    },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()
local function own(net) return student.wrap(net, cap) end
local function built_in(net) return nn.parallel.DistributedDataParallel(net) end

local function perceptron()
  local net = nn.Sequential(nn.Linear(4, hidden), nn.ReLU(), nn.Linear(hidden, 2))
  net:register_buffer("seen", rs.zeros(1))
  return net
end
local function weights(net)
  local all = {}
  for i, p in ipairs(net:parameters()) do all[i] = p:tolist() end
  return all
end
local function batch(rank, step) return (rs.arange(12, { dtype = "float32" }) * (step + 1) + rank):sin():view { 3, 4 } end
local function backward(ddp, rank, step)
  local loss = ddp(batch(rank, step)):pow(2):mean()
  loss:backward()
end

-- f(rank) on all ranks; a function of a rank and a place in what f answered there, -1 where there is nothing.
local function run(world, f)
  local worked, told = pcall(dist.spawn, f, { world = world })
  if not worked then rs.say(tostring(told)) end
  return function(rank, place) return worked and type(told[rank]) == "table" and told[rank][place] or -1 end, worked
end
-- Three steps, from other weights on each rank.
local function train(wrap, world)
  return run(world, function(rank)
    rs.manual_seed(rank)
    local net = perceptron()
    net.seen:fill_(rank + 1)
    local ddp = wrap(net)
    local first, buffer = weights(net), net.seen:item()
    local optimizer = rs.optim.SGD(net:parameters(), { lr = lr })
    for step = 0, 2 do
      optimizer:zero_grad()
      backward(ddp, rank, step)
      optimizer:step()
    end
    return { first, buffer, weights(net) }
  end)
end
local function every(told, world, place)
  local list = {}
  for rank = 0, world - 1 do list[rank + 1] = told(rank, place) end
  return list
end
local function seen(kind, since) return rs.trace:events(("%s and rank 0 and seq >= %d"):format(kind, since)) end

-- The buckets' bytes: the last layer's bias and weight, then the first one's.
local sizes, open = {}, nil
for _, bytes in ipairs { 4 * 2, 4 * 2 * hidden, 4 * hidden, 4 * 4 * hidden } do
  if open == nil or sizes[open] >= cap then
    open = #sizes + 1
    sizes[open] = 0
  end
  sizes[open] = sizes[open] + bytes
end

local expected = train(built_in, 2)
local since = rs.trace:seq()
local told, worked = train(own, 2)
rs.check(checks.runs:format(2), worked, { hints = hints.runs })
rs.close(checks.begins, told(1, 1), expected(0, 1), 0, { hints = hints.begins })
rs.close(checks.buffers, told(1, 2), 1, { hints = hints.buffers })
rs.close(checks.two, every(told, 2, 3), every(expected, 2, 3), 0, { hints = hints.equal })

local reduced, thrice = {}, {}
for _, call in ipairs(seen("c10d.allreduce", since)) do reduced[#reduced + 1] = call.args.bytes end
for _ = 1, 3 do
  for _, bytes in ipairs(sizes) do thrice[#thrice + 1] = bytes end
end
rs.close(checks.buckets, reduced, thrice, 0, { hints = hints.buckets })

-- In the first step: which came first, on rank 0's own lane?
local grads, issued, waited = seen("autograd.accumulate", since), nil, nil
local last = grads[4] and grads[4].seq or 0
for _, call in ipairs(seen("c10d.issue", since)) do
  if call.args.operation == "all_reduce" then issued = issued or call.seq end
end
for _, wait in ipairs(seen("c10d.wait", since)) do
  if wait.args.operation == "all_reduce" then waited = waited or wait.seq end
end
rs.check(checks.early, issued ~= nil and issued < last, { hints = hints.early })
rs.check(checks.waits, waited ~= nil and waited > last, { virtual = true, hints = hints.early })   -- in free it may be over by then

expected, told = train(built_in, 4), nil
told, worked = train(own, 4)
rs.check(checks.runs:format(4), worked, { hints = hints.runs })
rs.close(checks.four, every(told, 4, 3), every(expected, 4, 3), 1e-6, { hints = hints.equal })

-- Two micro-batches in no_sync, one outside; then a step of one.
local function accumulate(wrap)
  return run(2, function(rank)
    rs.manual_seed(1)
    local net = perceptron()
    local ddp = wrap(net)
    local began, answer = rs.trace:seq(), nil
    for step = 0, 1 do
      answer = ddp:no_sync(function()
        backward(ddp, rank, step)
        return 7
      end)
    end
    local sent = rs.trace:count(("c10d.allreduce and rank %d and seq >= %d"):format(rank, began))
    local grads = {}
    backward(ddp, rank, 2)
    for i, p in ipairs(net:parameters()) do grads[i] = p.grad:tolist() end
    net:zero_grad()
    backward(ddp, rank, 3)
    local after = {}
    for i, p in ipairs(net:parameters()) do after[i] = p.grad:tolist() end
    return { sent, grads, after, answer }
  end)
end
expected, told = accumulate(built_in), accumulate(own)
rs.check(checks.silent, told(0, 1) == 0 and told(1, 1) == 0, { hints = hints.no_sync })
rs.close(checks.added, every(told, 2, 2), every(expected, 2, 2), 1e-5, { hints = hints.no_sync })
rs.close(checks.later, every(told, 2, 3), every(expected, 2, 3), 1e-5, { hints = hints.no_sync })
rs.check(checks.answers, told(0, 4) == 7, { hints = hints.no_sync })

-- Two layers of one weight, a and b: y = a b x, whoever is first. Each has a bucket of its own.
local Two = nn.Module("Two")
function Two:init()
  self.a = nn.Linear(1, 1, { bias = false })
  self.b = nn.Linear(1, 1, { bias = false })
  nn.init.constant_(self.a.weight, a)
  nn.init.constant_(self.b.weight, b)
end
function Two:forward(x, way)
  if way == "a" then return self.a(x) end
  if way == 0 then return self.b(self.a(x)) end
  return self.a(self.b(x))
end
local function two() return student.wrap(Two(), 4) end
local one = rs.ones(1, 1)

told = run(2, function(rank)
  local ddp = two()
  ddp(one, rank):sum():backward()
  return { { ddp.module.a.weight.grad:item(), ddp.module.b.weight.grad:item() } }
end)
for rank = 0, 1 do rs.close(checks.order:format(rank), told(rank, 1), { b, a }, 1e-6, { hints = hints.order }) end

-- Two steps, with such forwards all over; then one whose own forward lay in no_sync, and the plain one behind it outside.
told = run(2, function(rank)
  local ddp, got = two(), {}
  local function plain() rs.no_grad(function() ddp(one, 0) end) end
  for step = 1, 2 do
    ddp:zero_grad()
    local out = ddp(one * (rank + step), 0)
    plain()
    out:sum():backward()
    plain()
    got[step] = ddp.module.a.weight.grad:item()
  end
  local held, began = nil, rs.trace:seq()
  ddp:no_sync(function() held = ddp(one, 0) end)
  plain()
  held:sum():backward()
  got[3] = rs.trace:count(("c10d.issue and rank %d and seq >= %d"):format(rank, began))
  return { got }
end)
rs.close(checks.plain, every(told, 2, 1), { { 1.5 * b, 2.5 * b, 0 }, { 1.5 * b, 2.5 * b, 0 } }, 1e-6, { hints = hints.plain })

told = run(2, function()
  local ddp = two()
  ddp(one, "a"):sum():backward()
  local went, why = pcall(ddp, one, 0)
  return { went and "no error" or tostring(why) }
end)
local errors, named = 0, 0
for rank = 0, 1 do
  local why = told(rank, 1)
  if type(why) == "string" and why ~= "no error" then
    errors = errors + 1
    if why:find("b.weight", 1, true) and not why:find("a.weight", 1, true) then named = named + 1 end
  end
end
rs.close(checks.unused, errors, 2, { hints = hints.unused })
rs.close(checks.named, named, 2, { hints = hints.unused })
