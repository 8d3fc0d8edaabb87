-- Mistakes that people make with streams, events and ranks on GPUs, each with its cure: planted.t runs this file once
-- for each, and in both ways. `ringside run tests/cuda/planted.lua -- NAME [right]`: without `right` the fault is planted.
local rs = require "ringside"
local nn, dist, cuda = rs.nn, rs.distributed, rs.cuda
local name, right = rs.args[1], rs.args[2] == "right"

rs.lesson { title = "Planted", devices = 2, hardware = "classroom", costs = { host = 1, kernel = 20 }, seed = 1 }

local function on(rank) return { device = "device:" .. rank } end
local function two_ranks(f) dist.spawn(f, { world = 2 }) end
local fault = {}

-- A gradient is copied into its bucket on a stream of its own; the all-reduce asks the current stream alone.
function fault.bucket_early()
  two_ranks(function(rank)
    local grad, bucket = rs.ones({ 64 }, on(rank)), rs.zeros({ 64 }, on(rank))
    local current, copy = cuda.current_stream("device:" .. rank), cuda.Stream("device:" .. rank)
    copy:wait_stream(current)
    cuda.stream(copy, function() bucket:copy_(grad * 0.5) end)
    if right then current:wait_stream(copy) end
    dist.all_reduce(bucket)
    rs.close("the mean of both", bucket:sum():item(), 64)
  end)
end

-- The same on one device, with streams alone: an average on a communication stream, back to the one that computes.
function fault.no_wait()
  local compute, comm = cuda.current_stream("device:0"), cuda.Stream("device:0")
  local grad = rs.ones({ 64 }, on(0)) * 3
  if right then comm:wait_stream(compute) end
  cuda.stream(comm, function() grad:mul_(0.5) end)
  compute:wait_stream(comm)
  rs.close("the average", (grad + 1):sum():item(), 160)
end

function fault.no_wait_back()
  local compute, comm = cuda.current_stream("device:0"), cuda.Stream("device:0")
  local grad = rs.ones({ 64 }, on(0)) * 3
  comm:wait_stream(compute)
  cuda.stream(comm, function() grad:mul_(0.5) end)
  if right then compute:wait_stream(comm) end
  rs.close("the average", (grad + 1):sum():item(), 160)
end

-- A chunk comes on a copy stream and is computed with on another; gone, its memory is the copy stream's again.
function fault.chunk_freed()
  local compute, copy = cuda.current_stream("device:0"), cuda.Stream("device:0")
  local chunk, y, z
  cuda.stream(copy, function() chunk = rs.ones(1000):to("device:0") end)
  compute:wait_stream(copy)
  y = chunk * 2
  if right then chunk:record_stream(compute) end
  chunk = nil
  collectgarbage()
  cuda.stream(copy, function() z = rs.zeros({ 1000 }, on(0)) end)
  rs.close("what the chunk was for", y:sum():item(), 2000)
  copy:synchronize()
  rs.close("what came after it", z:sum():item(), 0)
end

-- An event that was never recorded is past: waiting for it waits for nothing.
function fault.never_recorded()
  local one, two, event = cuda.Stream("device:0"), cuda.Stream("device:0"), cuda.Event()
  local x = rs.ones({ 64 }, on(0))
  cuda.synchronize()
  local y, z
  cuda.stream(one, function() y = x * 2 end)
  if right then event:record(one) end
  two:wait_event(event)
  cuda.stream(two, function() z = y + 1 end)
  two:synchronize()
  cuda.stream(two, function() rs.close("the sum", z:sum():item(), 192) end)
end

-- The mark is there, but it was put before the work.
function fault.recorded_early()
  local one, two, event = cuda.Stream("device:0"), cuda.Stream("device:0"), cuda.Event()
  local x = rs.ones({ 64 }, on(0))
  cuda.synchronize()
  local y, z
  if not right then event:record(one) end
  cuda.stream(one, function() y = x * 2 end)
  if right then event:record(one) end
  two:wait_event(event)
  cuda.stream(two, function() z = y + 1 end)
  two:synchronize()
  cuda.stream(two, function() rs.close("the sum", z:sum():item(), 192) end)
end

-- The result of an all-reduce is used before anybody has waited for it.
function fault.no_work_wait()
  two_ranks(function(rank)
    local t = rs.ones({ 64 }, on(rank))
    local work = dist.all_reduce(t, { async_op = true })
    if right then work:wait() end
    rs.close("the sum", t:sum():item(), 128)
  end)
