-- Exercise 11: eight floats do not divide by three.
-- Change only what lies between the lines. Run it with: ringside run --tap lessons/exercises/11-ring-by-hand.lua
local rs = require "ringside"
local dist = rs.distributed

rs.lesson { title = "Exercise: the uneven ring", hardware = "classroom", costs = { host = 0, kernel = 0 }, seed = 11 }

---------------------------------------------------------------------------------------------------------------
-- Three ranks, eight floats. A hop costs 10 us + bytes / (10 000 B/us); a step lasts as long as its longest hop.
local elements = { 0, 0, 0 }   -- how many floats chunk 0, 1 and 2 have
local longest_bytes = 0        -- bytes of the longest hop
local longest_us = 0           -- and how long it takes
local total_us = 0             -- the whole all-reduce
---------------------------------------------------------------------------------------------------------------

local results = dist.spawn(function(rank)
  local t = rs.arange(8, { dtype = "float32" }) + 10 * rank
  dist.all_reduce(t, { algorithm = "ring" })
  return t:tolist()
end, { world = 3 })

rs.close("the sum is right all the same", results[2], { 30, 33, 36, 39, 42, 45, 48, 51 })
local sizes, longest = {}, 0
for _, hop in ipairs(rs.trace:events { kind = "comm.hop" }) do
  sizes[hop.args.chunk + 1] = hop.args.bytes // 4
  longest = math.max(longest, hop.args.bytes)
end
rs.close("the sizes of the chunks", elements, sizes)
rs.close("the bytes of the longest hop", longest_bytes, longest)
rs.close("its time", longest_us, 10 + longest / 10000, 1e-6)
rs.close("the whole all-reduce", total_us, rs.trace:duration { kind = "c10d.allreduce", rank = 0 }, 1e-6, { virtual = true })

rs.hint "The chunks are torch.chunk's: ceil(8 / 3) each until nothing is left. In every step some rank sends a long one."
