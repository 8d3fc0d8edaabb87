-- What PyTorch's own tests ask of errors, of barriers that do not end and of names for debugging. T: rows of the
-- common list; D: further tests of the same files, other worlds, calls and sizes.
--
-- A rank that is missing is known at once in stepped (DeadlockError, or its kin); in free the time-out tells
-- (TimeoutError). Left out, with the reason: lists of several tensors a rank for one collective (removed from
-- PyTorch; all_reduce_coalesced has lists, whose sizes may differ); the text of a fingerprint.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
local DDP = nn.parallel.DistributedDataParallel

rs.lesson { title = "PyTorch cases: errors and debugging", seed = 1, prefix = "" }

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

-- What f raised: {kind, message}, or nil.
local function raised(f, ...)
  local ok, e = pcall(f, ...)
  if ok then return nil end
  if type(e) ~= "table" then return { kind = "text", message = tostring(e) } end
  return { kind = e.kind, message = e.message }
end
local function has(e, ...)
  if not e then return false end
  for _, word in ipairs { ... } do
    if not e.message:find(word, 1, true) then return false end
  end
  return true
end
local function refused(kind, words, f, ...)
  local e = raised(f, ...)
  return e ~= nil and e.kind == kind and has(e, table.unpack(words))
end
local function f64(...) return rs.zeros({ ... }, { dtype = "float64" }) end
local function seeded(seed, make, ...)
  rs.manual_seed(seed)
  return make(...)
end

-- ---- models that differ ----

local function embedded(wide, one_less)
  return nn.Sequential { nn.Embedding(wide, 10), nn.Linear(10, 1, { bias = not one_less }) }
end
local function trains(net)
  local ddp = DDP(net)
  ddp(rs.tensor({ 1, 2 }, { dtype = "int64" })):sum():backward()
end

for _, world in ipairs { 2, 3, 4 } do
  row("T338", world, function(rank, check)
    local e = raised(trains, embedded(rank == 0 and 500 or 50))
    check(("T338 an embedding of 500 on rank 0, 50 elsewhere, %d ranks: index 0 and its sizes are named"):format(world),
      rank == 0 or has(e, "params[0]", "[50, 10]", ("rank %d"):format(rank)) and e.kind == "RuntimeError")
    check("T338 rank 0 ends with an error, too", e ~= nil)
  end)
  row("D339", world, function(rank, check)
    local odd = world - 1
    local e = raised(trains, embedded(50, rank == odd))
    check(("D339 one parameter less on rank %d of %d: each rank names the other's number"):format(odd, world),
      has(e, rank == odd and ("rank %d has 2"):format(odd) or ("rank %d has 3"):format(rank),
        rank == odd and "rank 0 has 3" or ("rank %d has 2"):format(odd)) and e.kind == "RuntimeError")
  end)
end

for _, case in ipairs { { "the second layer differs", { 3, 4 }, { 3, 5 }, "params[2]", "[5, 3]" },
  { "sizes in another order", { 3, 4 }, { 4, 3 }, "params[2]", "[3, 4]" } } do
  row("D338", 2, function(rank, check)
    local net = nn.Sequential { nn.Linear(3, 3), nn.Linear(table.unpack(case[2 + rank])) }
    local e = raised(DDP, net)
    check(("D338 %s: its index and sizes"):format(case[1]), rank == 0 or has(e, case[4], case[5]))
  end)
end

row("D336", 2, function(rank, check)
  local class = nn.Module "Turned"
  function class:init() self.p = nn.Parameter(rank == 0 and rs.ones(3, 4) or rs.ones(4, 3):t()) end
  function class:forward(x) return x * self.p end
  local e = raised(DDP, class())
  check("D336 equal sizes that lie in another order in memory are told", rank == 0 or has(e, "params[0]", "strides"))
end)

row("D337", 2, function(rank, check)
  check("D337 without init_sync nobody looks", raised(DDP, nn.Linear(2, rank + 2), { init_sync = false }) == nil)
end)

