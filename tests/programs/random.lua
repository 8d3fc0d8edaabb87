-- Random programs. Arguments: first=SEED count=N, mode=check (all of it), mode=bits (a line of bits a program, to be
-- compared between executors and builds), mode=show (the programs as Lua). announce=1 prints each before it runs.
-- A program that fails is shrunk and printed as Lua, to be pasted in a lesson.
local rs = require "ringside"
rs.lesson { title = "Random programs", devices = 1, prefix = "" }
local P = assert(loadfile "tests/programs/program.lua")()
local floats = assert(loadfile "tests/programs/floats.lua")(P)

io.stdout:setvbuf "line"
local options = { first = 1, count = 1000, mode = "check" }
for _, word in ipairs { ... } do
  local name, value = word:match("^(%w+)=(%w+)$")
  if not name then error("an argument is NAME=VALUE, not " .. word) end
  options[name] = math.tointeger(value) or value
end

-- ---- what is computed of a program ----

local weights = {}
-- Fixed factors, so that no two elements of an output weigh the same.
local function weight(shape, k, dtype)
  local name = table.concat(shape, ",") .. ":" .. k .. dtype
  if not weights[name] then
    local numbers = {}
    for i = 1, floats.count(shape) do numbers[i] = ((i * 7 + k * 3) % 16 + 1) / 16 end
    weights[name] = rs.tensor(numbers, { dtype = dtype }):reshape(shape)
  end
  return weights[name]
end
local function loss_of(outputs, dtype)
  local loss
  for k, out in ipairs(outputs) do
    local term = (out * weight(out.shape, k, dtype)):sum()
    loss = loss and loss + term or term
  end
  return loss
end

-- Outputs, the loss and the gradients, after one backward or two.
local function evaluate(program, dtype, twice)
  local leaves = P.leaves(rs, program, dtype)
  local outputs = { P.load(rs, program, dtype)(table.unpack(leaves)) }
  local loss = loss_of(outputs, dtype)
  if twice then loss:backward { retain_graph = true } end
  loss:backward()
  local out = { outputs = outputs, loss = loss, gradients = {} }
  for i, leaf in ipairs(leaves) do out.gradients[i] = leaf.grad or rs.zeros_like(leaf) end
  return out
end

local function values(t) return t:numel() == 0 and {} or t:detach():reshape { -1 }:tolist() end
local function largest(tensors)
  local most = 0
  for _, t in ipairs(tensors) do
    for _, x in ipairs(values(t)) do most = math.max(most, math.abs(x)) end
  end
  return most
end

local worst = { outputs = 0, gradients = 0 }
-- float32 against float64: errors in units of float32's precision and of the largest number about.
local function compare(what, single, double, scale, bound)
  for k, t in ipairs(single) do
    if not floats.same(t.shape, double[k].shape) then
      return ("%s %d is %s in float32, %s in float64"):format(what, k, t.shape, double[k].shape)
    end
    local a, b = values(t), values(double[k])
    for i = 1, #a do
      local err = math.abs(a[i] - b[i]) / scale / 2 ^ -24
      if not (err <= bound) then
        return ("%s %d: element %d is %.9g in float32, %.9g in float64, %.0f units apart"):format(what, k, i - 1, a[i], b[i], err)
      end
      worst[what] = math.max(worst[what], err)
    end
  end
end

local SCALE = 40
local function check_precision(program, seed)
  local twice = seed % 3 == 0
  local double = evaluate(program, "float64")
  local single = evaluate(program, "float32", twice)
  local size = largest(double.gradients)
  if size > 1e4 then return nil end
  local complaint = compare("outputs", single.outputs, double.outputs, SCALE, 1000)
  if complaint then return complaint end
  if twice then
    for i, g in ipairs(single.gradients) do single.gradients[i] = g / 2 end
  end
  return compare("gradients", single.gradients, double.gradients, SCALE + size, 20000)
end

