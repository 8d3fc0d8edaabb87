-- Cases of single operators: forward, and the gradients that come back for the given ones.
local rs = require "ringside"
local F = rs.nn.functional

return function(tools)
  local match, same = tools.match, tools.same

  local function tensor(golden)
    if not golden.storage then return tools.tensor(golden) end
    local storage = tools.tensor { dtype = golden.dtype, shape = { #golden.storage }, data = golden.storage }
    return storage:as_strided(golden.shape, golden.stride, golden.offset)
  end

  local function given(value)
    if value == rs.none then return nil end
    return value
  end

  local OPS = {}
  -- Of one tensor and nothing else: the method of that name.
  for name in ("relu tanh sigmoid exp exp2 expm1 neg abs square log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin "
    .. "acos atan sinh cosh erf sign floor ceil trunc round"):gmatch("%S+") do
    OPS[name] = function(x) return x[name](x) end
  end
  for name in ("add sub mul div pow maximum minimum atan2 remainder fmod matmul mm bmm dot mv"):gmatch("%S+") do
    OPS[name] = function(x, y) return x[name](x, y) end
  end
  for name in ("sum mean prod amax amin var std max min argmax argmin all any logsumexp"):gmatch("%S+") do
    OPS[name] = function(x, _, attrs)
      local dim, keep = given(attrs.dim), given(attrs.keepdim) or false
      if dim == nil then return x[name](x) end
      if (name == "var" or name == "std") and given(attrs.unbiased) == nil then
        return x[name](x, { dim = dim, keepdim = keep }), x[name](x, { dim = dim, keepdim = keep, unbiased = false })
      elseif name == "var" or name == "std" then
        return x[name](x, { dim = dim, keepdim = keep, unbiased = attrs.unbiased })
      end
      return x[name](x, dim, keep)
    end
  end
  for name in ("softmax log_softmax"):gmatch("%S+") do
    OPS[name] = function(x, _, attrs) return F[name](x, attrs.dim) end
  end
  function OPS.gelu(x) return F.gelu(x) end
  function OPS.gelu_tanh(x) return F.gelu(x, { approximate = "tanh" }) end
  function OPS.expand_mul(x, y, attrs) return x:expand(attrs.sizes) * y end
  function OPS.view(x, _, attrs) return x:view(attrs.sizes) end
  function OPS.reshape(x, _, attrs) return x:reshape(attrs.sizes) end
  function OPS.expand(x, _, attrs) return x:expand(attrs.sizes) end
  function OPS.permute(x, _, attrs) return x:permute(attrs.dims) end
  function OPS.transpose(x, _, attrs) return x:transpose(attrs.dim0, attrs.dim1) end
  function OPS.narrow(x, _, attrs) return x:narrow(attrs.dim, attrs.start, attrs.length) end
  function OPS.select(x, _, attrs) return x:select(attrs.dim, attrs.index) end
  function OPS.squeeze(x, _, attrs) return x:squeeze(attrs.dim) end
  function OPS.unsqueeze(x, _, attrs) return x:unsqueeze(attrs.dim) end
  function OPS.split(x, _, attrs) return table.unpack(x:split(attrs.size, attrs.dim)) end
  function OPS.chunk(x, _, attrs) return table.unpack(x:chunk(attrs.chunks, attrs.dim)) end
  function OPS.cat(list, _, attrs) return rs.cat(list, attrs.dim) end
  function OPS.stack(list, _, attrs) return rs.stack(list, attrs.dim) end
  function OPS.index_select(x, i, attrs) return x:index_select(attrs.dim, i) end
  function OPS.gather(x, i, attrs) return x:gather(attrs.dim, i) end
  function OPS.masked_fill(x, m, attrs) return x:masked_fill(m, attrs.value) end
  function OPS.cumsum(x, _, attrs) return x:cumsum(attrs.dim) end
  function OPS.topk(x, _, attrs) return x:topk(attrs.k, attrs.dim) end
  function OPS.sort(x, _, attrs) return x:sort(attrs.dim, given(attrs.descending)) end
  function OPS.where(a, b, _, inputs) return rs.where(inputs.c or inputs.m, a, b) end
  function OPS.clamp(x, _, attrs) return x:clamp(given(attrs.min), given(attrs.max)) end

  -- A program of tensors' names, whole numbers, calls and + - * /, as "tanh(a@b+c).sum(dim 1)": its note in Lua.
  local function program(note)
    local text, sum = note:match("^(.-)%.sum%(dim (%d+)%)$")
    text = text or note
    text = text:gsub("(%w+)@(%w+)", "matmul(%1, %2)")
    return "return " .. text, tonumber(sum)
  end
  local function chain(case, inputs)
    local text, dim = program(case.note)
    local scope = setmetatable({}, { __index = function(_, name) return inputs[name] or rs[name] end })
    local run = assert(load(text, "program", "t", scope))
    local out = run()
    return dim and out:sum(dim) or out
  end

  -- a, b, c ... (the list of cat and stack), or x with y, i (indices) or m (a mask).
  local function operands(case, inputs)
    if case.op == "cat" or case.op == "stack" then
      local names, list = {}, {}
      for name in pairs(inputs) do names[#names + 1] = name end
      table.sort(names)
      for i, name in ipairs(names) do list[i] = inputs[name] end
      return list
    end
    if inputs.x then return inputs.x, inputs.y or inputs.i or inputs.m end
    return inputs.a, inputs.b or inputs.a
  end

  local function run(case)
    local inputs, tol, wrong = {}, case.tol or { 1e-5, 1e-4 }, nil
    for name, golden in pairs(case.inputs) do
      inputs[name] = tensor(golden)
      if case.grads and case.grads[name] then inputs[name]:requires_grad_() end
    end
    local outs
    if case.op == "chain" then
      outs = { chain(case, inputs) }
    else
      local a, b = operands(case, inputs)
      outs = { OPS[case.op](a, b, case.attrs, inputs) }
    end
    wrong = same("outputs", #outs, #case.outputs)
    for i, golden in ipairs(case.outputs) do wrong = wrong or match("output " .. i, outs[i], golden, tol) end
    if wrong or not case.grads then return wrong end
    local roots, grads = {}, {}
    for i, golden in ipairs(case.grad_out) do
      if golden ~= rs.none then
        roots[#roots + 1], grads[#grads + 1] = outs[i], tensor(golden)
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
    if mine and (OPS[case.op] or (case.op == "chain" and case.note)) then return run end
  end
end
