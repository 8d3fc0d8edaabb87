-- Gradients of layers and losses against differences, and the gradients of those gradients.
local rs = require "ringside"
local nn, F = rs.nn, rs.nn.functional
rs.lesson { title = "Gradients of layers", prefix = "" }
rs.manual_seed(3)
local function r(...) return rs.randn({ ... }, { dtype = "float64" }):requires_grad_(true) end
local lstm = nn.LSTM(3, 2, { dtype = "float64", num_layers = 2, bidirectional = true })
local gru = nn.GRU(3, 2, { dtype = "float64" })
local bn = nn.BatchNorm1d(2, { dtype = "float64" })
local be = nn.BatchNorm1d(2, { dtype = "float64" }):eval()
local mha = nn.MultiheadAttention(4, 2, { dtype = "float64" })
local enc = nn.TransformerEncoderLayer(4, 2, 5, { dropout = 0.0, dtype = "float64", activation = "gelu" })
local dec = nn.TransformerDecoderLayer(4, 2, 5, { dropout = 0.0, dtype = "float64", norm_first = true })
local zero = nn.MultiheadAttention(4, 2, { dtype = "float64", add_bias_kv = true, add_zero_attn = true })
local round = nn.Conv2d(2, 2, { 2, 3 }, { dtype = "float64", padding = "same", padding_mode = "circular" })
local mirror = nn.Conv1d(2, 2, 3, { dtype = "float64", padding = 2, padding_mode = "reflect" })
local edge = nn.Conv1d(2, 2, 3, { dtype = "float64", padding = 2, padding_mode = "replicate" })
local wider = nn.ConvTranspose2d(2, 2, 2, { dtype = "float64", dilation = 2, output_padding = 1 })
local target = rs.tensor { 1, 0, -100 }
local attention = F.scaled_dot_product_attention
local allowed = rs.tensor { { true, false, true }, { false, false, false }, { true, true, false } }
local added = rs.randn({ 3, 3 }, { dtype = "float64" })
local cases = {
  { "softmax", function(x) return F.softmax(x, 1) end, { r(2, 3) } },
  { "gelu", function(x) return F.gelu(x) end, { r(2, 3) } },
  { "gelu tanh", function(x) return F.gelu(x, "tanh") end, { r(2, 3) } },
  { "silu", function(x) return F.silu(x) end, { r(2, 3) } },
  { "softplus", function(x) return F.softplus(x) end, { r(2, 3) } },
  { "elu", function(x) return F.elu(x) end, { r(2, 3) } },
  { "leaky", function(x) return F.leaky_relu(x) end, { r(2, 3) } },
  { "conv2d", function(x, w, b) return F.conv2d(x, w, b, { stride = { 2, 1 }, padding = 1, dilation = { 1, 2 }, groups = 2 }) end,
    { r(2, 2, 4, 5), r(4, 1, 3, 2), r(4) } },
  { "conv1d", function(x, w, b) return F.conv1d(x, w, b, { padding = 1 }) end, { r(2, 2, 5), r(3, 2, 3), r(3) } },
  { "max_pool", function(x) return F.max_pool2d(x, 2, { padding = 1, ceil_mode = true }) end, { r(1, 2, 3, 4) } },
  { "avg_pool", function(x) return F.avg_pool2d(x, 2, { stride = 1, padding = 1, ceil_mode = true }) end, { r(1, 2, 3, 4) } },
  { "avg_pool ceil", function(x) return F.avg_pool2d(x, { 2, 3 }, { stride = 2, ceil_mode = true, count_include_pad = false }) end, { r(1, 2, 5, 6) } },
  { "adaptive", function(x) return F.adaptive_avg_pool2d(x, { 2, 3 }) end, { r(1, 2, 3, 4) } },
  { "batch_norm", function(x, w, b) return F.batch_norm(x, nil, nil, w, b, true) end, { r(4, 2), r(2), r(2) } },
  { "batch_norm 4d", function(x, w, b) return F.batch_norm(x, { weight = w, bias = b, training = true }) end, { r(2, 2, 2, 2), r(2), r(2) } },
  { "batch_norm module", function(x) return bn(x) end, { r(4, 2) } },
  { "batch_norm eval", function(x) return be(x) end, { r(4, 2) } },
  { "layer_norm", function(x, w, b) return F.layer_norm(x, { 2, 3 }, w, b) end, { r(2, 2, 3), r(2, 3), r(2, 3) } },
  { "layer_norm plain", function(x) return F.layer_norm(x, 3) end, { r(2, 3) } },
  { "layer_norm transposed", function(x) return F.layer_norm(x:t(), 3) end, { r(3, 2) } },
  { "group_norm", function(x, w, b) return F.group_norm(x, 2, w, b) end, { r(2, 4, 3), r(4), r(4) } },
  { "lstm", function(x) local o, s = lstm(x) return o, s[1], s[2] end, { r(3, 2, 3) } },
  { "gru", function(x) return (gru(x)) end, { r(3, 2, 3) } },
  { "attention", function(x) local o, w = mha(x, x, x) return o, w end, { r(3, 2, 4) } },
  { "decoder", function(x, m) return dec(x, m) end, { r(2, 2, 4), r(3, 2, 4) } },
  { "attention with a zero key", function(x) return (zero(x, x, x)) end, { r(3, 2, 4) } },
  { "conv2d same circular", function(x) return round(x) end, { r(1, 2, 3, 4) } },
  { "conv1d reflect", function(x) return mirror(x) end, { r(1, 2, 4) } },
  { "conv1d replicate", function(x) return edge(x) end, { r(1, 2, 4) } },
  { "conv_transpose2d wider", function(x) return wider(x) end, { r(1, 2, 3, 2) } },
  { "softplus beta", function(x) return F.softplus(x, 2.0, 1.0) end, { r(2, 3) } },
  { "encoder", function(x) return enc(x) end, { r(3, 2, 4) } },
  { "nll mean", function(x) return F.nll_loss(x, target) end, { r(3, 2) } },
  { "ce smooth", function(x) return F.cross_entropy(x, target, rs.tensor({ 0.3, 2.0 }, { dtype = "float64" }), { label_smoothing = 0.2 }) end, { r(3, 2) } },
  { "ce none", function(x) return F.cross_entropy(x, target, { reduction = "none" }) end, { r(3, 2) } },
  { "ce shares", function(x, t) return F.cross_entropy(x, t) end, { r(3, 2), r(3, 2) } },
  { "bce", function(x, t) return F.binary_cross_entropy_with_logits(x, t, { pos_weight = rs.tensor({ 0.3, 2.0 }, { dtype = "float64" }), weight = rs.tensor({ 0.5, 1.5 }, { dtype = "float64" }) }) end, { r(3, 2), r(3, 2) } },
  { "mse sum", function(x, t) return F.mse_loss(x, t, "sum") end, { r(3, 2), r(3, 2) } },
  { "l1", function(x, t) return F.l1_loss(x, t, "none") end, { r(3, 2), r(3, 2) } },
  { "mse none", function(x, t) return F.mse_loss(x, t, "none") end, { r(3, 2), r(3, 2) } },
  { "mse", function(x, t) return F.mse_loss(x, t) end, { r(3, 2), r(3, 2) } },
  { "smooth_l1", function(x, t) return F.smooth_l1_loss(x, t, { beta = 0.7, reduction = "none" }) end, { r(3, 2), r(2) } },
  { "soft margin", function(x) return F.soft_margin_loss(x, rs.ones { 3, 2 }) end, { r(3, 2) } },
  { "bce of probabilities", function(x, t) return F.binary_cross_entropy(x:sigmoid(), t:sigmoid()) end, { r(3, 2), r(3, 2) } },
  { "bce weighted", function(x, t)
    return F.binary_cross_entropy(x:sigmoid(), t:sigmoid(), rs.tensor({ 0.3, 2.0 }, { dtype = "float64" }), "sum")
  end, { r(3, 2), r(3, 2) } },
  { "bce none", function(x, t) return F.binary_cross_entropy_with_logits(x, t, nil, "none") end, { r(3, 2), r(3, 2) } },
  { "selu", function(x) return nn.SELU()(x) end, { r(2, 3) } },
  { "celu", function(x) return nn.CELU(1.7)(x) end, { r(2, 3) } },
  { "mish", function(x) return nn.Mish()(x) end, { r(2, 3) } },
  { "log_sigmoid", function(x) return nn.LogSigmoid()(x) end, { r(2, 3) } },
  { "hardtanh", function(x) return nn.Hardtanh(-0.5, 0.7)(x) end, { r(2, 3) } },
  { "hardsigmoid", function(x) return nn.Hardsigmoid()(x * 3) end, { r(2, 3) } },
  { "hardswish", function(x) return nn.Hardswish()(x * 3) end, { r(2, 3) } },
  { "softshrink", function(x) return nn.Softshrink()(x) end, { r(2, 3) } },
  { "hardshrink", function(x) return nn.Hardshrink()(x) end, { r(2, 3) } },
  { "threshold", function(x) return nn.Threshold(0.2, 5)(x) end, { r(2, 3) } },
  { "silu in place", function(x) return F.silu(x * 1, true) end, { r(2, 3) } },
  { "elu in place", function(x) return F.elu(x * 1, 1.5, true) end, { r(2, 3) } },
  { "group_norm 4d", function(x, w) return F.group_norm(x, 1, w) end, { r(2, 2, 2, 3), r(2) } },
  { "baddbmm", function(x, a, b) return rs.baddbmm(x, a, b, { alpha = 2, beta = 0.5 }) end, { r(2, 3), r(2, 2, 4), r(2, 4, 3) } },
  { "clamp between tensors", function(x, a, b) return x:clamp(a, b) end, { r(3, 4), r(4), r(3, 1) } },
  { "matmul of a matrix and a stack", function(a, b) return a:matmul(b) end, { r(2, 3), r(2, 3, 4) } },
  { "matmul of a vector and a stack", function(a, b) return a:matmul(b) end, { r(3), r(2, 3, 4) } },
  { "scaled_dot_product_attention", function(q, k, v) return attention(q, k, v) end, { r(2, 2, 3, 4), r(2, 2, 5, 4), r(2, 2, 5, 4) } },
  { "attention, causal", function(q, k, v) return attention(q, k, v, nil, 0, true) end, { r(1, 2, 3, 4), r(1, 2, 3, 4), r(1, 2, 3, 4) } },
  { "attention, masked", function(q, k, v) return attention(q, k, v, allowed) end, { r(1, 2, 3, 4), r(1, 2, 3, 4), r(1, 2, 3, 4) } },
  { "attention, numbers as a mask", function(q, k, v) return attention(q, k, v, added) end, { r(2, 3, 4), r(2, 3, 4), r(2, 3, 4) } },
  { "attention, a mask with a gradient", function(q, k, m) return attention(q, k, k, m) end, { r(2, 3, 4), r(2, 3, 4), r(3, 3) } },
  { "attention, fewer heads of keys", function(q, k, v) return attention(q, k, v, { enable_gqa = true, scale = 0.7 }) end,
    { r(1, 4, 3, 2), r(1, 2, 3, 2), r(1, 2, 3, 2) } },
  { "attention, turned round", function(q, k) return attention(q:transpose(1, 2), k:transpose(1, 2), k:transpose(1, 2)) end,
    { r(1, 3, 2, 4), r(1, 3, 2, 4) } },
  { "attention of matrices", function(q, k, v) return attention(q, k, v, nil, 0, true) end, { r(3, 4), r(3, 4), r(3, 2) } },
  { "attention, values of another width", function(q, k, v) return attention(q, k, v) end, { r(1, 2, 3, 4), r(1, 2, 3, 4), r(1, 2, 3, 5) } },
  { "huber", function(x, t) return F.huber_loss(x, t, { delta = 0.5 }) end, { r(3, 2), r(3, 2) } },
}
local gradcheck = rs.autograd.gradcheck
local function total(...)
  local sum
  for i = 1, select("#", ...) do
    local part = (select(i, ...))
    part = (part * part * (i + 0.5) + part):sum()
    sum = sum and sum + part or part
  end
  return sum
end
for _, case in ipairs(cases) do
  local name, f, inputs = table.unpack(case)
  local ok, wrong = pcall(gradcheck, function(...) return total(f(...)) end, inputs)
  if not (ok and wrong) then print("# " .. tostring(wrong)) end
  rs.check(name, ok and wrong)
  local function second(...)
    local given = { ... }
    return rs.enable_grad(function()
      return total(rs.autograd.grad(total(f(table.unpack(given))), given, { create_graph = true }))
    end)
  end
  ok, wrong = pcall(gradcheck, second, inputs)
  if not (ok and wrong) then print("# " .. tostring(wrong)) end
  rs.check(name .. ", second", ok and wrong)
end
