-- Several forwards, several backwards, autograd.grad and double backward with DDP, world 2.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
rs.lesson { title = "autograd and DDP", devices = 0 }

local function one()
  local layer = nn.Linear(1, 1, { bias = false })
  nn.init.constant_(layer.weight, 2)
  return layer
end
local Two, Norm = nn.Module("Two"), nn.Module("Norm")
function Two:init()
  self.a = one()
  self.b = one()
end
function Two:forward(x, name) return self[name](x) end
function Norm:init() self.bn = nn.BatchNorm1d(1) end
function Norm:forward(x) return self.bn(x) end

local function grads(net, told)
  for p in net:parameters() do told[#told + 1] = p.grad and p.grad:item() or -1.0 end
  return told
end
local function half_square(ddp, x) return ddp(x):pow(2):sum() / 2 end

-- Each answers the numbers of one iteration.
local cases = {}
local function case(name, net, f, options) cases[#cases + 1] = { name = name, net = net, f = f, options = options } end

case("sum_of_two", one, function(ddp, net, near, far)
  local loss = (ddp(near) + ddp(far)):sum()
  loss:backward()
  return grads(net, {})
end)
case("two_backwards", one, function(ddp, net, near, far)
  local a, b = ddp(near), ddp(far)
  a:sum():backward()
  local told = grads(net, {})
  b:sum():backward()
  return grads(net, told)
end)
case("in_turn", one, function(ddp, net, near, far)
  ddp(near):sum():backward()
  local told = grads(net, {})
  ddp(far):sum():backward()
  return grads(net, told)
end)
case("one_each", Two, function(ddp, net, near, far)
  local loss = (ddp(near, "a") + ddp(far, "b")):sum()
  loss:backward()
  return grads(net, {})
end)
case("retained", one, function(ddp, net, near)
  local loss = ddp(near):sum()
  loss:backward { retain_graph = true }
  local told = grads(net, {})
  loss:backward()
  return grads(net, told)
end)
case("grad", one, function(ddp, net, near)
  local g = rs.autograd.grad(half_square(ddp, near), net.weight)
  return grads(net, { g:item() })
end)
case("penalty", one, function(ddp, net, near)
  local g = rs.autograd.grad(half_square(ddp, near), net.weight, { create_graph = true })
  g:pow(2):sum():backward()
  return grads(net, { g:item() })
end)
case("loss_and_penalty", one, function(ddp, net, near)
  local loss = half_square(ddp, near)
  local g = rs.autograd.grad(loss, net.weight, { create_graph = true })
  local total = loss + g:pow(2):sum()
  total:backward()
  return grads(net, { g:item() })
end)
case("input_penalty", one, function(ddp, net, near)
  local x = near:clone():requires_grad_()
  local g = rs.autograd.grad(half_square(ddp, x), x, { create_graph = true })
  g:pow(2):sum():backward()
  return grads(net, { g:item(), x.grad:item() })
end)
case("create_graph", one, function(ddp, net, near)
  half_square(ddp, near):backward { create_graph = true }
  local told = grads(net, {})
  told[#told + 1] = net.weight.grad.requires_grad and 1.0 or 0.0
  return told
end)
case("double", one, function(ddp, net, near)
  half_square(ddp, near):backward { create_graph = true }
  local g = net.weight.grad
  net.weight.grad = nil
  g:pow(2):sum():backward()
  return grads(net, { g:item() })
end)
local function normed(ddp, net, near)
  local x = rs.tensor { { 0.0 }, { 2.0 } } + 4 * (near:item() - 1)
  local a, b = ddp(x), ddp(x * 3)
  local loss = (a * rs.tensor { { 1.0 }, { 2.0 } } + b * b):sum()
  loss:backward()
  local told = grads(net, {})
  told[#told + 1] = net.bn.running_mean:item()
  return told
end
case("normed", Norm, normed)
case("normed_apart", Norm, normed, { broadcast_buffers = false })

local function run(rank, case, option)
  local near, far, told = rs.full({ 1, 1 }, rank + 1.0), rs.full({ 1, 1 }, 10.0 * (rank + 1)), {}
  local ok, err = pcall(function()
    local options = { broadcast_buffers = case.options and case.options.broadcast_buffers }
    options.find_unused_parameters = option == "find" or nil
    options.static_graph = option == "static" or nil
    local ddp = nn.parallel.DistributedDataParallel(case.net(), options)
    for _ = 1, case.name == "double" and 1 or 2 do
      ddp:zero_grad()
      for _, number in ipairs(case.f(ddp, ddp.module, near, far)) do told[#told + 1] = ("%.6f"):format(number) end
    end
  end)
  if not ok then told[#told + 1] = err.kind end
  return table.concat(told, " ")
end
local lines = { [0] = {}, {} }
for i, case in ipairs(cases) do
  for _, option in ipairs { "none", "find", "static" } do
    local told = dist.spawn(function(rank) return run(rank, cases[i], option) end, { world = 2 })
    for rank = 0, 1 do
      lines[rank][#lines[rank] + 1] = ("rank%d_%s_%s %s"):format(rank, case.name, option, told[rank])
    end
  end
end
for rank = 0, 1 do
  for _, line in ipairs(lines[rank]) do print(line) end
end
