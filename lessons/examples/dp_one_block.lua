-- A model of three blocks, of which one runs on two devices; and DataParallel by hand, of the four functions that it
-- is made of. PyTorch's tutorial "Multi-GPU Examples".
--     ringside run dp_one_block
local rs = require "ringside"
local nn = rs.nn

rs.lesson { title = "One block of the model", hardware = "classroom", devices = 2, seed = 0 }

local Block = nn.Module("Block")
function Block:init() self.layer = nn.Linear(20, 20) end
function Block:forward(x)
  print(("\tblock2 sees %s"):format(x:size()))
  return self.layer(x)
end

local DataParallelModel = nn.Module("DataParallelModel")
function DataParallelModel:init()
  self.block1 = nn.Linear(10, 20)
  self.block2 = nn.DataParallel(Block(), { 0, 1 })
  self.block3 = nn.Linear(20, 20)
end
function DataParallelModel:forward(x)
  return self.block3(self.block2(self.block1(x)))
end

local function data_parallel(module, input, device_ids, output_device)
  local replicas = nn.parallel.replicate(module, device_ids)
  local inputs   = nn.parallel.scatter(input, device_ids)
  local used     = table.move(replicas, 1, #inputs, 1, {})    -- five rows on eight devices leave three idle
  local outputs  = nn.parallel.parallel_apply(used, inputs)
  return nn.parallel.gather(outputs, output_device or device_ids[1])
end

rs.manual_seed(0)
local model = DataParallelModel():to("device:0")
local x = rs.randn(7, 10):to("device:0")
local out = model(x)
print(("outside: %s, sum %.6f"):format(out:size(), out:sum():item()))

out:sum():backward()
for name, p in model:named_parameters() do print(("%s: gradient of sum %.6f"):format(name, p.grad:sum():item())) end

local block, rows = model.block2.module, model.block1(x)
local same = rs.allclose(data_parallel(block, rows, { 0, 1 }), block(rows))
print(("the four functions give what the block alone gives: %s"):format(same))
