-- Ops: gradients of each against differences of its values, twins in place, indexing, order, types.
local rs = require "ringside"
rs.lesson { title = "Ops", devices = 1, prefix = "" }
rs.manual_seed(5)

local function random(shape, low, high)
  return rs.empty(shape, { dtype = "float64" }):uniform_(low or -2, high or 2):requires_grad_()
end
local function same(a, b)
  return tostring(a.shape) == tostring(b.shape) and (a:numel() == 0 or a:sub(b):abs():max():item() < 1e-12)
end
local function list(t) return table.concat(t:reshape { -1 }:tolist(), " ") end

local function check_gradient(name, f, ...)
  local inputs = { ... }
  local ok, err = pcall(rs.autograd.gradcheck, f, inputs)
  if not ok then print("# " .. tostring(err)) end
  rs.check(name .. ": gradients are those of differences", ok)
end

for name in ("exp exp2 expm1 sin cos tan atan sinh cosh tanh sigmoid erf square neg abs relu reciprocal"):gmatch("%S+") do
  check_gradient(name, function(x) return x[name](x) end, random { 2, 3 })
end
for name in ("log log2 log10 log1p sqrt rsqrt"):gmatch("%S+") do
  check_gradient(name, function(x) return x[name](x) end, random({ 2, 3 }, 0.5, 3))
end
for name in ("asin acos"):gmatch("%S+") do
  check_gradient(name, function(x) return x[name](x) end, random({ 2, 3 }, -0.8, 0.8))
end
for name in ("add sub mul maximum minimum atan2"):gmatch("%S+") do
  check_gradient(name, function(x, y) return x[name](x, y) end, random { 2, 3 }, random { 3 })
end
for name in ("div remainder fmod"):gmatch("%S+") do
  check_gradient(name, function(x, y) return x[name](x, y) end, random { 2, 3 }, random({ 2, 1 }, 3, 4))
end
check_gradient("pow", function(x, y) return x ^ y end, random({ 2, 3 }, 0.5, 2), random { 3 })
check_gradient("pow by a number", function(x) return x ^ 3 end, random { 2, 3 })
check_gradient("a number to the power", function(x) return 2 ^ x end, random { 2, 3 })
check_gradient("clamp", function(x) return x:clamp(-1, 1.5) end, random { 3, 4 })
check_gradient("where", function(x, y) return rs.where(x:detach():gt(0), x, y) end, random { 2, 3 }, random { 3 })
check_gradient("masked_fill", function(x) return x:masked_fill(x:detach():gt(0), 3) end, random { 2, 3 })
for name in ("sum mean prod amax amin var std logsumexp"):gmatch("%S+") do
  check_gradient(name, function(x) return x[name](x) end, random { 2, 3 })
  check_gradient(name .. " of a dimension", function(x) return x[name](x, 1) end, random { 2, 3, 2 })
  check_gradient(name .. " kept", function(x) return x[name](x, { dim = { 0, 2 }, keepdim = true }) end, random { 2, 3, 2 })
end
check_gradient("prod with a zero", function(x) return x:prod(1) end,
  rs.tensor({ { 0.0, 2.0, 3.0 }, { 1.0, 2.0, 3.0 } }, { dtype = "float64", requires_grad = true }))
for name in ("max min sort topk cumsum cumprod norm"):gmatch("%S+") do
  check_gradient(name, function(x)
    if name == "topk" then return (x:topk(2, 1)) end
    if name == "norm" then return x:norm(3, 1) end
    return (x[name](x, 1))
  end, random { 2, 3 })
end
local index = rs.tensor { { 0, 2 }, { 1, 1 } }
check_gradient("gather", function(x) return x:gather(1, index) end, random { 2, 3 })
check_gradient("scatter", function(x, y) return x:scatter(1, rs.tensor { { 0, 2 }, { 1, 2 } }, y) end, random { 2, 3 }, random { 2, 2 })
check_gradient("scatter_add", function(x, y) return x:scatter_add(1, index, y) end, random { 2, 3 }, random { 2, 2 })
check_gradient("index_select", function(x) return x:index_select(1, rs.tensor { 2, 0, 2 }) end, random { 2, 3 })
check_gradient("index_add", function(x, y) return x:index_add(0, rs.tensor { 1, 1 }, y, { alpha = 2 }) end,
  random { 3, 2 }, random { 2, 2 })
