-- Lesson 13: equal from the first step.
--
-- DistributedDataParallel averages gradients, nothing else. So that equal gradients keep the ranks' models equal, they must
-- begin equal: its constructor compares the shapes, sends rank 0's parameters to all, and puts the gradients into buckets.
-- It does not look at the optimizer, and it does not cut the batch.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

rs.lesson {
  title = "Equal from the first step",
  devices = 2,
  hardware = "classroom",
  seed = 13,
  minutes = 20,
  needs = "10",
}

local text = {
  welcome = "Two ranks are two programs. Each seeds with its own number, builds a Linear(3, 2), and wraps it in DDP.",
  winner = {
    question = "The ranks drew different weights. With which do they train?",
    choices = { "each with its own", "with rank 0's", "with the average" },
    answer = "with rank 0's",
    why = "DDP's constructor sends rank 0's parameters and buffers to all. Nobody has to seed alike for that.",
    wrong = {
      ["each with its own"] = "Then averaged gradients would move different models by the same step: they would never agree.",
      ["with the average"] = "Gradients are averaged, in every backward. Weights are copied, once.",
    },
    hides = { "ddp", "c10d", "comm" },
  },
  bytes = {
    question = "How many bytes are rank 0's parameters, weight and bias?",
    choices = { "8", "24", "32" },
    answer = "32",
    why = "2 x 3 weights and 2 biases are 8 floats, of 4 bytes each.",
    wrong = {
      ["8"] = "Eight numbers, yes. A float32 has four bytes.",
      ["24"] = "That is the weight alone. The bias goes along.",
    },
    hides = { "ddp", "c10d", "comm" },
  },
  spawned = "Two ranks find each other, then build: ddp.verify_params, ddp.ctor.broadcast; :break ddp.bucket and c go on to the bucket.",
  before = "I drew the weights %.3f %.3f %.3f ...",
  after = "DDP is built. My weights are %.3f %.3f %.3f ...",
  equal = "Compared, sent, bucketed: both ranks hold the same eight numbers.",
  rows = {
    question = "Then each rank calls ddp(x), with 4 rows in x. How many rows does each model see?",
    choices = { "2", "4", "8" },
    answer = "4",
    why = "DDP cuts no batch: each rank loads its own rows. Together they train on 8.",
    wrong = {
      ["2"] = "That is DataParallel: one program cuts its batch. Here each program brings its own.",
      ["8"] = "Rows never travel in DDP. Only gradients do, and in backward.",
    },
    hides = { "module", "dp" },
  },
  called = "4 rows went in, %d rows came out.",
  other = {
    question = "Now rank 1 builds a Linear(3, 3) by mistake. Who notices, in PyTorch?",
    choices = { "rank 0", "rank 1", "nobody, before backward" },
    answer = "rank 1",
    why = "Rank 0 sends its parameters' shapes, and the others compare. It goes on and fails later: its peer is gone. Here all ranks are told.",
    wrong = {
      ["rank 0"] = "It sends its shapes and gets none: it cannot know. Look into the other ranks' logs.",
      ["nobody, before backward"] = "The shapes are compared before a single weight is sent.",
    },
    hides = { "fault", "ddp", "c10d" },
  },
  told = "What was told: %s",
  rates = {
    question = "w = 1 on both, and the gradients are averaged. Rank 0 has lr 0.1, rank 1 lr 0.2. After two steps, is w the same?",
    choices = { "yes", "no" },
    answer = "no",
    why = "The gradient is 2 on both. But each rank makes its own steps: 1 - 0.1 x 2 - 0.1 x 2 = 0.6, and with 0.2 it is 0.2.",
    wrong = { yes = "DDP sends gradients. The optimizer is outside of it: nobody compares the ranks' lr." },
    hides = { "optim", "ddp" },
  },
  stepped = "The gradient is %.0f; with lr %.1f, w is now %.1f",
  finish = "Equal start, equal gradients, equal steps. DDP sees to the first two; the third is yours.",
  checks = {
    drew = "the ranks drew different weights",
    kept = "rank 0's weights stay as they were",
    took = "rank 1 has rank 0's, bit by bit",
    sent = "rank %d: the broadcast carries 32 bytes, from rank 0",
    order = "rank %d: the shapes are compared before it",
    bucket = "rank %d: there is one bucket, with both parameters",
    rows = "rank %d: the model sees the 4 rows that it was given",
    silent = "rank %d: nothing is sent in the forward",
    scatter = "there is no scatter",
    refused = "Linear(3, 3) is refused: rank 1 is named",
    named = "what is told names params[0], the weight, and its sizes [3, 3]",
    unsent = "it fails before it takes any weight",
    grads = "rank %d: the gradient is 2 in both steps",
    lr = "rank %d: w ends at %.1f",
  },
  teacher = [[
Time: 5 minutes to predict, 8 in the viewer, 7 for the exercise.
Expected wrong answers: "each with its own" (a third: they have read that all must seed alike), "2" rows (from DataParallel),
"yes" in the last one (half: "DDP keeps the models equal").
In the viewer: n to ddp.verify_params' and ddp.ctor.broadcast's ends. :print net.weight before and after.
Ask: which of the three parts would notice rank 1's other lr? (None. ringside run --check-ranks 13 stops where the models part.)
Then why does each rank of a real job get another seed? (Dropout, shuffling, augmentation: lesson and exercise agree on both.)
Next question: rank 1 loads a checkpoint after DDP was built. Who repairs that? (Nobody: the constructor is through.)
Two-minute fallback: ringside run, and let them vote on the last question only.]],
}
local checks = text.checks

