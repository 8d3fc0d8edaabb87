-- Attention: outputs and gradients with masks, groups, other layouts, and with heads.
local rs = require "ringside"
local nn = rs.nn
local attention = nn["functional"].scaled_dot_product_attention

local function numbers(sizes, first)
  local count, list = 1, {}
  for _, size in ipairs(sizes) do count = count * size end
  for i = 0, count - 1 do list[i + 1] = ((i + (first or 0)) * 37 % 23 - 11) / 7 end
  return rs.tensor(list):reshape(sizes):requires_grad_()
end

local function row(name, t)
  local words = { name }
  for _, x in ipairs(t:detach():reshape { -1 }:tolist()) do words[#words + 1] = ("%.9g"):format(x) end
  print(table.concat(words, " "))
end

local function show(name, call, ...)
  local inputs = { ... }
  for _, t in ipairs(inputs) do t.grad = nil end
  local output = call(...)
  output:backward(rs.arange(output:numel()):reshape(output.shape):to("float32"):cos())
  row(name, output)
  for at, t in ipairs(inputs) do row(name .. ".grad" .. at - 1, t.grad) end
end

local q, k, v = numbers { 2, 2, 3, 4 }, numbers({ 2, 2, 5, 4 }, 3), numbers({ 2, 2, 5, 4 }, 9)
local allowed = rs.tensor { { true, false, true, true, false }, { false, false, false, false, false },
  { true, true, true, true, true } }
local far = -math.huge
local added = rs.tensor { { 0.5, -1.0, 0.0, 2.0, -0.25 }, { far, far, far, far, far }, { 0.0, 0.0, 0.0, 0.0, 0.0 } }
show("plain", attention, q, k, v)
show("causal", function(a, b, c) return attention(a, b, c, { is_causal = true }) end, q, k, v)
show("allowed", function(a, b, c) return attention(a, b, c, allowed) end, q, k, v)
show("added", function(a, b, c) return attention(a, b, c, added) end, q, k, v)
show("scale", function(a, b, c) return attention(a, b, c, { scale = 0.25 }) end, q, k, v)
show("wide", attention, q, k, numbers { 2, 2, 5, 3 })
show("three", attention, numbers { 2, 3, 4 }, numbers({ 2, 5, 4 }, 3), numbers({ 2, 5, 4 }, 9))
show("two", function(a, b, c) return attention(a, b, c, allowed) end, numbers { 3, 4 }, numbers({ 5, 4 }, 3),
  numbers({ 5, 2 }, 9))
show("groups", function(a, b, c) return attention(a, b, c, { enable_gqa = true }) end, numbers { 1, 4, 3, 2 },
  numbers { 1, 2, 5, 2 }, numbers({ 1, 2, 5, 2 }, 5))
show("turned", function(a, b, c) return attention(a:transpose(1, 2), b:transpose(1, 2), c:transpose(1, 2)) end,
  numbers { 2, 3, 2, 4 }, numbers { 2, 5, 2, 4 }, numbers { 2, 5, 2, 4 })
show("mask", function(a, m) return attention(a, a, a, m) end, numbers { 2, 3, 4 }, numbers({ 3, 3 }, 2))

local function heads(options)
  local module, at = nn.MultiheadAttention(4, 2, options), 0
  rs.no_grad(function()
    for p in module:parameters() do
      p:copy_(numbers(p.shape, at))
      at = at + 1
    end
  end)
  return module
end

local python = { [true] = "True", [false] = "False" }
for _, kind in ipairs { { "self", {} }, { "first", { batch_first = true } },
  { "more", { add_bias_kv = true, add_zero_attn = true } } } do
  local name, module, at = kind[1], heads(kind[2]), 0
  for _, need in ipairs { true, false } do
    show(name .. "." .. python[need], function(x) return (module(x, x, x, nil, need)) end, numbers { 3, 2, 4 })
    local first = name == "first"
    show(name .. ".cross." .. python[need], function(x, y) return (module(x, y, y, nil, need)) end,
      numbers(first and { 2, 3, 4 } or { 3, 2, 4 }), numbers(first and { 2, 5, 4 } or { 5, 2, 4 }))
  end
  for p in module:parameters() do
    row(name .. ".parameter" .. at, p.grad)
    at = at + 1
  end
end
local module = heads {}
local hidden = rs.tensor { { false, false, true }, { false, false, false } }
show("hidden", function(x) return (module(x, x, x, hidden, false)) end, numbers { 3, 2, 4 })
show("both", function(x) return (module(x, x, x, hidden, true, rs.ones { 3, 3 }:triu(1):to("bool"))) end,
  numbers { 3, 2, 4 })
local ok, err = pcall(attention, q, k, v, allowed, 0.0, true)
if not ok then print("error= " .. err.message) end
