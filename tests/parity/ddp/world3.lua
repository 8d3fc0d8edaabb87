-- DistributedDataParallel on 3 ranks: ddp_matrix.
local rs = require "ringside"
rs.lesson { title = "DDP on 3 ranks", devices = 0 }
assert(loadfile "tests/parity/ddp_matrix.lua")()(3)
