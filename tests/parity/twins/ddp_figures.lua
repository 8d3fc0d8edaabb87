-- Figures of the lessons about no_sync, BatchNorm, gradients as views of their bucket, and static graphs.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
rs.lesson { title = "figures", devices = 2 }

-- How many events of each kind a rank adds while f runs.
local function counted(rank, f, ...)
  local seq, counts = rs.trace:seq(), {}
  f()
  for i, kind in ipairs { ... } do
    counts[i] = rs.trace:count(("%s and rank %d and seq >= %d"):format(kind, rank, seq))
  end
  return table.unpack(counts)
end

local WAYS = {
  { "nothing", function(ddp, x) ddp(x):sum():backward() end },
  { "both", function(ddp, x) ddp:no_sync(function() ddp(x):sum():backward() end) end },
  { "backward", function(ddp, x)
    local loss = ddp(x):sum()
    ddp:no_sync(function() loss:backward() end)
  end },
  { "forward", function(ddp, x) ddp:no_sync(function() return ddp(x):sum() end):backward() end },
}

local function accumulate(rank, way)
  local ddp = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
  local sent = counted(rank, function()
    for i = 0, 3 do (i < 3 and way or WAYS[1][2])(ddp, rs.full({ 1, 4 }, 4.0 * rank + i)) end
  end, "c10d.allreduce")
  return { sent, ddp.module.weight.grad[{ 0, 0 }]:item(), ddp.module.bias.grad[0]:item() }
end

local function past_ddp(rank)
  local ddp = nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
  local sent = counted(rank, function() ddp.module(rs.full({ 1, 1 }, rank + 1.0)):sum():backward() end, "c10d")
  return { sent, ddp.module.weight.grad:item() }
end

local function append(list, tensor)
  for _, number in ipairs(tensor:flatten():tolist()) do list[#list + 1] = number end
end

local function batch_norm(rank)
  local norm, told = nn.BatchNorm1d(1), {}
  local ddp = nn.parallel.DistributedDataParallel(norm)
  local x = rs.tensor(rank == 0 and { { 0.0 }, { 2.0 } } or { { 4.0 }, { 10.0 } })
  for _ = 1, 2 do
    ddp:zero_grad()
    local out = ddp(x)
    local loss = (out * x):sum()
    loss:backward()
    for _, tensor in ipairs { norm.running_mean, norm.running_var, norm.weight.grad, out } do append(told, tensor) end
  end
  local out = ddp:eval()(x)
  append(told, norm.running_mean)
  append(told, out)
  return told
end

-- Of three iterations: storages behind the gradients, their offsets, gradients scaled into the bucket, copies out of it.
-- Kernels are recorded on devices alone.
local function views(rank, view, set_to_none)
  local device, told = "device:" .. rank, {}
  rs.manual_seed(3)
  local net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)):to(device)
  local ddp = nn.parallel.DistributedDataParallel(net, { gradient_as_bucket_view = view })
  for i = 0, 2 do
    ddp:zero_grad { set_to_none = set_to_none }
    local scaled, copied = counted(rank, function()
      ddp(rs.full({ 1, 4 }, i + rank + 1.0):to(device)):sum():backward()
    end, "kernel and op = mul_scalar", "ddp.copy_bucket_to_grad")
    local storages, seen, offsets = 0, {}, {}
    for k, p in ipairs(net:parameters()) do
      local id = p.grad:storage_id()
      if not seen[id] then storages, seen[id] = storages + 1, true end
      offsets[k] = p.grad:storage_offset()
    end
    told[#told + 1] = storages
    table.move(offsets, 1, #offsets, #told + 1, told)
    table.move({ scaled, copied, net[0].weight.grad[{ 0, 0 }]:item() }, 1, 3, #told + 1, told)
  end
  return told
end

local Branches = nn.Module("Branches")
function Branches:init()
  for _, name in ipairs { "a", "b", "c" } do self[name] = nn.Linear(2, 2) end
end
function Branches:forward(x, branch) return self[branch](x) end

-- All-reduces of each iteration, -1 where its forward and -2 where its backward fails; then which gradients there are.
local function walk(rank, branches, options)
  local ddp, told = nn.parallel.DistributedDataParallel(Branches(), options), {}
  for branch in branches:gmatch "." do
    ddp:zero_grad()
    local where = -1
    local went, sent = pcall(counted, rank, function()
      local loss = ddp(rs.full({ 1, 2 }, rank + 1.0), branch):sum()
      where = -2
      loss:backward()
    end, "c10d.allreduce")
    told[#told + 1] = went and sent or where
    if not went then break end
  end
  for _, p in ipairs(ddp:parameters()) do told[#told + 1] = p.grad and 1 or 0 end
  return told
end

local ranks = dist.spawn(function(rank)
  local lines = {}
  local function line(name, numbers)
    for i, number in ipairs(numbers) do numbers[i] = string.format("%.9g", number) end
    lines[#lines + 1] = "rank" .. rank .. "-" .. name .. " " .. table.concat(numbers, " ")
  end
  for _, way in ipairs(WAYS) do line("no_sync-around-" .. way[1], accumulate(rank, way[2])) end
  line("past-ddp", past_ddp(rank))
  line("batch-norm", batch_norm(rank))
  for view = 0, 1 do
    for none = 1, 0, -1 do line(("view-%d-none-%d"):format(view, none), views(rank, view == 1, none == 1)) end
  end
  line("find-unused", walk(rank, "aaa", { find_unused_parameters = true }))
  line("static", walk(rank, "aaa", { static_graph = true }))
  line("static-changes", walk(rank, "ab", { static_graph = true }))
  line("static-changes-late", walk(rank, "aaab", { static_graph = true }))
  return lines
end, { world = 2 })
for rank = 0, 1 do
  for _, text in ipairs(ranks[rank]) do print(text) end
end
