-- Checks of exercise 36. When it stops, the optimizer and the schedule vary; the run in one go is the judge, and what is
-- missing is told by the first loss that differs.
local rs = require "ringside"
local nn, dist, data = rs.nn, rs.distributed, rs.utils.data

local STOP, LAST = rs.vary(4, { 2, 5, 7 }), 9
local name, period = rs.vary("SGD", { "Adam", "AdamW" }), rs.vary(3, { 2, 4 })
rs.lesson { title = "Exercise: resume exactly", hardware = "classroom", seed = 36 }

local text = {
  checks = {
    later = "a state stays what it was while training goes on",
    weights = "the first loss after the stop is made with the saved weights, the next batch and the same dropout",
    steps = "the second one, too: the optimizer's memory is there",
    all = "and all others: the schedule goes on",
    plain = "plain: a network without DDP loads it",
    kept = "and the state still fits DDP",
  },
  hints = {
    weights = {
      "What does a forward read? Weights, a batch, and what dropout draws.",
      "run.loader:state_dict() knows the place in the pass, rs.get_rng_state() where the generator stands.",
      "Put the generator's state back last: whatever is made before may draw.",
    },
    steps = { "run.opt:state_dict(), and its load_state_dict." },
    all = { "run.schedule has a state_dict, too." },
    later = {
      "state_dict answers the very tensors. The next step writes into them.",
      "Copy them: t:clone() for each, in the optimizer's tables as well.",
    },
    plain = { "nn.modules.utils.consume_prefix_in_state_dict_if_present(dict, \"module.\")." },
    kept = { "It changes the table that it gets: give it a copy." },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()
local save, resume = student.save, student.resume

local function network() return nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.3), nn.Linear(8, 1)) end
local function make(rank)
  rs.manual_seed(5)
  local set = data.TensorDataset(rs.randn(60, 3), rs.randn(60, 1))
  local ddp = nn.parallel.DistributedDataParallel(network())
  local opt = rs.optim[name](ddp:parameters(), name == "SGD" and { lr = 0.1, momentum = 0.9 } or { lr = 0.05 })
  rs.manual_seed(70 + rank)
  return { ddp = ddp, opt = opt, schedule = rs.optim.lr_scheduler.StepLR(opt, period, 0.5),
    loader = data.DataLoader(set, { batch_size = 3, sampler = data.DistributedSampler(set) }) }
end
-- The losses from step `from` + 1 to LAST; after step STOP `stopped` is called.
local function train(run, from, stopped)
  local losses, step = {}, from
  for x, y in run.loader do
    step = step + 1
    run.opt:zero_grad()
    local loss = ((run.ddp(x) - y) ^ 2):mean()
    loss:backward()
    run.opt:step()
    run.schedule:step()
    losses[#losses + 1] = loss:item()
    if step == STOP and stopped then stopped() end
    if step == LAST then break end
  end
  return losses
end

-- What was saved after STOP steps, when it is looked at: at once, and at the end.
local kept, states = pcall(dist.spawn, function(rank)
  local run, state, before = make(rank), nil, nil
  train(run, 0, function()
    state  = save(run)
    before = state.model and state.model["module.0.weight"]:tolist()
  end)
  return { before, state.model and state.model["module.0.weight"]:tolist() or {} }
end, { world = 2 })
rs.close(checks.later, kept and states[0][2], kept and states[0][1] or {}, 0, { hints = hints.later })

-- The state is taken in the midst of a run that goes on to its end.
local worked, first = pcall(dist.spawn, function(rank)
  local run, state = make(rank), nil
  local losses = train(run, 0, function() state = save(run) end)
  return { losses = { table.unpack(losses, STOP + 1) }, state = state }
end, { world = 2 })
local again, second = pcall(dist.spawn, function(rank)
  local run = make(rank)
  rs.manual_seed(1000 + rank)
  resume(run, first[rank].state)
  return train(run, STOP)
end, { world = 2 })
local wanted, got = {}, {}
for rank = 0, 1 do
  wanted[rank + 1] = worked and first[rank].losses or { 0 }
  got[rank + 1]    = again and second[rank] or {}
end
local function of(losses, from, to)
  return { { table.unpack(losses[1], from, to) }, { table.unpack(losses[2], from, to) } }
end
rs.close(checks.weights, of(got, 1, 1), of(wanted, 1, 1), 0, { hints = hints.weights })
rs.close(checks.steps, of(got, 2, 2), of(wanted, 2, 2), 0, { hints = hints.steps })
rs.close(checks.all, got, wanted, 0, { hints = hints.all })

local fits, dict = pcall(student.plain, worked and first[0].state or {})
local loads = fits and pcall(function() network():load_state_dict(dict) end)
rs.check(checks.plain, loads, { hints = hints.plain })
local fresh = nn.DataParallel(network())
rs.check(checks.kept, loads and pcall(function() fresh:load_state_dict(first[0].state.model) end), { hints = hints.kept })
