-- Checked first and set then: between the two somebody else may have become the leader.
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "Two leaders" }

dist.spawn(function(rank)
  rs.advance(10 * rank)
  local leads = not dist.store:check { "leader" }
  if leads then dist.store:set("leader", tostring(rank)) end
  local t = rs.tensor { rank }
  if leads then
    for other = 0, 2 do
      if other ~= rank then dist.send(t, other) end
    end
  else
    dist.recv(t)
  end
end, { world = 3 })
