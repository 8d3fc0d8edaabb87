-- Products by cuBLAS: near the CPU's; the same bits again on four streams; float32 in full, no TF32.
-- `ringside run --trust --executor free --device cuda products.lua -- SIZE RUNS`
local rs = require "ringside"
rs.lesson { title = "products", devices = 1 }
local size, runs = math.tointeger(rs.args[1]), math.tointeger(rs.args[2])
local DEVICE = "device:0"

-- The error of a sum of `inner` products grows with their magnitudes: at most inner steps of the sum of their sizes.
local STEP = { float32 = 2.0 ^ -24, float64 = 2.0 ^ -53, float16 = 2.0 ^ -11, bfloat16 = 2.0 ^ -8 }
local function near(name, a, b)
  local function product(dtype, device) return a:to(dtype):to(device):mm(b:to(dtype):to(device)):cpu() end
  local sizes = a:to "float64":abs():mm(b:to "float64":abs())
  for _, dtype in ipairs { "float32", "float64", "float16", "bfloat16" } do
    local x, y = a:to(dtype), b:to(dtype)
    local want = x:to "float64":mm(y:to "float64")
    local got  = x:to(DEVICE):mm(y:to(DEVICE)):cpu():to "float64"
    -- The result is rounded once more; half a dozen of steps beside the sum of sizes is far inside the bound.
    local inner = dtype:find "16" and 2 or math.sqrt(a:size()[2]) * 4
    local room  = sizes * (STEP[dtype] * inner) + 1e-300
    rs.check(name .. " in " .. dtype .. " is near the CPU's", (got - want):abs():le(room):all():item() == true or
             (got - want):abs():le(room):all():item() == 1)
  end
end
rs.manual_seed(2)
near("a square product", rs.randn { size, size }, rs.randn { size, size })
near("a thin product", rs.randn { 3, size }, rs.randn { size, 5 })
near("a product of transposed matrices", rs.randn { size, 17 }:t(), rs.randn { 33, size }:t())
near("a row times a column", rs.randn { 1, size }, rs.randn { size, 1 })

-- TF32 has ten bits behind the point: 1 + 2^-20 would become 1.
local fine = rs.full({ 256, 256 }, 1 + 2.0 ^ -20):to(DEVICE)
local kept = fine:mm(rs.eye(256):to(DEVICE)):cpu()
rs.check("float32 is multiplied in full: 1 + 2^-20 stays what it is",
  rs.equal(kept, rs.full({ 256, 256 }, 1 + 2.0 ^ -20)))

local a, b = rs.randn { size, size }:to(DEVICE), rs.randn { size, size }:to(DEVICE)
local first = a:mm(b):cpu()
rs.cuda.synchronize()
local streams, results, differs = {}, {}, 0
for i = 1, 4 do streams[i] = rs.cuda.Stream(0) end
for i = 1, runs do
  rs.cuda.stream(streams[(i - 1) % 4 + 1], function() results[i] = a:mm(b) end)
end
rs.cuda.synchronize()
for i = 1, runs do
  if not rs.equal(results[i]:cpu(), first) then differs = differs + 1 end
end
if differs > 0 then print(differs .. " of " .. runs .. " differ from the first") end
rs.check(runs .. " products on four streams at a time have the same bits", differs == 0)
