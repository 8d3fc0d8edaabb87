-- A program is a list of steps over named tensors. It is a tree, printed as Lua (to run here, to paste in a lesson) or
-- as Python (to run with PyTorch). A step: { names, expr }, { target, expr } (assignment by index) or { expr }.
local P = {}

-- ---- trees: a name, a number, a boolean, or one of these ----
function P.method(on, name, ...) return { kind = "method", on = on, name = name, ... } end
function P.fn(name, ...) return { kind = "fn", name = name, ... } end            -- rs.name, torch.name
function P.layer(name, ...) return { kind = "layer", name = name, ... } end      -- nn.functional
function P.op(op, a, b) return { kind = "op", op = op, a, b } end
function P.list(items) return { kind = "list", items = items } end
function P.keys(options) return { kind = "keys", options = options } end         -- always the last argument
function P.at(on, ...) return { kind = "at", on = on, ... } end
function P.slice(from, to, step) return { kind = "slice", from = from, to = to, step = step } end
function P.const(numbers, dtype) return { kind = "const", numbers = numbers, dtype = dtype } end
function P.text(text) return { kind = "text", text = text } end
function P.part(on, k) return { kind = "part", on = on, k = k } end              -- the k-th of a list, from 0
P.none, P.dots = { kind = "none" }, { kind = "dots" }
P.D = { kind = "dtype" }                                                        -- the program's own float type

local function number(x)
  if math.type(x) == "integer" then return tostring(x) end
  if x == math.huge then return "math.huge" elseif x == -math.huge then return "-math.huge" end
  return (("%.17g"):format(x):gsub("^(-?%d+)$", "%1.0"))
end

local function nested(numbers, open, close, show)
  if type(numbers) ~= "table" then return show(numbers) end
  local out = {}
  for i, x in ipairs(numbers) do out[i] = nested(x, open, close, show) end
  return open .. table.concat(out, ", ") .. close
end

