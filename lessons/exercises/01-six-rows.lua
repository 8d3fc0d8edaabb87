-- Exercise 01: repair the model, then find every batch that keeps four devices busy.
-- Change only what lies between the lines. Run it with: ringside run --tap lessons/exercises/01-six-rows.lua
local rs = require "ringside"
local nn = rs.nn

rs.lesson { title = "Exercise: where do six indices go?", devices = 4, hardware = "classroom", seed = 1 }

local Model = nn.Module("Model")
function Model:init()
  self.embedding = nn.Embedding(1000, 10)
  self.rnn = nn.Linear(10, 10)
end
function Model:forward(x)
  return self.rnn(self.embedding(x))
end

---------------------------------------------------------------------------------------------------------------
-- Part 1. The original Python read, in three places,
--     super().__init__(**kwargs)      Variable.from_numpy(array)      nn.DataParallel(Model())
-- Say for each what has to stand there: one of the choices in the comment.
local repair = {
  super_call = "?",   -- "super().__init__()"  or  "super().__init__(kwargs)"
  from_numpy = "?",   -- "torch.from_numpy(array)"  or  "Variable(array)"
  placement = "?",    -- "Model().to('cuda:0')"  or  "Model().cpu()"
}
-- and repair the same fault here:
local model = Model()

-- Part 2. All batch sizes from 1 to 12 for which all four devices get a chunk.
local busy = {}
---------------------------------------------------------------------------------------------------------------

rs.check("super().__init__ takes no kwargs", repair.super_call == "super().__init__()")
rs.check("from_numpy belongs to torch", repair.from_numpy == "torch.from_numpy(array)")
rs.check("the module goes to device 0", repair.placement == "Model().to('cuda:0')")

local dp = nn.DataParallel(model)
local runs = pcall(dp, rs.tensor { 1, 2, 3, 4, 5, 6 })
rs.check("the repaired model runs", runs)

local found = {}
for n = 1, 12 do
  local before = rs.trace:count { kind = "dp.scatter.chunk" }
  if runs then dp(rs.arange(n)) end
  if rs.trace:count { kind = "dp.scatter.chunk" } - before == 4 then found[#found + 1] = n end
end
rs.close("these batches use four devices", busy, found)
rs.check("and there are some", #busy > 0)

rs.hint "The module has to be where device_ids[0] says. For part 2: chunks have ceil(n / 4) rows."
