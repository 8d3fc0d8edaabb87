-- One linear layer, one step, four stages: constructor, forward, backward, optimizer. PyTorch's note "Distributed Data
-- Parallel", whose section on the internals the lessons 13 to 17 follow.
--     ringside run ddp_note
--     ringside step ddp_note                         n: from stage to stage
local rs = require "ringside"
local nn, optim, dist = rs.nn, rs.optim, rs.distributed

rs.lesson { title = "The four stages of a step", hardware = "classroom", devices = 2 }

dist.spawn(function(rank)
  local device = "device:" .. rank
  rs.manual_seed(30 + rank)
  local model = nn.Linear(10, 10):to(device)
  local before = model.weight:sum():item()
  local ddp_model = nn.parallel.DistributedDataParallel(model, { device_ids = { rank } })
  print(("Rank %d, constructor: weights of sum %.6f become %.6f"):format(rank, before, model.weight:sum():item()))

  local loss_fn = nn.MSELoss()
  local optimizer = optim.SGD(ddp_model:parameters(), { lr = 0.001 })

  local outputs = ddp_model(rs.randn(20, 10):to(device))
  local labels = rs.randn(20, 10):to(device)
  local loss = loss_fn(outputs, labels)
  print(("Rank %d, forward: outputs %s, loss %.6f"):format(rank, outputs:size(), loss:item()))

  loss:backward()
  print(("Rank %d, backward: the mean of both gradients has the sum %.6f"):format(rank, model.weight.grad:sum():item()))

  optimizer:step()
  print(("Rank %d, optimizer: weights of sum %.6f"):format(rank, model.weight:sum():item()))
end, { world = 2 })
