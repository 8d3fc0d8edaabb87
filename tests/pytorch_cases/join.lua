-- What PyTorch's own tests ask of Join: uneven inputs. T: rows of the common list; J: further tests of the same files,
-- other worlds, models, hooks and options.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
local F, DDP = nn.functional, nn.parallel.DistributedDataParallel
local algorithms = dist.algorithms
local Join, hooks = algorithms.Join, algorithms.ddp_comm_hooks

rs.lesson { title = "PyTorch cases: join", seed = 1, prefix = "" }

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
local function same_on_all(t)
  local list = dist.all_gather({}, t:detach():contiguous())
  for i = 2, #list do
    if not rs.equal(list[1], list[i]) then return false end
  end
  return true
end
local function equivalent(ddp)
  local same = true
  for _, t in ddp:named_parameters() do same = same_on_all(t) and same end
  for _, t in ddp:named_buffers() do same = same_on_all(t) and same end
  return same
end
-- nil, or the error's kind and message.
local function error_of(f)
  local ok, e = pcall(f)
  if not ok then return e.kind, e.message end
end
local BOTH = { false, true }

-- ---- joinables of one's own ----

local BEFORE, AFTER = 41, 42
local AllReducerHook, AllReducer = algorithms.JoinHook "AllReducerHook", algorithms.Joinable "AllReducer"

function AllReducerHook:init(reducer, count, posts)
  self.reducer, self.count, self.posts = reducer, count, posts
end
function AllReducerHook:main_hook()
  for _ = 1, self.count do dist.all_reduce(rs.zeros { 1 }) end
end
function AllReducerHook:post_hook(is_last_joiner)
  if not self.posts then return end
  local rank, common = dist.get_rank(), rs.tensor { is_last_joiner and dist.get_rank() or -1 }
  dist.all_reduce(common, dist.ReduceOp.MAX)
  if rank == common:item() then self.reducer.tensor = rs.tensor { AFTER } end
  dist.broadcast(self.reducer.tensor, common:item())
end

function AllReducer:init(group)
  self.tensor, self.join_process_group = rs.tensor { BEFORE }, group or dist.group.WORLD
end
AllReducer.join_device = "cpu"
function AllReducer:join_hook(kwargs)
  return AllReducerHook(self, kwargs.num_allreduces or 1, kwargs.run_post_hooks or false)
end
function AllReducer:forward(count)
  Join.notify_join_context(self)
  local total = 0
  for _ = 1, count or 1 do
    local t = rs.ones { 1 }
    dist.all_reduce(t)
    total = total + t:item()
  end
  return total
end

-- What a rank has summed up after 3 inputs and `offset` more for each rank.
local function expected(world, rank, offset)
  local total = world * 3
  for joined = 1, rank do total = total + (world - joined) * offset end
  return total
end

local function reducers(count)
  local list = {}
  for i = 1, count do list[i] = AllReducer() end
  return list
end

local function go_through(rank, list, inputs, options)
  local total, rounds = 0, 0
  local kind, message = error_of(function()
    Join(list, options, function()
      for _ = 1, inputs do
        for _, reducer in ipairs(list) do total = total + reducer(options.num_allreduces) end
        rounds = rounds + 1
      end
    end)
  end)
  return { total = total, rounds = rounds, kind = kind, message = message }
end

