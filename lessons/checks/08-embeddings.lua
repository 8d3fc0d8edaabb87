-- Checks of exercise 08: bytes by formula, then those of a dense and a sparse all-reduce that run.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

local world, width = rs.vary(2, { 3, 4, 5 }), rs.vary(10, { 4, 16, 64 })
local rows, r = world * rs.vary(500, { 90, 300, 777 }), rs.vary(3, { 1, 7, 20 })
rs.lesson { title = "Exercise: when does dense win?", hardware = "classroom", costs = { host = 0, kernel = 0 }, seed = 8 }

local text = {
  checks = {
    dense = "what a rank sends of a dense table",
    sparse = "and of %d rows alone",
    ran_dense = "the record agrees: dense",
    ran_sparse = "the record agrees: sparse",
    wins = "from how many rows on dense wins",
    wide = "and where a row is as long as its index",
    many = "and with 64 ranks",
  },
  hints = {
    dense = {
      "The table has rows * width floats, of 4 bytes.",
      "2 (N - 1) steps, each with one N-th of the bytes (lesson 11, or the words above).",
    },
    sparse = {
      "A row costs its index and its values: 8 + 4 * width.",
      "They go to each of the other world - 1 ranks, one hop after the other.",
    },
    wins = {
      "Write both down and ask where sparse becomes larger: world - 1 stands on both sides.",
      "r (8 + 4 width) > 2 rows 4 width / world. The smallest whole r above that: // and + 1.",
    },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()

local function dense_bytes() return 2 * (world - 1) / world * rows * width * 4 end
local function wins(of_rows, of_width, of_world) return 2 * of_rows * 4 * of_width // (of_world * (8 + 4 * of_width)) + 1 end

-- Bytes that rank 0 sends while all ranks run f.
local function sent(f)
  local seq, bytes = rs.trace:seq(), 0
  dist.spawn(f, { world = world })
  for _, hop in ipairs(rs.trace:events { kind = "comm.hop", rank = 0 }) do
    if hop.seq > seq then bytes = bytes + hop.args.bytes end
  end
  return bytes
end

rs.close(checks.dense, student.dense_bytes(rows, width, world), dense_bytes(), 1e-6, { hints = hints.dense })
rs.close(checks.sparse:format(r), student.sparse_bytes(r, width, world), (world - 1) * r * (8 + 4 * width), 1e-6,
  { hints = hints.sparse })
local table_of = sent(function() dist.all_reduce(rs.zeros(rows, width), { algorithm = "ring" }) end)
rs.close(checks.ran_dense, student.dense_bytes(rows, width, world), table_of, 1e-6, { hints = hints.dense })
local few = sent(function(rank)
  local net = nn.Embedding(rows, width, { sparse = true })
  net(rs.arange(r * rank, r * (rank + 1))):sum():backward()
  dist.all_reduce(net.weight.grad)
end) - 8 * (world - 1)                  -- without the counts
rs.close(checks.ran_sparse, student.sparse_bytes(r, width, world), few, 1e-6, { hints = hints.sparse })

rs.close(checks.wins, student.dense_wins(rows, width, world), wins(rows, width, world), 0, { hints = hints.wins })
rs.close(checks.wide, student.dense_wins(1000, 2, world), wins(1000, 2, world), 0, { hints = hints.wins })
rs.close(checks.many, student.dense_wins(32000, width, 64), wins(32000, width, 64), 0, { hints = hints.wins })
