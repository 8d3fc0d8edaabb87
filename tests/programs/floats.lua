-- Random programs over floats: each op with the domain in which it is smooth. A step is kept when its values are finite
-- and moderate, so float32 can follow. `g` (a generator, see `new`) draws; steps are tried out in float64 as they come.
local P = ...
local method, fn, layer, op, list, keys = P.method, P.fn, P.layer, P.op, P.list, P.keys
local unpack = table.unpack
local LIMIT, ELEMENTS = 40, 48

local T = assert(loadfile "tests/programs/draw.lua")(P)
local G, count, broadcast, same = T.G, T.count, T.broadcast, T.same
local apart, away, between, from_whole = T.apart, T.away, T.between, T.from_whole

-- ---- ops ----
local ops, names = {}, {}
local function add(name, weight, make)
  ops[name] = make
  for _ = 1, weight do names[#names + 1] = name end
end

local DOMAIN = {
  log = { 0.2, 40 }, log2 = { 0.2, 40 }, log10 = { 0.2, 40 }, sqrt = { 0.1, 40 }, rsqrt = { 0.2, 40 }, log1p = { -0.7, 40 },
  asin = { -0.9, 0.9 }, acos = { -0.9, 0.9 }, tan = { -1.2, 1.2 }, exp = { -20, 3 }, exp2 = { -20, 4 }, expm1 = { -20, 3 },
  sinh = { -3, 3 }, cosh = { -3, 3 }, square = { -6, 6 },
}
local SMOOTH = { "sin", "cos", "tanh", "sigmoid", "neg", "atan", "erf" }
for name in pairs(DOMAIN) do SMOOTH[#SMOOTH + 1] = name end
table.sort(SMOOTH)

-- The variable's expression, brought into the domain of the op where it is not.
function G:within(var, name)
  local domain = DOMAIN[name]
  if not domain or between(var.value, domain[1], domain[2]) then return var.name end
  if domain[1] >= -0.7 then return op("+", method(var.name, "square"), 0.25) end
  return op("*", method(var.name, "tanh"), 0.75)
end

add("smooth", 6, function(g)
  local name = g.s.pick(SMOOTH)
  local x = g:within(g:var(), name)
  if name == "neg" and g.s.chance(2) then return op("-", x) end
  return g.s.chance(3) and fn(name, x) or method(x, name)
end)
add("reciprocal", 1, function(g)
  local x = g:var(function(v) return away(v.value, 0, 0.25) end)
  return x and method(x.name, "reciprocal")
end)
add("kinked", 2, function(g)
  local x = g:var(function(v) return away(v.value, 0) end)
  if not x then return nil end
  local name = g.s.pick { "abs", "relu", "sign", "leaky_relu", "elu" }
  if name == "leaky_relu" or name == "elu" then return layer(name, x.name, g:positive()) end
  return g.s.chance(3) and fn(name, x.name) or method(x.name, name)
end)
add("steps", 1, function(g)
  local x = g:var(function(v) return from_whole(v.value) end)
  return x and method(x.name, g.s.pick { "floor", "ceil", "trunc" })
end)
add("round", 1, function(g)
  local x = g:var(function(v) return from_whole(v.value + 0.5) end)
  return x and method(x.name, "round")
end)

local function couple(g, good)
  local a = g:var()
  local b = g:var(function(v)
    local shape = broadcast(a.shape, v.shape)
    return shape and count(shape) <= ELEMENTS and (not good or good(a.value, v.value))
  end)
  return a, b
end
add("arithmetic", 10, function(g)
  local name = g.s.pick { "add", "sub", "mul" }
  local a, b = couple(g)
  if not b or g.s.chance(6) then
    if g.s.chance(3) and name ~= "add" then return op(({ sub = "-", mul = "*" })[name], g:number(), a.name) end
    return g:say(name, a.name, g:number())
  end
  if name ~= "mul" and g.s.chance(5) then return method(a.name, name, b.name, keys { alpha = g:number() }) end
  return g:say(name, a.name, b.name)
end)
add("div", 2, function(g)
  local a, b = couple(g, function(_, y) return away(y, 0, 0.3) end)
  if g.s.chance(3) and away(a.value, 0, 0.3) then return op("/", g:number(), a.name) end
  return g:say("div", a.name, b and b.name or g:positive())
end)
add("extremes", 1, function(g)
  local a, b = couple(g, function(x, y) return away(x - y, 0) end)
  return b and g:say(g.s.pick { "maximum", "minimum" }, a.name, b.name)
end)
add("atan2", 1, function(g)
  local a, b = couple(g, function(x, y) return away(y, 0, 0.1) and away(x, 0, 0.1) end)
  return b and g:say("atan2", a.name, b.name)
end)
add("pow", 2, function(g)
  if g.s.chance(2) then return g:say("pow", g:var().name, g.s.int(1, 3)) end
  local x = g:within(g:var(), "log")
  if g.s.chance(3) then
    local power = g:var(function(v) return between(v.value, -3, 3) end)
    return power and op("^", g:positive(), power.name)
  end
  local y = couple(g)
  return g.s.chance(2) and g:say("pow", x, g:number()) or g:say("pow", x, y.name), "broadcast"
end)
add("modulo", 1, function(g)
  local a, b = couple(g, function(x, y) return away(y, 0, 0.5) and from_whole(x / y) end)
  return b and g:say(g.s.pick { "remainder", "fmod" }, a.name, b.name)
end)
add("where", 2, function(g)
  local a, b = couple(g)
  local c = b and g:var(function(v)
    local shape = broadcast(broadcast(a.shape, b.shape), v.shape)
    return away(v.value, 0.25) and shape and count(shape) <= ELEMENTS
  end)
  return c and fn("where", method(c.name, g.s.pick { "gt", "lt", "ge", "le" }, 0.25), a.name, g.s.chance(4) and g:number() or b.name)
end)
add("masked_fill", 1, function(g)
  local a = g:var()
  local c = g:var(function(v) return away(v.value, 0) and broadcast(a.shape, v.shape) end)
  return c and method(a.name, "masked_fill", method(c.name, "gt", 0), g:number()), "broadcast"
end)
add("clamp", 1, function(g)
  local low = g:number()
  local high = low + g:positive()
  local x = g:var(function(v) return away(v.value, low) and away(v.value, high) end)
  if not x then return nil end
  if g.s.chance(3) then return method(x.name, "clamp", keys { min = low }) end
  return g.s.chance(3) and method(x.name, "clamp", keys { max = high }) or method(x.name, "clamp", low, high)
end)

add("sums", 4, function(g)
  local x = g:var()
  local name, dim = g.s.pick { "sum", "mean", "sum", "logsumexp" }, g:dims(x)
  if name == "logsumexp" and dim == nil then dim = g:dim(x) end
  if dim == nil then return g.s.chance(3) and fn(name, x.name) or method(x.name, name) end
  if g.s.chance(3) then return method(x.name, name, dim) end
  return g.s.chance(2) and method(x.name, name, dim, g.s.chance(2)) or method(x.name, name, keys { dim = dim, keepdim = true })
end)
add("prod", 1, function(g)
  local x = g:var()
  if g.s.chance(3) then return method(x.name, "prod") end
  return method(x.name, "prod", g:dim(x), g.s.chance(2))
end)
add("spread", 1, function(g)
  local x = g:var(function(v) return count(v.shape) > 1 end)
  if not x then return nil end
  local name, dim = g.s.pick { "var", "std" }, g:dims(x)
  local var = dim and x.value:var(type(dim) == "table" and dim.items or dim) or x.value:var()
  if not between(var, 0.05, LIMIT) then return nil end
  if dim == nil then return method(x.name, name, g.s.chance(2)) end
  return method(x.name, name, dim, g.s.chance(2), g.s.chance(2))
end)
add("norm", 1, function(g)
  local x = g:var(function(v) return away(v.value, 0, 0.05) end)
  local dim = x and g:dims(x)
  if not x or count(x.shape) == 0 then return nil end
  if dim == nil then return method(x.name, "norm", g.s.pick { 1, 2, 3 }) end
  return method(x.name, "norm", g.s.pick { 1, 2, 3 }, dim, g.s.chance(2))
end)
add("largest", 3, function(g)
  local x = g:var(function(v) return count(v.shape) > 0 and apart(v.value) end)
  if not x then return nil end
  local name, dim = g.s.pick { "max", "min", "amax", "amin", "sort", "topk", "argsort" }, g:dim(x)
  if name:find "^a[^r]" then
    dim = g:dims(x)
    if dim == nil then return method(x.name, name) end
    return method(x.name, name, dim, g.s.chance(2))
  end
  if count(x.shape) == 0 then return nil end
  if name == "topk" then return method(x.name, "topk", g.s.int(1, g:size_of(x, dim)), dim, g.s.chance(2)), 2 end
  if name == "sort" then return method(x.name, "sort", dim, g.s.chance(2)), 2 end
  if name == "argsort" then return method(x.name, "gather", dim, method(x.name, "argsort", dim, g.s.chance(2))) end
  if g.s.chance(2) then return method(x.name, name) end
  return method(x.name, name, dim, g.s.chance(2)), 2
end)
add("running", 2, function(g)
  local x = g:var()
  return method(x.name, g.s.pick { "cumsum", "cumsum", "cumprod" }, g:dim(x))
end)

-- Factors of n, as sizes of a shape; one of them maybe -1.
local function factors(g, n)
  local shape = {}
  if n == 0 then return { 0, g.s.int(1, 3) } end
  for _ = 1, g.s.int(1, 3) do
    for _, d in ipairs { g.s.int(1, 4), 1 } do
      if n % d == 0 then
        shape[#shape + 1], n = d, n // d
        break
      end
    end
  end
  table.insert(shape, g.s.int(1, #shape + 1), n)
  if g.s.chance(3) then shape[g.s.int(1, #shape)] = -1 end
  return shape
end
add("reshape", 3, function(g)
  local x = g:var()
  if g.s.chance(4) then return method(x.name, "flatten", g:dim(x)) end
  if x.value:is_contiguous() and g.s.chance(2) then return method(x.name, "view", list(factors(g, count(x.shape)))) end
  return method(x.name, "reshape", list(factors(g, count(x.shape))))
end)
local VIEWS = {
  function(g, x) return method(x.name, "transpose", g:dim(x), g:dim(x)) end,
  function(g, x) return method(x.name, "permute", list(g:order(#x.shape))) end,
  function(g, x) return #x.shape <= 2 and method(x.name, "t") end,
  function(g, x)
    local dim = g:dim(x)
    local size = g:size_of(x, dim)
    local start = g.s.int(0, size)
    return #x.shape > 0 and method(x.name, "narrow", dim, start, g.s.int(0, 3) == 0 and size - start or math.min(size - start, 1))
  end,
  function(g, x)
    local dim = g:dim(x)
    local size = g:size_of(x, dim)
    return #x.shape > 0 and size > 0 and method(x.name, "select", dim, g.s.int(-size, size - 1))
  end,
  function(g, x) return method(x.name, "unsqueeze", g.s.int(-#x.shape - 1, #x.shape)) end,
  function(g, x) return g.s.chance(2) and method(x.name, "squeeze") or method(x.name, "squeeze", g:dim(x)) end,
  function(g, x)
    local shape = {}
    for i, size in ipairs(x.shape) do shape[i] = size == 1 and g:size() or g.s.chance(3) and -1 or size end
    if g.s.chance(3) and #shape > 0 then table.insert(shape, 1, g:size()) end
    return method(x.name, "expand", list(shape))
  end,
  function(g, x)
    if #x.shape < 2 then return nil end
    local dims = g:order(#x.shape)
    return method(x.name, "diagonal", g.s.int(-1, 1), dims[1], dims[2])
  end,
  function(g, x) return method(x.name, "movedim", g:dim(x), g:dim(x)) end,
  function(g, x)
    if #x.shape == 0 then return nil end
    local dim = g:dim(x)
    return P.part(method(x.name, g.s.pick { "chunk", "split" }, g.s.int(1, 3), dim), 0)
  end,
  function(g, x)
    if #x.shape == 0 then return nil end
    local dim = g:dim(x)
    local size = g:size_of(x, dim)
    return size > 0 and P.part(method(x.name, "unbind", dim), g.s.int(0, size - 1))
  end,
  function(g, x)
    local dim = g:dim(x)
    local size = g:size_of(x, dim)
    local first = g.s.int(0, size)
    if #x.shape == 0 then return nil end
    return P.part(method(x.name, "split", list { first, size - first }, dim), 1)
  end,
}
add("view", 9, function(g) return g.s.pick(VIEWS)(g, g:var()) end)

-- An index by integers, slices, None, "..." and maybe one tensor.
function G:index(x, fancy)
  local parts, dots, wide = {}, false, self:size()
  for i = 1, #x.shape do
    local size, way = x.shape[i], self.s.int(1, 8)
    if way == 1 and not dots then
      dots = true
      parts[#parts + 1] = P.dots
      break
    elseif way == 2 then
      parts[#parts + 1] = P.none
    end
    if way <= 4 and size > 0 then
      parts[#parts + 1] = self.s.int(-size, size - 1)
    elseif way == 5 and fancy and size > 0 then
      parts[#parts + 1] = P.const(self:places({ self.s.chance(3) and 1 or wide }, size))
    elseif self.s.chance(3) then
      parts[#parts + 1] = P.slice()
    else
      parts[#parts + 1] = P.slice(self.s.int(-size - 1, size), self.s.chance(2) and self.s.int(-size, size + 1) or nil, self.s.int(1, 2))
    end
  end
  if #parts == 0 then return P.at(x.name, P.dots) end
  return P.at(x.name, unpack(parts))
end
add("index", 4, function(g)
  local x = g:var()
  if g.s.chance(4) then
    local mask = g:var(function(v) return same(v.shape, x.shape) and away(v.value, 0) end)
    if mask and #x.shape > 0 then return P.at(x.name, method(mask.name, "gt", 0)) end
  end
  return g:index(x, true)
end)
add("pick", 3, function(g)
  local x = g:var(function(v) return #v.shape > 0 and count(v.shape) > 0 end)
  if not x then return nil end
  local dim, n = g:dim(x), g:size()
  local size = g:size_of(x, dim)
  if g.s.chance(2) then return method(x.name, "index_select", dim, P.const(g:places({ n }, size, true))) end
  local shape = { unpack(x.shape) }
  shape[(dim % #shape) + 1] = n
  return method(x.name, "gather", dim, P.const(g:places(shape, size, true)))
end)
add("put", 2, function(g)
  local x = g:var(function(v) return #v.shape > 0 and count(v.shape) > 0 end)
  if not x then return nil end
  local dim = g:dim(x)
  local size = g:size_of(x, dim)
  local shape, name = { unpack(x.shape) }, g.s.pick { "index_add", "index_copy", "scatter_add", "scatter" }
  local place = (dim % #shape) + 1
  shape[place] = name:find "^index_a" and g:size() or name == "scatter_add" and g:size() or g.s.int(1, size)
  local source = g:shaped(shape)
  if not source then return nil end
  if name == "index_add" then
    return method(x.name, name, dim, P.const(g:places({ shape[place] }, size, true)), source.name)
  elseif name == "index_copy" then
    return method(x.name, name, dim, P.const({ unpack(g:order(size), 1, shape[place]) }), source.name)
  elseif name == "scatter_add" then
    return method(x.name, name, dim, P.const(g:places(shape, size, true)), source.name)
  end
  local order = g:order(size)             -- each place once: what is written twice is anybody's guess
  local function fill(depth)
    local out = {}
    for i = 1, shape[depth] do out[i] = depth == #shape and 0 or fill(depth + 1) end
    return out
  end
  local function set(t, depth, at)
    for i = 1, shape[depth] do
      local here = depth == place and i or at
      if depth == #shape then t[i] = order[here] else set(t[i], depth + 1, here) end
    end
  end
  local index = fill(1)
  set(index, 1)
  return method(x.name, "scatter", dim, P.const(index), source.name)
end)

add("join", 3, function(g)
  local x = g:var()
  local dim, parts = g:dim(x), {}
  local stack = g.s.chance(2) or #x.shape == 0
  for i = 1, g.s.int(1, 3) do
    local y = i > 1 and g:var(function(v)
      if #v.shape ~= #x.shape then return false end
      for k = 1, #v.shape do
        if v.shape[k] ~= x.shape[k] and (stack or k ~= dim % #v.shape + 1) then return false end
      end
      return true
    end) or x
    table.insert(parts, g.s.int(1, i), y.name)
  end
  if stack then return fn("stack", list(parts), g.s.int(-#x.shape - 1, #x.shape)) end
  return fn("cat", list(parts), dim)
end)
add("turned", 2, function(g)
  local x = g:var()
  local name = g.s.pick { "flip", "roll", "tril", "triu", "tile", "clone", "contiguous", "detach" }
  if name == "flip" then return method(x.name, name, list { #x.shape > 0 and g:dim(x) or nil }) end
  if name == "roll" then return #x.shape > 0 and method(x.name, name, g.s.int(-3, 3), g:dim(x)) end
  if name == "tril" or name == "triu" then return #x.shape >= 2 and method(x.name, name, g.s.int(-2, 2)) end
  if name == "tile" then
    local times = {}
    for i = 1, #x.shape + (g.s.chance(3) and 1 or 0) do times[i] = g.s.int(1, 2) end
    return #times > 0 and method(x.name, name, list(times))
  end
  if name == "detach" then return g.s.chance(4) and method(x.name, name), "detached" end
  return method(x.name, name)
end)

add("matmul", 5, function(g)
  local a = g:var(function(v) return #v.shape > 0 end)
  if not a then return nil end
  local k, shape = a.shape[#a.shape], nil
  local way = g.s.int(1, 4)
  if way == 1 then
    shape = { k }
  elseif way == 2 or #a.shape < 3 then
    shape = { k, g:size() }
    if g.s.chance(5) and #a.shape < 3 then table.insert(shape, 1, g:size()) end
  else
    shape = { unpack(a.shape, 1, #a.shape - 2) }
    if g.s.chance(3) and #shape > 0 then table.remove(shape, 1) elseif g.s.chance(3) and #shape > 0 then shape[1] = 1 end
    shape[#shape + 1], shape[#shape + 2] = k, g:size()
  end
  local b = g:shaped(shape)
  if not b then return nil end
  local x, y = a.name, b.name
  if g.s.chance(4) and #shape == 2 then return method(method(y, "t"), "matmul", method(x, "transpose", -1, math.max(-2, -#a.shape))) end
  if #a.shape == 2 and #shape == 2 and g.s.chance(2) then return method(x, "mm", y) end
  if #a.shape == 2 and #shape == 1 and g.s.chance(2) then return method(x, "mv", y) end
  if #a.shape == 1 and #shape == 1 and g.s.chance(2) then return fn("dot", x, y) end
  if #a.shape == 3 and #shape == 3 and shape[1] == a.shape[1] and g.s.chance(2) then return fn("bmm", x, y) end
  return g.s.chance(2) and fn("matmul", x, y) or method(x, "matmul", y)
end)

add("softmax", 2, function(g)
  local x = g:var()
  return layer(g.s.pick { "softmax", "log_softmax" }, x.name, g:dim(x))
end)
add("activation", 2, function(g)
  local name = g.s.pick { "gelu", "gelu", "silu", "softplus" }
  if name == "gelu" and g.s.chance(2) then return layer(name, g:var().name, keys { approximate = P.text "tanh" }) end
  return layer(name, g:var().name)
end)
add("linear", 1, function(g)
  local x = g:var(function(v) return #v.shape > 0 end)
  local out = g:size()
  local w = x and g:shaped { out, x.shape[#x.shape] }
  local b = w and g.s.chance(2) and g:shaped { out }
  if not w then return nil end
  return b and layer("linear", x.name, w.name, b.name) or layer("linear", x.name, w.name)
end)
add("layer_norm", 2, function(g)
  local x = g:var(function(v)
    return #v.shape > 0 and count(v.shape) > 1 and v.shape[#v.shape] > 1 and between(v.value:var(-1), 0.05, LIMIT)
  end)
  if not x then return nil end
  local first = g.s.int(1, #x.shape)
  local shape = { unpack(x.shape, g.s.chance(2) and #x.shape or first) }
  local w = g.s.chance(2) and g:shaped(shape)
  local b = w and g:shaped(shape)
  return layer("layer_norm", x.name, list(shape), keys { weight = w and w.name or nil, bias = b and b.name or nil }), "once"
end)
add("group_norm", 1, function(g)
  local x = g:var(function(v)
    return #v.shape >= 3 and count(v.shape) > 1 and v.shape[#v.shape] > 1 and between(v.value:var(-1), 0.05, LIMIT)
  end)
  if not x then return nil end
  local channels = x.shape[2]
  local w = g.s.chance(2) and g:shaped { channels }
  return layer("group_norm", x.name, g.s.chance(2) and channels or 1, keys { weight = w and w.name or nil }), "once"
end)
add("batch_norm", 1, function(g)
  local x = g:var(function(v)
    return #v.shape >= 2 and v.shape[1] > 1 and count(v.shape) > 0 and between(v.value:var(0), 0.05, LIMIT)
  end)
  if not x then return nil end
  local w = g.s.chance(2) and g:shaped { x.shape[2] }
  local b = w and g:shaped { x.shape[2] }
  return layer("batch_norm", x.name, P.none, P.none, keys { weight = w and w.name or nil, bias = b and b.name or nil, training = true }), "once"
end)
add("conv", 2, function(g)
  local dims = g.s.int(1, 2)
  local x = g:var(function(v) return #v.shape == dims + 2 and count(v.shape) > 0 end)
  x = x or #g.program.leaves < 4 and g:leaf(dims == 1 and { g.s.int(1, 2), 2, 4 } or { 1, 2, 3, g.s.int(3, 4) }) or nil
  if not x then return nil end
  local shape = { g.s.int(1, 2), x.shape[2] }
  for i = 1, dims do shape[2 + i] = g.s.int(1, math.min(2, x.shape[2 + i])) end
  local w = g:shaped(shape)
  local b = w and g.s.chance(2) and g:shaped { shape[1] }
  if not w then return nil end
  return layer("conv" .. dims .. "d", x.name, w.name,
    keys { bias = b and b.name or nil, stride = g.s.int(1, 2), padding = g.s.int(0, 1) })
end)
add("pool", 1, function(g)
  local x = g:var(function(v) return #v.shape == 4 and count(v.shape) > 0 end)
  if not x then return nil end
  local way = g.s.int(1, 3)
  if way == 1 then return layer("adaptive_avg_pool2d", x.name, g.s.int(1, 2)) end
  local size = math.min(g.s.int(1, 2), x.shape[3], x.shape[4])
  if way == 2 then return layer("avg_pool2d", x.name, size, keys { stride = g.s.int(1, 2) }) end
  return apart(x.value) and layer("max_pool2d", x.name, size, keys { stride = g.s.int(1, 2) }) or nil
end)
add("loss", 2, function(g)
  local way = g.s.int(1, 4)
  local reduction = keys { reduction = P.text(g.s.pick { "mean", "sum", "none" }) }
  local x = g:var()
  if way <= 2 then
    local y = g:shaped(x.shape)
    if not y then return nil end
    local gap = y.value - x.value
    if way == 1 then return layer("mse_loss", x.name, y.name, reduction) end
    if away(gap, 0, 0.05) and g.s.chance(2) then return layer("l1_loss", x.name, y.name, reduction) end
    if not (away(gap, 1, 0.05) and away(gap, -1, 0.05)) then return nil end
    return layer("huber_loss", x.name, y.name, reduction)
  end
  if way == 3 then
    return layer("binary_cross_entropy_with_logits", x.name, fn("full", list(x.shape), 0.375, keys { dtype = P.D }), reduction)
  end
  if #x.shape ~= 2 or count(x.shape) == 0 then return nil end
  local target = P.const(g:places({ x.shape[1] }, x.shape[2], true))
  return layer("cross_entropy", x.name, target, reduction)
end)
add("embedding", 1, function(g)
  local w = g:var(function(v) return #v.shape == 2 and v.shape[1] > 0 end)
  return w and layer("embedding", P.const(g:places(g.s.chance(2) and { g:size() } or { 2, g:size() }, w.shape[1], true)), w.name)
end)

-- ---- in place: answers the step itself. Never on a leaf, nor on what expand has stretched. ----
local function writable(v)
  if v.leaf or (v.value._base and v.value._base.is_leaf) then return false end
  for i, size in ipairs(v.shape) do if size > 1 and v.value:stride(i - 1) == 0 then return false end end
  return true
end
local in_place = {
  function(g, x)
    local name = g.s.pick(SMOOTH)
    local domain = DOMAIN[name]
    if domain and not between(x.value, domain[1], domain[2]) then return nil end
    return method(x.name, name .. "_")
  end,
  function(g, x)
    local y = g:var(function(v) local s = broadcast(x.shape, v.shape) return s and same(s, x.shape) end)
    if not y or g.s.chance(4) then return method(x.name, g.s.pick { "add_", "sub_", "mul_" }, g:number()) end
    if away(y.value, 0, 0.3) and g.s.chance(3) then return method(x.name, "div_", y.name) end
    if g.s.chance(4) then return method(x.name, g.s.pick { "add_", "sub_" }, y.name, keys { alpha = g:number() }) end
    return method(x.name, g.s.pick { "add_", "sub_", "mul_", "copy_" }, y.name)
  end,
  function(g, x) return g.s.chance(2) and method(x.name, "zero_") or method(x.name, "fill_", g:number()) end,
  function(g, x)
    if not (away(x.value, -0.5) and away(x.value, 0.5)) then return nil end
    return method(x.name, "clamp_", -0.5, 0.5)
  end,
  function(g, x) return method(x.name, "pow_", g.s.int(1, 3)) end,
  function(g, x)
    return away(x.value, 0) and method(x.name, "masked_fill_", method(x.name, "gt", 0), g:number()) or nil
  end,
  function(g, x) return away(x.value, 0) and method(x.name, g.s.pick { "relu_", "abs_" }) or nil end,
  function(g, x)
    if #x.shape == 0 or count(x.shape) == 0 then return nil end
    local dim = g:dim(x)
    local shape = { unpack(x.shape) }
    shape[dim % #shape + 1] = g:size()
    local source, size = g:shaped(shape), g:size_of(x, dim)
    if not source then return nil end
    if g.s.chance(2) then return method(x.name, "index_add_", dim, P.const(g:places({ shape[dim % #shape + 1] }, size, true)), source.name) end
    return method(x.name, "scatter_add_", dim, P.const(g:places(shape, size, true)), source.name)
  end,
}
local function assign(g)
  local x = g:var(writable)
  if not x or #x.shape == 0 then return nil end
  local target = g:index(x, false)
  if g.s.chance(5) and away(x.value, 0) then target = P.at(x.name, method(x.name, "gt", 0)) end
  local ok, part = pcall(function()
    local env = setmetatable({ rs = g.rs, [x.name] = x.value }, { __index = _G })
    return assert(load("return " .. P.lua(target), "=index", "t", env))()
  end)
  local y = ok and g:var(function(v)
    local s = broadcast(part.shape, v.shape)
    return s and same(s, part.shape)
  end)
  return { target = target, expr = y and not g.s.chance(4) and y.name or g:number() }
end

-- ---- a program, step by step ----

-- Runs one step among the tensors so far. Answers its results, or false and the error.
local function try(g, step)
  local env = setmetatable({ rs = g.rs, F = g.rs.nn.functional, D = "float64" },
    { __index = function(_, name) return g.tensors[name] or _G[name] end })
  if step.target or not step.names then
    return pcall(assert(load(P.lua_step(step), "=step", "t", env)))
  end
  return pcall(assert(load("return " .. P.lua(step.expr), "=step", "t", env)))
end

local function moderate(value)
  return value:numel() <= ELEMENTS and #value.shape <= 6 and between(value, -LIMIT, LIMIT)
end

-- All tensors as they would be without the last step (in place, and refused).
local function rebuild(g)
  g.tensors = {}
  for i, leaf in ipairs(P.leaves(g.rs, g.program, "float64")) do
    g.tensors[g.program.leaves[i].name] = leaf
  end
  for _, step in ipairs(g.program.steps) do
    local results = { try(g, step) }
    assert(results[1], results[2])
    for i, name in ipairs(step.names or {}) do g.tensors[name] = results[i + 1] end
  end
  for _, var in ipairs(g.vars) do var.value = g.tensors[var.name] end
end

-- Errors that a right engine gives, too.
local EXPECTED = { "modified by an in%-?place", "multiple views", "has been modified inplace", "share some of" }
local function expected(err)
  for _, pattern in ipairs(EXPECTED) do if tostring(err):find(pattern) then return true end end
  return false
end

local function all_moderate(g)
  for _, var in ipairs(g.vars) do if not moderate(var.value) then return false end end
  return true
end

local function add_in_place(g)
  local step
  if g.s.chance(4) then
    step = assign(g)
  else
    local x = g:var(writable)
    local expr = x and g.s.pick(in_place)(g, x)
    step = expr and { expr = expr }
  end
  if not step then return end
  table.insert(g.program.steps, step)
  local ok, err = try(g, step)
  if ok and all_moderate(g) then
    g.changes = g.changes + 1
    return
  end
  table.remove(g.program.steps)
  rebuild(g)
  if not ok and not expected(err) then return step, err end
end

local function add_step(g)
  local leaves = #g.program.leaves
  local made, expr, note = pcall(ops[g.s.pick(names)], g)
  if not made then
    if expected(expr) then return end
    error(expr, 0)
  end
  if not expr then return end
  local step = { expr = expr, names = { g:name() } }
  if note == 2 then step.names[2] = step.names[1] .. "i" end
  local ok, value = try(g, step)
  if not ok then
    if note ~= "broadcast" and not expected(value) then return step, value end
    return
  end
  if not moderate(value) then return end
  table.insert(g.program.steps, step)
  g.tensors[step.names[1]] = value
  table.insert(g.vars, { name = step.names[1], shape = { unpack(value.shape) }, value = value })
  if note == "once" then g.program.once = true end             -- its backward cannot be recorded
  if note == "detached" then g.program.detached = true end     -- differences see through that
  return nil, nil, leaves
end

local function choose_outputs(g)
  local out, seen = {}, {}
  for i = #g.vars, 1, -1 do
    local var = g.vars[i]
    if not var.leaf and var.value.requires_grad and #out < 3 and (#out == 0 or g.s.chance(2)) then
      out[#out + 1], seen[i] = var.name, true
    end
  end
  return out
end

-- The program of a seed; or also the step that was refused, and its error.
local M = { same = same, broadcast = broadcast, count = count }
function M.new(rs, seed)
  local g = setmetatable({ rs = rs, s = P.stream(seed), names = 0, vars = {}, tensors = {}, changes = 0 }, G)
  g.program = { leaves = {}, steps = {}, outputs = {} }
  for _ = 1, g.s.int(1, 2) do g:leaf() end
  local wanted = g.s.int(2, 12)
  for _ = 1, wanted * 4 do
    local step, err
    if g.s.chance(5) then
      local made, one, why = pcall(add_in_place, g)
      if not made and not expected(one) then error(one, 0) end
      step, err = made and one, made and why
    else
      step, err = add_step(g)
    end
    if err then
      g.program.outputs = { g.program.leaves[1].name }
      return g.program, step, err
    end
    if #g.program.steps >= wanted then break end
  end
  g.program.changes = g.changes
  g.program.outputs = choose_outputs(g)
  return g.program
end
return M
