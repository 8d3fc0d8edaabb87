-- With find_unused_parameters a branch that only a no_sync used is averaged by the next reduction; one that nobody used
-- stays as it is.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
rs.lesson { title = "unused", devices = 0 }

local Branches = nn.Module("Branches")
function Branches:init()
  for name in ("abc"):gmatch(".") do self[name] = nn.Linear(1, 1, { bias = false }) end
end
function Branches:forward(x, names)
  local sum
  for name in names:gmatch(".") do sum = sum and sum + self[name](x) or self[name](x) end
  return sum
end

local function grads(net)
  local numbers = {}
  for p in net:parameters() do numbers[#numbers + 1] = string.format("%.9g", p.grad and p.grad:item() or -1) end
  return table.concat(numbers, " ")
end

local ranks = dist.spawn(function(rank)
  local lines, x = {}, rs.full({ 1, 1 }, rank + 1.0)
  for _, clone in ipairs { true, false } do
    local ddp = nn.parallel.DistributedDataParallel(Branches(), { find_unused_parameters = true })
    ddp:_set_ddp_sink_clone(clone)
    ddp:no_sync(function()
      ddp(x, "ab"):sum():backward()
      lines[#lines + 1] = grads(ddp)
    end)
    for _, names in ipairs { "a", "a", rank == 1 and "c" or "a" } do
      ddp(x, names):sum():backward()
      lines[#lines + 1] = grads(ddp)
    end
  end
  return lines
end, { world = 2 })
for rank = 0, 1 do
  for i, line in ipairs(ranks[rank]) do print("rank" .. rank .. "-" .. i - 1 .. " " .. line) end
end
