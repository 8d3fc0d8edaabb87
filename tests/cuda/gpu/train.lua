-- Losses of a small training, one line each, to compare between devices: alone, through DataParallel and through
-- DistributedDataParallel on W devices. `ringside run --trust --device KIND train.lua -- W STEPS`
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
local world, steps = math.tointeger(rs.args[1]), math.tointeger(rs.args[2])
rs.lesson { title = "losses", devices = world, seed = 1 }

local function model()
  rs.manual_seed(1)
  return nn.Sequential(nn.Embedding(50, 16), nn.Flatten(), nn.Linear(64, 32), nn.ReLU(),
    nn.LayerNorm(32), nn.Linear(32, 4))
end

local function batch(step, rows)
  rs.manual_seed(100 + step)
  return rs.randint(0, 50, { rows, 4 }), rs.randn { rows, 4 }
end

local function train(name, net, device, share)
  local optimizer = rs.optim.SGD(net:parameters(), { lr = 0.05, momentum = 0.9 })
  local lines = {}
  for step = 1, steps do
    local x, y = batch(step, 16)
    if share then x, y = x:chunk(world)[share], y:chunk(world)[share] end
    optimizer:zero_grad()
    local loss = nn.functional.mse_loss(net(x:to(device)), y:to(device))
    loss:backward()
    optimizer:step()
    lines[step] = string.format("%s step %d %.17g", name, step, loss:item())
  end
  return table.concat(lines, "\n")
end

local ids = {}
for i = 0, world - 1 do ids[i + 1] = i end
print(train("alone", model():to "device:0", "device:0"))
print(train("dp on " .. world, nn.DataParallel(model():to "device:0", ids), "device:0"))
local told = dist.spawn(function(rank)
  local device = "device:" .. rank
  local net = nn.parallel.DistributedDataParallel(model():to(device), { device_ids = { rank }, bucket_cap_mb = 0.002 })
  return train("ddp rank " .. rank .. " of " .. world, net, device, rank + 1)
end, { world = world })
for rank = 0, world - 1 do print(told[rank]) end
