-- Lesson 18: three kinds of statistics.
--
-- BatchNorm normalises a batch with the batch's own mean and variance, and keeps running ones for evaluation: buffers,
-- which no gradient reaches. So whose batch do they describe when two ranks train, when they have a SyncBatchNorm, or in
-- the replicas of DataParallel?
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

rs.lesson {
  title = "Three kinds of statistics",
  devices = 2,
  hardware = "classroom",
  seed = 18,
  minutes = 30,
  needs = "05, 13", story = { ["c10d.rendezvous"] = false, ["ddp.verify_params"] = false },
}

local text = {
  welcome = "BatchNorm1d(1) on two ranks: rank 0's batch is 0 and 2, rank 1's is 4 and 10, and both come again and again.",
  rule = "In training: running = 0.9 x running + 0.1 x the batch's own; the mean begins at 0, the variance at 1.",
  one = {
    question = "What is running_mean on rank 0 and on rank 1 after one forward?",
    choices = { "0.1 and 0.7", "0.1 and 0.1", "0.4 and 0.4" },
    answer = "0.1 and 0.7",
    why = "Each rank sees its own batch, of mean 1 or 7, and nothing else.",
    wrong = {
      ["0.1 and 0.1"] = "Rank 0's buffers go to all before a forward. This forward changed them afterwards.",
      ["0.4 and 0.4"] = "That is a tenth of the mean of all four numbers. No rank knows the other's numbers.",
    },
    hides = { "ddp", "module", "c10d", "comm" },
  },
  grads = {
    question = "The loss gives weight.grad 2 on rank 0 and 6 on rank 1. What is it after the backward?",
    choices = { "2 and 6", "4 and 4", "8 and 8" },
    answer = "4 and 4",
    why = "Weight and bias are parameters like all others: DDP averages their gradients. BatchNorm breaks nothing.",
    wrong = {
      ["2 and 6"] = "So it is with the statistics. The weight has a gradient, and gradients go through the bucket.",
      ["8 and 8"] = "That is the sum; DDP divides by the ranks.",
    },
    hides = { "ddp", "autograd", "c10d", "comm" },
  },
  two = {
    question = "A second iteration, same batches. What is rank 1's running_mean?",
    choices = { "0.19", "0.79", "1.33" },
    answer = "0.79",
    why = "Before the forward rank 0's 0.1 replaces its 0.7. Then 0.9 x 0.1 + 0.1 x 7.",
    wrong = {
      ["0.19"] = "That is rank 0's: 0.9 x 0.1 + 0.1 x 1. Rank 1 begins with the same 0.1, but its batch has mean 7.",
      ["1.33"] = "0.9 x 0.7 + 0.1 x 7: if each rank went on with its own. But rank 0's buffers come first.",
    },
    hides = { "ddp", "module", "c10d", "comm" },
  },
  eval = {
    question = "Then both ranks evaluate: ddp:eval(), and one more forward. With which running_mean does rank 1 compute?",
    choices = { "0.19", "0.49", "0.79" },
    answer = "0.19",
    why = "Evaluation changes no statistics, but this forward, too, begins with rank 0's buffers.",
    wrong = {
      ["0.49"] = "That is the mean of the two. Buffers are not averaged: rank 0's win.",
      ["0.79"] = "It has 0.79 until it calls ddp(x): every forward of DDP sends rank 0's first.",
    },
    hides = { "ddp", "module", "c10d", "comm" },
  },
  sync = {
    question = "convert_sync_batchnorm makes a SyncBatchNorm of it. One forward: which running_mean has each rank?",
    choices = { "0.1 and 0.7", "0.1 and 0.1", "0.4 and 0.4" },
    answer = "0.4 and 0.4",
    why = "The batch is now that of all ranks: 0, 2, 4, 10, of mean 4. A tenth of it on both.",
    wrong = {
      ["0.1 and 0.7"] = "So it was with a batch for each rank. This layer asks the other rank before it normalises.",
      ["0.1 and 0.1"] = "Rank 0's buffers still go to all before the forward. But this forward finds the same on both.",
    },
    hides = { "module", "c10d", "comm" },
  },
  sends = {
    question = "What do the ranks send each other for that, in the forward?",
    choices = { "their rows", "mean, scale and count", "rank 0's mean" },
    answer = "mean, scale and count",
    why = "Of these all can work out what one process would find in all rows, and so can a rank with fewer rows or none.",
    wrong = {
      ["their rows"] = "That would do, and cost as much as the batch. Three numbers a channel are enough.",
      ["rank 0's mean"] = "That is how buffers are synchronised. Here both ranks' rows count.",
    },
    hides = { "module", "c10d", "comm" },
  },
  dp = {
    question = "Now DataParallel: one process, the four numbers on two devices. What becomes of device 1's statistics?",
    choices = { "they are averaged in", "they are lost", "they stay on device 1" },
    answer = "they are lost",
    why = "Replica 1 ends with the forward, and its buffers with it. Replica 0's are the model's own.",
    wrong = {
      ["they are averaged in"] = "Nobody gathers buffers: only outputs come back.",
      ["they stay on device 1"] = "Nothing stays there: the next forward replicates again.",
    },
    hides = { "dp", "module" },
  },
  run = {
    "One forward and its backward: n tells DDP's constructor, the forward with ddp.sync_buffers in it, the backward.",
    "Again from the start, two forwards and one in evaluation: watch ddp.sync_buffers before each of them.",
    sync = "A SyncBatchNorm on a device a rank: n to module.sync_batch_norm's end: an all-gather is in it; its backward has "
      .. "an all-reduce of two sums.",
  },
  has = "After forward %d my running mean is %.4g, my running variance %.4g.",
  evaluates = "After one forward in evaluation my running mean is %.4g.",
  shares = "My output is %.4f and %.4f, my running mean %.4g, my weight.grad %.4f.",
  replicas = "Device 0's replica ended with %.4g, device 1's with %.4g; the model has %.4g.",
  finish = "Three kinds: each rank's own, of which rank 0's stay; all ranks' together; device 0's alone.",
  checks = {
    out = "iteration %d, rank %d: its own batch is normalised to -1 and 1",
    has = "iteration %d, rank %d: running mean %g, running variance %g",
    grad = "iteration %d, rank %d: weight.grad is 4",
    before = "iteration %d, rank %d: 16 bytes of buffers come before each forward",
    eval = "rank %d evaluates with rank 0's mean %g and variance %g",
    sync_out = "SyncBatchNorm, rank %d: the output is %.4f and %.4f",
    sync_has = "SyncBatchNorm, rank %d: running mean 0.4, running variance 2.766667",
    sync_grad = "SyncBatchNorm, rank %d: weight.grad is 7.4833",
    sync_sent = "SyncBatchNorm, rank %d: 12 bytes are gathered in the forward, 8 reduced in its backward",
    replica = "DataParallel: device 1's replica came to 0.7",
    model = "DataParallel: the model has device 0's mean 0.1, and variance 1.1",
    dp_out = "DataParallel: the output is -1, 1, -1, 1",
  },
  teacher = [[
Time: 9 minutes to predict, 10 in the viewer, 11 for the exercise.
On the board: two columns, rank 0 and rank 1; a row for each forward, with an arrow from rank 0's cell to rank 1's first.
Expected wrong answers: "0.4 and 0.4" (BatchNorm is thought to be synchronised), "1.33" (each keeps its own: a good
answer, and DDP with forward_sync_buffers = false), "0.79" when it evaluates. Below 30 % right on the first: let two
students be ranks and compute aloud. Between 30 and 70 %: let pairs agree on what each rank can see, ask again. Above: on.
In the viewer: break ddp.sync_buffers rank 1, c, c, c, :print ddp.module.running_mean, f, print again: 0.7 has become 0.1.
One new command: print rank R. Where rank 0 stands, :print rank 1 ddp.module.running_mean shows the other's.
SyncBatchNorm: let the class compute mean and variance of 0, 2, 4, 10 (4 and 14 by four; by three in the running one), and
ask a rank with no rows what it sends (zeros: the others wait for it). Smaller batches a rank are why it is used at all.
Next question: rank 0 alone calls ddp(x) to evaluate. What happens? (It waits in a broadcast: lesson 24.)
Two-minute fallback: ringside run, and read the lines of running means aloud.]],
}
local checks = text.checks

