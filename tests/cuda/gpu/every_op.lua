-- Every op of ops.def on device:0 and on the CPU, forward and backward: the bits have to be equal.
-- `ringside run --trust --executor free --exact --device cuda every_op.lua -- FOLDER OPS.DEF SIZES`, SIZES as
-- "0,1,3,255"; a fourth word: rows whose ops it is a part of, alone.
--
-- A row has the ops it is there for, what it takes, and the function; the last checks are that no op was
-- forgotten, and that each of them had a kernel on the device.
local rs = require "ringside"
local folder, ops_file, sizes_text, only = table.unpack(rs.args)
local compare = dofile(folder .. "/compare.lua")
local nn, F = rs.nn, rs.nn.functional
rs.lesson { title = "every op", devices = 1 }

local DEVICE = "device:0"
local FLOATS = { "float32", "float64", "float16", "bfloat16" }
local NUMBERS = { "float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8" }
local REALS = { "float32", "float64" }
local sizes = {}
for n in sizes_text:gmatch "%d+" do sizes[#sizes + 1] = math.tointeger(n) end

-- ---- what is put in ----

local SPECIAL = { 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1 / 0, -1 / 0, 0 / 0, 1e-40, -1e-40, 65504, 3e38, 2.0 ^ -24 }

-- Numbers of the kind on the host: "any" with special ones, "tame" without, "positive", "unit" between -1 and 1,
-- "share" between 0 and 1, "whole", "bool", "row": which of 7 rows.
local function numbers(kind, shape, dtype)
  if kind == "bool" then return rs.rand(shape):gt(0.5) end
  if kind == "row" then return rs.randint(0, 7, shape) end
  if kind == "whole" then return rs.randint(1, 9, shape):to(dtype) end
  if kind == "positive" then return (rs.rand(shape, { dtype = "float64" }) * 4 + 0.1):to(dtype) end
  if kind == "unit" then return (rs.rand(shape, { dtype = "float64" }) * 1.9 - 0.95):to(dtype) end
  if kind == "share" then return (rs.rand(shape, { dtype = "float64" }) * 0.98 + 0.01):to(dtype) end
  local floats = dtype:find "float" ~= nil
  local t = rs.randn(shape, { dtype = "float64" }) * 3
  if kind == "tame" or t:numel() < #SPECIAL or not floats then return t:round():to(dtype), true end
  local flat = t:reshape { -1 }
  flat:narrow(0, 0, #SPECIAL):copy_(rs.tensor(SPECIAL, { dtype = "float64" }))
  return flat:reshape(shape):to(dtype)
end

-- Ways to look at the same numbers: each takes a tensor of two dimensions and answers one of them.
local VIEWS = {
  { "as it is", function(t) return t end },
  { "transposed", function(t) return t:t() end },
  { "every second column", function(t) return t:as_strided({ t:size()[1], t:size()[2] // 2 }, { t:size()[2], 2 }) end },
  { "from the second row on", function(t) return t:narrow(0, 1, t:size()[1] - 1) end },
  { "one row, expanded", function(t) return t:narrow(0, 0, 1):expand { 4, t:size()[2] } end },
}
local PLAIN = VIEWS[1]

-- ---- a comparison ----

local failed, compared, refused, was_compared = {}, 0, 0, {}

local function results(f, inputs)
  local out = table.pack(pcall(f, table.unpack(inputs)))
  if not out[1] then return nil, tostring(out[2]) end
  table.remove(out, 1)
  if type(out[1]) == "table" then out = out[1] end
  local list = {}
  for i = 1, #out do
    if type(out[i]) ~= "userdata" then break end
    list[#list + 1] = out[i]
  end
  return list
end

-- Gradients of all inputs that are fractions, for a fixed gradient of the first result.
local function gradients(outputs, leaves, seed)
  local y = outputs[1]
  if y == nil or not y.requires_grad then return {} end
  rs.manual_seed(seed)
  local g = rs.randn(y:size(), { dtype = "float64" }):to(y.dtype):to(y.device)
  y:backward(g)
  local list = {}
  for i = 1, #leaves do
    if leaves[i].requires_grad and leaves[i].grad ~= nil then list[#list + 1] = leaves[i].grad end
  end
  return list
end

local function leaf(t, wants)
  t = t:detach():clone()
  if wants and t.dtype:find "float" then t:requires_grad_() end
  return t
end

-- One side: results and gradients. `bases` are on the host.
local function side(row, bases, view, device)
  local leaves, inputs = {}, {}
  for i, base in ipairs(bases) do
    leaves[i] = leaf(base:to(device), row.grad ~= false)
    inputs[i] = view[2](leaves[i])
  end
  local outputs, why = results(row.f, inputs)
  if outputs == nil then return nil, why end
  local n = #outputs
  if row.grad ~= false then
    local ok, grads = pcall(gradients, outputs, leaves, 99)
    if not ok then return nil, tostring(grads) end
    for _, g in ipairs(grads) do outputs[#outputs + 1] = g end
  end
  return outputs, n
end

local function bases_of(row, shape, dtype, seed)
  local bases = {}
  rs.manual_seed(seed)
  for i, kind in ipairs(row.takes) do
    bases[i] = type(kind) == "function" and kind(shape, dtype) or (numbers(kind, shape, dtype))
  end
  return bases
end

local function say(row, what, text)
  local list = failed[row]
  if list == nil then
    list = {}
    failed[row] = list
  end
  if #list < 3 then list[#list + 1] = what .. ": " .. text end
end

-- What both refuse, with the same words, agrees, too.
local function try(row, shape, dtype, view)
  local what  = string.format("%s [%s], %s", dtype, table.concat(shape, ", "), view[1])
  local bases = bases_of(row, shape, dtype, 7)
  local want, count = side(row, bases, view, "cpu")
  local got, why    = side(row, bases, view, DEVICE)
  if want == nil and got == nil then
    refused = refused + 1
    return
  end
  if want == nil or got == nil then
    return say(row, what, (want == nil and "only the CPU refuses it: " or "only the device refuses it: ") ..
                          tostring(want == nil and count or why))
  end
  if #got ~= #want then return say(row, what, "the device has other gradients than the CPU") end
  for i = 1, #want do
    local text = compare.difference(got[i], want[i], row.near)
    compared, was_compared[row] = compared + 1, true
    if text then say(row, what, (i <= count and "result " .. i or "gradient " .. (i - count)) .. ": " .. text) end
  end
end

-- ---- rows ----

local rows = {}
-- ops: one text with blanks between; takes: kinds of inputs; f; more: near (steps that the CPU may be away: it sums in
-- another order), grad = false (none), types, shapes, views, tail (the longest of its sizes).
local function row(ops, takes, f, more)
  local r = { ops = ops, takes = takes, f = f }
  for k, v in pairs(more or {}) do r[k] = v end
  rows[#rows + 1] = r
end

local function flat(n) return { n } end

-- Element by element: every size, then every type and every view of one size.
local function each(ops, takes, f, more)
  more = more or {}
  more.elementwise = true
  more.types = more.types or FLOATS
  row(ops, takes, f, more)
end

for _, name in ipairs { "exp", "log", "sin", "cos", "tanh", "sigmoid", "exp2", "expm1", "log2", "log10", "log1p", "sqrt",
                        "rsqrt", "reciprocal", "tan", "asin", "acos", "atan", "sinh", "cosh", "erf" } do
  each(name, { "any" }, rs[name])
end
for _, name in ipairs { "sign", "floor", "ceil", "trunc", "round", "square", "neg", "abs" } do
  each(name, { "any" }, rs[name], { types = NUMBERS })
end
for _, name in ipairs { "isnan", "isinf", "isfinite", "logical_not" } do
  each(name, { "any" }, rs[name], { types = NUMBERS, grad = false })
end
for _, name in ipairs { "add", "sub", "mul", "div", "maximum", "minimum", "atan2", "pow" } do
  each(name, { "any", "any" }, rs[name])
end
for _, name in ipairs { "add", "sub", "mul", "maximum", "minimum", "remainder", "fmod", "floor_divide", "pow" } do
  each(name, { "any", "whole" }, rs[name], { types = NUMBERS })
end
for _, name in ipairs { "eq", "ne", "lt", "gt", "le", "ge", "logical_and", "logical_or", "logical_xor" } do
  each(name, { "any", "any" }, rs[name], { types = NUMBERS, grad = false })
end
for _, name in ipairs { "bitwise_and", "bitwise_or", "bitwise_xor" } do
  each(name, { "any", "whole" }, rs[name], { types = { "int64", "int32", "int8", "uint8" }, grad = false })
end
each("add", { "any", "any" }, function(a, b) return rs.add(a, b, { alpha = 0.3 }) end)
each("sub", { "any", "any" }, function(a, b) return rs.sub(a, b, { alpha = 0.3 }) end)
each("add_scalar", { "any" }, function(a) return a + 1.25 end)
each("sub_scalar", { "any" }, function(a) return a - 1.25 end)
each("rsub_scalar", { "any" }, function(a) return 1.25 - a end)
each("mul_scalar", { "any" }, function(a) return a * 1.3 end)
each("div_scalar", { "any" }, function(a) return a / 1.3 end)
each("pow_scalar", { "any" }, function(a) return a ^ 2.5 end)
each("rpow_scalar", { "any" }, function(a) return 2.5 ^ a end)
each("clamp", { "any" }, function(a) return a:clamp(-1, 2) end, { types = NUMBERS })
each("clamp", { "any", "any", "any" }, function(a, b, c) return a:clamp(b, c) end)
each("where", { "bool", "any", "any" }, function(c, a, b) return rs.where(c, a, b) end, { types = NUMBERS })
each("masked_fill", { "any", "bool" }, function(a, m) return a:masked_fill(m, 2) end, { types = NUMBERS })
each("relu threshold_backward", { "any" }, rs.relu)
each("tanh_backward", { "any" }, rs.tanh)
each("sigmoid_backward", { "any" }, rs.sigmoid)
each("clone", { "any" }, function(a) return a:clone() end, { types = NUMBERS })
each("copy", { "any" }, function(a) return a:to "float64" end, { types = NUMBERS })
each("copy", { "any" }, function(a) return a:to "float16" end, { types = NUMBERS })
each("copy", { "tame" }, function(a) return a:to "int32" end, { types = NUMBERS, grad = false })
each("copy", { "any" }, function(a) return a:contiguous() end, { types = NUMBERS })
each("fill", { "any" }, function(a) return rs.full_like(a, 1.5) end, { grad = false })
each("cat", { "any", "any" }, function(a, b) return rs.cat({ a, b }, 0) end, { types = NUMBERS })
each("stack", { "any", "any" }, function(a, b) return rs.stack({ a, b }, 0) end)

-- Activations.
for _, name in ipairs { "silu", "gelu", "softplus", "elu", "leaky_relu" } do
  each(name .. " " .. name .. "_backward", { "any" }, F[name])
end
for op, module in pairs {
  celu = nn.CELU, mish = nn.Mish, log_sigmoid = nn.LogSigmoid, hardtanh = nn.Hardtanh, hardsigmoid = nn.Hardsigmoid,
  hardswish = nn.Hardswish,
} do
  each(op .. " " .. op .. "_backward", { "any" }, module())
end
each("softshrink shrink_backward", { "any" }, nn.Softshrink())
each("hardshrink shrink_backward", { "any" }, nn.Hardshrink())
each("threshold threshold_slope", { "any" }, nn.Threshold(0.5, 2))

-- Sums and their like: of all, over each dimension, of many elements.
local SQUARE = { { 37, 65 } }
local MATRIX = { { 37, 65 }, { 1, 300 }, { 300, 1 }, { 0, 5 }, { 5, 0 } }
local function fold(ops, f, more)
  more = more or {}
  more.elementwise, more.folds = true, true
  more.types = more.types or FLOATS
  row(ops, { more.kind or "any" }, f, more)
end
fold("sum", function(t) return t:sum() end, { types = NUMBERS })
fold("mean", function(t) return t:mean() end)
fold("sum_dim", function(t) return t:sum(0) end, { types = NUMBERS })
fold("sum_dim", function(t) return t:sum(-1, true) end, { types = NUMBERS })
fold("mean_dims", function(t) return t:mean(0) end)
fold("prod", function(t) return t:prod() end, { kind = "positive" })
fold("prod", function(t) return t:prod(0) end, { kind = "positive" })
fold("amax", function(t) return t:amax(0) end, { types = NUMBERS })
fold("amin", function(t) return t:amin(-1) end, { types = NUMBERS })
fold("max", function(t) return t:max() end, { types = NUMBERS })
fold("min", function(t) return t:min() end, { types = NUMBERS })
fold("argmax", function(t) return t:argmax(0) end, { types = NUMBERS, grad = false })
fold("argmin", function(t) return t:argmin(-1) end, { types = NUMBERS, grad = false })
fold("all", function(t) return t:all(), t:any() end, { types = NUMBERS, grad = false })
fold("var", function(t) return t:var() end, { kind = "unit" })
fold("std", function(t) return t:std() end, { kind = "unit" })
fold("cumsum", function(t) return t:cumsum(0) end, { types = NUMBERS })
fold("cumprod", function(t) return t:cumprod(0) end, { kind = "positive", tail = 257 })
fold("norm", function(t) return t:norm() end, { kind = "unit" })
fold("logsumexp", function(t) return t:logsumexp(0) end, { kind = "unit" })
fold("softmax softmax_backward", function(t) return t:softmax(0) end, { kind = "tame" })
fold("log_softmax log_softmax_backward", function(t) return rs.log_softmax(t, 0) end, { kind = "tame" })
fold("argsort", function(t) return t:argsort(0, false, true) end, { types = NUMBERS, grad = false })
fold("sort", function(t) return t:sort(-1, false, true) end)
fold("max_dim", function(t) return t:max(0) end)
fold("min_dim", function(t) return t:min(0) end)
fold("flip", function(t) return t:flip { 0 } end, { types = NUMBERS })
fold("roll", function(t) return t:roll({ 3 }, { 0 }) end)

local function square(ops, takes, f, more)
  more = more or {}
  more.shapes = more.shapes or SQUARE
  more.types = more.types or FLOATS
  row(ops, takes, f, more)
end
square("sum_dims", { "any" }, function(t) return t:reshape { 37, 5, 13 }:sum { 0, 2 } end, { types = NUMBERS })
square("mean_dims", { "any" }, function(t) return t:reshape { 37, 5, 13 }:mean { 0, 2 } end)
square("sum_to", { "any" }, function(t) return t + t:narrow(0, 0, 1) + t:narrow(1, 0, 1) end)
square("var std", { "unit" }, function(t) return t:var(1) + t:std(1) end)
square("topk", { "any" }, function(t) return t:topk(5) end)
square("tril triu", { "any" }, function(t) return t:tril() + t:triu(2) end)
square("trace", { "any" }, function(t) return t:narrow(1, 0, 37):trace() end)
square("repeat", { "any" }, function(t) return t["repeat"](t, { 2, 3 }) end)
square("diagonal", { "any" }, function(t) return t:diagonal() * 2 end)
square("permute", { "any" }, function(t) return t:reshape { 37, 5, 13 }:permute { 2, 0, 1 } * 2 end)
square("view expand t transpose narrow select unsqueeze squeeze", { "any" }, function(t)
  local u = t:view { 65, 37 }:t():transpose(0, 1):narrow(0, 1, 30):select(1, 3):unsqueeze(1)
  return u:squeeze(1) * 2 + u:expand { 30, 4 }:sum(1)
end)
-- Picking by index.
local function rows_of(shape) return rs.randint(0, shape[1], { 50 }) end
local function like(shape) return rs.randint(0, shape[1], { 20, shape[2] }) end
square("gather", { "any", like }, function(t, i) return t:gather(0, i) end, { types = NUMBERS })
local function each_once(s) return rs.randperm(s[1]):narrow(0, 0, 20):unsqueeze(1):expand { 20, s[2] }:contiguous() end
square("scatter", { "any", each_once,
  function(s, dtype) return (numbers("any", { 20, s[2] }, dtype)) end },
  function(t, i, v) return t:scatter(0, i, v) end, { views = { PLAIN } })
square("scatter_add", { "unit", like, function(s, dtype) return (numbers("unit", { 20, s[2] }, dtype)) end },
  function(t, i, v) return t:scatter_add(0, i, v) end, { views = { PLAIN } })
square("index_select index", { "any", rows_of }, function(t, i) return t:index_select(0, i) end,
  { types = NUMBERS, views = { PLAIN } })
square("index", { "any", rows_of }, function(t, i) return t[i] end, { views = { PLAIN } })
square("index_add", { "unit", rows_of, function(s, dtype) return (numbers("unit", { 50, s[2] }, dtype)) end },
  function(t, i, v) return t:index_add(0, i, v, { alpha = 0.7 }) end, { views = { PLAIN } })
square("index_put", { "any", function(s) return rs.randperm(s[1]):narrow(0, 0, 20) end,
  function(s, dtype) return (numbers("any", { 20, s[2] }, dtype)) end },
  function(t, i, v) return t:index_copy(0, i, v) end, { views = { PLAIN } })
square("embedding embedding_backward", { rows_of, "unit" }, function(i, w) return F.embedding(i, w) end,
  { views = { PLAIN } })
square("embedding_renorm", { rows_of, "unit" }, function(i, w)
  local table = w:detach():clone()
  return F.embedding(i, table, nil, 0.5), table
end, { views = { PLAIN }, grad = false, types = REALS })
square("add_rows", { rows_of, "unit" }, function(i, w)
  local layer = nn.Embedding(37, 65, { sparse = true }):to(w.device)
  layer.weight:detach():copy_(w:detach())
  layer(i):square():sum():backward()
  return layer.weight.grad:coalesce():values(), layer.weight.grad:to_dense()
end, { views = { PLAIN }, grad = false, types = { "float32" } })

-- Products, in the CPU's order of sums.
local function with(...)
  local shape = { ... }
  return function(_, dtype) return (numbers("unit", shape, dtype)) end
end
local EXACT = { views = { PLAIN }, types = { "float32", "float64", "float16", "bfloat16", "int64" } }
square("mm", { with(37, 65), with(65, 21) }, rs.mm, EXACT)
square("mm", { with(65, 37), with(21, 65) }, function(a, b) return a:t():mm(b:t()) end, EXACT)
square("mm", { with(0, 65), with(65, 21) }, rs.mm, EXACT)
square("mm", { with(3, 0), with(0, 21) }, rs.mm, EXACT)
square("bmm", { with(3, 17, 33), with(3, 33, 9) }, rs.bmm, EXACT)
square("mv dot", { with(37, 65), with(65), with(37) }, function(a, b, c) return a:mv(b):dot(c) end, EXACT)
square("addmm", { with(37, 65), with(21, 65), with(21) }, F.linear, EXACT)
square("baddbmm", { with(3, 17, 9), with(3, 17, 33), with(3, 33, 9) },
  function(c, a, b) return rs.baddbmm(c, a, b, { beta = 0.5, alpha = 2 }) end, EXACT)
square("conv2d conv_transpose2d conv2d_weight", { with(2, 4, 13, 11), with(6, 4, 3, 3), with(6) },
  function(x, w, b) return F.conv2d(x, w, b, 2, 1) end, { views = { PLAIN }, types = REALS })
square("conv_transpose2d", { with(2, 6, 7, 5) }, (function()
  local layers = {}
  return function(x)
    local key = x.device .. x.dtype
    if layers[key] == nil then
      rs.manual_seed(3)
      layers[key] = nn.ConvTranspose2d(6, 4, 3, 2):to(x.dtype):to(x.device)
    end
    return layers[key](x)
  end
end)(), { views = { PLAIN }, types = REALS })
square("max_pool2d_indices max_pool2d max_pool2d_backward", { with(2, 4, 13, 11) },
  function(x) return F.max_pool2d(x, 3, 2, 1) end, { views = { PLAIN } })
square("avg_pool2d avg_pool2d_backward", { with(2, 4, 13, 11) },
  function(x) return F.avg_pool2d(x, 3, 2, 1) end, { views = { PLAIN }, types = REALS })
square("batch_norm_stats batch_norm batch_norm_sums batch_norm_terms batch_norm_backward",
  { with(8, 5, 7, 3), with(5), with(5) }, function(x, w, b)
    local mean, var = rs.zeros(5, { dtype = x.dtype }):to(x.device), rs.ones(5, { dtype = x.dtype }):to(x.device)
    return F.batch_norm(x, mean, var, w, b, true), mean, var
  end, { views = { PLAIN }, types = REALS })
square("layer_norm layer_norm_backward layer_norm_sums", { with(9, 65), with(65), with(65) },
  function(x, w, b) return F.layer_norm(x, { 65 }, w, b) end, { views = { PLAIN }, types = REALS })
square("group_norm group_norm_backward group_norm_sums", { with(3, 6, 11), with(6), with(6) },
  function(x, w, b) return F.group_norm(x, 2, w, b) end, { views = { PLAIN }, types = REALS })

-- Losses.
for _, reduction in ipairs { "mean", "sum", "none" } do
  local function loss(ops, takes, f, more)
    more = more or {}
    more.views = more.views or VIEWS
    square(ops, takes, f, more)
  end
  loss("mse_loss mse_loss_backward", { "unit", "unit" }, function(a, b) return F.mse_loss(a, b, reduction) end)
  loss("huber_loss huber_loss_backward", { "unit", "unit" },
    function(a, b) return F.huber_loss(a, b, reduction, 0.7) end)
  loss("smooth_l1_loss smooth_l1_loss_backward", { "unit", "unit" },
    function(a, b) return F.smooth_l1_loss(a, b, reduction, 0.7) end)
  loss("soft_margin_loss soft_margin_loss_backward", { "unit", "unit" },
    function(a, b) return F.soft_margin_loss(a, b:sign(), reduction) end)
  loss("bce bce_backward", { "share", "share" }, function(a, b) return F.binary_cross_entropy(a, b, nil, reduction) end)
  loss("bce_with_logits bce_with_logits_backward", { "unit", "share" },
    function(a, b) return F.binary_cross_entropy_with_logits(a, b, nil, reduction) end)
  loss("nll_loss nll_loss_backward log_softmax log_softmax_backward",
    { "unit", function(s) return rs.randint(0, s[2], { s[1] }) end },
    function(a, t) return F.cross_entropy(a, t, nil, -100, reduction) end, { views = { PLAIN } })
end

-- Two ranks on one device; on the CPU both batches in one. 10 is added so that what is near 0 may be as far off as the
-- rest.
local function trained(layer, x)
  x = x:detach():clone():requires_grad_()
  local y = layer(x)
  y:backward(y:detach() * 0.5 + 1)
  return y:detach() + 10, x.grad + 10, layer.running_var + 10
end
square("batch_norm_gather_stats", { with(12, 5, 7) }, function(x)
  if x.device == "cpu" then return trained(nn.BatchNorm1d(5), x) end
  local sides = rs.distributed.spawn(function(rank)
    local y, grad, var = trained(nn.SyncBatchNorm(5):to(x.device), x:narrow(0, 6 * rank, 6))
    return { y:cpu(), grad:cpu(), var:cpu() }
  end, { world = 2 })
  return rs.cat({ sides[0][1], sides[1][1] }), rs.cat({ sides[0][2], sides[1][2] }), sides[1][3]
end, { views = { PLAIN }, grad = false, types = { "float32" }, near = 8 })

-- Attention and recurrent layers.
local function qkv() return with(2, 3, 9, 8) end
square("attention attention_weights", { qkv(), qkv(), qkv() },
  function(q, k, v) return F.scaled_dot_product_attention(q, k, v) end,
  { views = { PLAIN }, types = REALS })
square("safe_softmax", { qkv(), qkv(), qkv() }, function(q, k, v)
  local mask = rs.full({ 9, 9 }, -1 / 0, { dtype = q.dtype }):to(q.device)
  return F.scaled_dot_product_attention(q, k, v, mask)
end, { views = { PLAIN }, types = REALS })
local function recurrent(make)
  return function(x)
    rs.manual_seed(5)
    local layer = make():to(x.dtype):to(x.device)
    return (layer(x))
  end
end
square("lstm_layer lstm_layer_backward", { with(5, 3, 7) }, recurrent(function() return nn.LSTM(7, 9) end),
  { views = { PLAIN }, types = { "float32" } })
square("lstm_cell lstm_cell_backward", { with(5, 3, 7) },
  recurrent(function() return nn.LSTM(7, 9, { proj_size = 4 }) end),
  { views = { PLAIN }, types = REALS })
square("gru_cell gru_cell_backward", { with(5, 3, 7) }, recurrent(function() return nn.GRU(7, 9) end),
  { views = { PLAIN }, types = REALS })

-- Optimizers: in place, in one pass.
local function steps(make)
  return function(p, g)
    local param = p:detach():clone():requires_grad_()
    local optimizer = make { param }
    for _ = 1, 3 do
      param.grad = g:detach():clone()
      optimizer:step()
    end
    return param:detach()
  end
end
local optim = rs.optim
for op, makers in pairs {
  sgd = { function(p) return optim.SGD(p, { lr = 0.1 }) end,
          function(p) return optim.SGD(p, { lr = 0.1, momentum = 0.9, weight_decay = 0.01, nesterov = true }) end },
  adam = { function(p) return optim.Adam(p, { lr = 0.01 }) end, function(p) return optim.AdamW(p, { lr = 0.01 }) end },
  adagrad = { function(p) return optim.Adagrad(p, { lr = 0.1 }) end },
} do
  for _, make in ipairs(makers) do
    square(op, { "unit", "unit" }, steps(make), { views = { PLAIN }, grad = false, types = REALS })
  end
end

-- ---- all of them ----

local function run(r)
  if r.elementwise then
    for _, n in ipairs(sizes) do
      if n <= (r.tail or n) then try(r, flat(n), r.types[1], PLAIN) end
    end
  end
  for _, shape in ipairs(r.elementwise and SQUARE or r.shapes) do
    for _, dtype in ipairs(r.types) do
      local views = r.views or (r.takes[2] == nil or r.elementwise) and VIEWS or { PLAIN }
      for i, view in ipairs(views) do
        if i == 1 or dtype == r.types[1] or dtype == r.types[#r.types] then try(r, shape, dtype, view) end
      end
    end
  end
  if r.folds then
    for _, shape in ipairs(MATRIX) do try(r, shape, r.types[1], PLAIN) end
  end
end

local function report(r)
  local agrees = failed[r] == nil and was_compared[r]
  for _, text in ipairs(failed[r] or {}) do print(r.ops .. ": " .. text) end
  if not was_compared[r] then print(r.ops .. ": both sides refuse all of it") end
  rs.check(r.ops .. (r.near and ": as near as said" or ": every bit"), agrees)
end

for _, r in ipairs(rows) do
  if only == nil or r.ops:find(only, 1, true) then
    run(r)
    report(r)
  end
end
print(compared .. " results and gradients compared; " .. refused .. " combinations that both refuse")

-- What has no kernel of its own: views, and what is made of others (tensor/compose.c).
local MADE_OF_OTHERS = [[view expand t transpose narrow select unsqueeze squeeze permute diagonal sub_scalar rsub_scalar
  norm logsumexp trace stack repeat roll safe_softmax attention attention_weights baddbmm max_dim min_dim sort topk
  index_select]]

local in_table = {}
for _, r in ipairs(rows) do
  for op in r.ops:gmatch "%S+" do in_table[op] = true end
end
local seen = {}
for _, event in ipairs(rs.trace:events "kind = kernel and device = 0 and phase = begin") do
  seen[event.args.op] = true
end
local forgotten, without = {}, {}
for line in io.lines(ops_file) do
  local op = line:match "^OP%(%s*([%w_]+)"
  if op ~= nil then
    if not in_table[op] then forgotten[#forgotten + 1] = op end
    local made = (" " .. MADE_OF_OTHERS .. " "):find("%s" .. op .. "%s") ~= nil
    if not seen[op] and not made then without[#without + 1] = op end
  end
end
if #forgotten > 0 then print("forgotten: " .. table.concat(forgotten, " ")) end
if #without > 0 then print("no kernel seen on the device: " .. table.concat(without, " ")) end
if only ~= nil then return end
rs.check("no op of ops.def is forgotten here", #forgotten == 0)
rs.check("each op that has a kernel ran one on the device", #without == 0)
