-- What PyTorch's own tests ask of DDP's logging data and of its profile. T: rows of the common list; D: further
-- fields, other worlds and rates.
--
-- A profile is the trace here. Left out, with the reason: NCCL's fields (the back-end is none); an execution trace of
-- Kineto's.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
local F, DDP = nn.functional, nn.parallel.DistributedDataParallel

rs.lesson { title = "PyTorch cases: logging data and the trace", devices = 4, seed = 1, prefix = "" }

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

local function seeded(seed, make, ...)
  rs.manual_seed(seed)
  return make(...)
end
local function rows(t, from, count) return t[rs.slice(from, from + count)] end

local BOTH = { false, true }

local Net = nn.Module "Net"
function Net:init()
  self.fc1 = nn.Linear(2, 10, { bias = false })
  self.fc2 = nn.Linear(10, 50)
  self.fc3 = nn.Linear(50, 4, { bias = false })
  self.fc2.bias:requires_grad_(false)
  self.no_grad_param = nn.Parameter(rs.tensor({ 2, 2 }, { dtype = "int64" }), { requires_grad = false })
end
function Net:forward(x) return F.softmax(self.fc3(F.relu(self.fc2(F.relu(self.fc1(x))))), 1) end

-- `count` iterations, two rows a rank, of a wrapper that notes every `rate`th; each(i, data) hears of it after
-- iteration i.
local function trained(rank, ddp, rate, count, each)
  local world = dist.get_world_size()
  local device = ddp.module.fc1.weight.device
  local x, y = seeded(3, rs.randn, 2 * world, 2):to(device), rs.randn(2 * world, 4):to(device)
  if rate then ddp:_set_ddp_runtime_logging_sample_rate(rate) end
  for i = 0, count - 1 do
    F.mse_loss(ddp(rows(x, 2 * rank, 2)), rows(y, 2 * rank, 2)):backward()
    ddp:zero_grad { set_to_none = false }
    if each then each(i, ddp:_get_ddp_logging_data()) end
  end
  return ddp:_get_ddp_logging_data()
end

