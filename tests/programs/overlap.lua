-- How long backwards of DistributedDataParallel last on a slow wire, to the picosecond, worked out by hand. Argument: a
-- seed, which draws the world, the wire, a chain of layers, how long each rank's backward stays in each, and the cap of
-- the buckets. Only the wire and the layers cost.
--
-- A bucket is ready when the last rank has its last gradient; its all-reduce begins then or when the one before is
-- over, and is a ring: 2 (N - 1) hops of bytes / N. The backward ends with the last one. Without overlap all of them
-- come after the slowest rank's last layer.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

math.randomseed(math.tointeger(arg[1]))
local world, count = math.random(1, 6), math.random(1, 8)
local latency, bandwidth = math.random(0, 400) / 8, math.random(1, 64)
rs.lesson { title = "Overlap", costs = { host = 0, kernel = 0, latency = latency, bandwidth = bandwidth }, prefix = "" }

-- Gloo cuts what has a multiple of 2 N elements into equal chunks.
local unit, widths = 2 * world, {}
for i = 0, count do widths[i] = unit * math.random(1, 3) end
local function bytes(layer) return 4 * widths[layer - 1] * widths[layer] end
local stays = {}       -- us, by rank and layer; all whole, some 0
for rank = 0, world - 1 do
  stays[rank] = {}
  for i = 1, count do stays[rank][i] = math.random(0, 3) > 0 and math.random(0, 500) or 0 end
end
local cap = math.random(0, 2) == 0 and 0 or math.random(1, 6) * 4 * unit * unit   -- bytes; 0: each gradient alone

-- ---- by hand: whole picoseconds ----

local function ps(us) return math.floor(us * 1e6 + 0.5) end
local function transfer(size)
  return 2 * (world - 1) * ps(latency + size / world / bandwidth)
end
-- Gradients come from the last layer to the first.
local function buckets_of(limit)
  local list, size = {}, 0
  for layer = count, 1, -1 do
    size = size + bytes(layer)
    if size >= limit or layer == 1 then
      list[#list + 1] = { bytes = size, last = layer }
      size = 0
    end
  end
  return list
end
-- When the slowest rank has left this layer and those behind it.
local function left(layer)
  local latest = 0
  for rank = 0, world - 1 do
    local time = 0
    for i = layer, count do time = time + stays[rank][i] end
    latest = math.max(latest, time)
  end
  return ps(latest)
end
local function overlapped(buckets)
  local over = 0
  for _, bucket in ipairs(buckets) do over = math.max(over, left(bucket.last)) + transfer(bucket.bytes) end
  return over
end
local function one_after_the_other(buckets)
  local over = left(1)
  for _, bucket in ipairs(buckets) do over = over + transfer(bucket.bytes) end
  return over
end

-- ---- and run ----

local STEPS = 3
local function worker(rank)
  local layers = {}
  for i = 1, count do layers[i] = nn.Linear(widths[i - 1], widths[i], { bias = false }) end
  local Chain = nn.Module("Chain")
  function Chain:init()
    for i = 1, count do self["at" .. i] = layers[i] end
  end
  function Chain:forward(x)
    for i = 1, count do
      x = self["at" .. i](x)
      x:register_hook(function() rs.advance(stays[rank][i]) end)
    end
    return x
  end
  local ddp = nn.parallel.DistributedDataParallel(Chain(), { bucket_cap_mb = cap / 2 ^ 20 })
  local function backward()
    local loss = ddp(rs.ones(2, widths[0])):sum()
    dist.barrier()
    loss:backward()
  end
  for _ = 1, STEPS do backward() end
  -- The same work and the same messages, one after the other.
  ddp:no_sync(backward)
  for _, bucket in ipairs(buckets_of(cap)) do dist.all_reduce(rs.zeros(bucket.bytes // 4)) end
end
dist.spawn(worker, { world = world })

-- ---- compared ----

local buckets = buckets_of(cap)
local whole   = { { bytes = 0, last = 1 } }
for _, bucket in ipairs(buckets) do whole[1].bytes = whole[1].bytes + bucket.bytes end
local gain = one_after_the_other(buckets) - overlapped(buckets)
local exact, faster, alone = true, true, true
for rank = 0, world - 1 do
  local backwards = rs.trace:events { kind = "autograd.backward", rank = rank }
  for step = 1, STEPS do
    local want = step == 1 and one_after_the_other(whole) or overlapped(buckets)
    local took = ps(rs.trace:duration(backwards[step]))
    if took ~= want then
      exact = false
      print(("rank %d, step %d: %d ps, by hand %d"):format(rank, step, took, want))
    end
  end
  local reduced = rs.trace:events { kind = "c10d.allreduce", rank = rank, phase = "end" }
  local took = ps((reduced[#reduced].t - backwards[STEPS + 1].t) / 1000)
  if took ~= one_after_the_other(buckets) then
    alone = false
    print(("rank %d without overlap: %d ps, by hand %d"):format(rank, took, one_after_the_other(buckets)))
  end
  if took - ps(rs.trace:duration(backwards[STEPS])) ~= gain then faster = false end
end
print(("# world %d, %d layers, %d buckets, %.3f us + bytes / %d: gain %d ps"):format(world, count, #buckets, latency,
  bandwidth, gain))
rs.check("each backward ends when its last bucket does, to the picosecond", exact)
rs.check("without overlap it lasts as long as the layers and all messages", alone)
rs.check("the overlap gains what the cost model says", faster)
