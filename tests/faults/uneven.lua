-- Steps of DistributedDataParallel with what people put around it: a hook in Lua under Join, where ranks have one and two batches;
-- a hook of the library and SyncBatchNorm on a device each, where they have three rows and one, then two and none; Join that ends
-- all when the first is through. Whoever runs this under a failing allocator, or loses a rank on the way, must fail or be right.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
local hooks, Join = dist.algorithms.ddp_comm_hooks.default_hooks, dist.algorithms.Join
rs.lesson { title = "Uneven steps without memory", devices = 2, prefix = "" }
if arg[1] == "nothing" then return end -- so that a test knows what was allocated before

local function fill(net)
  local count = 0
  for _, p in ipairs(net:parameters()) do
    count = count + 1
    rs.no_grad(function() p:copy_((rs.arange(p:numel(), { dtype = "float32" }) * 0.7 + count):sin():view(p.shape)) end)
  end
  return net
end
local function batch(rank, step, rows, device)
  local numbers = rs.arange(rows * 3, { dtype = "float32" }) * 0.5 + (rank + 2 * step)
  return numbers:cos():view({ rows, 3 }):to(device)
end
local function sums(net)
  local list = {}
  for i, p in ipairs(net:parameters()) do list[i] = p:detach():sum():item() end
  return list
end

-- Two buckets, averaged in Lua by a future's callback.
local function averaged(calls, bucket)
  calls[1] = calls[1] + 1
  local work = dist.all_reduce(bucket:buffer(), { async_op = true })
  return work:get_future():then_(function(future) return future:value()[1]:div_(dist.get_world_size()) end)
end
local function joined(rank)
  local net, calls = fill(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))), { 0 }
  local ddp = nn.parallel.DistributedDataParallel(net, { bucket_cap_mb = 0.00004 })
  ddp:register_comm_hook(calls, averaged)
  local optimizer = rs.optim.SGD(net:parameters(), { lr = 0.1, momentum = 0.9 })
  ddp:join(function()
    for step = 0, rank do
      optimizer:zero_grad()
      ddp(batch(rank, step, 2, "cpu")):pow(2):sum():backward()
      optimizer:step()
    end
  end)
  return { sums(net), calls[1] }
end

local function normalised(rank)
  local device = "device:" .. rank
  local net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
  net = fill(nn.SyncBatchNorm.convert_sync_batchnorm(net)):to(device)
  local ddp = nn.parallel.DistributedDataParallel(net, { device_ids = { rank }, gradient_as_bucket_view = true })
  ddp:register_comm_hook(nil, hooks.fp16_compress_hook)
  local optimizer = rs.optim.SGD(net:parameters(), { lr = 0.01 })
  local rows = rank == 0 and { 3, 2 } or { 1, 0 }
  for step, count in ipairs(rows) do
    optimizer:zero_grad()
    ddp(batch(rank, step, count, device)):pow(2):sum():backward()
    optimizer:step()
  end
  return { sums(net), net[1].running_mean:tolist(), net[1].running_var:tolist() }
end

-- Rank 0 is through first, and rank 1 is told in its second forward.
local function stopped(rank)
  local ddp, steps = nn.parallel.DistributedDataParallel(fill(nn.Linear(3, 2))), 0
  local went, why = pcall(Join, { ddp }, { throw_on_early_termination = true }, function()
    for step = 0, rank do
      ddp(batch(rank, step, 2, "cpu")):sum():backward()
      steps = steps + 1
    end
  end)
  if not went and why.kind ~= "RuntimeError" then error(why, 0) end
  return { went, steps }
end

local answers = dist.spawn(function(rank) return { joined(rank), normalised(rank), stopped(rank) } end, { world = 2 })
local zero, one = answers[0], answers[1]
rs.close("joined: both have the last one's weights", zero[1][1], one[1][1], 0)
rs.close("joined: PyTorch's, in three buckets", { zero[1], one[1][2] }, { { { 3.9683833, -0.7865666, 4.0233669, 0.0642512 }, 3 }, 3 }, 1e-5)
rs.close("normalised: both learn the same", zero[2], one[2], 1e-6)
rs.close("normalised: this", zero[2], {
  { 2.5241060, 0.2628590, -2.2298033, -2.5830669, 0.8200951, 0.1518210 },
  { 0.1646790, 0.0377090, 0.0036666, -0.1645149 }, { 1.4697750, 1.0427415, 0.9426606, 1.4678782 },
}, 1e-5)
rs.check("stopped: an error on both, after one step", not zero[3][1] and not one[3][1] and zero[3][2] == 1 and one[3][2] == 1)
