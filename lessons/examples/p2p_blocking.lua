-- One number from rank 0 to rank 1: a send and a recv, both of which wait. PyTorch's tutorial "Writing Distributed
-- Applications with PyTorch", point-to-point communication.
--     ringside run p2p_blocking
local rs = require "ringside"
local dist = rs.distributed

rs.lesson { title = "Point to point, blocking", hardware = "classroom", devices = 0 }

dist.spawn(function(rank)
  local tensor = rs.zeros(1)
  if rank == 0 then
    tensor:add_(1)
    dist.send(tensor, 1)
  else
    dist.recv(tensor, 0)
  end
  print(("Rank %d has data %s"):format(rank, tensor[0]))
end, { world = 2 })
