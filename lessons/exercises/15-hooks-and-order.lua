-- Exercise 15: one rank is 100 us late. Predict every later start.
-- Change only what lies between the lines. Run it with: ringside run --tap lessons/exercises/15-hooks-and-order.lua
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

rs.lesson {
  title = "Exercise: a late hook",
  hardware = "classroom",
  costs = { host = 0, kernel = 0, Linear_backward = 500 },   -- only the backward of a Linear costs, and the wire
  seed = 15,
}

---------------------------------------------------------------------------------------------------------------
-- Second iteration: two buckets of 1 050 624 bytes, {a.bias, a.weight} and {b.bias, b.weight}. All times in
-- microseconds after the backward began on both ranks. Rank 1 loses 100 us before its first hook.
-- An all-reduce of a bucket on two ranks: two hops of 10 us + 525 312 B / (10 000 B/us) each.
local all_reduce_us = 0
local rank0 = { start0 = 0, start1 = 0, end1 = 0 }   -- when rank 0 starts bucket 0, bucket 1, and has bucket 1's sum
local rank1 = { start0 = 0, start1 = 0, end1 = 0 }
---------------------------------------------------------------------------------------------------------------

local Model = nn.Module("Model")
function Model:init()
  self.a = nn.Linear(512, 512)
  self.b = nn.Linear(512, 512)
end
function Model:forward(x)
  return self.a(self.b(x))
end

dist.spawn(function(rank)
  local ddp = nn.parallel.DistributedDataParallel(Model(), { bucket_cap_mb = 1 })
  for iteration = 0, 1 do
    local loss = ddp(rs.randn(4, 512)):sum()
    dist.barrier()
    if iteration == 1 and rank == 1 then rs.advance(100) end
    loss:backward()
  end
end, { world = 2 })

-- Rank 0's backward begins at 0; rank 1's, because of the 100 us, at 100.
local zero = rs.trace:events { kind = "autograd.backward", rank = 0 }[2].t
local function times(rank)
  local starts = rs.trace:events { kind = "c10d.allreduce", rank = rank }
  local ends = rs.trace:events { kind = "c10d.allreduce", rank = rank, phase = "end" }
  return { start0 = (starts[2].t - zero) / 1000, start1 = (starts[3].t - zero) / 1000, end1 = (ends[3].t - zero) / 1000 }
end
local virtual = { virtual = true }
for rank, guess in pairs { [0] = rank0, [1] = rank1 } do
  local real = times(rank)
  rs.close("rank " .. rank .. " starts bucket 0", guess.start0, real.start0, 1e-4, virtual)
  rs.close("rank " .. rank .. " starts bucket 1", guess.start1, real.start1, 1e-4, virtual)
  rs.close("rank " .. rank .. " has the sum of bucket 1", guess.end1, real.end1, 1e-4, virtual)
end
rs.close("an all-reduce takes", all_reduce_us, rs.trace:duration(rs.trace:events { kind = "c10d.allreduce", rank = 1 }[3]), 1e-4, virtual)

rs.hint "Each Linear's backward takes 500 us, then its hooks fire. Rank 0 starts its all-reduce and has to wait for rank 1."
