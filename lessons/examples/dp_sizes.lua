-- DataParallel shows what it does: the model prints the sizes that it sees, and the program those that go in and come
-- out. PyTorch's tutorial "Optional: Data Parallelism", with 2, 3 and 8 devices.
--     ringside run dp_sizes
local rs = require "ringside"
local nn, data = rs.nn, rs.utils.data

rs.lesson { title = "Inside and outside of the replicas", hardware = "classroom", devices = 8, seed = 0 }

local INPUT, OUTPUT, BATCH, ROWS = 5, 2, 30, 100

local RandomDataset = data.Dataset("RandomDataset")
function RandomDataset:init(size, length) self.rows, self.length = rs.randn(length, size), length end
function RandomDataset:len() return self.length end
function RandomDataset:getitem(i) return self.rows[i] end

local Model = nn.Module("Model")
function Model:init(input_size, output_size) self.fc = nn.Linear(input_size, output_size) end
function Model:forward(input)
  local output = self.fc(input)
  print(("\tIn Model: input size %s output size %s"):format(input:size(), output:size()))
  return output
end

local loader = data.DataLoader(RandomDataset(INPUT, ROWS), { batch_size = BATCH, shuffle = true })

for _, devices in ipairs { { 0, 1 }, { 0, 1, 2 }, { 0, 1, 2, 3, 4, 5, 6, 7 } } do
  print(("Let's use %d devices!"):format(#devices))
  local model = nn.DataParallel(Model(INPUT, OUTPUT):to("device:0"), devices)
  for rows in loader do
    local input = rows:to("device:0")
    local output = model(input)
    print(("Outside: input size %s output_size %s"):format(input:size(), output:size()))
  end
end
