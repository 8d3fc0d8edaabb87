-- A DataLoader that shuffles, and dropout, epoch after epoch from one seed.
local rs = require "ringside"
local nn, optim, data = rs.nn, rs.optim, rs.utils.data
rs.lesson { title = "loader", devices = 0 }
rs.manual_seed(21)
local x, y = rs.randn { 53, 5 }, rs.randint(0, 2, { 53 })
local train, rest = table.unpack(data.random_split(data.TensorDataset(x, y), { 45, 8 }))
print("split " .. table.concat(rest.indices, " "))
local loader = data.DataLoader(train, { batch_size = 10, shuffle = true, drop_last = true })
local net = nn.Sequential { nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 2) }
local opt = optim.SGD(net:parameters(), { lr = 0.2 })
for _ = 1, 3 do
  for a, b in loader do
    local hidden = net[1](net[0](a))
    local mask = rs.bernoulli(rs.full({ 10, 12 }, 0.75)) / 0.75
    opt:zero_grad()
    local loss = nn.functional.cross_entropy(net[2](hidden * mask), b)
    loss:backward()
    opt:step()
    print("batch " .. string.format("%.9g", loss:item()) .. " " .. table.concat(b:tolist(), " "))
  end
end
