-- BatchNorm's buffers: two forwards and then one backward; what construction and forwards send to the other ranks.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
rs.lesson { title = "buffers", devices = 0 }

local CASES = { { "default" }, { "broadcast", { broadcast_buffers = true } }, { "local", { broadcast_buffers = false } },
  { "forwards-local", { forward_sync_buffers = false } },
  { "newer-wins", { broadcast_buffers = false, forward_sync_buffers = true } } }

local function two_forwards(rank, options)
  local net = nn.BatchNorm1d(1)
  local ddp = nn.parallel.DistributedDataParallel(net, options)
  local version = net.running_mean._version
  local x = rs.arange(4.0):reshape { 4, 1 } + rank
  local loss = (ddp(x) * x):sum() + (ddp(x + 1) * x):sum()
  loss:backward()
  return { net.running_mean:item(), net.running_var:item(), net.weight.grad:item(), net.num_batches_tracked:item(),
    net.running_mean._version - version }
end

local function after_construction(rank, options)
  local net = nn.BatchNorm1d(1)
  net.running_mean:fill_(rank + 1)
  rs.no_grad(function() net.weight:fill_(rank + 1) end)
  nn.parallel.DistributedDataParallel(net, options)
  return { net.running_mean:item(), net.weight:item() }
end

local function changed_by_hand()
  local net = nn.BatchNorm1d(1)
  local loss = net(rs.arange(4.0):reshape { 4, 1 }):sum()
  net.running_mean:copy_(rs.ones { 1 })
  local ok, err = pcall(loss.backward, loss)
  return not ok and err.message:find("modified by an inplace operation", 1, true) ~= nil
end

local ranks = dist.spawn(function(rank)
  local lines = {}
  local function line(name, numbers)
    for i, number in ipairs(numbers) do numbers[i] = string.format("%.9g", number) end
    lines[#lines + 1] = "rank" .. rank .. "-" .. name .. " " .. table.concat(numbers, " ")
  end
  for _, case in ipairs(CASES) do
    line(case[1] .. "-forwards", two_forwards(rank, case[2]))
    line(case[1] .. "-construction", after_construction(rank, case[2]))
  end
  line("copy-raises", { changed_by_hand() and 1 or 0 })
  return lines
end, { world = 2 })
for rank = 0, 1 do
  for _, text in ipairs(ranks[rank]) do
    print(text)
  end
end
