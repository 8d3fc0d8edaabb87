-- The programs of autograd-programs.json in Lua. Each stands under the name and the text of its case; it is given log, watch
-- and the case, and answers what the case asks for: values by name, leaves by name.
local rs = require "ringside"
local nn, F = rs.nn, rs.nn.functional

local function leaf(values) return rs.tensor(values, { requires_grad = true }) end
local twins = {}
local function twin(name, text, run) twins[name .. "\n" .. text] = run end

-- ---- order ----

twin("chain", "b=exp(a); c=b*3; d=sum(c); backward(d). An event is logged after each node ran.", function(o)
  local a = leaf { 1.0, 2.0 }
  local b = a:exp()
  local c = b * 3
  local d = c:sum()
  o.watch({ a = a, exp1 = b, mul1 = c, sum1 = d }, d)
  d:backward()
  return { a = a }
end)

twin("diamond", "b=a*2; c=a*3; d=b+c; e=sum(d)", function(o)
  local a = leaf { 1.0, 2.0 }
  local b = a * 2
  local c = a * 3
  local d = b + c
  local e = d:sum()
  o.watch({ a = a, mul1 = b, mul2 = c, add1 = d, sum1 = e }, e)
  e:backward()
  return { a = a }
end)

twin("two branches", "x=a*b; y=c*d; z=x+y", function(o)
  local a, b, c, d = leaf { 1.0 }, leaf { 2.0 }, leaf { 3.0 }, leaf { 4.0 }
  local x = a * b
  local y = c * d
  local z = x + y
  o.watch({ a = a, b = b, c = c, d = d, mul1 = x, mul2 = y, add1 = z }, z)
  z:backward()
end)

local function branches(o, short_first)
  local a, short = leaf { 1.0 }, nil
  if short_first then short = a * 5 end
  local long1 = a * 2
  local long2 = long1:exp()
  local long3 = long2:sin()
  if not short_first then short = a * 5 end
  local z = short + long3
  o.watch({ a = a, short = short, long1 = long1, long2 = long2, long3 = long3, add1 = z }, z)
  z:backward()
end
twin("short branch made first", "short=a*5; long1=a*2; long2=exp(long1); long3=sin(long2); z=short+long3",
  function(o) branches(o, true) end)
twin("short branch made last", "long1=a*2; long2=exp(long1); long3=sin(long2); short=a*5; z=short+long3",
  function(o) branches(o, false) end)

twin("fan-out of three", "b=a*2; x=exp(b); y=sin(b); z=cos(b); o=(x+y)+z", function(o)
  local a = leaf { 2.0 }
  local b = a * 2
  local x = b:exp()
  local y = b:sin()
  local z = b:cos()
  local xy = x + y
  local out = xy + z
  o.watch({ a = a, mul1 = b, exp1 = x, sin1 = y, cos1 = z, add1 = xy, add2 = out }, out)
  out:backward()
  return { a = a }
end)

twin("two-layer MLP", "h=linear(x,w1,b1); r=relu(h); o=linear(r,w2,b2); sum(o). The transposes of the weights are nodes of "
  .. "their own and are not logged.", function(o)
  local x = rs.ones { 2, 3 }
  local w1, b1 = rs.ones({ 4, 3 }, { requires_grad = true }), rs.zeros({ 4 }, { requires_grad = true })
  local w2, b2 = rs.ones({ 2, 4 }, { requires_grad = true }), rs.zeros({ 2 }, { requires_grad = true })
  local h = F.linear(x, w1, b1)
  local r = h:relu()
  local out = F.linear(r, w2, b2)
  local total = out:sum()
  o.watch({ w1 = w1, b1 = b1, w2 = w2, b2 = b2, addmm1 = h, relu1 = r, addmm2 = out, sum1 = total }, total)
  total:backward()
end)

twin("two roots", "b=a*2; c=a*3; backward([b,c])", function(o)
  local a = leaf { 1.0 }
  local b = a * 2
  local c = a * 3
  o.watch({ a = a, mul1 = b, mul2 = c }, b + c)
  rs.autograd.backward({ b, c })
  return { a = a }
end)

