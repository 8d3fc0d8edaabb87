-- Lesson 01's model: weights to the bit, outputs and gradients through four devices.
local rs = require "ringside"
local nn = rs.nn
rs.lesson { title = "lesson 01", devices = 4, seed = 1 }
local embedding, rnn = nn.Embedding(1000, 10), nn.Linear(10, 10)
local net = nn.Sequential { embedding, rnn }
net:to("device:0")
local out = nn.DataParallel(net)(rs.tensor { 1, 2, 3, 4, 5, 6 })
out:sum():backward()
local function words(t)
  local list = {}
  for _, value in ipairs(t:detach():reshape(-1):tolist()) do list[#list + 1] = string.format("%.9g", value) end
  return table.concat(list, " ")
end
local function show(name, t) print(name .. " " .. words(t)) end
local digest = 0
for byte in words(embedding.weight):gmatch(".") do digest = (digest * 31 + byte:byte()) % 2147483647 end
print("embedding.weight.digest= " .. digest)
show("embedding.weight=", embedding.weight:narrow(0, 0, 8))
show("rnn.weight=", rnn.weight)
show("rnn.bias=", rnn.bias)
show("out", out)
show("rnn.weight.grad", rnn.weight.grad)
show("embedding.weight.grad", embedding.weight.grad:narrow(0, 0, 8))
