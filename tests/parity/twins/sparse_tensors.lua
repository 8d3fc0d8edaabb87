-- Sparse tensors alone, and as gradients wherever autograd meets them.
local rs = require "ringside"
local nn, embedding = rs.nn, rs.nn.functional.embedding
rs.lesson { title = "sparse tensors", devices = 0 }
local function python(flag) return flag and "True" or "False" end
local function numbers(out, list, format)
  for _, value in ipairs(list) do out[#out + 1] = format:format(value) end
  return out
end
local function tell(name, t)
  local out = { name .. "=", t.is_sparse and "sparse " .. python(t:is_coalesced()) or "dense", t.dtype }
  numbers(out, t.shape, "%d")
  if t.is_sparse then
    out[#out + 1] = "rows"
    numbers(out, t:_indices():reshape(-1):tolist(), "%d")
    t = t:_values()
  end
  out[#out + 1] = "values"
  print(table.concat(numbers(out, t:detach():double():reshape(-1):tolist(), "%g"), " "))
end
local function kind(name, f)
  local ok, err = pcall(f)
  print(name .. "= " .. (ok and "fine" or err.kind))
end
local function line(t) return (tostring(t):gsub(" ", "_"):gsub("\n", "|")) end
local function make(rows, dtype, wide)
  rows, wide = rows or { 2, 0, 2 }, wide or 2
  local values = {}
  for i = 1, #rows do
    values[i] = {}
    for j = 1, wide do values[i][j] = (i - 1) * wide + j end
  end
  values = rs.tensor(values, { dtype = dtype or "float32" }):reshape(#rows, wide)
  return rs.sparse_coo_tensor(rs.tensor({ rows }, { dtype = "int64" }), values, { 4, wide })
end

local other, dense = make { 1, 2 }, rs.arange(8.0):reshape(4, 2)
for _, case in ipairs { { "u", make() }, { "c", make():coalesce() }, { "none", make {} } } do
  local name, x = case[1], case[2]
  for _, op in ipairs {
    { "itself", function() return x end }, { "clone", function() return x:clone() end },
    { "coalesce", function() return x:coalesce() end }, { "detach", function() return x:detach() end },
    { "double", function() return x:double() end }, { "half", function() return x:half() end },
    { "times", function() return x * 0.5 end }, { "by", function() return x / 4 end },
    { "neg", function() return -x end }, { "times_tensor", function() return x * rs.tensor(3.0) end },
    { "by_tensor", function() return x / rs.tensor(4.0) end }, { "times_dense", function() return x * dense end },
    { "dense_times", function() return dense * x end }, { "abs", function() return x:abs() end },
    { "sqrt", function() return x:sqrt() end }, { "square", function() return x ^ 2 end },
    { "sign", function() return x:sign() end }, { "floor", function() return x:floor() end },
    { "sum", function() return x:sum() end }, { "sum0", function() return x:sum(0) end },
    { "norm", function() return x:norm() end }, { "norm1", function() return x:norm(1) end },
    { "norm_inf", function() return x:norm(math.huge) end }, { "to_dense", function() return x:to_dense() end },
    { "add", function() return x + other end }, { "turned", function() return other + x end },
    { "twice", function() return x + x end }, { "scaled", function() return x:add(other, { alpha = 2 }) end },
    { "sub", function() return x - other end }, { "dense_add", function() return dense + x end },
    { "dense_scaled", function() return dense:add(x, { alpha = 3 }) end },
    { "dense_sub", function() return dense - x end }, { "promoted", function() return x + other:double() end },
    { "dense_promoted", function() return dense:double() + x end },
    { "zeros_like", function() return rs.zeros_like(x) end }, { "row", function() return x[2] end },
    { "half_dense", function() return x:half():to_dense() end },
    { "half_added", function() return dense:half() + x:half() end },
    { "whole", function() return x:int():coalesce() end }, { "truth", function() return x:bool():to_dense() end },
    { "to_sparse", function() return x:to_dense():to_sparse(1) end } } do
    if not (name == "none" and op[1] == "norm_inf") then tell(name .. "." .. op[1], op[2]()) end
  end
  for _, op in ipairs {
    { "mul_", function(y) y:mul_(3) end }, { "div_", function(y) y:div_(2) end }, { "neg_", function(y) y:neg_() end },
    { "zero_", function(y) y:zero_() end }, { "add_", function(y) y:add_(other) end },
    { "sub_", function(y) y:sub_(other) end }, { "copy_", function(y) y:copy_(other) end },
    { "scaled_", function(y) y:add_(other, { alpha = 0.5 }) end } } do
    local y = x:clone()
    local before = y._version
    op[2](y)
    tell(name .. "." .. op[1], y)
    print(name .. "." .. op[1] .. ".version= " .. python(y._version > before))
  end
  tell(name .. ".into_dense", dense:clone():add_(x, { alpha = -1 }))
  tell(name .. ".into_dense_times", dense:clone():mul_(x))
  print(name .. ".facts= " .. x:dim() .. " " .. x:numel() .. " " .. x:sparse_dim() .. " " .. x:dense_dim() .. " " ..
    x:_nnz() .. " " .. python(x:is_coalesced()) .. " " .. python(x:is_contiguous()) .. " " .. python(x.is_sparse))
  print(name .. ".print= " .. line(x))
  for _, op in ipairs {
    { "indices", function() return x:indices() end }, { "values", function() return x:values() end },
    { "number", function() return x + 1 end }, { "exp", function() return x:exp() end },
    { "clamp", function() return x:clamp(0, 1) end }, { "plus_dense", function() return x + dense end },
    { "broadcast", function() return rs.ones { 2 } + x end },
    { "wrong", function() return x + make({ 0 }, nil, 3) end }, { "contiguous", function() return x:contiguous() end },
    { "reshape", function() return x:reshape(8) end }, { "tolist", function() return x:tolist() end },
    { "nbytes", function() return x:nbytes() end }, { "data_ptr", function() return x:data_ptr() end },
    { "fill", function() return x:fill_(1) end }, { "equal", function() return rs.equal(x, x) end },
    { "div_dense", function() return x / dense end }, { "dense_div", function() return dense / x end },
    { "transpose", function() return x:transpose(0, 1) end }, { "mean", function() return x:mean() end },
    { "max", function() return x:max() end }, { "uniform", function() return x:clone():uniform_() end },
    { "copy_dense", function() return x:clone():copy_(dense) end },
    { "from_sparse", function() return dense:clone():copy_(x) end },
    { "sigmoid", function() return x:sigmoid() end } } do
    kind(name .. ".kind." .. op[1], op[2])
  end
end

local ints = rs.sparse_coo_tensor({ { 1, 1 } }, { 1, 2 }, { 5 })
tell("ints", ints)
tell("ints.dense", ints:to_dense())
tell("ints.coalesce", ints:coalesce())
print("ints.print= " .. line(ints))
print("double.print= " .. line(make(nil, "float64")))
local pair = { { 1.0, 2.0 }, { 3.0, 4.0 } }
tell("grown", rs.sparse_coo_tensor({ { 1, 3 } }, pair))
tell("block", rs.sparse_coo_tensor({ { 1, 1 } }, { pair, { { 5.0, 6.0 }, { 7.0, 8.0 } } }, { 2, 2, 2 }):to_dense())
kind("make.pairs", function() return rs.sparse_coo_tensor({ { 1, 2, 3 } }, pair, { 5, 2 }) end)
kind("make.wide", function() return rs.sparse_coo_tensor({ { 1, 2 } }, pair, { 5, 3 }) end)
kind("make.dims", function() return rs.sparse_coo_tensor({ { 1, 2 } }, pair, { 5, 2, 1 }) end)
kind("make.flat", function() return rs.sparse_coo_tensor({ 1, 2 }, pair, { 5, 2 }) end)

-- ---- autograd ----
local ids, ids2 = rs.tensor { 2, 0, 2 }, rs.tensor { 1, 2 }
local function weight() return rs.arange(8.0):reshape(4, 2):requires_grad_() end
local function looked(w, options, at)
  options = options or {}
  options.sparse = true
  return embedding(at or ids, w, options)
end
local function backward(loss, graph) loss:backward { create_graph = graph } end
local function squares(w, graph) backward((looked(w) ^ 2):sum(), graph) end
local function ones(w, graph) backward(looked(w):sum(), graph) end
local function whole(w, graph) backward((w * w):sum(), graph) end

for _, graph in ipairs { false, true } do
  for _, case in ipairs { { "squares", squares, squares }, { "ones", ones, ones }, { "ones_squares", ones, squares },
    { "sparse_dense", squares, whole }, { "dense_sparse", whole, squares } } do
    local w = weight()
    case[2](w, graph)
    local before = w.grad
    case[3](w, graph)
    local name = (graph and "graph." or "again.") .. case[1]
    tell(name, w.grad)
    print(name .. ".same= " .. python(before == w.grad))
  end
end
local function tie(w) return rs.ones({ 1, 2 }):matmul(w:t()):sum() end
for _, case in ipairs {
  { "twice", function(w) return (looked(w) ^ 2):sum() + (looked(w, nil, ids2) ^ 2):sum() end },
  { "twice_ones", function(w) return looked(w):sum() + looked(w, nil, ids2):sum() end },
  { "tied", function(w) return (looked(w) ^ 2):sum() + tie(w) end },
  { "tied_other", function(w) return tie(w) + (looked(w) ^ 2):sum() end },
  { "padded", function(w) return (looked(w, { padding_idx = 2 }) ^ 2):sum() end },
  { "all_padded", function(w) return (looked(w, { padding_idx = 2 }, rs.tensor { 2, 2 }) ^ 2):sum() end },
  { "renormed", function(w) return looked(w, { max_norm = 1 }):sum() end },
  { "matrix", function(w) return (looked(w, nil, rs.tensor { { 2, 1 }, { 2, 3 } }) ^ 2):sum() end },
  { "scalar", function(w) return (looked(w, nil, rs.tensor(2)) ^ 2):sum() end },
  { "of_nothing", function(w) return (looked(w, nil, rs.zeros({ 0 }, { dtype = "int64" })) ^ 2):sum() end },
  { "through_mul", function(w) return (looked(w * 3) ^ 2):sum() end },
  { "through_add", function(w) return (looked(w + 1) ^ 2):sum() end },
  { "through_neg", function(w) return (looked(-w) ^ 2):sum() end },
  { "through_clone", function(w) return (looked(w:clone()) ^ 2):sum() end },
  { "through_dense", function(w) return (looked(w * rs.full({ 4, 2 }, 2.0)) ^ 2):sum() end },
  { "through_div", function(w) return (looked(w / 2) ^ 2):sum() end },
  { "through_square", function(w) return (looked(w ^ 2) ^ 2):sum() end },
  { "through_self", function(w) return (looked(w + w) ^ 2):sum() end } } do
  local w = weight()
  case[2](w):backward()
  tell("grad." .. case[1], w.grad)
end
do
  local w = weight()
  kind("by_frequency.forward", function() looked(w, { scale_grad_by_freq = true }) end)
  kind("by_frequency.backward", function() looked(w, { scale_grad_by_freq = true }):sum():backward() end)
end
for _, case in ipairs { { "half", function(g) return g * 0.5 end }, { "once", function(g) return g:coalesce() end },
  { "none", function(g) return rs.zeros_like(g) end }, { "in_place", function(g) return g:mul_(2) end } } do
  local w = weight()
  w:register_hook(case[2])
  squares(w)
  tell("hook." .. case[1], w.grad)
end
do
  local w, seen = weight(), nil
  w:register_hook(function(g) seen = g end)
  squares(w)
  w.grad:mul_(2)
  tell("hook.saw", seen)
  w = weight()
  local v = w * 1
  v:retain_grad()
  backward((looked(v) ^ 2):sum())
  tell("retained", v.grad)
  w = weight()
  w:register_post_accumulate_grad_hook(function(p) seen = p.grad.is_sparse end)
  squares(w)
  print("after= " .. python(seen))
end
local w = weight()
local function grad_of(loss, options)
  local found = rs.autograd.grad(loss, w, options)
  return rs.is_tensor(found) and found or found[1]
end
tell("grad", grad_of(looked(w):sum()))
local g = grad_of((looked(w) ^ 3):sum(), { create_graph = true })
print("history= " .. python(g.requires_grad) .. " " .. python(g.is_leaf))
for _, case in ipairs { { "dense", function() return (g:to_dense() ^ 2):sum() end },
  { "values", function() return (g:coalesce():values() ^ 2):sum() end }, { "sum", function() return g:sum() end },
  { "times", function() return ((g * 2):to_dense() ^ 2):sum() end },
  { "added", function() return ((g + g):to_dense() ^ 2):sum() end },
  { "beside", function() return ((dense + g) ^ 2):sum() end } } do
  tell("second." .. case[1], grad_of(case[2](), { retain_graph = true }))
end
for _, norm in ipairs { 2, 1, 3, math.huge } do
  local u = rs.ones({ 3 }, { requires_grad = true })
  w = weight()
  squares(w)
  backward((u * u):sum())
  local out = { "clip", ("%.7g"):format(nn.utils.clip_grad_norm_({ w, u }, 1, { norm_type = norm }):item()) }
  numbers(out, w.grad:_values():reshape(-1):tolist(), "%.6g")
  print(table.concat(numbers(out, u.grad:tolist(), "%.6g"), " "))
end
kind("clip_value", function() nn.utils.clip_grad_value_({ w }, 1) end)
w = weight()
squares(w)
local held = w.grad
rs.optim.SGD({ w }, { lr = 0.1 }):zero_grad { set_to_none = false }
tell("zeroed", w.grad)
print("zeroed.same= " .. python(held == w.grad))
w = weight()
w.grad = make { 1 }
tell("given", w.grad)
kind("given.wrong", function() w.grad = make({ 1 }, nil, 3) end)
w = weight()
local same = w * 1
same:backward(make { 1, 3 })
tell("from_sparse", w.grad)
