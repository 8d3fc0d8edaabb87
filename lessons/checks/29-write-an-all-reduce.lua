-- Checks of exercise 29. The built-in ring says what each half must leave, bit by bit; gradients are worked out by hand.
local rs = require "ringside"
local dist = rs.distributed

local world, length = rs.vary(4, { 2, 3, 5, 6 }), rs.vary(2, { 1, 3, 4 })
rs.lesson { title = "Exercise: halves of a ring", hardware = "classroom", costs = { host = 0, kernel = 0 }, seed = 29 }

local text = {
  checks = {
    runs = "reduce_scatter: %d ranks come to the end",
    sum = "the piece that it answers is everybody's sum",
    steps = "both halves take %d hops",
    whole = "after all_gather all pieces are right, on all ranks",
    bits = "bit by bit as the built-in ring's",
    forward = "AllReduce: forward is the sum, x stays as it is",
    backward = "its gradient is the sum of all ranks' gradients",
  },
  hints = {
    runs = {
      "isend first, then recv, then wait: who only receives first waits for ever.",
      "In step s, from 0: piece[(rank - s) % world] goes out. Which one comes in?",
    },
    sum = {
      "What comes in is added to the piece of its number: (rank - s - 1) % world.",
      "The piece that came last holds everybody's part: (rank + 1) % world.",
    },
    steps = { "One isend and one recv in each of world - 1 steps, and that twice." },
    whole = {
      "As before, from piece[mine] on; but what comes in replaces the piece: copy_.",
    },
    bits = { "Add what came to your own piece, in place, and send the piece that came last." },
    forward = { "clone first, then dist.all_reduce of the clone." },
    backward = {
      "Each rank's loss reached this x through its own sum: all their gradients belong to it.",
      "backward is an all-reduce, too: of a clone of the gradient.",
    },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()

local reduce_scatter, all_gather, make = student.reduce_scatter, student.all_gather, student.make
local function start(rank)
  return (rs.arange(world * length, { dtype = "float32" }) + 1) / (rank + 3)
end

local seq = rs.trace:seq()
local worked, got = pcall(dist.spawn, function(rank)
  local mine, theirs, piece = start(rank), start(rank), {}
  for i = 0, world - 1 do piece[i] = mine[{ rs.slice(i * length, (i + 1) * length) }] end
  local done   = reduce_scatter(piece, rank, world)
  local summed = piece[done]:clone()
  dist.barrier()
  all_gather(piece, done, rank, world)
  dist.all_reduce(theirs, { algorithm = "ring", direction = "forward" })
  local part = theirs[{ rs.slice(done * length, (done + 1) * length) }]
  return { sum = rs.allclose(summed, part), whole = rs.allclose(mine, theirs), bits = rs.equal(mine, theirs) }
end, { world = world })
rs.check(checks.runs:format(world), worked, { hints = hints.runs })
local all = { sum = worked, whole = worked, bits = worked }
for rank = 0, world - 1 do
  for what in pairs(all) do all[what] = all[what] and got[rank][what] end
end
rs.check(checks.sum, all.sum, { hints = hints.sum })
local hops = 0
for _, send in ipairs(rs.trace:events { kind = "c10d.send" }) do hops = hops + (send.seq > seq and 1 or 0) end
rs.close(checks.steps:format(2 * world * (world - 1)), hops, 2 * world * (world - 1), { hints = hints.steps })
rs.check(checks.whole, all.whole, { hints = hints.whole })
rs.check(checks.bits, all.bits, { hints = hints.bits })

-- The loss of rank r is (r + 1) times the sum over ranks of x: the gradient of each x is 1 + 2 + ... + world.
local ran, sums = pcall(dist.spawn, function(rank)
  local x = rs.full({ 2 }, rank + 1.0):requires_grad_()
  local y = make().apply(x)
  local loss = ((rank + 1) * y):sum()
  loss:backward()
  return { y[0]:item(), x[1]:item(), x.grad[0]:item() }
end, { world = world })
local forward, backward = ran, ran
local total = world * (world + 1) / 2
for rank = 0, world - 1 do
  forward = forward and sums[rank][1] == total and sums[rank][2] == rank + 1
  backward = backward and sums[rank][3] == total
end
rs.check(checks.forward, forward, { hints = hints.forward })
rs.check(checks.backward, backward, { hints = hints.backward })