for _, world in ipairs { 4, 2 } do
  row("T292", world, function(rank, check)
    local got = go_through(rank, reducers(1), 3 + rank, { num_allreduces = 1 })
    check("T292 main hooks: " .. world .. " ranks' totals", got.total == expected(world, rank, 1) and not got.kind)
  end)
  row("T294", world, function(rank, check)
    local list = reducers(1)
    local got = go_through(rank, list, 3 + rank, { num_allreduces = 1, run_post_hooks = true })
    check("T294 totals with post hooks on " .. world .. " ranks", got.total == expected(world, rank, 1))
    check("T294 41 becomes 42 on " .. world .. " ranks", list[1].tensor:item() == AFTER)
  end)
  row("T297", world, function(rank, check)
    local seq = rs.trace:seq()
    local got = go_through(rank, reducers(3), 3, { enable = false, num_allreduces = 1 })
    check("T297 three disabled joinables on " .. world .. " ranks", got.total == 9 * world and not got.kind)
    check("J297 a disabled Join adds no collective", rs.trace:count("ddp.join and rank 0 and seq >= " .. seq) == 0)
  end)
  row("T299", world, function(rank, check)
    local got = go_through(rank, reducers(3), 3 + rank, { throw_on_early_termination = true, num_allreduces = 1 })
    check("T299 three joinables that throw: " .. world .. " ranks did 3 rounds", got.rounds == 3)
    check("T299 and have 9 all-reduces each", got.total == 9 * world)
    check("T299 all raise a RuntimeError", got.kind == "RuntimeError")
    check("T299 rank 0 says that it is exhausted, the others that some rank is",
      got.message:find(rank == 0 and "Rank 0 exhausted all inputs" or "at least one rank that exhausted inputs", 1, true))
  end)
  row("J post", world, function(rank, check)
    local list = reducers(1)
    go_through(rank, list, 3 + rank, { num_allreduces = 0, run_post_hooks = true })
    check("J293 post hooks alone, " .. world .. " ranks", list[1].tensor:item() == AFTER)
  end)
  row("J several", world, function(rank, check)
    local list = reducers(3)
    local got = go_through(rank, list, 3 + rank, { num_allreduces = 1, run_post_hooks = true })
    check("J295 three joinables on " .. world .. " ranks", got.total == 3 * expected(world, rank, 1))
    check("J295 each gets the last joiner's tensor", list[1].tensor:item() == AFTER and list[3].tensor:item() == AFTER)
  end)
  row("J one", world, function(rank, check)
    local got = go_through(rank, reducers(1), 3, { enable = false, num_allreduces = 1 })
    check("J296 one disabled joinable on " .. world .. " ranks", got.total == 3 * world)
    got = go_through(rank, reducers(1), 3 + rank, { throw_on_early_termination = true, num_allreduces = 1 })
    check("J298 one joinable that throws", got.kind == "RuntimeError" and got.rounds == 3)
    got = go_through(rank, reducers(1), 3 + 2 * rank, { num_allreduces = 2 })
    check("J300 two all-reduces an iteration, two inputs more a rank", got.total == 2 * expected(world, rank, 2))
    got = go_through(rank, reducers(2), 3, { throw_on_early_termination = true, num_allreduces = 1 })
    check("J301 even inputs do not throw", not got.kind and got.total == 6 * world)
  end)
end

row("J errors", 2, function(rank, check)
  local kind, message = error_of(function() Join({}, function() end) end)
  check("J no joinable is a ValueError", kind == "ValueError" and message:find "at least one joinable")
  local other = dist.new_group { 0, 1 }
  kind, message = error_of(function() Join({ AllReducer(), AllReducer(other) }, function() end) end)
  check("J two groups are a ValueError", kind == "ValueError" and message:find "multiple process groups")
  local plain = { join_hook = function() return {} end, join_device = "cpu", join_process_group = dist.group.WORLD }
  kind, message = error_of(function() Join.notify_join_context(plain) end)
  check("J notify of what was never made a joinable is an AssertionError",
    kind == "AssertionError" and message:find "constructor calls")
  check("J notify outside of a Join does nothing", Join.notify_join_context(AllReducer()) == nil)
  check("J what has no join_hook is refused", (error_of(function() Join({ {} }, function() end) end)) ~= nil)
  local reducer, config = AllReducer(), nil
  Join({ reducer }, function() config = reducer._join_config end)
  check("J the config says who is first", config.enable and config.is_first_joinable)
  check("J and is off behind the Join", reducer._join_config.enable == false)
  local second, work = AllReducer(), {}
  Join({ reducer, second }, function() work = { Join.notify_join_context(reducer), Join.notify_join_context(second) } end)
  check("J notify answers a Work of the first joinable alone", work[1] ~= nil and work[2] == nil)
  work[1]:wait()
  check("J whose result is the number of live ranks", work[1]:result()[1]:item() == 2)
  local a, b = Join({ reducer }, function() return 3, "four" end)
  check("J a Join answers its body's results", a == 3 and b == "four")
  check("J the flags may stand by their place", (pcall(Join, { reducer }, true, false, function() end)))
  check("J a Join without a body is a TypeError", (error_of(function() Join { reducer } end)) == "TypeError")
end)

