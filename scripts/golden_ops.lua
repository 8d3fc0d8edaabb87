-- Cases of single operators: forward, and the gradients that come back for the given ones.
local rs = require "ringside"
local F = rs.nn.functional
local expression = dofile(os.getenv("GOLDEN_PARTS") .. "/golden_expression.lua")

return function(tools)
  local match, same, tensor, known = tools.match, tools.same, tools.tensor, tools.known

  -- Options as PyTorch names them, without those that are None.
  local function options(attrs)
    local out = {}
    for name, value in pairs(attrs) do
      if value ~= rs.none then out[name] = type(value) == "string" and tools.number(value) or value end
    end
    return out
  end

  -- A method, a function of rs or one of nn.functional, whichever there is.
  local probe = rs.zeros { 1 }
  local function function_of(name)
    local ok, method = pcall(function() return probe[name] end)
    if ok and type(method) == "function" then return method end
    return rawget(rs, name) or rawget(F, name)
  end

  -- Those whose call is not OP(tensors, {attrs}).
  local OPS = {}
  for name in ("var std"):gmatch("%S+") do
    OPS[name] = function(inputs, attrs)
      if attrs.unbiased ~= nil or attrs.correction ~= nil or attrs.dim == nil then return inputs[1][name](inputs[1], attrs) end
      local biased = { dim = attrs.dim, keepdim = attrs.keepdim, unbiased = false }
      return inputs[1][name](inputs[1], attrs), inputs[1][name](inputs[1], biased)
    end
  end
  -- The attributes that the calls below read; a call that is not there reads them all.
  local READ = { gelu_tanh = "", softmax = "dim", expand_mul = "sizes", split = "size split_size sizes dim",
    chunk = "chunks dim", unbind = "dim", cat = "dim", stack = "dim", index_select = "dim", gather = "dim",
    scatter = "dim", scatter_add = "dim", index_add = "dim", chain = "" }

  function OPS.gelu_tanh(inputs) return F.gelu(inputs[1], { approximate = "tanh" }) end
  function OPS.softmax(inputs, attrs) return F.softmax(inputs[1], attrs.dim) end
  function OPS.expand_mul(inputs, attrs) return inputs[1]:expand(attrs.sizes) * inputs[2] end
  function OPS.split(inputs, attrs)
    return table.unpack(inputs[1]:split(attrs.size or attrs.split_size or attrs.sizes, attrs.dim or 0))
  end
  function OPS.chunk(inputs, attrs) return table.unpack(inputs[1]:chunk(attrs.chunks, attrs.dim or 0)) end
  function OPS.unbind(inputs, attrs) return table.unpack(inputs[1]:unbind(attrs.dim or 0)) end
  function OPS.cat(inputs, attrs) return rs.cat(inputs, attrs.dim or 0) end
  function OPS.stack(inputs, attrs) return rs.stack(inputs, attrs.dim or 0) end
  for name in ("index_select gather scatter scatter_add index_add"):gmatch("%S+") do
    OPS[name] = function(inputs, attrs) return inputs[1][name](inputs[1], attrs.dim, inputs[2], inputs[3]) end
  end

  -- Attributes that are given by place, in this order; the others by name.
  local PLACES = { view = "sizes", reshape = "sizes", expand = "sizes", permute = "dims", transpose = "dim0 dim1",
    squeeze = "dim", unsqueeze = "dim", select = "dim index", narrow = "dim start length", masked_fill = "value",
    topk = "k dim largest", sort = "dim descending", argsort = "dim descending", cumsum = "dim", cumprod = "dim",
    logcumsumexp = "dim", cummax = "dim", cummin = "dim", clamp = "min max", norm = "p", flatten = "start_dim end_dim",
    flip = "dims", roll = "shifts dims", tile = "dims", tril = "diagonal", triu = "diagonal",
    diagonal = "offset dim1 dim2", log_softmax = "dim", softmin = "dim" }
  PLACES["repeat"] = "sizes"

  local LISTS = { cat = true, stack = true }

  -- a, b, c ... in order (a alone: twice), or x with y, with i (indices), m (a mask), c (a condition, which comes first).
  local function operands(case, inputs)
    local names, list = {}, {}
    if case.op == "where" then
      names = { inputs.c and "c" or inputs.m and "m" or "condition", inputs.a and "a" or "x", inputs.b and "b" or "y" }
    elseif inputs.x then
      known("the inputs", inputs, "x i m y z")
      for name in ("x i m y z"):gmatch("%S") do names[#names + 1] = inputs[name] and name end
    else
      for name in pairs(inputs) do names[#names + 1] = name end
      table.sort(names)
    end
    for i, name in ipairs(names) do list[i] = inputs[name] end
    if #list == 1 and inputs.a and not LISTS[case.op] then list[2] = list[1] end
    return list
  end

  local function call(case, inputs)
    if READ[case.op] then known("the attributes", case.attrs, READ[case.op]) end
    if case.op == "chain" then return expression(case.note, inputs, function_of) end
    local list, attrs = operands(case, inputs), options(case.attrs)
    if OPS[case.op] then return OPS[case.op](list, attrs) end
    local count = #list
    for name in (PLACES[case.op] or ""):gmatch("%S+") do
      count = count + 1
      list[count], attrs[name] = attrs[name], nil
    end
    if next(attrs) then
      count = count + 1
      list[count] = attrs
    end
    return function_of(case.op)(table.unpack(list, 1, count))
  end

  local function run(case)
    local inputs, tol, wrong = {}, case.tol or { 1e-5, 1e-4 }, nil
    for name in pairs(case.grads or {}) do
      if not case.inputs[name] then return "the gradient of " .. name .. " is not understood" end
    end
    for name, golden in pairs(case.inputs) do
      inputs[name] = tensor(golden)
      if case.grads and case.grads[name] then inputs[name]:requires_grad_() end
    end
    local outs = { call(case, inputs) }
    wrong = same("outputs", #outs, #case.outputs)
    for i, golden in ipairs(case.outputs) do wrong = wrong or match("output " .. i, outs[i], golden, tol) end
    if wrong or not case.grads or not next(case.grads) then return wrong end
    local roots, grads = {}, {}
    if #case.grad_out ~= #outs then return "there are not as many grad_out as outputs" end
    for i, golden in ipairs(case.grad_out) do
      if golden ~= rs.none then
        roots[#roots + 1], grads[#grads + 1] = outs[i], tools.like("grad_out", golden, outs[i])
      end
    end
    rs.autograd.backward(roots, grads)
    for name, golden in pairs(case.grads) do
      if inputs[name].grad == nil then return name .. ".grad: none has come" end
      wrong = wrong or match(name .. ".grad", inputs[name].grad, golden, tol)
    end
    return wrong
  end

  return function(section, case)
    local mine = section == "cases" and case.op and case.inputs and case.outputs and case.attrs
    if mine and (OPS[case.op] or function_of(case.op) or (case.op == "chain" and case.note)) then
      return run, "name op attrs inputs grad_out outputs grads note tol"
    end
  end
end
