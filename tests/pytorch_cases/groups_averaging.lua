-- What PyTorch's own tests ask of model averagers and of the optimizer around them. T: rows of the common list; A: further
-- cases of the same files. The expected means are worked out here.
local rs = require "ringside"
local nn, dist, optim = rs.nn, rs.distributed, rs.optim
local averaging = dist.algorithms.model_averaging
local averagers, utils = averaging.averagers, averaging.utils
local Hierarchical = averaging.hierarchical_model_averager.HierarchicalModelAverager

rs.lesson { title = "PyTorch cases: model averaging", devices = 4, seed = 1, prefix = "" }

-- f(rank, check) on each rank; what ranks check under one name is one check here.
local function row(world, f)
  local by_rank = dist.spawn(function(rank)
    local checks = {}
    f(rank, function(name, held) checks[#checks + 1] = { name, held and true or false } end)
    return checks
  end, { world = world })
  local names, held = {}, {}
  for rank = 0, world - 1 do
    for _, check in ipairs(by_rank[rank]) do
      if held[check[1]] == nil then names[#names + 1] = check[1] end
      held[check[1]] = held[check[1]] ~= false and check[2]
    end
  end
  for _, name in ipairs(names) do rs.check(name, held[name]) end
end

local function refused(kind, words, f, ...)
  local ok, e = pcall(f, ...)
  return not ok and e.kind == kind and e.message:find(words, 1, true) ~= nil
end

-- A module of one parameter {1, 5} that is `value` everywhere, with a gradient unless `bare`.
local function made(value, bare)
  local net = nn.Linear(1, 5, { bias = false })
  rs.no_grad(function() net.weight:fill_(value) end)
  if not bare then net(rs.ones { 1, 1 }):sum():backward() end
  return net
end

local function all_are(t, value) return rs.allclose(t, rs.full_like(t, value)) end

local function set(param, value) rs.no_grad(function() param:fill_(value) end) end

-- The steps of 0 to `last` after which a parameter that was the rank's number is something else, and what it is then.
local function trace_of(averager, params, param, rank, last)
  local out = {}
  for step = 0, last do
    set(param, rank)
    averager:average_parameters(params)
    local value = param:flatten()[0]:item()
    if value ~= rank then out[#out + 1] = step .. ":" .. value end
  end
  return table.concat(out, " ")
end

-- ---- T177 and its neighbours ----

row(4, function(rank, check)
  local net = made(rank)
  local averager = averagers.PeriodicModelAverager { period = 4, warmup_steps = 12 }
  local seen = {}
  for step = 0, 19 do
    set(net.weight, rank)
    averager:average_parameters(net:parameters())
    if not all_are(net.weight, rank) then seen[#seen + 1] = step end
    local mean = step == 12 or step == 16
    check("T177 the mean of 0 to 3 at steps 12 and 16 only", all_are(net.weight, mean and 1.5 or rank))
  end
  check("T177 step counts the calls", averager.step == 20 and averager.period == 4 and averager.warmup_steps == 12)
end)

row(4, function(rank, check)
  local net, other, skipped = made(rank), made(10 * rank), made(rank, true)
  local opt = optim.SGD({ { params = net:parameters() }, { params = { other.weight, skipped.weight }, lr = 0.5 } }, { lr = 0.1 })
  local averager = averagers.PeriodicModelAverager(4, 12)
  local ok = true
  for step = 0, 19 do
    set(net.weight, rank)
    set(other.weight, 10 * rank)
    averager:average_parameters(opt.param_groups)
    local mean = step == 12 or step == 16
    ok = ok and all_are(net.weight, mean and 1.5 or rank) and all_are(other.weight, mean and 15 or 10 * rank)
  end
  check("T177 of an optimizer's groups: the same", ok)
  check("T177 a parameter without gradient is skipped", all_are(skipped.weight, rank) and skipped.weight.grad == nil)
  check("T177 groups and parameters are told apart", #utils.get_params_to_average(opt.param_groups) == 2 and
    #utils.get_params_to_average(net:parameters()) == 1 and #utils.get_params_to_average { skipped.weight } == 0)
end)

-- ---- the functions beneath ----

row(4, function(rank, check)
  local half = dist.new_group { 0, 2 }
  local net = made(rank)
  utils.average_parameters(net:parameters(), half)
  check("A1 only the group's ranks average", all_are(net.weight, rank % 2 == 0 and 1 or rank))
  utils.average_parameters_or_parameter_groups(net:parameters())
  check("A2 no group is the default group", all_are(net.weight, 1.5))

  local wide, narrow = nn.Parameter(rs.full({ 3 }, rank + 0.5, { dtype = "float64" })), nn.Parameter(rs.full({ 2, 2 }, 1.0 * rank))
  local memory, version = wide:data_ptr(), wide._version
  utils.average_parameters { wide, narrow }
  check("A3 of two dtypes each keeps its own", wide.dtype == "float64" and narrow.dtype == "float32" and
    all_are(wide, 2) and all_are(narrow, 1.5))
  check("A4 a parameter stays where it is, and its version what it was", wide:data_ptr() == memory and
    wide._version == version)
  check("A5 what is no parameter is refused", refused("NotImplementedError", "Tensor", utils.get_params_to_average,
    { rs.ones { 2 } }) and refused("NotImplementedError", "string", utils.get_params_to_average, { "w" }) and
    refused("KeyError", "params", utils.get_params_to_average, { { lr = 1 } }))
  check("A6 nothing to average is an error", refused("ValueError", "non-empty list", utils.average_parameters, {}))
end)

-- ---- construction ----

row(2, function(_, check)
  local Periodic = averagers.PeriodicModelAverager
  check("A7 warmup_steps is not negative", refused("ValueError", "warmup_steps", Periodic, { period = 4, warmup_steps = -1 }))
  check("A8 period is positive", refused("ValueError", "period", Periodic, { period = 0 }) and
    refused("ValueError", "period", Periodic, { period = -2 }))
  check("A9 period 1 is allowed, with a warning", Periodic { period = 1 }.period == 1)
  check("A10 ModelAverager is abstract", refused("TypeError", "abstract", averagers.ModelAverager))
  check("A11 a hierarchy needs levels", refused("ValueError", "must not be empty", Hierarchical) and
    refused("ValueError", "must not be empty", Hierarchical, { period_group_size_dict = {} }))
  check("A12 a hierarchy's periods are positive", refused("ValueError", "minimum period", Hierarchical,
    { period_group_size_dict = { [0] = 2 } }))
  check("A13 the last group is everybody", refused("ValueError", "must be equal to the size", Hierarchical,
    { period_group_size_dict = { [2] = 2, [4] = 4 } }))
  check("A14 a hierarchy's warm-up is not negative", refused("ValueError", "warmup_steps", Hierarchical,
    { period_group_size_dict = { [4] = 2 }, warmup_steps = -1 }))
end)

row(6, function(_, check)
  check("A15 groups divide the ranks", refused("ValueError", "divisible", Hierarchical,
    { period_group_size_dict = { [2] = 4, [4] = 6 } }))
end)

-- ---- T179 and its neighbours ----

row(4, function(rank, check)
  local net = made(rank)
  local averager = Hierarchical { period_group_size_dict = { [2] = 2, [4] = 4 }, warmup_steps = 10 }
  local low = rank < 2 and 0.5 or 2.5
  check("A16 two levels: the pair at 10, 14, 18, all at 12, 16, 20", trace_of(averager, net:parameters(), net.weight, rank, 20) ==
    ("10:%s 12:1.5 14:%s 16:1.5 18:%s 20:1.5"):format(low, low, low))
  check("A17 its groups are of the sizes given", averager.period_process_group_dict[2]:size() == 2 and
    averager.period_process_group_dict[4] == averager.process_group)
  local one = Hierarchical { period_group_size_dict = { [4] = 4 }, warmup_steps = 2 }
  check("A18 one level: by the steps themselves, which the warm-up does not move",
    trace_of(one, net:parameters(), net.weight, rank, 9) == "4:1.5 8:1.5")
  local listed = Hierarchical { period_group_size_dict = { { 2, 2 }, { 4, 4 } } }
  check("A19 levels may be a list, in its own order", listed._periods[1] == 2 and listed._periods[2] == 4 and
    listed:_find_process_group():size() == 4)
end)

row(8, function(rank, check)
  local net = made(rank)
  local averager = Hierarchical { period_group_size_dict = { [2] = 2, [4] = 4, [8] = 8 }, warmup_steps = 10 }
  local got = trace_of(averager, net:parameters(), net.weight, rank, 25)
  local pair, four = (rank // 2) * 2 + 0.5, (rank // 4) * 4 + 1.5
  local wanted = ("10:%s 12:%s 14:%s 16:3.5 18:%s 20:%s 22:%s 24:3.5"):format(pair, four, pair, pair, four, pair)
  check("T179 pairs at 10, 14, 18, 22, fours at 12, 20, all at 16, 24", got == wanted)
  if rank == 0 then
    check("T179 rank 0", got == "10:0.5 12:1.5 14:0.5 16:3.5 18:0.5 20:1.5 22:0.5 24:3.5")
  end
end)

-- ---- post-localSGD optimizer ----

-- Twenty-four steps of each rank's own, by hand: SGD, then the mean by the averager that `new_averager` makes.
local function trained(rank, new_averager, wrapped, restore)
  rs.manual_seed(7)
  local net = nn.Linear(3, 2)
  local opt, averager = optim.SGD(net:parameters(), { lr = 0.05, momentum = 0.9 }), new_averager()
  local whole = wrapped and dist.optim.PostLocalSGDOptimizer(opt, averager)
  for step = 1, 24 do
    if restore and step == 13 then
      local state = whole:state_dict()
      net, opt, averager = restore(net), nil, new_averager()
      opt = optim.SGD(net:parameters(), { lr = 0.05, momentum = 0.9 })
      whole = dist.optim.PostLocalSGDOptimizer(opt, averager)
      whole:load_state_dict(state)
    end
    local x = rs.full({ 2, 3 }, 0.1 * (rank + 1) * (step % 5))
    local used = whole or opt
    used:zero_grad()
    net(x):pow(2):mean():backward()
    used:step()
    if not wrapped then averager:average_parameters(net:parameters()) end
  end
  return net, whole or opt, averager
end

local function same_nets(a, b)
  return rs.equal(a.weight, b.weight) and rs.equal(a.bias, b.bias)
end

local WAYS = {
  periodic = function() return averagers.PeriodicModelAverager { period = 4, warmup_steps = 8 } end,
  hierarchical = function() return Hierarchical { period_group_size_dict = { [2] = 2, [4] = 4 }, warmup_steps = 4 } end,
}

for _, way in ipairs { "periodic", "hierarchical" } do
  row(4, function(rank, check)
    local by_hand = trained(rank, WAYS[way], false)
    local net, opt, averager = trained(rank, WAYS[way], true)
    check("A20 " .. way .. ": the optimizer does what its parts do one after the other", same_nets(net, by_hand))
    check("A21 " .. way .. ": each step is counted", averager.step == 24 and opt:state_dict().step == 24)
    local again, _, later = trained(rank, WAYS[way], true, function(old)
      local fresh = nn.Linear(3, 2)
      fresh:load_state_dict(old:state_dict())
      return fresh
    end)
    check("A22 " .. way .. ": a state dict in the middle changes nothing", same_nets(again, net) and later.step == 24)
  end)
end

row(1, function(_, check)
  local net = made(1)
  local opt = optim.SGD(net:parameters(), { lr = 0.5, momentum = 0.9 })
  local averager = averagers.PeriodicModelAverager { period = 4, warmup_steps = 10 }
  local whole = dist.optim.PostLocalSGDOptimizer(opt, averager)
  whole:step()
  check("A23 param_groups and state are the optimizer's", whole.param_groups == opt.param_groups and
    whole.state[net.weight].momentum_buffer:equal(opt.state[net.weight].momentum_buffer) and whole.optim == opt)
  whole:add_param_group { params = { made(2).weight }, lr = 0.25 }
  check("A24 a group more is the optimizer's", #opt.param_groups == 2 and whole.param_groups[2].lr == 0.25)
  whole:zero_grad()
  check("A25 zero_grad drops gradients", net.weight.grad == nil)
  check("A26 it is printed as the optimizer", tostring(whole) == tostring(opt))
  averager.step = 9
  whole:load_state_dict(opt:state_dict())
  check("A27 a state dict without a step begins at 0", averager.step == 0)
  local scheduler = optim.lr_scheduler.StepLR(whole, { step_size = 1, gamma = 0.5 })
  whole:step()
  scheduler:step()
  check("A28 a scheduler changes its rates", whole.param_groups[1].lr == 0.25)
  check("A29 a lesson's own averager will do", (function()
    local own = { step = 3, average_parameters = function(self, params) self.step = self.step + #params end }
    local mine = dist.optim.PostLocalSGDOptimizer(opt, own)
    mine:step()
    return mine:state_dict().step == 5
  end)())
  check("A30 what is no optimizer is refused", refused("TypeError", "optimizer", dist.optim.PostLocalSGDOptimizer, 1, averager) and
    refused("TypeError", "averager", dist.optim.PostLocalSGDOptimizer, opt, 1))
  check("A31 a name that is not there is told", refused("AttributeError", "defaults", function() return whole.defaults end))
end)