-- ---- models ----

row("T302", 2, function(rank, check)
  local function model() return seeded(5, nn.Linear, 10, 10, { bias = false }) end
  local x, alone = seeded(6, rs.rand, 3, 10), model()
  local sgd = rs.optim.SGD(alone:parameters(), { lr = 0.03 })
  for _ = 1, 6 do
    sgd:zero_grad()
    alone(x):sum():backward()
    sgd:step()
  end
  local ddp = DDP(model())
  sgd = rs.optim.SGD(ddp:parameters(), { lr = 0.03 * 2 })
  ddp:join(function()
    for _ = 1, 2 * (rank + 1) do
      sgd:zero_grad()
      ddp(x):sum():backward()
      sgd:step()
    end
  end)
  check("T302 two ranks with 2 and 4 steps are one with 6", near(alone.weight, ddp.module.weight))
  check("T302 the authoritative rank is 1", ddp._authoritative_rank == 1)
end)

local function inputs_of(mapping, rank) return mapping[rank + 1] end

-- The model over uneven inputs; what it was afterwards.
local function uneven(rank, model, options)
  local ddp = DDP(model, { bucket_cap_mb = options.cap or 0.0001, find_unused_parameters = options.find })
  if options.hook then ddp:register_comm_hook(options.state and options.state(), options.hook) end
  local count, total = inputs_of(options.mapping, rank), 0
  local least = rs.tensor { count }
  dist.all_reduce(least, dist.ReduceOp.MIN)
  local function step(i)
    local function one()
      options.forward(ddp):sum():backward()
      rs.no_grad(function()
        for _, p in ipairs(ddp:parameters()) do
          if p.grad then p:sub_(p.grad * 0.01) end
        end
      end)
    end
    if i % (options.sync_interval or 1) ~= 0 then ddp:no_sync(one) else one() end
    total = total + 1
  end
  local kind, message = error_of(function()
    ddp:join({ throw_on_early_termination = options.throw }, function()
      for i = 0, count - 1 do step(i) end
    end)
  end)
  return { ddp = ddp, total = total, least = least:item(), count = count, kind = kind, message = message }
end

local function mean_hook(_, bucket)
  local work = dist.all_reduce(bucket:buffer():div_(dist.get_world_size()), { async_op = true })
  return work:get_future():then_(function(future) return future:value()[1] end)
end

local BatchNormNet = nn.Module "BatchNormNet"
function BatchNormNet:init()
  self.fc1, self.bn, self.fc2 = nn.Linear(2, 8, { bias = false }), nn.BatchNorm1d(4), nn.Linear(8, 4, { bias = false })
end
function BatchNormNet:forward(x)
  x = self.bn(self.fc1(x):reshape { -1, 4, 2 }):reshape { -1, 8 }
  return F.softmax(self.fc2(x), 1)
end

local Branches = nn.Module "Branches"
function Branches:init(unused)
  self.t0, self.t1, self.unused = nn.Linear(2, 2), nn.Linear(2, 2), unused
end
function Branches:forward(x, rank)
  if rank == self.unused then return self.t1(x) end
  return self.t1(self.t0(x))
end

local function conv()
  return nn.Sequential { nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 6, 3), nn.ReLU(), nn.Conv2d(6, 8, 3), nn.ReLU() }
end

