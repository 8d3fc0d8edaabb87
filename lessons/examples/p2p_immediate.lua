-- The same number, sent without waiting: isend and irecv answer at once, and the tensor belongs to the message until
-- its wait() returns. PyTorch's tutorial "Writing Distributed Applications with PyTorch", immediates.
--     ringside run p2p_immediate
local rs = require "ringside"
local dist = rs.distributed

rs.lesson { title = "Point to point, immediate", hardware = "classroom", devices = 0 }

dist.spawn(function(rank)
  local tensor, work = rs.zeros(1), nil
  if rank == 0 then
    tensor:add_(1)
    work = dist.isend(tensor, 1)
    print "Rank 0 started sending"
  else
    work = dist.irecv(tensor, 0)
    print "Rank 1 started receiving"
  end
  work:wait()                                        -- before this, neither may write to the tensor nor read it
  print(("Rank %d has data %s"):format(rank, tensor[0]))
end, { world = 2 })
