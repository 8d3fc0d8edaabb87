-- A little of everything: words of a lesson, data loading, DataParallel on four devices, ranks with DistributedDataParallel,
-- hooks, closures of Lua in autograd, questions to the trace. Whoever runs this under a failing allocator must fail or be right.
local rs = require "ringside"
local nn, optim, dist, data = rs.nn, rs.optim, rs.distributed, rs.utils.data
rs.lesson { title = "A little of everything", devices = 4, seed = 3 }

rs.say "Words of the lesson, with a number: {1}."
rs.ask { "How many rows has each device?", choices = { "1", "2" }, answer = "2", why = "Eight rows, four devices." }

-- Data, a loader with a collate function, a sampler of its own.
local set = data.TensorDataset(rs.randn(10, 3), rs.arange(10))
local loader = data.DataLoader(set, { batch_size = 4, shuffle = true })
local seen = 0
for images, labels in loader do seen = seen + images:size(0) + labels:numel() end
rs.check("the loader serves each row once", seen == 20)

-- DataParallel.
local Net = nn.Module("Net")
function Net:init()
  self.one, self.two = nn.Linear(3, 5), nn.Linear(5, 2)
  self:register_buffer("calls", rs.zeros(1))
end
function Net:forward(x) return self.two(self.one(x):relu()) end

local net = Net():to("device:0")
local calls, gradients = 0, 0
net:register_forward_hook(function() calls = calls + 1 end)
net.one.weight:register_hook(function(gradient) gradients = gradients + 1 return gradient * 1 end)
local parallel = nn.DataParallel(net, { device_ids = { 0, 1, 2, 3 } })
parallel(rs.ones({ 8, 3 }, { device = "device:0" })):sum():backward()
rs.check("each replica calls the hook, the gradient comes once", calls == 4 and gradients == 1)
rs.check("the batch goes to four devices", rs.trace:count { kind = "dp.scatter.chunk" } == 4)

-- Ranks.
local function train(rank, rows)
  rs.manual_seed(1)
  local model = Net()
  local ddp = nn.parallel.DistributedDataParallel(model, { bucket_cap_mb = 0.0001 })
  local opt = optim.Adam(ddp:parameters(), { lr = 0.1 })
  local x, y = rows + rank, rs.tensor { 0, 1 }
  for _ = 1, 2 do
    opt:zero_grad()
    nn.functional.cross_entropy(ddp(x), y):backward()
    opt:step()
  end
  local parts = {}
  for i = 0, 1 do parts[i + 1] = rs.zeros(2) end
  dist.all_gather(parts, rs.tensor { rank + 0.0, 1 })
  rs.say("rank " .. rank .. " is done")
  return { model.two.bias:tolist(), parts[2][0]:item() }
end
local answers = dist.spawn(train, { args = { rs.ones(2, 3) }, world = 2 })
rs.close("both ranks learn the same", answers[0][1], answers[1][1], 1e-6)
rs.check("they know each other", answers[0][2] == 1)

-- The trace, and texts.
local begins = rs.trace:events { kind = "c10d.allreduce", phase = "begin" }
local words = {}
for i, event in ipairs(begins) do words[i] = ("%d:%s"):format(event.rank, event.kind:gsub("c10d%.", "")) end
rs.check("each all-reduce is in the trace", #words >= 4 and table.concat(words, " "):find("1:allreduce") ~= nil)
rs.check("an error has a kind", not pcall(function() return rs.zeros(2) + rs.zeros(3) end))
