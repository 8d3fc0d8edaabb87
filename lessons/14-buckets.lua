-- Lesson 14: gradients in boxes.
--
-- An all-reduce per gradient would be many small ones, a single one for all would come too late. DDP puts gradients into
-- buckets, one after the other, and closes a bucket when its size reaches the cap. In iteration 0 it does not know yet in
-- which order gradients come: one bucket. The first backward tells, and before the second forward buckets are cut anew.
-- (Until PyTorch 2.5 the first bucket's cap was 1 MiB whatever you asked for.)
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

rs.lesson {
  title = "Gradients in boxes",
  devices = 2,
  hardware = "classroom",
  seed = 14,
  minutes = 25,
  needs = "13", story = { ["c10d.rendezvous"] = false, ["ddp.verify_params"] = false },
}

local text = {
  welcome = "Two ranks, four layers fc1 to fc4, each Linear(512, 512): 1 050 624 bytes of gradients a layer.",
  what = {
    question = "DDP sends its gradients in buckets. What is in a bucket?",
    choices = { "gradients of some samples", "gradients of some parameters", "copies of some layers" },
    answer = "gradients of some parameters",
    why = "A bucket is a flat tensor: gradients of several parameters, one behind the other, sent as one.",
    wrong = {
      ["gradients of some samples"] = "Samples are gone when a gradient is there: backward has summed over the rank's rows.",
      ["copies of some layers"] = "Weights are not sent in training, only in the constructor (lesson 13).",
    },
    hides = { "ddp", "c10d", "comm" },
  },
  first = {
    question = "No cap is given: 1 MiB for the first bucket, 25 MiB for each further. How many buckets in iteration 0?",
    choices = { "1", "2", "4" },
    answer = "1",
    why = "Nobody knows yet which gradients come first. So iteration 0 has a single bucket, and overlaps nothing.",
    wrong = {
      ["2"] = "So it is later. Before the first backward the order of gradients is a guess.",
      ["4"] = "Layers are no boxes: a bucket is closed by its size.",
    },
    hides = { "ddp", "c10d", "comm" },
  },
  second = {
    question = "And in iteration 1?",
    choices = { "1", "2", "4" },
    answer = "2",
    why = "One layer is more than 1 MiB: the first bucket closes. The three others stay below 25 MiB, together.",
    wrong = {
      ["1"] = "All four are 4 MiB, but the first bucket's cap is 1 MiB: something has to leave early.",
      ["4"] = "1 MiB is the cap of the first bucket only. The others hold 25.",
    },
    hides = { "ddp", "c10d", "comm" },
  },
  leads = {
    question = "Whose gradient is the first in the first of them?",
    choices = { "fc1.weight", "fc4.weight", "fc4.bias" },
    answer = "fc4.bias",
    why = "Buckets are filled in the order in which gradients come: last layer first, its bias before its weight.",
    wrong = {
      ["fc1.weight"] = "It was defined first. Backward comes to it last.",
      ["fc4.weight"] = "The layer is right, but its bias has the shorter way (lesson 03).",
    },
    hides = { "ddp", "c10d", "comm", "autograd" },
  },
  run = "Three iterations with %s: type :break ddp.bucket, and c goes from one bucket to the next.",
  bucket = "From iteration %d on, bucket %d: %d bytes, %s.",
  to = "%s to %s",
  cap25 = {
    question = "Now you ask for bucket_cap_mb = 25, the default's own number. How many buckets in iteration 1?",
    choices = { "1", "2" },
    answer = "1",
    why = "A cap that you give is the first bucket's, too. All four layers stay below it.",
    wrong = { ["2"] = "The early first bucket of 1 MiB belongs to the default alone (before PyTorch 2.6: always)." },
    hides = { "ddp", "c10d", "comm" },
  },
  cap2 = {
    question = "With 2 MiB: 2 097 152 bytes. Two layers are 2 101 248. How many are in a bucket?",
    choices = { "1", "2", "3" },
    answer = "2",
    why = "A bucket closes when it reaches the cap. What reaches it is still in: most buckets are larger than the cap.",
    wrong = {
      ["1"] = "Then it would close before the cap. It stays open until the cap is reached.",
      ["3"] = "After two layers the cap is reached: closed.",
    },
    hides = { "ddp", "c10d", "comm" },
  },
  unused = {
    question = "Again 2 MiB, and find_unused_parameters. What changes?",
    choices = { "nothing", "buckets are never cut anew", "iteration 0 has one bucket" },
    answer = "buckets are never cut anew",
    why = "Who is used may differ each time, so no order is trusted: the definition's, backwards, from the start.",
    wrong = {
      nothing = "The order of the first backward is good for the second only if the same parameters are used.",
      ["iteration 0 has one bucket"] = "That is without it: a bucket to collect all, until the order is known.",
    },
    hides = { "ddp", "c10d", "comm" },
  },
  reversed = "These were filled from fc1.weight on; then the list was turned round, since the last layer's gradients come first.",
  finish = "A bucket is a box of parameters' gradients, closed when it reaches the cap, filled in the order in which they came.",
  names = {
    none = "no cap given",
    cap25 = "a cap of 25 MiB",
    cap2 = "a cap of 2 MiB",
    unused = "2 MiB and find_unused_parameters",
  },
  checks = {
    sizes = "%s, rank %d: the buckets have %s bytes",
    sent = "%s, rank %d: each iteration all-reduces the buckets it has",
    leads = "rank %d: the first bucket of iteration 1 holds fc4.bias, then fc4.weight",
    before = "rank %d: buckets are rebuilt once, before the model runs in iteration 1",
    reach = "2 MiB: each bucket reaches the cap, and would not without its last parameter",
    once = "with find_unused_parameters they are never rebuilt",
  },
  teacher = [[
Time: 8 minutes to predict, 10 in the viewer, 7 for the exercise.
On paper first: eight boxes in a row, fc4.bias 2 KiB, fc4.weight 1 MiB, and so on. Cut them at 1 and 25, at 25, at 2 MiB.
Expected wrong answers: "gradients of some samples" (a third of a class), "2" in iteration 0, "1" layer with a cap of 2 MiB
(they close the box before it is full).
In the viewer: break ddp.rebuild_buckets, c; info buckets before and after it. It stands in iteration 1's forward.
Why not one bucket for good? (Nothing would overlap.) Why not eight? (Each all-reduce costs its hops.) Lesson 26 measures it.
Next question: fc1 alone is 4 GiB. Which bucket is it in? (In the last one open: a huge parameter joins what is there.)
Two-minute fallback: ringside run, and have the lines of 2 MiB explained.]],
}
local checks = text.checks

local Net = nn.Module("Net")
function Net:init()
  for i = 1, 4 do self["fc" .. i] = nn.Linear(512, 512) end
end
function Net:forward(x)
  return self.fc4(self.fc3(self.fc2(self.fc1(x))))
end
local names, bytes = {}, {}             -- of the parameters in the order of definition
for name, p in Net():named_parameters() do names[#names + 1], bytes[#bytes + 1] = name, p:numel() * 4 end

-- Three iterations, then: the buckets that a rank made, and the bytes that it sent, in that order.
local function train(name, options)
  rs.say(text.run:format(name))
  local seq, made, sent = rs.trace:seq(), { [0] = {}, {} }, { [0] = {}, {} }
  dist.spawn(function()
    local ddp = nn.parallel.DistributedDataParallel(Net(), options)
    for _ = 1, 3 do ddp(rs.randn(2, 512)):sum():backward() end
  end, { world = 2 })
  for _, bucket in ipairs(rs.trace:events { kind = "ddp.bucket" }) do
    if bucket.seq > seq then table.insert(made[bucket.rank], bucket.args) end
  end
  for _, bucket in ipairs(rs.trace:events { kind = "ddp.all_reduce_bucket" }) do
    if bucket.seq > seq then table.insert(sent[bucket.rank], bucket.args.bytes) end
  end
  return made, sent
end

-- `before` and `after`: the bytes of the buckets of iteration 0, and of those that follow.
local function expect(name, options, before, after)
  local made, sent = train(name, options)
  local all, thrice = { table.unpack(before) }, { table.unpack(before) }
  if after ~= before then table.move(after, 1, #after, #all + 1, all) end
  for _ = 1, 2 do table.move(after, 1, #after, #thrice + 1, thrice) end
  for rank = 0, 1 do
    local sizes = {}
    for i, bucket in ipairs(made[rank]) do
      sizes[i] = bucket.bytes
      local from, to = names[bucket.indices:match("^%d+") + 1], names[bucket.indices:match("%d+$") + 1]
      local holds = from == to and from or text.to:format(from, to)
      if rank == 0 then rs.say(text.bucket:format(i > #before and 1 or 0, bucket.bucket, bucket.bytes, holds)) end
    end
    rs.close(checks.sizes:format(name, rank, table.concat(all, ", ")), sizes, all)
    rs.close(checks.sent:format(name, rank), sent[rank], thrice)
  end
  return made
end

rs.say(text.welcome)
rs.ask(text.what)
rs.ask(text.first)
rs.ask(text.second)
rs.ask(text.leads)
local made = expect(text.names.none, {}, { 4202496 }, { 1050624, 3151872 })
for rank = 0, 1 do
  rs.check(checks.leads:format(rank), made[rank][2].indices == "7 6" and names[8] == "fc4.bias" and names[7] == "fc4.weight")
  local rebuilds = rs.trace:events { kind = "ddp.rebuild_buckets", rank = rank }
  local models = rs.trace:events { kind = "module.forward", rank = rank, module = "Net" }
  rs.check(checks.before:format(rank), #rebuilds == 1 and models[1].seq < rebuilds[1].seq and rebuilds[1].seq < models[2].seq)
end

rs.ask(text.cap25)
expect(text.names.cap25, { bucket_cap_mb = 25 }, { 4202496 }, { 4202496 })

rs.ask(text.cap2)
made = expect(text.names.cap2, { bucket_cap_mb = 2 }, { 4202496 }, { 2101248, 2101248 })
local cap, reached = 2 * 1024 * 1024, true
for i = 2, #made[0] do
  local last = bytes[made[0][i].indices:match("%d+$") + 1]
  reached = reached and made[0][i].bytes >= cap and made[0][i].bytes - last < cap
end
rs.check(checks.reach, reached)

rs.ask(text.unused)
local cut = { 2048, 2101248, 2099200 }
expect(text.names.unused, { bucket_cap_mb = 2, find_unused_parameters = true }, cut, cut)
rs.check(checks.once, rs.trace:count { kind = "ddp.rebuild_buckets", rank = 0 } == 3)
rs.say(text.reversed)
rs.say(text.finish)
rs.teacher(text.teacher)