check_gradient("t[indices]", function(x) return x[rs.tensor { { 0, 2 }, { -1, 0 } }] end, random { 3, 2 })
check_gradient("t[{rows, columns}]", function(x) return x[{ rs.tensor { 0, 2 }, rs.tensor { 1, 1 } }] end, random { 3, 2 })
check_gradient("t[mask]", function(x) return x[x:detach():gt(0)] end, random { 3, 2 })
check_gradient("assignment by indices", function(x, y)
  local z = x * 1
  z[rs.tensor { 2, 0 }] = y
  return z
end, random { 3, 2 }, random { 2, 2 })
for name in ("flip tril triu diagonal roll"):gmatch("%S+") do
  check_gradient(name, function(x)
    if name == "flip" then return x:flip { 0, 1 } end
    if name == "roll" then return x:roll(1, 1) end
    return x[name](x)
  end, random { 3, 3 })
end
check_gradient("permute", function(x) return x:permute(2, 0, 1) end, random { 2, 3, 2 })
check_gradient("chunk", function(x) return table.unpack(x:chunk(2, 1)) end, random { 2, 3 })
check_gradient("tile", function(x) return x:tile { 2, 1, 2 } end, random { 2, 2 })
check_gradient("bmm", function(x, y) return x:bmm(y) end, random { 2, 2, 3 }, random { 2, 3, 2 })
check_gradient("dot", function(x, y) return x:dot(y) end, random { 3 }, random { 3 })
check_gradient("mv", function(x, y) return x:mv(y) end, random { 2, 3 }, random { 3 })
for _, shapes in ipairs { { { 3 }, { 3, 2 } }, { { 2, 2, 3 }, { 3, 2 } }, { { 2, 2, 3 }, { 3 } }, { { 3 }, { 2, 3, 2 } },
  { { 2, 1, 2, 3 }, { 2, 3, 2 } } } do
  check_gradient("matmul of " .. #shapes[1] .. "-D and " .. #shapes[2] .. "-D", function(x, y) return x:matmul(y) end,
    random(shapes[1]), random(shapes[2]))
end

for name in ("exp sin tanh sqrt log abs square clamp pow mul"):gmatch("%S+") do
  local function apply(t, method)
    if name == "clamp" then return t[method](t, 0.6, 1) end
    if name == "pow" then return t[method](t, 3) end
    if name == "mul" then return t[method](t, rs.full({ 3 }, 1.5, { dtype = "float64" })) end
    return t[method](t)
  end
  local x = random({ 2, 3 }, 0.5, 2)
  local plain = apply(x, name)
  plain:sum():backward()
  local expected = x.grad
  x.grad = nil
  local changed = x * 1
  apply(changed, name .. "_")
  changed:sum():backward()
  rs.check(name .. "_ gives what " .. name .. " gives, and the same gradient", same(plain, changed) and same(expected, x.grad))
end

local t = rs.arange(12):reshape { 3, 4 }
rs.check("rows by index, negative ones from the end", list(t[rs.tensor { 2, -3 }]) == "8 9 10 11 0 1 2 3")
rs.check("index tensors go together", list(t[{ rs.tensor { 0, 2 }, rs.tensor { 1, 3 } }]) == "1 11")
rs.check("indices broadcast", list(t[{ rs.tensor { { 0 }, { 2 } }, rs.tensor { 1, 3 } }]) == "1 3 9 11")
rs.check("a slice with a step is a view", t[{ rs.slice(), rs.slice(0, 4, 2) }]:storage_id() == t:storage_id() and
  list(t[{ rs.slice(), rs.slice(0, 4, 2) }]) == "0 2 4 6 8 10")
rs.check("indices that stand apart come first", tostring(rs.zeros { 2, 3, 4 }[{ rs.tensor { 0, 1 }, rs.slice(), rs.tensor { 0, 1 } }].shape) == "[2, 3]")
local u = t:clone()
u[u:gt(8)] = 0
u[{ rs.slice(0, 1), rs.slice(0, 4, 2) }] = 7
u[rs.tensor { 1, 1 }] = rs.tensor { 1, 2, 3, 4 }
rs.check("assignment by mask, by a slice with a step, by indices", list(u) == "7 1 7 3 1 2 3 4 8 0 0 0")
local ok, err = pcall(function() return t[rs.tensor { 3 }] end)
rs.check("an index out of range is an IndexError", not ok and err.kind == "IndexError")

