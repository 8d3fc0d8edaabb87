-- Checks of exercise 15. Every time is worked out from what the wire and a backward cost and how late rank 1 is; then the
-- same model runs, and the record has the last word.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

local late, backward = rs.vary(100, { 40, 150, 260, 700 }), rs.vary(500, { 90, 300, 420, 800 })
rs.lesson {
  title = "Exercise: a late hook",
  hardware = "classroom",
  costs = { host = 0, kernel = 0, Linear_backward = backward }, -- only the backward of a Linear costs, and the wire
  seed = 15,
}

local text = {
  checks = {
    all_reduce = "how long an all-reduce of a bucket takes",
    start0 = "rank %d starts bucket 0",
    start1 = "rank %d starts bucket 1",
    end1 = "rank %d has the sum of bucket 1",
    backward = "rank %d's backward ends",
    ran = "the record agrees for rank %d",
  },
  hints = {
    all_reduce = { "Two hops, one after the other.", "Each carries half of the bytes: 10 + bytes / 2 / 10000 us." },
    start0 = {
      "A Linear's backward takes its time, then its hooks fire, and its bucket is full.",
      "Nobody waits for the other rank to start an all-reduce: it starts when the own gradients are there.",
    },
    start1 = {
      "The second Linear's backward begins where the first one's ended: it does not wait for the wire.",
      "A rank has one thread for its collectives: bucket 1 starts when its gradients are there and bucket 0 is through.",
      "Bucket 0 is through one all-reduce after the late rank has started it.",
    },
    end1 = { "Bucket 1 moves when both ranks have started it: the late one decides." },
    backward = {
      "finalize_backward waits for every bucket and is a callback at the end of the backward.",
      "Nothing that comes after the last wait costs anything here.",
    },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()

local WIDTH = 512
local bytes = (WIDTH * WIDTH + WIDTH) * 4
local all_reduce = 2 * (10 + bytes / 2 / 10000)
local through = late + backward + all_reduce -- bucket 0
local ends = math.max(late + 2 * backward, through) + all_reduce
local virtual = { virtual = true }

rs.close(checks.all_reduce, student.all_reduce_us(bytes), all_reduce, { hints = hints.all_reduce })
local times = student.times(late, backward, all_reduce)
local function guess(rank, name)
  local of_rank = type(times) == "table" and times[rank]
  return type(of_rank) == "table" and of_rank[name] or nil
end
for rank = 0, 1 do
  local begins = rank * late
  rs.close(checks.start0:format(rank), guess(rank, "start0"), begins + backward, { hints = hints.start0 })
  rs.close(checks.start1:format(rank), guess(rank, "start1"), math.max(begins + 2 * backward, through), { hints = hints.start1 })
  rs.close(checks.end1:format(rank), guess(rank, "end1"), ends, { hints = hints.end1 })
  rs.close(checks.backward:format(rank), guess(rank, "backward"), ends, { hints = hints.backward })
end

local Model = nn.Module("Model")
function Model:init()
  self.a = nn.Linear(WIDTH, WIDTH)
  self.b = nn.Linear(WIDTH, WIDTH)
end
function Model:forward(x)
  return self.a(self.b(x))
end

dist.spawn(function(rank)
  local ddp = nn.parallel.DistributedDataParallel(Model(), { bucket_cap_mb = 1 })
  for iteration = 0, 1 do
    local loss = ddp(rs.randn(4, WIDTH)):sum()
    dist.barrier()
    if iteration == 1 and rank == 1 then rs.advance(late) end
    loss:backward()
  end
end, { world = 2 })

local zero = rs.trace:events { kind = "autograd.backward", rank = 0 }[2].t
for rank = 0, 1 do
  local backwards = rs.trace:events { kind = "autograd.backward", rank = rank, phase = "end" }
  local starts = rs.trace:events { kind = "c10d.allreduce", rank = rank }
  local stops = rs.trace:events { kind = "c10d.allreduce", rank = rank, phase = "end" }
  local ran, guesses = {}, {}
  for i, event in ipairs { starts[2], starts[3], stops[3], backwards[2] } do ran[i] = (event.t - zero) / 1000 end
  for i, name in ipairs { "start0", "start1", "end1", "backward" } do guesses[i] = guess(rank, name) or false end
  rs.close(checks.ran:format(rank), guesses, ran, 1e-4, virtual)
end
