-- Lesson 29: write an all-reduce.
--
-- A ring in twenty lines of Lua, of nothing but isend and recv; beside it the naive way, all to rank 0 and back. Both are
-- registered under a name, measured beside the built-in one, and then do the work of DDP.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

rs.lesson {
  title = "Write an all-reduce",
  devices = 2,
  hardware = "classroom",
  costs = { host = 0, kernel = 0 },     -- only the wire costs
  seed = 29,
  minutes = 45,
  needs = "11, 12",
  story = { ["c10d.send"] = false, ["c10d.recv"] = false, ["c10d.rendezvous"] = false, ["ddp.verify_params"] = false,
    ["ddp.ctor.broadcast"] = false, ["ddp.forward"] = false, ["ddp.finalize_backward"] = false },
}

local text = {
  welcome = "An all-reduce is a program like any other. Ours is a function of a tensor: it sends pieces, receives pieces, adds.",
  naive = {
    question = "First the naive way: all send to rank 0, it adds and sends the sum to each. Hops, with four ranks?",
    choices = { "4", "6", "24" },
    answer = "6",
    why = "Three come in, three go out.",
    wrong = {
      ["4"] = "Rank 0 sends nothing to itself: three come in, and the sum has to go out again.",
      ["24"] = "That is the ring: many hops of small pieces. Here each carries the whole tensor.",
    },
    hides = { "c10d", "comm" },
  },
  serial = {
    question = "Rank 0 does one after the other. How long does it take for n bytes, with B bytes a microsecond?",
    choices = { "2 (10 + n/B)", "6 (10 + n/B)", "6 (10 + n/4B)" },
    answer = "6 (10 + n/B)",
    why = "Six whole messages through one rank. With a thousand ranks it would be 1998: all wait for rank 0.",
    wrong = {
      ["2 (10 + n/B)"] = "If rank 0 received all three at once. It receives one after the other.",
      ["6 (10 + n/4B)"] = "A quarter at a time is the ring's idea.",
    },
    hides = { "c10d", "comm" },
  },
  watch = "m goes from send to recv, on any rank. From hop to hop, in this and in the built-in one: u comm.hop (until).",
  ring = "Now the ring of lesson 11, in Lua. In each step: send the piece that came last, receive the next, add it or keep it.",
  beside = "%-8s %3d hops, %8.4f us",
  same = {
    question = "The built-in ring adds in C, ours in Lua. Are the sums of odd fractions equal to the last bit?",
    choices = { "yes", "only nearly", "by luck" },
    answer = "yes",
    why = "Float addition is exact about its order: the same pieces in the same order round alike. Another order need not.",
    wrong = {
      ["only nearly"] = "Two programs that add the same floats in the same order get the same bits.",
      ["by luck"] = "It is the order that decides. Take another chunk first, and some last bits differ.",
    },
    hides = { "c10d", "comm" },
  },
  twice = "%d ranks: tensors of 1, 7 and 8 floats, each summed twice, by our ring and by the built-in one.",
  hook = "DDP takes any all-reduce as a hook: it hands over a bucket of gradients and wants a future of what they become.",
  divide = {
    question = "The hook gets each rank's sum of four gradients: 6 and 22. What must it return so that all hold the mean?",
    choices = { "the sum, 28", "the sum divided by 2" },
    answer = "the sum divided by 2",
    why = "Without a hook DDP divides by the ranks. With one, nobody does: 28 / 2 = 14.",
    wrong = { ["the sum, 28"] = "Then every step is twice as long as meant. DDP leaves the division to the hook." },
    hides = { "ddp", "c10d", "comm" },
  },
  finish = "Yours is as good as the built-in one: same hops, same bits, same time. NCCL does nothing else, only faster.",
  checks = {
    naive = "the naive way has the sum on rank %d",
    six = "in 6 hops",
    long = "of 10.0032 us each, one after the other",
    sum = "our ring has the sum on rank %d: 60 to 88",
    hops = "in 24 hops, as the built-in one",
    time = "in 60.0048 us, as the built-in one",
    bits = "%d ranks, %d floats: equal to the built-in one, bit by bit",
    fourteen = "DDP with our ring as its hook: 14 on rank %d, as without a hook",
    own = "and each of its all-reduces was ours",
  },
  teacher = [[
Time: 10 minutes for the naive way, 15 to write the ring, 10 in the viewer, 10 for the exercise.
Let pairs write step() on paper first: which piece do I send in step s, which one do I receive?
Expected wrong answers: "24" (they think of the ring), "only nearly" (floats are said to be inexact), "the sum".
In the viewer: m through one rank's c10d.allreduce of both runs, and put the comm.hop rows beside each other.
Next question: what if recv came before isend? (Nobody would send: lesson 10.)
Two-minute fallback: read ring() in the source pane, and run it with six students as ranks.]],
}
local checks = text.checks

-- All to rank 0, one after the other, and the sum back to each.
local function naive(t)
  local rank, world = dist.get_rank(), dist.get_world_size()
  if rank > 0 then
    dist.send(t, 0)
    dist.recv(t, 0)
    return
  end
  local part = rs.empty_like(t)
  for from = 1, world - 1 do
    dist.recv(part, from)
    t:add_(part)
  end
  for to = 1, world - 1 do dist.send(t, to) end
