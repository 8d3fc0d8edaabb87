-- A model that lies on two devices, under DistributedDataParallel: rank r has devices 2 r and 2 r + 1, and device_ids
-- stay away, since the model itself knows what is where. PyTorch's tutorial "Getting Started with Distributed Data
-- Parallel", combining it with model parallelism.
--     ringside run ddp_two_devices
local rs = require "ringside"
local nn, optim, dist = rs.nn, rs.optim, rs.distributed

rs.lesson { title = "A model on two devices", hardware = "classroom", devices = 4 }

local ToyMpModel = nn.Module("ToyMpModel")
function ToyMpModel:init(dev0, dev1)
  self.dev0, self.dev1 = dev0, dev1
  self.net1 = nn.Linear(10, 10):to(dev0)
  self.relu = nn.ReLU()
  self.net2 = nn.Linear(10, 5):to(dev1)
end
function ToyMpModel:forward(x)
  x = self.relu(self.net1(x:to(self.dev0)))
  return self.net2(x:to(self.dev1))
end

dist.spawn(function(rank)
  print(("Running DDP with model parallel example on rank %d."):format(rank))
  local dev0, dev1 = "device:" .. rank * 2, "device:" .. rank * 2 + 1
  rs.manual_seed(20 + rank)
  local mp_model = ToyMpModel(dev0, dev1)
  local ddp_mp_model = nn.parallel.DistributedDataParallel(mp_model)

  local loss_fn = nn.MSELoss()
  local optimizer = optim.SGD(ddp_mp_model:parameters(), { lr = 0.001 })
  optimizer:zero_grad()
  local outputs = ddp_mp_model(rs.randn(20, 10))     -- they come out on dev1
  local labels = rs.randn(20, 5):to(dev1)
  local loss = loss_fn(outputs, labels)
  loss:backward()
  optimizer:step()

  print(("Rank %d has a loss of %.6f"):format(rank, loss:item()))
  for name, p in ddp_mp_model:named_parameters() do
    print(("Rank %d: %s sum %.6f, gradient sum %.6f"):format(rank, name, p:sum():item(), p.grad:sum():item()))
  end
  print(("Finished running DDP with model parallel example on rank %d."):format(rank))
end, { world = 2 })