twin("a root that is also inside", "b=a*2; c=b*3; backward([b,c])", function(o)
  local a = leaf { 1.0 }
  local b = a * 2
  local c = b * 3
  o.watch({ a = a, mul1 = b, mul2 = c }, c)
  rs.autograd.backward({ b, c })
  return { a = a }
end)

-- ---- hooks ----

twin("tensor hooks and node hooks", "b=a*2 (hooks b.first, b.second); c=sum(b) (hook c); a has a tensor hook", function(o)
  local a = leaf { 1.0, 2.0 }
  local b = a * 2
  b:register_hook(function() o.log "hook(b.first)" end)
  b:register_hook(function() o.log "hook(b.second)" end)
  local c = b:sum()
  c:register_hook(function() o.log "hook(c)" end)
  a:register_hook(function() o.log "hook(a)" end)
  o.watch({ a = a, mul1 = b, sum1 = c }, c)
  c:backward()
end)

twin("a hook replaces the gradient", "b=a*2; hook1 returns g*10; hook2 returns g+1; sum(b)", function()
  local a = leaf { 1.0, 2.0 }
  local b = a * 2
  b:register_hook(function(g) return g * 10 end)
  b:register_hook(function(g) return g + 1 end)
  b:sum():backward()
  return { a = a }
end)

twin("hook sees the total", "b=a*1 with a hook; o=b*2+b*5+b", function(o)
  local a = leaf { 1.0 }
  local b = a * 1
  b:register_hook(function(g) o.log(string.format("hook saw %g", g:item())) end);
  (b * 2 + b * 5 + b):backward()
end)

twin("retain_grad between hooks", "b=a*2; hook on b; b.retain_grad(); hook on b returns g*7; c=b*3", function(o)
  local a = leaf { 1.0 }
  local b = a * 2
  b:register_hook(function() o.log "hook(b)" end)
  b:retain_grad()
  b:register_hook(function(g) return g * 7 end)
  local c = b * 3
  c:backward()
  return { ["b.grad"] = b.grad, ["a.grad"] = a.grad }
end)

twin("queue_callback", "a hook on b queues a final callback", function(o)
  local a = leaf { 1.0 }
  local b = a * 2
  local c = b * 3
  b:register_hook(function() rs.autograd.queue_callback(function() o.log "callback" end) end)
  o.watch({ a = a, mul1 = b, mul2 = c }, c)
  c:backward()
end)

-- ---- accumulation ----

local function truth(value) return value and "True" or "False" end

twin("second backward accumulates in place", "sum(a*2).backward(); g=a.grad; sum(a*3).backward()", function(o)
  local a = leaf { 1.0, 2.0 };
  (a * 2):sum():backward()
  local g = a.grad;
  (a * 3):sum():backward()
  o.log("same tensor object: " .. truth(g == a.grad))
  o.log("same storage: " .. truth(g:storage_id() == a.grad:storage_id()))
  return { ["a.grad"] = a.grad }
end)

twin("stealing", "a.backward(up) on a leaf; then (a2+b2).backward(up)", function(o)
  local a, a2, b2, up = leaf { 1.0, 2.0 }, leaf { 1.0, 2.0 }, leaf { 1.0, 2.0 }, rs.ones { 2 }
  a:backward(up);
  (a2 + b2):backward(up)
  local function shares(x, y) return truth(x:storage_id() == y:storage_id()) end
  o.log("leaf.backward(up): grad shares storage with up: " .. shares(a.grad, up))
  o.log("a2.grad shares storage with b2.grad: " .. shares(a2.grad, b2.grad))
  o.log("a2.grad shares storage with up: " .. shares(a2.grad, up))
end)

twin("create_graph accumulates out of place", "backward(create_graph) twice", function(o)
  local a = leaf { 1.0, 1.0 };
  (a * a):sum():backward { create_graph = true }
  local g = a.grad;
  (a * a):sum():backward { create_graph = true }
  o.log("same tensor object: " .. truth(g == a.grad))
  o.log("grad requires_grad: " .. truth(a.grad.requires_grad))
  return { ["a.grad"] = a.grad }
end)

