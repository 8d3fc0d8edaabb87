-- Cases of optimizers, clipping and learning-rate schedules.
local rs = require "ringside"
local nn, optim = rs.nn, rs.optim

return function(tools)
  local tensor, match, same, compare, number = tools.tensor, tools.match, tools.same, tools.compare, tools.number
  local known = tools.known

  local OPTIONS = {
    SGD = { "lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize" },
    Adam = { "lr", "betas", "eps", "weight_decay", "amsgrad", "maximize", "decoupled_weight_decay" },
    AdamW = { "lr", "betas", "eps", "weight_decay", "amsgrad", "maximize" },
    Adagrad = { "lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps", "maximize" },
    SparseAdam = { "lr", "betas", "eps", "maximize" },
  }
  -- What PyTorch has beside these says how its loops are written: it means nothing here.
  local IDLE = { foreach = true, capturable = true, differentiable = true, fused = true, params = true }

  -- AdamW is Adam with a decoupled decay, so it says that of itself, and Adam says that it has another.
  local DECOUPLED = { Adam = false, AdamW = true }

  local function options(kind, attrs)
    local read, out = {}, {}
    if not OPTIONS[kind] then error("the optimizer '" .. tostring(kind) .. "' is not understood") end
    for _, name in ipairs(OPTIONS[kind]) do
      read[name] = true
      if attrs[name] ~= nil and attrs[name] ~= rs.none then out[name] = attrs[name] end
    end
    if attrs.decoupled_weight_decay == DECOUPLED[kind] then
      read.decoupled_weight_decay, out.decoupled_weight_decay = true, nil
    end
    for name in pairs(attrs) do
      if not read[name] and not IDLE[name] then error("the option '" .. name .. "' is not understood") end
    end
    return out
  end
  tools.optimizer_options = options

  local function make(case, params)
    local kind = case.optimizer
    if not case.groups then return optim[kind](params, options(kind, case.attrs)) end
    local groups = {}
    for i, golden in ipairs(case.groups) do
      if not golden.params then error("a group without parameters is not understood") end
      groups[i] = options(kind, golden)
      groups[i].params = {}
      for at, index in ipairs(golden.params) do groups[i].params[at] = params[index + 1] end
    end
    return optim[kind](groups, case.attrs and options(kind, case.attrs))
  end

  local function set_grad(param, golden)
    param.grad = golden ~= rs.none and tensor(golden) or nil
  end

  local function match_state(state, expected)
    local wrong
    for i in pairs(state) do
      if expected[i + 1] == nil then return "state " .. i .. ": nothing is said of it" end
    end
    for i, golden in ipairs(expected) do
      local got = state[i - 1] or {}
      for name in pairs(golden ~= rs.none and got or {}) do
        if golden[name] == nil then wrong = wrong or "state " .. i - 1 .. " " .. name .. ": nothing is said of it" end
      end
      if golden == rs.none and next(got) then return "state " .. i - 1 .. ": there is one" end
      if golden ~= rs.none then
        for name, value in pairs(golden) do
          local what = "state " .. i - 1 .. " " .. name
          if value == rs.none then wrong = wrong or same(what, got[name], nil)
          elseif got[name] == nil then wrong = wrong or what .. ": missing"
          else wrong = wrong or match(what, got[name], value, { 1e-5, 1e-4 }) end
        end
      end
    end
    return wrong
  end

  local function optimizer_case(case)
    local params, wrong = {}, nil
    for i, golden in ipairs(case.params) do params[i] = nn.Parameter(tensor(golden)) end
    local opt = make(case, params)
    for i, step in ipairs(case.steps) do
      known("step " .. i, step, step.idx and "idx w params" or "grads params")
      if #step.params ~= #params or (step.grads and #step.grads ~= #params) then
        return "step " .. i .. " has not as many numbers as there are parameters"
      end
      if step.idx then
        opt:zero_grad { set_to_none = true }
        local out = nn.functional.embedding(tensor(step.idx), params[1], { sparse = true })
        local loss = (out * tensor(step.w)):sum()
        loss:backward()
      else
        for at, golden in ipairs(step.grads) do set_grad(params[at], golden) end
      end
      opt:step()
      for at, golden in ipairs(step.params) do
        wrong = wrong or match(string.format("step %d parameter %d", i, at - 1), params[at], golden, case.tol or { 1e-5, 1e-4 })
      end
    end
    if case.state and #case.state ~= #params then return "there are not as many states as parameters" end
    return wrong or (case.state and match_state(opt:state_dict().state, case.state))
  end

  local function zero_grad_case(case)
    local golden = case.set_to_none_false
    known("set_to_none_false", golden, "grad_that_was_set grad_that_was_none")
    local set, none = nn.Parameter(rs.ones { #golden.grad_that_was_set }), nn.Parameter(rs.ones { 2 })
    set.grad = rs.ones { #golden.grad_that_was_set }
    optim.SGD({ set, none }, { lr = 0.1 }):zero_grad { set_to_none = false }
    return compare("the gradient that was set", tools.flat(set.grad), golden.grad_that_was_set) or
      same("the gradient that was none", none.grad == nil, golden.grad_that_was_none == rs.none)
  end

  local function clip_case(case)
    local params, tol, wrong = {}, case.tol or { 1e-5, 1e-4 }, nil
    known("clip", case.clip, case.clip.clip_value and "clip_value" or "max_norm norm_type")
    if #case.grads_after ~= #case.grads then return "there are not as many gradients before as after" end
    for i, golden in ipairs(case.grads) do
      params[i] = nn.Parameter(golden ~= rs.none and tensor(golden) or rs.zeros { 1 })
      set_grad(params[i], golden)
    end
    if case.clip.clip_value then
      nn.utils.clip_grad_value_(params, number(case.clip.clip_value))
    else
      local total = nn.utils.clip_grad_norm_(params, number(case.clip.max_norm), { norm_type = number(case.clip.norm_type) })
      wrong = match("total norm", total, case.total_norm, tol)
    end
    for i, golden in ipairs(case.grads_after) do
      if golden == rs.none then wrong = wrong or same("gradient " .. i - 1, params[i].grad, nil)
      else wrong = wrong or match("gradient " .. i - 1, params[i].grad, golden, tol) end
    end
    return wrong
  end

  -- An expression in `e`, the epoch.
  local function lambda(text)
    local f = load("local min, max = math.min, math.max return function(e) return " .. text .. " end")
    if not f then error("the expression '" .. text .. "' is not understood") end
    return f()
  end

  local SCHEDULER_FIELDS = { StepLR = "kind step_size gamma", MultiStepLR = "kind milestones gamma",
    ExponentialLR = "kind gamma", CosineAnnealingLR = "kind T_max eta_min",
    LinearLR = "kind start_factor end_factor total_iters", LambdaLR = "kind lambda", SequentialLR = "kind parts milestones" }
  local schedulers = optim.lr_scheduler
  local SCHEDULERS = {
    StepLR = function(o, s) return schedulers.StepLR(o, s.step_size, { gamma = s.gamma }) end,
    MultiStepLR = function(o, s) return schedulers.MultiStepLR(o, s.milestones, { gamma = s.gamma }) end,
    ExponentialLR = function(o, s) return schedulers.ExponentialLR(o, s.gamma) end,
    CosineAnnealingLR = function(o, s) return schedulers.CosineAnnealingLR(o, s.T_max, { eta_min = s.eta_min }) end,
    LinearLR = function(o, s)
      return schedulers.LinearLR(o, { start_factor = s.start_factor, end_factor = s.end_factor, total_iters = s.total_iters })
    end,
    LambdaLR = function(o, s) return schedulers.LambdaLR(o, lambda(s.lambda)) end,
  }
  local function scheduler(opt, golden)
    known("the scheduler", golden, SCHEDULER_FIELDS[golden.kind] or "kind")
    if golden.kind == "SequentialLR" then
      local parts = {}
      for i, part in ipairs(golden.parts) do parts[i] = scheduler(opt, part) end
      return schedulers.SequentialLR(opt, parts, golden.milestones)
    end
    if not SCHEDULERS[golden.kind] then error("the scheduler '" .. tostring(golden.kind) .. "' is not understood") end
    return SCHEDULERS[golden.kind](opt, golden)
  end

  local function scheduler_case(case)
    local opt = optim.SGD({ nn.Parameter(rs.zeros { 1 }) }, { lr = case.base_lr })
    local schedule, got = scheduler(opt, case.scheduler), {}
    for i = 1, #case.lrs do
      got[i] = opt.param_groups[1].lr
      opt:step()
      schedule:step()
    end
    return compare("lr", got, tools.numbers(case.lrs), case.tol or { 0, 1e-12 })
  end

  return function(section, case)
    if section ~= "cases" then return nil end
    if case.optimizer and case.steps and case.params and not case.model then
      return optimizer_case, "name optimizer attrs params steps state groups tol note"
    end
    if case.set_to_none_false then return zero_grad_case, "name set_to_none_false note" end
    if case.clip then return clip_case, "name clip grads total_norm grads_after tol note" end
    if case.scheduler then return scheduler_case, "name scheduler base_lr lrs tol note" end
  end
end
