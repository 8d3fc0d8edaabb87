-- What a DistributedDataParallel says of itself and of its errors: times against the trace, means against their rule,
-- names by the debug level. Which fields there are and when, tests/parity/twins/ddp_logging holds against PyTorch.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
rs.lesson { title = "logging data", devices = 0, hardware = "ethernet-10g" }
local DDP = nn.parallel.DistributedDataParallel
local STEPS = 4
local stepped = arg[1] == "stepped"

local Branch = nn.Module("Branch")
function Branch:init()
  self.a = nn.Linear(2, 2)
  self.b = nn.Linear(2, 2)
end
function Branch:forward(x, name) return self[name](x) end

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  return not ok and e or { kind = "none", message = "" }
end

---- times ----

local function chain()
  return nn.Sequential { nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8) }
end

local told = dist.spawn(function(rank)
  local ddp, told = DDP(chain(), { bucket_cap_mb = 0.01 }), {}
  for i = 1, STEPS + 1 do
    ddp(rs.full({ 4, 64 }, rank + 1.0)):sum():backward()
    told[i] = ddp:_get_ddp_logging_data()
  end
  return told
end, { world = 2 })

-- In ns: when the first such stage of an iteration began, and ended.
local function stage(kind, rank, iteration)
  local event = rs.trace:first { kind = kind, rank = rank, iter = iteration, phase = "begin" }
  return event.t, event.t + rs.trace:duration(event) * 1000
end

local function same(whole, t) return math.abs(whole - t) < 1.001 end -- ns; what is told is rounded down

local DURATIONS = {
  forward_compute_time = { "forward_compute_time_start", "backward_compute_time_start" },
  backward_compute_time = { "backward_compute_time_start", "backward_compute_time_end" },
  backward_comm_time = { "backward_comm_time_start", "backward_comm_time_end" },
  backward_compute_comm_overlap_time = { "backward_comm_time_start", "backward_compute_time_end" },
}
for rank = 0, 1 do
  local sums, ordered, spanned, meant, traced = {}, true, true, true, true
  for i = 1, STEPS do
    local data = told[rank][i + 1] -- the next forward tells of this iteration
    ordered = ordered and data.forward_compute_time_start <= data.backward_compute_time_start
      and data.backward_compute_time_start < data.backward_comm_time_start
      and data.backward_comm_time_start <= data.backward_compute_time_end
      and data.backward_compute_time_end < data.backward_comm_time_end
    for name, ends in pairs(DURATIONS) do
      local time = data[ends[2]] - data[ends[1]]
      sums[name] = ((sums[name] or 0) * (i - 1) + time) // i
      spanned = spanned and data[name] == time
      meant = meant and data["avg_" .. name] == sums[name]
    end
    local last, over = stage("ddp.finalize_backward", rank, i - 1)
    traced = traced and same(data.forward_compute_time_start, (stage("ddp.forward", rank, i - 1)))
      and same(data.backward_compute_time_start, (stage("ddp.prepare_for_backward", rank, i - 1)))
      and same(data.backward_comm_time_start, (stage("ddp.all_reduce_bucket", rank, i - 1)))
      and same(data.backward_compute_time_end, last) and same(data.backward_comm_time_end, over)
  end
  rs.check(("rank %d: the moments come in the order of an iteration"):format(rank), ordered)
  if stepped then rs.check(("rank %d: they are those of the trace"):format(rank), traced) end
  rs.check(("rank %d: a time lies between two of them"):format(rank), spanned)
  rs.check(("rank %d: a mean is of whole numbers, rounded at each step"):format(rank), meant)
end

---- names in errors, by the level ----

local LEVELS = { OFF = false, INFO = true, DETAIL = true }

-- A wrapper of that level forgets branch b, and then the level changes.
local function forgets(rank, level, options)
  dist.set_debug_level(dist.DebugLevel[level])
  local ddp, x = DDP(Branch(), options), rs.ones(1, 2)
  dist.set_debug_level(level == "OFF" and "DETAIL" or "OFF")
  if options.static_graph then ddp(x, "b"):sum():backward() end
  ddp(x, "a"):sum():backward()
  local e = failure(ddp, x, "a")
  return e, ddp:_get_ddp_logging_data()
end

