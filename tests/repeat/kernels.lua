-- Kernels that are compiled for several widths of vectors, on sizes around those widths: every bit of the results, as
-- one number an op. hash.t compares them over compilers and builds.
local rs = require "ringside"
local nn = rs.nn
local F = nn.functional
lesson = { title = "every bit of the kernels", minutes = 1, needs = "nothing" }
rs.manual_seed(7)

-- Bits as integers, folded in order.
local function bits(t)
  local sum = 17
  for _, x in ipairs(t:detach():reshape{-1}:tolist()) do
    sum = (sum * 1099511628211) ~ string.unpack("<i8", string.pack("<d", x))
  end
  return string.format("%016x", sum)
end

local function show(name, f, ...)
  local inputs = { ... }
  for i, x in ipairs(inputs) do
    inputs[i] = x:detach():requires_grad_()
  end
  local y = f(table.unpack(inputs))
  y:backward(rs.ones_like(y) * 0.7 - y:detach() * 0.1)
  local line = { name, bits(y) }
  for _, x in ipairs(inputs) do
    line[#line + 1] = bits(x.grad)
  end
  print(table.concat(line, " "))
end

for _, n in ipairs { 1, 7, 16, 33, 130 } do
  local x, y = rs.randn { 3, n } * 3, rs.randn { 3, n }
  show("gelu " .. n, F.gelu, x)
  show("gelu tanh " .. n, function(v) return F.gelu(v, "tanh") end, x)
  show("tanh " .. n, F.tanh, x)
  show("sigmoid " .. n, F.sigmoid, x)
  show("softmax " .. n, function(v) return F.softmax(v, -1) end, x)
  show("softmax across " .. n, function(v) return F.softmax(v, 0) end, x)
  show("log_softmax " .. n, function(v) return rs.log_softmax(v, -1) end, x)
  show("cross_entropy " .. n, function(v) return F.cross_entropy(v, rs.tensor { 0, n - 1, n // 2 }) end, x)
  show("bce " .. n, function(v) return F.binary_cross_entropy_with_logits(v, y:gt(0):to("float32")) end, x)
  show("relu " .. n, F.relu, x)
  for _, f in ipairs { F.silu, F.elu, F.softplus, nn.Mish(), nn.Hardswish(), nn.LogSigmoid() } do
    show("activation " .. n, function(v) return f(v) end, x)
  end
  show("huber " .. n, function(v) return F.huber_loss(v, y) end, x)
  show("smooth_l1 " .. n, function(v) return F.smooth_l1_loss(v, y, "none", 0.5) end, x)
  show("group_norm " .. n, function(v) return F.group_norm(v:reshape { 1, 3, n }, 1) end, x)
  show("product " .. n, function(a, b) return (a * b):transpose(0, 1):contiguous() + 0.5 end, x, y)
  show("turned " .. n, function(v) return v:transpose(1, 2):contiguous() * 2 end, rs.randn { 2, n, 19 })
  show("columns " .. n, function(v) return v:sum(0) + v:sum(1):sum() end, rs.randn { n, 35 })
  show("sum " .. n, function(v) return v:sum() + v:sum(0):sum() end, x)
  local norm = nn.LayerNorm(n)
  show("layer_norm " .. n, function(v) return norm(v) * y end, x)
  print("layer_norm " .. n, bits(norm.weight.grad), bits(norm.bias.grad))
  local lstm, gru = nn.LSTM(3, n), nn.GRU(3, n)
  show("lstm " .. n, function(v) return (lstm(v)) end, rs.randn { 4, 2, 3 })
  print("lstm " .. n, bits(lstm.weight_hh_l0.grad), bits(lstm.bias_ih_l0.grad))
  show("gru " .. n, function(v) return (gru(v)) end, rs.randn { 4, 2, 3 })
end
for _, n in ipairs { 5, 14, 33 } do
  local x = rs.randn { 2, 3, n, n }
  show("max_pool2d " .. n, function(v) return F.max_pool2d(v, 2) end, x)
  show("max_pool2d by 1 " .. n, function(v) return F.max_pool2d(v, 3, { stride = 1 }) end, x)
  show("max_pool2d padded " .. n, function(v) return F.max_pool2d(v, 3, { stride = 2, padding = 1 }) end, x)
  for _, options in ipairs { { padding = 1 }, { padding = 2, dilation = 2 }, { stride = 2, padding = 1 }, {} } do
    show("conv2d " .. n, function(v, w) return F.conv2d(v, w, rs.none, options) end, x, rs.randn { 4, 3, 3, 3 })
  end
end
