-- int8 beside all other types: casts, promotion, what wraps around, reductions, order, choices, printing.
local rs = require "ringside"
rs.lesson { title = "Twin of int8.py", devices = 1, prefix = "" }
local T = rs.tensor
local NAMES = { "bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64" }
local int8 = { dtype = "int8" }

local function show(name, x) print(name .. "= " .. tostring(x):gsub(" ", "_"):gsub("\n", "|")) end
local function c(...) return T({ ... }, int8) end
local function whole(name, x, ...)
  if ... ~= nil then
    for i, part in ipairs { x, ... } do whole(name .. "." .. i - 1, part) end
    return
  end
  local words = { name .. "=", x.dtype }
  for _, value in ipairs(x:flatten():tolist()) do
    if type(value) == "boolean" then value = value and 1 or 0 end
    words[#words + 1] = ("%.9g"):format(value)
  end
  print(table.concat(words, " "))
end

-- made
show("made", c(-128, 0, 127))
show("number", T(-5, int8))
show("empty", rs.empty({ 0 }, int8))
show("none", rs.zeros({ 2, 0 }, int8))
show("square", c(1, 2, -30, 4):reshape { 2, 2 })
show("long", rs.arange(1200):char():reshape { 2, 600 })
show("cut", T({ 1.9, -1.9, 127.9 }, int8))
show("arange", rs.arange(-3, 3, 2, int8))
show("wrapped", rs.arange(120, 140, 4, int8))
show("full", rs.full({ 2, 2 }, -7, int8))
show("like", rs.ones_like(c(1, 2)))
show("eye", rs.eye(2, int8))
show("linspace", rs.linspace(-10, 10, 5, int8))
rs.manual_seed(3)
show("randint", rs.randint(-128, 128, { 6 }, int8))
show("random", rs.empty({ 6 }, int8):random_())
show("between", rs.empty({ 6 }, int8):random_(-5, 6))
show("randperm", rs.randperm(5, int8))

-- casts
local x = T({ 0.0, 1.9, -1.9, 127.5, 128.0, -128.9, -129.0, 255.5, 300.7, 1e5, 3e9, -3e9, 0 / 0, 1 / 0, -1 / 0 },
{ dtype = "float64" })
for _, name in ipairs(NAMES) do
  whole("from_" .. name,
    (name == "int64" and x:long() or name:find "16" and x:float():to(name) or x:to(name)):to "int8")
  whole("to_" .. name, c(-128, -1, 0, 1, 127):to(name))
end
whole("int64_cut", T { 1 << 40, 300, -300, 128, -129 }:char())
whole("int32_cut", T({ 300, -300, 128, -129 }, { dtype = "int32" }):char())
whole("strided", T { { 1.5, 300.0 }, { -1.5, -300.0 } }:t():char())

-- with other types
for _, name in ipairs(NAMES) do
  local other = T { 1, 0, 1, 1 }:to(name)
  if name ~= "uint8" then
    whole("add_" .. name, c(127, -128, 5, -5) + other)
    whole("radd_" .. name, other + c(127, -128, 5, -5))
    whole("where_" .. name, rs.where(T { true, false, true, false }, c(1, 2, 3, 4), other))
    whole("cat_" .. name, rs.cat { c(-1), other })
    print("type_" .. name .. "= " .. rs.promote_types("int8", name))
  end
  whole("zero_" .. name, c(127, -128) + other[0])
  whole("rzero_" .. name, T(-3, int8) + other)
  whole("div_" .. name, c(127, -128, 5, -5) / T { 2, 2, 2, 2 }:to(name))
  whole("lt_" .. name, c(-1, 0, 1, 2):lt(other))
  whole("eq_" .. name, c(-1, 0, 1, 2):eq(other))
end
whole("byte", c(-1, -128, 127):lt(T({ 255, 128, 127 }, { dtype = "uint8" })))
whole("byte_eq", c(-1, -128, 127):eq(T({ 255, 128, 127 }, { dtype = "uint8" })))
whole("byte_add_", c(100, -100):add_(T({ 200, 200 }, { dtype = "uint8" })))
whole("byte_mul_", T({ 200, 3 }, { dtype = "uint8" }):mul_(c(-3, -100)))
whole("byte_three", rs.cat { c(-1), T({ 255 }, { dtype = "uint8" }), T({ 7 }, { dtype = "int32" }) })

-- arithmetic wraps around
local a, b = c(100, -128, 127, -7), c(100, -1, 2, 3)
for _, case in ipairs {
  { "add", a + b }, { "sub", a - b }, { "mul", a * b }, { "div", a / b }, { "floor", a // b }, { "mod", a % b },
  { "fmod", rs.fmod(a, b) }, { "pow", a ^ 2 }, { "rpow", 3 ^ c(1, 2, 5) }, { "neg", -a }, { "abs", a:abs() },
  { "square", a:square() }, { "sign", a:sign() }, { "maximum", rs.maximum(a, b) }, { "minimum", rs.minimum(a, b) },
  { "and", a & b }, { "or", a | b }, { "xor", a ~ b }, { "not", ~a }, { "plus", a + 200 }, { "times", a * 300 },
  { "half", a + 0.5 }, { "minus", 1 - a }, { "alpha", rs.add(a, b, { alpha = 3 }) }, { "relu", a:relu() },
  { "exp", c(0, 1, -1):exp() }, { "sqrt", c(4, 9):sqrt() }, { "round", a:round() }, { "logical", a:logical_not() },
  { "add_", a:clone():add_(b) }, { "sub_", a:clone():sub_(300) }, { "mul_", a:clone():mul_(b) },
  { "fill_", a:clone():fill_(-128) },
  { "copy_", a:clone():copy_(T { 1.9, 300.0, -1.9, -300.0 }) }, { "add_l", a:clone():add_(T { 1000, 1, 1, 1 }) },
  { "clamp", a:clamp(-10, 10) }, { "low", a:clamp { min = -5 } }, { "high", a:clamp { max = 1000 } },
  { "wide", a:clamp(-1000, 1000) },
  { "fraction", a:clamp { max = 2.5 } }, { "clamp_min", a:clamp_min(3) }, { "clamp_max", a:clamp_max(3) },
  { "masked", a:masked_fill(a:gt(0), -1) },
  { "eq", a:eq(100) }, { "ne", a:ne(100) }, { "lt", a:lt(0) }, { "le", a:le(-7) }, { "gt", a:gt(99.5) },
  { "ge", a:ge(127) }, { "far", a:lt(1000) },
} do whole(case[1], case[2]) end

-- reductions
local m = c(100, 100, -128, 5, 7, 127):reshape { 2, 3 }
for _, case in ipairs {
  { "sum", m:sum() }, { "sum0", m:sum(0) }, { "prod", m:prod() }, { "prod1", m:prod(1) },
  { "cumsum", m:cumsum(1) }, { "cumprod", m:cumprod(0) },
  { "max", m:max() }, { "min", m:min() }, { "max1", m:max(1) }, { "min0", m:min(0) }, { "amax", m:amax(0) },
  { "argmax", m:argmax() },
  { "argmin", m:argmin(1) }, { "all", m:all() }, { "any", m:any(0) }, { "sum8", m:sum { dtype = "int8" } },
  { "mean", m:mean { dtype = "float32" } },
  { "median", m:median() }, { "nonzero", c(0, 3, 0, -1):nonzero() }, { "bincount", c(1, 3, 1):bincount() },
-- order, pieces, products
  { "sort", m:sort(1) }, { "down", m:sort(0, { descending = true }) }, { "topk", m:topk(2, 1) },
  { "argsort", m:flatten():argsort() },
  { "unique", (c(3, -1, 3, 0):unique()) }, { "t", m:t() }, { "flip", m:flip { 0 } }, { "row", m[1] },
  { "slice", m[{ rs.slice(), rs.slice(1) }] },
  { "mask", m[m:gt(50)] }, { "rows", m[T { 1, 0, 1 }] }, { "item", m[{ 0, 2 }] },
  { "select", m:index_select(1, T { 2, 0 }) },
  { "gather", m:gather(1, T { { 0 }, { 2 } }) }, { "scatter", m:scatter(1, T { { 0 },
  { 2 } }, c(9, 8):reshape { 2, 1 }) },
  { "scatter_add", m:scatter_add(1, T { { 0, 0 }, { 2, 2 } }, c(100, 100, 1, 1):reshape { 2, 2 }) },
  { "index_add", m:index_add(0, T { 0, 0 }, m) }, { "stack", rs.stack { c(1), c(-1) } }, { "mm", m:matmul(m:t()) },
  { "dot", c(100, 100):dot(c(2, 3)) },
  { "tril", m:tril() }, { "repeat", c(1, -2)["repeat"](c(1, -2), { 2 }) }, { "diff", c(100, -100, 0):diff() },
} do whole(table.unpack(case)) end

-- refused
for _, case in ipairs {
  { "above", function() c(128) end }, { "below", function() c(-129) end },
  { "fraction", function() T({ 127.5, -128.5 }, int8) end },
  { "full", function() rs.full({ 2 }, 128, int8) end }, { "fill", function() c(1):fill_(-129) end },
  { "add_", function() c(1):add_(0.5) end },
  { "div_", function() c(1):div_(2) end }, { "zero", function() return c(1) // 0 end },
  { "mean", function() c(1):mean() end },
  { "var", function() c(1, 2):var() end }, { "index", function() return T { 5, 6 }[c(1)] end },
  { "where", function() rs.where(c(1), T { 1 }, T { 2 }) end },
  { "gather", function() c(1):gather(0, c(0)) end }, { "mm", function() c(1):reshape { 1, 1 }:matmul(T { { 1 } }) end },
  { "low", function() c(1):clamp { min = 128 } end }, { "high", function() c(1):clamp { max = -129 } end },
  { "range", function() rs.randint(0, 129, { 2 }, int8) end }, { "perm", function() rs.randperm(129, int8) end },
  { "uniform", function() rs.zeros({ 1 }, int8):uniform_() end }, { "grad", function() rs.zeros({ 1 },
  { dtype = "int8", requires_grad = true }) end },
  { "one_hot", function() rs.nn.functional.one_hot(c(1)) end },
} do
  local ok, err = pcall(case[2])
  print("refused_" .. case[1] .. "= " .. (ok and "no" or err.kind))
end
local info, truth = rs.iinfo "int8", { [true] = "True", [false] = "False" }
print(table.concat({ "iinfo=", info.bits, info.min, info.max, c(1):type(), c(1):element_size(),
  truth[rs.can_cast("int8", "uint8")], truth[rs.can_cast("float32", "int8")], truth[rs.can_cast("int8", "bool")],
  c(-5):item() }, " "))
