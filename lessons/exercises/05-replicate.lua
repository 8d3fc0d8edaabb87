-- Exercise 05: a count that survives.
--
-- Change the module in part 1, and the three functions in part 2. They are run with other sizes, too.
--     ringside exercise 05
local rs = require "ringside"
local nn = rs.nn

-- Part 1. `count` shall say how often the wrapped module was called, however many devices there are: three forwards on
-- four devices are 3. No lock, and no table that all replicas write into: let only one replica's count matter.
local Counter = nn.Module("Counter")
function Counter:init()
  self.fc = nn.Linear(2, 2)
  self.count = 0
end
function Counter:forward(x)
  self.count = self.count + 1
  return self.fc(x)
end

return {
  module = Counter,
  count = function(model) return model.count end, -- reads the count of the wrapped module: a number

  -- Part 2. What is left in the wrapped module, after so many forwards on so many devices (one, or more)?
  -- The buffer `a` and the list `c` begin with 0 and {}. Each forward does one of these:
  replaced = function(forwards, devices) return -1 end, -- self.a = self.a + 1         what is a afterwards?
  in_place = function(forwards, devices) return -1 end, -- self.a:add_(1)              what is a afterwards?
  listed = function(forwards, devices) return -1 end,   -- table.insert(self.c, 1)     how long is c afterwards?
}
