-- One epoch on the digits under DistributedDataParallel, two ranks with several buckets; rank 0's weights count.
local rs = require "ringside"
local nn, optim, data, dist = rs.nn, rs.optim, rs.utils.data, rs.distributed
rs.lesson { title = "digits under DDP", devices = 0 }
local ranks = dist.spawn(function(rank)
  local x, y = rs.data.digits { split = "train" }
  rs.manual_seed(rank)
  local net = nn.Sequential { nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10) }
  local ddp = nn.parallel.DistributedDataParallel(net, { bucket_cap_mb = 0.004 })
  local opt = optim.SGD(ddp:parameters(), { lr = 0.1, momentum = 0.9 })
  local set = data.TensorDataset(x, y)
  local sampler, losses = data.DistributedSampler(set, { shuffle = true, seed = 4 }), {}
  sampler:set_epoch(1)
  for a, b in data.DataLoader(set, { batch_size = 64, sampler = sampler }) do
    opt:zero_grad()
    local loss = nn.functional.cross_entropy(ddp(a), b)
    loss:backward()
    opt:step()
    losses[#losses + 1] = string.format("%.9g", loss:item())
  end
  return losses
end, { world = 2 })
for rank = 0, 1 do print("rank" .. rank .. " " .. table.concat(ranks[rank], " ")) end
