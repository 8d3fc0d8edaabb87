-- Sums, softmax, cross-entropy and the gradients of embeddings: the CPU's bits, twenty times in a row, with other work
-- beside them on the device.
-- `ringside run --trust --executor free --exact --device cuda repeat.lua -- FOLDER SIZE RUNS`
local rs = require "ringside"
local folder, size_text, runs_text = table.unpack(rs.args)
local compare = dofile(folder .. "/compare.lua")
local F = rs.nn.functional
rs.lesson { title = "the same bits again", devices = 1 }

local size, runs = math.tointeger(size_text), math.tointeger(runs_text)
local DEVICE = "device:0"

rs.manual_seed(1)
local wide = math.max(size // 512, 2)
local x, matrix = rs.randn { size }, rs.randn { 512, wide }
local logits, target = rs.randn { 64, wide }, rs.randint(0, wide, { 64 })
local rows, table_of = rs.randint(0, 37, { wide }), rs.randn { 37, 24 }

local function grad_of(f, leaf)
  leaf = leaf:detach():clone():requires_grad_()
  f(leaf):backward()
  return leaf.grad
end

local CASES = {
  { "the sum of all elements", function(to) return to(x):sum() end },
  { "sums over columns and over rows", function(to) local m = to(matrix) return rs.cat { m:sum(0), m:sum(1) } end },
  { "mean and variance", function(to) local m = to(matrix) return rs.stack { m:mean(), m:var() } end },
  { "softmax", function(to) return to(logits):softmax(1) end },
  { "the gradient of softmax", function(to)
    local weight = to(logits)
    return grad_of(function(t) return (t:softmax(1) * weight):sum() end, weight)
  end },
  { "cross-entropy", function(to) return F.cross_entropy(to(logits), to(target)) end },
  { "the gradient of cross-entropy", function(to)
    return grad_of(function(t) return F.cross_entropy(t, to(target)) end, to(logits))
  end },
  { "the gradient of an embedding whose rows come often", function(to)
    local indices, factor = to(rows), to(matrix:narrow(0, 0, 24):t():contiguous())
    return grad_of(function(t) return (F.embedding(indices, t) * factor):sum() end, to(table_of))
  end },
  { "index_add onto few rows", function(to)
    return to(table_of):index_add(0, to(rows), to(matrix:narrow(0, 0, 24):t():contiguous()))
  end },
}

-- Keeps other processors busy, at other speeds each time.
local busy = rs.cuda.Stream(0)
local load = rs.randn { 257, 257 }:to(DEVICE)
local function beside(n)
  rs.cuda.stream(busy, function()
    for _ = 1, n % 4 do load:mm(load) end
  end)
end

for _, case in ipairs(CASES) do
  local name, f = table.unpack(case)
  local want = f(function(t) return t:clone() end)
  local first, differs, text
  for i = 1, runs do
    beside(i)
    local got = f(function(t) return t:to(DEVICE) end):detach():cpu()
    if first == nil then
      first, text = got, compare.difference(got, want)
    elseif compare.difference(got, first) then
      differs = differs or i
    end
  end
  if text then print(name .. ": " .. text) end
  rs.check(name .. ": the CPU's bits", text == nil)
  if differs then print(name .. ": run " .. differs .. " differs from the first") end
  rs.check(name .. ": " .. runs .. " runs have the same bits", differs == nil)
end
