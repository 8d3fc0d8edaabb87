-- The smallest program with DistributedDataParallel: a toy model, one batch for each rank, one step. PyTorch's tutorial
-- "Getting Started with Distributed Data Parallel", basic use case.
--     ringside run ddp_basic
local rs = require "ringside"
local nn, optim, dist = rs.nn, rs.optim, rs.distributed

rs.lesson { title = "Basic use of DistributedDataParallel", hardware = "classroom", devices = 2 }

local ToyModel = nn.Module("ToyModel")
function ToyModel:init()
  self.net1 = nn.Linear(10, 10)
  self.relu = nn.ReLU()
  self.net2 = nn.Linear(10, 5)
end
function ToyModel:forward(x)
  return self.net2(self.relu(self.net1(x)))
end

dist.spawn(function(rank)
  print(("Running basic DDP example on rank %d."):format(rank))
  local device = "device:" .. rank
  rs.manual_seed(rank)                               -- other weights and data on each rank: rank 0's weights go to all
  local model = ToyModel():to(device)
  local ddp_model = nn.parallel.DistributedDataParallel(model, { device_ids = { rank } })

  local loss_fn = nn.MSELoss()
  local optimizer = optim.SGD(ddp_model:parameters(), { lr = 0.001 })

  optimizer:zero_grad()
  local outputs = ddp_model(rs.randn(20, 10):to(device))
  local labels = rs.randn(20, 5):to(device)
  local loss = loss_fn(outputs, labels)
  loss:backward()
  optimizer:step()

  print(("Rank %d has a loss of %.6f"):format(rank, loss:item()))
  for name, p in ddp_model:named_parameters() do
    print(("Rank %d: %s sum %.6f, gradient sum %.6f"):format(rank, name, p:sum():item(), p.grad:sum():item()))
  end
  print(("Finished running basic DDP example on rank %d."):format(rank))
end, { world = 2 })
