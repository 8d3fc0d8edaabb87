-- Solution 05: a count that survives.
local rs = require "ringside"
local nn = rs.nn

-- A buffer, changed in place: replica 0's is the wrapped module's own tensor.
local Counter = nn.Module("Counter")
function Counter:init()
  self.fc = nn.Linear(2, 2)
  self:register_buffer("count", rs.zeros { 1 })
end
function Counter:forward(x)
  self.count:add_(1)
  return self.fc(x)
end

return {
  module = Counter,
  count = function(model) return model.count:item() end,

  -- A new tensor in a replica's field is lost with the replica; one device has no replicas.
  replaced = function(forwards, devices) return devices == 1 and forwards or 0 end,
  -- Replica 0 writes into the wrapped module's own buffer.
  in_place = function(forwards) return forwards end,
  -- A replica's fields are a shallow copy: the list is one and the same for all.
  listed = function(forwards, devices) return forwards * devices end,
}
