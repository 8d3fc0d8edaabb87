-- Every rank trains the same small model on its own samples; rank 0 prints each step's loss to the last bit, a line a step.
-- Arguments: how many steps; "slowly": a step takes a while, for whoever wants to tear them apart.
local rs = require "ringside"
local nn, optim, dist = rs.nn, rs.optim, rs.distributed
rs.lesson { title = "Two hosts", prefix = "" }

local steps, slowly = math.tointeger((...)), select(2, ...) == "slowly"

local function train(rank)
  rs.manual_seed(7)
  local net = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))
  local ddp = nn.parallel.DistributedDataParallel(net, { bucket_cap_mb = 0.0002 })
  local sgd = optim.SGD(ddp:parameters(), { lr = 0.05 })
  rs.manual_seed(100 + rank)
  for i = 1, steps do
    local x = rs.randn(4, 6)
    sgd:zero_grad()
    local loss = ddp(x):pow(2):sum()
    loss:backward()
    sgd:step()
    local all = loss:detach():clone()
    dist.all_reduce(all)
    if rank == 0 then
      io.stdout:write(("step %d loss %a\n"):format(i, all:item()))
      io.stdout:flush()
    end
    if slowly then os.execute("sleep 0.02") end
  end
  local sum = 0
  for _, p in ipairs(ddp:parameters()) do sum = sum + p:detach():double():abs():sum():item() end
  if rank == 0 then print(("parameters %a"):format(sum)) end
end

if os.getenv("RANK") then
  dist.init_process_group()
  train(dist.get_rank())
  dist.destroy_process_group()
else
  dist.spawn(train, { world = 4 })
end