twin("accumulating sparse gradients", "sparse embedding of row 1, backward; of row 2, backward; then sum(weight).backward",
  function(o)
    local weight = rs.ones({ 4, 2 }, { requires_grad = true })
    F.embedding(rs.tensor { 1 }, weight, { sparse = true }):sum():backward()
    local first = weight.grad
    F.embedding(rs.tensor { 2 }, weight, { sparse = true }):sum():backward()
    o.log(string.format("sparse then sparse: same object %s, entries %d", truth(first == weight.grad), weight.grad:_nnz()))
    weight:sum():backward()
    o.log(string.format("then dense: layout %s, same object %s", weight.grad.layout, truth(first == weight.grad)))
  end)

-- ---- what is kept, and errors ----

local function leaf_squared() local a = leaf { 2.0 } return a * a end
twin("backward twice", "b=a*a; backward; backward", function()
  local b = leaf_squared()
  b:backward()
  b:backward()
end)
twin("backward twice with retain_graph", "b=a*a; backward(retain_graph); backward", function()
  local b = leaf_squared()
  b:backward { retain_graph = true }
  b:backward()
end)
twin("backward twice, nothing saved", "b=a+1; backward; backward", function()
  local b = leaf { 2.0 } + 1
  b:backward()
  b:backward()
end)
twin("non-scalar without gradient", "(a*2).backward() with 2 elements", function() (leaf { 1.0, 2.0 } * 2):backward() end)
twin("no grad_fn", "backward on a tensor that requires no grad", function() rs.tensor { 1.0 }:backward() end)

-- The name says what op is: an expression of b, or a function.
local function named_op(name)
  local op = name:match("^in%-place: (.-) saves ") or name:match("^in%-place: (.-) does not need ")
  if not op then return nil end
  op = op:gsub(" %(number%)$", "")
  if op:find("^b[%*%+%-/]") then return load("local b = ... return " .. op, op, "t", {}) end
  if op == "softmax" or op == "log_softmax" then return function(b) return F[op](b, 0) end end
  if op == "gelu" then return F.gelu end
  return function(b) return b[op](b) end
end

local function changed(which)
  return function(name)
    local op = named_op(name)
    return op and function()
      local a = leaf { 0.5, 0.25 }
      local b = a * 1
      local y = op(b)
      local target = which == "y" and y or b
      target:mul_(2)
      y:sum():backward()
    end
  end
end
local IN_PLACE = { ["y=op(b); y.mul_(2); backward"] = changed "y", ["y=op(b); b.mul_(2); backward"] = changed "b" }

twin("in-place on a leaf that requires grad", "a.add_(1)", function() leaf { 1.0 }:add_(1) end)
twin("the same under no_grad", "no_grad: a.add_(1)", function()
  local a = leaf { 1.0 }
  rs.no_grad(function() a:add_(1) end)
end)
twin("in-place on a view of such a leaf", "a[0:1].add_(1)", function() leaf { 1.0, 2.0 }[rs.slice(0, 1)]:add_(1) end)
twin("parameter updated between forward and backward", "h=w*x; o=h*w; no_grad: w+=1; o.backward", function()
  local w, x = leaf { 2.0 }, rs.tensor { 3.0 }
  local h = w * x
  local out = h * w
  rs.no_grad(function() w:add_(1) end)
  out:backward()
end)
twin("the same through .data", "w.data.add_(1): .data has a version counter of its own, so it goes unseen", function()
  local w, x = leaf { 2.0 }, rs.tensor { 3.0 }
  local h = w * x
  local out = h * w
  w.data:add_(1)
  out:backward()
end)
twin("version counter", "v0; a.add_(1); b=a[:2]; b.mul_(2) -> a, b; a.detach().add_(1) -> a; a.data.add_(1) -> a; clone",
  function(o)
    local a = rs.ones { 3 }
    local function version(t) o.log(tostring(t._version)) end
    version(a)
    a:add_(1)
    version(a)
    local b = a[rs.slice(nil, 2)]
    b:mul_(2)
    version(a)
    version(b)
    a:detach():add_(1)
    version(a)
    a.data:add_(1)
    version(a)
    version(a:clone())
  end)
