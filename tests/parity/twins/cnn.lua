-- A CNN with BatchNorm and Adam; then the running statistics in evaluation.
local rs = require "ringside"
local nn, optim = rs.nn, rs.optim
rs.lesson { title = "cnn", devices = 0 }
local function show(name, t)
  local words = { name }
  for _, value in ipairs(t:detach():reshape(-1):tolist()) do words[#words + 1] = string.format("%.9g", value) end
  print(table.concat(words, " "))
end
rs.manual_seed(11)
local net = nn.Sequential { nn.Conv2d(2, 6, 3, { padding = 1, bias = false }), nn.BatchNorm2d(6), nn.ReLU(),
  nn.MaxPool2d(2), nn.Conv2d(6, 4, 3, { stride = 2, groups = 2, bias = false }), nn.BatchNorm2d(4, { momentum = 0.3 }),
  nn.ReLU(), nn.Flatten(), nn.Linear(4, 5) }
local x, y = rs.randn { 24, 2, 8, 8 }, rs.randint(0, 5, { 24 })
local opt = optim.Adam(net:parameters(), { lr = 0.01, betas = { 0.8, 0.95 }, amsgrad = true })
for _ = 1, 20 do
  opt:zero_grad()
  local loss = nn.functional.cross_entropy(net(x), y)
  loss:backward()
  opt:step()
  print("loss", string.format("%.9g", loss:item()))
end
net:eval()
show("eval", net(x:narrow(0, 0, 3)))
for name, b in net:named_buffers() do show(name, b:to("float32")) end