local MODELS = {
  { name = "batch norm", make = function() return BatchNormNet() end, x = function() return rs.ones(2, 2) end },
  { name = "convolutions", make = conv, x = function() return rs.ones(1, 1, 12, 12) end },
  { name = "small", make = function() return nn.Linear(30, 30, { bias = false }) end,
    x = function() return rs.ones(1, 30) end },
  { name = "small with a hook", make = function() return nn.Linear(30, 30, { bias = false }) end,
    x = function() return rs.ones(1, 30) end, hook = mean_hook },
  { name = "small with the library's hook", make = function() return nn.Linear(30, 30, { bias = false }) end,
    x = function() return rs.ones(1, 30) end, hook = hooks.default_hooks.allreduce_hook },
  { name = "small with PowerSGD", make = function() return nn.Linear(30, 30, { bias = false }) end,
    x = function() return rs.ones(1, 30) end, hook = hooks.powerSGD_hook.powerSGD_hook, state = function()
      return hooks.powerSGD_hook.PowerSGDState(nil, { matrix_approximation_rank = 1, start_powerSGD_iter = 2 })
    end },
  { name = "a rank that goes on leaves out a branch", make = function() return Branches(1) end, find = true,
    x = function() return rs.ones(1, 2) end, ranked = true },
  { name = "a rank that has joined leaves out a branch", make = function() return Branches(0) end, find = true,
    x = function() return rs.ones(1, 2) end, ranked = true },
}
local MAPPINGS = {}
for _, base in ipairs { 0, 5 } do
  for _, offset in ipairs { 2, 3, 10 } do
    table.insert(MAPPINGS, { base, base + offset })
    table.insert(MAPPINGS, { base, base + offset // 2, base + offset })
  end
end

for i, model in ipairs(MODELS) do
  for _, how in ipairs { { sync_interval = 1 }, { sync_interval = i + 1 }, { throw = true } } do
    local name = model.name .. (how.throw and ", throwing" or (", sync every %d"):format(how.sync_interval))
    for _, mapping in ipairs(MAPPINGS) do
      row("J304 " .. name, #mapping, function(rank, check)
        local got = uneven(rank, seeded(8, model.make), { mapping = mapping, hook = model.hook, state = model.state, find = model.find,
          throw = how.throw, sync_interval = how.sync_interval,
          forward = function(ddp)
            if model.ranked then return ddp(model.x(), rank) end
            return ddp(model.x())
          end })
        if how.throw then
          check("J304 " .. name .. ": all did what the first to end did", got.total == got.least)
          local says = got.count == got.least and ("Rank %d exhausted all inputs"):format(rank) or
            "Detected at least one rank that exhausted inputs."
          check("J304 " .. name .. ": and say so", got.kind == "RuntimeError" and got.message:find(says, 1, true))
          return
        end
        check("J304 " .. name .. ": no error " .. (got.message or ""), got.kind == nil)
        if got.kind then return end
        check("J304 " .. name .. ": all went through their inputs", got.total == got.count)
        check("J304 " .. name .. ": the last rank is the authority", got.ddp._authoritative_rank == #mapping - 1)
        check("J304 " .. name .. ": all models are the same", equivalent(got.ddp))
        check("J304 " .. name .. ": the logging data say so", got.ddp:_get_ddp_logging_data().join_uneven_inputs == 1)
      end)
    end
  end
end

row("T304", 2, function(rank, check)
  for _, view in ipairs(BOTH) do
    local net, seq = seeded(9, nn.Linear, 4, 4), rs.trace:seq()
    local ddp = DDP(net, { bucket_cap_mb = 0.00001, gradient_as_bucket_view = view })
    local sgd = rs.optim.SGD(ddp:parameters(), { lr = 0.1 })
    ddp:join(function()
      for _ = 1, 2 * rank do
        sgd:zero_grad()
        ddp(rs.ones(2, 4)):sum():backward()
        sgd:step()
      end
    end)
    local none = net.weight.grad == nil and net.bias.grad == nil
    check("T304 the rank without inputs has no gradients, the other has", none == (rank == 0))
    check("T304 and both have the same parameters", equivalent(ddp))
    check("T304 both have rebuilt their buckets",
      rs.trace:count(("ddp.bucket and rank %d and seq >= %d"):format(rank, seq)) == 3)
  end
end)

row("T307", 2, function(rank, check)
  local ddp, last, calls = DDP(nn.Linear(4, 4)), nil, 0
  ddp:register_comm_hook(nil, function(state, bucket)
    calls = calls + 1
    return mean_hook(state, bucket)
  end)
  ddp:join(function()
    for _ = 1, rank == 0 and 2 or 5 do
      ddp:zero_grad()
      ddp(rs.ones(1, 4)):sum():backward()
      last = ddp.module.weight.grad[{ 0, 0 }]:item()
    end
  end)
  check("T307 last gradients are 1 and 0.5", last == (rank == 0 and 1 or 0.5))
  check("T307 the joined rank runs the hook, too", calls == 5)
end)

local WithComm = nn.Module "WithComm"
function WithComm:init() self.lin = nn.Linear(2, 40, { bias = false }) end
function WithComm:forward(x)
  x = self.lin(x)
  dist.all_reduce(x:detach():clone())
  return x
end

row("T309", 2, function(rank, check)
  local ddp, rounds = DDP(WithComm()), 0
  local kind, message = error_of(function()
    ddp:join({ throw_on_early_termination = true }, function()
      for _ = 1, rank == 1 and 5 or 10 do
        ddp(rs.ones(10, 2)):sum():backward()
        rounds = rounds + 1
      end
    end)
  end)
  check("T309 both did 5", rounds == 5)
  check("T309 both raise a RuntimeError", kind == "RuntimeError")
  check("T309 the exhausted rank says so, the other that some rank is", message:find(rank == 1 and
    "Rank 1 exhausted all inputs" or "Detected at least one rank that exhausted inputs", 1, true))
  check("T309 the models are the same", equivalent(ddp))
end)

row("J303", 3, function(rank, check)
  local ddp = DDP(seeded(3, nn.Linear, 5, 5, { bias = false }))
  local x, iterations = rs.full({ 1, 5 }, 50.0), rank > 0 and 5 or 3
  local function train(initial)
    local right = true
    ddp:join({ divide_by_initial_world_size = initial }, function()
      for i = 1, iterations do
        ddp(x):sum():backward()
        local live = i > 3 and 2 or 3
        right = right and near(ddp.module.weight.grad, rs.full({ 5, 5 }, initial and 50 * live / 3 or 50.0))
        ddp:zero_grad()
      end
    end)
    return right
  end
  check("J303 divided by the ranks that are left", train(false))
  check("J303 divided by all ranks, in a second Join", train(true))
  ddp(x):sum():backward()
  check("J303 and behind it by all", near(ddp.module.weight.grad, rs.full({ 5, 5 }, 50.0)))
end)

row("J305", 3, function(rank, check)
  local ddp, right = DDP(nn.Linear(1, 1)), true
  ddp:join({ enable = false }, function()
    for _ = 1, 5 do
      ddp:zero_grad()
      ddp(rs.full({ 1, 1 }, rank * 1.0)):sum():backward()
      right = right and ddp.module.weight.grad:item() == 1
    end
  end)
  check("J305 a disabled join divides by all ranks", right)
  check("J305 its config says that it is disabled", ddp._join_config.enable == false)
  check("J305 and the models are the same", equivalent(ddp))
end)

row("J306", 2, function(rank, check)
  local Raises = nn.Module "Raises"
  function Raises:init() self.param = nn.Parameter(rs.ones { 1 }) end
  function Raises:forward() rs.error("ValueError", "Intentional error") end
  local kind, message = error_of(function()
    local ddp = DDP(Raises())
    ddp:join(function() ddp(rs.ones { 1 }):sum():backward() end)
  end)
  check("J306 an error of the body comes through", kind == "ValueError" and message:find "Intentional error")
end)

row("J308", 2, function(rank, check)
  local Net = nn.Module "Net"
  function Net:init()
    self.fc = nn.Linear(10, 10, { bias = false })
    self:register_buffer("rank_local", rs.full({ 10 }, rank + 1.0))
  end
  function Net:forward(x) return self.fc(x) + self.rank_local end
  for _, sync in ipairs(BOTH) do
    local net = Net()
    local ddp = DDP(net, { forward_sync_buffers = sync })
    rs.no_grad(function() net.rank_local:fill_(rank + 5.0) end)
    ddp:join(function()
      for _ = 1, rank + 1 do ddp(rs.ones(2, 10)):sum():backward() end
    end)
    local now = net.rank_local[0]:item()
    if sync then
      check("J308 buffers are those of the rank that went on longest", now == 6)
    else
      check("J308 forward_sync_buffers=false leaves them as they are", now == rank + 5)
    end
  end
end)

row("J310", 4, function(rank, check)
  local odd = dist.new_group { 1, 3 }
  dist.new_group { 0, 2 }
  if rank % 2 == 0 then return end
  local ddp, grads = DDP(nn.Linear(1, 1, { bias = false }), { process_group = odd }), {}
  ddp:join({ divide_by_initial_world_size = false }, function()
    for i = 1, rank do
      ddp:zero_grad()
      ddp(rs.full({ 1, 1 }, rank * 1.0)):sum():backward()
      grads[i] = ddp.module.weight.grad:item()
    end
  end)
  check("J310 in a group of its own: gradients", grads[1] == 2 and (rank == 1 or grads[2] == 3 and grads[3] == 3))
  check("J310 and the authority is a rank of the group", ddp._authoritative_rank == 1)
end)

row("J311", 3, function(rank, check)
  for _, options in ipairs { {}, { find_unused_parameters = true }, { gradient_as_bucket_view = true },
    { lazy_bucket_allocation = true }, { batched_grad_copy = true }, { static_graph = true } } do
    options.bucket_cap_mb = 0.00002
    local net = seeded(4, nn.Sequential, { nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2) })
    local ddp, evaluated = DDP(net, options), 0
    local sgd = rs.optim.SGD(ddp:parameters(), { lr = 0.1, momentum = 0.9 })
    ddp:join(function()
      for i = 1, 1 + 2 * rank do
        ddp(seeded(rank * 10 + i, rs.rand, 4, 3)):sum():backward()
        sgd:step()
        sgd:zero_grad()
        rs.no_grad(function() evaluated = evaluated + ddp(rs.ones(4, 3)):sum():item() end)
      end
    end)
    check("J311 forwards without gradients have their shadows, too", evaluated == evaluated and equivalent(ddp))
  end
end)

row("J312", 2, function(rank, check)
  local counter, net = { rounds = 0 }, seeded(4, nn.Linear, 2, 2)
  local ddp, reducer = DDP(net), AllReducer()
  local total, sgd = 0, rs.optim.SGD(ddp:parameters(), { lr = 0.5 })
  Join({ ddp, reducer }, { divide_by_initial_world_size = false, run_post_hooks = true }, function()
    for _ = 1, 2 + 2 * rank do
      sgd:zero_grad()
      ddp(rs.full({ 1, 2 }, rank + 1.0)):sum():backward()
      sgd:step()
      total = total + reducer()
      counter.rounds = counter.rounds + 1
    end
  end)
  check("J312 a model and a joinable of one's own share a Join", total == (rank == 0 and 4 or 6))
  check("J312 the model's options reach it", rank == 0 or near(net.weight.grad, rs.full({ 2, 2 }, 2.0)))
  check("J312 and both end", equivalent(ddp) and reducer.tensor:item() == AFTER)
end)

row("J313", 2, function(rank, check)
  local kind, message = error_of(function()
    local ddp = DDP(nn.Linear(2, 2), { static_graph = true })
    ddp:join(function()
      for _ = 1, 2 * rank do ddp(rs.ones(1, 2)):sum():backward() end
    end)
  end)
  check("J313 a static graph needs an input on each rank",
    kind == (rank == 0 and "RuntimeError" or "DeadlockError") and
      message:find(rank == 0 and "static_graph" or "rank 0 has ended"))
end)

row("J314", 2, function(rank, check)
  local ddp, calls = DDP(nn.BatchNorm1d(2)), { pre_forward = 0, post_forward = 0 }
  for _, place in ipairs { "pre_forward", "post_forward" } do
    ddp:_register_buffer_comm_hook(nil, function(_, buffers)
      calls[place] = calls[place] + 1
      local mean = buffers.running_mean:clone()     -- the backward may read the buffer meanwhile
      return { dist.all_reduce(mean, { async_op = true }):get_future() }
    end, place)
    ddp:join(function()
      for _ = 1, 1 + 2 * rank do ddp(rs.rand(4, 2)):sum():backward() end
    end)
    check("J314 a buffer hook " .. place .. " is shadowed", calls[place] == 3 and equivalent(ddp))
  end
end)