local function iterations(rank, rate, count)
  local noted = {}
  trained(rank, DDP(seeded(1, Net)), rate, count, function(_, data) noted[#noted + 1] = data.iteration end)
  return table.concat(noted, " ")
end

-- Times are whole numbers of ns; an overlap is no longer than what overlaps; stamps come in order.
local function times_fit(data)
  local function pair(prefix)
    local function of(name) return math.tointeger(data[prefix .. name .. "_time"]) or -1 end
    return of "forward_compute" >= 0 and of "backward_compute_comm_overlap" >= 0
      and of "backward_compute" >= of "backward_compute_comm_overlap"
        and of "backward_comm" >= of "backward_compute_comm_overlap"
  end
  return pair "" and pair "avg_" and data.backward_comm_time_end >= data.backward_comm_time_start
    and data.backward_comm_time_start >= data.backward_compute_time_start
    and data.backward_compute_time_end >= data.backward_compute_time_start
    and data.backward_compute_time_start >= data.forward_compute_time_start
end

-- ---- the trace ----

local function since(from, filter)
  local count = 0
  for _, event in ipairs(rs.trace:events(filter)) do
    if event.seq >= from then count = count + 1 end
  end
  return count
end
-- How often this rank issued the operation, and how often it then stood still until it had ended.
local function issued(from, rank, operation)
  local issues, at_once, last = 0, 0, nil
  for _, event in ipairs(rs.trace:events { rank = rank }) do
    if event.seq >= from and event.args and event.args.operation == operation then
      if event.kind == "c10d.issue" then issues, last = issues + 1, event end
      if event.kind == "c10d.wait" and event.phase == "begin" and last
        and event.seq == last.seq + 1 then at_once = at_once + 1 end
    end
  end
  return issues, at_once
end

for _, world in ipairs { 2, 3 } do
  row("T379", world, function(rank, check)
    for _, view in ipairs(BOTH) do
      local net, x = seeded(1, nn.Linear, 10, 10, { bias = false }), rs.rand(3, 10)
      local ddp = DDP(net, { gradient_as_bucket_view = view })
      local from = rs.trace:seq()
      for _ = 1, 6 do ddp(x):sum():backward() end
      local all_reduces, waited = issued(from, rank, "all_reduce")
      check(("T379 six iterations, one bucket: six all-reduces in the trace, asynchronous, %d ranks"):format(world),
        all_reduces == 6
        and waited == 0 and since(from, { kind = "ddp.all_reduce_bucket", phase = "begin", rank = rank }) == 6)
      check("D379 and broadcasts of the rebuilt buckets", issued(from, rank, "broadcast") >= 1)
      ddp = DDP(seeded(1, nn.Linear, 10, 10, { bias = false }), { find_unused_parameters = true })
      for _ = 1, 3 do ddp(x):sum():backward() end
      from = rs.trace:seq()
      ddp(x):sum():backward()
      check("D379 one more iteration with the search: the bucket's and the map's",
        issued(from, rank, "all_reduce") == 2)
      from = rs.trace:seq()
      ddp:no_sync(function() ddp(x):sum():backward() end)
      check("D379 none inside of no_sync", issued(from, rank, "all_reduce") == 0)
    end
  end)
  row("D380", world, function(rank, check)
    local net = nn.Sequential { nn.Linear(10, 10), nn.Linear(10, 10), nn.Linear(10, 10) }
    local ddp, x = DDP(net, { bucket_cap_mb = 0.0001 }), rs.rand(3, 10)
    local counts = {}
    for i = 1, 4 do
      local from = rs.trace:seq()
      ddp(x):sum():backward()
      counts[i] = issued(from, rank, "all_reduce")
    end
    check(("D380 small buckets: one all-reduce, then one a bucket, %d ranks"):format(world),
      table.concat(counts, " ") == "1 3 3 3")
  end)
end

-- ---- what is noted when ----

local RATES = {
  { "T369", 2, 20, "0 1 2 3 4 5 6 7 8 9 10 10 12 12 14 14 16 16 18 18" },
  { "D369", 1, 14, "0 1 2 3 4 5 6 7 8 9 10 11 12 13" },
  { "D369", 3, 24, "0 1 2 3 4 5 6 7 8 9 10 10 12 12 12 15 15 15 18 18 18 21 21 21" },
  { "D369", 5, 22, "0 1 2 3 4 5 6 7 8 9 10 10 10 10 10 15 15 15 15 15 20 20" },
  { "D369", nil, 16, "0 1 2 3 4 5 6 7 8 9 10 10 10 10 10 10" },
}
for _, world in ipairs { 2, 3 } do
  row("T369", world, function(rank, check)
    for _, case in ipairs(RATES) do
      check(("%s a sample rate of %s, %d iterations, %d ranks: noted are %s"):format(case[1], case[2]
        or "100, which nobody set", case[3],
        world, case[4]), iterations(rank, case[2], case[3]) == case[4])
    end
  end)
end

row("D370", 2, function(rank, check)
  local ddp = DDP(nn.Linear(1, 1))
  for _, rate in ipairs { 0, -1 } do
    local ok, e = pcall(ddp._set_ddp_runtime_logging_sample_rate, ddp, rate)
    check("D370 a sample rate below 1 is a ValueError", not ok and e.kind == "ValueError")
  end
  local noted = {}
  for i = 0, 5 do
    local function go() ddp(rs.ones(1, 1)):sum():backward() end
    if i % 2 == 1 then ddp:no_sync(go) else go() end
    noted[#noted + 1] = ddp:_get_ddp_logging_data().iteration
  end
  check("D370 forwards inside of no_sync are no iterations", table.concat(noted, " ") == "0 0 1 1 2 2")
  local fit = true
  trained(rank, DDP(Net()), 2, 20, function(i, data)
    if i > 0 and (i < 10 or i % 2 == 0) then fit = fit and times_fit(data) and data.iteration == i end
    if i > 10 and i % 2 == 1 then fit = fit and data.iteration ~= i end
  end)
  check("D370 the times of what was noted fit each other", fit)
end)

for _, world in ipairs { 2, 4 } do
  row("T371", world, function(rank, check)
    for _, view in ipairs(BOTH) do
      local ddp = DDP(seeded(1, Net), { gradient_as_bucket_view = view })
      check("D371 before the first iteration nothing is rebuilt", (ddp:_get_ddp_logging_data().has_rebuilt_buckets
        or 0) == 0)
      local data = trained(rank, ddp, 2, 20)
      check(("T371 after 20 iterations buckets are rebuilt: 2880 bytes, %d ranks"):format(world),
        data.has_rebuilt_buckets == 1
        and data.rebuilt_bucket_sizes == "2880")
      check("T371 gradients were ready in the order 2, 1, 0, and so lie in the bucket",
        data.prev_iteration_grad_ready_order_indices == "2, 1, 0"
        and data.rebuilt_per_bucket_param_indices == "2 1 0")
      check("D371 no parameter was unused", (data.unused_parameter_size or 0) == 0 and data.num_buckets_reduced == 1)
    end
  end)
  row("D372", world, function(rank, check)
    dist.set_debug_level(dist.DebugLevel.INFO)
    local data = trained(rank, DDP(seeded(1, Net)), 2, 20)
    check(("D372 rank, world, back-end and name, %d ranks"):format(world), data.world_size == world
      and data.rank == rank
      and data.backend_name == dist.get_backend() and data.module_name == "Net")
    check("D372 no device", data.device_ids == "" and data.output_device == -1 and data.is_multi_device_module == 0)
    check("D372 options as numbers", data.broadcast_buffers == 1 and data.find_unused_parameters == 0
      and data.gradient_as_bucket_view == 0
      and data.bucket_cap_bytes == 26214400 and data.has_sync_bn == 0)
    check("D372 only what needs a gradient counts", data.num_parameter_tensors == 3
      and data.total_parameter_size_bytes == 2880
      and data.bucket_sizes == "2880" and data.dtypes == "float")
    check("D372 the environment's words, or N/A", data.master_addr ~= nil and data.master_port ~= nil
      and data.torch_distributed_debug ~= nil and data.cuda_visible_devices ~= nil)
    check("D372 iteration 18, and times that fit", data.iteration == 18 and times_fit(data))
  end)
end

row("D373", 2, function(_, check)
  local net = nn.Sequential { nn.Linear(1000, 2000, { bias = false }):to("float64"),
    nn.Linear(2000, 500, { bias = false }) }
  local data = DDP(net, { bucket_cap_mb = 1.5 }):_get_ddp_logging_data()
  check("D373 two dtypes: their names, and a bucket each, the last parameter's first", data.dtypes == "double, float"
    and data.bucket_sizes == "4000000, 16000000" and data.bucket_cap_bytes == 1572864)
  for _, options in ipairs { { find_unused_parameters = true }, { gradient_as_bucket_view = true },
    { broadcast_buffers = false } } do
    data = DDP(nn.Linear(2, 2), options):_get_ddp_logging_data()
    check("D373 options as they were given",
      (data.find_unused_parameters == 1) == (options.find_unused_parameters == true)
      and (data.gradient_as_bucket_view == 1) == (options.gradient_as_bucket_view == true)
      and (data.broadcast_buffers == 1) == (options.broadcast_buffers == nil))
  end
end)

row("D375", 2, function(_, check)
  local class = nn.Module "Toy"
  function class:init()
    self.a = nn.Linear(10, 10, { bias = false })
    self.b = nn.Linear(10, 20, { bias = false })
  end
  function class:forward(x) return self.a(x) end
  local ddp = DDP(class(), { find_unused_parameters = true })
  for _ = 1, 3 do ddp(rs.ones(1, 10)):sum():backward() end
  local data = ddp:_get_ddp_logging_data()
  check("D375 unused parameters count their bytes", data.unused_parameter_size == 800
    and (data.has_rebuilt_buckets or 0) == 0)
end)

for _, world in ipairs { 2, 4 } do
  row("T374", world, function(rank, check)
    local ddp = DDP(seeded(1, Net):to(rank), { device_ids = { rank } })
    local data = trained(rank, ddp, 2, 20)
    check(("T374 device_ids is the rank's, so is output_device, %d ranks"):format(world),
      data.device_ids == tostring(rank)
      and data.output_device == rank)
    check("D374 order and buckets are as on the host, and times fit",
      data.prev_iteration_grad_ready_order_indices == "2, 1, 0"
      and data.rebuilt_per_bucket_param_indices == "2 1 0" and times_fit(data) and data.iteration == 18)
    data = DDP(nn.Linear(2, 2):to(rank)):_get_ddp_logging_data()
    check("D374 without device_ids there is none", data.device_ids == "" and data.output_device == -1)
  end)
end

-- ---- a checkpointed model ----

row("T376", 2, function(rank, check)
  local checkpoint = rs.utils.checkpoint.checkpoint
  local class = nn.Module "Checkpointed"
  function class:init(reentrant)
    self.l1 = nn.Linear(20, 20)
    self.l2 = nn.Linear(20, 20)
    self.reentrant = reentrant
  end
  function class:forward(x) return checkpoint(self.l2, self.l1(x), { use_reentrant = self.reentrant }) end
  for _, static in ipairs(BOTH) do
    for _, view in ipairs(BOTH) do
      for _, reentrant in ipairs(BOTH) do
        local ddp = DDP(seeded(1, class, reentrant), { static_graph = static, gradient_as_bucket_view = view })
        local before = ddp:_get_ddp_logging_data().static_graph or 0
        for _ = 1, 5 do ddp(rs.randn(4, 20)):sum():backward() end
        check("T376 static_graph in the data is as built, before and after training", before == (static and 1 or 0)
          and (ddp:_get_ddp_logging_data().static_graph or 0) == before)
      end
    end
  end
  local ddp = DDP(nn.Linear(2, 2))
  ddp:_set_static_graph()
  check("D376 or as it was set later", ddp:_get_ddp_logging_data().static_graph == 1)
end)

-- ---- the environment ----

row("T381", 1, function(_, check)
  local lines, printed = {}, print
  print = function(line) lines[#lines + 1] = line end
  dist._dump_DDP_relevant_env_vars()
  print = printed
  local function told(name)
    local found = {}
    for _, line in ipairs(lines) do
      local value = line:match("^env:" .. name .. "=(.*)$")
      if value then found[#found + 1] = value end
    end
    return found
  end
  local ok = true
  for _, name in ipairs { "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "NCCL_TOPO_DUMP_FILE",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING" } do
    ok = ok and #told(name) == 1 and #told(name)[1] > 0
  end
  check("T381 one line a variable: env:NAME=value, or N/A", ok and told("NCCL_TOPO_DUMP_FILE")[1] == "N/A")
  check("T381 unknown names are absent", #told("xxx") + #told("yyy") + #told("zzz") == 0)
  local all = true
  for _, line in ipairs(lines) do all = all and line:match("^env:[%w_]+=.+$") ~= nil end
  check("D381 every line is of that form", all and #lines > 20)
end)
