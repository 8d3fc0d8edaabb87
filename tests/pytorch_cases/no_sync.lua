-- What PyTorch's own tests ask of no_sync. T: rows of the common list; D: further tests of the same files, other
-- worlds, orders and options.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
local F, DDP = nn.functional, nn.parallel.DistributedDataParallel

rs.lesson { title = "PyTorch cases: no_sync", seed = 1, prefix = "" }

-- ---- words for checks ----

-- f(rank, check) on each rank; what ranks check under one name is one check here. An error fails the row, not the
-- file.
local function row(id, world, f)
  local ok, by_rank = pcall(dist.spawn, function(rank)
    local checks = {}
    f(rank, function(name, held) checks[#checks + 1] = { name, held and true or false } end)
    return checks
  end, { world = world })
  if not ok then
    rs.check(id .. " runs to its end: " .. tostring(by_rank):match("[^\n]*"), false)
    return
  end
  local names, held = {}, {}
  for rank = 0, world - 1 do
    for _, check in ipairs(by_rank[rank]) do
      if held[check[1]] == nil then names[#names + 1] = check[1] end
      held[check[1]] = held[check[1]] ~= false and check[2]
    end
  end
  for _, name in ipairs(names) do rs.check(name, held[name]) end
end

local function near(a, b) return rs.allclose(a:detach(), b:detach(), { atol = 1e-5, rtol = 1e-5 }) end
local function seeded(seed, make, ...)
  rs.manual_seed(seed)
  return make(...)
end
local function rows(t, from, count) return t[rs.slice(from, from + count)] end
local function same_on_all(t)
  local list = dist.all_gather({}, t:detach():contiguous())
  for i = 2, #list do
    if not rs.equal(list[1], list[i]) then return false end
  end
  return true
end

-- "all" where every gradient is the other's, "none" where none is, "some" between.
local function alike(a, b)
  local list, equal, count = b:parameters(), 0, 0
  for i, p in ipairs(a:parameters()) do
    if p.requires_grad then
      count = count + 1
      if p.grad and list[i].grad and near(p.grad, list[i].grad) then equal = equal + 1 end
    end
  end
  return equal == count and "all" or equal == 0 and "none" or "some"
end

local BOTH = { false, true }

local Net = nn.Module "Net"
function Net:init()
  self.fc1 = nn.Linear(2, 10, { bias = false })
  self.fc2 = nn.Linear(10, 50)
  self.fc3 = nn.Linear(50, 4, { bias = false })
  self.fc2.bias:requires_grad_(false)
end
function Net:forward(x) return F.softmax(self.fc3(F.relu(self.fc2(F.relu(self.fc1(x))))), 1) end

-- ---- hooks that leave the gradients as they would be ----

local function averages(group, bucket)
  local t = bucket:buffer() / dist.get_world_size()
  return dist.all_reduce(t,
    { group = group, async_op = true }):get_future():then_(function(future) return future:value()[1] end)
end
local function doubles_and_halves(group, bucket)
  local t = bucket:buffer() / dist.get_world_size()
  return dist.all_reduce(t,
    { group = group, async_op = true }):get_future():then_(function(future) return future:value()[1] * 2 end)
    :then_(function(future) return future:value() / 2 end)
end

-- Iterations in turn inside and outside of no_sync, a row a rank; `check` hears of each kind.
local function accumulates(rank, world, options, iterations, hook)
  local plain, ddp = seeded(3, Net), DDP(seeded(3, Net), options)
  if hook then ddp:register_comm_hook(dist.group.WORLD, hook) end
  local x, y = seeded(4, rs.randn, world, 2), rs.randn(world, 4)
  local function iteration(model, input, target) F.mse_loss(model(input), target):backward() end
  rs.no_grad(function()
    ddp:no_sync(function() ddp(x) end)
  end)
  local inside, outside = true, true
  for i = 0, iterations - 1 do
    local mine, wanted = rows(x, rank, 1), rows(y, rank, 1)
    iteration(plain, x, y)
    if i % 2 == 0 then
      ddp:no_sync(function() iteration(ddp, mine, wanted) end)
      inside = inside and alike(plain, ddp) == "none"
    else
      iteration(ddp, mine, wanted)
      outside = outside and alike(plain, ddp) == "all"
    end
    x = x[seeded(1337 + i, rs.randperm, world)]
  end
  return inside, outside
end

for _, world in ipairs { 2, 3, 4 } do
  row("T268", world, function(rank, check)
    for _, view in ipairs(BOTH) do
      for _, find in ipairs(BOTH) do
        local id = (view or find or world > 2) and "D268" or "T268"
        local tail = (", %d ranks%s%s"):format(world, view and ", with views" or "", find and ", with a search" or "")
        local inside,
          outside = accumulates(rank, world, { gradient_as_bucket_view = view, find_unused_parameters = find }, 2)
        check(id .. " inside of no_sync gradients differ from one process" .. tail, inside)
        check(id .. " the iteration after it reduces the sum of both" .. tail, outside)
        inside, outside = accumulates(rank, world, { gradient_as_bucket_view = view, find_unused_parameters = find,
          bucket_cap_mb = 0.0001 }, 6)
        check("D268 six iterations, small buckets" .. tail, inside and outside)
      end
    end
  end)
  row("T270", world, function(rank, check)
    for _, view in ipairs(BOTH) do
      local id = (view or world > 2) and "D270" or "T270"
      local tail = (", %d ranks%s"):format(world, view and ", with views" or "")
      local inside, outside = accumulates(rank, world, { gradient_as_bucket_view = view }, 4, averages)
      check(id .. " so it is with a hook that divides and all-reduces" .. tail, inside and outside)
      inside, outside = accumulates(rank, world, { gradient_as_bucket_view = view }, 4, doubles_and_halves)
      check("D271 and one whose future goes on to others" .. tail, inside and outside)
    end
  end)
end

-- ---- orders ----

local function one() return nn.Linear(1, 1, { bias = false }) end
local function run(ddp, rank) return ddp(rs.full({ 1, 1 }, rank + 1.0)):sum() end
local function grad(ddp) return ddp.module.weight.grad and ddp.module.weight.grad:item() end

row("D272", 2, function(rank, check)
  local mine = rank + 1.0
  for _, view in ipairs(BOTH) do
    local options = { gradient_as_bucket_view = view }
    local ddp, loss = DDP(one(), options), nil
    ddp:no_sync(function() loss = run(ddp, rank) end)
    loss:backward()
    check("D272 the forward decides: inside, with its backward outside, nothing is reduced", grad(ddp) == mine)
    ddp = DDP(one(), options)
    loss = run(ddp, rank)
    ddp:no_sync(function() loss:backward() end)
    check("D272 outside, with its backward inside, it is", grad(ddp) == 1.5)
    ddp = DDP(one(), options)
    ddp:no_sync(function()
      ddp:no_sync(function() run(ddp, rank):backward() end)
      run(ddp, rank):backward()
    end)
    check("D272 one in another ends with the outer one", grad(ddp) == 2 * mine)
    run(ddp, rank):backward()
    check("D272 what both accumulated is reduced then", grad(ddp) == 4.5)
    ddp = DDP(one(), options)
    local ok = pcall(ddp.no_sync, ddp, function() rs.error("ValueError", "out of it") end)
    run(ddp, rank):backward()
    check("D272 an error inside ends it", not ok and grad(ddp) == 1.5)
    ddp = DDP(one(), options)
    check("D272 it hands on what its function answers", ddp:no_sync(function() return 7 end) == 7)
    for _ = 1, 3 do
      ddp:no_sync(function() run(ddp, rank):backward() end)
    end
    check("D272 three iterations inside and nothing outside stay each rank's own", grad(ddp) == 3 * mine)
    ddp:zero_grad()
    run(ddp, rank):backward()
    check("D272 zeroed gradients take nothing along", grad(ddp) == 1.5)
  end
end)

row("D273", 2, function(rank, check)
  local ddp = DDP(one())
  local kind = { kind = "ddp.all_reduce_bucket", rank = rank }
  local before = rs.trace:count(kind)
  ddp:no_sync(function()
    for _ = 1, 4 do run(ddp, rank):backward() end
  end)
  local inside = rs.trace:count(kind) - before
  run(ddp, rank):backward()
  check("D273 four iterations inside start no collective, the one after them one", inside == 0
    and rs.trace:count(kind) - before == 1)
end)

for _, world in ipairs { 2, 4 } do
  row("D274", world, function(rank, check)
    local class = nn.Module "Conditional"
    function class:init()
      for i = 1, 4 do self["nn" .. i] = nn.Linear(1, 1) end
      self.second = false
    end
    function class:forward(x)
      local layer = self["nn" .. (self.second and 2 or 1) + (rank == 0 and 0 or 2)]
      self.second = not self.second
      return layer(x)
    end
    for _, view in ipairs(BOTH) do
      local ddp = DDP(seeded(1, class), { find_unused_parameters = true, gradient_as_bucket_view = view })
      local function iteration() F.mse_loss(ddp(rs.full({ 1 }, rank + 0.5)), rs.zeros(1)):backward() end
      ddp:no_sync(iteration)
      iteration()
      local ok = true
      for _, p in ipairs(ddp:parameters()) do ok = p.grad ~= nil and same_on_all(p.grad) and ok end
      check(("D274 branches that only a no_sync used are averaged with the rest, %d ranks"):format(world), ok)
    end
  end)
end
