-- Collectives by NCCL, each against what it has to give; and what becomes of a call that one rank never makes.
-- `ringside run --trust --executor free --device cuda --backend nccl nccl.lua -- WORLD [absent | profiled]`
-- profiled: NCCL's profiler has to tell of each collective of more than one rank
local rs = require "ringside"
local dist = rs.distributed
local world, absent = math.tointeger(rs.args[1]), rs.args[2] == "absent"
rs.lesson { title = "nccl", devices = world, world = world }

local function filled(rank, value, n)
  return rs.full({ n or 5 }, value, { device = "device:" .. rank, dtype = "float32" })
end
local function is(t, values)
  return rs.equal(t:cpu(), rs.tensor(values, { dtype = "float32" }))
end
local function times(value, n)
  local list = {}
  for i = 1, n do list[i] = value end
  return list
end
local total = world * (world + 1) / 2

local function collectives(rank)
  local mine, ok = rank + 1, {}
  local t = filled(rank, mine)
  dist.all_reduce(t)
  ok.all_reduce = is(t, times(total, 5))
  t = filled(rank, mine)
  dist.broadcast(t, world - 1)
  ok.broadcast = is(t, times(world, 5))
  t = filled(rank, mine)
  dist.reduce(t, 0)
  ok.reduce = rank ~= 0 or is(t, times(total, 5))
  local all = filled(rank, 0, 2 * world)
  dist.all_gather_into_tensor(all, filled(rank, mine, 2))
  local want = {}
  for r = 1, world do want[2 * r - 1], want[2 * r] = r, r end
  ok.all_gather = is(all, want)
  local part = filled(rank, 0, 3)
  dist.reduce_scatter_tensor(part, filled(rank, mine, 3 * world))
  ok.reduce_scatter = is(part, times(total, 3))
  local out = filled(rank, 0, world)
  dist.all_to_all_single(out, filled(rank, mine, world))
  want = {}
  for r = 1, world do want[r] = r end
  ok.all_to_all = is(out, want)
  dist.barrier()
  ok.barrier = true
  if world > 1 then
    local message = filled(rank, mine)
    if rank == 0 then dist.send(message, 1) elseif rank == 1 then dist.recv(message, 0) end
    ok.send_recv = rank ~= 1 or is(message, times(1, 5))
  end
  local big = filled(rank, mine, 1 << 22)
  for _ = 1, 3 do dist.all_reduce(big) end
  ok["a large all_reduce"] = big:narrow(0, 0, 1):item() == big:narrow(0, (1 << 22) - 1, 1):item()
  return ok
end

local told = dist.spawn(function(rank)
  if not absent then return collectives(rank) end
  local t = filled(rank, 1)
  dist.all_reduce(t)
  if rank ~= world - 1 then
    dist.all_reduce(t)
    t:sum():item()
  else                                   -- busy with something else for longer than the others wait
    local till = os.time() + 12
    while os.time() < till do rs.cuda.synchronize(rank) end
  end
  return {}
end, { world = world })

local names = {}
for name in pairs(told[0]) do names[#names + 1] = name end
table.sort(names)
for _, name in ipairs(names) do
  local all = true
  for rank = 0, world - 1 do all = all and told[rank][name] end
  rs.check(name .. " of " .. world .. " rank" .. (world > 1 and "s" or ""), all)
end
local told_of = rs.trace:count "kind = comm.nccl.collective"
print("NCCL's profiler told of " .. told_of .. " collectives, " ..
      rs.trace:count "kind = comm.nccl.channel" .. " channels")
if rs.args[2] == "profiled" then
  rs.check("the profiler tells of collectives", told_of >= world * 8)
  rs.check("and of the channels they went through", rs.trace:count "kind = comm.nccl.channel" > 0)
end
