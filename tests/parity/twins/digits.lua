-- One epoch on the digits, alone.
local rs = require "ringside"
local nn, optim, data = rs.nn, rs.optim, rs.utils.data
rs.lesson { title = "digits", devices = 0 }
local x, y = rs.data.digits { split = "train" }
rs.manual_seed(17)
local net = nn.Sequential { nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10) }
local opt = optim.SGD(net:parameters(), { lr = 0.1, momentum = 0.9 })
for a, b in data.DataLoader(data.TensorDataset(x, y), { batch_size = 64, shuffle = true }) do
  opt:zero_grad()
  local loss = nn.functional.cross_entropy(net(a), b)
  loss:backward()
  opt:step()
  print("loss", string.format("%.9g", loss:item()))
end
