-- What a generator of programs draws (G: variables, shapes, dimensions, places), and what it asks of values.
local P = ...
local method, fn, op, list = P.method, P.fn, P.op, P.list
local unpack = table.unpack

local function count(shape)
  local n = 1
  for _, size in ipairs(shape) do n = n * size end
  return n
end

-- The broadcast shape, or nil.
local function broadcast(a, b)
  local out = {}
  for i = 1, math.max(#a, #b) do
    local x, y = a[#a - i + 1] or 1, b[#b - i + 1] or 1
    if x ~= y and x ~= 1 and y ~= 1 then return nil end
    table.insert(out, 1, x == 1 and y or x)
  end
  return out
end

local function same(a, b)
  if #a ~= #b then return false end
  for i = 1, #a do if a[i] ~= b[i] then return false end end
  return true
end

-- ---- what is asked of values ----

local function numbers(t) return t:numel() == 0 and {} or t:detach():reshape { -1 }:tolist() end

-- All elements at least `gap` from each other (and so from a tie).
local function apart(t, gap)
  local values = numbers(t)
  table.sort(values)
  for i = 2, #values do if values[i] - values[i - 1] < (gap or 0.01) then return false end end
  return true
end
local function away(t, from, gap)
  for _, x in ipairs(numbers(t)) do if math.abs(x - from) < (gap or 0.02) then return false end end
  return true
end
local function between(t, low, high)
  for _, x in ipairs(numbers(t)) do if not (x >= low and x <= high) then return false end end
  return true
end
local function from_whole(t)
  for _, x in ipairs(numbers(t)) do if math.abs(x - math.floor(x + 0.5)) < 0.02 then return false end end
  return true
end

-- ---- drawing ----
local G = {}
G.__index = G

function G:number() return self.s.int(-16, 16) / 8 end
function G:positive() return self.s.int(2, 16) / 8 end
function G:name() self.names = self.names + 1 return "v" .. self.names end

function G:size() return self.s.pick { 1, 2, 2, 3, 3, 4 } end
function G:shape(dims)
  local shape = {}
  for i = 1, dims or self.s.pick { 0, 1, 1, 2, 2, 2, 3, 3, 4 } do shape[i] = self:size() end
  if self.s.chance(60) and #shape > 0 then shape[self.s.int(1, #shape)] = 0 end
  return count(shape) <= 24 and shape or self:shape(dims)
end

-- A new input of the program. Sizes are such that float32 holds them exactly.
function G:leaf(shape)
  shape = shape or self:shape()
  local leaf = { name = "x" .. (#self.program.leaves + 1), shape = shape, numbers = {} }
  for i = 1, count(shape) do leaf.numbers[i] = self.s.int(-2047, 2047) / 1024 end
  table.insert(self.program.leaves, leaf)
  local value = self.rs.tensor(leaf.numbers, { dtype = "float64" }):reshape(shape):requires_grad_()
  local var = { name = leaf.name, shape = shape, value = value, leaf = true }
  table.insert(self.vars, var)
  self.tensors[leaf.name] = value
  return var
end

-- Some variable that `good` likes; nil: none was found in a few draws.
function G:var(good)
  for _ = 1, 6 do
    local recent = #self.vars - self.s.int(0, 3)
    local var = self.vars[self.s.chance(2) and recent >= 1 and recent or self.s.int(1, #self.vars)]
    if not good or good(var) then return var end
  end
end
-- One of this shape: there already, or new.
function G:shaped(shape)
  local var = self:var(function(v) return same(v.shape, shape) end)
  return var and self.s.chance(2) and var or #self.program.leaves < 5 and self:leaf(shape) or var
end
function G:dim(var) return #var.shape == 0 and self.s.int(-1, 0) or self.s.int(-#var.shape, #var.shape - 1) end
function G:size_of(var, dim) return var.shape[(dim < 0 and dim + #var.shape or dim) + 1] or 1 end
-- A dimension, or several of them, or nil for all.
function G:dims(var)
  if #var.shape == 0 or self.s.chance(4) then return nil end
  if self.s.chance(2) then return self:dim(var) end
  local out = {}
  for i = 0, #var.shape - 1 do
    if self.s.chance(2) then out[#out + 1] = self.s.chance(3) and i - #var.shape or i end
  end
  return #out > 0 and list(out) or nil
end
function G:order(n)
  local out = {}
  for i = 1, n do out[i] = i - 1 end
  for i = n, 2, -1 do
    local k = self.s.int(1, i)
    out[i], out[k] = out[k], out[i]
  end
  return out
end
-- Whole numbers below n, maybe negative ones for the same places.
function G:places(shape, n, positive)
  if #shape == 0 then return (not positive and self.s.chance(3)) and self.s.int(-n, -1) or self.s.int(0, n - 1) end
  local rest, out = { unpack(shape, 2) }, {}
  for i = 1, shape[1] do out[i] = self:places(rest, n, positive) end
  return out
end
-- The method, a function or an operator: three ways to say the same.
function G:say(name, a, b)
  local signs = { add = "+", sub = "-", mul = "*", div = "/", remainder = "%", pow = "^" }
  local way = self.s.int(1, 3)
  if way == 1 and signs[name] then return op(signs[name], a, b) end
  if way == 2 then return fn(name, a, b) end
  return method(a, name, b)
end

return { G = G, count = count, broadcast = broadcast, same = same, apart = apart, away = away, between = between,
  from_whole = from_whole }