local function sorted(options)
  local names = {}
  for name in pairs(options) do names[#names + 1] = name end
  table.sort(names)
  return names
end

local function each(tree, show)
  local out = {}
  for i = 1, #tree do out[i] = show(tree[i]) end
  return out
end

-- Names that the two languages spell differently.
local PYTHON = { tile = "repeat" }
local lua, python

local LUA = {
  method = function(t) return ("%s:%s(%s)"):format(lua(t.on), t.name, table.concat(each(t, lua), ", ")) end,
  fn = function(t) return ("rs.%s(%s)"):format(t.name, table.concat(each(t, lua), ", ")) end,
  layer = function(t) return ("F.%s(%s)"):format(t.name, table.concat(each(t, lua), ", ")) end,
  op = function(t) return t[2] == nil and "(-" .. lua(t[1]) .. ")" or ("(%s %s %s)"):format(lua(t[1]), t.op, lua(t[2])) end,
  list = function(t) return "{" .. table.concat(each(t.items, lua), ", ") .. "}" end,
  keys = function(t)
    local out = {}
    for i, name in ipairs(sorted(t.options)) do out[i] = name .. " = " .. lua(t.options[name]) end
    return "{ " .. table.concat(out, ", ") .. " }"
  end,
  at = function(t)
    if #t == 1 and (type(t[1]) ~= "table" or t[1].kind == "const") then return lua(t.on) .. "[" .. lua(t[1]) .. "]" end
    return lua(t.on) .. "[{" .. table.concat(each(t, lua), ", ") .. "}]"
  end,
  slice = function(t) return ("rs.slice(%s, %s, %s)"):format(lua(t.from), lua(t.to), lua(t.step)) end,
  const = function(t)
    return ("rs.tensor(%s%s)"):format(nested(t.numbers, "{", "}", lua), t.dtype and ', { dtype = "' .. t.dtype .. '" }' or "")
  end,
  text = function(t) return ("%q"):format(t.text) end,
  part = function(t) return ("(%s)[%d]"):format(lua(t.on), t.k + 1) end,
  none = function() return "rs.none" end,
  dots = function() return '"..."' end,
  dtype = function() return "D" end,
}
function lua(t)
  if type(t) == "table" then return LUA[t.kind](t) end
  return type(t) == "number" and number(t) or tostring(t)
end

local PY = {
  method = function(t) return ("%s.%s(%s)"):format(python(t.on), PYTHON[t.name] or t.name, table.concat(each(t, python), ", ")) end,
  fn = function(t) return ("torch.%s(%s)"):format(t.name, table.concat(each(t, python), ", ")) end,
  layer = function(t) return ("F.%s(%s)"):format(t.name, table.concat(each(t, python), ", ")) end,
  op = function(t)
    return t[2] == nil and "(-" .. python(t[1]) .. ")" or
      ("(%s %s %s)"):format(python(t[1]), ({ ["^"] = "**", ["~"] = "^" })[t.op] or t.op, python(t[2]))
  end,
  list = function(t) return "[" .. table.concat(each(t.items, python), ", ") .. "]" end,
  keys = function(t)
    local out = {}
    for i, name in ipairs(sorted(t.options)) do out[i] = name .. "=" .. python(t.options[name]) end
    return table.concat(out, ", ")
  end,
  at = function(t) return python(t.on) .. "[" .. table.concat(each(t, python), ", ") .. "]" end,
  slice = function(t)
    local function part(x) return x == nil and "" or python(x) end
    return ("%s:%s:%s"):format(part(t.from), part(t.to), part(t.step))
  end,
  const = function(t)
    return ("torch.tensor(%s%s)"):format(nested(t.numbers, "[", "]", python), t.dtype and ", dtype=torch." .. t.dtype or "")
  end,
  text = function(t) return ("%q"):format(t.text) end,
  part = function(t) return ("%s[%d]"):format(python(t.on), t.k) end,
  none = function() return "None" end,
  dots = function() return "..." end,
  dtype = function() return "D" end,
}
function python(t)
  if type(t) == "table" then return PY[t.kind](t) end
  if type(t) == "boolean" then return t and "True" or "False" end
  if t == nil then return "None" end
  return type(t) == "number" and (number(t):gsub("math.huge", "float('inf')")) or tostring(t)
end
P.lua, P.python = lua, python

function P.lua_step(step)
  if step.target then return lua(step.target) .. " = " .. lua(step.expr) end
  if not step.names then return lua(step.expr) end
  return "local " .. table.concat(step.names, ", ") .. " = " .. lua(step.expr)
end

function P.python_step(step)
  if step.target then return python(step.target) .. " = " .. python(step.expr) end
  if not step.names then return python(step.expr) end
  return table.concat(step.names, ", ") .. " = " .. python(step.expr)
end

-- ---- whole programs: { leaves = { { name, shape, numbers } }, steps, outputs = { names } } ----

-- As a function of its leaves, which returns its outputs.
function P.source(program)
  local names, out = {}, {}
  for i, leaf in ipairs(program.leaves) do names[i] = leaf.name end
  out[1] = "local function program(" .. table.concat(names, ", ") .. ")"
  for _, step in ipairs(program.steps) do out[#out + 1] = "  " .. P.lua_step(step) end
  out[#out + 1] = "  return " .. table.concat(program.outputs, ", ")
  out[#out + 1] = "end"
  return table.concat(out, "\n")
end

function P.leaf_source(leaf)
  local options = leaf.dtype and ('"' .. leaf.dtype .. '"') or "D"
  return ("rs.tensor({%s}, { dtype = %s }):reshape {%s}"):format(table.concat(each(leaf.numbers, lua), ", "), options,
    table.concat(leaf.shape, ", "))
end

-- To paste in a lesson.
function P.lesson(program, dtype)
  local out = { 'local rs = require "ringside"', "local F = rs.nn.functional", ('local D = "%s"'):format(dtype or "float64") }
  for _, leaf in ipairs(program.leaves) do
    out[#out + 1] = "local " .. leaf.name .. " = " .. P.leaf_source(leaf) .. (leaf.dtype and "" or ":requires_grad_()")
  end
  out[#out + 1] = P.source(program)
  local names = {}
  for i, leaf in ipairs(program.leaves) do names[i] = leaf.name end
  out[#out + 1] = ("print(program(%s))"):format(table.concat(names, ", "))
  return table.concat(out, "\n")
end

-- The function, for elements of this type.
function P.load(rs, program, dtype)
  local chunk = assert(load("local rs, F, D = ...\n" .. P.source(program) .. "\nreturn program", "=program"))
  return chunk(rs, rs.nn.functional, dtype)
end

-- Fresh leaves with the program's numbers.
function P.leaves(rs, program, dtype)
  local out = {}
  for i, leaf in ipairs(program.leaves) do
    out[i] = rs.tensor(leaf.numbers, { dtype = leaf.dtype or dtype }):reshape(leaf.shape)
    if not leaf.dtype then out[i]:requires_grad_() end
  end
  return out
end

-- ---- shrinking: steps go, one by one from the last, as long as `fails` stays true ----
function P.without(program, part, i)
  local fewer = {}
  for name, value in pairs(program) do fewer[name] = value end
  fewer[part] = table.move(program[part], 1, #program[part], 1, {})
  table.remove(fewer[part], i)
  return fewer
end

function P.shrink(program, fails)
  local best, again = program, true
  while again do
    again = false
    for i = #best.steps, 1, -1 do
      local fewer = P.without(best, "steps", i)
      if fails(fewer) then best, again = fewer, true end
    end
    for i = #best.outputs, 1, -1 do
      if #best.outputs == 1 then break end
      local fewer = P.without(best, "outputs", i)
      if fails(fewer) then best, again = fewer, true end
    end
    for i = #best.leaves, 1, -1 do
      local fewer = P.without(best, "leaves", i)
      if #fewer.leaves > 0 and fails(fewer) then best, again = fewer, true end
    end
  end
  return best
end

-- ---- numbers drawn from a seed: xorshift, the same everywhere ----
function P.stream(seed)
  local state = (seed * 0x9E3779B97F4A7C15) ~ 0x2545F4914F6CDD1D
  if state == 0 then state = 1 end
  local s = {}
  function s.bits()
    state = state ~ (state << 13)
    state = state ~ (state >> 7)
    state = state ~ (state << 17)
    return (state * 0x2545F4914F6CDD1D) >> 33
  end
  function s.int(low, high) return low + s.bits() % (high - low + 1) end
  function s.pick(list) return list[s.int(1, #list)] end
  function s.chance(one_in) return s.int(1, one_in) == 1 end
  for _ = 1, 4 do s.bits() end
  return s
end

-- ---- bits: one number for all elements of some tensors ----
function P.hash(tensors)
  local h = 0x1234567
  for _, t in ipairs(tensors) do
    for _, x in ipairs(t.shape) do h = (h ~ x) * 0x100000001B3 end
    if t:numel() > 0 then
      for _, x in ipairs(t:detach():reshape { -1 }:tolist()) do
        if x ~= x then x = 0.0 end
        local bits = math.type(x) == "float" and string.unpack("<i8", string.pack("<d", x)) or (type(x) == "boolean" and (x and 1 or 0) or x)
        h = (h ~ bits) * 0x100000001B3
        h = h ~ (h >> 29)
      end
    end
  end
  return h
end

return P
