-- Checks of exercise 18. All runs are made; what the student says is compared with them.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

local world, steps = rs.vary(2, { 3, 4 }), rs.vary(10, { 2, 6, 13 })
local base, gap = rs.vary(1, { 2, -3 }), rs.vary(6, { 2, 5 })
local rows = rs.vary(3, { 2, 5 }) -- of rank 0 for a SyncBatchNorm; rank 1 has two less
rs.lesson { title = "Exercise: statistics of one's own", hardware = "classroom", seed = 18, devices = 4 }

local text = {
  checks = {
    synced = "rank %d's running_mean after %d steps",
    own = "rank %d's running_mean after %d steps without synchronised buffers",
    shared_mean = "SyncBatchNorm's running_mean after %d steps, batches of %s numbers",
    shared_var = "SyncBatchNorm's running_var after %d steps, batches of %s numbers",
    differs = "%s, %s: another in the two runs?",
  },
  rank_0 = "rank 0",
  others = "any other rank",
  hints = {
    mean = {
      "running = 0.9 x running + 0.1 x the mean of the batch, from 0, so many times.",
      "Not synchronised, a rank goes on from its own running mean; synchronised, from rank 0's.",
      "Rank 0's comes before a forward. So the last 0.1 is the rank's own, and all before is rank 0's.",
    },
    shared = {
      "A SyncBatchNorm's batch is that of all ranks: the same on each of them, in every step.",
      "A rank with more numbers counts for more. The mean of the ranks' means is not the mean of all.",
      "Variance: squares of the distances to the mean of all, divided by how many there are less one.",
      "With the same batch in each step 0.9 of what was there stays: after n steps 0.9 ^ n of the beginning.",
    },
    training_loss = { "What does a BatchNorm in training normalise with?", "With its batch's own mean: the running one is only written." },
    gradient = { "Does any running statistic take part in the forward or in the backward of a step?" },
    running_mean = { "On which rank do rank 0's buffers change nothing?", "On rank 0 itself." },
    evaluation_loss = { "In evaluation the running statistics are read. With whose does each rank compute, in each run?" },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()

local function mean_of(rank) return base + gap * rank * 1.0 end

local function train(rank, synced)
  rs.manual_seed(18)
  local ddp = nn.parallel.DistributedDataParallel(nn.BatchNorm1d(1), { forward_sync_buffers = synced })
  local norm, x = ddp.module, rs.tensor { { mean_of(rank) - rank - 1 }, { mean_of(rank) + rank + 1 } }
  local optimizer, told = rs.optim.SGD(norm:parameters(), { lr = 0.01 }), {}
  for step = 1, steps do
    optimizer:zero_grad()
    local loss = (ddp(x) * x):sum()
    loss:backward()
    optimizer:step()
    told.training_loss, told.gradient = loss:item(), norm.weight.grad:item()
  end
  told.running_mean = norm.running_mean:item()
  told.evaluation_loss = (ddp:eval()(x) * x):sum():item()
  return told
end

local synced = dist.spawn(train, { world = world, args = { true } })
local own = dist.spawn(train, { world = world, args = { false } })

-- A copy for each call: what a function does to its list is not what the next one gets.
local function means()
  local list = {}
  for rank = 0, world - 1 do list[rank] = mean_of(rank) end
  return list
end
for _, rank in ipairs { 0, world - 1 } do
  rs.close(checks.synced:format(rank, steps), student.running_mean(means(), rank, steps, true),
    synced[rank].running_mean, 1e-4, { hints = hints.mean })
  rs.close(checks.own:format(rank, steps), student.running_mean(means(), rank, steps, false),
    own[rank].running_mean, 1e-4, { hints = hints.mean })
end

local differs = type(student.differs) == "table" and student.differs or {}
for _, who in ipairs { { "rank_0", 0 }, { "others", world - 1 } } do
  local said = type(differs[who[1]]) == "table" and differs[who[1]] or {}
  for _, what in ipairs { "training_loss", "gradient", "running_mean", "evaluation_loss" } do
    rs.check(checks.differs:format(text[who[1]], what), said[what] == (synced[who[2]][what] ~= own[who[2]][what]),
      { hints = hints[what] })
  end
end

-- Of unequal length, so that a mean of means will not do; rank 1's may be empty.
local counts, drawn = {}, {}
for rank = 0, world - 1 do counts[rank] = rank == 1 and rows - 2 or rows + rank end
for rank = 0, world - 1 do
  drawn[rank] = {}
  for i = 1, counts[rank] do drawn[rank][i] = base + gap * rank + i * i * 0.5 end
end

local function share(rank)
  local norm, device = nn.SyncBatchNorm(1), "device:" .. rank
  local x = rs.tensor(drawn[rank], { dtype = "float32" }):reshape { -1, 1 }:to(device)
  norm:to(device)
  for _ = 1, steps do norm(x) end
  return { norm.running_mean:item(), norm.running_var:item() }
end

local shared = dist.spawn(share, { world = world })[0]
local copies = {}
for rank = 0, world - 1 do copies[rank] = { table.unpack(drawn[rank]) } end
local mean, variance = student.shared(copies, steps)
local lengths = table.concat(counts, ", ", 0, world - 1)
rs.close(checks.shared_mean:format(steps, lengths), mean, shared[1], 1e-4, { hints = hints.shared })
rs.close(checks.shared_var:format(steps, lengths), variance, shared[2], 1e-4, { hints = hints.shared })
