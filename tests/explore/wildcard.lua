-- The first message is taken for rank 0's, whoever sent it.
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "A receive from any rank, assumed in order" }

dist.spawn(function(rank)
  local t = rs.tensor { 10.0 * (rank + 1) }
  if rank < 2 then
    dist.send(t, 2)
    return
  end
  local weights, bias = rs.zeros(1), rs.zeros(1)
  dist.recv(weights)
  dist.recv(bias)
  print("weights", weights:item(), "bias", bias:item())
end, { world = 3 })
