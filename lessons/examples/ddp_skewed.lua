-- Ranks that are not equally fast: constructor, forward and backward are meeting points, and who comes first waits,
-- for as long as the group's time-out lets him. PyTorch's tutorial "Getting Started with Distributed Data Parallel",
-- skewed processing speeds.
--     ringside run ddp_skewed
--     ringside run --executor free ddp_skewed        the same in real time
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

rs.lesson { title = "Skewed processing speeds", hardware = "classroom", devices = 2 }

local LATE = 0.2                                     -- seconds by which rank 1 is late in each step

local function train(rank)
  rs.manual_seed(0)
  local ddp = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
  for step = 0, 1 do
    if rank == 1 then rs.sleep(LATE * 1e6) end       -- it reads a file, say, or waits for the network
    ddp(rs.full({ 3, 4 }, rank + 1.0)):sum():backward()
    print(("Rank %d, step %d: gradient %.6f"):format(rank, step, ddp.module.weight.grad[{ 0, 0 }]:item()))
  end
end

dist.spawn(function(rank)
  dist.set_timeout(60)                               -- seconds: long enough for the slowest rank
  train(rank)
end, { world = 2 })

dist.spawn(function(rank)
  local impatient = dist.new_group { ranks = { 0, 1 }, timeout = LATE / 2 }
  local ready = rs.ones(1)
  if rank == 1 then rs.sleep(LATE * 1e6) end
  local came = pcall(dist.all_reduce, ready, { group = impatient })
  print(("Rank %d, with too short a time-out: %s"):format(rank, came and "all came" or "an error"))
end, { world = 2 })
