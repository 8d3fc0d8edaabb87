-- What PyTorch's own tests ask of PowerSGD. T: rows of the common list; P: what its description promises, with other options,
-- ranks and worlds. Expected numbers are worked out here, or by a plain all-reduce of the same gradients.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
local DDP = nn.parallel.DistributedDataParallel
local hooks = dist.algorithms.ddp_comm_hooks
local power = hooks.powerSGD_hook
local PowerSGDState = power.PowerSGDState

rs.lesson { title = "PyTorch cases: PowerSGD", devices = 4, seed = 1, prefix = "" }

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

local function near(a, b, tolerance) return rs.allclose(a, b, { atol = tolerance or 1e-5, rtol = 1e-4 }) end

local function crossed(...)
  local out = { {} }
  for _, choice in ipairs { ... } do
    local more = {}
    for _, options in ipairs(out) do
      for _, value in ipairs(choice[2]) do
        local copy = { [choice[1]] = value }
        for k, v in pairs(options) do copy[k] = v end
        more[#more + 1] = copy
      end
    end
    out = more
  end
  return out
end
local BOTH = { false, true }

-- A module of parameters of these shapes whose gradients are what it is called with.
local Given = nn.Module "Given"
function Given:init(shapes)
  self.count = #shapes
  for i, shape in ipairs(shapes) do self["p" .. i] = nn.Parameter(rs.zeros(shape)) end
end
function Given:forward(...)
  local sum, gradients = 0, { ... }
  for i = 1, self.count do sum = sum + (self["p" .. i] * gradients[i]):sum() end
  return sum
end

-- The gradients of one step: each rank's own, from the seed.
local function gradients_of(shapes, seed, rank)
  local generator, out = rs.Generator():manual_seed(1000 * seed + rank), {}
  for i, shape in ipairs(shapes) do out[i] = rs.randn(shape, { generator = generator }) end
  return out
end

local function means_of(shapes, seed, world)
  local out = gradients_of(shapes, seed, 0)
  for rank = 1, world - 1 do
    for i, t in ipairs(gradients_of(shapes, seed, rank)) do out[i] = out[i] + t end
  end
  for i, t in ipairs(out) do out[i] = t / world end
  return out
end

-- One backward of each step; what became of the gradients, step by step.
local function reduced(shapes, steps, rank, hook, state, options)
  local net = Given(shapes)
  local ddp, out = DDP(net, options or {}), {}
  ddp:register_comm_hook(state, hook)
  for step = 1, steps do
    ddp:zero_grad()
    ddp(table.unpack(gradients_of(shapes, step, rank))):backward()
    out[step] = {}
    for i = 1, #shapes do out[step][i] = net["p" .. i].grad:clone() end
  end
  return out
end

local function all_near(a, b, tolerance)
  for i = 1, #b do
    if not near(a[i], b[i], tolerance) then return false end
  end
  return true
end

-- ---- the rows ----

-- nc's Task: output p + x, mean; gradient 1/4 of each of four.
local Task = nn.Module "Task"
function Task:init() self.p = nn.Parameter(rs.ones { 2, 2 }) end
function Task:forward(x) return self.p + x end

local function task_gradient(rank, state, hook, options)
  local net = Task()
  local ddp = DDP(net, options or {})
  ddp:register_comm_hook(state, hook)
  ddp(8 ^ (1 + rank)):mean():backward()
  return near(net.p.grad, rs.full({ 2, 2 }, 0.25))
end

row(2, function(rank, check)
  for _, options in ipairs(crossed({ "use_error_feedback", BOTH }, { "warm_start", BOTH },
    { "batch_tensors_with_same_shape", BOTH })) do
    options.matrix_approximation_rank = 1
    check("T319 .25 in the first iteration, eight ways", task_gradient(rank, PowerSGDState(nil, options), power.powerSGD_hook))
    check("T319 views of the bucket", task_gradient(rank, PowerSGDState(nil, options), power.powerSGD_hook,
      { gradient_as_bucket_view = true }))
    check("T319 batched, too", task_gradient(rank, PowerSGDState(nil, options), power.batched_powerSGD_hook))
  end
  local default = hooks.default_hooks
  for _, view in ipairs(BOTH) do
    local state = PowerSGDState(nil, { matrix_approximation_rank = 1 })
    check("T317 fp16 around PowerSGD: .25", task_gradient(rank, state, default.fp16_compress_wrapper(power.powerSGD_hook),
      { gradient_as_bucket_view = view }))
    check("T317 fp16 around an all-reduce: .25", task_gradient(rank, nil,
      default.fp16_compress_wrapper(default.allreduce_hook), { gradient_as_bucket_view = view }))
  end
end)

row(1, function(_, check)
  local errors, made = 0, 0
  for _, options in ipairs(crossed({ "start_powerSGD_iter", { 0, 1 } }, { "use_error_feedback", BOTH }, { "warm_start", BOTH })) do
    local wrong = options.use_error_feedback or options.warm_start
    if wrong then
      errors = errors + (refused("ValueError", "Expect `start_powerSGD_iter` > 1", PowerSGDState, nil, options) and 1 or 0)
    else
      made = made + (PowerSGDState(nil, options).start_powerSGD_iter == options.start_powerSGD_iter and 1 or 0)
    end
  end
  check("T337 start 0 or 1 with feedback or warm start: 6 of the 8 cases are ValueErrors", errors == 6 and made == 2)
  local state = PowerSGDState()
  check("P1 what is not said is as in PyTorch", state.matrix_approximation_rank == 1 and state.start_powerSGD_iter == 1000 and
    state.min_compression_rate == 2 and state.use_error_feedback and state.warm_start and
    state.orthogonalization_epsilon == 0 and not state.batch_tensors_with_same_shape and
    state.compression_stats_logging_frequency == 10000 and state.iter == 0 and next(state.error_dict) == nil)
  local rate, before, after = state:compression_stats()
  check("P2 nothing was compressed yet", rate == 0 and before == 0 and after == 0)
  check("P3 what cannot be is refused", refused("ValueError", "matrix_approximation_rank", PowerSGDState,
    { matrix_approximation_rank = 0 }) and refused("ValueError", "Seed must be between", PowerSGDState, { random_seed = -1 }) and
    refused("ValueError", "Seed must be between", PowerSGDState, { random_seed = 1 << 32 }))
  check("P4 fields are told from others", refused("AttributeError", "iterr", function() return state.iterr end) and
    refused("AttributeError", "error_dict", function() state.error_dict = {} end))
  check("P5 a hook wants its own state", refused("TypeError", "PowerSGDState", function()
    DDP(Task()):register_comm_hook(nil, power.powerSGD_hook)
  end))
end)

-- ---- exact where it can be ----

local SHAPES = { { 6, 5 }, { 6 }, { 3, 2, 4 }, { 6, 5 }, { 2, 2 } }

for world = 1, 3 do
  row(world, function(rank, check)
    for _, hook in ipairs { "powerSGD_hook", "batched_powerSGD_hook" } do
      local ok = true
      for _, options in ipairs(crossed({ "use_error_feedback", BOTH }, { "warm_start", BOTH },
        { "batch_tensors_with_same_shape", BOTH })) do
        options.start_powerSGD_iter, options.min_compression_rate = 2, 0.01
        options.matrix_approximation_rank = hook == "powerSGD_hook" and 8 or 10
        local state = PowerSGDState(nil, options)
        local got = reduced(SHAPES, 5, rank, power[hook], state)
        for step = 1, 5 do ok = ok and all_near(got[step], means_of(SHAPES, step, world), 1e-4) end
        ok = ok and state.iter == 5
      end
      check("P6 " .. hook .. ": of full rank it is the mean", ok)
    end
  end)
end

row(2, function(rank, check)
  -- The same rows in all ranks, other columns: the mean is of rank 1, as each is.
  local state = PowerSGDState(nil, { start_powerSGD_iter = 2, use_error_feedback = false, warm_start = false })
  local net = Given { { 12, 9 } }
  local ddp = DDP(net)
  ddp:register_comm_hook(state, power.powerSGD_hook)
  local ok = true
  for step = 1, 5 do
    rs.manual_seed(step)
    local rows, columns = rs.randn { 12, 1 }, rs.randn { 2, 9 }
    ddp:zero_grad()
    ddp(rows:matmul(columns[{ rs.slice(rank, rank + 1) }])):backward()
    ok = ok and near(net.p1.grad, rows:matmul(columns:mean(0, true)))
  end
  check("P7 what is of rank 1 is not changed by rank 1", ok)
  check("P8 without feedback and warm start nothing is kept", next(state.error_dict) == nil and
    next(state.p_memory_dict) == nil and next(state.q_memory_dict) == nil)
end)

-- ---- what is lost comes back ----

for _, hook in ipairs { "powerSGD_hook", "batched_powerSGD_hook" } do
  row(3, function(rank, check)
    local shapes, steps, ok, equal = { { 7, 8 }, { 9 }, { 6, 6 } }, 7, true, true
    for _, options in ipairs(crossed({ "matrix_approximation_rank", { 1, 2, 3 } }, { "warm_start", BOTH })) do
      options.start_powerSGD_iter, options.min_compression_rate = 2, 0.5
      local state = PowerSGDState(nil, options)
      local got = reduced(shapes, steps, rank, power[hook], state)
      local sum, wanted = 0, 0
      for step = 3, steps do
        local means, flat_got, flat_mean = means_of(shapes, step, 3), {}, {}
        for i = 1, #shapes do flat_got[i], flat_mean[i] = got[step][i]:flatten(), means[i]:flatten() end
        sum, wanted = sum + rs.cat(flat_got), wanted + rs.cat(flat_mean)
        local mine, first = rs.cat(flat_got), rs.cat(flat_got)
        dist.broadcast(first, 0)
        equal = equal and rs.equal(mine, first)
      end
      -- The bucket's order after the rebuild is that of the gradients: from the last parameter to the first.
      local errors = state.error_dict[0]:clone()
      dist.all_reduce(errors)
      local at, rows = 0, {}
      for i = #shapes, 1, -1 do
        local count = rs.zeros(shapes[i]):numel()
        rows[i], at = errors[{ rs.slice(at, at + count) }] / 3, at + count
      end
      ok = ok and near(sum + rs.cat(rows), wanted, 1e-4)
    end
    check("P9 " .. hook .. ": what was applied and what is still owed are the sum of the means", ok)
    check("P10 " .. hook .. ": all ranks have the same gradients, bit by bit", equal)
  end)
end

-- ---- what is compressed ----

row(2, function(rank, check)
  local shapes = { { 10, 20 }, { 10 }, { 4, 2, 3 }, { 3, 3 } }
  local state = PowerSGDState(nil, { start_powerSGD_iter = 2, matrix_approximation_rank = 2 })
  reduced(shapes, 4, rank, power.powerSGD_hook, state)
  -- (10 + 20) * 2 * 2 < 200; (4 + 6) * 2 * 2 > 24; (3 + 3) * 2 * 2 > 9; a vector is 10 x 1.
  local rate, before, after = state:compression_stats()
  check("P11 compressed iff (n + m) r c < n m", before == 2 * 243 and after == 2 * (60 + 10 + 24 + 9) and rate == before / after)
  check("P12 P and Q of what is compressed", state.p_memory_dict[0]:numel() == 20 and state.q_memory_dict[0]:numel() == 40)
  local plain = reduced({ { 10 }, { 3, 3 } }, 4, rank, power.powerSGD_hook, PowerSGDState(nil, { start_powerSGD_iter = 2 }))
  local ok = true
  for step = 1, 4 do ok = ok and all_near(plain[step], means_of({ { 10 }, { 3, 3 } }, step, 2), 1e-6) end
  check("P13 what is not is the plain mean", ok)
  local whole = PowerSGDState(nil, { start_powerSGD_iter = 2, matrix_approximation_rank = 2 })
  reduced(shapes, 4, rank, power.batched_powerSGD_hook, whole)
  rate, before, after = whole:compression_stats()
  check("P14 batched: a square with zeros behind", before == 2 * 243 and after == 2 * 64 and
    rs.equal(rs.tensor { table.unpack(whole.p_memory_dict[0]:size()) }, rs.tensor { 16, 2 }) and
    whole.error_dict[0]:numel() == 256)
end)

row(2, function(rank, check)
  local shapes, cap = { { 9, 8 }, { 8 }, { 9, 8 }, { 7, 9 } }, { bucket_cap_mb = 300 / 2 ^ 20 }
  local state = PowerSGDState(nil, { start_powerSGD_iter = 2, min_compression_rate = 1 })
  local many = reduced(shapes, 5, rank, power.powerSGD_hook, state, cap)
  local buckets = 0
  for bucket in pairs(state.error_dict) do buckets = math.max(buckets, bucket + 1) end
  check("P15 an iteration is counted once, whatever the buckets", state.iter == 5 and buckets > 1 and
    state.q_memory_dict[buckets - 1] ~= nil)
  local views = reduced(shapes, 5, rank, power.powerSGD_hook, PowerSGDState(nil, { start_powerSGD_iter = 2,
    min_compression_rate = 1 }), { bucket_cap_mb = cap.bucket_cap_mb, gradient_as_bucket_view = true })
  local ok = true
  for step = 1, 5 do
    for i = 1, #shapes do ok = ok and rs.equal(many[step][i], views[step][i]) end
  end
  check("P16 views of the buckets change nothing", ok)
  local by_lesson = reduced(shapes, 5, rank, function(own, bucket) return power.powerSGD_hook(own, bucket) end,
    PowerSGDState(nil, { start_powerSGD_iter = 2, min_compression_rate = 1 }), cap)
  ok = true
  for step = 1, 5 do
    for i = 1, #shapes do ok = ok and rs.equal(many[step][i], by_lesson[step][i]) end
  end
  check("P17 called by a lesson's own hook it does the same", ok)
end)

-- ---- random numbers ----

row(2, function(rank, check)
  local shapes = { { 4, 3 } }
  rs.manual_seed(5)
  local before = rs.randn { 4 }
  rs.manual_seed(5)
  local state = PowerSGDState(nil, { start_powerSGD_iter = 0, use_error_feedback = false, warm_start = false,
    min_compression_rate = 0.5 })
  local got = reduced(shapes, 2, rank, power.powerSGD_hook, state)
  check("P18 the rank's generator stays where it is", rs.equal(rs.randn { 4 }, before))
  -- numpy's RandomState(0).randint(10 ** 9), twice
  local ok = true
  for step, seed in ipairs { 209652396, 398764591 } do
    local q = rs.randn({ 3, 1 }, { generator = rs.Generator():manual_seed(seed) })
    local m = means_of(shapes, step, 2)[1]
    local p = m:matmul(q / q:norm())
    p = p / p:norm()
    ok = ok and near(got[step][1], p:matmul(p:t():matmul(m)))
  end
  check("P19 each step has a seed of its own, numpy's", ok)

  local given = PowerSGDState(nil, { start_powerSGD_iter = 0, use_error_feedback = false, warm_start = false,
    min_compression_rate = 0.5 })
  local q = rs.tensor { { 1.0 }, { 2.0 }, { 2.0 } }
  given:set_random_q { q, rs.ones { 1, 3, 1 } }
  got = reduced(shapes, 2, rank, power.powerSGD_hook, given)
  local m = means_of(shapes, 1, 2)[1]
  local p = m:matmul(q)
  p = p / p:norm()
  check("P20 a Q that is given is taken", near(got[1][1], p:matmul(p:t():matmul(m))) and q[{ 2, 0 }]:item() == 2)
  check("P21 when they are used up, or do not fit, an error says so",
    refused("RuntimeError", "used up", reduced, shapes, 1, rank, power.powerSGD_hook, given) and (function()
      given:set_random_q { rs.ones { 4, 1 } }
      return refused("RuntimeError", "[4, 1]", reduced, shapes, 1, rank, power.powerSGD_hook, given)
    end)())
end)

-- ---- orthogonal columns ----

row(2, function(rank, check)
  local ok = true
  for r = 1, 4 do
    local state = PowerSGDState(nil, { start_powerSGD_iter = 2, matrix_approximation_rank = r, min_compression_rate = 0.1 })
    reduced({ { 9, 7 } }, 4, rank, power.powerSGD_hook, state)
    local p = state.p_memory_dict[0]:reshape { 9, r }
    ok = ok and near(p:t():matmul(p), rs.eye(r), 1e-5)
  end
  check("P22 P's columns are orthonormal, by Gram-Schmidt and by QR", ok)

  local function zeros(epsilon)
    local net = Given { { 8, 6 } }
    local ddp = DDP(net)
    ddp:register_comm_hook(PowerSGDState(nil, { start_powerSGD_iter = 2, min_compression_rate = 1,
      orthogonalization_epsilon = epsilon }), power.powerSGD_hook)
    for _ = 1, 3 do
      ddp:zero_grad()
      ddp(rs.zeros { 8, 6 }):backward()
    end
    return net.p1.grad
  end
  check("P23 gradients of 0 are NaN afterwards, unless there is an epsilon", rs.isnan(zeros(0)):all():item() and
    rs.equal(zeros(1e-8), rs.zeros { 8, 6 }))
end)

-- ---- other dtypes, other hooks around it ----

row(2, function(rank, check)
  -- With one Q for all: halves are drawn otherwise.
  local function run(hook, r)
    local state = PowerSGDState(nil, { start_powerSGD_iter = 2, matrix_approximation_rank = r, min_compression_rate = 1,
      use_error_feedback = false })
    state:set_random_q { rs.randn({ 6, r }, { generator = rs.Generator():manual_seed(r) }) }
    return reduced({ { 8, 6 }, { 5 } }, 4, rank, hook, state)
  end
  local default, ok = hooks.default_hooks, true
  for _, r in ipairs { 1, 3 } do -- QR in float32, Gram-Schmidt in halves
    local full = run(power.powerSGD_hook, r)
    for _, wrapper in ipairs { default.fp16_compress_wrapper, default.bf16_compress_wrapper } do
      local half = run(wrapper(power.powerSGD_hook), r)
      for step = 1, 4 do
        for i = 1, 2 do ok = ok and half[step][i].dtype == "float32" and near(half[step][i], full[step][i], 0.06) end
      end
    end
  end
  check("T317 compressed in sixteen bits: nearly the same", ok)
end)

-- ---- what it cannot do ----

row(1, function(rank, check)
  local early = { start_powerSGD_iter = 0, use_error_feedback = false, warm_start = false }
  local function backward(net, ...)
    local ddp, hook = DDP(net), power.powerSGD_hook
    ddp:register_comm_hook(PowerSGDState(nil, early), hook)
    ddp(...):sum():backward()
  end
  check("P24 a parameter without dimensions is no matrix", refused("IndexError", "tuple index out of range", backward,
    Given { {} }, rs.tensor(1.0)))
  check("P25 a sparse gradient is refused", refused("NotImplementedError", "PowerSGD", backward, nn.Embedding(5, 3, { sparse = true }),
    rs.tensor { 1, 2 }))
  local state = PowerSGDState(nil, { start_powerSGD_iter = 2, min_compression_rate = 1 })
  reduced({ { 8, 6 } }, 3, rank, power.powerSGD_hook, state)
  check("P26 a state serves one wrapper", refused("RuntimeError", "remembers another bucket", reduced, { { 5, 4 } }, 1, rank,
    power.powerSGD_hook, state))
  check("P27 batched: the rank is not more than the square's side", refused("AssertionError", "matrix_approximation_rank",
    reduced, { { 2, 2 } }, 1, rank, power.batched_powerSGD_hook, PowerSGDState(nil, { start_powerSGD_iter = 0,
      use_error_feedback = false, warm_start = false, matrix_approximation_rank = 3 })))
end)

-- ---- ranks that run out of inputs ----

row(2, function(rank, check)
  local net = Given { { 6, 5 }, { 6 } }
  local ddp = DDP(net)
  local state = PowerSGDState(nil, { start_powerSGD_iter = 2, matrix_approximation_rank = 5, min_compression_rate = 0.1,
    use_error_feedback = false })
  ddp:register_comm_hook(state, power.powerSGD_hook)
  local ok, steps = true, rank == 0 and 5 or 3
  dist.algorithms.Join({ ddp }, function()
    for step = 1, steps do
      ddp:zero_grad()
      ddp(table.unpack(gradients_of({ { 6, 5 }, { 6 } }, step, rank))):backward()
      local wanted = means_of({ { 6, 5 }, { 6 } }, step, 2)
      if step > 3 then wanted = gradients_of({ { 6, 5 }, { 6 } }, step, 0) end
      local whole = step > 3 and 2 or 1
      ok = ok and near(net.p1.grad, wanted[1] / whole, 1e-4) and near(net.p2.grad, wanted[2] / whole, 1e-4)
    end
  end)
  check("P29 under Join a rank without inputs sends zeros through the hook", ok and state.iter == 5)
end)

-- ---- in the trace ----

rs.check("P28 the trace has what a bucket was and what travelled", (function()
  local found
  for _, event in ipairs(rs.trace:events { kind = "ddp.powersgd.compress" }) do
    found = found or event.args.bytes == 243 * 4 and event.args.compressed == 103 * 4 and event.args.matrices == 1
  end
  return found
end)())
