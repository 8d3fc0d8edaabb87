-- DistributedDataParallel on 4 ranks: ddp_matrix.
local rs = require "ringside"
rs.lesson { title = "DDP on 4 ranks", devices = 0 }
assert(loadfile "tests/parity/ddp_matrix.lua")()(4)