local function check_gradients(program)
  local f = P.load(rs, program, "float64")
  local leaves = P.leaves(rs, program, "float64")
  rs.gradcheck(function(...) return loss_of({ f(...) }, "float64") end, leaves)
end

-- The gradients' own gradients.
local function check_second(program)
  local f = P.load(rs, program, "float64")
  local leaves = P.leaves(rs, program, "float64")
  rs.gradcheck(function(...)
    local loss = loss_of({ f(...) }, "float64")
    local grads = { rs.autograd.grad({ loss }, { ... }, { create_graph = true, allow_unused = true }) }
    local second
    for i, leaf in ipairs { ... } do
      local g = grads[i]
      if rs.is_tensor(g) and g.requires_grad then
        local term = (g * weight(g.shape, i, "float64")):sum()
        second = second and second + term or term
      end
    end
    return second or loss * 0
  end, leaves, { atol = 1e-4 })
end

-- ---- checks ----

-- nil, or what is wrong with the program: its kind and its words.
local function check(program, seed)
  local ok, complaint = pcall(check_precision, program, seed)
  if not ok then return "error", tostring(complaint) end
  if complaint then return "precision", complaint end
  if program.detached then return end
  ok, complaint = pcall(check_gradients, program)
  if not ok then return "gradients", tostring(complaint) end
  if seed % 4 == 0 and not program.once then
    ok, complaint = pcall(check_second, program)
    if not ok then return "second gradients", tostring(complaint) end
  end
end

local sweeper = rs.nn.Linear(1, 1)
local function memory()
  for _ = 1, 2 do
    collectgarbage()
    sweeper:zero_grad()
  end
  return rs.cuda.memory_allocated("cpu")
end

local function tell(seed, program, kind, words)
  local shape = words:gsub("[-%d.e]+", "N")
  local small = P.shrink(program, function(p)
    local other, text = check(p, seed)
    return other == kind and (kind == "precision" or kind:find "gradients" and text:find "mismatch" or text:gsub("[-%d.e]+", "N") == shape)
  end)
  local _, now = check(small, seed)
  print(("# seed %d: %s: %s\n%s"):format(seed, kind, now or words, P.lesson(small)))
end

local failures, leaks, refusals, done = 0, 0, 0, 0

local function one(seed)
  local program, step, err = floats.new(rs, seed)
  if err then
    refusals = refusals + 1
    print(("# seed %d: refused: %s\n%s\n%s"):format(seed, err, P.lesson(program), P.lua_step(step)))
    return
  end
  if options.mode == "show" or options.announce then print("-- seed " .. seed .. "\n" .. P.lesson(program)) end
  if #program.outputs == 0 then return end
  done = done + 1
  if options.mode == "bits" then
    local ok, got = pcall(evaluate, program, seed % 2 == 0 and "float64" or "float32", seed % 3 == 0)
    local tensors = ok and table.move(got.gradients, 1, #got.gradients, #got.outputs + 1, got.outputs) or {}
    print(("%d %016x"):format(seed, P.hash(tensors)))
  elseif options.mode == "check" then
    local kind, words = check(program, seed)
    if kind == "gradients" or kind == "error" then
      if words:find "modified by an in%-?place" or words:find "multiple views" then return end -- PyTorch refuses those too
    end
    if kind then
      failures = failures + 1
      tell(seed, program, kind, words)
    end
  end
end

weight({}, 1, "float64")
for seed = options.first, options.first + options.count - 1 do
  weights = {}
  local before = memory()
  one(seed)
  weights = {}
  local after = memory()
  if after ~= before then
    leaks = leaks + 1
    print(("# seed %d leaves %d bytes behind"):format(seed, after - before))
  end
end
print(("# %d programs; float32 was at most %.0f units off in outputs, %.0f in gradients"):format(done, worst.outputs, worst.gradients))
if options.mode == "check" then
  rs.check("float32 agrees with float64, gradients with differences, first and second", failures == 0)
  rs.check("no step with right arguments is refused", refusals == 0)
  rs.check("every program gives all its memory back", leaks == 0)
end
