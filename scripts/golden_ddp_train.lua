-- Training under DistributedDataParallel: losses, gradients, parameters and buffers of each rank, step by step; and gradients
-- whose last bit shows how the average was made.
local rs = require "ringside"
local nn, optim, dist = rs.nn, rs.optim, rs.distributed
local DDP = nn.parallel.DistributedDataParallel

return function(tools)
  local same, known, make, plain = tools.same, tools.known, tools.make, tools.plain
  -- Where a hook rounds, a last bit before may be a step after: of a half's digits, or of 255 of the largest gradient.
  local SUMS, HALVES, STEPS = { 1e-6, 1e-5 }, { 1e-5, 1e-3 }, { 5e-3, 1e-3 }
  local OF_HOOK = { fp16 = HALVES, bf16 = { 1e-4, 1e-2 }, builtin_fp16 = HALVES, quantize = STEPS, quantize_rows = STEPS }

  -- ---- on a rank ----

  local function fill(what, list, goldens)
    local names = {}
    for name, t in list do
      names[#names + 1] = name
      if not goldens[name] then error("no numbers for the " .. what .. " " .. name, 0) end
      t:copy_(make(goldens[name]))
    end
    known("the " .. what .. "s", goldens, table.concat(names, " "))
  end

  -- What this rank starts from.
  local function fill_all(rank, case, module)
    local params = rank > 0 and case.init_other_ranks and case.init_other_ranks[rank] or case.init_rank0
    rs.no_grad(function()
      fill("parameter", module:named_parameters(), params)
      if case.buffers_init then fill("buffer", module:named_buffers(), case.buffers_init[rank + 1]) end
    end)
  end

  local function freeze(module, names)
    local params = {}
    for name, p in module:named_parameters() do params[name] = p end
    for _, name in ipairs(names or {}) do params[name]:requires_grad_(false) end
  end

  local function all_plain(list)
    local out = {}
    for name, t in list do out[name] = plain(t) end
    return out
  end

  local function grads_of(module)
    local out = {}
    for name, p in module:named_parameters() do
      local grad = p.grad
      if grad then
        out[name] = plain(grad.is_sparse and grad:to_dense() or grad)
        out[name].sparse = grad.is_sparse
      end
    end
    return out
  end

  local LOSSES = {
    mean = function(out, target) return (out - target):pow(2):mean() end,
    sum = function(out, target) return (out - target):pow(2):sum() end,
  }

  -- What a call of the model takes: its k-th input, and the branches that it runs.
  local function call(ddp, rank, case, step, k)
    local used = case.used and case.used[step] or case.used_call and case.used_call[k]
    local x = make(case.inputs[rank + 1][k])
    return used and ddp(x, used[rank + 1]) or ddp(x)
  end

  -- The k-th loss, noted.
  local function forward(ddp, rank, case, step, k, losses)
    local loss = LOSSES[case.loss or "mean"](call(ddp, rank, case, step, k), make(case.targets[rank + 1][k]))
    losses[#losses + 1] = loss:item()
    return loss
  end

  -- How the calls of one step go, where they are not forward and backward: f(ddp, loss, again); loss() is the next loss,
  -- again() a forward of the last input. The second number: calls a step.
  local ODD = {
    fwd_in_bwd_out = { function(ddp, loss)
      local l
      ddp:no_sync(function() l = loss() end)
      l:backward()
    end, 1 },
    fwd_out_bwd_in = { function(ddp, loss)
      local l = loss()
      ddp:no_sync(function() l:backward() end)
    end, 1 },
    ffbb = { function(ddp, loss)
      local first, second = loss(), loss()
      first:backward()
      second:backward()
    end, 2 },
    ff_sum = { function(ddp, loss) (loss() + loss()):backward() end, 2 },
    no_grad_between = { function(ddp, loss, again)
      loss():backward()
      rs.no_grad(again)
    end, 1 },
  }

  local function accumulate(ddp, loss, count)
    for _ = 1, count - 1 do ddp:no_sync(function() loss():backward() end) end
    loss():backward()
  end

  local function calls_a_step(case) return case.odd and ODD[case.odd][2] or case.accumulate or 1 end

  local function run_step(ddp, rank, case, step)
    local losses, k = {}, (step - 1) * calls_a_step(case)
    local function loss()
      k = k + 1
      return forward(ddp, rank, case, step, k, losses)
    end
    if case.odd then
      ODD[case.odd][1](ddp, loss, function() call(ddp, rank, case, step, k) end)
    else
      accumulate(ddp, loss, case.accumulate or 1)
    end
    return losses
  end

  -- Each registers its hook: with the library's own, or one that a script writes. f(ddp, case, rank).
  local library = dist.algorithms.ddp_comm_hooks
  local HOOKS = {}
  function HOOKS.allreduce(ddp) ddp:register_comm_hook(nil, library.default_hooks.allreduce_hook) end
  function HOOKS.fp16(ddp) ddp:register_comm_hook(nil, library.default_hooks.fp16_compress_hook) end
  function HOOKS.bf16(ddp) ddp:register_comm_hook(nil, library.default_hooks.bf16_compress_hook) end
  function HOOKS.noop(ddp) ddp:register_comm_hook(nil, library.debugging_hooks.noop_hook) end
  function HOOKS.quantize(ddp) ddp:register_comm_hook(nil, library.quantization_hooks.quantization_pertensor_hook) end
  function HOOKS.quantize_rows(ddp) ddp:register_comm_hook(nil, library.quantization_hooks.quantization_perchannel_hook) end
  function HOOKS.builtin_allreduce(ddp) ddp:_register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE) end
  function HOOKS.builtin_fp16(ddp) ddp:_register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS) end
  for name, register in pairs(tools.powersgd.register) do HOOKS[name] = register end
  function HOOKS.double(ddp)
    ddp:register_comm_hook(nil, function(_, bucket)
      local work = dist.all_reduce(bucket:buffer():clone(), { async_op = true })
      return work:get_future():then_(function(future) return future:value()[1] * 2 end)
    end)
  end
  function HOOKS.localsgd(ddp)
    local subgroup = dist.new_subgroups(1)
    local state = library.post_localSGD_hook.PostLocalSGDState(nil, subgroup, 2)
    ddp:register_comm_hook(state, library.post_localSGD_hook.post_localSGD_hook)
  end

  local ZERO = { none = true, zero = false }

  local function wrap(rank, case, module)
    if case.first then dist._DEFAULT_FIRST_BUCKET_BYTES = case.first end
    if case.ignore then DDP._set_params_and_buffers_to_ignore_for_model(module, case.ignore) end
    local ddp = DDP(module, case.kw or {})
    return ddp, case.hook and HOOKS[case.hook](ddp, case, rank)
  end

  -- How many steps a rank makes: with a join each its own number.
  local function steps_of(rank, case) return case.join and case.counts[rank + 1] or #case.steps end

  local function train_on(rank, case)
    local module, out = tools.ddp_model(case.model), { steps = {} }
    fill_all(rank, case, module)
    freeze(module, case.frozen)
    local ddp, state = wrap(rank, case, module)
    out.after_wrap, out.buffers_after_wrap = all_plain(module:named_parameters()), all_plain(module:named_buffers())
    local optimizer = optim.SGD(module:parameters(), { lr = case.lr, momentum = case.momentum })
    local function steps()
      for step = 1, steps_of(rank, case) do
        -- A case that says nothing of `zero` drops its gradients, too: so its numbers were made.
        optimizer:zero_grad { set_to_none = case.zero ~= "zero" }
        local losses = run_step(ddp, rank, case, step)
        local grads = grads_of(module)
        optimizer:step()
        out.steps[step] = { losses = losses, grads = grads, params = all_plain(module:named_parameters()),
          buffers = all_plain(module:named_buffers()), powersgd = tools.powersgd.look(state) }
      end
    end
    if case.join then ddp:join(case.join, steps) else steps() end
    out.final, out.final_buffers = all_plain(module:named_parameters()), all_plain(module:named_buffers())
    return out
  end

  -- ---- comparing ----

  local function match_all(what, got, goldens, tol)
    local wrong
    for name, golden in pairs(goldens) do
      local here = what .. " " .. name
      if golden == rs.none then
        wrong = wrong or same(here, got[name] == nil, true)
      else
        wrong = wrong or tools.match_plain(here, got[name], golden, golden.t:find "^f" and tol or nil)
      end
    end
    for name in pairs(got) do
      if goldens[name] == nil then return what .. " " .. name .. ": nothing is said of it" end
    end
    return wrong
  end

  local function match_layouts(what, grads, sparse)
    local wanted, wrong = {}, nil
    for _, name in ipairs(sparse or {}) do wanted[name] = true end
    for name, grad in pairs(grads) do
      wrong = wrong or same(what .. " is sparse: " .. name, grad.sparse, wanted[name] == true)
    end
    return wrong
  end

  local function match_step(what, got, golden, rank, case)
    local sums = tools.powersgd.register[case.hook] and tools.powersgd.tolerance or OF_HOOK[case.hook] or SUMS
    local function own(values) return case.grads_and_params_same_on_every_rank and values or values[rank + 1] end
    known("a step", golden, "losses grads params buffers sparse_layout powersgd")
    return tools.same(what .. " losses", #got.losses, #golden.losses[rank + 1]) or
      tools.compare(what .. " loss", got.losses, tools.numbers(golden.losses[rank + 1]), sums) or
      match_all(what .. " gradient", got.grads, own(golden.grads), sums) or
      match_layouts(what .. " gradient", got.grads, golden.sparse_layout) or
      match_all(what .. " parameter", got.params, own(golden.params), sums) or
      match_all(what .. " buffer", got.buffers, golden.buffers and golden.buffers[rank + 1] or {}, sums) or
      tools.powersgd.match(what, got.powersgd, golden.powersgd and golden.powersgd[rank + 1])
  end

  -- Under a join each rank has steps of its own, and in the end all have one state.
  local function match_joined(what, got, rank, case)
    local wrong = same(what .. " steps", #got.steps, #case.steps_by_rank[rank + 1])
    for i, golden in ipairs(case.steps_by_rank[rank + 1]) do
      known("a step", golden, "losses grads params buffers sparse_layout")
      local here, own = ("%s step %d"):format(what, i - 1), got.steps[i]
      wrong = wrong or tools.compare(here .. " loss", own.losses, tools.numbers(golden.losses), SUMS) or
        match_all(here .. " gradient", own.grads, golden.grads, SUMS) or
        match_layouts(here .. " gradient", own.grads, golden.sparse_layout) or
        match_all(here .. " parameter", own.params, golden.params, SUMS) or
        match_all(here .. " buffer", own.buffers, golden.buffers or {}, SUMS)
    end
    local function own(values) return case.final_same_on_every_rank and values or values[rank + 1] end
    return wrong or match_all(what .. " final parameter", got.final, own(case.final), SUMS) or
      match_all(what .. " final buffer", got.final_buffers, case.final_buffers and case.final_buffers[rank + 1] or {}, SUMS)
  end

  local function match_rank(got, rank, case)
    local what, wrong = "rank " .. rank, nil
    if case.after_wrap then
      wrong = match_all(what .. " after the wrap", got.after_wrap, case.after_wrap[rank + 1])
    end
    local buffers = case.buffers_after_wrap_by_rank and case.buffers_after_wrap_by_rank[rank + 1] or case.buffers_after_wrap
    wrong = wrong or match_all(what .. " buffer after the wrap", got.buffers_after_wrap, buffers or {})
    for i, golden in ipairs(case.join and {} or case.steps) do
      wrong = wrong or match_step(("%s step %d"):format(what, i - 1), got.steps[i], golden, rank, case)
    end
    return wrong or case.join and match_joined(what, got, rank, case)
  end

  -- ---- a scenario ----

  local KINDS = { dense = true, tokens = true, image = true, branch = true }

  -- What the case says of itself twice must fit.
  local function check_words(case)
    if case.zero ~= nil and ZERO[case.zero] == nil then return "the zero '" .. tostring(case.zero) .. "' is not understood" end
    if case.odd ~= nil and not ODD[case.odd] then return "the odd '" .. tostring(case.odd) .. "' is not understood" end
    if not LOSSES[case.loss or "mean"] then return "the loss '" .. tostring(case.loss) .. "' is not understood" end
    if case.init ~= nil and case.init ~= "per_rank" then return "the init '" .. tostring(case.init) .. "' is not understood" end
    if not KINDS[case.kind] then return "the kind '" .. tostring(case.kind) .. "' is not understood" end
    if case.hook and not HOOKS[case.hook] then return "the hook '" .. tostring(case.hook) .. "' is not understood" end
    local wrong
    if case.join then
      known("a join", case.join, "divide_by_initial_world_size enable throw_on_early_termination")
      wrong = same("ranks that count", #case.counts, case.world)
    end
    for rank = 1, case.world do
      local calls = steps_of(rank - 1, case) * calls_a_step(case)
      wrong = wrong or same("inputs", #case.inputs[rank], calls) or same("targets", #case.targets[rank], calls)
      for k = 1, calls do
        local rows = case.batches and case.batches[rank] or case.batch
        wrong = wrong or same("rows", case.inputs[rank][k].s[1], rows)
      end
    end
    return wrong or same("ranks", #case.inputs, case.world)
  end


  local function train_case(case)
    local wrong = check_words(case)
    if wrong then return wrong end
    local ranks = dist.spawn(train_on, { world = case.world, args = { case } })
    for rank = 0, case.world - 1 do wrong = wrong or match_rank(ranks[rank], rank, case) end
    return wrong
  end

  -- ---- the last bit of an average ----

  local MODES = { ["default"] = {}, gradient_as_bucket_view = { kw = { gradient_as_bucket_view = true } },
    ["python allreduce hook"] = { hook = true } }

  local function division_on(rank, case)
    local module = tools.ddp_model { "Vec", case.iterations[1].local_size }
    local ddp, out = DDP(module, case.way.kw or {}), {}
    if case.way.hook then ddp:register_comm_hook(nil, tools.ddp_averaging_hook(case.world)) end
    for i, iteration in ipairs(case.iterations) do
      ddp:zero_grad { set_to_none = false }
      ddp(make(iteration.inputs[rank + 1])):backward()
      out[i] = plain(module.p.grad)
    end
    return out
  end

  local function division_case(case)
    local given, wrong = { world = case.world, way = MODES[case.mode], iterations = {} }, nil
    if not given.way then return "the mode '" .. tostring(case.mode) .. "' is not understood" end
    for i, iteration in ipairs(case.iterations) do
      known("an iteration", iteration, "local reduced")
      wrong = wrong or same("ranks", #iteration["local"], case.world)
      given.iterations[i] = { inputs = iteration["local"], local_size = iteration.reduced.s[1] }
    end
    if wrong then return wrong end
    local ranks = dist.spawn(division_on, { world = case.world, args = { given } })
    for rank = 0, case.world - 1 do
      for i, iteration in ipairs(case.iterations) do
        local what = ("rank %d iteration %d"):format(rank, i - 1)
        wrong = wrong or tools.match_plain(what, ranks[rank][i], iteration.reduced)
      end
    end
    return wrong
  end

  -- One case for each world and mode.
  function tools.cases_of_division(worlds)
    local cases = {}
    for _, entry in ipairs(worlds) do
      known("a world of divisions", entry, "world modes")
      for _, mode in ipairs(entry.modes) do
        known("a mode of division", mode, "mode iterations")
        cases[#cases + 1] = { name = ("division, world %d, %s"):format(entry.world, mode.mode), world = entry.world,
          mode = mode.mode, iterations = mode.iterations }
      end
    end
    return cases
  end

  local FIELDS = "name model kind world batch batches lr momentum steps kw first loss zero init accumulate odd used used_call " ..
    "hook psgd join counts ignore frozen buffers shape vocab per_rank grads_and_params_same_on_every_rank " ..
    "final_same_on_every_rank init_rank0 init_other_ranks buffers_init buffers_after_wrap buffers_after_wrap_by_rank " ..
    "after_wrap inputs targets steps_by_rank final final_buffers powersgd_random_q"

  return function(section, case)
    if section == "scenarios" and case.model and case.init_rank0 and case.inputs then return train_case, FIELDS end
    if section == "division" and case.mode and case.iterations then return division_case, "name world mode iterations" end
  end
end
