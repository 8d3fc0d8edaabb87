-- Types of elements. dtypes.json holds expressions with what PyTorch answers: dtype and elements, or "error" (with
-- PyTorch's words where they are ours too); "~": elements may differ in the last digits of a float32.
local rs = require "ringside"
rs.lesson { title = "Types of elements", devices = 1, prefix = "" }

local made = {
  u = { "uint8", { 0, 1, 200, 255 }, 3 }, i = { "int32", { 0, 1, -7, 2147483647 }, -3 },
  c = { "int8", { 0, 1, -7, 127 }, -5 },
  l = { "int64", { 0, 1, -7, 1 << 40 }, 5 }, b = { "bool", { false, true, true, false }, true },
  h = { "float16", { 0.0, 1.5, -2.25, 65504.0 }, 0.1 },
  g = { "bfloat16", { 0.0, 1.5, -2.25, 100000.0 }, 0.3 },
  f = { "float32", { 0.0, 1.1, -2.7, 1e10 }, 0.7 }, d = { "float64", { 0.0, 1.1, -2.7, 1e300 }, 1.9 },
}

-- What the expressions name: four elements and a 0-dim tensor of each type (u, u0), divisors, a mask of bytes.
local function operands()
  local env = { rs = rs, select = select, tostring = tostring, LT = rs.lt }
  for name, of in pairs(made) do
    env[name] = rs.tensor(of[2], { dtype = of[1] })
    env[name .. "0"] = rs.tensor(of[3], { dtype = of[1] })
  end
  env.p = rs.tensor({ 1, 2, 200, 255 }, { dtype = "uint8" })
  env.q = rs.tensor({ 3, -2, 5, -7 }, { dtype = "int32" })
  env.o = rs.tensor({ 3, -2, 5, -7 }, { dtype = "int8" })
  env.m = rs.tensor({ 1, 0, 1, 0 }, { dtype = "uint8" })
  env.EQ = function(a, b)
    if type(a) == "number" then a, b = b, a end
    return rs.eq(a, b)
  end
  env.draw = function(seed, dtype, shape, fill)
    rs.manual_seed(seed)
    return fill(rs.empty(shape, { dtype = dtype }))
  end
  return env
end

local function number_text(x)
  if type(x) == "boolean" then return x and "1" or "0" end
  if math.type(x) == "integer" then return tostring(x) end
  if x ~= x then return "nan" end
  if x == math.huge or x == -math.huge then return x > 0 and "inf" or "-inf" end
  return ("%.17g"):format(x)
end

local function answer(text)
  local f = assert(load("return " .. text, text, "t", operands()))
  local ok, result = pcall(f)
  if not ok then return "error " .. tostring(result.message or result) end
  if type(result) == "boolean" then return result and "True" or "False" end
  if not rs.is_tensor(result) then return tostring(result) end
  local words, list = { result.dtype }, result:reshape { -1 }:tolist()
  for k = 1, #list do words[#words + 1] = number_text(list[k]) end
  return table.concat(words, " ")
end

local function same(got, wanted, loose)
  if wanted:sub(1, 5) == "error" then
    return got:sub(1, 5) == "error" and got:find(wanted:sub(7), 1, true) ~= nil
  end
  local a, b = {}, {}
  for word in got:gmatch("%S+") do a[#a + 1] = word end
  for word in wanted:gmatch("%S+") do b[#b + 1] = word end
  for k = 1, math.max(#a, #b) do
    local x, y = tonumber(a[k]), tonumber(b[k])
    local near = x and y and math.abs(x - y) <= (loose and 3e-7 * math.abs(y) or 0)
    if a[k] ~= b[k] and not near then return false end
  end
  return true
end

for _, group in ipairs(rs.json_load("tests/ops/dtypes.json")) do
  local wrong = 0
  for _, case in ipairs(group.cases) do
    local got = answer(case[1])
    if not same(got, case[2], case[3]) then
      wrong = wrong + 1
      print("# " .. case[1] .. ": got " .. got .. ", PyTorch has " .. case[2])
    end
  end
  rs.check(("%s (%d cases)"):format(group.name, #group.cases), wrong == 0)
end

local function fails(words, f, ...)
  local ok, err = pcall(f, ...)
  return not ok and tostring(err.message or err):find(words, 1, true) ~= nil
end

-- Gradients
local x = rs.tensor({ 1.5, -2.25 }, { dtype = "float64", requires_grad = true })
local y = (x:half() * 3):float():bfloat16():double()
rs.sum(y * rs.tensor({ 1.0, 1e-3 }, { dtype = "float64" })):backward()
local slope = rs.tensor({ 1e-3 }):bfloat16():float():half() * 3
rs.check("gradients go back through casts in the type of each step, and arrive in the leaf's",
         x.grad.dtype == "float64" and x.grad[0]:item() == 3 and x.grad[1]:item() == slope[0]:item())
rs.check("integers cannot require gradients", fails("only Tensors of floating point dtype can require gradients",
         rs.zeros, { 2 }, { dtype = "uint8", requires_grad = true }))

-- Modules
local m = rs.nn.Sequential(rs.nn.Linear(3, 2), rs.nn.BatchNorm1d(2))
local weight = m[0].weight
local before = weight:clone()
rs.check("half() casts parameters and buffers of fractions alone, and parameters stay the same objects",
         m:half()[0].weight == weight and weight.dtype == "float16" and m[1].running_mean.dtype == "float16"
         and m[1].num_batches_tracked.dtype == "int64" and rs.equal(weight, before:half()))
rs.check("to() takes a dtype, beside a device too", m:to("device:0", "float64")[0].bias.dtype == "float64"
         and m[0].bias.device == "device:0" and m:to { dtype = "float32", device = "cpu" }[0].bias.dtype == "float32")
rs.check("a module is not made of integers", fails("only accepts floating point dtypes", m.to, m, "int32"))
local soft = rs.nn.Linear(3, 2):bfloat16()
soft(rs.ones({ 4, 3 }, { dtype = "bfloat16" })):float():sum():backward()
rs.check("a layer of bfloat16 learns in bfloat16",
         soft.weight.grad.dtype == "bfloat16" and soft.weight.grad:float():eq(4):all():item())
local half = rs.ones({ 2 }, { dtype = "half" })
rs.check("on a device float16 is calculated with as on the CPU",
         rs.equal(half:exp(), half:to("device:0"):exp():cpu()) and half:exp().dtype == "float16")

-- The default type
rs.set_default_dtype("float64")
local fresh = rs.tensor { 0.5 }
rs.check("the default dtype is that of new fractions, of quotients of integers, of layers, and is not printed",
         fresh.dtype == "float64" and (rs.tensor { 1 } / 2).dtype == "float64" and rs.rand({ 2 }).dtype == "float64"
         and rs.nn.Linear(1, 1).weight.dtype == "float64" and tostring(fresh) == "tensor([0.5000])")
rs.set_default_dtype(rs.float)
rs.check("it is one of fractions", rs.get_default_dtype() == "float32"
         and fails("only floating-point types are supported as the default type", rs.set_default_dtype, "int64"))
rs.check("finfo and iinfo know the limits", rs.finfo("half").max == 65504 and rs.finfo("half").eps == 2 ^ -10
         and rs.finfo("bfloat16").max == 0x1.fep127 and rs.finfo("bfloat16").tiny == 2 ^ -126
         and rs.finfo("float32").max == 0x1.fffffep127 and rs.finfo("float64").min == -0x1.fffffffffffffp1023
         and rs.iinfo("uint8").max == 255 and rs.iinfo(rs.int).min == -2147483648
         and rs.iinfo("int8").min == -128 and rs.iinfo(rs.int8).max == 127 and rs.iinfo(rs.char).bits == 8
         and rs.iinfo("int64").min == math.mininteger and rs.iinfo("int64").max == math.maxinteger)

-- Files
local path = os.tmpname()
local kept = {}
for name, of in pairs(made) do kept[name] = rs.tensor(of[2], { dtype = of[1] }) end
rs.save(kept, path)
local back, equal = rs.load(path), true
for name, t in pairs(kept) do equal = equal and back[name].dtype == t.dtype and rs.equal(back[name], t) end
os.remove(path)
rs.check("files keep every type", equal)

-- DataParallel and collectives
local model = rs.nn.DataParallel(rs.nn.Linear(3, 2):bfloat16():cuda(0), { device_ids = { 0 } })
rs.check("DataParallel scatters and gathers bfloat16",
         model(rs.ones({ 4, 3 }, { dtype = "bfloat16", device = "device:0" })).dtype == "bfloat16")
local sums = rs.distributed.spawn(function(rank)
  local dist, out = rs.distributed, {}
  for _, name in ipairs { "uint8", "int8", "int32", "float16", "bfloat16" } do
    local t = rs.full({ 5 }, 90 + rank, { dtype = name })
    dist.all_reduce(t)
    out[#out + 1] = t.dtype .. " " .. math.tointeger(t[4]:item())
  end
  local net = rs.nn.Linear(2, 1):bfloat16()
  local ddp = rs.nn.parallel.DistributedDataParallel(net)
  ddp(rs.full({ 4, 2 }, rank + 1, { dtype = "bfloat16" })):float():mean():backward()
  out[#out + 1] = net.weight.grad.dtype .. " " .. net.weight.grad[0][0]:item()
  return table.concat(out, ", ")
end, { world = 3 })
rs.check("all_reduce adds in each type, bytes wrap around; DistributedDataParallel averages bfloat16",
         sums[0] == "uint8 17, int8 17, int32 273, float16 273, bfloat16 272, bfloat16 2.0" and sums[2] == sums[0])
