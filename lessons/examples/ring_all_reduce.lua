-- An all-reduce of one's own: every rank hands what it got on to its right neighbour, and adds it up; after size - 1
-- rounds all have the sum. Whole tensors travel: lesson 11 cuts them into chunks, as libraries do. PyTorch's tutorial
-- "Writing Distributed Applications with PyTorch", our own ring-allreduce.
--     ringside run ring_all_reduce
local rs = require "ringside"
local dist = rs.distributed

rs.lesson { title = "A ring of one's own", hardware = "classroom", devices = 0 }

-- recv becomes the sum of all ranks' send.
local function allreduce(send, recv)
  local rank, size = dist.get_rank(), dist.get_world_size()
  local left, right = (rank - 1) % size, (rank + 1) % size
  local going, coming, sum = send:clone(), send:clone(), send:clone()
  for _ = 1, size - 1 do
    local work = dist.isend(going, right)
    dist.recv(coming, left)
    sum:add_(coming)
    work:wait()                                      -- only now `going` may be written to
    going, coming = coming, going                    -- what came goes on; the other takes what comes next
  end
  recv:copy_(sum)
end

for size = 2, 4 do
  dist.spawn(function(rank)
    rs.manual_seed(rank)
    local mine = rs.rand(2, 2)
    local ours, built_in = mine:clone(), mine:clone()
    allreduce(mine, ours)
    dist.all_reduce(built_in)
    print(("Rank %d of %d, %s all_reduce's: %.6f %.6f %.6f %.6f"):format(rank, size,
      rs.allclose(ours, built_in) and "equal to" or "other than", table.unpack(ours:flatten():tolist())))
  end, { world = size })
end
