-- Checks of exercise 11. Sizes and times are worked out from the number of ranks and floats; the ring itself has the last
-- word.
local rs = require "ringside"
local dist = rs.distributed

local world, count = rs.vary(3, { 4, 5, 6, 7 }), rs.vary(8, { 9, 10, 13, 17, 22 })
rs.lesson { title = "Exercise: the uneven ring", hardware = "classroom", costs = { host = 0, kernel = 0 }, seed = 11 }

local text = {
  checks = {
    elements = "the sizes of the chunks: %d floats on %d ranks",
    bytes = "the bytes of the longest hop",
    hop = "how long that hop takes",
    total = "the whole all-reduce",
    ran = "that is how long the ring took",
  },
  hints = {
    elements = {
      "The chunks are torch.chunk's: all of one length, until nothing is left.",
      "That length is ceil(count / world). In Lua: (count + world - 1) // world.",
      "The last ones may be shorter, or have nothing at all; the list has `world` numbers.",
    },
    bytes = { "The longest chunk is the first one.", "A float32 has 4 bytes." },
    hop = { "10 us to get going, and then 10 000 bytes every us." },
    total = {
      "How many steps does a ring of so many ranks have? Lesson 11 counts them.",
      "In every step some rank sends a long chunk: 2 (world - 1) steps, each as long as the longest hop.",
    },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()

local longest, left, sizes = math.ceil(count / world), count, {}
for chunk = 1, world do
  sizes[chunk] = math.min(longest, left)
  left = left - sizes[chunk]
end
local hop_us = 10 + 4 * longest / 10000

rs.close(checks.elements:format(count, world), student.elements(world, count), sizes, { hints = hints.elements })
rs.close(checks.bytes, student.longest_bytes(world, count), 4 * longest, { hints = hints.bytes })
rs.close(checks.hop, student.hop_us(4 * longest), hop_us, { hints = hints.hop })
rs.close(checks.total, student.total_us(world, count), 2 * (world - 1) * hop_us, { hints = hints.total })

dist.spawn(function(rank)
  dist.all_reduce(rs.arange(count, { dtype = "float32" }) + 10 * rank, { algorithm = "ring", direction = "forward" })
end, { world = world })
rs.close(checks.ran, student.total_us(world, count), rs.trace:duration { kind = "c10d.allreduce", rank = 0 },
  { virtual = true, hints = hints.total })
