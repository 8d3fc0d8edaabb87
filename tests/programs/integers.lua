-- Random programs over integers and bools, against the same programs in Lua's integers, cut to the type's width after
-- each operation. Arguments: first=SEED count=N mode=check|bits announce=1, as for random.lua.
local rs = require "ringside"
rs.lesson { title = "Random programs of integers", devices = 1, prefix = "" }
io.stdout:setvbuf "line"
local P = assert(loadfile "tests/programs/program.lua")()
local method, fn, op, list = P.method, P.fn, P.op, P.list
local options = { first = 1, count = 1000, mode = "check" }
for _, word in ipairs { ... } do
  local name, value = word:match("^(%w+)=(%w+)$")
  if not name then error("an argument is NAME=VALUE, not " .. word) end
  options[name] = math.tointeger(value) or value
end

-- ---- tensors of Lua: { dtype, shape, data } row after row; bools are 0 and 1 ----
local RANK = { bool = 1, uint8 = 2, int8 = 3, int32 = 4, int64 = 5 }
local CUT = {
  bool = function(x) return x ~= 0 and 1 or 0 end,
  uint8 = function(x) return x & 255 end,
  int8 = function(x) return (x + 128 & 255) - 128 end,
  int16 = function(x) return (x + 0x8000 & 0xFFFF) - 0x8000 end,
  int32 = function(x) return ((x + 0x80000000) & 0xFFFFFFFF) - 0x80000000 end,
  int64 = function(x) return x end,
}
local function count(shape)
  local n = 1
  for _, size in ipairs(shape) do n = n * size end
  return n
end
-- The tensor whose element at index i (a list, from 0) is f(i).
local function build(dtype, shape, f)
  local t, i, cut = { dtype = dtype, shape = shape, data = {} }, {}, CUT[dtype]
  for d = 1, #shape do i[d] = 0 end
  for k = 1, count(shape) do
    t.data[k] = cut(f(i, k))
    for d = #shape, 1, -1 do
      i[d] = i[d] + 1
      if i[d] < shape[d] then break end
      i[d] = 0
    end
  end
  return t
end
-- Element i; dimensions of size 1 stretch, missing ones in front are left out.
local function at(t, i)
  local k, skip = 0, #i - #t.shape
  for d, size in ipairs(t.shape) do k = k * size + (size == 1 and 0 or i[d + skip]) end
  return t.data[k + 1]