dist.spawn(function(rank)
  for _, options in ipairs { {}, { gradient_as_bucket_view = true } } do
    for level, named in pairs(LEVELS) do
      local e, data = forgets(rank, level, options)
      local list = named and "2 %(b.weight%) 3 %(b.bias%)%.$" or "2 3%. Set TORCH_DISTRIBUTED_DEBUG to INFO or DETAIL"
      rs.check(("%s: names are %s"):format(level, named and "told" or "to be asked for"),
        e.kind == "RuntimeError" and e.message:find(("for rank %d: "):format(rank) .. list) ~= nil)
      rs.check(("%s: the error is in the logging data"):format(level),
        data.has_error == 1 and data.error == e.message and data.iteration == 2)
    end
  end
end, { world = 2 })

dist.spawn(function(rank)
  local ddp, x = DDP(Branch()), rs.ones(1, 2)
  ddp:_set_static_graph()
  rs.check("static_graph set later is told", ddp:_get_ddp_logging_data().static_graph == 1)
  local late = DDP(Branch())
  late(x, "a")
  local e = failure(late._set_static_graph, late)
  rs.check("and where it is too late, too", e.kind == "RuntimeError" and late:_get_ddp_logging_data().error == e.message)
end, { world = 1 })

---- levels ----

for _, bad in ipairs { "foo", "0", 0, 1, -1, "", " INFO", true } do
  local e = failure(dist.set_debug_level, bad)
  rs.check(("the level %s is refused"):format(bad), e.kind == "ValueError"
    and e.message:find("TORCH_DISTRIBUTED_DEBUG", 1, true) ~= nil and e.message:find("OFF, INFO or DETAIL", 1, true) ~= nil)
end
for _, good in ipairs { "OFF", "oFf", "INfO", "DeTaIl", dist.DebugLevel.INFO } do
  dist.set_debug_level(good)
  rs.check(("the level %s is one"):format(good), dist.get_debug_level() == dist.DebugLevel[good:upper()])
end
local levels = dist.spawn(function(rank)
  local first = dist.get_debug_level()
  if rank == 1 then dist.set_debug_level(dist.DebugLevel.DETAIL) end
  dist.barrier()
  return first .. " " .. dist.get_debug_level()
end, { world = 2 })
rs.check("ranks begin with the lesson's level and change their own", levels[0] == "INFO INFO" and levels[1] == "INFO DETAIL")
rs.check("and not the lesson's", dist.get_debug_level() == "INFO")
dist.set_debug_level_from_env()
rs.check("the environment's level is back", dist.get_debug_level() == "OFF")

-- The root of a broadcast only sends: at OFF it may be through before another rank calls something else.
local function against(level)
  return dist.spawn(function(rank)
    dist.set_debug_level(level)
    local other = function() dist.all_gather({ rs.ones(2), rs.ones(2), rs.ones(2) }, rs.ones(2)) end
    return failure(rank == 0 and function() dist.broadcast(rs.ones(2), 0) end or other)
  end, { world = 3 })
end
local told_detail = against "DETAIL"
for rank = 0, 2 do
  rs.check(("at DETAIL rank %d learns who called something else"):format(rank), told_detail[rank].kind == "MismatchError"
    and told_detail[rank].message:find("all_gather", 1, true) ~= nil and told_detail[rank].message:find("broadcast", 1, true) ~= nil)
end
if stepped then rs.check("at OFF rank 0 is through by then", against("OFF")[0].kind == "none") end
local lost = dist.spawn(function(rank)
  dist.set_debug_level "DETAIL"
  return rank == 0 and failure(dist.broadcast, rs.ones(2), 0) or nil
end, { world = 2 })
rs.check("at DETAIL the root waits for who does not come", lost[0].kind == "DeadlockError" and lost[0].message:find("rank 1", 1, true) ~= nil)
local mixed = dist.spawn(function(rank)
  local t = rs.ones(2)
  dist.set_debug_level(rank == 1 and "OFF" or "DETAIL")
  for i = 0, 9 do
    dist.broadcast(t, i % 3)
    dist.all_reduce(t, { async_op = true }):wait()
  end
  return t:sum():item()
end, { world = 3 })
rs.check("ranks of several levels work together", mixed[0] == 2 * 3.0 ^ 10 and mixed[1] == mixed[0] and mixed[2] == mixed[0])

