-- The Lua twins of ddp-errors.json, by the case's text: f(rank, world, tools), run on every rank, each with what it raises
-- caught. What a twin answers is what its rank has returned; {before = true}: the ranks have not met yet.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
local DDP = nn.parallel.DistributedDataParallel

local TWINS, BEFORE = {}, {}

-- A rank that only sends needs nobody for that here, where PyTorch's waits until it is asked for the data: it learns at its
-- next call that a peer has gone.
local function and_the_next_call() dist.barrier() end

-- ---- construction ----

TWINS["parameter shapes differ across ranks"] = function(rank, _, tools)
  DDP(tools.ddp_model { "MLP", 4, 5 + rank, 3 })
  and_the_next_call()
end

TWINS["parameter counts differ across ranks"] = function(rank, _, tools)
  local widths = {}
  for i = 1, 3 + rank do widths[i] = 3 end
  DDP(tools.ddp_model { "Deep", widths })
end

TWINS["no parameter requires grad"] = function(_, _, tools)
  local module = tools.ddp_model { "MLP", 2, 2, 2 }
  for p in module:parameters() do p:requires_grad_(false) end
  DDP(module)
end

TWINS["device_ids on a CPU module"] = function() DDP(nn.Linear(2, 2), { device_ids = { 0 } }) end
TWINS["two device_ids"] = function() DDP(nn.Linear(2, 2), { device_ids = { 0, 1 } }) end
TWINS["output_device on a CPU module"] = function() DDP(nn.Linear(2, 2), { output_device = 1 }) end
TWINS["uninitialized (lazy) parameter"] = function() DDP(nn.LazyLinear(2)) end
TWINS["SyncBatchNorm in a CPU module under DDP"] = function()
  DDP(nn.Sequential { nn.Linear(2, 3), nn.SyncBatchNorm(3) })
end
TWINS["SyncBatchNorm forward on CPU in training"] = function() nn.SyncBatchNorm(3)(rs.ones(2, 3)) end
BEFORE["no process group"] = function() DDP(nn.Linear(2, 2)) end

-- ---- parameters that are not used ----

-- Forward and backward, once for each list of the branches used; then the forward of the first again.
local function branches(options, uses, tools)
  local ddp = DDP(tools.ddp_model { "Branch", 3, 2 }, options)
  for _, used in ipairs(uses) do ddp(rs.ones(1, 3), used):sum():backward() end
  ddp(rs.ones(1, 3), uses[1])
end

local function unused(_, _, tools) branches({}, { { 1 } }, tools) end
TWINS["unused parameter, default flags, second forward"] = unused
TWINS["the same at debug level INFO"] = function(rank, world, tools)
  dist.set_debug_level "INFO"
  unused(rank, world, tools)
end

TWINS["static_graph: a parameter stops being used"] = function(_, _, tools)
  branches({ static_graph = true }, { { 0, 1 }, { 0, 1 }, { 0 } }, tools)
end

TWINS["static_graph: an unused parameter gets used"] = function(_, _, tools)
  branches({ static_graph = true }, { { 0 }, { 0 }, { 0, 1 } }, tools)
end

TWINS["static_graph set after the first iteration"] = function()
  local ddp = DDP(nn.Linear(2, 2))
  ddp(rs.ones(1, 2)):sum():backward()
  ddp:_set_static_graph()
end

-- Two results, of which the loss has the first alone.
local function half_used(options)
  local Outputs = nn.Module "Outputs"
  function Outputs:init()
    self.a = nn.Linear(2, 2)
    self.b = nn.Linear(2, 2)
  end
  function Outputs:forward(x) return self.a(x), self.b(x) end
  local module = Outputs()
  local ddp = DDP(module, options)
  for _ = 1, 2 do (ddp(rs.ones(1, 2))):sum():backward() end
  return { no_error = true, b_grad_is_none = module.b.weight.grad == nil and module.b.bias.grad == nil }
end

TWINS["output not used in the loss, default flags, second forward"] = function() return half_used {} end
TWINS["output not used in the loss, find_unused_parameters"] = function()
  return half_used { find_unused_parameters = true }
end

-- ---- a parameter that gets ready twice ----

local function ready_twice(options)
  local Twice = nn.Module "Twice"
  function Twice:init()
    self.a = nn.Linear(3, 3)
    self.b = nn.Linear(3, 3)
  end
  function Twice:forward(x)
    for _ = 1, 2 do x = rs.utils.checkpoint(self.a, self.b(x), { use_reentrant = true }) end
    return x
  end
  local ddp = DDP(Twice(), options)
  ddp(rs.ones(1, 3):requires_grad_(true)):sum():backward()
  return { no_error = true }
end

