-- What of 0.7 is kept by dropout on device:0 after manual_seed(42), as mask.py tells it of PyTorch.
-- `ringside run --trust --executor free --device cuda mask.lua -- SIZE`
local rs = require "ringside"
rs.lesson { title = "a mask", devices = 1 }
local size = math.tointeger(rs.args[1])
rs.manual_seed(42)
local kept = rs.nn.functional.dropout(rs.ones({ size }, { device = "device:0" }), 0.3, true):cpu():ne(0):to "int64"
print(string.format("%d of %d kept, their places add up to %d", kept:sum():item(), size,
  (kept * rs.arange(size)):sum():item()))
