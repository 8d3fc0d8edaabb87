-- rs.utils.checkpoint both ways: values, gradients, how often the function is called, kinds of errors.
local rs = require "ringside"
local nn = rs.nn
rs.lesson { title = "checkpoints", devices = 0 }
local checkpoint, checkpoint_sequential = rs.utils.checkpoint.checkpoint, rs.utils.checkpoint.checkpoint_sequential
local calls = {}

local function counted(name, f)
  return function(...)
    calls[name] = (calls[name] or 0) + 1
    return f(...)
  end
end

local function words(value)
  if rs.is_tensor(value) then value = value:tolist() end
  if type(value) == "table" then
    local all = {}
    for i, v in ipairs(value) do all[i] = words(v) end
    return table.concat(all, " ")
  end
  return math.type(value) == "float" and ("%.6f"):format(value) or tostring(value)
end

local function case(name, f)
  calls = {}
  local ok, told = pcall(f)
  local counts = {}
  for k, v in pairs(calls) do counts[#counts + 1] = k .. " " .. v end
  table.sort(counts)
  print(name, ok and words(told) or told.kind, table.concat(counts, " "))
end

local function leaf(...) return rs.tensor({ ... }, { requires_grad = true }) end
local function square(x) return (x * x):sin() end

local Cube = rs.autograd.Function("Cube")
function Cube.forward(ctx, x)
  ctx:save_for_backward(x)
  return x * x * x
end
function Cube.backward(ctx, grad)
  local x = ctx.saved_tensors[1]
  return grad * x * x * 3
end

local Exp = rs.autograd.Function("Exp")
function Exp.forward(ctx, x)
  local y = x:exp()
  ctx:save_for_backward(y)
  return y
end
function Exp.backward(ctx, grad) return grad * ctx.saved_tensors[1] end

local function run(f, reentrant, options)
  local x = leaf(1.0, 2.0)
  options = options or {}
  options.use_reentrant = reentrant
  checkpoint(f, x, options):sum():backward()
  return x.grad
end

local function tuples(reentrant)
  local a, b = leaf(1.0, 1.0), leaf(3.0, 4.0)
  local f = counted("f", function(a, b) return a * b, (a * a):sum(), 7, b:detach() end)
  local o = { checkpoint(f, a, b, { use_reentrant = reentrant }) }
  local loss = o[1]:sum() + o[2]
  loss:backward()
  return { o[1].requires_grad, o[2].requires_grad, o[3], o[4].requires_grad, a.grad, b.grad }
end

local function nested(reentrant)
  local how = { use_reentrant = reentrant }
  local inner = counted("inner", square)
  local middle = counted("middle", function(x) return checkpoint(inner, x:cos(), how):exp() * 2 end)
  local outer = counted("outer", function(x) return checkpoint(middle, x * 3, how):sin() end)
  return run(outer, reentrant)
end

local function dropout(reentrant, keep)
  rs.manual_seed(1)
  local x = rs.ones(6, { requires_grad = true })
  local y = checkpoint(function(a) return nn.functional.dropout(a * 1, 0.5) end, x,
    { use_reentrant = reentrant, preserve_rng_state = keep })
  y:sum():backward()
  return { y, x.grad, rs.rand(1) }
end

local function sequential(reentrant, segments)
  rs.manual_seed(0)
  local layers = {}
  for i = 1, 6 do layers[i] = nn.Linear(4, 4) end
  local x = rs.ones(1, 4, { requires_grad = true })
  for _, layer in ipairs(layers) do layer:register_forward_hook(counted("layer", function() end)) end
  checkpoint_sequential(nn.Sequential(table.unpack(layers)), segments, x, { use_reentrant = reentrant }):sum():backward()
  return { x.grad, layers[1].weight.grad:sum() }
end

-- A final callback runs at the end of the backward from which it was queued, also if that is an inner one.
local function callbacks(reentrant)
  local log = {}
  local w, x = leaf(1.0, 1.0), leaf(1.0, 2.0) * 1
  w:register_hook(function() rs.autograd.queue_callback(function() log[#log + 1] = "callback" end) end)
  x:register_hook(function() log[#log + 1] = "x" end)
  checkpoint(function(a) return a * w end, x, { use_reentrant = reentrant }):sum():backward()
  return log
end

local function both(way, reentrant)
  local how = { use_reentrant = reentrant }
  local function of(name, act)
    case(way .. name, function()
      local x = leaf(1.0, 2.0)
      return act(x, checkpoint(counted("f", square), x, how))
    end)
  end
  of("_backward", function(x, y)
    y:sum():backward()
    return x.grad
  end)
  of("_grad", function(x, y) return (rs.autograd.grad(y:sum(), x)) end)
  of("_twice", function(x, y)
    y:sum():backward { retain_graph = true }
    y:sum():backward()
    return x.grad
  end)
  of("_worn", function(x, y)
    y:sum():backward()
    y:sum():backward()
  end)
  of("_second", function(x, y)
    y:sum():backward { create_graph = true }
    local grad = x.grad
    x.grad = nil
    grad:sum():backward()
    return x.grad
  end)
  of("_penalty", function(x, y)
    local grad = rs.autograd.grad(y:sum(), x, { create_graph = true })
    local loss = (grad * grad):sum()
    loss:backward()
    return x.grad
  end)
  of("_changed", function(x, y)
    rs.no_grad(function() x:mul_(2) end)
    y:sum():backward()
  end)
  case(way .. "_no_grad", function()
    return rs.no_grad(function() return checkpoint(counted("f", square), leaf(1.0, 2.0), how).requires_grad end)
  end)
  case(way .. "_detached", function() return run(function(x) return x:detach() * 2 end, reentrant) end)
  case(way .. "_itself", function() return run(function(x) return x end, reentrant) end)
  case(way .. "_no_input", function()
    return checkpoint(function(x) return x * leaf(2.0) end, rs.ones(1), how).requires_grad
  end)
  case(way .. "_functions", function()
    return run(counted("f", function(x) return Exp.apply(Cube.apply(x * 1)) end), reentrant)
  end)
  case(way .. "_tuple", function() return tuples(reentrant) end)
  case(way .. "_nested", function() return nested(reentrant) end)
  for _, keep in ipairs { true, false } do
    case(("%s_dropout_%s"):format(way, keep), function() return dropout(reentrant, keep) end)
  end
  for segments = 1, 6 do
    case(("%s_sequential_%d"):format(way, segments), function() return sequential(reentrant, segments) end)
  end
  case(way .. "_too_many_segments", function() return sequential(reentrant, 7) end)
  case(way .. "_callbacks", function() return callbacks(reentrant) end)
end

local function called()
  calls.f = (calls.f or 0) + 1
  return calls.f
end
local function less(x) return called() == 1 and x:sin():sin() or x:sin() end
local function more(x) return called() == 1 and x:sin() or x:sin():sin():cos():exp() end
local function longer(x)
  local y = called() == 1 and x * 1 or rs.cat({ x, x })
  return y:sin():sum()
end
local function inside(x)
  local z = x:sin():cos()
  local grad = rs.autograd.grad(z:sum(), x, { retain_graph = true })
  return grad:detach() * z
end

both("reentrant", true)
both("plain", false)
for _, pair in ipairs { { "less", less }, { "more", more }, { "longer", longer } } do
  for _, early in ipairs { true, false } do
    for _, check in ipairs { "default", "none" } do
      case(("%s_%s_%s"):format(pair[1], early, check), function()
        return run(pair[2], false, { early_stop = early, determinism_check = check })
      end)
    end
  end
end
case("inside_true", function() return run(counted("f", inside), false) end)
case("inside_false", function() return run(counted("f", inside), false, { early_stop = false }) end)
case("check_unknown", function() return run(square, false, { determinism_check = "some" }) end)