local batches = { [0] = { { 0.0 }, { 2.0 } }, { { 4.0 }, { 10.0 } } }
local expected = { [0] = { { 0.1, 1.1 }, { 0.19, 1.19 } }, { { 0.7, 2.7 }, { 0.79, 2.79 } } }

-- The loss weighs each output with its input: without that the weight's gradient would be 0 on both ranks.
local function train(rank, forwards)
  local ddp = nn.parallel.DistributedDataParallel(nn.BatchNorm1d(1))
  local norm, x, told = ddp.module, rs.tensor(batches[rank]), {}
  for i = 1, forwards do
    ddp:zero_grad()
    local out = ddp(x)
    local loss = (out * x):sum()
    loss:backward()
    told = { mean = norm.running_mean:item(), var = norm.running_var:item(), grad = norm.weight.grad:item(), out = out }
    rs.say(text.has:format(i, told.mean, told.var))
  end
  if forwards == 2 then
    told.eval = ddp:eval()(x)
    rs.say(text.evaluates:format(norm.running_mean:item()))
  end
  return told
end

rs.say(text.welcome)
rs.say(text.rule)
for forwards, asked in ipairs { { "one", "grads" }, { "two", "eval" } } do
  for _, name in ipairs(asked) do rs.ask(text[name]) end
  rs.say(text.run[forwards])
  local seq, told = rs.trace:seq(), dist.spawn(train, { world = 2, args = { forwards } })
  for rank = 0, 1 do
    local here, mean, var = told[rank], table.unpack(expected[rank][forwards])
    rs.close(checks.out:format(forwards, rank), here.out, rs.tensor { { -1.0 }, { 1.0 } }, 1e-5)
    rs.close(checks.has:format(forwards, rank, mean, var), { here.mean, here.var }, { mean, var })
    rs.close(checks.grad:format(forwards, rank), here.grad, 4, 1e-4)
    local zero = expected[0][forwards]
    local by_zero = (rs.tensor(batches[rank]) - zero[1]) / (zero[2] + 1e-5) ^ 0.5
    if here.eval then rs.close(checks.eval:format(rank, zero[1], zero[2]), here.eval, by_zero) end
    local order, both = "", "phase = begin and (ddp.sync_buffers or module = BatchNorm1d) and rank %d and seq >= %d"
    for _, event in ipairs(rs.trace:events(both:format(rank, seq))) do order = order .. (event.args.bytes or ", norm; ") end
    rs.check(checks.before:format(forwards, rank), order == ("16, norm; "):rep(2 * forwards - 1))
  end
