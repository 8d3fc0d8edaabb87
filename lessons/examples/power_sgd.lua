-- What PowerSGD saves and what it costs: the same training with plain all-reduces and with gradients that travel as two thin
-- matrices, of several ranks, with error feedback and without. PyTorch's tutorial "DDP Communication Hooks".
--     ringside run power_sgd
local rs = require "ringside"
local nn, optim, dist = rs.nn, rs.optim, rs.distributed
local power = dist.algorithms.ddp_comm_hooks.powerSGD_hook

rs.lesson { title = "PowerSGD against plain all-reduces", hardware = "ethernet-10g", devices = 0 }

local WORLD, STEPS, BATCH, START = 2, 40, 16, 4

-- A teacher's answers to random questions; each rank asks its own.
local function batch(teacher)
  local x = rs.randn(BATCH, 48)
  return x, rs.no_grad(function() return rs.tanh(x:matmul(teacher)) end)
end

local function train(rank, hook, options)
  rs.manual_seed(0)                                  -- the same weights and the same teacher everywhere
  local teacher = rs.randn(48, 12) / 4
  local net = nn.Sequential(nn.Linear(48, 40), nn.Tanh(), nn.Linear(40, 12))
  local ddp = nn.parallel.DistributedDataParallel(net)
  local state
  if hook then
    options.start_powerSGD_iter, options.min_compression_rate = START, 1
    state = power.PowerSGDState(nil, options)
    ddp:register_comm_hook(state, hook)
  end
  local optimizer = optim.SGD(ddp:parameters(), { lr = 0.5 })
  rs.manual_seed(rank + 1)
  local first, last
  for step = 1, STEPS do
    local x, y = batch(teacher)
    optimizer:zero_grad()
    local loss = nn.functional.mse_loss(ddp(x), y)
    loss:backward()
    optimizer:step()
    first, last = first or loss:item(), loss:item()
  end
  return first, last, state
end

local WAYS = {
  { "plain all-reduce" },
  { "PowerSGD, rank 1", "powerSGD_hook", { matrix_approximation_rank = 1 } },
  { "PowerSGD, rank 1, without error feedback", "powerSGD_hook", { matrix_approximation_rank = 1, use_error_feedback = false } },
  { "PowerSGD, rank 2", "powerSGD_hook", { matrix_approximation_rank = 2 } },
  { "PowerSGD, rank 4", "powerSGD_hook", { matrix_approximation_rank = 4 } },
  { "batched PowerSGD, rank 1", "batched_powerSGD_hook", { matrix_approximation_rank = 1 } },
}

dist.spawn(function(rank)
  for _, way in ipairs(WAYS) do
    local name, hook, options = table.unpack(way, 1, 3)
    local first, last, state = train(rank, hook and power[hook], options)
    print(("Rank %d, %s: loss from %.3f to %.3f"):format(rank, name, first, last))
    if state and rank == 0 then
      local rate, before, after = state:compression_stats()
      local steps = STEPS - START
      print(("  %d bytes a step instead of %d: %.2f times less"):format(4 * after // steps, 4 * before // steps, rate))
    end
  end
end, { world = WORLD })