end

-- A ring to the right. The pieces are views of t, ceil(n / world) floats each until nothing is left.
local function ring(t)
  local rank, world = dist.get_rank(), dist.get_world_size()
  local right, left = (rank + 1) % world, (rank - 1) % world
  local long, piece = (t:numel() + world - 1) // world, {}
  for i = 0, world - 1 do
    piece[i] = t[{ rs.slice(math.min(i * long, t:numel()), math.min((i + 1) * long, t:numel())) }]
  end
  local function step(out, into, add)
    local got  = rs.empty_like(piece[into])
    local work = piece[out]:numel() > 0 and dist.isend(piece[out], right)
    if got:numel() > 0 then dist.recv(got, left) end
    if add then piece[into]:add_(got) else piece[into]:copy_(got) end
    if work then work:wait() end
  end
  for s = 0, world - 2 do step((rank - s) % world, (rank - s - 1) % world, true) end
  for s = 0, world - 2 do step((rank + 1 - s) % world, (rank - s) % world, false) end
end

-- Lesson 11's tensors: rank r holds 10 r + i.
local function sum_by(name)
  local seq, done = rs.trace:seq(), nil
  done = dist.spawn(function(rank)
    dist.register_algorithm("naive, in Lua", naive)
    dist.register_algorithm("ring, in Lua", ring)
    local t = rs.arange(8, { dtype = "float32" }) + 10 * rank
    dist.all_reduce(t, { algorithm = name, direction = name == "ring" and "forward" or nil })
    return t:tolist()
  end, { world = 4 })
  local hops, us = 0, 0
  for _, hop in ipairs(rs.trace:events { kind = "comm.hop" }) do hops = hops + (hop.seq > seq and 1 or 0) end
  for _, event in ipairs(rs.trace:events { kind = "c10d.allreduce" }) do
    if event.seq > seq then us = math.max(us, rs.trace:duration(event)) end
  end
  rs.say(text.beside:format(name, hops, us))
  return done, hops, us
end
local sums = { 60, 64, 68, 72, 76, 80, 84, 88 }

rs.say(text.welcome)
rs.ask(text.naive)
rs.ask(text.serial)
rs.say(text.watch)
local done, hops, us = sum_by("naive, in Lua")
for rank = 0, 3 do rs.close(checks.naive:format(rank), done[rank], sums) end
rs.close(checks.six, hops, 6)
rs.close(checks.long, us, 60.0192, 1e-6, { virtual = true })

rs.say(text.ring)
done, hops, us = sum_by("ring, in Lua")
local _, built_in_hops, built_in_us = sum_by("ring")
for rank = 0, 3 do rs.close(checks.sum:format(rank), done[rank], sums) end
rs.check(checks.hops, hops == 24 and built_in_hops == 24)
rs.close(checks.time, { us, built_in_us }, { 60.0048, 60.0048 }, 1e-6, { virtual = true })

rs.ask(text.same)
for _, world in ipairs { 2, 3, 4, 8 } do
  rs.say(text.twice:format(world))
  for _, length in ipairs { 1, 7, 8 } do
    local equal = dist.spawn(function(rank)
      dist.register_algorithm("ring, in Lua", ring)
      local mine = rs.randn(length) * 10 ^ (rank % 3)
      local theirs = mine:clone()
      dist.all_reduce(mine, { algorithm = "ring, in Lua" })
      dist.all_reduce(theirs, { algorithm = "ring", direction = "forward" })
      return rs.equal(mine, theirs)
    end, { world = world })
    local all = true
    for rank = 0, world - 1 do all = all and equal[rank] end
    rs.check(checks.bits:format(world, length), all)
  end
end

-- Four micro-batches filled 4 r + i, as in lesson 17: the gradients of a rank's four are 6 and 22, their mean is 14.
rs.say(text.hook)
rs.ask(text.divide)
local seq = rs.trace:seq()
local gradients = dist.spawn(function(rank)
  dist.register_algorithm("ring, in Lua", ring)
  local net = nn.Linear(4, 2)
  local ddp = nn.parallel.DistributedDataParallel(net)
  ddp:register_comm_hook(nil, function(_, bucket)
    local work = dist.all_reduce(bucket:buffer(), { algorithm = "ring, in Lua", async_op = true })
    return work:get_future():then_(function(future) return future:value()[1]:div_(dist.get_world_size()) end)
  end)
  for i = 0, 3 do
    local function micro() ddp(rs.full({ 1, 4 }, 4.0 * rank + i)):sum():backward() end
    if i < 3 then ddp:no_sync(micro) else micro() end
  end
  return net.weight.grad[0][0]:item()
end, { world = 2 })
for rank = 0, 1 do rs.close(checks.fourteen:format(rank), gradients[rank], 14) end
local own = 0
for _, hop in ipairs(rs.trace:events { kind = "comm.hop", rank = 0 }) do
  own = own + (hop.seq > seq and hop.args.bytes == 20 and 1 or 0)
end
rs.close(checks.own, own, 2)

rs.say(text.finish)
rs.teacher(text.teacher)