row("T340", 2, function(rank, check)
  local ddp = DDP(embedded(50))
  ddp.module.lin = nn.Linear(rank == 0 and 100 or 10, 1)
  local e = raised(dist._verify_params_across_processes, dist.group.WORLD, ddp.module:parameters(), ddp.logger)
  local data = ddp:_get_ddp_logging_data()
  if rank == 1 then
    check("T340 a layer that was swapped on one rank: the check of shapes names it", has(e, "params[3]", "[1, 10]"))
    check("T340 the logging data have the error", data.has_error == 1 and data.error:find("params[3]", 1, true) ~= nil
      and data.iteration == 0)
  end
  local caught = rs.tensor { e and 1.0 or 0.0 }
  dist.all_reduce(caught)
  check("T340 at least one rank saw it", caught:item() >= 1)
  dist.barrier()
  e = raised(dist._verify_params_across_processes, dist.group.WORLD, ddp.module:parameters())
  check("D340 so without a logger", rank == 0 or has(e, "params[3]"))
end)

-- ---- barriers that do not end ----

-- What rank 0 hears from a barrier to which the others do not come, and how long it took (ns).
local function alone(rank, seconds, barrier, side)
  if rank == 0 then
    local e = raised(barrier)
    local events = rs.trace:events { kind = "c10d.barrier", rank = 0, phase = "begin" }
    local from = events[#events].t
    pcall(dist.barrier, side)
    events = rs.trace:events { kind = "c10d.barrier", rank = 0, phase = "begin" }
    return e, e and e.kind == "TimeoutError" and #events > 0 and events[#events].t - from >= seconds * 0.9e9
  end
  pcall(dist.barrier, side)
  return nil, nil
end

local BARRIERS = {
  { "T343", "the default group", 0.3, function(seconds)
    dist.set_timeout(seconds, dist.group.WORLD)
    return function() dist.barrier() end
  end },
  { "D343", "a group of all ranks", 0.2, function(seconds)
    local group = dist.new_group(nil, { timeout = seconds })
    return function() dist.barrier(group) end
  end },
  { "D344", "the call", 0.1, function(seconds)
    return function() dist.barrier { timeout = seconds } end
  end },
}
for _, world in ipairs { 2, 3 } do
  for _, case in ipairs(BARRIERS) do
    row(case[1], world, function(rank, check)
      local side, barrier = dist.new_group(), case[4](case[3])
      local e, late = alone(rank, case[3], barrier, side)
      if rank == 0 then
        check(("%s only rank 0 of %d at the barrier: it raises, and names rank 1 (time-out of %s)"):format(case[1],
          world, case[2]), has(e, "rank 1") and (e.kind == "DeadlockError" or late))
      end
    end)
  end
end

for _, world in ipairs { 3, 4 } do
  row("T345", world, function(rank, check)
    check(("T345 all %d ranks come: a monitored barrier passes, and waits for all if told"):format(world),
      raised(dist.monitored_barrier) == nil and raised(dist.monitored_barrier, { wait_all_ranks = true }) == nil
      and raised(dist.monitored_barrier, { timeout = 30 }) == nil)
    local e = rank ~= 1 and raised(dist.monitored_barrier, { timeout = 0.2 })
    if rank == 0 then
      check("T345 rank 1 is missing: rank 0 names it", has(e, "rank 1") and e.kind == "RuntimeError")
    elseif rank > 1 then
      check("T345 who came hears of rank 1, too, or is pointed to rank 0", has(e, "monitored_barrier")
        and (has(e, "rank 0") or has(e, "rank 1")))
    end
  end)
end

row("D346", 3, function(rank, check)
  local pair = dist.new_group { 0, 2 }
  if rank ~= 1 then
    check("D346 in a group of two both come", raised(dist.monitored_barrier, { group = pair }) == nil)
    local e = rank == 0 and raised(dist.monitored_barrier, { group = pair, timeout = 0.2 })
    if rank == 0 then check("D346 the other one of a group is missing: it is named by its global rank",
      has(e, "rank 2")) end
  end
end)

row("D347", 3, function(rank, check)
  local e = rank ~= 0 and raised(dist.monitored_barrier, { timeout = 0.2 })
  if rank ~= 0 then check("D347 rank 0 is missing: the others name it", has(e, "rank 0")
    and e.kind == "RuntimeError") end
end)

row("D349", 4, function(rank, check)
  local e = rank < 2 and raised(dist.monitored_barrier, { timeout = 0.2 })
  if rank == 0 then check("D349 of several that are missing the first is named", has(e, "rank 2")
    and not has(e, "rank 3")) end
end)

for _, world in ipairs { 4, 3, 2 } do
  row("T348", world, function(rank, check)
    local e = rank == 0 and raised(dist.monitored_barrier, { timeout = 0.2, wait_all_ranks = true })
    local ok = rank ~= 0
    if rank == 0 then
      ok = e ~= nil and e.kind == "RuntimeError"
      for other = 1, world - 1 do ok = ok and e.message:match("[^;]*"):find("%f[%d]" .. other .. "%f[%D]") ~= nil end
    end
    check(("T348 all others of %d are missing: rank 0 names them all"):format(world), ok)
  end)
end

for _, wait in ipairs { false, true } do
  row("T350", 3, function(rank, check)
    local group = dist.new_group { 0, 1, 2 }
    if rank == 0 then
      local e = raised(dist.monitored_barrier, { timeout = 0.3, wait_all_ranks = wait })
      check(wait and "D350 told to wait for all, it names both that are stuck"
        or "T350 the others are stuck in an all-reduce of another group: rank 0 names rank 1", e ~= nil
          and e.kind == "RuntimeError"
        and e.message:find("1", 1, true) ~= nil and (e.message:match("[^;]*"):find("2", 1, true) ~= nil) == wait)
    else
      check("T350 who is stuck ends with an error", raised(dist.all_reduce, rs.ones(2), { group = group }) ~= nil)
    end
  end)
end

-- ---- calls that do not match ----

local OPS = {
  { "T353", "reduce against barrier", function() dist.reduce(rs.ones(2), 0) end, function() dist.barrier() end,
    "reduce", "barrier" },
  { "T353", "broadcast against all_gather", function() dist.broadcast(rs.ones(2), 0) end,
    function() dist.all_gather({}, rs.ones(2)) end,
    "broadcast", "all_gather" },
  { "D353", "all_reduce against reduce_scatter", function() dist.all_reduce(rs.ones(2)) end,
    function() dist.reduce_scatter_tensor(rs.ones(1), rs.ones(2)) end, "all_reduce", "reduce_scatter" },
  { "D353", "all_to_all against all_reduce", function() dist.all_to_all_single(rs.ones(2), rs.ones(2)) end,
    function() dist.all_reduce(rs.ones(2)) end, "all_to_all", "all_reduce" },
  { "D353", "scatter against all_reduce", function() dist.scatter(rs.ones(2), { rs.ones(2), rs.ones(2) }, 0) end,
    function() dist.all_reduce(rs.ones(2)) end, "scatter", "all_reduce" },
}
for _, case in ipairs(OPS) do
  row(case[1], 2, function(rank, check)
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    local e = raised(case[3 + rank])
    check(("%s at DETAIL, %s: each rank raises with its own"):format(case[1], case[2]), has(e, case[5 + rank]))
  end)
end

local SHAPES = {
  { "T355", { 20, 10, 2 }, { 20, 10 } }, { "D355", { 20, 10 }, { 10, 20 } }, { "D355", { 4 }, { 5 } },
    { "D355", { 1, 20, 10 }, { 20, 10 } },
}
for _, case in ipairs(SHAPES) do
  row(case[1], 2, function(rank, check)
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    for name, call in pairs { all_reduce = dist.all_reduce, reduce = function(t) dist.reduce(t, 0) end } do
      if name == "all_reduce" then
        local mine = case[2 + rank]
        local e = raised(call, rs.ones(mine))
        check(("%s at DETAIL, [%s] against [%s]: each rank raises with its own shape"):format(case[1],
          table.concat(case[2], ", "),
          table.concat(case[3], ", ")), has(e, "[" .. table.concat(mine, ", ") .. "]"))
      end
    end
  end)
end

row("D354", 2, function(rank, check)
  dist.set_debug_level(dist.DebugLevel.DETAIL)
  local e = raised(dist.all_reduce, rank == 0 and rs.ones(4) or f64(4))
  check("D354 at DETAIL dtypes that differ are told", has(e, "float32", "float64"))
end)

row("D356", 2, function(rank, check)
  dist.set_debug_level(dist.DebugLevel.DETAIL)
  local e = rank == 0 and raised(dist.all_reduce, rs.ones(2))
  if rank == 0 then check("D356 at DETAIL a rank that does not come is named", has(e, "rank 1")) end
end)

-- ---- what one call checks ----

row("T358", 2, function(rank, check)
  local t = rs.zeros(2)
  check("T358 an empty list", has(raised(dist.all_reduce_coalesced, {}), "no tensors"))
  check("T358 mixed dtypes", refused("ValueError", { "float32", "float64" }, dist.all_reduce_coalesced, { t, f64(2) }))
  dist.barrier()
  local e = raised(dist.all_reduce, rank == 0 and rs.zeros(2) or rs.zeros(3))
  check("T358 mixed sizes", has(e, "[2]", "[3]"))
end)

row("T360", 2, function(rank, check)
  local t = rs.zeros(3)
  local function list(...) return rank == 0 and { ... } or nil end
  if rank == 1 then
    check("T360 a bad root: -1, or the world's size", refused("RuntimeError", { "-1" }, dist.gather, t, nil, -1)
      and refused("RuntimeError", { "2" }, dist.gather, t, nil, 2))
    check("T360 a list elsewhere than on the root", refused("ValueError", { "root" }, dist.gather, t, { t, t }, 0))
  else
    check("T360 lists of one too few and one too many name both numbers",
      has(raised(dist.gather, t, list(t), 0), "2", "1")
      and has(raised(dist.gather, t, list(t, t, t), 0), "2", "3"))
    check("T360 another dtype, another size", has(raised(dist.gather, t, list(t, f64(3)), 0), "float32", "float64")
      and has(raised(dist.gather, t, list(t, rs.zeros(4)), 0), "[3]", "[4]"))
    check("D360 the root without a list", raised(dist.gather, t, nil, 0) ~= nil)
  end
end)

row("D361", 2, function(rank, check)
  local t = rs.zeros(3)
  if rank == 0 then
    check("D361 broadcast and reduce with a bad root", refused("RuntimeError", { "-1" }, dist.broadcast, t, -1)
      and refused("RuntimeError", { "2" }, dist.broadcast, t, 2)
        and refused("RuntimeError", { "-1" }, dist.reduce, t, -1)
      and refused("RuntimeError", { "2" }, dist.reduce, t, 2))
    check("D361 scatter with a list of one too few, one too many, of another dtype or size, or without one",
      has(raised(dist.scatter, t, { t }, 0), "2", "1") and has(raised(dist.scatter, t, { t, t, t }, 0), "2", "3")
      and has(raised(dist.scatter, t, { t, f64(3) }, 0), "float64")
        and has(raised(dist.scatter, t, { t, rs.zeros(4) }, 0), "[4]")
      and raised(dist.scatter, t, nil, 0) ~= nil)
    check("D361 all_gather with a list of one too few or too many, of another dtype",
      has(raised(dist.all_gather, { t }, t), "2", "1")
      and has(raised(dist.all_gather, { t, t, t }, t), "2", "3")
        and has(raised(dist.all_gather, { t, f64(3) }, t), "float64"))
  else
    check("D361 scatter with a list elsewhere than on the root",
      refused("ValueError", {}, dist.scatter, t, { t, t }, 0))
  end
end)

for _, op in ipairs { "PRODUCT", "MIN", "MAX" } do
  row("T363", 2, function(_, check)
    check("T363 sparse tensors with " .. op,
      refused("RuntimeError", { "sparse" }, dist.all_reduce, rs.ones(3, 2):to_sparse(1), dist.ReduceOp[op]))
  end)
end
row("T363", 2, function(rank, check)
  check("T363 a sparse and a dense one in one list",
    has(raised(dist.all_reduce_coalesced, { rs.ones(3, 2):to_sparse(1), rs.ones(3, 2) }), "sparse"))
  dist.barrier()
  local e = raised(dist.all_reduce, rank == 0 and rs.ones(3, 2):to_sparse(1) or rs.ones(3, 2))
  check("D363 a sparse one here and a dense one there", has(e, "sparse"))
end)

-- ---- levels of debugging, and names ----

for _, level in ipairs { "OFF", "oFf", "off", "INfO", "INFO", "DeTaIl", "DETAIL" } do
  row("T365", 1, function(_, check)
    dist.set_debug_level(level)
    check("T365 the level may be " .. level, dist.get_debug_level() == dist.DebugLevel[level:upper()])
  end)
end
row("T365", 1, function(_, check)
  dist.set_debug_level(dist.DebugLevel.INFO)
  for _, wrong in ipairs { "foo", "0", "1", "-1", "", "INFO " } do
    check(("T365 it may not be '%s'"):format(wrong), refused("ValueError", {}, dist.set_debug_level, wrong))
  end
  for _, wrong in ipairs { 0, 1, -1 } do
    check("D365 nor a number, which PyTorch has none for", refused("ValueError", {}, dist.set_debug_level, wrong))
  end
  check("D365 what was refused changes nothing", dist.get_debug_level() == dist.DebugLevel.INFO)
  dist.set_debug_level_from_env()
  check("D365 the environment's word for it is OFF unless set", dist.get_debug_level() ~= nil)
end)

-- {0: "a", 1: "b"} of the parameters that DDP reduces.
local function names(ddp)
  local params = ddp:_build_params_for_reducer()
  local mapping, texts = ddp:_build_debug_param_to_name_mapping(params), {}
  for index = 0, #params - 1 do texts[#texts + 1] = index .. " " .. tostring(mapping[index]) end
  return table.concat(texts, ", "), params
end

row("T368", 1, function(_, check)
  dist.set_debug_level(dist.DebugLevel.INFO)
  local class = nn.Module "Net"
  function class:init()
    self.lin = nn.Linear(10, 10)
    self.lin.bias:requires_grad_(false)
  end
  function class:forward(x) return self.lin(x) end
  check("T368 a frozen bias is left out of the names", names(DDP(class())) == "0 lin.weight")
end)

row("D366", 2, function(_, check)
  local class = nn.Module "TwoLayers"
  function class:init()
    self.a = nn.Linear(10, 10, { bias = false })
    self.b = nn.Linear(10, 1, { bias = false })
  end
  function class:forward(x) return self.b(self.a(x)) end
  local ddp = DDP(seeded(1, class))
  local text, params = names(ddp)
  check("D366 parameters are named by number", text == "0 a.weight, 1 b.weight")
  params[3], params[4] = nn.Parameter(rs.ones(1)), nn.Parameter(rs.ones(1))
  check("D367 more parameters than the module has",
    refused("ValueError", {}, ddp._build_debug_param_to_name_mapping, ddp, params))
  check("D367 or fewer", refused("ValueError", {}, ddp._build_debug_param_to_name_mapping, ddp, { params[1] }))
  local net = class()
  DDP._set_params_and_buffers_to_ignore_for_model(net, { "a.weight" })
  check("D366 an ignored one has neither name nor number", names(DDP(net)) == "0 b.weight")
end)

row("D369", 2, function(_, check)
  local ddp = DDP(nn.Linear(2, 2))
  check("D369 a hook that cannot be called is a TypeError, and in the logging data",
    refused("TypeError", { "callable" },
    ddp.register_comm_hook, ddp, {}, {}) and ddp:_get_ddp_logging_data().has_error == 1
    and ddp:_get_ddp_logging_data().error:find("callable", 1, true) ~= nil)
end)

