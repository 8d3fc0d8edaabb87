-- What random programs found: gradients through changes in place, beside zeros, of empty tensors, and their memory.
local rs = require "ringside"
rs.lesson { title = "In place", devices = 1, prefix = "" }

local function leaf(numbers) return rs.tensor(numbers, { dtype = "float64", requires_grad = true }) end
local function list(t) return table.concat(t:reshape { -1 }:tolist(), " ") end
local function refused(f, pattern)
  local ok, err = pcall(f)
  return not ok and tostring(err):find(pattern) ~= nil
end

-- ---- an operand that is the target ----
local function changed_by_itself(name, operand)
  return function()
    local x = leaf { 1.5, -2, 0.5 }
    local y = x * 2
    y[name](y, operand and operand(y) or y)
    y:sum():backward()
  end
end
rs.check("y:mul_(y) is told at backward", refused(changed_by_itself "mul_", "modified by an inplace operation"))
rs.check("y:div_(y) too", refused(changed_by_itself "div_", "output 0 of DivBackward0, is at version 1; expected version 0"))
rs.check("and with a view of y", refused(changed_by_itself("mul_", function(y) return y:view { 3 } end),
  "output 0 of AsStridedBackward0, is at version 1; expected version 0"))
rs.check("what was read before the change is told as well", refused(function()
  local y = leaf { 1.5, -2 } * 2
  y:add_(y * y):sum():backward()
end, "output 0 of AddBackward0, is at version 1; expected version 0"))
rs.check("y:add_(y) needs nothing that it overwrites", pcall(changed_by_itself "add_"))

-- ---- gradients of gradients through changes in place ----
local function second(name, change)
  local ok, err = pcall(rs.gradcheck, function(x)
    local out = change(x)
    local g = rs.autograd.grad({ out:sum() }, { x }, { create_graph = true })
    return (g * rs.arange(1, g:numel() + 1):double():reshape(g.shape)):sum()
  end, { leaf { 0.75, -1.25, 0.5, 1.5 } })
  if not ok then print("# " .. tostring(err)) end
  rs.check("second gradients: " .. name, ok)
end
second("pow_", function(x) return (x * x):pow_(2) end)
second("mul_ by another tensor", function(x) return (x * x):mul_(x) end)
second("sinh_ of picked elements", function(x) return x:cos()[x:detach():gt(0)]:sinh_() end)
second("a change of a view", function(x)
  local y = x * x
  y:view { 2, 2 }:pow_(3)
  return y
end)
second("a change of a view, read through another view", function(x)
  local y = x * x
  y:reshape { 2, 2 }[0]:clamp_(-1, 1)
  return y:reshape { 2, 2 }:matmul(x[{ rs.slice(0, 2) }])
end)
second("elements of a view with gaps", function(x)
  local y = x * x
  local t = y:reshape { 2, 2 }:t()[{ rs.slice(0, 2), rs.slice(0, 1) }]
  t[t:detach():gt(0.3)] = x[0] * x[1]
  return y
end)
second("remainder and fmod", function(x) return (x * x):remainder(x * 0.7) + (x * x):fmod(x * 0.7) end)

-- ---- products beside zeros ----
for _, numbers in ipairs { { 0.0, 2.0, -3.0 }, { 1.5, 0.0, -3.0 }, { 1.5, 0.0, 0.0 }, { 1.5, 2.0, 0.0 } } do
  local text = table.concat(numbers, ", ")
  local x = leaf { numbers, { 1.0, 2.0, 3.0 } }
  for _, name in ipairs { "prod", "cumprod" } do
    local function f(y) return y[name](y, 1) end
    local ok, err = pcall(rs.gradcheck, f, { x })
    rs.check(name .. " of {" .. text .. "}: gradients", ok)
    ok, err = pcall(rs.gradcheck, function(y)
      local g = rs.autograd.grad({ (f(y) * f(y)):sum() }, { y }, { create_graph = true })
      return g * g
    end, { x })
    if not ok then print("# " .. tostring(err)) end
    rs.check(name .. " of {" .. text .. "}: second gradients", ok)
  end
end
rs.check("second gradients: prod of all, beside a zero", rs.gradcheck(function(y)
  return rs.autograd.grad({ y:prod() }, { y }, { create_graph = true })
end, { leaf { { 0.0, 2.0 }, { 3.0, 4.0 } } }))

