-- A causal TransformerEncoder, then a whole Transformer, with AdamW.
local rs = require "ringside"
local nn, optim = rs.nn, rs.optim
rs.lesson { title = "transformer", devices = 0 }
rs.manual_seed(7)
local Model = nn.Module("Model")
function Model:init()
  self.embed = nn.Embedding(12, 8)
  local layer = nn.TransformerEncoderLayer(8, 2, 16,
    { dropout = 0.0, activation = "gelu", batch_first = true, norm_first = true })
  self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8))
  self.both = nn.Transformer(8, 2, 1, 1, 12, { dropout = 0.0, batch_first = true })
  self.head = nn.Linear(8, 12)
end
function Model:forward(x, mask)
  local h = self.encoder(self.embed(x), mask)
  return self.head(self.both(h, h, rs.kw { tgt_mask = mask }))
end
local net = Model()
local x = rs.randint(0, 12, { 6, 9 })
local mask = rs.ones { 8, 8 }:triu(1):to("bool")
local opt = optim.AdamW(net:parameters(), { lr = 0.005, weight_decay = 0.1 })
for _ = 1, 15 do
  opt:zero_grad()
  local out = net(x:narrow(1, 0, 8), mask)
  local loss = nn.functional.cross_entropy(out:reshape { 48, 12 }, x:narrow(1, 1, 8):reshape { 48 })
  loss:backward()
  opt:step()
  print("loss", string.format("%.9g", loss:item()))
end
