-- Random programs, and what becomes of them here, written for tests/parity/random_twin.py: a block per program of its
-- leaves, each step as Python with what it gave (or ERR), the outputs' and gradients' elements.
-- Arguments: first=SEED count=N wild=1 (arguments that need not fit: a program ends with its
-- first error, which PyTorch must have, too).
local rs = require "ringside"
rs.lesson { title = "Parity of random programs", devices = 1, prefix = "" }

local P = assert(loadfile("tests/programs/program.lua"))()
local floats = assert(loadfile("tests/programs/floats.lua"))(P)
local options = { first = 1, count = 100 }
for _, word in ipairs { ... } do
  local name, value = word:match("^(%w+)=(%w+)$")
  options[name] = math.tointeger(value) or value
end

local function show(t)
  local out = { t.dtype, "[" .. table.concat(t.shape, ",") .. "]" }
  for _, x in ipairs(t:numel() == 0 and {} or t:detach():reshape { -1 }:tolist()) do
    out[#out + 1] = math.type(x) == "float" and ("%.17g"):format(x) or tostring(x)
  end
  return table.concat(out, " ")
end
local function words(err) return (tostring(err):gsub("\n", " ")) end

-- Numbers of a step are changed now and then, so that they may not fit any more.
local function wild(s, tree)
  if math.type(tree) == "integer" then return s.chance(5) and s.int(-3, 4) or tree end
  if type(tree) ~= "table" then return tree end
  local out = {}
  for key, value in pairs(tree) do out[key] = value end
  if tree.kind == "const" or tree.kind == "part" then return out end
  if tree.kind == "keys" or tree.name == "tile" then return out end
  for _, key in ipairs { 1, 2, 3, 4, 5, 6, 7, 8, "from", "to" } do
    if out[key] ~= nil then out[key] = wild(s, out[key]) end
  end
  if tree.kind == "list" then
    out.items = {}
    for i, item in ipairs(tree.items) do out.items[i] = wild(s, item) end
  end
  return out
end

for seed = options.first, options.first + options.count - 1 do
  local program, refused = floats.new(rs, seed)
  local s = P.stream(seed + 12345)
  if refused then table.insert(program.steps, refused) end
  print("PROGRAM " .. seed)
  local env = setmetatable({ rs = rs, F = rs.nn.functional, D = "float32" }, { __index = _G })
  for i, leaf in ipairs(P.leaves(rs, program, "float32")) do
    local name = program.leaves[i].name
    env[name] = leaf
    print(("LEAF %s [%s] %s"):format(name, table.concat(leaf.shape, ","), table.concat(program.leaves[i].numbers, " ")))
  end
  local failed = false
  for _, step in ipairs(program.steps) do
    if options.wild then
      step = { names = step.names, target = step.target and wild(s, step.target), expr = wild(s, step.expr) }
    end
    print("STEP " .. P.python_step(step))
    local text = step.names and table.concat(step.names, ", ") .. " = " .. P.lua(step.expr) or P.lua_step(step)
    local ok, err = pcall(assert(load(text, "=step", "t", env)))
    if not ok then
      print("ERR " .. words(err))
      failed = true
      break
    elseif step.names then
      local t = env[step.names[1]]
      print("GAVE " .. (rs.is_tensor(t) and show(t) .. " " .. tostring(t.grad_fn) or tostring(t)))
    else
      print "DONE"
    end
  end
  local loss
  for _, name in ipairs(failed and {} or program.outputs) do
    local t = env[name]
    if rs.is_tensor(t) and t.requires_grad then
      print("OUT " .. name)
      local ok, sum = pcall(function() return (t * t):sum() end)
      if ok then loss = loss and loss + sum or sum end
    end
  end
  if loss then
    local ok, err = pcall(loss.backward, loss)
    print(ok and "BACKWARD" or "ERR " .. words(err))
    for i = 1, ok and #program.leaves or 0 do
      local name = program.leaves[i].name
      print("GRAD " .. name .. " " .. (env[name].grad and show(env[name].grad) or "None"))
    end
  end
end
