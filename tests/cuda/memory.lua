-- A GPU whose memory is full of what nobody uses any more: it goes back before anything is refused, to whoever asks.
-- `ringside run --trust --device cuda memory.lua -- CASE`
local rs = require "ringside"
local case = rs.args[1]
rs.lesson { title = "memory that is kept and not used", devices = 2 }

local MIB = 1 << 20
local function keep_unused(mib, device)
  rs.zeros({ mib * MIB // 4 }, { device = "device:" .. device })
  collectgarbage()
  rs.cuda.synchronize(device)
end

if case == "workspace" then       -- of a kernel of ours: device:0's pool has all
  local x = rs.tensor({ 3.0, 1.0, 2.0 }):to("device:0")
  keep_unused(20, 0)
  local index = rs.tensor({ 1, 1, 0 }, { dtype = "int64" }):to("device:0")
  print(rs.zeros({ 2 }, { device = "device:0" }):index_add(0, index, x):cpu())
elseif case == "neighbour" then   -- device:1 is the same GPU
  keep_unused(20, 0)
  print(rs.ones({ 4 * MIB }, { device = "device:1" }):sum():item())
elseif case == "product" then     -- cuBLAS has 32 MiB of its own for each stream
  local a = rs.ones({ 8, 8 }, { device = "device:0" })
  keep_unused(40, 0)
  print(a:mm(a):sum():item())
end