local v, i = rs.tensor { 3, 1, 3, 2 }:sort(0, true)
rs.check("sort is stable", list(v) == "3 3 2 1" and list(i) == "0 2 3 1")
rs.check("argmax takes the first of equal ones", rs.tensor { 1, 3, 3 }:argmax():item() == 1)
rs.check("a number does not widen its own kind", (rs.ones { 2 } + 0.5).dtype == "float32" and (rs.arange(2) * 2).dtype == "int64"
  and (rs.arange(2) * 2.0).dtype == "float32" and (rs.ones({ 2 }, { dtype = "float64" }):maximum(0.1)).dtype == "float64")
rs.check("comparing float64 with a fraction keeps its digits", rs.tensor({ 0.1 }, { dtype = "float64" }):eq(0.1):all():item())
rs.check("floor division and remainder round down", list(rs.tensor { 7, -7 } // 2) == "3 -4" and list(rs.tensor { 7, -7 } % 3) == "1 2")

-- float32 against float64: seeded expressions of random depth.
local UNARY = { "tanh", "sigmoid", "sin", "cos", "square", "neg", "exp" }
local function expression(depth, x, y)
  if depth == 0 then return math.random(2) == 1 and x or y end
  local which = math.random(7)
  local a = expression(depth - 1, x, y)
  if which == 1 then return a + expression(depth - 1, x, y) end
  if which == 2 then return a:tanh() * expression(depth - 1, x, y) end
  if which == 3 then return a:t():contiguous():t() end
  if which == 4 then return a - a:mean { dim = 1, keepdim = true } end
  if which == 5 then return a:flip { 0 } end
  if which == 6 then return a:permute(1, 0):reshape { 3, 2 }:t():tanh() end
  return a:tanh()[UNARY[math.random(#UNARY)]](a:tanh())
end
local agree = true
for seed = 1, 200 do
  local x, y = rs.rand({ 2, 3 }), rs.rand({ 1, 3 }):expand { 2, 3 }
  math.randomseed(seed)
  local single = expression(4, x, y)
  math.randomseed(seed)
  local double = expression(4, x:double(), y:double())
  agree = agree and single:double():sub(double):abs():max():item() <= 1e-3 * (1 + double:abs():max():item())
end
rs.check("two hundred random expressions agree between float32 and float64", agree)

-- Hooks of a leaf: those before see the gradient, those after find it in .grad, and may take it away.
do
  local leaf, seen = rs.ones({ 2 }, { requires_grad = true }), {}
  local handle = leaf:register_post_accumulate_grad_hook(function(p)
    seen[#seen + 1] = p == leaf and list(p.grad)
    p.grad = nil
  end)
  leaf:register_hook(function(g) return g * 10 end)
  ;(leaf * 2):sum():backward()
  rs.check("a hook after accumulation gets the leaf, whose .grad is complete", seen[1] == "20.0 20.0")
  rs.check("it may let the gradient go", leaf.grad == nil)
  handle:remove()
  ;(leaf * 2):sum():backward()
  rs.check("removed it is not called again", #seen == 1 and list(leaf.grad) == "20.0 20.0")
  local ok, err = pcall(function() (leaf * 2):register_post_accumulate_grad_hook(print) end)
  rs.check("only leaves have such hooks", not ok and tostring(err):find("cannot be registered on non-leaf tensors", 1, true) ~= nil)
end

-- A backward inside of a backward inside of a backward ...
for _, levels in ipairs { 59, 60, 61, 200 } do
  local Deep, ran = rs.autograd.Function("Deep"), 0
  function Deep.forward(ctx, x, left) ctx.left = left; return x * 1 end
  function Deep.backward(ctx, grad)
    ran = ran + 1
    if ctx.left > 1 then
      rs.enable_grad(function() Deep.apply(rs.ones({ 1 }, { requires_grad = true }), ctx.left - 1):backward() end)
    end
    return grad, nil
  end
  local x = rs.ones({ 1 }, { requires_grad = true })
  Deep.apply(x, levels):backward()
  rs.check(levels .. " backwards inside of each other all run", ran == levels and list(x.grad) == "1.0")
end
do
  local x, endless = rs.ones({ 1 }, { requires_grad = true }), nil
  x:register_hook(function() endless() end)
  function endless() rs.enable_grad(function() (x * 1):backward() end) end
  local ok, err = pcall(endless)
  rs.check("a hook that starts itself again ends in an error", not ok and tostring(err):find("does a hook start itself again?", 1, true) ~= nil)
end