-- The weights of both ranks before and after the constructor, and how many rows come out.
local function build(rank)
  rs.manual_seed(rank)
  local net = nn.Linear(3, 2)
  local function numbers() return rs.cat({ net.weight.data:view(-1), net.bias.data }):tolist() end
  local before = numbers()
  rs.say(text.before:format(table.unpack(before)))
  local ddp = nn.parallel.DistributedDataParallel(net)
  local after = numbers()
  rs.say(text.after:format(table.unpack(after)))
  local rows = ddp(rs.ones(4, 3)):size(0)
  rs.say(text.called:format(rows))
  return { before = before, after = after, rows = rows }
end

local function other_shape(rank)
  nn.parallel.DistributedDataParallel(nn.Linear(3, rank == 0 and 2 or 3))
end

-- w = 1; the gradients are 1 on rank 0 and 3 on rank 1, so 2 on average.
local function two_rates(rank)
  local net, lr, grads = nn.Linear(1, 1, { bias = false }), 0.1 * (rank + 1), {}
  net.weight.data:fill_(1)
  local ddp, optimizer = nn.parallel.DistributedDataParallel(net), rs.optim.SGD(net:parameters(), { lr = lr })
  for step = 1, 2 do
    optimizer:zero_grad()
    ddp(rs.full({ 1, 1 }, 2.0 * rank + 1.0)):sum():backward()
    optimizer:step()
    grads[step] = net.weight.grad:item()
    rs.say(text.stepped:format(grads[step], lr, net.weight:item()))
  end
  return { w = net.weight:item(), grads = grads }
end

rs.say(text.welcome)
rs.ask(text.winner)
rs.ask(text.bytes)
rs.ask(text.rows)
rs.say(text.spawned)
local ranks = dist.spawn(build, { world = 2 })
rs.say(text.equal)
rs.check(checks.drew, ranks[0].before[1] ~= ranks[1].before[1])
rs.close(checks.kept, ranks[0].after, ranks[0].before, 0)
rs.close(checks.took, ranks[1].after, ranks[0].after, 0)
for rank = 0, 1 do
  local sent = rs.trace:events { kind = "ddp.ctor.broadcast", rank = rank }
  rs.check(checks.sent:format(rank), #sent == 1 and sent[1].args.bytes == 32 and sent[1].args.root == 0)
  rs.check(checks.order:format(rank), rs.trace:first { kind = "ddp.verify_params", rank = rank }.seq < sent[1].seq)
  local buckets = rs.trace:events { kind = "ddp.bucket", rank = rank }
  rs.check(checks.bucket:format(rank), #buckets == 1 and buckets[1].args.params == 2 and buckets[1].args.bytes == 32)
  rs.check(checks.rows:format(rank), ranks[rank].rows == 4)
  local hops, forward = 0, rs.trace:first { kind = "ddp.forward", rank = rank }
  for _, hop in ipairs(rs.trace:events { kind = "comm.hop", rank = rank }) do hops = hops + (hop.seq > forward.seq and 1 or 0) end
  rs.check(checks.silent:format(rank), hops == 0)
end
rs.check(checks.scatter, rs.trace:count { kind = "dp.scatter" } + rs.trace:count { kind = "dp.scatter.chunk" } == 0)

rs.ask(text.other)
local worked, why = pcall(dist.spawn, other_shape, { world = 2 })
rs.say(text.told:format(why.message))
rs.check(checks.refused, not worked and why.kind == "RuntimeError" and why.message:find("of rank 1 with sizes", 1, true) ~= nil)
rs.check(checks.named, why.message:find("params[0] (weight) of rank 1 with sizes [3, 3]", 1, true) ~= nil)
rs.check(checks.unsent, rs.trace:count { kind = "ddp.ctor.broadcast", rank = 1 } == 1)

rs.ask(text.rates)
local trained = dist.spawn(two_rates, { world = 2 })
for rank = 0, 1 do
  rs.close(checks.grads:format(rank), trained[rank].grads, { 2, 2 })
  rs.close(checks.lr:format(rank, 0.6 - 0.4 * rank), trained[rank].w, 0.6 - 0.4 * rank)
end
rs.say(text.finish)
rs.teacher(text.teacher)
