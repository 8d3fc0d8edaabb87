-- Cases of DataParallel: models of a file's `models`, built from their printed text, through one step or several: outputs,
-- losses, gradients on the module and on single replicas, buffers by replica, and which copies were made.
local rs = require "ringside"
local nn, optim = rs.nn, rs.optim
local F = nn.functional

return function(tools)
  local tensor, match, same, known = tools.tensor, tools.match, tools.same, tools.known
  local printed = tools.printed
  local NEAR = { 1e-5, 1e-4 }

  -- ---- models ----

  local function names_of(list)
    local names = {}
    for name in list do names[#names + 1] = name end
    return table.concat(names, " ")
  end

  local function fill(what, list, golden)
    local names = {}
    for name, t in list do
      names[#names + 1] = name
      if not golden[name] then error("no numbers for the " .. what .. " " .. name, 0) end
      t:copy_(tools.like(name, golden[name], t))
    end
    known("the model's " .. what .. "s", golden, table.concat(names, " "))
  end

  -- The one type of all floating numbers, if they have one and it is no float32.
  local function float_type(params)
    local found
    for _, golden in pairs(params) do
      local dtype = tools.DTYPES[golden.dtype]
      if dtype ~= "int64" and dtype ~= "bool" then
        if found and found ~= dtype then error("parameters of several types are not understood", 0) end
        found = dtype
      end
    end
    return found ~= "float32" and found or nil
  end

  -- Built from {module, params, buffers, attrs}, on device 0.
  local function build(golden)
    known("the model", golden, "module params buffers attrs")
    local model = printed(golden.module, golden.attrs)
    local dtype = float_type(golden.params)
    if dtype then model:to(dtype) end
    rs.no_grad(function()
      fill("parameter", model:named_parameters(), golden.params)
      fill("buffer", model:named_buffers(), golden.buffers or {})
    end)
    return model:to("device:0")
  end

  local function device_list(count)
    local devices = {}
    for i = 1, count do devices[i] = i - 1 end
    return devices
  end
  tools.device_list = device_list

  -- ---- what each replica did ----

  -- The thing of this dotted name below a module, or below its replica, which has no parameters of its own to list.
  local function below(module, name)
    for part in name:gmatch("[^.]+") do module = module[part] end
    return module
  end

  -- From now on each forward of the model or of a replica notes, by device: how many rows it put out, the gradients of
  -- the parameters named, and the buffers named.
  local function watch(model, dim, parameters, buffers)
    local seen = {}
    model:register_forward_pre_hook(function(module, args)
      local note = { grads = {}, buffers = {} }
      seen[args[1].device] = note
      for name in pairs(parameters or {}) do
        below(module, name):register_hook(function(grad) note.grads[name] = grad:clone() end)
      end
    end)
    model:register_forward_hook(function(module, args, out)
      local note, first = seen[args[1].device], type(out) == "table" and out[1] or out
      note.rows = first:dim() > 0 and first:size(dim) or 1
      for name in pairs(buffers or {}) do note.buffers[name] = below(module, name):clone() end
    end)
    return seen
  end

  local function rows_by_replica(seen, devices)
    local rows = {}
    for i, device in ipairs(devices) do
      local note = seen["device:" .. device]
      rows[i] = note and note.rows
    end
    return rows
  end

  local function check_replicas(case, seen, devices)
    local wrong
    local function check(name, goldens, what)
      wrong = wrong or same("replicas with " .. name, #goldens, case.replicas_used)
      for i, golden in ipairs(goldens) do
        local note = seen["device:" .. devices[i]]
        local tol = golden.dtype:find("^f") and (case.tol or NEAR) or nil
        wrong = wrong or match(string.format("replica %d %s", i - 1, name), note and note[what][name], golden, tol)
      end
    end
    for name, goldens in pairs(case.param_grads_per_replica or {}) do check(name, goldens, "grads") end
    local by_name = {}
    for i, replica in ipairs(case.replica_buffers_after or {}) do
      for name, golden in pairs(replica) do
        by_name[name] = by_name[name] or {}
        by_name[name][i] = golden
      end
    end
    for name, goldens in pairs(by_name) do check(name, goldens, "buffers") end
    return wrong
  end

  -- ---- which copies were made ----

  local function sizes_call(word, sizes, dim)
    return string.format("%s sizes [%s] dim %d", word, table.concat(sizes, ", "), dim)
  end

  local function listed(text)
    local list = {}
    for size in (text or ""):gmatch("%d+") do list[#list + 1] = tonumber(size) end
    return list
  end

  local function coalesced_call(args, _, word)
    return string.format("%s tensors %d devices %d", word, args.tensors, args.devices)
  end

  -- What the golden logs say of a stage; rows: of the replicas' outputs.
  local CALLS = {
    ["dp.gather"] = function(args, rows) return sizes_call("gather", rows, args.dim) end,
    ["dp.gather.backward"] = function(args) return sizes_call("scatter", listed(args.sizes), args.dim) end,
    ["dp.scatter.backward"] = function(args) return sizes_call("gather", listed(args.sizes), args.dim) end,
    ["dp.broadcast_coalesced"] = coalesced_call, ["dp.reduce_add_coalesced"] = coalesced_call,
  }

  -- The copies since `from`, in the words of the golden logs. Replicas' forwards are set apart: they have no order.
  local function call_log(from, rows)
    local log, forwards, chunks, dim = {}, {}, nil, nil
    local function end_of_chunks()
      if chunks then log[#log + 1] = sizes_call("scatter", chunks, dim) end
      chunks = nil
    end
    for _, event in ipairs(rs.trace:events("seq >= " .. from .. " and dp")) do
      local kind, args = event.kind, event.args
      if event.phase == "end" then goto next end
      if kind ~= "dp.scatter.chunk" or args.chunk == 0 then end_of_chunks() end
      if kind == "dp.scatter" then
        dim = args.dim
      elseif kind == "dp.scatter.chunk" then
        chunks = chunks or {}
        chunks[#chunks + 1] = args.rows
      elseif kind == "dp.worker" then
        forwards[#forwards + 1] = "replica " .. args.replica .. " forward"
      elseif CALLS[kind] then
        log[#log + 1] = CALLS[kind](args, rows, kind:sub(4))
      end
      ::next::
    end
    end_of_chunks()
    table.sort(forwards)
    return log, forwards
  end

  -- On one device the module itself is called, without a worker: "module forward", once.
  local function check_forward_calls(case, from, rows)
    local log, forwards = call_log(from, rows)
    if case.devices == 1 then
      forwards[#forwards + 1] = #rows == 1 and "module forward" or nil
    end
    local expected, expected_forwards = {}, {}
    for _, call in ipairs(case.calls_forward) do
      local list = call:find(" forward$") and expected_forwards or expected
      list[#list + 1] = call
    end
    table.sort(expected_forwards)
    return same("calls forward", log, expected) or same("forwards", forwards, expected_forwards)
  end

  local function check_backward_calls(case, from)
    local log, expected = call_log(from, {}), case.calls_backward
    if expected.first == nil then return same("calls backward", log, expected) end
    known("calls_backward", expected, "first then_in_any_order")
    local others = table.move(expected.then_in_any_order, 1, #expected.then_in_any_order, 1, {})
    local first = table.remove(log, 1)
    table.sort(log)
    table.sort(others)
    return same("first call of the backward", first, expected.first) or same("calls backward", log, others)
  end

  -- The warnings of gathered scalars.
  local function warnings_since(from)
    return #rs.trace:events("seq >= " .. from .. " and kind = dp.gather.unsqueeze")
  end
  tools.warnings_since = warnings_since

  -- ---- one step ----

  -- Attention is attention to itself; of several results the first counts.
  local function forward(dp, model, x)
    if model.module:find("^MultiheadAttention") then return (dp(x, x, x)) end
    return (dp(x))
  end

  local LOSSES = { mse = F.mse_loss, ce = F.cross_entropy }

  local function loss_of(kind, out, target)
    if not LOSSES[kind] then error("the loss '" .. tostring(kind) .. "' is not understood", 0) end
    return LOSSES[kind](out, target:to(out.device))
  end

  local function check_params(what, list, goldens, tol, of)
    local wrong
    local names = {}
    for name, t in list do
      names[#names + 1] = name
      local golden = goldens[name]
      if golden == nil then
        wrong = wrong or what .. " " .. name .. ": nothing is said of it"
      elseif golden == rs.none then
        wrong = wrong or same(what .. " " .. name, of(t), nil)
      else
        wrong = wrong or match(what .. " " .. name, of(t), golden, golden.dtype:find("^f") and tol or nil)
      end
    end
    known(what .. "s", goldens, table.concat(names, " "))
    return wrong
  end

  local function itself(t) return t end
  local function grad_of(t) return t.grad end

  local function inputs_of(case, file)
    local inputs = case.inputs
    if type(inputs) == "string" then
      local name = inputs:match('^as in "(.*)"$')
      for _, other in ipairs(file.cases) do
        if other.name == name then inputs = other.inputs end
      end
      if type(inputs) ~= "table" then error("the inputs '" .. case.inputs .. "' are not understood", 0) end
    end
    known("inputs", inputs, "x target")
    return inputs
  end

  local function check_after(case, model, x, tol)
    local wrong = check_params("gradient", model:named_parameters(), case.param_grads, tol, grad_of)
    if case.buffers_after then
      wrong = wrong or check_params("buffer", model:named_buffers(), case.buffers_after, tol, itself)
    end
    return wrong or (case.input_grad and match("input's gradient", x.grad, case.input_grad, tol))
  end

  local function step_case(case, file)
    local golden, inputs, tol = file.models[case.model], inputs_of(case, file), case.tol or NEAR
    local model, devices, x = build(golden), device_list(case.devices), tensor(inputs.x)
    local first_buffers = (case.replica_buffers_after or {})[1]
    local seen = watch(model, 0, case.param_grads_per_replica, first_buffers)
    if case.input_grad then x:requires_grad_(true) end
    local dp, from = nn.DataParallel(model, { device_ids = devices }), rs.trace:seq()
    local out = forward(dp, golden, x)
    local rows = rows_by_replica(seen, devices)
    local wrong = same("batch", inputs.x.shape[1], case.batch) or same("replicas", #rows, case.replicas_used) or
      same("chunks", rows, case.chunk_sizes) or check_forward_calls(case, from, rows) or
      match("output", out, case.output, tol)
    local loss, middle = loss_of(case.loss_kind, out, tensor(inputs.target)), rs.trace:seq()
    loss:backward()
    return wrong or match("loss", loss, case.loss, tol) or check_backward_calls(case, middle) or
      check_after(case, model, x, tol) or check_replicas(case, seen, devices)
  end

  -- ---- several steps ----

  -- Where a golden tensor names changed_rows (its note says it again), the others keep their initial values.
  local function after(golden, initial)
    if golden == rs.none or not golden.changed_rows then return golden end
    local list, width = tools.elements(initial), tools.count_of(golden.shape) // golden.shape[1]
    local changed = tools.elements { dtype = golden.dtype, data = golden.data, shape = golden.shape }
    for at, row in ipairs(golden.changed_rows) do
      for i = 1, width do list[row * width + i] = changed[(at - 1) * width + i] end
    end
    return { dtype = golden.dtype, shape = golden.shape, data = list }
  end

  local function trajectory_case(case, file)
    local golden, tol, wrong = file.models[case.model], case.tol or NEAR, nil
    local model = build(golden)
    local dp = nn.DataParallel(model, { device_ids = device_list(case.devices) })
    local options = tools.optimizer_options(case.optimizer, case.optimizer_attrs)
    local optimizer, expected = optim[case.optimizer](model:parameters(), options), {}
    for i, step in ipairs(case.steps) do
      known("step " .. i, step, "x target loss")
      wrong = wrong or same("batch", step.x.shape[1], case.batch)
      optimizer:zero_grad()
      local loss = loss_of(case.loss_kind, forward(dp, golden, tensor(step.x)), tensor(step.target))
      loss:backward()
      optimizer:step()
      wrong = wrong or match("loss " .. i, loss, step.loss, tol)
    end
    for name, now in pairs(case.params_after) do expected[name] = after(now, golden.params[name]) end
    return wrong or check_params("parameter", model:named_parameters(), expected, tol, itself) or
      check_params("buffer", model:named_buffers(), case.buffers_after, tol, itself)
  end

  -- ---- the loss inside of forward ----

  local WithLoss = nn.Module("WithLoss")
  function WithLoss:init(net, golden, kind) self.net, self.golden, self.kind = net, golden, kind end
  function WithLoss:forward(x, target) return loss_of(self.kind, forward(self.net, self.golden, x), target) end

  local function inside_case(case, file)
    local golden, inputs, tol = file.models[case.model], inputs_of(case, file), case.tol or NEAR
    local model, x, target = build(golden), tensor(inputs.x), tensor(inputs.target)
    local whole = WithLoss(model, golden, case.loss_kind or "ce")
    local full = rs.no_grad(function() return whole(x:to("device:0"), target:to("device:0")) end)
    local dp, from = nn.DataParallel(whole, { device_ids = device_list(case.devices) }), rs.trace:seq()
    local out = dp(x, target)
    local warnings, mean = warnings_since(from), out:mean()
    mean:backward()
    return same("batch", inputs.x.shape[1], case.batch) or match("output", out, case.output, tol) or
      match("mean of the output", mean, case.mean_of_output, tol) or
      match("loss of the full batch", full, case.full_batch_loss, tol) or same("warnings", warnings, case.warnings) or
      check_params("gradient", model:named_parameters(), case.param_grads, tol, grad_of)
  end

  -- ---- along another dimension ----

  -- The results of a forward, one after the other.
  local function flattened(out, ...)
    for i = 1, select("#", ...) do
      local value = select(i, ...)
      if type(value) == "table" then flattened(out, table.unpack(value)) else out[#out + 1] = value end
    end
    return out
  end

  local function dim_case(case)
    local model = build { module = case.module, params = case.params, buffers = case.buffers, attrs = case.attrs }
    local tol, x = case.tol or NEAR, tensor(case.inputs.x)
    known("inputs", case.inputs, "x")
    if case.input_grad then x:requires_grad_(true) end
    local dp = nn.DataParallel(model, { device_ids = device_list(case.devices), dim = case.dim })
    local outputs = flattened({}, dp(x))
    local wrong = same("outputs", #outputs, #case.outputs) or same("grad_out", #case.grad_out, #case.outputs)
    if wrong then return wrong end
    local grads = {}
    for i, out in ipairs(outputs) do
      wrong = wrong or match("output " .. i, out, case.outputs[i], tol)
      grads[i] = tools.like("grad_out", case.grad_out[i], out):to(out.device)
    end
    rs.autograd.backward(outputs, grads)
    return wrong or check_after(case, model, x, tol)
  end

  -- ---- what a text was read as ----

  local function printed_case(case)
    local model, wrong = printed(case.module, case.attrs), nil
    for _, kind in ipairs { "parameters", "buffers" } do
      local goldens, names = case[kind], {}
      for name, t in model["named_" .. kind](model) do
        names[#names + 1] = name
        wrong = wrong or same(name, tools.shape_of(t), goldens[name])
      end
      known("the " .. kind, goldens, table.concat(names, " "))
      for name in pairs(goldens) do
        local found = (" " .. table.concat(names, " ") .. " "):find(" " .. name .. " ", 1, true)
        wrong = wrong or same("is there " .. name, found ~= nil, true)
      end
    end
    return wrong
  end

  -- ---- forms ----

  local SHARED = "name model devices batch tol note "
  local STEP = SHARED .. "loss_kind replicas_used chunk_sizes inputs output loss param_grads calls_forward calls_backward "
    .. "param_grads_per_replica input_grad buffers_after replica_buffers_after"
  local STEPS = SHARED .. "loss_kind optimizer optimizer_attrs steps params_after buffers_after"
  local INSIDE = SHARED .. "loss_kind inputs output mean_of_output full_batch_loss warnings param_grads"
  local DIM = "name module attrs devices dim params buffers inputs outputs grad_out param_grads buffers_after input_grad "
    .. "note tol"

  return function(section, case, file)
    if section == "printed" then return printed_case, "name module attrs parameters buffers" end
    if section ~= "cases" or not case.devices then return nil end
    if case.model then
      if not (file.models or {})[case.model] then
        error("the model '" .. tostring(case.model) .. "' is not understood", 0)
      end
      if case.steps then return trajectory_case, STEPS end
      if case.full_batch_loss then return inside_case, INSIDE end
      return step_case, STEP
    end
    if type(case.module) == "string" and case.dim and case.grad_out then return dim_case, DIM end
  end
end