end

-- What an isend is sending is refilled for the next one.
function fault.refilled()
  two_ranks(function(rank)
    local buffer = rs.ones({ 64 }, on(rank))
    if rank == 1 then
      for i = 1, 2 do
        dist.recv(buffer, 0)
        rs.close("message " .. i, buffer:sum():item(), 64 * i)
      end
      return
    end
    local works = {}
    for i = 1, 2 do
      buffer:fill_(i)
      works[i] = dist.isend(buffer, 1)
      if right then works[i]:wait() end
    end
    for i = 1, 2 do works[i]:wait() end
  end)
end

-- Two communicators, in one order on rank 0 and in the other on rank 1.
function fault.two_communicators()
  two_ranks(function(rank)
    local pair = { dist.new_group { 0, 1 }, dist.new_group { 0, 1 } }
    local first = (right or rank == 0) and 1 or 2
    local t = rs.ones({ 8 }, on(rank))
    dist.all_reduce(t, { group = pair[first] })
    dist.all_reduce(t, { group = pair[3 - first] })
    rs.close("twice", t:sum():item(), 32)
  end)
end

local function ddp_on(rank, module, options)
  return nn.parallel.DistributedDataParallel(module:to("device:" .. rank), options)
end

-- Rank 0 has three batches, rank 1 five.
function fault.uneven_steps()
  two_ranks(function(rank)
    local ddp = ddp_on(rank, nn.Linear(2, 1))
    for _ = 1, (right or rank == 1) and 5 or 3 do ddp(rs.ones({ 2, 2 }, on(rank))):sum():backward() end
  end)
end

local Branches = nn.Module("Branches")
function Branches:init() self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8) end
function Branches:forward(x) return self.a(x) end

-- A branch that is not taken has parameters without gradients.
function fault.unused_parameters()
  two_ranks(function(rank)
    local ddp = ddp_on(rank, Branches(), { find_unused_parameters = right })
    for _ = 1, 2 do ddp(rs.ones({ 2, 8 }, on(rank))):sum():backward() end
  end)
end

-- Buckets are cut at other places: ranks all-reduce what does not belong together.
function fault.bucket_order()
  two_ranks(function(rank)
    local cap = (right or rank == 0) and 1 or 0.00005
    local ddp = ddp_on(rank, Branches(), { bucket_cap_mb = cap, find_unused_parameters = true })
    for _ = 1, 2 do ddp(rs.ones({ 2, 8 }, on(rank))):sum():backward() end
  end)
end

-- Rank 1 is late. Rank 0 has a time-out, handles it alone and tries again: from here on it is one collective ahead.
function fault.one_handles_timeout()
  two_ranks(function(rank)
    local t = rs.ones({ 8 }, on(rank))
    if rank == 1 then rs.advance(5000) end
    local work = dist.all_reduce(t, { async_op = true })
    if not pcall(work.wait, work, (not right and rank == 0) and 0.001 or nil) then dist.all_reduce(t) end
    dist.broadcast(t, 0)
    rs.close("the sum", t:sum():item(), 16)
  end)
end

-- A kernel meets an index that is out of range; the host hears of it when it asks for something else.
function fault.bad_index()
  local embedding = nn.Embedding(10, 4):to("device:0")
  local rows = embedding(rs.tensor({ 3, right and 9 or 12 }, { dtype = "int64" }):to("device:0"))
  local other = rs.ones({ 4 }, on(0)) * 2
  print("launched " .. #rows.shape)
  rs.close("another sum", other:sum():item(), 8)
end

-- A loss that is read each step: right, but each reading waits for all that was launched.
function fault.read_each_step()
  local net = nn.Linear(8, 8):to("device:0")
  local optimizer, x, losses = rs.optim.SGD(net:parameters(), { lr = 0.01 }), rs.ones({ 4, 8 }, on(0)), {}
  cuda.synchronize()
  print("from " .. rs.trace:seq())
  for i = 1, 4 do
    optimizer:zero_grad()
    local loss = net(x):pow(2):mean()
    loss:backward()
    optimizer:step()
    losses[i] = right and loss:detach() or loss:item()
  end
  print("till " .. rs.trace:seq())
  cuda.synchronize()
  rs.check("losses fall", (right and losses[4]:item() or losses[4]) < (right and losses[1]:item() or losses[1]))
end

fault[name]()
