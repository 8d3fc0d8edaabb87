-- Lesson 36: stop, go on, and have the same losses.
--
-- A checkpoint is whatever the next step depends on: weights and buffers, the optimizer's memory, where the sampler stands,
-- where the random numbers stand. With all of it a run goes on as if it had never stopped, bit by bit.
local rs = require "ringside"
local nn, dist, data = rs.nn, rs.distributed, rs.utils.data

rs.lesson {
  title = "Resume exactly",
  devices = 2,
  hardware = "classroom",
  seed = 36,
  minutes = 30,
  needs = "13, 20",
}

local text = {
  welcome = "Two ranks, digits, a network with dropout, SGD with momentum. One run makes 14 steps; another stops after step 7.",
  stopped = "The state is what the first spawn returns: the model's and optimizer's of rank 0, for all; place and draws of each.",
  none = "none",
  all = {
    question = "A third run begins with that state. Which loss is the first that differs from the run in one go?",
    choices = { "step 8's", "step 9's", "none" },
    answer = "none",
    why = "All that step 8 reads is there again: weights, momentum, the same batch, the same dropout. So it is for step 14.",
    wrong = {
      ["step 8's"] = "Which of its inputs would be another one? All four came along.",
      ["step 9's"] = "Step 9 reads what step 8 has left, and step 8 was the same.",
    },
    hides = { "ddp", "module", "optim", "c10d" },
  },
  loader = {
    question = "Without the sampler's position: the loader begins its pass anew. Which loss differs first?",
    choices = { "step 8's", "step 9's", "none" },
    answer = "step 8's",
    why = "The new step 8 sees the first batch of the epoch, which step 1 had, instead of the eighth.",
    wrong = {
      ["step 9's"] = "The batch is what a loss is made of, and step 8 has another one.",
      none = "The order is the same, DistributedSampler draws it from seed and epoch. But it begins at its beginning.",
    },
    hides = { "ddp", "module", "optim", "c10d" },
  },
  rng = {
    question = "With the position, but without the random generator's state. Which loss differs first?",
    choices = { "step 8's", "step 9's", "none" },
    answer = "step 8's",
    why = "Dropout draws. A generator that stands elsewhere drops other units in the first forward.",
    wrong = {
      ["step 9's"] = "The forward of step 8 draws before it has a loss.",
      none = "The batches are the same: their order comes from the sampler. Who else draws? Dropout.",
    },
    hides = { "ddp", "module", "optim", "c10d" },
  },
  opt = {
    question = "And without the optimizer's state, the momentum? Which loss differs first?",
    choices = { "step 8's", "step 9's", "none" },
    answer = "step 9's",
    why = "Step 8's loss is made with the loaded weights: equal. Its step lacks the momentum, so the weights after it are others.",
    wrong = {
      ["step 8's"] = "The loss is there before the optimizer makes its step, and the weights were loaded.",
      none = "Momentum 0.9 remembers ten steps. A step without it goes elsewhere.",
    },
    hides = { "ddp", "module", "optim", "c10d" },
  },
  prefix = {
    question = "To evaluate, a plain network loads the state that DDP saved. What happens?",
    choices = { "it loads", "missing and unexpected keys", "half is loaded" },
    answer = "missing and unexpected keys",
    why = "DDP is a module, and the network is its child \"module\": every name begins with \"module.\".",
    wrong = {
      ["it loads"] = "Names decide, and DDP's begin with \"module.\".",
      ["half is loaded"] = "No name fits at all; and a strict load says so.",
    },
    hides = { "module" },
  },
  differs = "With %s: step 8's loss is %.9g in one go and %.9g resumed. First difference: %s.",
  told = "The plain network was told: %s",
  finish = "Save what the next step reads. Whatever is left out, some loss is the first to tell.",
  names = { all = "everything", loader = "all but the position", rng = "all but the generator", opt = "all but the optimizer" },
  step = "step %d's",
  checks = {
    first = "%s, rank %d: the first loss that differs is %s",
    same = "rank %d: the seven losses before the stop are those of the run in one go",
    device = "rank %d loads rank 0's model, and its weights stay on device:%d",
    momentum = "the optimizer remembers one buffer for each of 4 parameters",
    refused = "a plain network refuses DDP's names: all 4 missing, all 4 unexpected",
    consumed = "without the prefix they fit",
  },
  teacher = [[
Time: 8 minutes for the five questions, 10 in the viewer, 12 for the exercise.
On the board: four boxes, weights, momentum, place, draws, and an arrow from each into step 8. Which box does the loss read,
which only the step behind it?
Expected wrong answers: "step 8's" for the optimizer (the loss is thought to come after the step), "none" for the generator
(dropout is forgotten), "step 9's" for the position. Below 30 % right: let four students be the boxes, and one go home.
In the viewer: break optim rank 0, c, then print ddp.module.1.weight[0,0] before and after it.
One new key: /. At the end of the run /text ~ resumed Enter, then < from the last line with both losses to the one before.
Outside: ringside run --trace 36.trace 36, then ringside events 36.trace 'text ~ resumed'.
Next question: the same with four ranks? (A new DDP has its first buckets in the order of definition for one iteration. With
three ranks or more a sum's order depends on the place in a bucket, so the first step may differ in the last bit. Two ranks
add two numbers: no order. find_unused_parameters keeps the order for good.)
Two-minute fallback: the question about the optimizer, and its two losses.]],
}
local checks = text.checks
local STOP, LAST = 7, 14