twin("in-place on a view rewrites the base history", "b=a*1; b[1:].mul_(10); sum(b)", function()
  local a = leaf { 1.0, 2.0, 3.0 }
  local b = a * 1
  b[rs.slice(1)]:mul_(10)
  b:sum():backward()
  return { a = a }
end)
twin("requires_grad and leaves", "b=no_grad(a*3); c=(a*3).detach(); d=a*3", function(o)
  local a = leaf { 1.0 }
  local b = rs.no_grad(function() return a * 3 end)
  local c = (a * 3):detach()
  local d = a * 3
  for _, entry in ipairs { { "b", b }, { "c", c }, { "d", d } } do
    o.log(string.format("%s requires_grad %s leaf %s", entry[1], truth(entry[2].requires_grad), truth(entry[2].is_leaf)))
  end
  o.log("a leaf " .. truth(a.is_leaf))
end)

-- ---- autograd.grad, Functions ----

twin("autograd.grad runs only what is needed", "x=a*b; y=exp(b); z=x+y; grad(z, a)", function(o)
  local a, b = leaf { 2.0 }, leaf { 3.0 }
  local x = a * b
  local y = b:exp()
  local z = x + y
  o.watch({ a = a, b = b, mul1 = x, exp1 = y, add1 = z }, z)
  local grad = rs.autograd.grad(z, a)
  return { grad = grad, ["a.grad"] = a.grad, ["b.grad"] = b.grad }
end)
twin("autograd.grad of an unused input", "grad(a*2, b)", function()
  rs.autograd.grad(leaf { 1.0 } * 2, leaf { 1.0 })
end)
twin("the same with allow_unused", "grad(a*2, b, allow_unused=True)", function(o)
  local grad = rs.autograd.grad(leaf { 1.0 } * 2, leaf { 1.0 }, { allow_unused = true })
  o.log(grad == nil and "None" or "a gradient")
end)

local Bad = rs.autograd.Function "Bad"
function Bad.forward(_, x) return x:clone() end
function Bad.backward() rs.error("ValueError", "boom") end

local function failing(o, bad_first)
  local p, q, bad, other = leaf { 1.0 }, leaf { 1.0 }, nil, nil
  if bad_first then bad = Bad.apply(p * 2) end
  other = q * 3
  if not bad_first then bad = Bad.apply(p * 2) end
  local total = bad_first and bad + other or other + bad
  local ok, err = pcall(total.backward, total)
  if not ok then o.log(string.format("raised %s %s", err.kind, err.message)) end
  return { ["p.grad"] = p.grad, ["q.grad"] = q.grad }
end
twin("an error in one branch",
  "Bad(p*2) + q*3, where the backward of Bad raises ValueError(boom); q*3 was recorded later",
  function(o) return failing(o, true) end)
twin("an error in the branch recorded later", "q*3 + Bad(p*2): Bad runs first", function(o) return failing(o, false) end)

twin("unused output of a Function", "Function with two outputs, only the first is used", function(o)
  local Two = rs.autograd.Function "Two"
  function Two.forward(_, x) return x * 1, x * 2 end
  function Two.backward(_, g1, g2)
    local function list(t) return string.format("[%.1f, %.1f]", t[0]:item(), t[1]:item()) end
    o.log("g1=" .. list(g1) .. " g2=" .. list(g2))
    return g1 + g2
  end
  local a = leaf { 1.0, 2.0 }
  local first = Two.apply(a)
  first:sum():backward()
  return { a = a }
end)

twin("Function returns the wrong number of gradients", "backward returns 2 for 1 input", function()
  local W = rs.autograd.Function "W"
  function W.forward(_, x) return x * 1 end
  function W.backward(_, g) return g, g end
  W.apply(leaf { 1.0 }):backward()
end)

