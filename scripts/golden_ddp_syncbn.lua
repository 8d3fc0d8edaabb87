-- SyncBatchNorm on a device a rank: {name, world, inputs, grad_outputs, outputs ...}, lists by rank. local_grad_* is what the
-- backward leaves on the rank itself, sum_grad_* what that comes to on all; mean and biased_var are the whole batch's.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

return function(tools)
  local make, plain, same, compare = tools.make, tools.plain, tools.same, tools.compare
  local TOL = { 1e-5, 1e-4 }

  local function given(value) return value ~= nil and value ~= rs.none end

  -- ---- on a rank ----

  local function layer(case, rank, momentum)
    local input = case.inputs[rank + 1]
    local norm = nn.SyncBatchNorm(input.s[2], {
      eps = case.eps, momentum = momentum, affine = given(case.weight), bias = given(case.bias),
      dtype = tools.DTYPES[input.t] })
    if given(case.weight) then norm.weight = nn.Parameter(make(case.weight)) end
    if given(case.bias) then norm.bias = nn.Parameter(make(case.bias)) end
    return norm:to("device:" .. rank)
  end

  local function on_rank(rank, case)
    local device = "device:" .. rank
    local norm, whole = layer(case, rank, case.momentum), layer(case, rank, 1.0)
    local x = make(case.inputs[rank + 1]):to(device):requires_grad_()
    local output = norm(x)
    output:backward(make(case.grad_outputs[rank + 1]):to(device))
    whole(x)
    local function grad(parameter) return parameter and parameter.grad and plain(parameter.grad) end
    return { outputs = plain(output), grad_inputs = grad(x), local_grad_weight = grad(norm.weight),
      local_grad_bias = grad(norm.bias), running_mean = plain(norm.running_mean), running_var = plain(norm.running_var),
      mean = plain(whole.running_mean), variance = plain(whole.running_var) }
  end

  -- ---- comparing ----

  local function all_zero(golden)
    for _, value in ipairs(golden.d) do
      if tools.number(value) ~= 0 then return false end
    end
    return true
  end

  -- A rank without rows hands no gradient on, which stands for zeros.
  local function match(what, got, golden)
    if not given(golden) then return got and what .. ": there is one" or nil end
    if got == nil and all_zero(golden) then return nil end
    return tools.match_plain(what, got, golden, TOL)
  end

  local function summed(results, key, world)
    local total = {}
    for rank = 0, world - 1 do
      for i, value in ipairs(results[rank][key] and results[rank][key].d or {}) do total[i] = (total[i] or 0) + value end
    end
    return total
  end

  -- What running_var came to with momentum 1 is divided by one value less.
  local function biased(case, got)
    local values = 0
    for rank = 1, case.world do values = values + tools.count_of(case.inputs[rank].s) // case.inputs[rank].s[2] end
    local out = {}
    for i, value in ipairs(got.variance.d) do out[i] = value * (values - 1) / values end
    return { t = got.variance.t, s = got.variance.s, d = out }
  end

  local BY_RANK = { "outputs", "grad_inputs", "local_grad_weight", "local_grad_bias" }
  local ON_ALL = { "running_mean", "running_var", "mean", "biased_var" }

  local function syncbn_case(case)
    local results = dist.spawn(on_rank, { world = case.world, args = { case } })
    local wrong = same("inputs", #case.inputs, case.world)
    for rank = 0, case.world - 1 do
      local got, who = results[rank], " of rank " .. rank
      got.biased_var = biased(case, got)
      for _, key in ipairs(BY_RANK) do
        wrong = wrong or given(case[key]) and match(key .. who, got[key], case[key][rank + 1]) or nil
      end
      for _, key in ipairs(ON_ALL) do wrong = wrong or given(case[key]) and match(key .. who, got[key], case[key]) or nil end
    end
    for _, name in ipairs { "weight", "bias" } do
      local golden, key = case["sum_grad_" .. name], "local_grad_" .. name
      if given(golden) then
        wrong = wrong or compare("sum_grad_" .. name, summed(results, key, case.world), tools.elements {
          dtype = golden.t, data = golden.d }, TOL)
      end
    end
    return wrong
  end

  return function(section, case)
    if section == "cases" and case.grad_outputs and case.local_grad_weight then
      return syncbn_case, "name world eps momentum inputs grad_outputs weight bias outputs grad_inputs local_grad_weight " ..
        "local_grad_bias sum_grad_weight sum_grad_bias running_mean running_var mean biased_var"
    end
  end
end
