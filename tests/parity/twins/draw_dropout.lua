local rs = require "ringside"
local nn = rs.nn
local F = nn.functional
rs.lesson { title = "Twin of draw_dropout.py", devices = 1, prefix = "" }

local function show(name, t)
  local words = { name }
  for _, value in ipairs(t:detach():flatten():tolist()) do words[#words + 1] = ("%.9g"):format(value) end
  print(table.concat(words, " ") .. " " .. ("%.9g"):format(rs.rand({ 1 }):item()))
end
local function tensor(...)
  local n = 1
  for _, size in ipairs { ... } do n = n * size end
  return ((rs.arange(n):float() - n // 2 + 0.25) / 8):reshape { ... }
end

rs.manual_seed(3)
show("transposed=", F.dropout(tensor(4, 5):t(), 0.3))
show("permuted=", F.dropout(tensor(2, 3, 4):permute { 1, 2, 0 }, 0.5))
show("channels_last=", F.dropout(tensor(2, 4, 4, 3):permute { 0, 3, 1, 2 }, 0.2))
show("slice=", F.dropout(tensor(5, 6)[{ rs.slice(), rs.slice(nil, nil, 2) }], 0.4))
show("slice_transposed=", F.dropout(tensor(5, 6)[{ rs.slice(nil, nil, 2) }]:t(), 0.4))
show("expanded=", F.dropout(tensor(3, 1):expand { 3, 4 }, 0.5))
show("alpha=", F.alpha_dropout(tensor(4, 3):t(), 0.4, true))
show("channels=", F.dropout2d(tensor(3, 2, 2, 2):transpose(0, 1), 0.5))
for _, dtype in ipairs { "float16", "bfloat16", "float64" } do
  for _, p in ipairs { 0.1, 0.3, 0.5, 0.9 } do show("dropout=", F.dropout(tensor(3, 8):to(dtype), p)) end
  show("alpha=", F.alpha_dropout(tensor(12):to(dtype), 0.3, true))
end
local x = tensor(4, 5):requires_grad_()
local out = F.dropout(x:t(), 0.6)
;(out * out):sum():backward()
show("grad=", x.grad)
show("rand_like=", rs.rand_like(tensor(3, 4):t()))
show("randn_like=", rs.randn_like(tensor(6, 4):t()))
for _, batch_first in ipairs { false, true } do
  rs.manual_seed(11)
  local block = nn.TransformerEncoderLayer(8, 2, 12, 0.3, { batch_first = batch_first })
  show("block", block(tensor(3, 4, 8) / 40))
  local lstm = nn.LSTM(5, 4, 2, { dropout = 0.4, batch_first = batch_first, bidirectional = true })
  show("lstm", (lstm(tensor(3, 2, 5))))
end
