-- Solution of exercise 01: repair the model, then find every batch that keeps all devices busy.
--
-- Change what is returned. It is checked with other numbers of devices, too.
--     ringside exercise 01
local rs = require "ringside"
local nn = rs.nn

local Model = nn.Module("Model")
function Model:init()
  self.embedding = nn.Embedding(1000, 10)
  self.rnn = nn.Linear(10, 10)
end
function Model:forward(x)
  return self.rnn(self.embedding(x))
end

return {
  -- Part 1. The original Python read, in three places,
  --     super().__init__(**kwargs)      Variable.from_numpy(array)      nn.DataParallel(Model())
  -- Say for each what has to stand there: one of the two behind it.
  super_call = "super().__init__()", -- "super().__init__()"  or  "super().__init__(kwargs)"
  from_numpy = "torch.from_numpy(array)", -- "torch.from_numpy(array)"  or  "Variable(array)"
  placement = "Model().to('cuda:0')", -- "Model().to('cuda:0')"  or  "Model().cpu()"

  -- Part 2. The model as nn.DataParallel wants it. Repair here what you said under placement.
  model = function()
    return Model():to("device:0")
  end,

  -- Part 3. A list of all batch sizes from 1 to `most` for which each of the devices gets a chunk.
  busy = function(devices, most)
    local list = {}
    for n = 1, most do
      local rows = (n + devices - 1) // devices -- ceil(n / devices)
      if (n + rows - 1) // rows == devices then list[#list + 1] = n end
    end
    return list
  end,
}
