-- Lesson 23: mean of means.
--
-- DDP adds the ranks' gradients and divides by the number of ranks, whatever the ranks hold. Is that the gradient of the
-- mean over all samples? Only if all have as many. And the loss that you print is your rank's own: nobody averages it.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

rs.lesson {
  title = "Mean of means",
  hardware = "classroom",
  seed = 23,
  minutes = 25,
  needs = "07, 17",
}

local hidden = { "ddp", "autograd", "c10d", "comm" } -- kept back while a question is open
local text = {
  welcome = "One weight, w = 1, the output is w x. Rank 0 has three samples, 1, 2 and 3; rank 1 has one, 10.",
  mean = {
    question = "Each rank's loss is the mean of its outputs. DDP averages the gradients. What is w.grad?",
    choices = { "4", "6", "12" },
    answer = "6",
    why = "The ranks' own gradients are 2 and 10. DDP adds them and divides by two: by ranks, not by samples.",
    wrong = {
      ["4"] = "That is the mean over the four samples. But DDP does not know how many each rank has.",
      ["12"] = "That is the sum of 2 and 10. DDP divides it by the number of ranks.",
    },
    hides = hidden,
  },
  truth = {
    question = "One process with all four samples: the mean of its outputs, backward. What is w.grad there?",
    choices = { "4", "6" },
    answer = "4",
    why = "(1 + 2 + 3 + 10) / 4. Each sample counts a quarter. In DDP rank 1's one sample counted a half.",
    wrong = { ["6"] = "6 is a mean of two means. The 10 alone made half of it." },
    hides = "autograd",
  },
  sum = {
    question = "Back to DDP. Now each rank's loss is the sum of its outputs. What is w.grad?",
    choices = { "4", "8", "16" },
    answer = "8",
    why = "6 and 10, divided by two ranks. Each sample counts alike now, but the whole is twice the true mean: 4 samples / 2 ranks.",
    wrong = {
      ["4"] = "For that somebody has to divide by four samples. DDP divides by two ranks.",
      ["16"] = "That is the sum over all. DDP divides it by the number of ranks.",
    },
    hides = hidden,
  },
  weight = {
    question = "Back to means. By what does rank 0 multiply its mean, so that DDP comes to 4?",
    choices = { "3/4", "3/2", "3" },
    answer = "3/2",
    why = "N n_local / n_total: 2 * 3 / 4 here, 2 * 1 / 4 on rank 1. The N cancels DDP's division, the rest is the share of samples.",
    wrong = {
      ["3/4"] = "That is its share of the samples. But DDP still divides by two.",
      ["3"] = "3 times its mean is its sum: that was the case before.",
    },
    hides = hidden,
  },
  grads = { mean = "Mean: %g on both ranks.", sum = "Sum: %g on both ranks.", weighted = "Means, weighted with 3/2 and 1/2: %g on both ranks." },
  alone = "One process, four samples: %g.",
  logged = {
    question = "Each rank prints the mean loss of its samples after the forward. What stands in the two logs?",
    choices = { "4 and 4", "6 and 6", "2 and 10" },
    answer = "2 and 10",
    why = "Between loss and backward nothing travels. Gradients are averaged, losses are not: each log tells of its own samples.",
    wrong = {
      ["4 and 4"] = "For that the ranks would have to speak about their losses. Nobody does.",
      ["6 and 6"] = "So it would be after an all-reduce. DDP makes none for a loss.",
    },
    hides = hidden,
  },
  own = "Rank 0 prints %g, rank 1 prints %g. And one all-reduce a rank: 4 bytes, the gradient.",
  reduced = "The losses all-reduced and halved: %g, a mean of means again. Sums and counts all-reduced, then divided: %g.",
  rate = {
    question = "Two ranks with 8 samples each learn as one process with 16. With which learning rate?",
    choices = { "twice as much", "the same", "half as much" },
    answer = "the same",
    why = "Equal shares: the mean of means is the mean. DDP's gradient is that of the 16. Scale the rate only if the global batch grows.",
    wrong = {
      ["twice as much"] = "That rule is for a batch twice as large: two ranks with 16 each.",
      ["half as much"] = "It would be right if DDP added. It divides by the ranks.",
    },
    hides = { "ddp", "autograd", "c10d", "comm", "optim" },
  },
  alike = "After three steps: %.6f on two ranks, %.6f alone.",
  finish = "DDP divides by ranks. Samples, tokens and logs are yours to count.",
  checks = {
    mean = "mean: rank %d's gradient is 6",
    truth = "one process with all samples has 4",
    sum = "sum: rank %d's gradient is 8",
    weighted = "weighted: rank %d's gradient is 4",
    logged = "the printed losses are 2 and 10",
    travels = "rank %d: one all-reduce, of the 4 bytes of the gradient, and none for the loss",
    quiet = "rank %d: nothing is sent between its loss and its backward",
    mean_log = "the all-reduced mean of the losses is 6",
    true_log = "sum over count is 4",
    alike = "rank %d, 8 of 16 samples: after three steps its weights are those of one process with all",
  },
  teacher = [[
Time: 8 minutes for the three gradients, 5 for the logs, 12 for the exercise.
On paper first: four samples in a row, and under each what it counts: mean 1/6 1/6 1/6 1/2, sum 1/2 each, weighted 1/4 each.
Expected wrong answers: "4" for the mean (most: DDP averages, so it must be the average), "3/4" for the weight, "6 and 6" for
the logs, "twice as much" (the linear scaling rule, told without its condition).
Below 30 % right on the mean: two students hold 2 and 10, a third may only add and halve. Above 70 %: go on.
In the viewer: break ddp.finalize_backward rank 0, c. :print weight.grad is 2, :print rank 1 weight.grad is 10; after f
:print weight.grad is 6. One new command: C (continue, backwards) goes back to the stop, and it is 2 again.
Where it bites: the last batch of an epoch, sequences of different lengths, samples that are dropped, gradient accumulation.
Next question: three ranks with 5, 5 and 2 samples, whose weights? (3 * 5/12, 5/4 again, 1/2.)
Two-minute fallback: ringside run, and the question about the logs by show of hands.]],
}
local checks = text.checks
local samples = { [0] = rs.tensor { { 1.0 }, { 2.0 }, { 3.0 } }, rs.tensor { { 10.0 } } }