TWINS["parameter marked ready twice (reentrant checkpoint twice over one module)"] = function() return ready_twice {} end
TWINS["the same with find_unused_parameters"] = function() return ready_twice { find_unused_parameters = true } end
TWINS["the same with static_graph"] = function() return ready_twice { static_graph = true } end

-- ---- communication hooks ----

TWINS["register_comm_hook twice"] = function(_, world, tools)
  local ddp = DDP(nn.Linear(2, 2))
  for _ = 1, 2 do ddp:register_comm_hook(nil, tools.ddp_averaging_hook(world)) end
end

TWINS["comm hook not callable"] = function() DDP(nn.Linear(2, 2)):register_comm_hook(nil, 1) end

TWINS["comm hook returns no Future"] = function()
  local ddp = DDP(nn.Linear(2, 2))
  ddp:register_comm_hook(nil, function() return 1 end)
  ddp(rs.ones(1, 2)):sum():backward()
end

-- ---- join ----

TWINS["join, throw_on_early_termination"] = function(rank)
  local ddp = DDP(nn.Linear(2, 2))
  ddp:join({ throw_on_early_termination = true }, function()
    for _ = 1, 1 + rank do ddp(rs.ones(1, 2)):sum():backward() end
  end)
end

-- ---- collectives ----

TWINS["broadcast from a rank outside the group"] = function(_, world) dist.broadcast(rs.ones(2), world + 3) end
TWINS["all_reduce of something not a tensor"] = function() dist.all_reduce { 1, 2 } end

local function gather_into(count, size, dtype)
  local list = {}
  for i = 1, count do list[i] = rs.zeros({ size }, { dtype = dtype }) end
  dist.all_gather(list, rs.ones(2))
end

TWINS["all_gather output list of the wrong length"] = function(_, world) gather_into(world + 1, 2, "float32") end
TWINS["all_gather dtype differs"] = function(_, world) gather_into(world, 2, "float64") end
TWINS["all_gather output sizes differ"] = function(_, world) gather_into(world, 3, "float32") end

TWINS["scatter_list on a non-source rank"] = function(_, world)
  local list = {}
  for i = 1, world do list[i] = rs.ones(2) end
  dist.scatter(rs.zeros(2), list, 0)
  and_the_next_call()
end

TWINS["gather without gather_list on dst"] = function()
  dist.gather(rs.ones(2), nil, 0)
  and_the_next_call()
end

TWINS["send to self"] = function(rank) dist.send(rs.ones(2), rank) end
TWINS["AVG on gloo"] = function() dist.all_reduce(rs.ones(2), dist.ReduceOp.AVG) end
TWINS["BAND of floats"] = function() dist.all_reduce(rs.ones(2), dist.ReduceOp.BAND) end
TWINS["all_reduce of a non-contiguous tensor"] = function() dist.all_reduce(rs.ones(3, 2):t()) end
TWINS["new_group with a rank outside the world"] = function(_, world) dist.new_group { 0, world + 1 } end

TWINS["monitored_barrier: a rank is missing"] = function(rank, world)
  if rank == 0 or rank == world - 1 then dist.monitored_barrier { timeout = 2 } end
end

TWINS["monitored_barrier wait_all_ranks: two ranks are missing"] = function(rank)
  if rank == 0 then dist.monitored_barrier { timeout = 2, wait_all_ranks = true } end
end

TWINS["DETAIL: different collectives"] = function(rank)
  if rank == 0 then dist.all_reduce(rs.ones(2)) else dist.broadcast(rs.ones(2), 0) end
end

TWINS["DETAIL: different shapes"] = function(rank) dist.all_reduce(rs.ones(2 + rank)) end

TWINS["a rank never joins the collective"] = function(rank)
  dist.set_timeout(2)
  if rank == 0 then dist.all_reduce(rs.ones(2)) end
end

-- ---- groups and stores ----

BEFORE["init_process_group twice"] = function()
  dist.init_process_group()
  dist.init_process_group()
end
BEFORE["unknown backend"] = function() dist.init_process_group { backend = "pigeon" } end
BEFORE["env:// without variables"] = function() dist.init_process_group { init_method = "env://" } end

BEFORE["store get of a missing key"] = function()
  local store = dist.HashStore()
  store:set_timeout(1)
  store:get "missing"
end

-- ---- not yet ----

local NOT_YET = {
  ["comm hook wrong annotation"] = "a Lua function has no annotations",
}

-- Answers {run, before, skipped}, or nil: not understood.
return function(text)
  if NOT_YET[text] then return { skipped = NOT_YET[text] } end
  if TWINS[text] then return { run = TWINS[text] } end
  if BEFORE[text] then return { run = BEFORE[text], before = true } end
end
