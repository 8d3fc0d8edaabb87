-- All-reduces that a lesson writes: a ring of sends and receives against the built-in one, its hops and its time; what goes
-- wrong in one; and comm hooks of DistributedDataParallel, one of which all-reduces by it.
local rs = require "ringside"
local nn, dist, futures = rs.nn, rs.distributed, rs.futures

rs.lesson { title = "all-reduces of one's own", hardware = "classroom", costs = { host = 0, kernel = 0 }, seed = 29, devices = 1,
            prefix = "" }

local function refused(kind, words, f, ...)
  local ok, e = pcall(f, ...)
  if ok or type(e) ~= "table" or e.kind ~= kind then return false end
  for _, word in ipairs(words) do if not e.message:find(word, 1, true) then return false end end
  return true
end
local function all(ranks, f)
  for r = 0, #ranks do if not f(ranks[r], r) then return false end end
  return true
end

-- Lesson 29's: chunk by chunk to the right neighbour, first added, then kept.
local function ring(tensor, op, group)
  local n, r = dist.get_world_size(group), dist.get_rank(group)
  local flat = tensor:view(-1)
  local per = (flat:numel() + n - 1) // n
  local function chunk(i)
    local from = math.min(i % n * per, flat:numel())
    return flat[{ rs.slice(from, math.min(from + per, flat:numel())) }]
  end
  local function pass(first, keep)
    for step = 0, n - 2 do
      local out, into = chunk(first - step), chunk(first - step - 1)
      local came, work = rs.empty_like(into), nil
      if out:numel() > 0 then work = dist.isend(out:contiguous(), (r + 1) % n) end
      if into:numel() > 0 then
        dist.recv(came, (r - 1) % n)
        keep(into, came)
      end
      if work then work:wait() end
    end
  end
  pass(r, function(into, came) into:add_(came) end)
  pass(r + 1, function(into, came) into:copy_(came) end)
end
dist.register_algorithm("my ring", ring)

