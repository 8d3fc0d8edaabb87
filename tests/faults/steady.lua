-- Training steps of one model, arg[1], arg[2] of them: a test counts what more steps take from the system's allocator.
local rs = require "ringside"
local nn, optim, data = rs.nn, rs.optim, rs.utils.data
rs.lesson { title = "Steady steps", devices = 1 }
rs.manual_seed(0)

local function classes(count) return rs.randint(0, 3, { count }) end
local models = {}

function models.embed()
  return nn.Sequential { nn.Embedding(20, 8), nn.Linear(8, 3) }, rs.randint(0, 20, { 6 }), classes(6)
end

function models.mlp()
  return nn.Sequential { nn.Linear(10, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3) }, rs.randn({ 6, 10 }), classes(6)
end

function models.cnn()
  local net = nn.Sequential {
    nn.Conv2d(1, 4, 3, { padding = 1 }), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3),
  }
  return net, rs.randn({ 5, 1, 6, 6 }), classes(5)
end

local Recurrent = nn.Module("Recurrent")
function Recurrent:init()
  self.lstm, self.head = nn.LSTM(4, 6), nn.Linear(6, 3)
end
function Recurrent:forward(x) return self.head((self.lstm(x))[-1]) end
function models.lstm() return Recurrent(), rs.randn({ 5, 4, 4 }), classes(4) end

local Block = nn.Module("Block")
function Block:init()
  self.layer = nn.TransformerEncoderLayer(8, 2, { dim_feedforward = 16, batch_first = true })
  self.head = nn.Linear(8, 3)
end
function Block:forward(x) return self.head(self.layer(x):mean(1)) end
function models.transformer() return Block(), rs.randn({ 4, 5, 8 }), classes(4) end

local net, x, y = models[arg[1]]()
local rate = arg[3] == "Adam" and { lr = 0.001 } or { lr = 0.01, momentum = 0.9 }
local opt, criterion = optim[arg[3]](net:parameters(), rate), nn.CrossEntropyLoss()

local function step(input, labels)
  opt:zero_grad()
  local loss = criterion(net(input), labels)
  loss:backward()
  opt:step()
end

local steps = math.tointeger(arg[2])
if arg[4] == "loader" then
  local loader = data.DataLoader(data.TensorDataset(x, y), { batch_size = 2, shuffle = true })
  for _ = 1, steps do
    for input, labels in loader do step(input, labels) end
  end
else
  for _ = 1, steps do step(x, y) end
end