end
-- Among integers a 0-dim tensor has no say beside one with dimensions. int16 is no type of a tensor: there both are only
-- compared or put in place.
local function promoted(a, b)
  if a.dtype ~= "bool" and b.dtype ~= "bool" and (#a.shape == 0) ~= (#b.shape == 0) then
    return #a.shape == 0 and b.dtype or a.dtype
  end
  if a.dtype == "uint8" and b.dtype == "int8" or a.dtype == "int8" and b.dtype == "uint8" then return "int16" end
  return RANK[a.dtype] >= RANK[b.dtype] and a.dtype or b.dtype
end
local function stretched(a, b)
  local out = {}
  for i = 1, math.max(#a, #b) do
    local x, y = a[#a - i + 1] or 1, b[#b - i + 1] or 1
    if x ~= y and x ~= 1 and y ~= 1 then return nil end
    table.insert(out, 1, x == 1 and y or x)
  end
  return count(out) <= 48 and out or nil
end

local function whole(x) return x and 1 or 0 end
local ARITHMETIC = {
  add = function(a, b) return a + b end, sub = function(a, b) return a - b end, mul = function(a, b) return a * b end,
  maximum = math.max, minimum = math.min, floor_divide = function(a, b) return a // b end,
  remainder = function(a, b) return a % b end, fmod = math.fmod,
  bitwise_and = function(a, b) return a & b end, bitwise_or = function(a, b) return a | b end,
  bitwise_xor = function(a, b) return a ~ b end,
}
local COMPARED = {
  eq = function(a, b) return whole(a == b) end, ne = function(a, b) return whole(a ~= b) end,
  lt = function(a, b) return whole(a < b) end, le = function(a, b) return whole(a <= b) end,
  gt = function(a, b) return whole(a > b) end, ge = function(a, b) return whole(a >= b) end,
  logical_and = function(a, b) return whole(a ~= 0 and b ~= 0) end,
  logical_or = function(a, b) return whole(a ~= 0 or b ~= 0) end,
  logical_xor = function(a, b) return whole((a ~= 0) ~= (b ~= 0)) end,
}
local UNARY = {
  neg = function(a) return -a end, abs = function(a) return a < 0 and -a or a end, square = function(a) return a * a end,
  sign = function(a) return a > 0 and 1 or a < 0 and -1 or 0 end,
}
local DIVIDES = { floor_divide = true, remainder = true, fmod = true }
local function names_of(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names)
  return names
end
local ARITHMETIC_NAMES, COMPARED_NAMES, UNARY_NAMES = names_of(ARITHMETIC), names_of(COMPARED), names_of(UNARY)
local DTYPES = { "bool", "uint8", "int8", "int32", "int64", "int64" }

local function without(shape, dim, keep)
  local out = { table.unpack(shape) }
  if keep then out[dim + 1] = 1 else table.remove(out, dim + 1) end
  return out
end
-- Folds one dimension from `start` on; of all if dim is nil.
local function fold(t, dtype, dim, keep, start, f)
  if dim == nil then
    local x = start or t.data[1]
    for k = start and 1 or 2, #t.data do x = f(x, t.data[k]) end
    return build(dtype, {}, function() return x end)
  end
  return build(dtype, without(t.shape, dim, keep), function(i)
    local j, x = { table.unpack(i) }, start
    if keep then j[dim + 1] = 0 else table.insert(j, dim + 1, 0) end
    for k = 0, t.shape[dim + 1] - 1 do
      j[dim + 1] = k
      x = x == nil and at(t, j) or f(x, at(t, j))
    end
    return x
  end)
end
local function plus(a, b) return a + b end
local function times(a, b) return a * b end

-- ---- steps: each answers its expression and what it must give ----
local makers = {}
local function arithmetic(s, vars)
  local a, b = s.pick(vars), s.pick(vars)
  local name = s.pick(ARITHMETIC_NAMES)
  local x, y = a.model, b.model
  local shape, dtype = stretched(x.shape, y.shape), promoted(x, y)
  if not shape or dtype == "int16" or dtype == "bool" and DIVIDES[name] then return end
  if name == "sub" and (x.dtype == "bool" or y.dtype == "bool") then return end
  if DIVIDES[name] then
    for _, v in ipairs(y.data) do if v == 0 then return end end
  end
  local f = ARITHMETIC[name]
  return s.chance(2) and fn(name, a.name, b.name) or method(a.name, name, b.name),
    build(dtype, shape, function(i) return f(CUT[dtype](at(x, i)), CUT[dtype](at(y, i))) end)
end
for _ = 1, 3 do makers[#makers + 1] = arithmetic end
makers[#makers + 1] = function(s, vars)
  local a, b, name = s.pick(vars), s.pick(vars), s.pick(COMPARED_NAMES)
  local shape = stretched(a.model.shape, b.model.shape)
  if not shape then return end
  local cut = CUT[promoted(a.model, b.model)]
  return method(a.name, name, b.name),
    build("bool", shape, function(i) return COMPARED[name](cut(at(a.model, i)), cut(at(b.model, i))) end)
end
makers[#makers + 1] = function(s, vars)
  local a, name, k = s.pick(vars), s.pick { "add", "sub", "mul", "bitwise_and", "remainder" }, s.int(1, 9)
  local dtype = a.model.dtype == "bool" and "int64" or a.model.dtype
  if a.model.dtype == "bool" and name == "sub" then return end
  if name == "bitwise_and" then
    dtype = promoted(a.model, { dtype = "int64", shape = {} })
    return method(a.name, name, P.const(k, "int64")), build(dtype, a.model.shape, function(i) return at(a.model, i) & k end)
  end
  local signs = { add = "+", sub = "-", mul = "*", remainder = "%" }
  return op(signs[name], a.name, k), build(dtype, a.model.shape, function(i) return ARITHMETIC[name](at(a.model, i), k) end)
end
makers[#makers + 1] = function(s, vars)
  local a, name = s.pick(vars), s.pick(UNARY_NAMES)
  if a.model.dtype == "bool" then
    return method(a.name, "logical_not"), build("bool", a.model.shape, function(i) return 1 - at(a.model, i) end)
  end
  return method(a.name, name), build(a.model.dtype, a.model.shape, function(i) return UNARY[name](at(a.model, i)) end)
end
makers[#makers + 1] = function(s, vars)
  local a, dtype = s.pick(vars), s.pick(DTYPES)
  return method(a.name, "to", P.text(dtype)), build(dtype, a.model.shape, function(i) return at(a.model, i) end)
end
makers[#makers + 1] = function(s, vars)
  local a, keep = s.pick(vars), s.chance(2)
  local t, name = a.model, s.pick { "sum", "prod", "amax", "amin", "all", "any" }
  local dim = #t.shape > 0 and s.chance(2) and s.int(0, #t.shape - 1) or nil
  local expr = dim == nil and method(a.name, name) or method(a.name, name, dim, keep)
  if name == "sum" then return expr, fold(t, "int64", dim, keep, 0, plus) end
  if name == "prod" then return expr, fold(t, "int64", dim, keep, 1, times) end
  local truth = t.dtype == "uint8" and "uint8" or "bool" -- PyTorch's one exception
  if name == "all" then return expr, fold(t, truth, dim, keep, 1, function(x, y) return whole(x ~= 0 and y ~= 0) end) end
  if name == "any" then return expr, fold(t, truth, dim, keep, 0, function(x, y) return whole(x ~= 0 or y ~= 0) end) end
  return expr, fold(t, t.dtype, dim, keep, nil, name == "amax" and math.max or math.min)
end
makers[#makers + 1] = function(s, vars)
  local a = s.pick(vars)
  local t, name = a.model, s.pick { "cumsum", "cumprod" }
  if #t.shape == 0 then return end
  local dim = s.int(0, #t.shape - 1)
  return method(a.name, name, dim), build("int64", t.shape, function(i)
    local j, x = { table.unpack(i) }, name == "cumsum" and 0 or 1
    for k = 0, i[dim + 1] do
      j[dim + 1] = k
      x = name == "cumsum" and x + at(t, j) or x * at(t, j)
    end
    return x
  end)
end
makers[#makers + 1] = function(s, vars)
  local a = s.pick(vars)
  local t = a.model
  if #t.shape == 0 then return method(a.name, "unsqueeze", 0), build(t.dtype, { 1 }, function() return t.data[1] end) end
  local way, dim = s.int(1, 5), s.int(0, #t.shape - 1)
  local size = t.shape[dim + 1]
  if way == 1 then
    return method(a.name, "reshape", list { -1 }), build(t.dtype, { count(t.shape) }, function(_, k) return t.data[k] end)
  elseif way == 2 then
    local other = s.int(0, #t.shape - 1)
    local shape = { table.unpack(t.shape) }
    shape[dim + 1], shape[other + 1] = shape[other + 1], shape[dim + 1]
    return method(a.name, "transpose", dim, other), build(t.dtype, shape, function(i)
      local j = { table.unpack(i) }
      j[dim + 1], j[other + 1] = j[other + 1], j[dim + 1]
      return at(t, j)
    end)
  elseif way == 3 then
    local index = s.int(0, size - 1)
    return method(a.name, "select", dim, index), build(t.dtype, without(t.shape, dim), function(i)
      local j = { table.unpack(i) }
      table.insert(j, dim + 1, index)
      return at(t, j)
    end)
  elseif way == 4 then
    local start = s.int(0, size - 1)
    local shape = { table.unpack(t.shape) }
    shape[dim + 1] = size - start
    return method(a.name, "narrow", dim, start, size - start), build(t.dtype, shape, function(i)
      local j = { table.unpack(i) }
      j[dim + 1] = j[dim + 1] + start
      return at(t, j)
    end)
  end
  return method(a.name, "flip", list { dim }), build(t.dtype, t.shape, function(i)
    local j = { table.unpack(i) }
    j[dim + 1] = size - 1 - j[dim + 1]
    return at(t, j)
  end)
end
makers[#makers + 1] = function(s, vars)
  local c, a, b = s.pick(vars), s.pick(vars), s.pick(vars)
  local shape = c.model.dtype == "bool" and stretched(a.model.shape, b.model.shape)
  shape = shape and stretched(shape, c.model.shape)
  local dtype = promoted(a.model, b.model)
  if not shape or dtype == "int16" then return end
  return fn("where", c.name, a.name, b.name), build(dtype, shape, function(i)
    return at(c.model, i) ~= 0 and at(a.model, i) or at(b.model, i)
  end)
end
makers[#makers + 1] = function(s, vars)
  local a = s.pick(vars)
  local low = s.int(0, 5)
  local high = low + s.int(0, 5)
  if a.model.dtype == "bool" then return end
  return method(a.name, "clamp", low, high), build(a.model.dtype, a.model.shape, function(i)
    return math.min(math.max(at(a.model, i), low), high)
  end)
end
makers[#makers + 1] = function(s, vars)
  local a = s.pick(vars)
  local t = a.model
  if #t.shape == 0 then return end
  local dim, places, shape = s.int(0, #t.shape - 1), {}, { table.unpack(t.shape) }
  for k = 1, s.int(1, 3) do places[k] = s.int(0, shape[dim + 1] - 1) end
  shape[dim + 1] = #places
  return method(a.name, "index_select", dim, P.const(places)), build(t.dtype, shape, function(i)
    local j = { table.unpack(i) }
    j[dim + 1] = places[i[dim + 1] + 1]
    return at(t, j)
  end)
end

-- In place, on a copy: the target keeps its type, the operation is done in the wider one.
local function in_place(s, vars)
  local a, b, name = s.pick(vars), s.pick(vars), s.pick(ARITHMETIC_NAMES)
  local x, y = a.model, b.model
  local shape, dtype = stretched(x.shape, y.shape), promoted(x, y)
  if not shape or a == b or table.concat(shape, ",") ~= table.concat(x.shape, ",") or x.dtype == "bool" or DIVIDES[name] or
    name == "sub" and y.dtype == "bool" then return end
  local f = ARITHMETIC[name]
  return method(method(a.name, "clone"), name .. "_", b.name),
    build(x.dtype, shape, function(i) return f(CUT[dtype](at(x, i)), CUT[dtype](at(y, i))) end)
end
makers[#makers + 1] = in_place

-- ---- programs ----
local EDGES = { 0, 1, -1, 2, -2, 127, 128, 255, 256, 2147483647, -2147483648, math.maxinteger, math.mininteger }
local function leaf(s, k)
  local dtype, shape = s.pick(DTYPES), {}
  for i = 1, s.int(0, 3) do shape[i] = s.int(1, 3) end
  local model = build(dtype, shape, function() return s.chance(3) and s.pick(EDGES) or s.int(-9, 9) end)
  local numbers = model.data
  if dtype == "bool" then
    numbers = {}
    for i, x in ipairs(model.data) do numbers[i] = x ~= 0 end
  end
  return { name = "x" .. k, dtype = dtype, shape = shape, numbers = numbers, model = model }
end

-- nil, or what is wrong.
local function differs(t, model)
  if t.dtype ~= model.dtype then return "is " .. t.dtype .. ", not " .. model.dtype end
  if table.concat(t.shape, ",") ~= table.concat(model.shape, ",") then
    return ("has the shape %s, not [%s]"):format(t.shape, table.concat(model.shape, ", "))
  end
  for k, x in ipairs(t:reshape { -1 }:tolist()) do
    if type(x) == "boolean" then x = x and 1 or 0 end
    if x ~= model.data[k] then return ("element %d is %s, not %d"):format(k - 1, x, model.data[k]) end
  end
end

local wrong, steps = 0, 0
local function one(seed)
  local s = P.stream(seed)
  local program, vars, tensors = { leaves = {}, steps = {}, outputs = {} }, {}, {}
  local env = setmetatable({ rs = rs }, { __index = function(_, name) return tensors[name] or _G[name] end })
  for k = 1, s.int(1, 3) do
    local x = leaf(s, k)
    program.leaves[k], vars[k] = x, x
    tensors[x.name] = rs.tensor(x.numbers, { dtype = x.dtype }):reshape(x.shape)
  end
  for _ = 1, s.int(4, 14) do
    local expr, model = s.pick(makers)(s, vars)
    if expr and count(model.shape) > 0 then
      local step = { names = { "v" .. #program.steps + 1 }, expr = expr }
      table.insert(program.steps, step)
      program.outputs[1] = step.names[1]
      if options.announce then print(("-- seed %d\n%s"):format(seed, P.lesson(program))) end
      local ok, t = pcall(assert(load("return " .. P.lua(expr), "=step", "t", env)))
      local why = not ok and tostring(t) or differs(t, model)
      steps = steps + 1
      if why then
        wrong = wrong + 1
        local small = P.shrink(program, function(p)
          local good, got = pcall(function() return P.load(rs, p, "float64")(table.unpack(P.leaves(rs, p, "float64"))) end)
          return (not good and tostring(got) or good and got and differs(got, model)) == why
        end)
        print(("# seed %d: %s %s\n%s"):format(seed, step.names[1], why, P.lesson(small)))
        return
      end
      tensors[step.names[1]] = t
      table.insert(vars, { name = step.names[1], model = model })
    end
  end
  if options.mode == "bits" then
    local all = {}
    for i, var in ipairs(vars) do all[i] = tensors[var.name] end
    print(("%d %016x"):format(seed, P.hash(all)))
  end
end

for seed = options.first, options.first + options.count - 1 do one(seed) end
print(("# %d steps"):format(steps))
if options.mode == "check" then
  rs.check("integers of every width and bools agree with Lua's integers", wrong == 0)
  rs.check("there were programs", steps >= 3 * options.count)
end
