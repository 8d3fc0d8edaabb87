-- Buckets are on their way while the backward still runs, whatever the threads do: the first layer's hook, which comes
-- last of all, waits for a barrier that was called behind the buckets that were full by then. Arguments: the world, the
-- layers, the cap of the buckets in gradients. One layer has one gradient of 64 bytes.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
rs.lesson { title = "Overlap of threads", prefix = "" }
local world, count, cap = math.tointeger(arg[1]), math.tointeger(arg[2]), math.tointeger(arg[3])
local STEPS = 4

local Chain = nn.Module("Chain")
function Chain:init()
  for i = 1, count do self["at" .. i] = nn.Linear(4, 4, { bias = false }) end
end
function Chain:forward(x)
  for i = 1, count do
    x = self["at" .. i](x)
    if i == 1 then x:register_hook(function() dist.barrier() end) end
  end
  return x
end

dist.spawn(function()
  local ddp = nn.parallel.DistributedDataParallel(Chain(), { bucket_cap_mb = 64 * cap / 2 ^ 20 })
  for _ = 1, STEPS do ddp(rs.ones(2, 4)):sum():backward() end
end, { world = world })

-- Full before the first layer's gradient comes: all but the last bucket, from the second step on.
local early, buckets = (count - 1) // cap, (count + cap - 1) // cap
local function between(list, from, to)
  local found = 0
  for _, event in ipairs(list) do
    if event.t > from and event.t < to then found = found + 1 end
  end
  return found
end
local begun, ended, all = true, true, true
for rank = 0, world - 1 do
  local function of(kind, phase) return rs.trace:events { kind = kind, rank = rank, phase = phase } end
  local backwards, over = of("autograd.backward"), of("autograd.backward", "end")
  local begins, ends    = of("c10d.allreduce"), of("c10d.allreduce", "end")
  local hooks, waits    = of("ddp.autograd_hook"), of("ddp.finalize_backward")
  for step = 2, STEPS do
    local from, last = backwards[step].t, hooks[step * count].t
    begun = begun and between(begins, from, last) == early
    ended = ended and between(ends, from, last) == early and last < waits[step].t
    all   = all and between(ends, from, over[step].t) == buckets
  end
end
rs.check("full buckets' all-reduces begin before the last gradient comes", begun)
rs.check("and may be over by then", ended)
rs.check("the backward ends when all are over", all)