local lines, show = {}, print
print = function(line) lines[#lines + 1] = line end
dist._dump_DDP_relevant_env_vars()
print = show
local seen, formed = {}, true
for _, line in ipairs(lines) do
  local name, value = line:match "^env:([%u%d_]+)=(.+)$"
  formed = formed and name ~= nil and not seen[name]
  seen[name or ""] = value
end
rs.check("47 variables, a line each", #lines == 47 and formed)
rs.check("with their values", seen.NCCL_ALGO == "a value of its own" and seen.NCCL_TOPO_DUMP_FILE == "N/A")
rs.check("and no others", seen.HOME == nil and seen.PATH == nil and seen.TORCH_DISTRIBUTED_DEBUG == nil)

---- hooks ----

local function my_hook(_, bucket) return dist.all_reduce(bucket:buffer(), { async_op = true }):get_future() end
dist.spawn(function(rank)
  local function another(_, bucket) return my_hook(nil, bucket) end
  local first, second, third = DDP(nn.Linear(2, 2)), DDP(nn.Linear(2, 2)), DDP(nn.Linear(2, 2))
  local function name(ddp) return ddp:_get_ddp_logging_data().comm_hook end
  rs.check("no hook is told before one is there", name(first) == nil)
  first:register_comm_hook(nil, my_hook)
  second:register_comm_hook(nil, another)
  third:register_comm_hook(nil, function(_, bucket) return my_hook(nil, bucket) end)
  rs.check("a hook is told by the variable that holds it", name(first) == "my_hook" and name(second) == "another")
  rs.check("one without a name by its line", name(third):find("^the function of line %d+$") ~= nil)
  local e = failure(first.register_comm_hook, first, nil, another)
  local data = first:_get_ddp_logging_data()
  rs.check("a second hook is refused, and that is told", e.kind == "RuntimeError" and data.error == e.message
    and data.comm_hook == "my_hook")
end, { world = 2 })

---- what each iteration tells ----

dist.spawn(function(rank)
  local ddp, x, iterations = DDP(Branch(), { find_unused_parameters = true }), rs.ones(1, 2), {}
  for _, rate in ipairs { 0, -1 } do
    rs.check("a rate below 1 is refused", failure(ddp._set_ddp_runtime_logging_sample_rate, ddp, rate).kind == "ValueError")
  end
  ddp:_set_ddp_runtime_logging_sample_rate(5)
  for i = 1, 22 do
    ddp(x, i % 2 == 0 and "a" or "b"):sum():backward()
    iterations[i] = ddp:_get_ddp_logging_data().iteration
  end
  rs.check("ten iterations, then every fifth", table.concat(iterations, " ")
    == "0 2 2 3 4 5 6 7 8 9 10 10 10 10 10 15 15 15 15 15 20 20")
  rs.check("another branch each time is no static graph", ddp:_get_ddp_logging_data().can_set_static_graph == 0)
  local same = DDP(Branch(), { find_unused_parameters = true })
  for _ = 1, 3 do same(x, "a"):sum():backward() end
  rs.check("the same one may be", same:_get_ddp_logging_data().can_set_static_graph == nil)
  rs.check("what was unused is told in bytes", same:_get_ddp_logging_data().unused_parameter_size == 24)
end, { world = 2 })

---- buckets that nobody needs ----

dist.spawn(function(rank)
  local reduced = {}
  for i, skips in ipairs { false, true } do -- of three buckets the last one has the unused a.weight alone
    local ddp = DDP(Branch(), { bucket_cap_mb = 0.00001, find_unused_parameters = true, skip_all_reduce_unused_params = skips })
    for _ = 1, 2 do ddp(rs.ones(1, 2), "b"):sum():backward() end
    reduced[i] = ddp:_get_ddp_logging_data().num_buckets_reduced
  end
  rs.check("a bucket that is skipped is not counted", reduced[1] == 3 and reduced[2] == 2)
  local net = nn.Sequential { nn.Linear(2, 2, { bias = false }), nn.Linear(2, 2) }
  net[1]:requires_grad_(false)
  local delayed = DDP(net, { delay_all_reduce_named_params = { { "0.weight", net[0].weight } },
    param_to_hook_all_reduce = net[0].weight })
  rs.check("without a reducer nothing is told", failure(delayed._get_ddp_logging_data, delayed).kind == "AssertionError")
end, { world = 2 })
