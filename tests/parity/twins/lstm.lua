-- A classifier of packed sequences: embedding, two LSTM layers both ways, clipped gradients, Adam.
local rs = require "ringside"
local nn, optim = rs.nn, rs.optim
rs.lesson { title = "lstm", devices = 0 }
rs.manual_seed(5)
local Classifier = nn.Module("Classifier")
function Classifier:init()
  self.embed = nn.Embedding(20, 6, { padding_idx = 0 })
  self.lstm = nn.LSTM(6, 7, { num_layers = 2, bidirectional = true, batch_first = true })
  self.head = nn.Linear(14, 3)
end
function Classifier:forward(x, lengths)
  local packed = nn.utils.rnn.pack_padded_sequence(self.embed(x), lengths,
    { batch_first = true, enforce_sorted = false })
  local _, state = self.lstm(packed)
  local h = state[1]
  return self.head(rs.cat({ h[-2], h[-1] }, 1))
end
local net = Classifier()
local x, y, lengths = rs.randint(1, 20, { 10, 8 }), rs.randint(0, 3, { 10 }), { 8, 3, 5, 1, 8, 7, 2, 6, 4, 5 }
for row, length in ipairs(lengths) do
  for at = length, 7 do x[{ row - 1, at }] = 0 end
end
local opt = optim.Adam(net:parameters(), { lr = 0.02 })
for _ = 1, 20 do
  opt:zero_grad()
  local loss = nn.functional.cross_entropy(net(x, lengths), y)
  loss:backward()
  local norm = nn.utils.clip_grad_norm_(net:parameters(), 0.5)
  opt:step()
  print("loss", string.format("%.9g", loss:item()), string.format("%.9g", norm:item()))
end
