-- Random modules with random nests of inputs, as Lua text: what nn.DataParallel is given. A program is
--   { devices, dim, rows, dtype, exact, ..., leaves = { { name, shape, ids, grad } }, steps = { { names, init, code } }, outputs }
-- Shapes hold "N" where the rows lie. Every value of a forward keeps its rows apart (but for BatchNorm in training), so that
-- mathematics says what several devices must answer. `exact`: whole numbers in float64, where no sum rounds.
local P = ...
local nets = {}

-- ---- text ----

local function joined(list, between) return table.concat(list, between or ", ") end

-- A nest of inputs or outputs: { kind = "leaf", name }, { kind = "plain", text } or { kind = tuple/list/dict/named, ... }.
local FIELDS, OPEN = { dict = "k%d", named = "f%d" }, { tuple = "rs.tuple { ", list = "{ ", dict = "{ ", named = "Pair { " }
local function nest_text(nest, known)
  if nest.kind == "leaf" then return known[nest.name] and nest.name or "0" end
  if nest.kind == "plain" then return nest.text end
  local parts = {}
  for i, part in ipairs(nest) do
    local field = FIELDS[nest.kind]
    parts[i] = (field and field:format(i) .. " = " or "") .. nest_text(part, known)
  end
  return OPEN[nest.kind] .. joined(parts) .. " }"
end

-- Where each leaf of a nest is found: name -> "a1[2].k1".
local function nest_paths(nest, path, out)
  if nest.kind == "leaf" then out[nest.name] = path end
  for i, part in ipairs(nest) do
    local field = FIELDS[nest.kind]
    nest_paths(part, path .. (field and "." .. field:format(i) or "[" .. i .. "]"), out)
  end
  return out
end

local function known_leaves(program)
  local known = {}
  for _, leaf in ipairs(program.leaves) do known[leaf.name] = true end
  return known
end

local function names_of(leaves)
  local names = {}
  for i, leaf in ipairs(leaves) do names[i] = leaf.name end
  return names
end