-- Trains until step `last`, from `saved` or the beginning. Answers the losses by step, and the state.
local function train(rank, last, saved)
  rs.manual_seed(rank)
  local device = "device:" .. rank
  local net = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Dropout(0.25), nn.Linear(16, 10)):to(device)
  local ddp = nn.parallel.DistributedDataParallel(net)
  local opt = rs.optim.SGD(ddp:parameters(), { lr = 0.1, momentum = 0.9 })
  local set = data.TensorDataset(rs.data.digits { split = "train" })
  local loader = data.DataLoader(set, { batch_size = 16, sampler = data.DistributedSampler(set) })
  local losses, step, state = {}, 0, {}
  if saved then
    ddp:load_state_dict(saved.model)
    if saved.opt then opt:load_state_dict(saved.opt) end
    if saved.loader then loader:load_state_dict(saved.loader) end
    if saved.rng then rs.set_rng_state(saved.rng) end
    step = saved.step
  end
  for images, labels in loader do
    step = step + 1
    opt:zero_grad()
    local loss = nn.functional.cross_entropy(ddp(images:to(device)), labels:to(device))
    loss:backward()
    opt:step()
    losses[step] = loss:item()
    if step == last then
      state = { model = ddp:state_dict(), opt = opt:state_dict(), loader = loader:state_dict(), rng = rs.get_rng_state(), step = step }
      break
    end
  end
  return { losses = losses, state = state, device = net[0].weight.device }
end

rs.say(text.welcome)
local whole = dist.spawn(train, { world = 2, args = { LAST } })
local stopped = dist.spawn(train, { world = 2, args = { STOP } })
rs.say(text.stopped)
for rank = 0, 1 do
  rs.close(checks.same:format(rank), stopped[rank].losses, { table.unpack(whole[rank].losses, 1, STOP) }, 0)
end
rs.close(checks.momentum, #stopped[0].state.opt.state + 1, 4)

-- Goes on without `part`: both ranks' losses against those in one go.
local function resume(part, wanted)
  rs.ask(text[part])
  local states = {}
  for rank = 0, 1 do
    local own, zero = stopped[rank].state, stopped[0].state
    states[rank] = { model = zero.model, opt = zero.opt, loader = own.loader, rng = own.rng, step = own.step }
    states[rank][part] = nil
  end
  local resumed = dist.spawn(function(rank) return train(rank, LAST, states[rank]) end, { world = 2 })
  for rank = 0, 1 do
    local first, here, there = text.none, whole[rank].losses, resumed[rank].losses
    for step = LAST, STOP + 1, -1 do
      if here[step] ~= there[step] then first = text.step:format(step) end
    end
    if rank == 0 then rs.say(text.differs:format(text.names[part], here[STOP + 1], there[STOP + 1], first)) end
    rs.check(checks.first:format(text.names[part], rank, wanted), first == wanted)
    if part == "all" then rs.check(checks.device:format(rank, rank), resumed[rank].device == "device:" .. rank) end
  end
end
resume("all", text.none)
resume("loader", text.step:format(8))
resume("rng", text.step:format(8))
resume("opt", text.step:format(9))

rs.ask(text.prefix)
local plain = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Dropout(0.25), nn.Linear(16, 10))
local weights = stopped[0].state.model
local loads, why = pcall(plain.load_state_dict, plain, weights)
rs.say(text.told:format(why.message))
local _, names = why.message:gsub('"[%w.]+"', "")
rs.check(checks.refused, not loads and names == 8)
nn.modules.utils.consume_prefix_in_state_dict_if_present(weights, "module.")
plain:load_state_dict(weights)
rs.check(checks.consumed, rs.equal(plain[3].weight, weights["3.weight"]:cpu()))

rs.say(text.finish)
rs.teacher(text.teacher)