twin("re-entrant backward", "a Function whose backward runs another backward", function(o)
  local inner = leaf { 1.0 }
  local Nested = rs.autograd.Function "Nested"
  function Nested.forward(_, x) return x * 1 end
  function Nested.backward(_, g)
    o.log "outer begin"
    rs.enable_grad(function()
      local y = inner * 2
      o.watch({ ["inner mul"] = y, inner = inner }, y)
      y:backward()
    end)
    o.log "outer end"
    return g
  end
  local a = leaf { 1.0 }
  local z = Nested.apply(a) * 3
  o.watch({ a = a, mul1 = z }, z)
  z:backward()
end)

-- ---- module hooks ----

local function hooked(o, module, name)
  module:register_forward_pre_hook(function() o.log(name .. " forward_pre") end)
  module:register_forward_hook(function() o.log(name .. " forward") end)
  module:register_full_backward_hook(function() o.log(name .. " full_backward") end)
end
local function hook_modules(o, with_sequential)
  local linear, relu = nn.Linear(2, 2), nn.ReLU()
  local seq = nn.Sequential(linear, relu)
  hooked(o, linear, "linear")
  hooked(o, relu, "relu")
  if with_sequential then hooked(o, seq, "seq") end
  local x = rs.ones({ 1, 2 }, { requires_grad = true })
  seq(x):sum():backward()
end
twin("module hooks", "Sequential(linear, relu), input requires grad, hooks on the two children",
  function(o) hook_modules(o, false) end)
twin("module hooks nested", "the same with hooks on the Sequential too", function(o) hook_modules(o, true) end)
twin("module hooks that replace",
  "linear weight 1 bias .5; pre-hook returns ones for the input; forward hook returns out*100; x=zeros(1,2)", function(o)
    local linear = nn.Linear(2, 2)
    rs.no_grad(function()
      linear.weight:fill_(1)
      linear.bias:fill_(0.5)
    end)
    linear:register_forward_pre_hook(function() return rs.ones { 1, 2 } end)
    linear:register_forward_hook(function(_, _, out) return out * 100 end)
    local y = linear(rs.zeros { 1, 2 }):tolist()[1]
    o.log(string.format("[[%.1f, %.1f]]", y[1], y[2]))
  end)

-- ---- names ----

local function list_names(o)
  local function grad(...) return rs.ones({ ... }, { requires_grad = true }) end
  local function show(name, t)
    local next_names = {}
    for i, edge in ipairs(t.grad_fn.next_functions) do
      next_names[i] = edge[1] == rs.none and "None" or "'" .. edge[1]:name() .. "'"
    end
    o.log(string.format("%s: %s -> [%s]", name, t.grad_fn:name(), table.concat(next_names, ", ")))
  end
  local x, index, class = grad(2, 3), rs.tensor { 0, 1 }, rs.tensor { 0, 1 }
  show("linear 2d", F.linear(x, grad(4, 3), grad(4)))
  show("linear 3d", F.linear(grad(2, 2, 3), grad(4, 3), grad(4)))
  show("relu", x:relu())
  show("embedding", F.embedding(index, grad(3, 2)))
  show("log_softmax", F.log_softmax(x, 1))
  show("nll", F.nll_loss(F.log_softmax(x, 1), class))
  show("mse", F.mse_loss(x, rs.ones { 2, 3 }))
  show("conv", F.conv2d(grad(1, 1, 3, 3), grad(1, 1, 2, 2)))
  show("batch_norm", F.batch_norm(x, rs.zeros { 3 }, rs.ones { 3 }, nil, nil, true))
  show("layer_norm", F.layer_norm(x, { 3 }))
  show("sum", x:sum())
  show("mean", x:mean())
  show("add", x + 1)
  show("mul", x * 2)
  show("matmul", x:matmul(grad(4, 3):t()))
  show("t", x:t())
  show("view", x:view { 6 })
  show("clone", x:clone())
  show("chunk", x:chunk(2, 0)[1])
  show("select", x[0])
  show("slice", x[rs.slice(0, 1)])
end
twin("names of nodes and their next nodes", "op: grad_fn -> next_functions (None: an input without gradient)", list_names)

return function(name, text)
  return twins[name .. "\n" .. text] or (IN_PLACE[text] and IN_PLACE[text](name))
end
