-- Weights travel both ways as safetensors files: tied ones, buffers and all. Runs before and after its twin.
local rs = require "ringside"
local nn = rs.nn
rs.lesson { title = "weights", devices = 0 }
local folder, after = rs.args[1], rs.args[2] == "after"
local Tied = nn.Module("Tied")
function Tied:init()
  self.embed = nn.Embedding(7, 4)
  self.norm = nn.BatchNorm1d(4)
  self.lstm = nn.LSTM(4, 4, { batch_first = true })
  self.head = nn.Linear(4, 7, { bias = false })
  self.head.weight = self.embed.weight
end
function Tied:forward(x)
  local out = self.lstm(self.norm(self.embed(x):transpose(1, 2)):transpose(1, 2))
  return self.head(out)
end
local function show(name, t)
  local words = { name }
  for _, value in ipairs(t:detach():reshape(-1):tolist()) do words[#words + 1] = string.format("%.9g", value) end
  print(table.concat(words, " "))
end
local x = rs.tensor { { 1, 2, 3 }, { 6, 0, 5 } }
rs.manual_seed(8)
local net = Tied()
net(x)
net:eval()
if not after then rs.save(net:state_dict(), folder .. "/ours.safetensors") return end
print("names " .. table.concat(net:state_names(), " "))
local other = Tied()
other:load_state_dict(rs.load(folder .. "/theirs.safetensors"))
other:eval()
show("theirs", other(x))
show("ours", net(x))