-- The arguments as a function of the leaves: (x1, x2) -> a list of positional ones, a table of keywords or nil.
local function given_text(program)
  local known, args, kwargs = known_leaves(program), {}, {}
  for i, nest in ipairs(program.args) do args[i] = nest_text(nest, known) end
  for i, nest in ipairs(program.kwargs) do kwargs[i] = "w" .. i .. " = " .. nest_text(nest, known) end
  return ("local function given(%s)\n  return { %s }, %s\nend"):format(joined(names_of(program.leaves)), joined(args),
    #kwargs > 0 and "{ " .. joined(kwargs) .. " }" or "nil")
end

local function forward_text(program)
  local known, paths, head, out = known_leaves(program), {}, {}, {}
  for i, nest in ipairs(program.args) do
    head[i] = "a" .. i
    nest_paths(nest, "a" .. i, paths)
  end
  for i, nest in ipairs(program.kwargs) do nest_paths(nest, "kw.w" .. i, paths) end
  if #program.kwargs > 0 then head[#head + 1] = "kw" end
  out[1] = ("function Net:forward(%s)"):format(joined(head))
  for _, leaf in ipairs(program.leaves) do out[#out + 1] = ("  local %s = %s"):format(leaf.name, paths[leaf.name]) end
  for _, step in ipairs(program.steps) do out[#out + 1] = "  " .. step.code end
  local results = {}
  for i, nest in ipairs(program.outputs) do results[i] = nest_text(nest, setmetatable({}, { __index = function() return true end })) end
  out[#out + 1] = "  return " .. joined(results)
  out[#out + 1] = "end"
  return joined(out, "\n")
end

-- The module's class, and how its arguments are made.
function nets.source(program)
  local out = { 'local Pair = rs.namedtuple("Pair", { "f1", "f2" })', 'local Net = nn.Module("Net")', "function Net:init()" }
  for _, step in ipairs(program.steps) do
    for _, line in ipairs(step.init or {}) do out[#out + 1] = "  " .. line end
  end
  out[#out + 1] = "end"
  return joined(out, "\n") .. "\n" .. forward_text(program) .. "\n" .. given_text(program)
end

function nets.load(rs, program)
  return assert(load("local rs, nn = ...\n" .. nets.source(program) .. "\nreturn Net, given", "=program"))(rs, rs.nn)
end

-- What a person reads of a failure.
function nets.describe(program)
  local lines = {}
  for _, leaf in ipairs(program.leaves) do
    lines[#lines + 1] = ("-- %s: { %s } %s%s"):format(leaf.name, joined(leaf.shape),
      leaf.ids and "int64 below " .. leaf.ids or program.dtype, leaf.grad and ", with a gradient" or "")
  end
  return joined(lines, "\n") .. ("\n-- N = %d on devices { %s } along dim %d; output_device %s; inputs on %s; %d steps; %s%s\n"):format(
    program.rows, joined(program.devices), program.dim, program.output, program.where, program.iterations,
    (program.functional and "data_parallel()" or "DataParallel") .. (program.blind and ", no_grad" or ""), program.train and ", training" or ", eval") .. nets.source(program)
end

-- ---- drawing ----

local G = {}
G.__index = G

function G:name(prefix) self.names = self.names + 1 return prefix .. self.names end

-- A step: value names and types as results, `init` lines for its modules.
function G:step(type, size, code, init)
  local name = self:name "v"
  table.insert(self.program.steps, { names = { name }, init = init, code = ("local %s = %s"):format(name, code) })
  local value = { name = name, type = type, size = size }
  table.insert(self.values, value)
  return value
end

function G:value(type)
  local fit = {}
  for _, value in ipairs(self.values) do
    if value.type == type then fit[#fit + 1] = value end
  end
  if #fit > 0 then return self.s.pick(fit) end
end

-- One module line, its name and a call of it.
function G:module(text)
  local name = self:name "m"
  return "self." .. name, "self." .. name .. " = " .. text
end

-- Types: mat [N, F], seq [N, T, F], img [N, C, 3, 3], turned [T, N, F], state [1, N, F]; ids are leaves only.
local ROWS_FIRST = { mat = { "N", "F" }, seq = { "N", 2, "F" }, img = { "N", "F", 3, 3 } }
local IDS = { mat = { "N" }, seq = { "N", 2 }, turned = { 2, "N" } }

function G:leaf(type)
  local leaf = { name = "x" .. #self.program.leaves + 1, shape = {} }
  local ids = type ~= "img" and self.s.chance(4)
  local size = self.s.int(1, 3)
  local shape = ids and IDS[type] or type == "turned" and { 2, "N", "F" } or ROWS_FIRST[type]
  for i, n in ipairs(shape) do leaf.shape[i] = n == "F" and size or n end
  leaf.ids, leaf.grad = ids and self.s.int(2, 6) or nil, not ids and self.s.chance(2)
  table.insert(self.program.leaves, leaf)
  local value = { name = leaf.name, type = ids and type .. " ids" or type, size = ids and leaf.ids or size }
  table.insert(self.values, value)
  if ids then self:embed(value, type) end
  return value
end

function G:embed(value, type)
  local size = self.s.int(1, 3)
  local sparse = self.s.chance(2)
  local self_name, init = self:module(("nn.Embedding(%d, %d%s)"):format(value.size, size, sparse and ", { sparse = true }" or ""))
  self.program.sparse = self.program.sparse or sparse
  return self:step(type, size, ("%s(%s)"):format(self_name, value.name), { init })
end

local WHOLE, ANY = {}, {} -- what keeps whole numbers whole; what does not
local function may(list, types, weight, draw) table.insert(list, { types = types, weight = weight, draw = draw }) end
local WIDE = "mat seq turned"

may(WHOLE, WIDE, 4, function(g, x)
  local size = g.s.int(1, 3)
  local name, init = g:module(("nn.Linear(%d, %d%s)"):format(x.size, size, g.s.chance(3) and ", { bias = false }" or ""))
  local lines = { init }
  if g.s.chance(6) then lines[2] = name .. ".weight:requires_grad_(false)" end
  return g:step(x.type, size, ("%s(%s)"):format(name, x.name), lines)
end)
-- The same module twice, or one weight with two names.
may(WHOLE, WIDE, 2, function(g, x)
  local a, init = g:module(("nn.Linear(%d, %d)"):format(x.size, x.size))
  if g.s.chance(2) then return g:step(x.type, x.size, ("%s(%s(%s):relu())"):format(a, a, x.name), { init }) end
  local b, other = g:module(("nn.Linear(%d, %d)"):format(x.size, x.size))
  return g:step(x.type, x.size, ("%s(%s(%s))"):format(a, b, x.name), { init, other, b .. ".weight = " .. a .. ".weight" })
end)
may(WHOLE, WIDE .. " img state", 2, function(g, x) return g:step(x.type, x.size, x.name .. ":relu()") end)
may(WHOLE, WIDE .. " img", 1, function(g, x) return g:step(x.type, x.size, ("%s * %d - %s"):format(x.name, g.s.pick { 2, -2, 3 }, x.name)) end)
may(WHOLE, WIDE, 2, function(g, x)
  local name = g:name "p"
  return g:step(x.type, x.size, ("%s * self.%s + self.%s"):format(x.name, name, name),
    { ("self.%s = nn.Parameter(rs.ones(%d))"):format(name, x.size) })
end)
may(WHOLE, WIDE, 1, function(g, x) -- a buffer that replica 0 counts in
  local name = g:name "b"
  return g:step(x.type, x.size, ("%s + self.%s:add_(1):clone()"):format(x.name, name),
    { ('self:register_buffer("%s", rs.zeros(%d))'):format(name, x.size) })
end)
may(WHOLE, WIDE, 2, function(g, x)
  local other = g:value(x.type)
  if other.size == x.size then return g:step(x.type, x.size, ("%s - %s"):format(x.name, other.name)) end
  return g:step(x.type, x.size + other.size, ("rs.cat({ %s, %s }, { dim = -1 })"):format(x.name, other.name))
end)
may(WHOLE, "seq", 1, function(g, x) return g:step("mat", x.size, x.name .. ":sum(1)") end)
may(WHOLE, "img", 3, function(g, x)
  local size = g.s.int(1, 2)
  local name, init = g:module(("nn.Conv2d(%d, %d, %d, { padding = %d })"):format(x.size, size, 3, 1))
  return g:step("img", size, ("%s(%s)"):format(name, x.name), { init })
end)
may(WHOLE, "img", 2, function(g, x) return g:step("mat", x.size, ("%s:sum { 2, 3 }"):format(x.name)) end)
may(WHOLE, "mat seq img", 1, function(g, x) -- never used
  local _, init = g:module "nn.Linear(2, 2)"
  return g:step(x.type, x.size, x.name .. ":clone()", { init })
end)
may(ANY, WIDE, 2, function(g, x) return g:step(x.type, x.size, x.name .. g.s.pick { ":tanh()", ":sigmoid()", ":softmax(-1)", ":exp():log1p()" }) end)
may(ANY, WIDE, 2, function(g, x) -- of one element it would be 0 / 0.003, and its gradient noise
  if x.size == 1 then return end
  local name, init = g:module(("nn.Sequential { nn.LayerNorm(%d), nn.GELU() }"):format(x.size))
  return g:step(x.type, x.size, ("%s(%s)"):format(name, x.name), { init })
end)
may(ANY, "mat img", 2, function(g, x)
  local name, init = g:module(("nn.BatchNorm%s(%d)"):format(x.type == "mat" and "1d" or "2d", x.size))
  g.program.norm = true
  return g:step(x.type, x.size, ("%s(%s)"):format(name, x.name), { init })
end)
may(ANY, "seq turned", 2, function(g, x)
  local name, init = g:module(("nn.%s(%d, 2, { batch_first = %s })"):format(g.s.pick { "LSTM", "GRU" }, x.size, x.type == "seq"))
  return g:step(x.type, 2, ("%s(%s)"):format(name, x.name), { init })
end)
may(ANY, "turned", 1, function(g, x) -- its last state has the rows along dim 1 as well
  local name, init = g:module(("nn.GRU(%d, 2)"):format(x.size))
  return g:step("state", 2, ("select(2, %s(%s))"):format(name, x.name), { init })
end)
may(ANY, "seq turned", 2, function(g, x)
  local name, init = g:module(("nn.MultiheadAttention(%d, 1, { batch_first = %s })"):format(x.size, x.type == "seq"))
  return g:step(x.type, x.size, ("(%s(%s, %s, %s))"):format(name, x.name, x.name, x.name), { init })
end)

function G:draw_step()
  local x = self.s.pick(self.values)
  local fit = {}
  for _, list in ipairs(self.program.exact and { WHOLE } or { WHOLE, ANY }) do
    for _, rule in ipairs(list) do
      if (" " .. rule.types .. " "):find(" " .. x.type .. " ", 1, true) then
        for _ = 1, rule.weight do fit[#fit + 1] = rule end
      end
    end
  end
  if #fit > 0 and x.size <= 6 then self.s.pick(fit).draw(self, x) end
end

-- Groups things into nests at random: a list of nests.
function G:nested(things)
  while #things > 1 and self.s.chance(2) do
    local from = self.s.int(1, #things - 1)
    local kind = self.s.pick { "tuple", "list", "dict", "named" }
    local pair = { kind = kind, things[from], things[from + 1] }
    table.remove(things, from + 1)
    things[from] = pair
  end
  if self.s.chance(4) then things[1] = { kind = self.s.pick { "tuple", "list", "dict" }, things[1] } end
  return things
end

local PLAIN = { "3", "0.5", '"word"', "true", "rs.none", "{}", "rs.tuple {}", "{ 1, 2, 3 }", '{ mode = "sum" }' }

function G:draw_arguments()
  local program, leaves = self.program, {}
  for _, leaf in ipairs(program.leaves) do leaves[#leaves + 1] = { kind = "leaf", name = leaf.name } end
  if self.s.chance(3) then table.insert(leaves, 1, table.remove(leaves)) end
  if #leaves > 1 and self.s.chance(3) then program.kwargs = self:nested { table.remove(leaves) } end
  local things = {}
  for _, leaf in ipairs(leaves) do
    things[#things + 1] = leaf
    if self.s.chance(3) then things[#things + 1] = { kind = "plain", text = self.s.pick(PLAIN) } end
  end
  -- What stands first is a leaf: a bare table in front would be the one list of all arguments.
  program.args = self:nested(things)
end

function G:draw_outputs()
  local program, things = self.program, {}
  for k = #self.values, math.max(#self.values - self.s.int(0, 2), 1), -1 do
    local value = self.values[k]
    if not value.type:find "ids" then things[#things + 1] = { kind = "leaf", name = value.name } end
  end
  if program.inside then
    local terms = {}
    for i, thing in ipairs(things) do terms[i] = ("(%s * %s):%s()"):format(thing.name, thing.name, program.inside) end
    table.insert(program.steps, { names = { "loss" }, code = "local loss = " .. joined(terms, " + ") })
    things = { { kind = "leaf", name = "loss" } }
    if not program.exact and self.s.chance(2) then things[2] = things[1] end
  end
  program.outputs = self:nested(things)
end

-- Rows of each replica, by the rule of chunk.
function nets.chunks(rows, devices)
  local each, out = math.ceil(rows / devices), {}
  for start = 0, rows - 1, each do out[#out + 1] = math.min(each, rows - start) end
  return out
end

local function some_devices(s)
  local ids, out = { 0, 1, 2, 3, 4, 5, 6, 7 }, {}
  for i = 1, s.int(1, 8) do out[i] = s.chance(3) and table.remove(ids, s.int(1, #ids)) or table.remove(ids, 1) end
  return out
end

function nets.new(seed)
  local s = P.stream(seed)
  local program = { devices = some_devices(s), rows = s.int(1, 10), exact = s.chance(2), leaves = {}, steps = {}, args = {},
    kwargs = {}, outputs = {}, dim = s.chance(4) and 1 or 0, iterations = s.int(1, 2), functional = s.chance(3),
    blind = s.chance(8) }
  program.dtype = (program.exact or s.chance(2)) and "float64" or "float32"
  program.where = s.pick { "cpu", program.devices[1], program.devices[#program.devices] }
  program.output = s.pick { "default", "default", "cpu", program.devices[#program.devices] }
  program.inside = program.dim == 0 and s.chance(4) and s.pick { "sum", "mean" } or nil
  if program.exact then program.inside = program.inside and "sum" end
  local g = setmetatable({ s = s, names = 0, program = program, values = {} }, G)
  for _ = 1, s.int(1, 3) do g:leaf(program.dim == 1 and "turned" or s.pick { "mat", "seq", "img" }) end
  for _ = 1, s.int(1, program.exact and 4 or 7) do g:draw_step() end
  local chunks = nets.chunks(program.rows, #program.devices)
  program.train = s.chance(2) and chunks[#chunks] > 1
  g:draw_arguments()
  g:draw_outputs()
  return program
end

return nets
