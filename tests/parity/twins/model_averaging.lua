-- When averagers average, among whom, and what they refuse; and the optimizer that is wrapped in one.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
local averagers, utils = dist.algorithms.model_averaging.averagers, dist.algorithms.model_averaging.utils
local Hierarchical = dist.algorithms.model_averaging.hierarchical_model_averager.HierarchicalModelAverager
local local_sgd = dist.algorithms.ddp_comm_hooks.post_localSGD_hook
rs.lesson { title = "model averaging", devices = 0 }

local function numbers(name, t)
  local out = { name }
  for _, value in ipairs(t:detach():flatten():tolist()) do out[#out + 1] = string.format("%.9g", value) end
  return table.concat(out, " ")
end

-- Period 1 and its like are allowed, with a warning.
local WARNED = { ["period-1"] = 1, ["levels-1"] = 1 }

local function work(rank)
  local lines = {}
  local function say(...) lines[#lines + 1] = string.format(...) end

  local function refuses(name, make, ...)
    local ok, e = pcall(make, ...)
    say("%s= %s", name, ok and "ok " .. (WARNED[name] or 0) or e.kind)
  end

  local Periodic = averagers.PeriodicModelAverager
  refuses("period-0", Periodic, 0)
  refuses("period--1", Periodic, -1)
  refuses("period-1", Periodic, 1)
  refuses("period-4", Periodic, 4)
  refuses("warmup--1", Periodic, 4, -1)
  refuses("abstract", averagers.ModelAverager)
  refuses("levels-none", Hierarchical)
  refuses("levels-empty", Hierarchical, { period_group_size_dict = {} })
  refuses("levels-0", Hierarchical, { period_group_size_dict = { [0] = 4 } })
  refuses("levels-last", Hierarchical, { period_group_size_dict = { [2] = 2 } })
  refuses("levels-odd", Hierarchical, { period_group_size_dict = { [2] = 3, [4] = 4 } })
  refuses("levels-1", Hierarchical, { period_group_size_dict = { [1] = 4 } })
  refuses("levels-warmup", Hierarchical, { period_group_size_dict = { [2] = 4 }, warmup_steps = -1 })
  refuses("params-tensor", utils.get_params_to_average, { rs.ones { 1 } })
  refuses("params-number", utils.get_params_to_average, { 1 })
  refuses("nothing", utils.average_parameters, {})

  local function trace(name, averager, steps)
    local p = nn.Parameter(rs.zeros { 2 })
    p.grad = rs.zeros { 2 }
    for step = 0, steps - 1 do
      rs.no_grad(function() p:fill_(rank) end)
      averager:average_parameters { p }
      lines[#lines + 1] = numbers(("%s-%d-%d"):format(name, step, rank), p)
    end
    say("%s-step= %d", name, averager.step)
  end

  trace("periodic", Periodic(3, 4), 12)
  trace("every", Periodic(1), 2)
  trace("levels", Hierarchical { period_group_size_dict = { [2] = 2, [4] = 4 }, warmup_steps = 3 }, 12)
  trace("one-level", Hierarchical { period_group_size_dict = { [3] = 4 }, warmup_steps = 2 }, 8)
  local group = dist.new_group { 0, 2 }
  if rank % 2 == 0 then trace("group", Periodic(2, 0, group), 4) end

  local function train(name, make, hook, resume)
    rs.manual_seed(1)
    local net = nn.Linear(3, 2)
    local ddp = nn.parallel.DistributedDataParallel(net)
    if hook then
      local subgroup = dist.new_subgroups(2)
      ddp:register_comm_hook(local_sgd.PostLocalSGDState(nil, subgroup, 4), local_sgd.post_localSGD_hook)
    end
    local optimizer = dist.optim.PostLocalSGDOptimizer(rs.optim.SGD(net:parameters(), { lr = 0.1, momentum = 0.9 }), make())
    rs.manual_seed(rank)
    for step = 0, 9 do
      if step == resume then
        local state = optimizer:state_dict()
        optimizer = dist.optim.PostLocalSGDOptimizer(rs.optim.SGD(net:parameters(), { lr = 0.3 }), make())
        optimizer:load_state_dict(state)
      end
      optimizer:zero_grad()
      ddp(rs.randn { 4, 3 }):pow(2):mean():backward()
      optimizer:step()
      lines[#lines + 1] = numbers(("%s-%d-%d"):format(name, step, rank), rs.cat { net.weight:flatten(), net.bias })
    end
    local state, keys = optimizer:state_dict(), {}
    for key in pairs(state) do keys[#keys + 1] = key end
    table.sort(keys)
    say("%s-state= %d %s", name, state.step, table.concat(keys, " "))
  end

  train("post-periodic", function() return Periodic(3, 4) end, true)
  train("post-levels", function()
    return Hierarchical { period_group_size_dict = { [2] = 2, [4] = 4 }, warmup_steps = 4 }
  end, true)
  train("post-resumed", function() return Periodic(3, 4) end, true, 6)
  train("post-plain", function() return Periodic(3, 4) end, false)
  return lines
end

local ranks = dist.spawn(work, { world = 4 })
for rank = 0, 3 do
  for _, line in ipairs(ranks[rank]) do print(line) end
end
