-- An MLP with SGD, Nesterov's momentum and weight decay.
local rs = require "ringside"
local nn, optim = rs.nn, rs.optim
rs.lesson { title = "mlp", devices = 0 }
rs.manual_seed(3)
local net = nn.Sequential { nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 3) }
local x, y = rs.randn { 40, 6 }, rs.randint(0, 3, { 40 })
local opt = optim.SGD(net:parameters(), { lr = 0.1, momentum = 0.9, weight_decay = 0.01, nesterov = true })
for _ = 1, 30 do
  opt:zero_grad()
  local loss = nn.functional.cross_entropy(net(x), y)
  loss:backward()
  opt:step()
  print("loss", string.format("%.9g", loss:item()))
end
for name, p in net:named_parameters() do
  local words = { name }
  for _, value in ipairs(p:detach():reshape(-1):tolist()) do words[#words + 1] = string.format("%.9g", value) end
  print(table.concat(words, " "))
end