local from = #rs.trace:events { kind = "comm.hop", phase = "begin" }
local out = dist.spawn(function(rank)
  local t = rs.arange(8, { dtype = "float32" }) + 10 * rank
  dist.all_reduce(t, { algorithm = "my ring" })
  return t:tolist()
end, { world = 4 })
rs.check("four ranks of eight floats end with 60, 64 ... 88", all(out, function(list)
  for i = 1, 8 do if list[i] ~= 56 + 4 * i then return false end end
  return #list == 8
end))
rs.check("in 24 hops", #rs.trace:events { kind = "comm.hop", phase = "begin" } - from == 24)
local longest = 0
for rank = 0, 3 do longest = math.max(longest, rs.trace:duration { kind = "c10d.allreduce", rank = rank }) end
rs.close("that take 60.0048 us", longest, 60.0048, 1e-6, { virtual = true })

for _, world in ipairs { 1, 2, 3, 4, 8 } do
  for _, length in ipairs { 1, 7, 8 } do
    out = dist.spawn(function(rank)
      local t = rs.randn { length } * (rank + 1.1)
      local mine, later, theirs = t:clone(), t:clone(), t:clone()
      local work = dist.all_reduce(later, { algorithm = "my ring", async_op = true })
      dist.all_reduce(mine, { algorithm = "my ring" })
      dist.all_reduce(theirs, { algorithm = "ring", direction = "forward" })
      work:wait()
      return rs.equal(mine, theirs) and rs.equal(later, theirs)
    end, { world = world })
    rs.check(("%d ranks, %d elements: the bits of the built-in ring"):format(world, length), all(out, function(same) return same end))
  end
end

out = dist.spawn(function(rank)
  local mean = rs.full({ 4 }, rank + 1.0)
  dist.all_reduce(mean, "AVG", { algorithm = "my ring" })
  -- What the rank sends itself meanwhile is another matter, whatever its tag.
  local works, got = {}, rs.zeros { 1 }
  for i = 1, 3 do works[i] = dist.all_reduce(rs.ones { 5 }, { algorithm = "my ring", async_op = true }) end
  local sent = dist.isend(rs.full({ 1 }, rank + 10.0), (rank + 1) % 3)
  dist.recv(got, (rank - 1) % 3)
  sent:wait()
  for _, work in ipairs(works) do work:wait() end
  local first, ops = rs.ones { 2 }, {}
  dist.register_algorithm("seen", function(t, op, group)
    ops = { op, dist.get_world_size(group), t == first, rs.is_grad_enabled() }
  end)
  dist.all_reduce(first, "MAX", { algorithm = "seen" })
  return { mean[{ 0 }]:item(), got:item(), ops }
end, { world = 3 })
rs.check("AVG divides what the algorithm has added up", all(out, function(got) return got[1] == 2 end))
rs.check("messages of an algorithm are not the rank's own", all(out, function(got, rank) return got[2] == 10 + (rank - 1) % 3 end))
rs.check("it gets the very tensor, the op and the group, and records nothing", all(out, function(got)
  return got[3][1] == "MAX" and got[3][2] == 3 and got[3][3] == true and got[3][4] == false
end))

-- ---- what goes wrong ----

rs.check("a built-in name is taken", refused("ValueError", { "'ring' is built in" }, dist.register_algorithm, "ring", ring))
rs.check("a name is short", refused("ValueError", { "1 to 23" }, dist.register_algorithm, ("x"):rep(24), ring))
rs.check("a name that nobody registered", refused("ValueError", { "unknown all-reduce algorithm 'nobody'" }, dist.spawn, function()
  dist.all_reduce(rs.ones { 1 }, { algorithm = "nobody" })
end, { world = 2 }))
rs.check("other names on other ranks", refused("MismatchError", { "by left", "by right" }, dist.spawn, function(rank)
  local name = rank == 0 and "left" or "right"
  dist.register_algorithm(name, ring)
  dist.all_reduce(rs.ones { 2 }, { algorithm = name })
end, { world = 2 }))
dist.register_algorithm("fails", function(t)
  if dist.get_rank() == 1 then rs.error("ValueError", "boom") end
  dist.recv(t, 1)
end)
out = dist.spawn(function(rank)
  local fine, e = pcall(dist.all_reduce, rs.ones { 2 }, { algorithm = "fails" })
  return { fine, e.kind, e.message }
end, { world = 2 })
rs.check("an error in one tells its rank and line", out[1][2] == "ValueError" and
  out[1][3]:find("algorithm 'fails' on rank 1 %(line %d+%): boom") ~= nil)
rs.check("and the ranks that wait for it learn the same", not out[0][1] and
  out[0][3]:find("rank 1 failed in all_reduce #0: algorithm 'fails' on rank 1 %(line %d+%): boom") ~= nil)
rs.check("who waits in one for a message that nobody sends is told so", refused("DeadlockError",
  { "rank 0 waits in recv from rank 1", "but rank 1 has gone on" }, dist.spawn, function(rank)
    dist.register_algorithm("alone", function(t) if rank == 0 then dist.recv(t, 1) end end)
    dist.all_reduce(rs.ones { 1 }, { algorithm = "alone" })
  end, { world = 2 }))
rs.check("a collective inside of one is refused", refused("RuntimeError", { "barrier inside of an all-reduce's own algorithm" },
  dist.spawn, function()
    dist.register_algorithm("waits", function() dist.barrier() end)
    dist.all_reduce(rs.ones { 1 }, { algorithm = "waits" })
  end, { world = 2 }))
rs.check("a rank that ends does so when its own has", pcall(dist.spawn, function()
  dist.all_reduce(rs.ones { 9 }, { algorithm = "my ring", async_op = true })
end, { world = 3 }))

-- ---- comm hooks ----

-- Lesson 17's model: four micro-batches of 4 rank + i, of which the last one synchronises. 14 with the mean.
local function no_sync(hook)
  return dist.spawn(function(rank)
    local net = nn.Linear(4, 2)
    local ddp = nn.parallel.DistributedDataParallel(net)
    if hook then ddp:register_comm_hook(nil, hook) end
    local function step(i) ddp(rs.full({ 1, 4 }, 4.0 * rank + i)):sum():backward() end
    ddp:no_sync(function() for i = 0, 2 do step(i) end end)
    step(3)
    return net.weight.grad[{ 0, 0 }]:item()
  end, { world = 2 })
end
local function all_reduce(bucket, algorithm)
  return dist.all_reduce(bucket:buffer(), { async_op = true, algorithm = algorithm }):get_future()
end
rs.check("without a hook lesson 17's gradient is 14", all(no_sync(), function(grad) return grad == 14 end))
rs.check("a hook that does not divide makes it 28", all(no_sync(function(_, bucket) return all_reduce(bucket) end),
  function(grad) return grad == 28 end))
rs.check("a hook that divides and all-reduces by one's own ring makes it 14 again", all(no_sync(function(_, bucket)
  bucket:buffer():div_(dist.get_world_size())
  return all_reduce(bucket, "my ring"):then_(function(f) return f:value()[1] end)
end), function(grad) return grad == 14 end))

local function gradient(hook, steps)
  return function()
    return dist.spawn(function(rank)
      local net = nn.Linear(1, 1, { bias = false })
      rs.no_grad(function() net.weight:fill_(1) end)
      local ddp = nn.parallel.DistributedDataParallel(net)
      ddp:register_comm_hook({ factor = 2 }, hook)
      for _ = 1, steps or 1 do ddp(rs.full({ 1, 1 }, rank + 1.0)):sum():backward() end
      return net.weight.grad:item()
    end, { world = 2 })
  end
end
local function done(value)
  local future = futures.Future()
  future:set_result(value)
  return future
end
local function each(expected)
  return function(grad, rank) return grad == (type(expected) == "table" and expected[rank + 1] or expected) end
end
rs.check("a comm hook receives undivided gradients", all(gradient(function(_, bucket) return all_reduce(bucket) end)(), each(3)))
rs.check("a hook may answer another tensor, of another dtype", all(gradient(function(state, bucket)
  return done(bucket:buffer():to("float64") * state.factor)
end)(), each { 2, 4 }))
rs.check("a bucket says what is in it", all(gradient(function(_, bucket)
  local p, g = bucket:parameters(), bucket:gradients()
  assert(bucket:index() == 0 and bucket:is_last() and #p == 1 and p[1].is_parameter)
  assert(rs.equal(g[1]:view(-1), bucket:buffer()) and g[1]:size(0) == 1 and g[1]:size(1) == 1)
  bucket:set_buffer(rs.full_like(bucket:buffer(), 9))
  return done(bucket:gradients()[1])
end)(), each(9)))
rs.check("a hook answers a Future", refused("RuntimeError", { "must return a torch.futures.Future object, but got number" },
  gradient(function() return 7 end)))
rs.check("a wrapper says where the wrapped module's parameters are", refused("AttributeError",
  { "a DistributedDataParallel has no 'weight'; the wrapped module is ddp.module" },
  dist.spawn, function() return nn.parallel.DistributedDataParallel(nn.Linear(1, 1)).weight end, { world = 2 }))
rs.check("and which of its options was meant", refused("TypeError",
  { "unknown option 'find_unused_paramters': did you mean 'find_unused_parameters'? there are: module " }, function()
    return nn.parallel.DistributedDataParallel(nn.Linear(1, 1), { find_unused_paramters = true })
  end))
rs.check("not the Work that has one", refused("RuntimeError", { "but got Work; return work:get_future()" },
  gradient(function(_, bucket) return dist.all_reduce(bucket:buffer(), { async_op = true }) end)))
rs.check("of a Tensor", refused("RuntimeError", { "Unable to cast number to Tensor" }, gradient(function() return done(5) end)))
rs.check("that is long enough", refused("RuntimeError", { "has 0 elements, but the bucket has 1" },
  gradient(function() return done(rs.zeros { 0 }) end)))
rs.check("what the hook raises comes out of backward", refused("ValueError", { "boo" },
  gradient(function() rs.error("ValueError", "boo") end)))
rs.check("and what its callback raises", refused("RuntimeError", { "Got the following error when running the callback: oops" },
  gradient(function(_, bucket) return all_reduce(bucket):then_(function() error("oops") end) end)))
out = dist.spawn(function()
  local ddp = nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
  local wrong = refused("TypeError", { "Communication hook must be callable: give a state, or nil, and then the hook" }, ddp.register_comm_hook, ddp, nil, 3)
  ddp:register_comm_hook(nil, function() end)
  return { wrong, refused("RuntimeError", { "can only be called once" }, ddp.register_comm_hook, ddp, nil, function() end) }
end, { world = 1 })
rs.check("a hook is a function", out[0][1])
rs.check("and registered once", out[0][2])
