-- DistributedDataParallel on 2 ranks: ddp_matrix.
local rs = require "ringside"
rs.lesson { title = "DDP on 2 ranks", devices = 0 }
assert(loadfile "tests/parity/ddp_matrix.lua")()(2)
