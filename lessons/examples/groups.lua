-- A sum over some of the ranks: a group is made by all, and used by its members. PyTorch's tutorial "Writing
-- Distributed Applications with PyTorch", collective communication.
--     ringside run groups
local rs = require "ringside"
local dist = rs.distributed

rs.lesson { title = "A sum over a group", hardware = "classroom", devices = 0 }

local function sum_over(group, rank, name)
  local tensor = rs.ones(1) * (rank + 1)
  dist.all_reduce(tensor, { op = dist.ReduceOp.SUM, group = group })
  print(("Rank %d has data %s of %s"):format(rank, tensor[0], name))
end

dist.spawn(function(rank)
  local both = dist.new_group { 0, 1 }
  local tensor = rs.ones(1)
  dist.all_reduce(tensor, { op = dist.ReduceOp.SUM, group = both })
  print(("Rank %d has data %s"):format(rank, tensor[0]))
end, { world = 2 })

dist.spawn(function(rank)
  local even = dist.new_group { 0, 2 }               -- ranks 1 and 3 make it, too, and then leave it alone
  local odd  = dist.new_group { 1, 3 }
  if rank % 2 == 0 then sum_over(even, rank, "the even") else sum_over(odd, rank, "the odd") end
  sum_over(nil, rank, "all")
end, { world = 4 })