rs.check("gradcheck takes a function that asks for gradients itself", rs.gradcheck(function(x)
  return rs.autograd.grad({ (x * x * x):sum() }, { x }, { create_graph = true })
end, { leaf { 1.5, 2 } }))
rs.check("logsumexp of nothing is the log of 0", list(rs.zeros { 2, 0 }:logsumexp(1)) == "-inf -inf")
rs.check("check takes options, nothing else", refused(function() rs.check("no options", true, true) end, "TypeError.*options"))
local half, yes = rs.tensor(1.5), rs.tensor { true, false }
rs.check("a number beside a 0-dim float32 tensor keeps it float32", rs.where(yes, half, -0.5).dtype == "float32" and
  rs.where(yes, 0.25, half).dtype == "float32" and half:remainder(0.3).dtype == "float32" and
  rs.where(yes, half:double(), -0.5).dtype == "float64")
rs.check("a 0-dim tensor has one dimension to move", rs.tensor(2.5):movedim(-1, 0):item() == 2.5)
local v = rs.tensor { 1.0, 2.0, 3.0 }
v[{ rs.slice() }] = v[0]
rs.check("a stretched element of one's own is assigned", list(v) == "1.0 1.0 1.0")
v = rs.tensor { 1.0, 2.0, 3.0 }
v = rs.tensor { 1.0, -2.0, 3.0 }
v[v:gt(0)] = v[1]
rs.check("an element of one's own is put where a mask holds", list(v) == "-2.0 -2.0 -2.0")
v = rs.arange(6):reshape { 2, 3 }
local turned = v:t()[{ rs.slice(0, 2) }]
turned[turned:gt(2)] = rs.tensor { 7, 8 }
turned[{ rs.tensor { 0, 1 }, rs.tensor { 0, 0 } }] = 9
rs.check("rows with gaps are written through a mask and through indices", list(v) == "9 9 2 7 8 5")
v = rs.tensor { 1.0, 2.0, 3.0 }
rs.check("copy_ from what shares some memory is refused", refused(function() v:copy_(v[0]) end, "share some of their memory")
  and refused(function() v[{ rs.slice(1) }] = v[{ rs.slice(0, 2) }] end, "share some of their memory") and list(v) == "1.0 2.0 3.0")
rs.check("what is put elsewhere must not be the target", refused(function() v:index_add_(0, rs.tensor { 0, 1, 1 }, v) end,
  "share some of their memory") and refused(function() v:scatter_(0, rs.tensor { 0, 1, 1 }, v) end, "share some of"))
rs.check("a changed product is told at backward", refused(function()
  local p = leaf { 1.5, -2 }:prod()
  p:mul_(2):backward()
end, "output 0 of ProdBackward0, is at version 1; expected version 0"))
rs.check("a stretched gradient of no elements is added to", pcall(function()
  local loss = rs.zeros({ 2, 0 }, { requires_grad = true }):sum(0):sum()
  loss:backward { retain_graph = true }
  loss:backward()
end))

-- ---- memory: a tensor whose history holds what was made of it ----
local sweeper = rs.nn.Linear(1, 1)
local function memory()
  for _ = 1, 2 do
    collectgarbage()
    sweeper:zero_grad()
  end
  return rs.cuda.memory_allocated "cpu"
end
local function gives_back(name, f)
  local before = memory()
  f()
  rs.check(name .. " gives its memory back", memory() == before)
end
gives_back("y:mul_(y)", function() local y = leaf { 1.5, 2 } * 2 y:mul_(y) end)
gives_back("y:add_(y * y)", function() local y = leaf { 1.5, 2 } * 2 y:add_(y * y) end)
gives_back("a change by a view of itself", function()
  local y = leaf { 1.5, 2 } * 2
  y[{ rs.slice(0, 1) }]:mul_(y[{ rs.slice(1, 2) }])
end)
gives_back("a tensor without gradient that gets one", function()
  local x, y = leaf { 1.5, 2 }, rs.ones({ 2 }, { dtype = "float64" })
  y:add_(x * y)
end)

-- ---- leaving one's history ----
do
  local x = leaf { 1.5, -2 }
  local y = x * 2
  local z = y * 3
  local same = y:detach_()
  rs.check("detach_ makes the tensor itself a leaf without history", rawequal(same, y) and y.grad_fn == nil and
    not y.requires_grad and y.is_leaf)
  z:sum():backward()
  rs.check("what was made of it before goes on", list(x.grad) == "6.0 6.0")
  rs.check("a view cannot leave its base's", refused(function() (x * 2):view { 2, 1 }:detach_() end, "RuntimeError: detach_"))
end