end

-- Its input wants a gradient, as one that a layer before has made does: without that the backward sends nothing.
local function share(rank)
  local device = "device:" .. rank
  local norm = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm1d(1)):to(device)
  local ddp, x = nn.parallel.DistributedDataParallel(norm), rs.tensor(batches[rank]):to(device):requires_grad_()
  local out = ddp(x)
  ;(out * x):sum():backward()
  local told = { mean = norm.running_mean:item(), var = norm.running_var:item(), grad = norm.weight.grad:item(), out = out }
  rs.say(text.shares:format(out[0]:item(), out[1]:item(), told.mean, told.grad))
  return told
end

rs.ask(text.sync)
rs.ask(text.sends)
rs.say(text.run.sync)
local seq, told = rs.trace:seq(), dist.spawn(share, { world = 2 })
for rank, out in pairs { [0] = { -1.0690, -0.5345 }, { 0.0, 1.6036 } } do
  local here, sent = told[rank], {}
  rs.close(checks.sync_out:format(rank, out[1], out[2]), here.out:reshape { 2 }, rs.tensor(out), 1e-4)
  rs.close(checks.sync_has:format(rank), { here.mean, here.var }, { 0.4, 2.766667 })
  rs.close(checks.sync_grad:format(rank), here.grad, 7.4833, 1e-4)
  local shared = "module.sync_batch_norm or module.sync_batch_norm.backward"
  for i, event in ipairs(rs.trace:events(("phase = end and (%s) and rank %d and seq >= %d"):format(shared, rank, seq))) do
    sent[i] = event.args.bytes
  end
  rs.close(checks.sync_sent:format(rank), sent, { 12, 8 })
end

rs.ask(text.dp)
local norm, seen = nn.BatchNorm1d(1):to("device:0"), {}
norm:register_forward_hook(function(replica, _, out) seen[out.device] = replica.running_mean:item() end)
local out = nn.DataParallel(norm)(rs.tensor { { 0.0 }, { 2.0 }, { 4.0 }, { 10.0 } }:to("device:0"))
rs.say(text.replicas:format(seen["device:0"], seen["device:1"], norm.running_mean:item()))
rs.close(checks.replica, seen["device:1"], 0.7)
rs.close(checks.model, { norm.running_mean:item(), norm.running_var:item() }, { 0.1, 1.1 })
rs.close(checks.dp_out, out:tolist(), { { -1 }, { 1 }, { -1 }, { 1 } }, 1e-5)

rs.say(text.finish)
rs.teacher(text.teacher)
