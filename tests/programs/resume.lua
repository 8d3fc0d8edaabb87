-- Random trainings that are stopped and go on: models x optimizers x schedulers x samplers x options of
-- DistributedDataParallel. What was trained in one go and what was stopped after a drawn step must have the same losses,
-- weights, buffers and next random number, to the bit; the state goes from one spawn into the next, or by a file.
-- Arguments: first=SEED count=N file=PATH, show=1; without=PART leaves that part of the state out, and then losses must
-- differ. Prints a checksum for each seed, so that executors can be compared.
local rs = require "ringside"
rs.lesson { title = "Random trainings that are stopped", devices = 0, prefix = "" }
local nn, optim, dist, data = rs.nn, rs.optim, rs.distributed, rs.utils.data
local options = { first = 1, count = 10 }
for _, word in ipairs { ... } do
  local name, value = word:match("^(%w+)=(.+)$")
  options[name] = math.tointeger(value) or value
end
local SAMPLES, EPOCHS = 14, 3

-- ---- what is drawn ----

local random
local function draw(low, high)
  random = (random * 6364136223846793005 + 1442695040888963407)
  return low + ((random >> 33) % (high - low + 1))
end
local function one_of(list) return list[draw(1, #list)] end

local MODELS = { "plain", "dropout", "batchnorm", "embedding", "lstm", "tied", "sparse" }
local OPTIMIZERS = {
  { "SGD", { lr = 0.05 } }, { "SGD", { lr = 0.05, momentum = 0.9 } },
  { "SGD", { lr = 0.05, momentum = 0.8, nesterov = true, weight_decay = 0.01 } },
  { "SGD", { lr = 0.05, momentum = 0.8, dampening = 0.5, maximize = true } },
  { "Adam", { lr = 0.01 } }, { "Adam", { lr = 0.01, amsgrad = true, betas = { 0.8, 0.9 } } },
  { "AdamW", { lr = 0.01 } }, { "AdamW", { lr = 0.01, amsgrad = true, weight_decay = 0.1 } },
  { "Adagrad", { lr = 0.05, lr_decay = 0.1 } }, { "Adagrad", { lr = 0.05, initial_accumulator_value = 0.5 } },
}
local lr = optim.lr_scheduler
local SCHEDULES = {
  function() end,
  function(opt) return lr.StepLR(opt, 2, 0.5) end,
  function(opt) return lr.MultiStepLR(opt, { 1, 3, 4 }, 0.5) end,
  function(opt) return lr.ExponentialLR(opt, 0.9) end,
  function(opt) return lr.CosineAnnealingLR(opt, 5) end,
  function(opt) return lr.LinearLR(opt, { total_iters = 4 }) end,
  function(opt) return lr.LambdaLR(opt, function(epoch) return 1 / (1 + epoch) end) end,
  function(opt)
    return lr.SequentialLR(opt, { lr.LinearLR(opt, { total_iters = 2 }), lr.ExponentialLR(opt, 0.8) }, { 2 })
  end,
}
local SAMPLERS = { "distributed", "shuffled", "in order", "generator" }

local function drawn(seed)
  random = seed * 0x9e3779b97f4a7c15
  draw(1, 2)
  local p = { seed = seed, world = one_of { 1, 2, 2, 2, 3, 4 }, model = one_of(MODELS), opt = draw(1, #OPTIMIZERS),
    schedule = draw(1, #SCHEDULES), sampler = one_of(SAMPLERS), batch = draw(1, 3), file = draw(1, 2) == 1,
    groups = draw(1, 3) == 1, clip = draw(1, 3) == 1, ddp = {} }
  if draw(1, 2) == 1 then p.ddp.bucket_cap_mb = one_of { 0.00005, 0.0001, 25 } end
  if draw(1, 3) == 1 then p.ddp.gradient_as_bucket_view = true end
  if draw(1, 3) == 1 then p.ddp.find_unused_parameters = true end
  if draw(1, 4) == 1 then p.ddp.forward_sync_buffers = false end
  if draw(1, 4) == 1 then p.ddp.static_graph = true end
  -- Among three the order of a sum is the place in a bucket, and a new DDP has its buckets in the order of definition for
  -- one iteration: with find_unused_parameters it never changes, so it is the same before and after.
  if p.world > 2 then p.ddp.find_unused_parameters, p.ddp.static_graph = true, nil end
  if p.model == "sparse" then p.ddp.static_graph = nil end
  if p.model == "batchnorm" then p.batch = 5 end -- it leaves no batch of one
  local share = (p.sampler == "distributed") and math.ceil(SAMPLES / p.world) or SAMPLES
  p.steps = math.ceil(share / p.batch) * EPOCHS
  p.stop = draw(1, p.steps)
  return p
end

-- ---- one training ----

local Net = nn.Module("Net")
function Net:init(kind)
  self.kind = kind
  self.first = nn.Linear(4, 6)
  if kind == "dropout" then self.drop = nn.Dropout(0.4) end
  if kind == "batchnorm" then self.norm = nn.BatchNorm1d(6) end
  if kind == "embedding" or kind == "sparse" then self.embed = nn.Embedding(5, 6, { sparse = kind == "sparse" }) end
  if kind == "lstm" then self.lstm = nn.LSTM(6, 6, { batch_first = true, dropout = 0.2, num_layers = 2 }) end
  if kind == "tied" then
    self.second = nn.Linear(4, 6, { bias = false })
    self.second.weight = self.first.weight
  end
  self.last = nn.Linear(6, 1)
end
function Net:forward(x)
  local hidden = self.first(x):tanh()
  if self.drop then hidden = self.drop(hidden) end
  if self.norm then hidden = self.norm(hidden) end
  if self.embed then hidden = hidden + self.embed((x:select(1, 0):abs() * 2):clamp(0, 4):to("int64")) end
  if self.lstm then hidden = (self.lstm(hidden:unsqueeze(1))):squeeze(1) end
  if self.second then hidden = hidden * self.second(x) end
  return self.last(hidden)
end

local function make_optimizers(p, net)
  local name, settings = OPTIMIZERS[p.opt][1], OPTIMIZERS[p.opt][2]
  local params, rows = {}, {}
  for _, param in ipairs(net:parameters()) do
    local sparse = p.model == "sparse" and param == net.embed.weight
    table.insert(sparse and rows or params, param)
  end
  local groups = params
  if p.groups then
    groups = { { params = { table.unpack(params, 1, 1) }, lr = 0.02 }, { params = { table.unpack(params, 2) } } }
  end
  return optim[name](groups, settings), #rows > 0 and optim.SparseAdam(rows, { lr = 0.01 }) or nil
end

local function loader_of(p, set)
  local sampler
  if p.sampler == "distributed" then sampler = data.DistributedSampler(set, { seed = p.seed }) end
  local settings = { batch_size = p.batch, sampler = sampler }
  if p.sampler == "shuffled" or p.sampler == "generator" then settings.shuffle = true end
  if p.sampler == "generator" then settings.generator = rs.Generator():manual_seed(p.seed) end
  return data.DataLoader(set, settings), settings.generator
end

-- From `state` (or the beginning) to step `stop`. Answers the losses with what was left at the end, and the state.
local function without(name) return options.without == name end
local function train(rank, p, state, stop)
  rs.manual_seed(state and 999 or p.seed)
  local set = data.TensorDataset(rs.randn(SAMPLES, 4), rs.randn(SAMPLES, 1))
  if state then set = data.TensorDataset(state.x, state.y) end
  local ddp = nn.parallel.DistributedDataParallel(Net(p.model), p.ddp)
  local opt, rows = make_optimizers(p, ddp.module)
  local schedule = SCHEDULES[p.schedule](opt)
  local loader, generator = loader_of(p, set)
  local losses, epoch, step = {}, 0, 0
  rs.manual_seed(p.seed + rank + 1)
  if state then
    ddp:load_state_dict(state.model)
    if not without "opt" then opt:load_state_dict(state.opt) end
    if rows then rows:load_state_dict(state.rows) end
    if schedule and not without "schedule" then schedule:load_state_dict(state.schedule) end
    if generator then generator:set_state(state.generator) end
    if not without "loader" then loader:load_state_dict(state.loader) end
    if not without "rng" then rs.set_rng_state(state.rng) end
    epoch, step = state.epoch, state.step
  end
  local function now()
    return { model = ddp:state_dict(), opt = opt:state_dict(), rows = rows and rows:state_dict(), loader = loader:state_dict(),
      schedule = schedule and schedule:state_dict(), generator = generator and generator:get_state(),
      rng = rs.get_rng_state(), epoch = epoch, step = step, x = set.tensors[1], y = set.tensors[2] }
  end
  while epoch < EPOCHS do
    if p.sampler == "distributed" then loader.sampler:set_epoch(epoch) end
    for x, y in loader do
      opt:zero_grad()
      if rows then rows:zero_grad() end
      local loss = ((ddp(x) - y) ^ 2):mean()
      loss:backward()
      if p.clip and not rows then nn.utils.clip_grad_norm_(ddp:parameters(), 1.0) end
      opt:step()
      if rows then rows:step() end
      if schedule and step % 2 == 0 then schedule:step() end
      step = step + 1
      losses[#losses + 1] = string.pack("d", loss:item())
      if step == stop then return { losses = losses, state = now() } end
    end
    epoch = epoch + 1
  end
  local left = {}
  for _, name in ipairs(ddp:state_names()) do
    left[#left + 1] = string.pack("d", (ddp:state_dict()[name]:to("float64") * rs.sqrt(rs.tensor(2.0, { dtype = "float64" }))):sum():item())
  end
  losses[#losses + 1] = table.concat(left) .. rs.get_rng_state()
  return { losses = losses }
end

local function checksum(texts)
  local sum = 0
  for _, text in ipairs(texts) do
    for i = 1, #text do sum = sum * 1099511628211 ~ text:byte(i) end
  end
  return sum
end

local failed, differ = false, 0
for seed = options.first, options.first + options.count - 1 do
  local p, sum = drawn(seed), 0
  if options.show then print(p) end
  local whole = dist.spawn(train, { world = p.world, args = { p } })
  local first = dist.spawn(train, { world = p.world, args = { p, false, p.stop } })
  local states = {}
  for rank = 0, p.world - 1 do
    states[rank] = first[rank].state
    if p.file and options.file then
      rs.save(states[rank], options.file)
      states[rank] = rs.load(options.file)
    end
  end
  local same = true
  local rest = dist.spawn(function(rank) return train(rank, p, states[rank]) end, { world = p.world })
  for rank = 0, p.world - 1 do
    local all, early, late = whole[rank].losses, first[rank].losses, rest[rank].losses
    for step = 1, p.steps + 1 do
      local told = early[step] or late[step - p.stop]
      if told ~= all[step] then same = false end
      if told ~= all[step] and not failed and not options.without then
        failed = true
        print(("seed %d rank %d: step %d of %d differs, it was stopped after %d"):format(seed, rank, step, p.steps, p.stop), p)
      end
    end
    sum = sum * 31 + checksum(all)
  end
  if not same then differ = differ + 1 end
  print(("seed %d: %016x"):format(seed, sum))
end
if options.without then print(("%d of %d differ"):format(differ, options.count)) end
if failed then error("a training that was stopped went on in another way", 0) end
