-- Ranks that meet by NCCL: every collective against plain sums, a step of DDP against one process's, messages both ways.
-- Arguments: what=all; what=absent: rank 1 calls nothing; what=duplicate: all ranks use device:0.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
rs.lesson { title = "NCCL", prefix = "", devices = 4, seed = 3 }

local options = { what = "all", world = "4" }
for _, word in ipairs { ... } do
  local name, value = word:match("^(%w+)=(%w+)$")
  options[name] = value
end
local world = math.tointeger(options.world)

local function here(rank) return "device:" .. rank end
local function made(rank, value, count) return rs.full({ count or 6 }, 1.0 * value, { device = here(rank) }) end
local function is(t, value) return (t - value):abs():sum():item() == 0 end

local function collectives(rank, n)
  local right, sum = {}, n * (n + 1) / 2
  local function note(name, ok) right[#right + 1] = ok and "" or name end
  local t = made(rank, rank + 1)
  dist.all_reduce(t)
  note("all_reduce", is(t, sum))
  t = made(rank, rank + 1)
  dist.all_reduce(t, { op = "max" })
  note("max", is(t, n))
  t = made(rank, rank + 1)
  dist.broadcast(t, 1)
  note("broadcast", is(t, 2))
  t = made(rank, rank + 1)
  dist.reduce(t, 0)
  note("reduce", is(t, rank == 0 and sum or rank + 1))
  local all = made(rank, 0, 6 * n)
  dist.all_gather_into_tensor(all, made(rank, rank + 1))
  local gathered = true
  for r = 0, n - 1 do gathered = gathered and is(all:narrow(0, 6 * r, 6), r + 1) end
  note("all_gather_into_tensor", gathered)
  local mine = made(rank, 0)
  dist.reduce_scatter_tensor(mine, made(rank, rank + 1, 6 * n))
  note("reduce_scatter_tensor", is(mine, sum))
  local swapped = made(rank, 0, 2 * n)
  dist.all_to_all_single(swapped, made(rank, rank, 2 * n))
  local whole = true
  for r = 0, n - 1 do whole = whole and is(swapped:narrow(0, 2 * r, 2), r) end
  note("all_to_all_single", whole)
  dist.barrier()
  local host = rs.full({ 3 }, rank + 1.0)
  dist.all_reduce(host)
  note("all_reduce in the host's memory", is(host, sum))
  local work, other = nil, made(rank, -1)
  if rank == 0 then work = dist.isend(made(rank, 7), 1) elseif rank == 1 then work = dist.irecv(other, 0) end
  if work then work:wait() end
  note("message", rank ~= 1 or is(other, 7))
  return table.concat(right)
end

local function step(rank)
  rs.manual_seed(5)
  local net = nn.Linear(4, 2):to(here(rank))
  local ddp = nn.parallel.DistributedDataParallel(net, { device_ids = { rank } })
  ddp(made(rank, rank + 1, 8):view { 2, 4 }):sum():backward()
  return net.weight.grad:sum():item()
end

local function worker(rank)
  if options.what == "absent" then
    if rank == 1 then return "gone" end
    dist.all_reduce(made(rank, 1))
    return "done"
  end
  local told = collectives(rank, world)
  return told ~= "" and told or step(rank)
end

if options.what == "absent" then
  dist.spawn(worker, { world = world })
elseif options.what == "one" then
  local sums = dist.spawn(function(rank)
    local t = made(rank, 3)
    dist.all_reduce(t)
    return t:sum():item()
  end, { world = 1 })
  rs.check("the sum of one rank is its own", sums[0] == 18)
else
  local results, right, sum = dist.spawn(worker, { world = world }), true, 0
  for r = 0, world - 1 do sum = sum + (r + 1) end
  for r = 0, world - 1 do
    print(string.format("rank %d: %s", r, tostring(results[r])))
    right = right and results[r] == 16 * sum / world
  end
  rs.check("each rank has plain sums, and the mean of all ranks' gradients", right)
end
