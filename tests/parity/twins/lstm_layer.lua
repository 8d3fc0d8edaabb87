-- One node a layer and direction of an LSTM: its graph, its numbers, its gradients and theirs.
local rs = require "ringside"
local nn = rs.nn
rs.lesson { title = "lstm_layer", devices = 0 }
rs.manual_seed(11)

-- Of many numbers the sums of sixteen pieces.
local function show(name, tensor)
  local flat = tensor:detach():flatten()
  if flat:numel() > 64 then
    local sums = flat:chunk(16)
    for at, piece in ipairs(sums) do sums[at] = piece:sum() end
    flat = rs.stack(sums)
  end
  local values = flat:tolist()
  for at, value in ipairs(values) do values[at] = string.format("%.9g", value) end
  print(name .. " " .. table.concat(values, " "))
end

local function kind(node)
  return node == rs.none and "None" or (node:name():gsub(".*::", ""))
end

local function graph(node, depth)
  if node == rs.none or depth == 0 or #node.next_functions == 0 then return kind(node) end
  local parts = {}
  for at, to in ipairs(node.next_functions) do
    parts[at] = string.format("%d:%s", to[2], graph(to[1], depth - 1))
  end
  return kind(node) .. "(" .. table.concat(parts, ",") .. ")"
end

local function joined(...)
  local all = {}
  for _, list in ipairs({ ... }) do
    for _, item in ipairs(list) do all[#all + 1] = item end
  end
  return all
end

local function flat(tensors)
  local all = {}
  for at, tensor in ipairs(tensors) do all[at] = tensor:flatten() end
  return rs.cat(all, 0)
end

local function tried(name, lstm, x, state, given)
  local y, last = lstm(x, given and state or nil)
  local h, c = last[1], last[2]
  for _, part in ipairs({ { "y", y }, { "h", h }, { "c", c } }) do
    local what, tensor = part[1], part[2]
    print("graph= " .. name .. " " .. what .. " " .. graph(tensor.grad_fn, 4))
    print(table.concat(joined({ "place=", name, what }, { table.unpack(tensor:size()) }, { "|" },
      { table.unpack(tensor:stride()) }), " "))
    show(name .. "." .. what, tensor)
  end
  local k = rs.arange(y:numel()):reshape(y:size()) * 0.01
  local loss = (y * k):sum() + (h * h):sum() + c:sum() * 0.5
  local wanted = joined({ x }, given and state or {}, lstm:parameters())
  for at, grad in ipairs({ rs.autograd.grad(loss, wanted, { retain_graph = true }) }) do
    show(string.format("%s.grad%d", name, at - 1), grad)
  end
  show(name .. ".of_c", (rs.autograd.grad(c:sum(), { x }, { retain_graph = true })))
  local first = { rs.autograd.grad(loss, wanted, { create_graph = true }) }
  show(name .. ".first", flat(first))
  local total = 0
  for _, grad in ipairs(first) do total = (grad * grad):sum() + total end
  for at, grad in ipairs({ rs.autograd.grad(total, wanted) }) do show(string.format("%s.second%d", name, at - 1), grad) end
end

local cases = {
  { "plain", {}, { 4, 3, 2 }, false }, { "given", {}, { 4, 3, 2 }, true }, { "one", {}, { 1, 1, 2 }, true },
  { "bare", { bias = false }, { 3, 2, 2 }, true }, { "alone", {}, { 5, 2 }, true },
  { "first", { batch_first = true }, { 3, 4, 2 }, false }, { "both", { bidirectional = true }, { 4, 3, 2 }, true },
  { "deep", { num_layers = 2, bidirectional = true, batch_first = true }, { 2, 5, 2 }, true },
  { "drop", { num_layers = 2, dropout = 0.5 }, { 3, 2, 2 }, false }, { "wide", {}, { 3, 5, 2 }, true },
}
for _, case in ipairs(cases) do
  local name, options, shape, given = table.unpack(case)
  local hidden = name == "wide" and 19 or 3
  local lstm = nn.LSTM(2, hidden, options)
  local layers = (options.num_layers or 1) * (options.bidirectional and 2 or 1)
  local sizes = #shape == 2 and { layers, hidden } or { layers, shape[options.batch_first and 1 or 2], hidden }
  local x = rs.randn(shape, { requires_grad = true })
  local h = rs.randn(sizes, { requires_grad = true })
  tried(name, lstm, x, { h, rs.randn(sizes, { requires_grad = true }) }, given)
end

local lstm = nn.LSTM(2, 3)
local x = rs.randn({ 4, 2, 2 }, { requires_grad = true })
lstm.weight_hh_l0:requires_grad_(false)
lstm.bias_ih_l0:requires_grad_(false)
local y = lstm(x)
print("frozen= " .. graph(y.grad_fn, 2))
y:sum():backward()
for _, name in ipairs({ "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0" }) do
  print("frozen= " .. name .. " " .. (lstm[name].grad ~= nil and "True" or "False"))
end
show("frozen.x", x.grad)
for _, parameter in ipairs(lstm:parameters()) do parameter:requires_grad_(false) end
print("nothing= " .. ((lstm(x:detach())).requires_grad and "True" or "False"))
rs.no_grad(function() show("no_grad", (lstm(x))) end)
for _, case in ipairs({ { "float64", nn.LSTM(2, 3, { dtype = "float64" }), x:detach():to("float64") },
  { "proj_size", nn.LSTM(2, 3, { proj_size = 1 }), x:detach() } }) do
  local output = case[2](case[3])
  print(case[1] .. "= " .. (kind(output.grad_fn) == "MkldnnRnnLayerBackward0" and "True" or "False"))
end