local function one_weight()
  local layer = nn.Linear(1, 1, { bias = false })
  nn.init.constant_(layer.weight, 1)
  return layer
end

-- How a rank makes its loss of its outputs.
local losses = {
  mean     = function(out) return out:mean() end,
  sum      = function(out) return out:sum() end,
  weighted = function(out)
    local total = rs.tensor { out:numel() }
    dist.all_reduce(total)
    return out:mean() * (dist.get_world_size() * out:numel() / total:item())
  end,
}

-- One backward: the gradient of each rank.
local function gradients(loss)
  return dist.spawn(function(rank)
    local ddp = nn.parallel.DistributedDataParallel(one_weight())
    loss(ddp(samples[rank])):backward()
    return ddp.module.weight.grad:item()
  end, { world = 2 })
end

rs.say(text.welcome)
for _, name in ipairs { "mean", "sum", "weighted" } do
  rs.ask(text[name == "weighted" and "weight" or name])
  local grads = gradients(losses[name])
  rs.say(text.grads[name]:format(grads[0]))
  for rank = 0, 1 do rs.close(checks[name]:format(rank), grads[rank], name == "mean" and 6 or name == "sum" and 8 or 4) end
  if name == "mean" then
    rs.ask(text.truth)
    local alone = one_weight()
    alone(rs.cat({ samples[0], samples[1] })):mean():backward()
    rs.say(text.alone:format(alone.weight.grad:item()))
    rs.close(checks.truth, alone.weight.grad:item(), 4)
  end
end

-- What each rank prints, what its trace has meanwhile, and the two logs that all ranks agree on.
rs.ask(text.logged)
local logs = dist.spawn(function(rank)
  local ddp = nn.parallel.DistributedDataParallel(one_weight())
  local made = rs.trace:seq()
  local function sent() return rs.trace:count(("c10d and rank %d and seq >= %d"):format(rank, made)) end
  local out = ddp(samples[rank])
  local loss = out:mean()
  local printed, before = loss:item(), sent()
  loss:backward()
  local reduced = rs.trace:events(("c10d.allreduce and rank %d and seq >= %d"):format(rank, made))
  local mean, both = loss:detach(), rs.tensor { out:sum():item(), out:numel() + 0.0 }
  dist.all_reduce(mean, { op = "avg" })
  dist.all_reduce(both)
  return { printed = printed, before = before, calls = #reduced, bytes = reduced[1].args.bytes,
    mean = mean:item(), truth = both[0]:item() / both[1]:item() }
end, { world = 2 })
rs.say(text.own:format(logs[0].printed, logs[1].printed))
rs.close(checks.logged, { logs[0].printed, logs[1].printed }, { 2, 10 })
for rank = 0, 1 do
  rs.close(checks.quiet:format(rank), logs[rank].before, 0)
  rs.close(checks.travels:format(rank), { logs[rank].calls, logs[rank].bytes }, { 1, 4 })
end
rs.say(text.reduced:format(logs[0].mean, logs[0].truth))
rs.close(checks.mean_log, { logs[0].mean, logs[1].mean }, { 6, 6 })
rs.close(checks.true_log, { logs[0].truth, logs[1].truth }, { 4, 4 })

-- Sixteen samples; the ranks take eight each.
rs.ask(text.rate)
local x = rs.arange(32, { dtype = "float32" }):sin():view { 16, 2 }
local y = x:sum(1, true) * 2
local function three_steps(net, part, rows)
  local optimizer = rs.optim.SGD(net:parameters(), { lr = 0.1 })
  for _ = 1, 3 do
    optimizer:zero_grad()
    nn.functional.mse_loss(net(x:narrow(0, part * rows, rows)), y:narrow(0, part * rows, rows)):backward()
    optimizer:step()
  end
end
local function begin()
  local net = nn.Linear(2, 1)
  nn.init.constant_(net.weight, 0.5)
  nn.init.zeros_(net.bias)
  return net
end
local alone = begin()
three_steps(alone, 0, 16)
local learned = dist.spawn(function(rank)
  local net = begin()
  three_steps(nn.parallel.DistributedDataParallel(net), rank, 8)
  return { net.weight:tolist(), net.bias:tolist() }
end, { world = 2 })
rs.say(text.alike:format(learned[0][1][1][1], alone.weight[0][0]:item()))
for rank = 0, 1 do
  rs.close(checks.alike:format(rank), learned[rank], { alone.weight:tolist(), alone.bias:tolist() }, 1e-6)
end

rs.say(text.finish)
rs.teacher(text.teacher)
