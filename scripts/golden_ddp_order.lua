-- In which order gradients get ready and buckets start, what the logger tells, and where gradients lie in their buckets.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

return function(tools)
  local same, known = tools.same, tools.known

  -- ---- shared ----

  local MIB = 1 << 20

  -- The hook that divides by the world and adds up. `seen`, if given, gets each bucket first.
  function tools.ddp_averaging_hook(world, seen)
    return function(_, bucket)
      if seen then seen(bucket) end
      local work = dist.all_reduce(bucket:buffer() / world, { async_op = true })
      return work:get_future():then_(function(future) return future:value()[1] end)
    end
  end

  -- An explicit cap, which is the first bucket's too, whatever the default of that one.
  local function wrap(case, module, others)
    dist._DEFAULT_FIRST_BUCKET_BYTES = case.first_bucket_bytes
    local options = { bucket_cap_mb = case.cap_bytes / MIB, find_unused_parameters = case.find_unused_parameters }
    for name, value in pairs(others) do options[name] = value end
    return nn.parallel.DistributedDataParallel(module, options)
  end

  -- ---- runs of an order ----

  local function spec_on(rank, built)
    local spec, order = built.spec, {}
    if not built.rotated then return spec end
    for i = 1, #spec[3] do order[i] = spec[3][(i - 1 + rank) % #spec[3] + 1] end
    return { spec[1], spec[2], order }
  end

  local function input_of(built)
    if built.tokens then return rs.randint(0, built.spec[2], { 4, 3 }) end
    return rs.randn(built.x)
  end

  local function short_name(dtype)
    for short, long in pairs(tools.DTYPES) do
      if long == dtype then return short end
    end
  end

  -- A note of a bucket, with its parameters' numbers.
  local function note_of(bucket, params)
    local buffer, indices = bucket:buffer(), {}
    for i, p in ipairs(bucket:parameters()) do
      for at, param in ipairs(params) do
        if rawequal(p, param) or p:data_ptr() == param:data_ptr() then indices[i] = at - 1 end
      end
    end
    return { index = bucket:index(), is_last = bucket:is_last(), params = indices,
      numel = buffer.is_sparse and -1 or buffer:numel(), dtype = short_name(buffer.dtype) }
  end

  local LOGGED = "bucket_sizes bucket_cap_bytes num_parameter_tensors total_parameter_size_bytes iteration " ..
    "rebuilt_bucket_sizes rebuilt_per_bucket_param_indices has_rebuilt_buckets unused_parameter_size " ..
    "prev_iteration_grad_ready_order_indices"

  local function logged(ddp)
    local data, out = ddp:_get_ddp_logging_data(), {}
    for name in LOGGED:gmatch "%S+" do out[name] = data[name] end
    return out
  end

  -- Three iterations without a step, then a forward; answers what happened, iteration by iteration.
  local function order_on(rank, case, built)
    local module = tools.ddp_model(spec_on(rank, built))
    local params, log, iterations = module:parameters(), {}, {}
    for i, p in ipairs(params) do
      p:register_post_accumulate_grad_hook(function() log.events[#log.events + 1] = "g" .. i - 1 end)
    end
    local ddp = wrap(case, module, { static_graph = case.static_graph or nil,
      gradient_as_bucket_view = case.gradient_as_bucket_view or nil })
    if case.hook then
      ddp:register_comm_hook(nil, tools.ddp_averaging_hook(case.world, function(bucket)
        log.events[#log.events + 1] = "b" .. bucket:index()
        log.buckets[#log.buckets + 1] = note_of(bucket, params)
      end))
    end
    local numel, dtype, before = {}, {}, logged(ddp)
    for i, p in ipairs(params) do numel[i], dtype[i] = p:numel(), short_name(p.dtype) end
    for i = 1, 3 do
      log.events, log.buckets = {}, {}
      iterations[i] = { events = log.events, buckets = log.buckets }
      ddp:zero_grad()
      ddp(input_of(built)):sum():backward()
    end
    ddp(input_of(built))
    return { numel = numel, dtype = dtype, iterations = iterations, before = before, after = logged(ddp) }
  end

  local BUCKET = { "index", "is_last", "params", "numel", "dtype" }

  local function match_iterations(what, got, goldens)
    local wrong = same(what .. " iterations", #got, #goldens)
    for i, golden in ipairs(goldens) do
      local here = ("%s iteration %d"):format(what, i - 1)
      known("an iteration", golden, "events buckets")
      wrong = wrong or same(here .. " events", got[i].events, golden.events) or
        same(here .. " buckets", #got[i].buckets, #golden.buckets)
      for b, bucket in ipairs(golden.buckets) do
        known("a bucket", bucket, table.concat(BUCKET, " "))
        for _, name in ipairs(BUCKET) do
          wrong = wrong or same(("%s bucket %d %s"):format(here, b - 1, name), got[i].buckets[b][name], bucket[name])
        end
      end
    end
    return wrong
  end

  local function match_log(what, got, golden)
    known(what, golden, LOGGED)
    local wrong
    for name in LOGGED:gmatch "%S+" do
      if golden[name] ~= nil then wrong = wrong or same(what .. " " .. name, got[name], golden[name]) end
    end
    return wrong
  end

  local function order_case(case, file)
    local text = (file.header.built or {})[case.model]
    if not text then return "the model '" .. tostring(case.model) .. "' is not understood" end
    local built = tools.ddp_built(text)
    local ranks, wrong = dist.spawn(order_on, { world = case.world, args = { case, built } }), nil
    for rank = 0, case.world - 1 do
      local got, what = ranks[rank], "rank " .. rank
      local goldens = (rank == 0 or case.same_on_every_rank) and case.iterations or case.other_ranks[rank]
      wrong = wrong or same(what .. " param_numel", got.numel, case.param_numel) or
        same(what .. " param_dtype", got.dtype, case.param_dtype) or match_iterations(what, got.iterations, goldens)
      if rank == 0 or case.same_on_every_rank then
        wrong = wrong or match_log(what .. " log_before", got.before, case.log_before) or
          match_log(what .. " log_after", got.after, case.log_after)
      end
    end
    return wrong
  end

  -- ---- gradients as views of buckets ----

  -- Deep's widths from the shapes of its weights and biases.
  local function widths_of(shapes)
    local widths = { shapes[1][2] }
    for i = 1, #shapes, 2 do
      local weight, bias = shapes[i], shapes[i + 1]
      if #weight ~= 2 or #bias ~= 1 or weight[1] ~= bias[1] or weight[2] ~= widths[#widths] then
        error("parameters of these shapes are not understood", 0)
      end
      widths[#widths + 1] = weight[1]
    end
    return widths
  end

  local ZERO = { ["set_to_none"] = true, ["in place"] = false }

  local function places_of(params, buffers, before, earlier)
    local places = {}
    for i, p in ipairs(params) do
      local now, bucket = p.grad:data_ptr(), nil
      for index, storage in pairs(buffers) do
        if p.grad:storage_id() == storage then bucket = index end
      end
      places[i] = { param = i - 1, bucket = bucket, offset = p.grad:storage_offset(), at = now,
        grad_defined_before_backward = before[i] ~= nil, moved_in_backward = before[i] ~= nil and before[i] ~= now,
        same_memory_as_last_iteration = earlier ~= nil and earlier[i].at == now }
    end
    return places
  end

  local function alias_on(rank, case)
    local widths, buffers, iterations = widths_of(case.param_shapes), {}, {}
    local module = tools.ddp_model { "Deep", widths }
    local ddp, params = wrap(case, module, { gradient_as_bucket_view = true }), module:parameters()
    ddp:register_comm_hook(nil, tools.ddp_averaging_hook(2, function(bucket)
      buffers[bucket:index()] = bucket:buffer():storage_id()
    end))
    for i = 1, #case.iterations do
      ddp:zero_grad { set_to_none = ZERO[case.zero_grad] }
      local out, before = ddp(rs.randn(4, widths[1])):sum(), {}
      for k, p in ipairs(params) do before[k] = p.grad and p.grad:data_ptr() end
      out:backward()
      iterations[i] = places_of(params, buffers, before, iterations[i - 1])
    end
    local grad = params[1].grad
    local ok, err = pcall(function() grad:detach_() end)
    return { iterations = iterations, detach = ok and "ok" or err.kind }
  end

  local PLACE = { "param", "bucket", "offset", "grad_defined_before_backward", "moved_in_backward",
    "same_memory_as_last_iteration" }

  local function alias_case(case)
    if ZERO[case.zero_grad] == nil then return "the zero_grad '" .. tostring(case.zero_grad) .. "' is not understood" end
    local ranks, wrong = dist.spawn(alias_on, { world = 2, args = { case } }), nil
    for rank = 0, 1 do
      for i, goldens in ipairs(case.iterations) do
        local places = ranks[rank].iterations[i]
        wrong = wrong or same("parameters", #places, #goldens)
        for k, golden in ipairs(goldens) do
          known("a place", golden, table.concat(PLACE, " "))
          for _, name in ipairs(PLACE) do
            local what = ("rank %d iteration %d parameter %d %s"):format(rank, i - 1, k - 1, name)
            wrong = wrong or same(what, places[k][name], golden[name])
          end
        end
      end
      wrong = wrong or same("rank " .. rank .. " detach_", ranks[rank].detach, case.detach_in_place)
    end
    return wrong
  end

  -- ---- names ----

  local FLAGS = { "find_unused_parameters", "static_graph", "gradient_as_bucket_view", "hook" }

  -- The runs have no names: what tells them apart becomes one.
  function tools.cases_of_runs(runs)
    for _, run in ipairs(runs) do
      local words = { run.model or "gradients in buckets", run.world and "world " .. run.world or nil }
      words[#words + 1] = "cap " .. tostring(run.cap_bytes)
      if run.zero_grad then words[#words + 1] = "zero_grad " .. run.zero_grad end
      for _, flag in ipairs(FLAGS) do
        if run[flag] == true then words[#words + 1] = flag end
      end
      run.name = table.concat(words, ", ")
    end
    return runs
  end

  return function(section, case)
    if section ~= "runs" then return nil end
    if case.iterations and case.log_before and case.log_after then
      return order_case, "name model world cap_bytes first_bucket_bytes find_unused_parameters static_graph hook " ..
        "gradient_as_bucket_view param_numel param_dtype iterations log_before log_after same_on_every_rank other_ranks"
    end
    if case.iterations and case.detach_in_place then
      return alias_case, "name find_unused_parameters zero_grad iterations detach_in_place param_shapes cap_bytes " ..
        "first_bucket_bytes"
    end
  end
end
