-- A training of which one rank goes at a moment that the arguments name: MOMENT, the rank, and how it goes. With --trust.
local rs = require "ringside"
local nn, optim, dist = rs.nn, rs.optim, rs.distributed
rs.lesson { title = "One of them goes", prefix = "" }

local moment, victim, how = ...
local rank = math.tointeger(os.getenv("RANK") or os.getenv("OMPI_COMM_WORLD_RANK"))
local mine = rank == math.tointeger(victim)
local place = os.getenv("DYING_IN")        -- a folder that all have

local function own_pid() return tonumber(io.open("/proc/self/stat"):read("n")) end

local ways = {
  kill  = function() os.execute("kill -9 " .. own_pid()) end,
  abort = function() os.execute("kill -ABRT " .. own_pid()) end,
  stop  = function() os.execute("kill -STOP " .. own_pid()) end,
  exit  = function() os.exit(7) end,
  leave = function() os.exit(0) end,
  error = function() error("I give up") end,
  loop  = function() while true do end end,
}

local function here(name)
  if not mine or moment ~= name then return end
  io.stderr:write("gone\n")
  ways[how]()
end

-- The next call is one in which it will wait, since the others come only when it has gone: somebody else kills it there.
local function inside_next(name)
  if moment ~= name then return end
  local path = place .. "/pid"
  if mine then
    local file = io.open(path .. ".new", "w")
    file:write(own_pid())
    file:close()
    os.execute(("(sleep 0.2; kill -9 %d) >/dev/null 2>&1 &"):format(own_pid()))
    os.rename(path .. ".new", path)
    return
  end
  os.execute(("until test -f %s; do sleep 0.02; done; p=$(cat %s); while kill -0 $p && ! grep -q '^State:.Z' /proc/$p/status; do sleep 0.02; done")
    :format(path, path) .. " 2>/dev/null")
end

here "before"
inside_next "init"
dist.init_process_group()
here "after_init"

rs.manual_seed(1)
local net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4))
net:register_forward_hook(function() here "forward" end)
local ddp = nn.parallel.DistributedDataParallel(net, { bucket_cap_mb = 0.0005 })
ddp:register_comm_hook(nil, function(_, bucket)
  local work = dist.all_reduce(bucket:buffer(), { async_op = true })
  here "reduce"
  return work:get_future():then_(function(future) return future:value()[1] / dist.get_world_size() end)
end)
local sgd = optim.SGD(ddp:parameters(), { lr = 0.1 })
for i = 1, 4 do
  if i == 3 then inside_next "buffers" end
  local out = ddp(rs.randn(6, 8))
  if i == 3 then out:register_hook(function() here "backward" end) end
  sgd:zero_grad()
  out:sum():backward()
  sgd:step()
  if i == 3 then here "between" end
end

inside_next "recv"
if mine then
  dist.recv(rs.zeros(4), (rank + 1) % dist.get_world_size())
elseif rank == (math.tointeger(victim) + 1) % dist.get_world_size() then
  dist.send(rs.ones(4), math.tointeger(victim))
end
inside_next "new_group"
local group = dist.new_group()
dist.barrier({ group = group })
here "destroy"
dist.destroy_process_group()
if moment == "nothing" then io.stderr:write("well\n") end
