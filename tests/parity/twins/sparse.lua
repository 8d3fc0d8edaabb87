-- An embedding whose gradient is sparse, in a group of its own, with momentum.
local rs = require "ringside"
local nn, optim = rs.nn, rs.optim
rs.lesson { title = "sparse", devices = 0 }
rs.manual_seed(9)
local embed, head = nn.Embedding(50, 4, { sparse = true }), nn.Linear(4, 1)
local groups = { { params = embed:parameters() }, { params = head:parameters(), lr = 0.05 } }
local opt = optim.SGD(groups, { lr = 0.5, momentum = 0.9 })
for _ = 1, 12 do
  local idx, target = rs.randint(0, 50, { 6, 3 }), rs.randn { 6, 1 }
  opt:zero_grad()
  local loss = nn.functional.mse_loss(head(embed(idx):mean(1)), target)
  loss:backward()
  opt:step()
  print("loss", string.format("%.9g", loss:item()))
  local looked, rows = {}, {}
  for _, row in ipairs(idx:reshape(-1):tolist()) do looked[row] = true end
  for _, row in ipairs(embed.weight.grad:coalesce():_indices():reshape(-1):tolist()) do
    if looked[row] then rows[#rows + 1] = row end
  end
  table.sort(rows)
  print("rows " .. table.concat(rows, " "))
end
print("sum", string.format("%.9g", embed.weight:abs():sum():item()))
