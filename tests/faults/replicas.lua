-- Two DataParallel steps on three devices: a sparse embedding, BatchNorm, a batch on the host whose number of rows leaves the
-- last device fewer, on numbers that need no generator. The checks compare with PyTorch's replicate, chunk and sum: whoever
-- runs this under a failing allocator must fail or be right.
local rs = require "ringside"
local nn = rs.nn

rs.lesson { title = "DataParallel steps", devices = 3 }
if arg[1] == "nothing" then return end -- so that a test knows what was allocated before

local function fill(tensor, scale, shift)
  local numbers = rs.arange(tensor:numel(), { dtype = "float32" }):mul(0.7):sin():mul(scale):add(shift)
  rs.no_grad(function() tensor:copy_(numbers:view(tensor.shape)) end)
end

local net = nn.Sequential { nn.Embedding(5, 4, { sparse = true }), nn.BatchNorm1d(4), nn.Linear(4, 3) }
local count = 0
for _, tensor in net:named_parameters() do
  count = count + 1
  fill(tensor, 0.4, count % 3 * 0.3)
end
net:to(0)
local wrapped = nn.DataParallel(net)
local ids, labels = rs.tensor { 0, 2, 1, 4, 2, 3, 1, 0 }, rs.tensor({ 0, 2, 1, 1, 0, 2, 2, 1 }):to(0)
local opt = rs.optim.SGD(net:parameters(), { lr = 0.1 })

local losses = {}
for step = 1, 2 do
  opt:zero_grad()
  local loss = nn.functional.cross_entropy(wrapped(ids), labels)
  loss:backward()
  opt:step()
  losses[step] = loss:item()
end
local first = net[0].weight

rs.close("the losses are PyTorch's", losses, { 1.2818367, 1.2035458 }, 1e-5)
rs.close("the embedding's sparse gradient is applied", first:sum(1):to("cpu"), { 2.2073646, 0.4537686, 1.6616447, 1.2119715, 0.7401131 }, 1e-5)
rs.check("it is sparse", first.grad.is_sparse)
rs.close("the running mean is replica 0's", net[1].running_mean:to("cpu"), { 0.0494850, 0.0651225, 0.0770202, 0.0794284 }, 1e-5)
rs.close("the last layer has learnt", net[2].weight:sum(1):to("cpu"), { 2.2504508, 0.5027463, 1.5083053 }, 1e-5)
