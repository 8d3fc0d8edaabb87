-- Training under PowerSGD with PyTorch's own random Q: gradients, what the states remember, what travelled.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
local power = dist.algorithms.ddp_comm_hooks.powerSGD_hook
rs.lesson { title = "PowerSGD", devices = 0 }

local CASES = {
  { "rank1", "powerSGD_hook", { matrix_approximation_rank = 1, min_compression_rate = 1 } },
  { "rank2-epsilon", "powerSGD_hook", { matrix_approximation_rank = 2, min_compression_rate = 1, orthogonalization_epsilon = 1e-3 } },
  { "rank3-together", "powerSGD_hook", { matrix_approximation_rank = 3, min_compression_rate = 0.5,
    batch_tensors_with_same_shape = true } },
  { "seed", "powerSGD_hook", { matrix_approximation_rank = 2, min_compression_rate = 1, random_seed = 12345 } },
  { "no-feedback", "powerSGD_hook", { use_error_feedback = false, min_compression_rate = 1 } },
  { "cold", "powerSGD_hook", { matrix_approximation_rank = 2, warm_start = false, min_compression_rate = 1 } },
  { "rate", "powerSGD_hook", { min_compression_rate = 3 } },
  { "batched", "batched_powerSGD_hook", {} },
  { "batched-rank2-cold", "batched_powerSGD_hook", { matrix_approximation_rank = 2, warm_start = false } },
}

local function numbers(name, t)
  local out = { name }
  for _, value in ipairs(t:detach():flatten():tolist()) do out[#out + 1] = string.format("%.9g", value) end
  return table.concat(out, " ")
end

local function every(t, step) return t:flatten()[{ rs.slice(nil, nil, step) }] end

local function work(rank)
  local lines = {}
  for _, case in ipairs(CASES) do
    local name, options = case[1], case[3]
    rs.manual_seed(3)
    local net = nn.Sequential(nn.Linear(9, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
    local ddp = nn.parallel.DistributedDataParallel(net)
    options.start_powerSGD_iter = 2
    local state = power.PowerSGDState(nil, options)
    ddp:register_comm_hook(state, power[case[2]])
    local optimizer = rs.optim.SGD(net:parameters(), { lr = 0.1 })
    rs.manual_seed(rank)
    for step = 0, 4 do
      optimizer:zero_grad()
      local loss = ddp(rs.randn { 6, 9 }):pow(2):mean()
      loss:backward()
      optimizer:step()
      lines[#lines + 1] = numbers(("%s-%d-loss-%d"):format(name, step, rank), loss:reshape { 1 })
      local grads = {}
      for i, p in ipairs(net:parameters()) do grads[i] = p.grad:flatten() end
      lines[#lines + 1] = numbers(("%s-%d-grad-%d"):format(name, step, rank), every(rs.cat(grads), 17))
      for _, what in ipairs { "error", "p", "q" } do
        local memory = state[what == "error" and "error_dict" or what .. "_memory_dict"]
        if memory[0] then lines[#lines + 1] = numbers(("%s-%d-%s0-%d"):format(name, step, what, rank), every(memory[0], 7)) end
      end
    end
    lines[#lines + 1] = numbers(name .. "-draw", rs.randn { 2 })
    local rate, before, after = state:compression_stats()
    lines[#lines + 1] = ("%s-stats= %d %.6f %d %d %d"):format(name, state.iter, rate, before, after, state.next_stats_report)
  end
  return lines
end

local ranks = dist.spawn(work, { world = 2 })
for rank = 0, 1 do
  for _, line in ipairs(ranks[rank]) do print(line) end
end
