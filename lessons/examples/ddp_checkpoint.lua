-- Saved once, loaded by all: rank 0 writes the weights, a barrier lets nobody read too early, and each rank loads
-- them onto its own device. PyTorch's tutorial "Getting Started with Distributed Data Parallel", save and load
-- checkpoints.
--     ringside run --trust ddp_checkpoint [-- FOLDER]     it writes FOLDER/model.checkpoint, in /tmp unless told otherwise
local rs = require "ringside"
local nn, optim, dist = rs.nn, rs.optim, rs.distributed

rs.lesson { title = "A checkpoint of rank 0's", hardware = "classroom", devices = 2 }

local CHECKPOINT = ((...) or "/tmp") .. "/model.checkpoint"

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
  print(("Running DDP checkpoint example on rank %d."):format(rank))
  local device = "device:" .. rank
  rs.manual_seed(10 + rank)
  local ddp_model = nn.parallel.DistributedDataParallel(ToyModel():to(device), { device_ids = { rank } })

  if rank == 0 then
    rs.save(ddp_model:state_dict(), CHECKPOINT)      -- all ranks have these weights: one of them writes
  else
    for _, p in ipairs(ddp_model:parameters()) do p:detach():zero_() end   -- lost here, and found again below
  end
  dist.barrier()                                     -- the file is whole

  local saved = rs.load(CHECKPOINT, { map_location = { ["device:0"] = device } })
  for name, t in pairs(saved) do
    if t.device ~= device then error(name .. " is on " .. t.device) end
  end
  ddp_model:load_state_dict(saved)

  local loss_fn = nn.MSELoss()
  local optimizer = optim.SGD(ddp_model:parameters(), { lr = 0.001 })
  optimizer:zero_grad()
  local outputs = ddp_model(rs.randn(20, 10):to(device))
  local labels = rs.randn(20, 5):to(device)
  loss_fn(outputs, labels):backward()
  optimizer:step()

  dist.barrier()                                     -- nobody needs the file any more
  if rank == 0 then os.remove(CHECKPOINT) end
  for name, p in ddp_model:named_parameters() do
    print(("Rank %d: %s sum %.6f"):format(rank, name, p:sum():item()))
  end
  print(("Finished DDP checkpoint example on rank %d."):format(rank))
end, { world = 2 })
