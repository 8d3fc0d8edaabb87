-- What is drawn for a device is what the CPU draws: the same numbers from the same seed, and the same masks of dropout.
-- `ringside run --trust --executor free --device cuda draws.lua -- SIZE`
local rs = require "ringside"
rs.lesson { title = "numbers drawn", devices = 1 }
local size = math.tointeger(rs.args[1])

local function both(name, draw)
  rs.manual_seed(42)
  local host = draw "cpu"
  rs.manual_seed(42)
  local device = draw "device:0"
  rs.check(name .. " of " .. size .. " on the device are the CPU's", rs.equal(device:cpu(), host))
end

both("uniform numbers", function(device) return rs.rand({ size }, { device = device }) end)
both("normal numbers", function(device) return rs.randn({ size }, { device = device }) end)
both("masks of dropout", function(device)
  return rs.nn.functional.dropout(rs.ones({ size }, { device = device }), 0.3, true)
end)
both("Bernoulli numbers", function(device) return rs.bernoulli(rs.full({ size }, 0.3, { device = device })) end)
local drawn = rs.trace:count "kind = kernel and device = 0 and (op ~ uniform or op ~ normal or op ~ bernoulli or op ~ philox)"
rs.skip("Philox on the device is the CPU's, and PyTorch's CUDA dropout", drawn == 0 and
        "numbers are drawn by the host, as PyTorch's CPU generator does, and copied: no kernel draws" or
        "kernels draw: this check does not know them yet")
